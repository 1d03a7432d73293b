/*-------------------------------------------------------------------------
 *
 * get.c
 *	  iblt_get: one key looked up in a sketch, stored or not.
 *
 * Looking up reads the header and cells of the key, up to k of them, until two
 * tell.  Of a stored sketch only these bytes are fetched (slice.h).  The header
 * is validated, its sizes against the size of the value, and so are the field
 * elements of the cells.  Everything else is trusted: the checksum, the other cells, and that they
 * match the header.  Every function through which a value comes in has
 * validated it, so this trusts the disk and superusers.  No byte that they
 * changed makes the function read outside the value.
 *
 *-------------------------------------------------------------------------
 */
#include "sketch/iblt.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"

#include "core/get.h"
#include "core/sums.h"
#include "sketch/decode.h"

/* A cell of a stored sketch.  ERROR if it is damaged. */
static const uint8_t *
fetch_cell(const IbltSketch *sketch, uint32_t i, void *source)
{
	size_t		offset = iblt_cell_offset(sketch, i);
	const uint8 *cell = iblt_slices_get((const IbltSlices *) source, offset,
										offset + sketch->cell_size);

	if (!iblt_core_cell_is_canonical(sketch, cell))
		iblt_refuse(IBLT_BAD_FIELD);
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

	iblt_open(&decoding.original, value);
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
		iblt_open(&whole, slices->value);
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
	Datum		values[3] = {0};
	bool		nulls[3] = {false, true, true};

	iblt_open_header_arg(&sketch, &slices, fcinfo, 0);
	iblt_require_arg(fcinfo, 1, "key of a row", NULL);
	iblt_key_encode(coder, PG_GETARG_DATUM(1));
	params = sketch.params;
	iblt_key_set_params(coder, &params);
	iblt_show(&shown, fcinfo, value_type, &sketch.params, true);
	presence = get(&sketch, &slices, iblt_key_padded(coder, params.key.limbs),
				   may_list, &entry);
	if (presence == IBLT_CONTRADICTION)
		iblt_refuse_contradiction();

	values[0] = CStringGetTextDatum(names[presence]);
	if (presence == IBLT_PRESENT)
	{
		nulls[1] = false;
		values[1] = Int64GetDatum(entry.count);
		values[2] = iblt_show_value(&shown, &sketch, &entry, &nulls[2]);
	}
	return iblt_value_row(fcinfo, values, nulls);
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
