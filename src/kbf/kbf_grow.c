/*-------------------------------------------------------------------------
 *
 * kbf_grow.c
 *	  Filters that grow: kbf_add_labels for more values, kbf_append for more
 *	  keys.
 *
 * A label's code depends on its number and the degree of the codes, and not on
 * how many labels there are.  So a label that is added at the end leaves all
 * cells as they are.  A filter that is full is left alone, and a successor
 * takes what comes.
 *
 *-------------------------------------------------------------------------
 */
#include "kbf/kbf_private.h"

#include "utils/array.h"

PG_FUNCTION_INFO_V1(kbf_add_labels);

/* kbf_add_labels(kbf, text[]) -> kbf */
Datum
kbf_add_labels(PG_FUNCTION_ARGS)
{
	IbltKbf		kbf;
	IbltKbf		result;
	IbltKbfParams params;
	struct varlena *value;

	iblt_kbf_open_arg(&kbf, fcinfo, 0);
	params = kbf.params;
	iblt_kbf_labels_append(&params, iblt_require_arg(fcinfo, 1, "labels of a kbf"));
	value = iblt_kbf_copy_as(&result, &kbf, &params);
	iblt_core_kbf_seal(&result);
	PG_RETURN_POINTER(value);
}

/*
 * The sum of both filters, or NULL if that would have more keys than its
 * capacity.  A filter without keys is no reason for a successor.
 */
static struct varlena *
sum_within(const IbltKbf *last, const IbltKbf *more, double failure)
{
	IbltKbfParams params = last->params;
	IbltKbf		sum;
	struct varlena *value;

	iblt_kbf_check_match(&last->params, &more->params);
	(void) iblt_core_kbf_widen(&params, &more->params);
	if (last->keys > 0 && more->keys > 0 &&
		last->keys + more->keys > iblt_kbf_params_capacity(&params, failure))
		return NULL;
	value = iblt_kbf_copy_as(&sum, last, &params);
	iblt_kbf_check_change(iblt_core_kbf_add(&sum, more));
	iblt_core_kbf_seal(&sum);
	return value;
}

PG_FUNCTION_INFO_V1(kbf_append);

/* kbf_append(kbf[], kbf, double precision) -> kbf[] */
Datum
kbf_append(PG_FUNCTION_ARGS)
{
	ArrayType  *array = DatumGetArrayTypeP(iblt_kbf_arg(fcinfo, 0));
	Datum		added = iblt_kbf_arg(fcinfo, 1);
	double		failure = DatumGetFloat8(iblt_require_arg(fcinfo, 2, "failure of a kbf"));
	struct varlena *sum = NULL;
	IbltKbf		last;
	IbltKbf		more;
	Datum	   *filters;
	bool	   *nulls;
	int			n;
	int			i;

	iblt_kbf_check_failure(failure);
	iblt_kbf_open(&more, added);
	deconstruct_array(array, ARR_ELEMTYPE(array), -1, false, TYPALIGN_INT,
					  &filters, &nulls, &n);
	for (i = 0; i < n; i++)
		if (nulls[i])
			iblt_kbf_refuse_null();
	if (n > 0)
	{
		iblt_kbf_open(&last, filters[n - 1]);
		sum = sum_within(&last, &more, failure);
	}
	if (sum == NULL)
	{
		filters = n == 0 ? palloc(sizeof(Datum))
			: repalloc(filters, (n + 1) * sizeof(Datum));
		filters[n++] = added;
	}
	else
		filters[n - 1] = PointerGetDatum(sum);
	PG_RETURN_ARRAYTYPE_P(construct_array(filters, n, ARR_ELEMTYPE(array), -1,
										  false, TYPALIGN_INT));
}
