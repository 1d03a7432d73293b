/*
 * strata.c
 *		The strata estimator: rows into strata, and the estimate.
 */
#include "meter.h"
#include "strata.h"

IbltStatus
iblt_core_strata_open(IbltSketch *strata, uint8_t *bytes, size_t size)
{
	IbltStatus	status = iblt_core_open_either(strata, bytes, size);

	return status == IBLT_OK && strata->params.strata == 0 ? IBLT_BAD_MAGIC : status;
}

/* The cells of one stratum. */
static uint8_t *
stratum_cells(const IbltSketch *strata, int number)
{
	return iblt_cell(strata, (uint32_t) (number * strata->params.hashes) *
					 strata->params.subtable_cells);
}

/* A way to add a row to a sketch. */
typedef IbltStatus (*AddRow) (IbltSketch *sketch, const uint8_t *key,
							  uint64_t y, int sign);

/*
 * Adds the row to its stratum.  Only its counts can make that fail, because
 * the limb is representable and no values are kept.
 */
static IbltStatus
add_row(IbltSketch *strata, const uint8_t *key, size_t size, uint64_t y,
		int sign, AddRow add)
{
	uint64_t	hash = iblt_strata_hash(strata, key, size);
	uint8_t    *cells = strata->cells;
	uint8_t		limb[8];
	IbltStatus	status;

	iblt_store64(limb, iblt_strata_limb(strata, hash));
	strata->cells = stratum_cells(strata, iblt_strata_stratum(hash, strata->params.strata));
	status = add(strata, limb, y, sign);
	strata->cells = cells;
	return status;
}

void
iblt_core_strata_add_row(IbltSketch *strata, const uint8_t *key, size_t size,
						 uint64_t y, int sign)
{
	(void) add_row(strata, key, size, y, sign, iblt_core_add_row);
}

IbltStatus
iblt_core_strata_add_row_checked(IbltSketch *strata, const uint8_t *key,
								 size_t size, uint64_t y, int sign)
{
	return add_row(strata, key, size, y, sign, iblt_core_add_row_checked);
}

/* The view that is peeled, before it is pointed at one stratum. */
static IbltSketch
one_stratum(const IbltSketch *difference)
{
	IbltSketch	stratum = *difference;

	stratum.ncells = difference->ncells / (uint32_t) difference->params.strata;
	return stratum;
}

size_t
iblt_core_strata_scratch_size(const IbltSketch *difference)
{
	IbltSketch	stratum = one_stratum(difference);

	return iblt_core_peel_scratch_size(&stratum);
}

static void
start_stratum(IbltStrataDecoder *decoder, int number)
{
	decoder->number = number;
	decoder->stratum.cells = stratum_cells(decoder->difference, number);
	iblt_core_peel_start(&decoder->peeler, &decoder->stratum, decoder->scratch);
}

void
iblt_core_strata_decode_start(IbltStrataDecoder *decoder,
							  IbltSketch *difference, void *scratch)
{
	memset(decoder->meter, 0, sizeof decoder->meter);
	decoder->difference = difference;
	decoder->stratum = one_stratum(difference);
	decoder->stratum.meter = decoder->meter;
	decoder->scratch = scratch;
	decoder->keys = 0;
	decoder->rows = 0;
	decoder->incomplete = false;
	decoder->contradiction = false;
	start_stratum(decoder, difference->params.strata - 1);
}

/* Judges a stratum without pure cells.  Is there another one to decode? */
static bool
end_stratum(IbltStrataDecoder *decoder)
{
	IbltPeelResult result;

	/*
	 * no stratum has a row count of its own, and the header's is the sum of
	 * all
	 */
	decoder->stratum.rows = decoder->peeler.rows;
	result = iblt_core_peel_result(&decoder->peeler);
	decoder->contradiction |= decoder->peeler.contradiction ||
		result == IBLT_PEEL_INCONSISTENT;
	decoder->incomplete = result == IBLT_PEEL_INCOMPLETE;
	if (decoder->contradiction || decoder->incomplete)
		return false;
	decoder->keys += decoder->peeler.recovered;
	decoder->rows += (uint64_t) decoder->peeler.rows;
	if (decoder->number == 0)
		return false;
	start_stratum(decoder, decoder->number - 1);
	return true;
}

bool
iblt_core_strata_decode_step(IbltStrataDecoder *decoder)
{
	int			strata = decoder->difference->params.strata;
	IbltEntry	entry;

	if (!iblt_core_peel_next(&decoder->peeler, &entry))
		return end_stratum(decoder);
	/*
	 * a hash belongs to one stratum, so a hash of another one is not of a key
	 */
	if (iblt_strata_stratum(iblt_load64(entry.key), strata) != decoder->number)
		decoder->contradiction = true;
	return true;
}

/*
 * 2^(i+1) times the keys above stratum i, which did not decode, or 0 if i is
 * the highest stratum.  Without keys above it one key is assumed, because very
 * small tables may fail at their first keys.
 */
static uint64_t
scale(const IbltStrataDecoder *decoder)
{
	uint64_t	keys = decoder->keys == 0 ? 1 : decoder->keys;
	int			shift = decoder->number + 1;

	if (shift == decoder->difference->params.strata)
		return 0;
	return keys > (uint64_t) INT64_MAX >> shift ? INT64_MAX : keys << shift;
}

IbltPeelResult
iblt_core_strata_result(const IbltStrataDecoder *decoder, uint64_t *keys)
{
	*keys = decoder->incomplete ? scale(decoder) : decoder->keys;
	if (decoder->contradiction)
		return IBLT_PEEL_INCONSISTENT;
	if (decoder->incomplete)
		return IBLT_PEEL_INCOMPLETE;
	/* as in iblt_core_peel_result */
	if (decoder->rows != (uint64_t) decoder->difference->rows ||
		(*keys == 0 && !iblt_core_meter_is_zero(decoder->difference->meter)))
		return IBLT_PEEL_INCONSISTENT;
	return IBLT_PEEL_COMPLETE;
}
