/*-------------------------------------------------------------------------
 *
 * keys.c
 *	  The keys of a difference: iblt_compare_decode lists all of them in order,
 *	  iblt_compare_keys gives some of them as text for looking rows up, and
 *	  iblt_compare_changed tells whether these are the rows of the difference.
 *
 * Millions of keys as text[] would take a multiple of the sketch's memory, so
 * the list has them as they are in the cells.
 *
 *-------------------------------------------------------------------------
 */
#include "sketch/decode.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

#include "core/field.h"
#include "sketch/key.h"

/*
 * The keys of a difference, as in its cells, each with its count and its
 * weight.  The list is a bytea, in which this header stands before them.
 */
typedef struct KeyListHeader
{
	int32		vl_len_;
	uint32		key_size;		/* so that the keys are aligned */
} KeyListHeader;

typedef struct KeyList
{
	KeyListHeader *header;
	uint8	   *bytes;			/* behind the header */
	size_t		key_size;
	size_t		size;			/* of a key, its count and its weight */
	size_t		n;
	size_t		room;			/* in keys */
} KeyList;

static void
key_list_make_room(KeyList *list, size_t room)
{
	size_t		size = sizeof(KeyListHeader) + room * list->size;

	list->header = list->header == NULL ? palloc(size)
		: repalloc(list->header, size);
	list->bytes = (uint8 *) (list->header + 1);
	list->room = room;
}

static void
key_list_init(KeyList *list, size_t key_size)
{
	list->header = NULL;
	list->key_size = key_size;
	list->size = key_size + 2 * sizeof(int64);	/* so that the next key is aligned */
	list->n = 0;
	key_list_make_room(list, 64);
}

static uint8 *
key_list_at(const KeyList *list, size_t i)
{
	return list->bytes + i * list->size;
}

/* The count of a key, or its weight, which is behind the count. */
static int64
key_list_number(const KeyList *list, size_t i, int which)
{
	return (int64) iblt_load64(key_list_at(list, i) + list->key_size + which * sizeof(int64));
}

static void
key_list_add(KeyList *list, const IbltEntry *entry)
{
	uint8	   *at;

	/* this is smaller than a cell, so all are below 1 GB */
	if (list->n == list->room)
		key_list_make_room(list, Min(2 * list->room,
									 (MaxAllocSize - sizeof(KeyListHeader)) / list->size));
	at = key_list_at(list, list->n++);
	memcpy(at, entry->key, list->key_size);
	iblt_store64(at + list->key_size, (uint64) (int64) entry->count);
	iblt_store64(at + list->key_size + sizeof(int64),
				 fp_reduce(iblt_cell_field(entry->cell, IBLT_FIELD_WEIGHT)));
}

static Datum
key_list_datum(KeyList *list)
{
	list->header->key_size = (uint32) list->key_size;
	SET_VARSIZE(list->header, sizeof(KeyListHeader) + list->n * list->size);
	return PointerGetDatum(list->header);
}

/* Opens a part of a list of keys that are as in this sketch. */
static void
key_list_open(KeyList *list, const IbltParams *params, bytea *value, int32 first,
			  int32 number)
{
	size_t		bytes = VARSIZE(value) - sizeof(KeyListHeader);
	size_t		n;

	list->header = (KeyListHeader *) value;
	list->key_size = 8 * (size_t) params->key.limbs;
	list->size = list->key_size + 2 * sizeof(int64);
	if (VARSIZE(value) < sizeof(KeyListHeader) ||
		list->header->key_size != list->key_size || bytes % list->size != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("not a list of keys of this sketch")));
	if (first < 0 || number < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("first and number must not be negative")));
	n = bytes / list->size;
	first = (int32) Min((size_t) first, n);
	list->bytes = (uint8 *) (list->header + 1) + first * list->size;
	list->n = Min((size_t) number, n - first);
	list->room = list->n;
}

/*
 * Millions of keys take seconds to sort, so the comparisons can be cancelled.
 */
static int
compare_integer_keys(const void *a, const void *b)
{
	int64		x = (int64) iblt_load64(a);
	int64		y = (int64) iblt_load64(b);

	CHECK_FOR_INTERRUPTS();
	return (x > y) - (x < y);
}

static int
compare_key_bytes(const void *a, const void *b, void *key_size)
{
	CHECK_FOR_INTERRUPTS();
	return memcmp(a, b, *(size_t *) key_size);
}

/*
 * Sorts keys as their types do, or nearly so, because rows are then looked up
 * in about the order in which they are stored.  Removes keys that a crafted
 * sketch has twice.
 */
static void
key_list_sort(KeyList *list, bool integers)
{
	size_t		kept = 0;
	size_t		i;

	if (integers)
		qsort(list->bytes, list->n, list->size, compare_integer_keys);
	else
		qsort_arg(list->bytes, list->n, list->size, compare_key_bytes,
				  &list->key_size);
	for (i = 0; i < list->n; i++)
	{
		uint8	   *key = key_list_at(list, i);

		CHECK_FOR_INTERRUPTS();
		if (kept > 0 &&
			memcmp(key, key_list_at(list, kept - 1), list->key_size) == 0)
			continue;
		memmove(key_list_at(list, kept++), key, list->size);
	}
	list->n = kept;
}

/* The columns of a row as an array of texts. */
static Datum
row_texts(HeapTupleHeader row)
{
	TupleDesc	tupdesc = lookup_rowtype_tupdesc(HeapTupleHeaderGetTypeId(row),
												 HeapTupleHeaderGetTypMod(row));
	HeapTupleData tuple = {.t_len = HeapTupleHeaderGetDatumLength(row),.t_data = row};
	int			dims[1] = {tupdesc->natts};
	int			bounds[1] = {1};
	Datum	   *values = palloc(tupdesc->natts * sizeof(Datum));
	bool	   *nulls = palloc(tupdesc->natts * sizeof(bool));
	int			i;

	heap_deform_tuple(&tuple, tupdesc, values, nulls);
	for (i = 0; i < tupdesc->natts; i++)
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
	return PointerGetDatum(construct_md_array(values, nulls, 1, dims, bounds,
											  TEXTOID, -1, false, TYPALIGN_INT));
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
		Datum		key = iblt_key_decode(coder, key_list_at(list, i), params->key.limbs);

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

/* The sides of the keys as text[], for a difference "here" - "there". */
static Datum
key_sides(const KeyList *list)
{
	Datum		here = CStringGetTextDatum("here");
	Datum		there = CStringGetTextDatum("there");
	Datum		both = CStringGetTextDatum("both");
	Datum	   *sides = palloc(Max(list->n, 1) * sizeof(Datum));
	size_t		i;

	for (i = 0; i < list->n; i++)
	{
		int64		count = key_list_number(list, i, 0);

		CHECK_FOR_INTERRUPTS();
		sides[i] = count > 0 ? here : count < 0 ? there : both;
	}
	return PointerGetDatum(construct_array(sides, (int) list->n, TEXTOID, -1,
										   false, TYPALIGN_INT));
}

PG_FUNCTION_INFO_V1(iblt_compare_decode);

/*
 * iblt_compare_decode(iblt) -> (complete, recovered, estimated, keys bytea): how
 * many keys are recovered, about how many there are, and the list of keys in
 * order, each once.  keys is NULL unless the decoding is complete.
 */
Datum
iblt_compare_decode(PG_FUNCTION_ARGS)
{
	IbltDecoding decoding;
	IbltVerdict verdict;
	IbltEntry	entry;
	KeyList		list;
	Datum		values[4] = {0};
	bool		nulls[4] = {false};

	iblt_open_arg(&decoding.original, fcinfo, 0);
	key_list_init(&list, 8 * (size_t) decoding.original.params.key.limbs);
	iblt_decoding_start(&decoding);
	while (iblt_decoding_next(&decoding, &entry))
		key_list_add(&list, &entry);
	iblt_decoding_finish(&decoding, &verdict);
	if (verdict.complete)
		key_list_sort(&list, decoding.original.params.key.kind == IBLT_KEY_INTEGER);
	values[0] = BoolGetDatum(verdict.complete);
	values[1] = Int64GetDatum((int64) (verdict.complete ? list.n : verdict.recovered));
	values[2] = verdict.complete ? values[1] : iblt_rows_datum(verdict.keys);
	values[3] = key_list_datum(&list);
	nulls[3] = !verdict.complete;
	return iblt_value_row(fcinfo, values, nulls);
}

PG_FUNCTION_INFO_V1(iblt_compare_keys);

/*
 * iblt_compare_keys(iblt, keys bytea, first, number) -> (keys text[], sides
 * text[], weights bigint[]): that number of keys of a list, behind the first
 * ones, each as one word, their sides of the difference, and their weights for
 * iblt_compare_changed.  The sketch may be any fold of the one that the keys
 * are of.
 */
Datum
iblt_compare_keys(PG_FUNCTION_ARGS)
{
	IbltSketch	sketch;
	KeyList		list;
	Datum	   *weights;
	Datum		values[3];
	bool		nulls[3] = {false};

	iblt_open_arg(&sketch, fcinfo, 0);
	key_list_open(&list, &sketch.params, PG_GETARG_BYTEA_P(1), PG_GETARG_INT32(2),
				  PG_GETARG_INT32(3));
	values[0] = key_words(&list, &sketch.params);
	values[1] = key_sides(&list);
	weights = palloc(Max(list.n, 1) * sizeof(Datum));
	for (size_t i = 0; i < list.n; i++)
		weights[i] = Int64GetDatum(key_list_number(&list, i, 1));
	values[2] = PointerGetDatum(construct_array(weights, (int) list.n, INT8OID, sizeof(int64),
												FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
	return iblt_value_row(fcinfo, values, nulls);
}

/* The weight of a row with a checksum, or of no row. */
static uint64
row_weight(const IbltHasher *hasher, Datum checksum, bool is_null)
{
	return is_null ? 0 : iblt_hash_weight(hasher, (uint64) DatumGetInt64(checksum));
}

PG_FUNCTION_INFO_V1(iblt_compare_changed);

/*
 * iblt_compare_changed(seed bigint, weights bigint[], here bigint[], there
 * bigint[]) -> integer[]: the places of the keys whose rows, which have these
 * checksums, are not the ones of the difference "here - there", from 1 on.
 * Other rows pass with a probability of about 2^-64.
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
		deconstruct_array(PG_GETARG_ARRAYTYPE_P(i + 1), INT8OID, sizeof(int64),
						  FLOAT8PASSBYVAL, TYPALIGN_DOUBLE, &values[i], &nulls[i], &n[i]);
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
	return PointerGetDatum(construct_array(places, found, INT4OID, sizeof(int32),
										   true, TYPALIGN_INT));
}

PG_FUNCTION_INFO_V1(iblt_compare_join);

/*
 * iblt_compare_join(iblt, keys bytea, keys bytea) -> bytea: the keys of two
 * lists as one, in order, each once.
 */
Datum
iblt_compare_join(PG_FUNCTION_ARGS)
{
	IbltSketch	sketch;
	KeyList		list;
	KeyList		joined;
	size_t		n = 0;
	int			i;

	iblt_open_arg(&sketch, fcinfo, 0);
	key_list_init(&joined, 8 * (size_t) sketch.params.key.limbs);
	for (i = 1; i <= 2; i++)
	{
		key_list_open(&list, &sketch.params, PG_GETARG_BYTEA_P(i), 0, PG_INT32_MAX);
		if (n + list.n > (MaxAllocSize - sizeof(KeyListHeader)) / list.size)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("too many keys for one list")));
		if (n + list.n > joined.room)
			key_list_make_room(&joined, n + list.n);
		memcpy(key_list_at(&joined, n), list.bytes, list.n * list.size);
		n += list.n;
	}
	joined.n = n;
	key_list_sort(&joined, sketch.params.key.kind == IBLT_KEY_INTEGER);
	return key_list_datum(&joined);
}
