/*
 * strata.c
 *		The strata estimator: rows into strata, and the estimate.
 */
#include "meter.h"
#include "strata.h"

/* The cells of one stratum. */
static uint8_t *
stratum_cells(const IbltSketch *strata, int number)
{
	return iblt_cell(strata, (uint32_t) (number * strata->params.hashes) *
					 strata->params.subtable_cells);
}

/*
 * Adds the row to its stratum.  That cannot fail, because the limb is
 * representable and no values are kept.
 */
void
iblt_core_strata_add_row(IbltSketch *strata, const uint8_t *key, size_t size,
						 uint64_t y, int sign)
{
	uint64_t	hash = iblt_strata_hash(strata, key, size);
	uint8_t    *cells = strata->cells;
	uint8_t		limb[8];

	iblt_store64(limb, iblt_strata_limb(strata, hash));
	strata->cells = stratum_cells(strata, iblt_strata_stratum(hash, strata->params.strata));
	(void) iblt_core_add_row(strata, limb, y, sign);
	strata->cells = cells;
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

/*
 * Peels a stratum.  A hash belongs to one stratum, so a hash of another one is
 * not of a key, whatever is left.
 */
static IbltPeelResult
peel_stratum(IbltSketch *stratum, int number, IbltPeeler *peeler, void *scratch)
{
	bool		contradiction = false;
	IbltEntry	entry;

	iblt_core_peel_start(peeler, stratum, scratch);
	while (iblt_core_peel_next(peeler, &entry))
		contradiction |= iblt_strata_stratum(iblt_load64(entry.key),
											 stratum->params.strata) != number;
	/* no stratum has a row count of its own: the header's is the sum of all */
	stratum->rows = peeler->rows;
	return contradiction ? IBLT_PEEL_INCONSISTENT : iblt_core_peel_result(peeler);
}

/*
 * 2^(i+1) times the keys above stratum i, which did not decode, or 0 if i is
 * the highest stratum.  Without keys above it one key is assumed, because very
 * small tables may fail at their first keys.
 */
static uint64_t
scale(uint64_t keys, int number, int strata)
{
	int			shift = number + 1;

	if (shift == strata)
		return 0;
	keys = keys == 0 ? 1 : keys;
	return keys > (uint64_t) INT64_MAX >> shift ? INT64_MAX : keys << shift;
}

IbltPeelResult
iblt_core_strata_estimate(IbltSketch *difference, IbltPeeler *peeler,
						  void *scratch, uint64_t *keys)
{
	uint8_t		meter[2 * IBLT_METER_BUCKETS] = {0};	/* only all strata
														 * together have one */
	IbltSketch	stratum = one_stratum(difference);
	int			strata = difference->params.strata;
	uint64_t	rows = 0;
	int			number;

	*keys = 0;
	stratum.meter = meter;
	for (number = strata - 1; number >= 0; number--)
	{
		IbltPeelResult result;

		stratum.cells = stratum_cells(difference, number);
		result = peel_stratum(&stratum, number, peeler, scratch);
		if (result == IBLT_PEEL_INCOMPLETE)
			*keys = scale(*keys, number, strata);
		if (result != IBLT_PEEL_COMPLETE)
			return result;
		*keys += peeler->recovered;
		rows += (uint64_t) peeler->rows;
	}
	/* as in iblt_core_peel_result */
	if (rows != (uint64_t) difference->rows ||
		(*keys == 0 && !iblt_core_meter_is_zero(difference->meter)))
		return IBLT_PEEL_INCONSISTENT;
	return IBLT_PEEL_COMPLETE;
}
