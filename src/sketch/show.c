/*-------------------------------------------------------------------------
 *
 * show.c
 *	  Keys and values of a sketch as columns of a result.
 *
 *-------------------------------------------------------------------------
 */
#include "sketch/show.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

void
iblt_show(IbltShown *shown, FunctionCallInfo fcinfo, Oid type,
		  const IbltParams *params, bool of_value)
{
	Oid			output;
	bool		is_varlena;

	shown->coder = NULL;
	shown->as_text = !OidIsValid(type);
	if (of_value && params->value.kind == IBLT_KEY_UNTYPED)
		return;
	if (!shown->as_text)
	{
		shown->coder = iblt_key_coder_as_asked(fcinfo, type, params, of_value);
		return;
	}
	shown->coder = iblt_key_coder_for_params(params, of_value);
	getTypeOutputInfo(iblt_key_type(shown->coder), &output, &is_varlena);
	fmgr_info(output, &shown->output);
}

/* The datum that these bytes stand for. */
static Datum
show_bytes(const IbltShown *shown, const uint8 *bytes, unsigned limbs)
{
	Datum		datum = iblt_key_decode(shown->coder, bytes, limbs);

	if (!shown->as_text)
		return datum;
	return CStringGetTextDatum(OutputFunctionCall((FmgrInfo *) &shown->output,
												  datum));
}

Datum
iblt_show_key(const IbltShown *shown, const IbltSketch *sketch,
			  const IbltEntry *entry)
{
	return show_bytes(shown, entry->key, sketch->params.limbs);
}

Datum
iblt_show_value(const IbltShown *shown, const IbltSketch *sketch,
				const IbltEntry *entry, bool *isnull)
{
	uint8		value[8 * IBLT_MAX_LIMBS];

	*isnull = !iblt_core_entry_value(sketch, entry, value);
	return *isnull ? (Datum) 0
		: show_bytes(shown, value, sketch->params.value.limbs);
}
