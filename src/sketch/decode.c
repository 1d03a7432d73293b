/*
 * decode.c
 *	  iblt_decode and iblt_decode_status: the keys that a sketch holds.  iblt_get:
 *	  one key.
 *
 * An incomplete decoding never looks like a complete one.  It is an ERROR with
 * its own SQLSTATE, or with allow_partial a WARNING with the rows.
 *
 * Looking a key up reads the header and cells of the key, up to k of them, until two
 * tell.  Of a stored sketch only these bytes are fetched (value.h).  The header
 * is validated, its sizes against the size of the value, and so are the field
 * elements of the cells.  Everything else is trusted: the checksum, the other cells,
 * and that they match the header.  Every function through which a value comes in has
 * validated it, so this trusts the disk and superusers.  No byte that they
 * changed makes the function read outside the value.
 */
#include "sketch/iblt.h"

#include <math.h>

#include "nodes/execnodes.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "core/get.h"
#include "core/meter.h"
#include "core/sizing.h"
#include "core/sums.h"

void
iblt_decoding_start(IbltDecoding *decoding)
{
	size_t		size;

	iblt_copy(&decoding->work, &decoding->original);
	decoding->peeler = palloc(sizeof(IbltPeeler));
	size = iblt_core_peel_scratch_size(&decoding->work);
	/* at most 4.25 bytes for each cell of 28 or more: below 1 GB */
	iblt_core_peel_start(decoding->peeler, &decoding->work, palloc(size));
}

/*
 * How one column is shown: as text, or as a type that the caller asks for.  That
 * type must be the sketch's.
 */
typedef struct IbltShown
{
	IbltKeyCoder *coder;		/* NULL for values of a sketch without values */
	bool		as_text;
	FmgrInfo	output;			/* if as text */
} IbltShown;

/*
 * Shows keys, or values, as a type, or as text for InvalidOid.  The coder of a
 * type is kept for the next call of the function, except for that of an
 * anonymous row.
 */
static void
show(IbltShown *shown, FunctionCallInfo fcinfo, Oid type,
	 const IbltParams *params, bool of_value)
{
	Oid			output;
	bool		is_varlena;

	shown->coder = NULL;
	shown->as_text = !OidIsValid(type);
	if (of_value && params->value.kind == IBLT_KEY_UNTYPED)
		return;
	if (!shown->as_text)
	{
		shown->coder = iblt_key_coder_as_asked(fcinfo, type, params, of_value);
		return;
	}
	shown->coder = iblt_key_coder_for_params(params, of_value);
	getTypeOutputInfo(shown->coder->type, &output, &is_varlena);
	fmgr_info(output, &shown->output);
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

/* The value of all rows of a key.  Sets isnull if there is no such value. */
static Datum
show_value(const IbltShown *shown, const IbltSketch *sketch,
		   const IbltEntry *entry, bool *isnull)
{
	uint8		value[8 * IBLT_MAX_LIMBS];

	*isnull = !iblt_core_entry_value(sketch, entry, value);
	return *isnull ? (Datum) 0
		: show_bytes(shown, value, sketch->params.value.limbs);
}

/* Converts an estimate, or a bound of it, to a whole number. */
static uint64
whole_number(double x)
{
	return x < (double) PG_INT64_MAX ? (uint64) rint(x) : PG_INT64_MAX;
}

/* About how many keys are in a difference, and a bound. */
static uint64
estimate_keys(const IbltSketch *sketch, uint64 *bound)
{
	double		most;
	double		keys = iblt_core_estimate_keys(sketch, &most);

	*bound = whole_number(most);
	return whole_number(keys);
}

/* ERROR for a sketch whose header and cells cannot both be right. */
pg_noreturn static void
refuse_contradiction(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("iblt cells do not match the header"),
			 errdetail("No rows have both these cells and this header."),
			 errhint("Build the sketch again. This value was not made by inserting, deleting and adding.")));
}

void
iblt_decoding_finish(IbltDecoding *decoding, IbltVerdict *verdict)
{
	IbltPeelResult result = iblt_core_peel_result(decoding->peeler);

	/* no key is certain if subtables do not have the same rows */
	if (result == IBLT_PEEL_INCONSISTENT ||
		(result == IBLT_PEEL_INCOMPLETE &&
		 iblt_core_sums(&decoding->original) == IBLT_SUMS_CONTRADICT))
		refuse_contradiction();
	verdict->complete = result == IBLT_PEEL_COMPLETE;
	verdict->recovered = decoding->peeler->recovered;
	verdict->rows = iblt_core_estimate(&decoding->original, &verdict->bound);
	verdict->keys = estimate_keys(&decoding->original, &verdict->bound);
	verdict->capacity = iblt_params_capacity(&decoding->original.params);
	if (verdict->complete)
		verdict->recommended = Max(verdict->recovered, 1);
	else
		verdict->recommended = Max(verdict->bound, (uint64) verdict->recovered + 1);

	/*
	 * If the sketch was large enough by the bound, its seed was unlucky or the estimate was too
	 * low.  Half as much again then makes another failure unlikely.
	 */
	if (!verdict->complete && verdict->recommended <= verdict->capacity)
		verdict->recommended = (3 * (uint64) verdict->capacity + 1) / 2;
}

/* The largest capacity of a sketch with these hashes. */
static uint32
most_capacity(const IbltParams *params)
{
	return Min(iblt_core_capacity(IBLT_LADDER_MAX, params->hashes,
								  IBLT_DEFAULT_FAILURE),
			   PG_INT32_MAX);
}

/* The hint for an incomplete decoding. */
static char *
incomplete_hint(const IbltVerdict *verdict, const IbltParams *params)
{
	if (verdict->recommended > most_capacity(params))
		return pstrdup("Compare the table in parts, by ranges of the key. No sketch is large enough.");
	return psprintf("Build both sketches with capacity => " UINT64_FORMAT "%s. To see what was recovered, use allow_partial => true.",
					verdict->recommended, verdict->bound <= verdict->capacity
					? " and another seed, because this one was large enough for the estimate"
					: "");
}

Datum
iblt_rows_datum(uint64 rows)
{
	return Int64GetDatum((int64) Min(rows, PG_INT64_MAX));
}

void
iblt_decode_into(FunctionCallInfo fcinfo, const IbltSketch *sketch,
				 Oid key_type, Oid value_type, IbltVerdict *verdict)
{
	const IbltParams *params = &sketch->params;
	Tuplestorestate *rows = iblt_value_rows(fcinfo, NULL);
	IbltDecoding decoding = {.original = *sketch};
	IbltShown	keys;
	IbltShown	row_values;
	IbltEntry	entry;
	MemoryContext row_context;
	MemoryContext old;

	show(&keys, fcinfo, key_type, params, false);
	show(&row_values, fcinfo, value_type, params, true);
	iblt_decoding_start(&decoding);
	row_context = AllocSetContextCreate(CurrentMemoryContext, "iblt_decode row",
										ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(row_context);
	while (iblt_core_peel_next(decoding.peeler, &entry))
	{
		Datum		values[4];
		bool		nulls[4] = {false};

		values[0] = show_bytes(&keys, entry.key, params->key.limbs);
		values[1] = CStringGetTextDatum(entry.count > 0 ? "left"
										: entry.count < 0 ? "right" : "both");
		values[2] = Int64GetDatum(entry.count);
		values[3] = show_value(&row_values, sketch, &entry, &nulls[3]);
		tuplestore_putvalues(rows, ((ReturnSetInfo *) fcinfo->resultinfo)->setDesc, values, nulls);
		MemoryContextReset(row_context);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(row_context);
	iblt_decoding_finish(&decoding, verdict);
}

static Datum
decode(FunctionCallInfo fcinfo, Oid key_type, Oid value_type,
	   bool allow_partial)
{
	IbltSketch	sketch;
	IbltVerdict verdict;

	iblt_value_open_arg(&iblt_type, &sketch, fcinfo, 0);
	if (sketch.params.key.kind == IBLT_KEY_UNTYPED)
	{
		/* a template, which has no rows */
		(void) iblt_value_rows(fcinfo, NULL);
		return (Datum) 0;
	}
	iblt_decode_into(fcinfo, &sketch, key_type, value_type, &verdict);
	/* an empty result would read as "equal" */
	if (!verdict.complete)
		ereport(allow_partial && verdict.recovered > 0 ? WARNING : ERROR,
				(errcode(ERRCODE_IBLT_INCOMPLETE),
				 errmsg("iblt holds more keys than it can decode: %u recovered, about " UINT64_FORMAT " keys differ",
						verdict.recovered, verdict.keys),
				 errdetail("The sketch has capacity %u. With 99 %% certainty at most " UINT64_FORMAT " keys differ. A key with several rows on one side may count more than once.",
						   verdict.capacity, verdict.bound),
				 errhint("%s", incomplete_hint(&verdict, &sketch.params))));
	return (Datum) 0;
}

/* Argument n.  What stands there may be meant as a type. */
static bool
allow_partial_arg(FunctionCallInfo fcinfo, int n)
{
	return DatumGetBool(iblt_require_arg(fcinfo, n, "allow_partial",
										 "Write iblt_decode(s, key_type => NULL::boolean) to decode keys of type boolean."));
}

/*
 * iblt_decode(iblt, allow_partial) -> set of (key, side, count, value), keys and
 * values as text
 */
IBLT_FUNCTION(iblt_decode,
			  decode(fcinfo, InvalidOid, InvalidOid, allow_partial_arg(fcinfo, 1)))

/* iblt_decode(iblt, key_type, allow_partial) -> set of (key, side, count, value) */
IBLT_FUNCTION(iblt_decode_typed,
			  decode(fcinfo, iblt_key_type_asked(fcinfo, 1), INT8OID,
					 allow_partial_arg(fcinfo, 2)))

/*
 * iblt_decode(iblt, key_type, value_type, allow_partial) -> set of (key, side,
 * count, value)
 */
IBLT_FUNCTION(iblt_decode_typed_values,
			  decode(fcinfo, iblt_key_type_asked(fcinfo, 1),
					 iblt_key_type_asked(fcinfo, 2),
					 allow_partial_arg(fcinfo, 3)))

PG_FUNCTION_INFO_V1(iblt_decode_status);

/*
 * iblt_decode_status(iblt) -> (complete, recovered, rows_estimated,
 * recommended_capacity)
 */
Datum
iblt_decode_status(PG_FUNCTION_ARGS)
{
	IbltDecoding decoding;
	IbltVerdict verdict;
	IbltEntry	entry;
	IbltRow		row = {0};

	iblt_value_open_arg(&iblt_type, &decoding.original, fcinfo, 0);
	iblt_decoding_start(&decoding);
	while (iblt_core_peel_next(decoding.peeler, &entry))
		;
	iblt_decoding_finish(&decoding, &verdict);
	iblt_column(&row, BoolGetDatum(verdict.complete), false);
	iblt_column(&row, Int64GetDatum((int64) verdict.recovered), false);
	iblt_column(&row, iblt_rows_datum(verdict.rows), false);
	iblt_column(&row, Int32GetDatum((int32) verdict.recommended),
				verdict.recommended > most_capacity(&decoding.original.params));
	return iblt_value_row(fcinfo, &row);
}

PG_FUNCTION_INFO_V1(iblt_estimate);

/*
 * iblt_estimate(iblt) -> (rows, rows_upper_bound, keys, keys_upper_bound),
 * without decoding
 */
Datum
iblt_estimate(PG_FUNCTION_ARGS)
{
	IbltSketch	sketch;
	uint64		bound;
	IbltRow		row = {0};

	iblt_value_open_arg(&iblt_type, &sketch, fcinfo, 0);
	iblt_column(&row, iblt_rows_datum(iblt_core_estimate(&sketch, &bound)), false);
	iblt_column(&row, iblt_rows_datum(bound), false);
	iblt_column(&row, iblt_rows_datum(estimate_keys(&sketch, &bound)), false);
	iblt_column(&row, iblt_rows_datum(bound), false);
	return iblt_value_row(fcinfo, &row);
}

/* --- one key ----------------------------------------------------------------- */

/* A cell of a stored sketch.  ERROR if it is damaged. */
static const uint8_t *
fetch_cell(const IbltSketch *sketch, uint32_t i, void *source)
{
	size_t		offset = iblt_cell_offset(sketch, i);
	const uint8 *cell = iblt_slices_get((const IbltSlices *) source, offset,
										offset + sketch->cell_size);

	if (!iblt_core_cell_is_canonical(sketch, cell))
		iblt_value_check(&iblt_type, IBLT_BAD_FIELD);
	return cell;
}

/*
 * Lists the sketch to its end, because only then is it known whether it
 * contradicts itself.  If it cannot be listed completely, a key that was listed
 * is believed unless counts may have wrapped.
 */
static IbltPresence
list(Datum value, const uint8 *key, IbltEntry *found)
{
	size_t		size;
	IbltPresence presence = IBLT_ABSENT;
	IbltDecoding decoding;
	IbltVerdict verdict;
	IbltEntry	entry;
	uint8	   *cell;

	iblt_value_open(&iblt_type, &decoding.original, value);
	cell = palloc(decoding.original.cell_size);
	size = 8 * (size_t) decoding.original.params.key.limbs;
	iblt_decoding_start(&decoding);
	while (iblt_core_peel_next(decoding.peeler, &entry))
	{
		if (memcmp(entry.key, key, size) != 0)
			continue;
		if (presence == IBLT_PRESENT)
			return IBLT_CONTRADICTION;
		presence = IBLT_PRESENT;
		*found = entry;
		found->cell = memcpy(cell, entry.cell, decoding.original.cell_size);
	}
	iblt_decoding_finish(&decoding, &verdict);
	if (verdict.complete ||
		(presence == IBLT_PRESENT &&
		 iblt_core_sums(&decoding.original) == IBLT_SUMS_AGREE))
		return presence;
	return IBLT_UNKNOWN;
}

/*
 * Looks a key up.  More rows than a count can hold may be a fold in which
 * counts wrapped, and only the whole sketch tells.
 */
static IbltPresence
get(const IbltSketch *sketch, IbltSlices *slices, const uint8 *key,
	bool may_list, IbltEntry *entry)
{
	IbltPresence presence;
	IbltSketch	whole;

	if (sketch->ncells == 0)
		return IBLT_ABSENT;
	if (sketch->rows >= PG_INT32_MIN && sketch->rows <= PG_INT32_MAX)
		/* two cells that tell the same are enough */
		presence = iblt_core_get_cells(sketch, key, 2, fetch_cell, slices, entry);
	else
	{
		iblt_value_open(&iblt_type, &whole, slices->value);
		presence = iblt_core_get(&whole, key, entry);
	}
	if (presence == IBLT_UNKNOWN && may_list)
		presence = list(slices->value, key, entry);
	return presence;
}

/* Looks up argument 1 in argument 0, and shows its value as value_type. */
static Datum
get_row(FunctionCallInfo fcinfo, Oid value_type, bool may_list)
{
	static const char *const names[] = {"absent", "present", "unknown"};
	IbltKeyCoder *coder = iblt_key_coder_for_arg(fcinfo, 1);
	IbltPresence presence;
	IbltSlices	slices;
	IbltSketch	sketch;
	IbltParams	params;
	IbltEntry	entry;
	IbltShown	shown;
	IbltRow		row = {0};
	bool		present;
	bool		valueless = true;
	Datum		value = 0;

	iblt_open_header_arg(&sketch, &slices, fcinfo, 0);
	iblt_require_arg(fcinfo, 1, "key of a row", NULL);
	iblt_key_encode(coder, PG_GETARG_DATUM(1));
	params = sketch.params;
	iblt_key_set_params(coder, &params);
	show(&shown, fcinfo, value_type, &sketch.params, true);
	presence = get(&sketch, &slices, iblt_key_padded(coder, params.key.limbs),
				   may_list, &entry);
	if (presence == IBLT_CONTRADICTION)
		refuse_contradiction();

	present = presence == IBLT_PRESENT;
	if (present)
		value = show_value(&shown, &sketch, &entry, &valueless);
	iblt_column_text(&row, names[presence]);
	iblt_column(&row, present ? Int64GetDatum(entry.count) : 0, !present);
	iblt_column(&row, value, valueless);
	return iblt_value_row(fcinfo, &row);
}

static bool
list_arg(FunctionCallInfo fcinfo, int n)
{
	return DatumGetBool(iblt_require_arg(fcinfo, n, "list",
										 "Write iblt_get(s, key, value_type => NULL::boolean) to get values of type boolean."));
}

/* iblt_get(iblt, anyelement, list) -> (status, count, value): the paper's GET */
IBLT_FUNCTION(iblt_get, get_row(fcinfo, INT8OID, list_arg(fcinfo, 2)))

/* iblt_get(iblt, anyelement, value_type, list) -> (status, count, value) */
IBLT_FUNCTION(iblt_get_typed,
			  get_row(fcinfo, iblt_key_type_asked(fcinfo, 2),
					  list_arg(fcinfo, 3)))
