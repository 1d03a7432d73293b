/*
 * kbf_get.c
 *	  Keys looked up: kbf_get, kbf_get_label, kbf_lookup.
 *
 * A look-up reads the header and the cells of one key.  Of a value that is
 * stored out of line and not compressed, only the chunks with these are fetched.
 * So it takes as long for a filter of 100 MB as for one of 100 kB.  The checksum
 * and the other cells are not looked at.  They were checked when the value came
 * in, and the storage is trusted from then on.
 */
#include "kbf/kbf_private.h"

/* A filter of which parts are read. */
typedef struct Source
{
	IbltSlices	slices;
	IbltKbf		kbf;			/* its bytes may be the header only */
} Source;

/* Opens the header of a value.  ERROR if it is not valid. */
static void
open_source(Source *source, Datum value)
{
	size_t		size;
	uint8	   *bytes = iblt_slices_open(&source->slices, value,
										 iblt_core_kbf_header_size, &size);

	/* the view is not used to write */
	iblt_value_check(&iblt_kbf_type,
					 iblt_core_kbf_open_header(&source->kbf, bytes, size, source->slices.size));
}

/* Looks the key that the coder has encoded up in a source. */
static IbltPresence
look_up(const Source *source, IbltKeyCoder *coder, unsigned *value)
{
	IbltKbfParams params = source->kbf.params;
	uint64_t	cells[IBLT_KBF_MAX_HASHES];
	IbltKbfPlace place;
	IbltPresence presence;
	int			i;

	iblt_kbf_set_key(coder, &params);
	if (source->kbf.ncells == 0)
		return IBLT_ABSENT;
	iblt_kbf_place(&source->kbf, (const uint8 *) coder->bytes.data,
				   coder->bytes.len, params.hashes, &place);
	/* a header that was opened has all cells within the value */
	for (i = 0; i < params.hashes; i++)
	{
		size_t		offset = iblt_kbf_cell_offset(&source->kbf, place.index[i]);

		cells[i] = iblt_kbf_extract(&source->kbf, place.index[i],
									iblt_slices_get(&source->slices, offset,
													offset + sizeof(uint64)));
	}
	presence = iblt_core_kbf_judge(&source->kbf.params, cells, place.turn,
								   value);
	if (presence == IBLT_CONTRADICTION)
		iblt_kbf_refuse_contradiction();
	return presence;
}

/* Encodes the key, argument 1, and returns its coder. */
static IbltKeyCoder *
encode_key(FunctionCallInfo fcinfo)
{
	IbltKeyCoder *coder = iblt_key_coder_for_arg(fcinfo, 1);

	iblt_key_encode(coder, iblt_kbf_key_arg(fcinfo));
	return coder;
}

/* Looks argument 1 up in the filter of argument 0. */
static IbltPresence
look_up_args(FunctionCallInfo fcinfo, Source *source, unsigned *value)
{
	open_source(source, iblt_value_arg(fcinfo, 0, &iblt_kbf_type));
	return look_up(source, encode_key(fcinfo), value);
}

/* What to return for a key that is not present: NULL, or argument 2. */
static Datum
not_present(FunctionCallInfo fcinfo, IbltPresence presence)
{
	if (presence == IBLT_UNKNOWN && PG_NARGS() <= 2)
		iblt_kbf_refuse_unknown("Give a third argument, which is then returned, or use kbf_lookup.");
	if (presence == IBLT_UNKNOWN && !PG_ARGISNULL(2))
		return PG_GETARG_DATUM(2);
	PG_RETURN_NULL();
}

PG_FUNCTION_INFO_V1(kbf_get);

/* kbf_get(kbf, anyelement [, integer]) -> integer */
Datum
kbf_get(PG_FUNCTION_ARGS)
{
	Source		source;
	unsigned	value;
	IbltPresence presence = look_up_args(fcinfo, &source, &value);

	if (presence != IBLT_PRESENT)
		return not_present(fcinfo, presence);
	PG_RETURN_INT32((int32) value);
}

PG_FUNCTION_INFO_V1(kbf_get_label);

/* kbf_get_label(kbf, anyelement [, text]) -> text */
Datum
kbf_get_label(PG_FUNCTION_ARGS)
{
	Source		source;
	unsigned	value;
	IbltPresence presence = look_up_args(fcinfo, &source, &value);

	if (source.kbf.params.labels_size == 0)
		iblt_kbf_refuse_unlabelled(&source.kbf.params);
	if (presence != IBLT_PRESENT)
		return not_present(fcinfo, presence);
	PG_RETURN_DATUM(iblt_kbf_label_datum(&source.kbf.params, value));
}

/* What a look-up found, in which filter. */
typedef struct Finding
{
	IbltPresence presence;
	unsigned	value;
	int			position;		/* of the only filter that has it, or 0 */
} Finding;

static Datum
finding_row(FunctionCallInfo fcinfo, const Finding *finding,
			const IbltKbfParams *params)
{
	static const char *const names[] = {"absent", "present", "unknown"};
	bool		absent = finding->presence != IBLT_PRESENT;
	bool		unlabelled = absent || params->labels_size == 0;
	IbltRow		row = {0};

	iblt_column_text(&row, names[finding->presence]);
	iblt_column(&row, Int32GetDatum((int32) finding->value), absent);
	iblt_column(&row, unlabelled ? (Datum) 0 : iblt_kbf_label_datum(params, finding->value),
				unlabelled);
	iblt_column(&row, Int32GetDatum(finding->position), absent || finding->position == 0);
	return iblt_value_row(fcinfo, &row);
}

PG_FUNCTION_INFO_V1(kbf_lookup);

/* kbf_lookup(kbf, anyelement) -> (status, value, label) */
Datum
kbf_lookup(PG_FUNCTION_ARGS)
{
	Source		source;
	Finding		finding = {.position = 0};

	finding.presence = look_up_args(fcinfo, &source, &finding.value);
	return finding_row(fcinfo, &finding, &source.kbf.params);
}

/*
 * ERROR unless the values of two filters mean the same.  The labels of one may
 * be the first of the other's.
 */
static void
check_same_values(const IbltKbfParams *left, const IbltKbfParams *right)
{
	if (iblt_core_kbf_labels_go(left, right) &&
		(left->labels_size > 0 || left->values == right->values))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("kbf values cannot be looked up together: their values or labels differ"),
			 errdetail("One has %s. The other has %s.",
					   iblt_kbf_params_text(left), iblt_kbf_params_text(right)),
			 errhint("Build all with the same labels or number of distinct values.")));
}

PG_FUNCTION_INFO_V1(kbf_lookup_array);

/* kbf_lookup(kbf[], anyelement) -> (status, value, label, position) */
Datum
kbf_lookup_array(PG_FUNCTION_ARGS)
{
	Datum		array = iblt_value_arg(fcinfo, 0, &iblt_kbf_type);
	IbltKeyCoder *coder = encode_key(fcinfo);
	Finding		all = {.presence = IBLT_ABSENT};
	IbltKbfParams all_labels = {0};
	Datum	   *filters;
	bool	   *nulls;
	int			n;
	int			i;

	n = iblt_array_take(array, &filters, &nulls);
	for (i = 0; i < n; i++)
	{
		Source		source;
		Finding		one = {.position = i + 1};

		if (nulls[i])
			iblt_value_refuse_null(&iblt_kbf_type);
		open_source(&source, filters[i]);
		if (i == 0)
			all_labels = source.kbf.params;
		check_same_values(&all_labels, &source.kbf.params);
		(void) iblt_core_kbf_widen(&all_labels, &source.kbf.params);
		one.presence = look_up(&source, coder, &one.value);
		if (one.presence == IBLT_ABSENT)
			continue;

		/*
		 * A filter that does not know may hold the key with another value, and so may one that
		 * has another value.
		 */
		if (all.presence == IBLT_ABSENT)
			all = one;
		else if (one.presence == IBLT_UNKNOWN || one.value != all.value)
			all.presence = IBLT_UNKNOWN;
		else
			all.position = 0;
	}
	return finding_row(fcinfo, &all, &all_labels);
}
