/*-------------------------------------------------------------------------
 *
 * kbf.c
 *	  The type kbf: its text and binary forms, its casts, its memory.
 *
 * A key-value Bloom filter is an approximate map from keys to few different
 * values (core/kbf.h).  Everything that comes in from outside goes through
 * iblt_core_kbf_open.  Only kbf_get.c opens a stored value by its header, so
 * that it need not read all of it.
 *
 *-------------------------------------------------------------------------
 */
#include "kbf/kbf_private.h"

#include "sketch/value.h"

static IbltStatus
validate(const IbltValueType *type, uint8 *bytes, size_t size)
{
	IbltKbf		kbf;

	(void) type;
	return iblt_core_kbf_open(&kbf, bytes, size);
}

static const IbltValueType type_kbf = {
	"kbf", "kbf_agg",
	"Without a filter nothing is known about the keys. NULL must not be taken for \"absent\".",
	validate
};

void
iblt_kbf_open(IbltKbf *kbf, Datum value)
{
	struct varlena *bytes = PG_DETOAST_DATUM_PACKED(value);

	iblt_kbf_check_header(iblt_core_kbf_open(kbf, (uint8 *) VARDATA_ANY(bytes),
											 VARSIZE_ANY_EXHDR(bytes)));
}

void
iblt_kbf_check_header(IbltStatus status)
{
	if (status != IBLT_OK)
		iblt_value_refuse(&type_kbf, status);
}

void
iblt_kbf_refuse_null(void)
{
	iblt_value_refuse_null(&type_kbf);
}

Datum
iblt_kbf_arg(FunctionCallInfo fcinfo, int n)
{
	return iblt_value_arg(fcinfo, n, &type_kbf);
}

void
iblt_kbf_open_arg(IbltKbf *kbf, FunctionCallInfo fcinfo, int n)
{
	iblt_kbf_open(kbf, iblt_kbf_arg(fcinfo, n));
}

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

struct varlena *
iblt_kbf_make(IbltKbf *kbf, const IbltKbfParams *params)
{
	struct varlena *value;

	iblt_kbf_check_header(iblt_core_kbf_check_params(params));
	value = iblt_value_alloc(iblt_core_kbf_size(params));
	iblt_core_kbf_init(kbf, params, (uint8 *) VARDATA(value));
	return value;
}

struct varlena *
iblt_kbf_make_empty(const IbltKbfParams *params)
{
	IbltKbf		kbf;
	struct varlena *value = iblt_kbf_make(&kbf, params);

	iblt_core_kbf_seal(&kbf);
	return value;
}

struct varlena *
iblt_kbf_copy(IbltKbf *copy, const IbltKbf *kbf, const IbltKbfParams *params)
{
	struct varlena *value = iblt_kbf_make(copy, params);

	iblt_kbf_check_change(iblt_core_kbf_add(copy, kbf));
	return value;
}

IBLT_VALUE_FUNCTIONS(kbf, type_kbf)
