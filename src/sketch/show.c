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

static void
show_as_text(IbltShown *shown, IbltKeyCoder *coder)
{
	Oid			output;
	bool		is_varlena;

	shown->coder = coder;
	shown->as_text = true;
	getTypeOutputInfo(iblt_key_type(coder), &output, &is_varlena);
	fmgr_info(output, &shown->output);
}

void
iblt_show_keys_as_text(IbltShown *shown, const IbltParams *params)
{
	show_as_text(shown, iblt_key_coder_for_params(params, CurrentMemoryContext));
}

void
iblt_show_values_as_text(IbltShown *shown, const IbltParams *params)
{
	shown->coder = NULL;
	if (params->value.kind != IBLT_KEY_UNTYPED)
		show_as_text(shown, iblt_key_coder_for_values(params, CurrentMemoryContext));
}

void
iblt_show_keys(IbltShown *shown, FunctionCallInfo fcinfo, Oid type,
			   const IbltParams *params)
{
	shown->coder = iblt_key_coder_as_asked(fcinfo, type, params, false);
	shown->as_text = false;
}

void
iblt_show_values(IbltShown *shown, FunctionCallInfo fcinfo, Oid type,
				 const IbltParams *params)
{
	shown->coder = NULL;
	shown->as_text = false;
	if (params->value.kind != IBLT_KEY_UNTYPED)
		shown->coder = iblt_key_coder_as_asked(fcinfo, type, params, true);
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

	*isnull = shown->coder == NULL ||
		!iblt_core_entry_value(sketch, entry, value);
	return *isnull ? (Datum) 0
		: show_bytes(shown, value, sketch->params.value.limbs);
}
