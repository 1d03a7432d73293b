/*
 * keys.c
 *	  The keys of a difference: iblt_compare_decode lists all of them in order,
 *	  iblt_compare_keys gives some of them as text for looking rows up, and
 *	  iblt_compare_changed tells whether these are the rows of the difference.
 *
 * Millions of keys as text[] would take a multiple of the sketch's memory, so
 * the list has them as they are in the cells.
 */
#include "sketch/iblt.h"

#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

/*
 * The keys of a difference, as in its cells, each with its count and its
 * weight.  The list is a bytea, in which this header stands before them.
 */
typedef struct KeyListHeader
{
	int32		vl_len_;
	uint32		key_size;		/* so that the keys are aligned */
} KeyListHeader;

/* A part of a list. */
typedef struct KeyList
{
	uint8	   *bytes;
	size_t		key_size;
	size_t		size;			/* of a key, its count and its weight */
	size_t		n;
} KeyList;

/* The count of a key, or its weight, which is behind the count. */
static int64
key_list_number(const KeyList *list, size_t i, int which)
{
	return (int64) iblt_load64(list->bytes + i * list->size + list->key_size +
							   which * sizeof(int64));
}

/* Begins a list, to which keys with their counts and weights are appended. */
static void
key_list_begin(StringInfo buf)
{
	initStringInfo(buf);
	buf->len = sizeof(KeyListHeader);
}

/* Opens a part of a list of keys that are as in this sketch. */
static void
key_list_open(KeyList *list, const IbltParams *params, void *value, int32 first,
			  int32 number)
{
	KeyListHeader *header = value;
	size_t		bytes = VARSIZE(value) - sizeof(KeyListHeader);
	size_t		n;

	list->key_size = 8 * (size_t) params->key.limbs;
	/* the next key is aligned, too */
	list->size = list->key_size + 2 * sizeof(int64);
	if (VARSIZE(value) < sizeof(KeyListHeader) ||
		header->key_size != list->key_size || bytes % list->size != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("not a list of keys of this sketch")));
	if (first < 0 || number < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("first and number must not be negative")));
	n = bytes / list->size;
	first = (int32) Min((size_t) first, n);
	list->bytes = (uint8 *) (header + 1) + first * list->size;
	list->n = Min((size_t) number, n - first);
}

/* Millions of keys take seconds to sort, so the comparisons can be cancelled. */
static int
compare_keys(const void *a, const void *b, void *arg)
{
	const IbltTyping *key = arg;
	int64		x = (int64) iblt_load64(a);
	int64		y = (int64) iblt_load64(b);

	CHECK_FOR_INTERRUPTS();
	return key->kind == IBLT_KEY_INTEGER ? (x > y) - (x < y) : memcmp(a, b, 8 * (size_t) key->limbs);
}

/*
 * Ends a list: sorts its keys as their types do, or nearly so, because rows are
 * then looked up in about the order in which they are stored.  Removes keys that
 * a crafted sketch has twice.  Sets their number.
 */
static Datum
key_list_end(StringInfo buf, const IbltParams *params, size_t *kept)
{
	KeyListHeader *header = (KeyListHeader *) buf->data;
	KeyList		list;

	header->key_size = 8 * params->key.limbs;
	SET_VARSIZE(header, buf->len);
	key_list_open(&list, params, header, 0, PG_INT32_MAX);
	qsort_arg(list.bytes, list.n, list.size, compare_keys, unconstify(IbltTyping *, &params->key));
	*kept = 0;
	for (size_t i = 0; i < list.n; i++)
	{
		uint8	   *key = list.bytes + i * list.size;
		uint8	   *end = list.bytes + *kept * list.size;

		CHECK_FOR_INTERRUPTS();
		if (i > 0 && memcmp(key, end - list.size, list.key_size) == 0)
			continue;
		memmove(end, key, list.size);
		(*kept)++;
	}
	SET_VARSIZE(header, sizeof(KeyListHeader) + *kept * list.size);
	return PointerGetDatum(header);
}

/* The columns of a row as an array of texts. */
static Datum
row_texts(HeapTupleHeader row)
{
	TupleDesc	tupdesc = lookup_rowtype_tupdesc(HeapTupleHeaderGetTypeId(row),
												 HeapTupleHeaderGetTypMod(row));
	HeapTupleData tuple = {.t_len = HeapTupleHeaderGetDatumLength(row),.t_data = row};
	int			n = tupdesc->natts;
	Datum	   *values = palloc(n * sizeof(Datum));
	bool	   *nulls = palloc(n * sizeof(bool));

	heap_deform_tuple(&tuple, tupdesc, values, nulls);
	for (int i = 0; i < n; i++)
	{
		Oid			output;
		bool		is_varlena;

		if (nulls[i])
			continue;
		getTypeOutputInfo(TupleDescAttr(tupdesc, i)->atttypid, &output,
						  &is_varlena);
		values[i] = CStringGetTextDatum(OidOutputFunctionCall(output, values[i]));
	}
	ReleaseTupleDesc(tupdesc);
	return iblt_array_make(values, nulls, n, TEXTOID);
}

/* Keys as texts.  That of a row is the text of an array of its columns' texts. */
static Datum
key_words(const KeyList *list, const IbltParams *params)
{
	ArrayBuildState *words = initArrayResult(TEXTOID, CurrentMemoryContext, true);
	MemoryContext row_context = AllocSetContextCreate(CurrentMemoryContext,
													  "iblt_compare_keys key",
													  ALLOCSET_SMALL_SIZES);
	IbltKeyCoder *coder = NULL;
	FmgrInfo	write;			/* of the key's type, or of arrays */
	Oid			output = F_ARRAY_OUT;
	bool		is_row = false;
	bool		is_varlena;

	/* a template has neither a type of key nor keys */
	if (list->n > 0)
	{
		coder = iblt_key_coder_for_params(params, false);
		is_row = coder->type == RECORDOID;
		if (!is_row)
			getTypeOutputInfo(coder->type, &output, &is_varlena);
		fmgr_info(output, &write);
	}
	for (size_t i = 0; i < list->n; i++)
	{
		MemoryContext old = MemoryContextSwitchTo(row_context);
		Datum		key = iblt_key_decode(coder, list->bytes + i * list->size, params->key.limbs);

		if (is_row)
			key = row_texts(DatumGetHeapTupleHeader(key));
		key = CStringGetTextDatum(OutputFunctionCall(&write, key));
		MemoryContextSwitchTo(old);
		CHECK_FOR_INTERRUPTS();
		words = accumArrayResult(words, key, false, TEXTOID, CurrentMemoryContext);
		MemoryContextReset(row_context);
	}
	return makeArrayResult(words, CurrentMemoryContext);
}

PG_FUNCTION_INFO_V1(iblt_compare_decode);

/* iblt_compare_decode(iblt) -> (complete, recovered, estimated, keys), keys NULL unless complete */
Datum
iblt_compare_decode(PG_FUNCTION_ARGS)
{
	IbltDecoding decoding;
	IbltVerdict verdict;
	const IbltParams *params = &decoding.original.params;
	IbltEntry	entry;
	StringInfoData buf;
	size_t		n;
	Datum		keys = 0;
	IbltRow		row = {0};

	iblt_value_open_arg(&iblt_type, &decoding.original, fcinfo, 0);
	key_list_begin(&buf);
	iblt_decoding_start(&decoding);
	while (iblt_core_peel_next(decoding.peeler, &entry))
	{
		uint8		numbers[2 * sizeof(int64)];

		iblt_store64(numbers, (uint64) (int64) entry.count);
		iblt_store64(numbers + sizeof(int64),
					 fp_reduce(iblt_cell_field(entry.cell, IBLT_FIELD_WEIGHT)));
		/* this is smaller than a cell, so all are below 1 GB */
		appendBinaryStringInfo(&buf, (const char *) entry.key, 8 * (int) params->key.limbs);
		appendBinaryStringInfo(&buf, (const char *) numbers, sizeof(numbers));
	}
	iblt_decoding_finish(&decoding, &verdict);
	n = verdict.recovered;
	if (verdict.complete)
		keys = key_list_end(&buf, params, &n);
	iblt_column(&row, BoolGetDatum(verdict.complete), false);
	iblt_column(&row, Int64GetDatum((int64) n), false);
	iblt_column(&row, verdict.complete ? Int64GetDatum((int64) n) : iblt_rows_datum(verdict.keys), false);
	iblt_column(&row, keys, !verdict.complete);
	return iblt_value_row(fcinfo, &row);
}

PG_FUNCTION_INFO_V1(iblt_compare_keys);

/* iblt_compare_keys(iblt, keys bytea, first, number) -> (keys, sides, weights) */
Datum
iblt_compare_keys(PG_FUNCTION_ARGS)
{
	Datum		names[] = {CStringGetTextDatum("there"), CStringGetTextDatum("both"),
	CStringGetTextDatum("here")};
	IbltSketch	sketch;
	KeyList		list;
	Datum	   *sides;
	Datum	   *weights;
	IbltRow		row = {0};

	iblt_value_open_arg(&iblt_type, &sketch, fcinfo, 0);
	key_list_open(&list, &sketch.params, PG_GETARG_BYTEA_P(1), PG_GETARG_INT32(2),
				  PG_GETARG_INT32(3));
	sides = palloc(Max(list.n, 1) * sizeof(Datum));
	weights = palloc(Max(list.n, 1) * sizeof(Datum));
	for (size_t i = 0; i < list.n; i++)
	{
		int64		count = key_list_number(&list, i, 0);

		CHECK_FOR_INTERRUPTS();
		sides[i] = names[(count > 0) - (count < 0) + 1];
		weights[i] = Int64GetDatum(key_list_number(&list, i, 1));
	}
	iblt_column(&row, key_words(&list, &sketch.params), false);
	iblt_column(&row, iblt_array_make(sides, NULL, (int) list.n, TEXTOID), false);
	iblt_column(&row, iblt_array_make(weights, NULL, (int) list.n, INT8OID), false);
	return iblt_value_row(fcinfo, &row);
}

/* The weight of a row with a checksum, or of no row. */
static uint64
row_weight(const IbltHasher *hasher, Datum checksum, bool is_null)
{
	return is_null ? 0 : iblt_hash_weight(hasher, (uint64) DatumGetInt64(checksum));
}

PG_FUNCTION_INFO_V1(iblt_compare_changed);

/*
 * iblt_compare_changed(seed, weights, here, there) -> integer[], from 1 on.  Other rows
 * pass for those of the difference with a probability of about 2^-64.
 */
Datum
iblt_compare_changed(PG_FUNCTION_ARGS)
{
	IbltHasher	hasher;
	Datum	   *values[3];
	bool	   *nulls[3];
	int			n[3];
	Datum	   *places;
	int			found = 0;
	int			i;

	iblt_core_hasher_init(&hasher, (uint64) PG_GETARG_INT64(0));
	for (i = 0; i < 3; i++)
		n[i] = iblt_array_take(PG_GETARG_DATUM(i + 1), &values[i], &nulls[i]);
	if (n[0] != n[1] || n[0] != n[2])
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the arrays must have the same length")));
	places = palloc(Max(n[0], 1) * sizeof(Datum));
	for (i = 0; i < n[0]; i++)
	{
		uint64		weight = fp_sub(row_weight(&hasher, values[1][i], nulls[1][i]),
									row_weight(&hasher, values[2][i], nulls[2][i]));

		if (nulls[0][i] || weight != (uint64) DatumGetInt64(values[0][i]))
			places[found++] = Int32GetDatum(i + 1);
	}
	return iblt_array_make(places, NULL, found, INT4OID);
}

PG_FUNCTION_INFO_V1(iblt_compare_join);

/* iblt_compare_join(iblt, keys bytea, keys bytea) -> bytea */
Datum
iblt_compare_join(PG_FUNCTION_ARGS)
{
	IbltSketch	sketch;
	KeyList		list;
	StringInfoData buf;
	size_t		n;

	iblt_value_open_arg(&iblt_type, &sketch, fcinfo, 0);
	key_list_begin(&buf);
	for (int i = 1; i <= 2; i++)
	{
		key_list_open(&list, &sketch.params, PG_GETARG_BYTEA_P(i), 0, PG_INT32_MAX);
		if (list.n * list.size >= MaxAllocSize - (size_t) buf.len)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("too many keys for one list")));
		appendBinaryStringInfo(&buf, (const char *) list.bytes, (int) (list.n * list.size));
	}
	return key_list_end(&buf, &sketch.params, &n);
}
