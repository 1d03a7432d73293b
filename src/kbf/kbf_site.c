/*-------------------------------------------------------------------------
 *
 * kbf_site.c
 *	  The call sites of kbf_agg, and its values of groups without rows.
 *
 *-------------------------------------------------------------------------
 */
#include "kbf/kbf_site.h"

/*
 * The parameters that the third argument stands for, with labels in
 * CurrentMemoryContext.  Values of an enum type bring their labels along, with
 * a template those that the type got at its end.
 */
static void
take_third(IbltAggSite *base, Datum value)
{
	IbltKbfSite *site = (IbltKbfSite *) base;
	IbltKbfParams *params = &site->params;
	Oid			value_type = base->value_type;
	IbltKbf		template;

	memset(params, 0, sizeof *params);
	memset(site->cache, 0, sizeof site->cache);
	site->value_kind = iblt_kbf_value_kind(value_type);
	if (base->third == IBLT_THIRD_TEMPLATE)
	{
		iblt_kbf_open(&template, value);
		*params = template.params;
		if (site->value_kind == IBLT_KBF_ENUM)
			(void) iblt_kbf_labels_follow(params, value_type);
		return;
	}
	params->values = IBLT_KBF_DEFAULT_VALUES;
	switch (site->value_kind)
	{
		case IBLT_KBF_INTEGER:
			break;
		case IBLT_KBF_ENUM:
			iblt_kbf_labels_from_enum(params, value_type);
			break;
		case IBLT_KBF_TEXT:
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("kbf_agg of labels needs a template with these labels"),
					 errhint("Pass kbf_new(capacity, labels => ...) in place of the capacity.")));
	}
	iblt_kbf_params_make(params, DatumGetInt32(value),
						 IBLT_KBF_DEFAULT_FAILURE,
						 IBLT_KBF_DEFAULT_SUPERPOSED, 0);
}

static struct varlena *
make_empty(IbltAggSite *base)
{
	IbltKbfSite *site = (IbltKbfSite *) base;

	if (base->coder != NULL)
		iblt_kbf_set_key(base->coder, &site->params);
	return iblt_kbf_make_empty(&site->params);
}

const IbltAggKind iblt_kbf_kind = {
	"kbf_agg", sizeof(IbltKbfSite), false, false, take_third, make_empty, iblt_kbf_state_value
};

unsigned
iblt_kbf_site_value(IbltKbfSite *site, Datum value)
{
	unsigned	slot;
	unsigned	found;

	if (site->value_kind != IBLT_KBF_ENUM)
		return iblt_kbf_value(&site->params, site->base.value_type, value);
	slot = DatumGetObjectId(value) % IBLT_KBF_CACHED_LABELS;
	if (site->cache[slot].label == DatumGetObjectId(value))
		return site->cache[slot].value;
	found = iblt_kbf_value(&site->params, site->base.value_type, value);
	site->cache[slot].label = DatumGetObjectId(value);
	site->cache[slot].value = found;
	return found;
}

const uint64 *
iblt_kbf_site_codes(IbltKbfSite *site, FunctionCallInfo fcinfo)
{
	const IbltKbfParams *params = &site->params;
	uint64	  **codes = &site->codes[params->degree][params->superposed];

	if (*codes == NULL)
	{
		*codes = MemoryContextAlloc(fcinfo->flinfo->fn_mcxt,
									sizeof(uint64) << params->degree);
		iblt_core_kbf_codes(params, *codes);
	}
	return *codes;
}
