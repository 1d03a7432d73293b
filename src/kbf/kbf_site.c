/*-------------------------------------------------------------------------
 *
 * kbf_site.c
 *	  The call sites of kbf_agg, and the parameters of groups without rows.
 *
 *-------------------------------------------------------------------------
 */
#include "kbf/kbf_site.h"

#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "sketch/aggcall.h"
#include "sketch/aggsite.h"

/*
 * The parameters that the third argument stands for, with labels in
 * CurrentMemoryContext.  Values of an enum type bring their labels along, with
 * a template those that the type got at its end.
 */
static void
params_from_third(IbltKbfParams *params, Oid value_type, bool is_template,
				  Datum value, bool isnull)
{
	IbltKbf		template;

	if (isnull)
		iblt_agg_refuse_null_third("kbf_agg", is_template);
	memset(params, 0, sizeof *params);
	if (is_template)
	{
		iblt_kbf_open(&template, value);
		*params = template.params;
		if (iblt_kbf_value_kind(value_type) == IBLT_KBF_ENUM)
			(void) iblt_kbf_labels_follow(params, value_type);
		return;
	}
	params->values = IBLT_KBF_DEFAULT_VALUES;
	switch (iblt_kbf_value_kind(value_type))
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

IbltKbfSite *
iblt_kbf_site_make(FunctionCallInfo fcinfo)
{
	MemoryContext context = fcinfo->flinfo->fn_mcxt;
	IbltKbfSite *site = MemoryContextAllocZero(context, sizeof *site);

	/* everything is checked before any state is trusted */
	iblt_agg_context(fcinfo);
	iblt_agg_check_ambiguous_key(fcinfo);
	site->third = AllocSetContextCreate(context, "kbf_agg template",
										ALLOCSET_SMALL_SIZES);
	site->coder = iblt_key_coder(get_fn_expr_argtype(fcinfo->flinfo, 1), context);
	site->value_type = getBaseType(get_fn_expr_argtype(fcinfo->flinfo, 2));
	site->value_kind = iblt_kbf_value_kind(site->value_type);
	site->has_template = get_fn_expr_argtype(fcinfo->flinfo, 3) != INT4OID;
	site->third_is_constant =
		iblt_agg_argument_is_constant(iblt_agg_argument(fcinfo, 2));
	fcinfo->flinfo->fn_extra = site;
	return site;
}

/* Is this third argument the one that the site has seen last? */
static bool
seen_before(const IbltKbfSite *site, Datum value)
{
	const struct varlena *template;
	Size		size;

	if (!site->has_params)
		return false;
	if (!site->has_template)
		return site->capacity == DatumGetInt32(value);
	template = (const struct varlena *) DatumGetPointer(value);
	size = VARSIZE_ANY_EXHDR(template);
	return VARSIZE_ANY_EXHDR(site->template) == size &&
		memcmp(VARDATA_ANY(site->template), VARDATA_ANY(template), size) == 0;
}

/* Takes the parameters of a capacity or of a detoasted template. */
static void
take_third(IbltKbfSite *site, Datum value, bool isnull)
{
	if (site->has_template && !isnull)
	{
		Size		size = VARSIZE_ANY(DatumGetPointer(value));

		site->template = memcpy(palloc(size), DatumGetPointer(value), size);
		value = PointerGetDatum(site->template);
	}
	else if (!isnull)
		site->capacity = DatumGetInt32(value);
	params_from_third(&site->params, site->value_type, site->has_template,
					  value, isnull);
	memset(site->cache, 0, sizeof site->cache);
	site->version++;
	site->has_params = true;
}

void
iblt_kbf_site_see_third(IbltKbfSite *site, FunctionCallInfo fcinfo)
{
	bool		isnull = PG_ARGISNULL(3);
	Datum		value = isnull ? (Datum) 0 : PG_GETARG_DATUM(3);
	MemoryContext old;

	if (site->has_template && !isnull)
		value = PointerGetDatum(PG_DETOAST_DATUM_PACKED(value));
	if (!isnull && seen_before(site, value))
		return;
	site->has_params = false;
	MemoryContextReset(site->third);
	old = MemoryContextSwitchTo(site->third);
	take_third(site, value, isnull);
	MemoryContextSwitchTo(old);
}

unsigned
iblt_kbf_site_value(IbltKbfSite *site, Datum value)
{
	unsigned	slot;
	unsigned	found;

	if (site->value_kind != IBLT_KBF_ENUM)
		return iblt_kbf_value(&site->params, site->value_type, value);
	slot = DatumGetObjectId(value) % IBLT_KBF_CACHED_LABELS;
	if (site->cache[slot].label == DatumGetObjectId(value))
		return site->cache[slot].value;
	found = iblt_kbf_value(&site->params, site->value_type, value);
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

/*
 * The parameters when there was no row.  If the key's type cannot be known,
 * the parameters are untyped and match any type of key.  False if the third
 * argument depends on a row.
 */
static bool
params_without_row(IbltKbfParams *params, FunctionCallInfo fcinfo,
				   Oid key_type, Oid value_type, Oid third_type)
{
	IbltKeyCoder *coder;
	Datum		third = (Datum) 0;
	bool		isnull = false;

	if (!iblt_agg_argument_value(fcinfo, iblt_agg_argument(fcinfo, 2), &third,
								 &isnull))
		return false;
	params_from_third(params, getBaseType(value_type),
					  third_type != INT4OID, third, isnull);
	coder = iblt_agg_coder_without_row(fcinfo, 0, key_type);
	if (coder != NULL)
		iblt_kbf_set_key(coder, params);
	return true;
}

void
iblt_kbf_empty_params(IbltKbfParams *params, FunctionCallInfo fcinfo)
{
	FmgrInfo   *flinfo = fcinfo->flinfo;

	if (!params_without_row(params, fcinfo, get_fn_expr_argtype(flinfo, 1),
							get_fn_expr_argtype(flinfo, 2),
							get_fn_expr_argtype(flinfo, 3)))
		iblt_agg_refuse_no_rows("kbf_agg");
}

bool
iblt_kbf_partial_params(IbltKbfParams *params, FunctionCallInfo fcinfo)
{
	Expr	   *key = iblt_agg_argument(fcinfo, 0);
	Expr	   *value = iblt_agg_argument(fcinfo, 1);
	Expr	   *third = iblt_agg_argument(fcinfo, 2);

	/* without the last one, the others are not there either */
	if (third == NULL)
		return false;
	return params_without_row(params, fcinfo, exprType((Node *) key),
							  exprType((Node *) value),
							  exprType((Node *) third));
}
