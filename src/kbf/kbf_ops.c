/*
 * kbf_ops.c
 *	  Filters added, subtracted, compared, folded and grown.  Pairs inserted,
 *	  updated and deleted one at a time.
 *
 * Nothing here changes its argument.  A pair is taken out only if its value is
 * given, or if a look-up leaves no other.
 */
#include "kbf/kbf_private.h"

#include "utils/array.h"
#include "utils/lsyscache.h"

#include "core/kbf_size.h"

/* Opens both operands, which must match. */
static void
open_operands(FunctionCallInfo fcinfo, IbltKbf *left, IbltKbf *right)
{
	iblt_value_open(&iblt_kbf_type, left, PG_GETARG_DATUM(0));
	iblt_value_open(&iblt_kbf_type, right, PG_GETARG_DATUM(1));
	iblt_kbf_check_match(&left->params, &right->params);
}

/*
 * left with right added or subtracted, and with the labels and the type of key
 * that right has more.
 */
static struct varlena *
combine(const IbltKbf *left, const IbltKbf *right,
		IbltStatus (*change) (IbltKbf *kbf, const IbltKbf *other))
{
	IbltKbfParams params = left->params;
	IbltKbf		result;
	struct varlena *value;

	(void) iblt_core_kbf_widen(&params, &right->params);
	value = iblt_kbf_copy(&result, left, &params);
	iblt_kbf_check_change(change(&result, right));
	iblt_core_kbf_seal(&result);
	return value;
}

static Datum
combine_arguments(FunctionCallInfo fcinfo,
				  IbltStatus (*change) (IbltKbf *kbf, const IbltKbf *other))
{
	IbltKbf		left;
	IbltKbf		right;

	open_operands(fcinfo, &left, &right);
	return PointerGetDatum(combine(&left, &right, change));
}

/* kbf_add(kbf, kbf) -> kbf: the operator + */
IBLT_FUNCTION(kbf_add, combine_arguments(fcinfo, iblt_core_kbf_add))

/* kbf_subtract(kbf, kbf) -> kbf: the operator - */
IBLT_FUNCTION(kbf_subtract, combine_arguments(fcinfo, iblt_core_kbf_subtract))

/*
 * Are two filters the same?  Equal contents are equal bytes of the cells.  A
 * template is the same as an empty filter of any type of key.
 */
static bool
same_contents(FunctionCallInfo fcinfo)
{
	IbltKbf		left;
	IbltKbf		right;
	IbltKbf    *typed;
	size_t		size;

	open_operands(fcinfo, &left, &right);
	typed = left.ncells > 0 ? &left : &right;
	/* one of them may have more labels */
	size = typed->bytes + typed->size - typed->cells - sizeof(uint64);
	return left.keys == right.keys &&
		(left.ncells == right.ncells ? memcmp(left.cells, right.cells, size) == 0
		 : iblt_all_zero(typed->cells, size));
}

/* kbf_eq(kbf, kbf) -> boolean: the operator = */
IBLT_FUNCTION(kbf_eq, BoolGetDatum(same_contents(fcinfo)))

/* kbf_ne(kbf, kbf) -> boolean: the operator <> */
IBLT_FUNCTION(kbf_ne, BoolGetDatum(!same_contents(fcinfo)))

/* --- smaller, same pairs --------------------------------------------------- */

/* The filter with other labels, or folded to subtables of a divisor of its cells. */
static Datum
with_params(const IbltKbf *kbf, const IbltKbfParams *params)
{
	IbltKbf		result;
	struct varlena *value = iblt_kbf_copy(&result, kbf, params);

	iblt_core_kbf_seal(&result);
	return PointerGetDatum(value);
}

PG_FUNCTION_INFO_V1(kbf_fold);

/* kbf_fold(kbf, capacity, failure) -> kbf */
Datum
kbf_fold(PG_FUNCTION_ARGS)
{
	IbltKbf		kbf;
	IbltKbfParams folded;
	uint32		fewest = 0;
	uint32		cells;
	int			capacity;
	double		failure;

	iblt_value_open_arg(&iblt_kbf_type, &kbf, fcinfo, 0);
	capacity = DatumGetInt32(iblt_require_arg(fcinfo, 1, "capacity of a kbf", NULL));
	failure = DatumGetFloat8(iblt_require_arg(fcinfo, 2, "failure of a kbf", IBLT_HAS_DEFAULT));
	iblt_kbf_check_failure(failure);
	if (capacity < 1)
		iblt_kbf_refuse_capacity(capacity);
	if (kbf.keys > (uint64) capacity)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("kbf has more keys than capacity %d", capacity),
				 errdetail("It has " UINT64_FORMAT " keys.", kbf.keys),
				 errhint("Fold it to a capacity that has room for its keys.")));
	folded = kbf.params;
	for (cells = folded.subtable_cells; cells >= IBLT_KBF_LEAST_CELLS;
		 cells = cells % 2 == 0 ? cells / 2 : 0)
	{
		folded.subtable_cells = cells;
		if (iblt_kbf_params_capacity(&folded, failure) < (uint64) capacity)
			break;
		fewest = cells;
	}
	folded.subtable_cells = fewest;
	if (fewest == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("kbf cannot be folded to capacity %d", capacity),
				 errdetail("The filter has capacity " UINT64_FORMAT ", and folding only makes a filter smaller.",
						   iblt_kbf_params_capacity(&kbf.params, failure)),
				 errhint("Build it with a larger capacity.")));
	return with_params(&kbf, &folded);
}

PG_FUNCTION_INFO_V1(kbf_fold_like);

/* kbf_fold(kbf, template) -> kbf: to the size of another */
Datum
kbf_fold_like(PG_FUNCTION_ARGS)
{
	IbltKbf		kbf;
	IbltKbf		template;
	IbltKbfParams folded;

	iblt_value_open_arg(&iblt_kbf_type, &kbf, fcinfo, 0);
	iblt_value_open_arg(&iblt_kbf_type, &template, fcinfo, 1);
	folded = kbf.params;
	if (kbf.params.subtable_cells % template.params.subtable_cells == 0)
		folded.subtable_cells = template.params.subtable_cells;
	iblt_kbf_check_match(&folded, &template.params);
	return with_params(&kbf, &folded);
}

/* --- more values, more keys -------------------------------------------------
 *
 * A label's code depends on its number and the degree of the codes, and not on
 * how many labels there are.  So a label that is added at the end leaves all
 * cells as they are.  A filter that is full is left alone, and a successor
 * takes what comes.
 */

PG_FUNCTION_INFO_V1(kbf_add_labels);

/* kbf_add_labels(kbf, text[]) -> kbf */
Datum
kbf_add_labels(PG_FUNCTION_ARGS)
{
	IbltKbf		kbf;
	IbltKbfParams params;

	iblt_value_open_arg(&iblt_kbf_type, &kbf, fcinfo, 0);
	params = kbf.params;
	iblt_kbf_labels_append(&params, iblt_require_arg(fcinfo, 1, "labels of a kbf", NULL));
	return with_params(&kbf, &params);
}

PG_FUNCTION_INFO_V1(kbf_append);

/* kbf_append(kbf[], kbf, double precision) -> kbf[] */
Datum
kbf_append(PG_FUNCTION_ARGS)
{
	Datum		array = iblt_value_arg(fcinfo, 0, &iblt_kbf_type);
	Datum		added = iblt_value_arg(fcinfo, 1, &iblt_kbf_type);
	double		failure = DatumGetFloat8(iblt_require_arg(fcinfo, 2, "failure of a kbf", IBLT_HAS_DEFAULT));
	struct varlena *sum = NULL;
	IbltKbf		last;
	IbltKbf		more;
	Datum	   *filters;
	bool	   *nulls;
	int			n;
	int			i;

	iblt_kbf_check_failure(failure);
	iblt_value_open(&iblt_kbf_type, &more, added);
	n = iblt_array_take(array, &filters, &nulls);
	for (i = 0; i < n; i++)
		if (nulls[i])
			iblt_value_refuse_null(&iblt_kbf_type);
	if (n > 0)
	{
		IbltKbfParams params;

		iblt_value_open(&iblt_kbf_type, &last, filters[n - 1]);
		iblt_kbf_check_match(&last.params, &more.params);
		params = last.params;
		(void) iblt_core_kbf_widen(&params, &more.params);
		/* the sum may not have more keys than its capacity, but a filter without keys does no harm */
		if (last.keys == 0 || more.keys == 0 ||
			last.keys + more.keys <= iblt_kbf_params_capacity(&params, failure))
			sum = combine(&last, &more, iblt_core_kbf_add);
	}
	if (sum == NULL)
	{
		filters = n == 0 ? palloc(sizeof(Datum))
			: repalloc(filters, (n + 1) * sizeof(Datum));
		filters[n++] = added;
	}
	else
		filters[n - 1] = PointerGetDatum(sum);
	return iblt_array_make(filters, NULL, n, ARR_ELEMTYPE(DatumGetArrayTypeP(array)));
}

/* --- one pair at a time ---------------------------------------------------- */

/* A call that changes one key. */
typedef struct Change
{
	IbltKbf		original;
	IbltKbf		result;			/* a copy, with a type of key */
	struct varlena *value;		/* of the result */
	const uint8 *key;
	size_t		size;
	Oid			value_type;
} Change;

/* Opens the filter and encodes the key of a change.  No argument may be NULL. */
static void
begin_change(Change *change, FunctionCallInfo fcinfo)
{
	IbltKeyCoder *coder = iblt_key_coder_for_arg(fcinfo, 1);
	IbltKbfParams params;
	int			i;

	iblt_value_open_arg(&iblt_kbf_type, &change->original, fcinfo, 0);
	iblt_key_encode(coder, iblt_kbf_key_arg(fcinfo));
	for (i = 2; i < PG_NARGS(); i++)
		iblt_kbf_value_arg(fcinfo, i);
	params = change->original.params;
	iblt_kbf_set_key(coder, &params);
	change->key = (const uint8 *) coder->bytes.data;
	change->size = coder->bytes.len;
	if (PG_NARGS() > 2)
		change->value_type = getBaseType(get_fn_expr_argtype(fcinfo->flinfo, 2));
	/* the labels that an enum type got at its end, when one of them is seen for the first time */
	if (PG_NARGS() > 2 && iblt_kbf_value_kind(change->value_type) == IBLT_KBF_ENUM)
		for (i = 2; i < PG_NARGS(); i++)
			if (!iblt_kbf_has_value(&params, change->value_type, PG_GETARG_DATUM(i)))
				iblt_kbf_labels_follow(&params, change->value_type);
	change->value = iblt_kbf_copy(&change->result, &change->original, &params);
}

static unsigned
value_arg(const Change *change, FunctionCallInfo fcinfo, int n)
{
	return iblt_kbf_value(&change->result.params, change->value_type,
						  PG_GETARG_DATUM(n));
}

/* The value that the key has now.  ERROR unless a look-up leaves just one. */
static unsigned
current_value(const Change *change)
{
	unsigned	value = 0;

	switch (iblt_core_kbf_get(&change->result, change->key, change->size,
							  &value))
	{
		case IBLT_PRESENT:
			break;
		case IBLT_ABSENT:
			iblt_kbf_check_change(IBLT_NOT_IN_FILTER);
			break;
		case IBLT_UNKNOWN:
			iblt_kbf_refuse_unknown("Give the value that the key has now: kbf_update(s, key, old, new), kbf_delete(s, key, value).");
			break;
		case IBLT_CONTRADICTION:
			iblt_kbf_refuse_contradiction();
	}
	return value;
}

/* Ends a change with the status of the core. */
static Datum
end_change(Change *change, IbltStatus status)
{
	iblt_kbf_check_change(status);
	iblt_core_kbf_seal(&change->result);
	return PointerGetDatum(change->value);
}

PG_FUNCTION_INFO_V1(kbf_insert);

/* kbf_insert(kbf, anyelement, anycompatible) -> kbf */
Datum
kbf_insert(PG_FUNCTION_ARGS)
{
	Change		change;

	begin_change(&change, fcinfo);
	return end_change(&change,
					  iblt_core_kbf_insert(&change.result, change.key,
										   change.size,
										   value_arg(&change, fcinfo, 2)));
}

PG_FUNCTION_INFO_V1(kbf_delete);

/* kbf_delete(kbf, anyelement [, anycompatible]) -> kbf */
Datum
kbf_delete(PG_FUNCTION_ARGS)
{
	Change		change;
	unsigned	value;

	begin_change(&change, fcinfo);
	value = PG_NARGS() > 2 ? value_arg(&change, fcinfo, 2)
		: current_value(&change);
	return end_change(&change,
					  iblt_core_kbf_delete(&change.result, change.key,
										   change.size, value));
}

PG_FUNCTION_INFO_V1(kbf_update);

/* kbf_update(kbf, anyelement [, anycompatible], anycompatible) -> kbf */
Datum
kbf_update(PG_FUNCTION_ARGS)
{
	Change		change;
	unsigned	old_value;
	unsigned	new_value;

	begin_change(&change, fcinfo);
	new_value = value_arg(&change, fcinfo, PG_NARGS() - 1);
	old_value = PG_NARGS() > 3 ? value_arg(&change, fcinfo, 2)
		: current_value(&change);
	return end_change(&change,
					  iblt_core_kbf_update(&change.result, change.key,
										   change.size, old_value, new_value));
}
