/*
 * kbf.c
 *	  The type kbf: its text and binary forms, its casts, its memory, and its
 *	  parameters, read from SQL arguments, shown in messages, and compared.
 *
 * A key-value Bloom filter is an approximate map from keys to few different
 * values (core/kbf.h).  Everything that comes in from outside goes through
 * iblt_core_kbf_open.  Only kbf_get.c opens a stored value by its header, so
 * that it need not read all of it.
 */
#include "kbf/kbf_private.h"

#include <math.h>

#include "core/kbf_size.h"

static IbltStatus
open_kbf(void *view, uint8 *bytes, size_t size)
{
	return iblt_core_kbf_open(view, bytes, size);
}

const IbltValueType iblt_kbf_type = {
	"kbf", "kbf_agg",
	"Without a filter nothing is known about the keys. NULL must not be taken for \"absent\".",
	open_kbf
};

void
iblt_kbf_check_change(IbltStatus status)
{
	switch (status)
	{
		case IBLT_OK:
			return;
		case IBLT_NOT_IN_FILTER:
			ereport(ERROR,
					(errcode(ERRCODE_IBLT_NOT_IN_FILTER),
					 errmsg("key is not in the kbf with this value"),
					 errhint("Look the key up with kbf_lookup. It may be in another filter, or have another value.")));
			break;
		case IBLT_NOT_A_PART:
			ereport(ERROR,
					(errcode(ERRCODE_IBLT_NOT_IN_FILTER),
					 errmsg("kbf on the right is not a part of the one on the left"),
					 errdetail("Some of its pairs of key and value are not in the filter on the left."),
					 errhint("Subtract only what was added before.")));
			break;
		case IBLT_COUNT_OVERFLOW:
			ereport(ERROR,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg("count of keys in a kbf is out of range")));
			break;
		default:
			elog(ERROR, "unexpected status of a kbf: %s",
				 iblt_core_status_text(status));
	}
}

void
iblt_kbf_refuse_contradiction(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("kbf has an impossible cell"),
			 errhint("Build the filter again. This value was not made by inserting, deleting and adding, or a pair was deleted that was not in it.")));
}

void
iblt_kbf_refuse_unknown(const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_IBLT_UNKNOWN_VALUE),
			 errmsg("kbf does not determine the value of the key"),
			 errdetail("The cells of the key allow several values, or hold too many keys."),
			 errhint("%s", hint)));
}

Datum
iblt_kbf_key_arg(FunctionCallInfo fcinfo)
{
	return iblt_require_arg(fcinfo, 1, "key of a kbf",
							"Use a key that is never null, or a row of columns: ROW(a, b).");
}

Datum
iblt_kbf_value_arg(FunctionCallInfo fcinfo, int n)
{
	return iblt_require_arg(fcinfo, n, "value of a key",
							"Leave the row out with a condition or FILTER, or give NULL a value of its own with coalesce.");
}

/* Creates an empty value in CurrentMemoryContext, and a view of it. */
static struct varlena *
make(IbltKbf *kbf, const IbltKbfParams *params)
{
	struct varlena *value;

	iblt_value_check(&iblt_kbf_type, iblt_core_kbf_check_params(params));
	value = iblt_value_alloc(iblt_core_kbf_size(params));
	iblt_core_kbf_init(kbf, params, (uint8 *) VARDATA(value));
	return value;
}

struct varlena *
iblt_kbf_make_empty(const IbltKbfParams *params)
{
	IbltKbf		kbf;
	struct varlena *value = make(&kbf, params);

	iblt_core_kbf_seal(&kbf);
	return value;
}

struct varlena *
iblt_kbf_copy(IbltKbf *copy, const IbltKbf *kbf, const IbltKbfParams *params)
{
	struct varlena *value = make(copy, params);

	iblt_kbf_check_change(iblt_core_kbf_add(copy, kbf));
	return value;
}

IBLT_VALUE_FUNCTIONS(kbf, iblt_kbf_type)

void
iblt_kbf_refuse_capacity(int capacity)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("capacity of a kbf cannot be %d", capacity),
			 capacity < 1 ? errhint("Choose the number of keys, at least 1.")
			 : errhint("Choose a smaller capacity, and keep the keys in several filters.")));
}

void
iblt_kbf_check_failure(double failure)
{
	iblt_check_failure("failure of a kbf", failure, IBLT_KBF_MIN_FAILURE, IBLT_KBF_MAX_FAILURE);
}

void
iblt_kbf_params_make(IbltKbfParams *params, int capacity, double failure,
					 int superposed, uint64 seed)
{
	iblt_check_range("distinct_values of a kbf", (int) params->values, 1,
					 gf_values(IBLT_GF_MAX_DEGREE));
	iblt_check_range("superposed of a kbf", superposed, 1, IBLT_GF_MAX_TERMS);
	iblt_kbf_check_failure(failure);
	params->key.kind = IBLT_KEY_UNTYPED;
	params->superposed = superposed;
	params->seed = seed;
	if (capacity < 1 ||
		iblt_core_kbf_choose(params, capacity, failure) != IBLT_OK)
		iblt_kbf_refuse_capacity(capacity);
}

/*
 * By the formula for the rates.  iblt_core_kbf_choose has a margin of some
 * percent, so that this is not below the capacity that was asked for.
 */
uint64
iblt_kbf_params_capacity(const IbltKbfParams *params, double failure)
{
	double		low = 0;
	double		high = 16;
	double		apart;
	int			i;

	for (i = 0; i < 20; i++)
	{
		double		middle = (low + high) / 2;
		IbltKbfRates rates;

		iblt_core_kbf_rates(params, middle, &rates);
		if (rates.unknown <= failure && rates.false_positive <= failure / 100)
			low = middle;
		else
			high = middle;
	}
	/* few keys may have all cells in common with another one */
	apart = failure / 400 * pow(params->subtable_cells, params->hashes);
	return (uint64) floor(fmin(low * params->subtable_cells, apart));
}

void
iblt_kbf_set_key(IbltKeyCoder *coder, IbltKbfParams *params)
{
	IbltKbfParams typed = *params;

	typed.key.kind = IBLT_KEY_UNTYPED;
	iblt_key_set_typing(coder, &typed.key, "");
	if (typed.key.kind == IBLT_KEY_UNTYPED)
		return;
	if (iblt_core_kbf_compatible(params, &typed) != IBLT_OK)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("key type %s does not match the filter's key type %s",
						iblt_params_type_name(&typed.key),
						iblt_params_type_name(&params->key)),
				 errhint("Cast the key to the type of the filter's keys.")));
	*params = typed;
}

char *
iblt_kbf_params_text(const IbltKbfParams *params)
{
	char	   *type = iblt_params_type_name(&params->key);

	return psprintf("%d hashes, %u cells, %u %s, degree %d, superposed %d, seed " INT64_FORMAT ", %s%s",
					params->hashes, params->hashes * params->subtable_cells,
					params->values,
					params->labels_size == 0 ? "values" : "labels",
					params->degree, params->superposed, (int64) params->seed,
					type == NULL ? "no key type yet" : "key type ",
					type == NULL ? "" : type);
}

void
iblt_kbf_check_match(const IbltKbfParams *left, const IbltKbfParams *right)
{
	IbltStatus	status = iblt_core_kbf_compatible(left, right);

	if (status == IBLT_OK)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("kbf values cannot be combined: %s",
					iblt_core_status_text(status)),
			 errdetail("One has %s. The other has %s.",
					   iblt_kbf_params_text(left), iblt_kbf_params_text(right)),
			 status == IBLT_OTHER_KEY_TYPE
			 ? errhint("Cast the key to one type on both sides, as in kbf_agg(key::text, ...).")
			 : errhint("Build both from one template: kbf_agg(key, value, kbf_new(...))%s.",
					   status == IBLT_OTHER_CELLS ? ", or fold the larger one with kbf_fold" : "")));
}

/* A template whose values are labels, or are counted. */
static Datum
make_template(FunctionCallInfo fcinfo, bool labelled)
{
	IbltKbfParams params = {0};

	if (labelled)
		iblt_kbf_labels_from_array(&params, iblt_require_arg(fcinfo, 1, "labels of a kbf", NULL));
	else
		/* a negative one is out of range, too */
		params.values = (unsigned) DatumGetInt32(iblt_require_arg(fcinfo, 1, "distinct_values of a kbf", IBLT_HAS_DEFAULT));
	iblt_kbf_params_make(&params,
						 DatumGetInt32(iblt_require_arg(fcinfo, 0, "capacity of a kbf", NULL)),
						 DatumGetFloat8(iblt_require_arg(fcinfo, 2, "failure of a kbf", IBLT_HAS_DEFAULT)),
						 DatumGetInt32(iblt_require_arg(fcinfo, 3, "superposed of a kbf", IBLT_HAS_DEFAULT)),
						 (uint64) DatumGetInt64(iblt_require_arg(fcinfo, 4, "seed of a kbf", IBLT_HAS_DEFAULT)));
	return PointerGetDatum(iblt_kbf_make_empty(&params));
}

/* kbf_new(capacity, distinct_values, failure, superposed, seed) -> kbf */
IBLT_FUNCTION(kbf_new, make_template(fcinfo, false))

/* kbf_new(capacity, labels, failure, superposed, seed) -> kbf */
IBLT_FUNCTION(kbf_new_labels, make_template(fcinfo, true))

PG_FUNCTION_INFO_V1(kbf_info);

/* kbf_info(kbf) -> record */
Datum
kbf_info(PG_FUNCTION_ARGS)
{
	IbltKbf		kbf;
	const IbltKbfParams *params = &kbf.params;
	IbltKbfRates rates;
	double		load;
	bool		unlabelled;
	IbltRow		row = {0};

	iblt_value_open_arg(&iblt_kbf_type, &kbf, fcinfo, 0);
	load = (double) kbf.keys / params->subtable_cells;
	iblt_core_kbf_rates(params, load, &rates);
	rates.false_positive += iblt_core_kbf_shared(params, (double) kbf.keys,
												 params->subtable_cells);
	unlabelled = params->labels_size == 0;
	iblt_column(&row, Int32GetDatum(IBLT_KBF_VERSION), false);
	iblt_column(&row, Int32GetDatum(params->hashes * (int32) params->subtable_cells), false);
	iblt_column(&row, Int32GetDatum(params->hashes), false);
	iblt_column(&row, Int32GetDatum(params->degree), false);
	iblt_column(&row, Int32GetDatum(params->superposed), false);
	iblt_column(&row, Int32GetDatum((int32) params->values), false);
	iblt_column(&row, unlabelled ? (Datum) 0 : iblt_kbf_labels_datum(params), unlabelled);
	iblt_column_text(&row, iblt_params_type_name(&params->key));
	iblt_column(&row, Int64GetDatum((int64) params->seed), false);
	iblt_column(&row, Int64GetDatum((int64) iblt_kbf_params_capacity(params, IBLT_KBF_DEFAULT_FAILURE)),
				false);
	iblt_column(&row, Int64GetDatum((int64) kbf.keys), false);
	iblt_column(&row, Float8GetDatum(load), false);
	iblt_column(&row, Int32GetDatum((int32) iblt_core_kbf_full_cells(&kbf)), false);
	iblt_column(&row, Int64GetDatum((int64) kbf.size), false);
	iblt_column(&row, Float8GetDatum(kbf.keys == 0 ? 0 : 8.0 * kbf.size / kbf.keys),
				kbf.keys == 0);
	iblt_column(&row, Float8GetDatum(rates.unknown), false);
	iblt_column(&row, Float8GetDatum(Min(1, rates.false_positive)), false);
	iblt_column(&row, Float8GetDatum(rates.absent_unknown), false);
	return iblt_value_row(fcinfo, &row);
}
