/*
 * get.c
 *		One key looked up: the GET of Goodrich & Mitzenmacher.
 */
#include "get.h"
#include "interrupt.h"
#include "sizing.h"
#include "sums.h"

/*
 * Does the cell, whose weight is not zero, hold only rows of this key?  check
 * is the key's check.
 */
static bool
cell_holds_only(const IbltSketch *sketch, const uint8_t *cell,
				const uint8_t *key, uint64_t check)
{
	const IbltHasher *hasher = &sketch->hasher;
	unsigned limbs = sketch->params.key.limbs;
	uint64_t weight = iblt_cell_field(cell, IBLT_FIELD_WEIGHT);
	unsigned l;

	for (l = 0; l < limbs; l++)
	{
		uint64_t x = iblt_load64(key + 8 * (size_t) l) ^ iblt_limb_mask(hasher, l);

		if (fp_mul(weight, x) != iblt_cell_field(cell, IBLT_FIELD_KEY + l))
			return false;
	}
	return fp_mul(weight, check) ==
		iblt_cell_field(cell, IBLT_FIELD_CHECK(limbs));
}

/* Does cell i, whose weight is not zero, hold only rows of one key? */
static bool
has_one_key(const IbltSketch *sketch, uint32_t i, const uint8_t *cell)
{
	uint64_t weight = iblt_cell_field(cell, IBLT_FIELD_WEIGHT);
	uint8_t key[8 * IBLT_MAX_LIMBS];

	return iblt_core_key_of_cell(sketch, i, cell, fp_inv(weight), key);
}

/*
 * Cells may contradict each other.  One that is empty, or holds only another
 * key, contradicts one that holds only this key.  Two that hold only this key
 * must be equal.
 */
IbltPresence
iblt_core_get_cells(const IbltSketch *sketch, const uint8_t *key, int enough,
					IbltCellFetch fetch, void *source, IbltEntry *entry)
{
	int subtables = iblt_core_subtable_count(&sketch->params);
	uint32_t index[IBLT_MAX_HASHES];
	uint64_t check = iblt_core_key_cells(sketch, key, index);
	const uint8_t *found = NULL;
	bool absent = false;
	int told = 0;
	int i;

	for (i = 0; i < subtables && told < enough; i++)
	{
		const uint8_t *cell = fetch(sketch, index[i], source);
		bool has_weight = iblt_cell_field(cell, IBLT_FIELD_WEIGHT) != 0;
		bool only = has_weight && cell_holds_only(sketch, cell, key, check);

		if (has_weight ? !only && !has_one_key(sketch, index[i], cell)
			: !iblt_core_cell_is_zero(sketch, cell))
			continue;
		told++;
		absent |= !only;
		if (found != NULL && memcmp(cell, found, sketch->cell_size) != 0)
			return IBLT_CONTRADICTION;
		if (only)
			found = cell;
	}
	if (found == NULL)
		return absent ? IBLT_ABSENT : IBLT_UNKNOWN;
	entry->count = iblt_cell_count(found);
	entry->cell = found;
	return absent ? IBLT_CONTRADICTION : IBLT_PRESENT;
}

static const uint8_t *
cell_here(const IbltSketch *sketch, uint32_t i, void *source)
{
	(void) source;
	return iblt_cell(sketch, i);
}

IbltPresence
iblt_core_get(const IbltSketch *sketch, const uint8_t *key, IbltEntry *entry)
{
	IbltPresence presence;
	IbltSums agreement;

	if (sketch->ncells == 0)
		return IBLT_ABSENT;
	agreement = iblt_core_sums(sketch);
	if (agreement == IBLT_SUMS_CONTRADICT)
		return IBLT_CONTRADICTION;
	presence = iblt_core_get_cells(sketch, key, IBLT_MAX_HASHES, cell_here, NULL, entry);
	if (presence == IBLT_CONTRADICTION || agreement == IBLT_SUMS_AGREE)
		return presence;
	return IBLT_UNKNOWN;
}

/*
 * Probabilities are integers in units of 2^-63, so that they are the same on
 * every machine.  A product loses a few units, and a power of n some n of them,
 * which is far less than the steps between sizes.
 */
#define ONE		(UINT64_C(1) << 63)

/* The product of two probabilities. */
static uint64_t
times(uint64_t a, uint64_t b)
{
	uint64_t a_high = a >> 32, a_low = (uint32_t) a;
	uint64_t b_high = b >> 32, b_low = (uint32_t) b;

	return (a_high * b_high << 1) + (a_high * b_low >> 31) +
		(a_low * b_high >> 31);
}

static uint64_t
power(uint64_t a, uint64_t n)
{
	uint64_t product = ONE;

	for (; n > 0; n >>= 1)
	{
		if ((n & 1) != 0)
			product = times(product, a);
		a = times(a, a);
	}
	return product;
}

/* The probability that one of `keys` keys is found.  1 if there are none. */
static uint64_t
success(uint32_t subtable_cells, int subtables, uint64_t keys)
{
	uint64_t alone = power(ONE - ONE / subtable_cells,
						   keys > 0 ? keys - 1 : 0);

	return ONE - power(ONE - alone, (uint64_t) subtables);
}

/*
 * The expected number of empty cells is s (1 - 1/s)^n.  Divided by s - 1 it is
 * the probability that a key is alone.  A single cell shows whether it is.
 */
double
iblt_core_get_success_now(const IbltSketch *sketch)
{
	uint32_t cells = sketch->params.subtable_cells;
	double failure = sketch->ncells == 0 ? 0 : 1;
	uint32_t first;
	uint32_t i;

	for (first = 0; first < sketch->ncells; first += cells)
	{
		const uint8_t *cell = iblt_cell(sketch, first);
		uint32_t empty = 0;
		double alone;

		for (i = 0; i < cells; i++)
		{
			iblt_check_interrupts_at(i);
			empty += iblt_core_cell_is_zero(sketch, iblt_cell(sketch, first + i));
		}
		alone = cells > 1 ? (double) empty / (cells - 1)
			: empty == 1 || (iblt_cell_field(cell, IBLT_FIELD_WEIGHT) != 0 &&
							 has_one_key(sketch, first, cell));
		failure *= alone < 1 ? 1 - alone : 0;
	}
	return 1 - failure;
}

/* The least size on the ladder that reaches the goal, or 0. */
static uint32_t
cells_for(uint32_t capacity, int hashes, uint64_t goal)
{
	uint32_t low = 1;
	uint32_t high = IBLT_LADDER_MAX;

	if (success(high, hashes, capacity) < goal)
		return 0;
	while (low < high)
	{
		uint32_t middle = low + (high - low) / 2;

		if (success(middle, hashes, capacity) < goal)
			low = middle + 1;
		else
			high = middle;
	}
	return iblt_core_ladder_at_least(low);
}

uint32_t
iblt_core_get_choose(uint32_t capacity, int *hashes, double failure,
					 double get_success)
{
	int least = *hashes == 0 ? IBLT_MIN_HASHES : *hashes;
	int most = *hashes == 0 ? IBLT_MAX_HASHES : *hashes;
	uint32_t best = 0;
	uint64_t goal;
	int k;

	/* written so that NaN is refused */
	if (!(get_success > 0 && get_success < 1))
		return 0;
	/* exact, because it only changes the exponent */
	goal = (uint64_t) (get_success * (double) ONE);
	for (k = least; k <= most; k++)
	{
		uint32_t list = iblt_core_subtable_cells(capacity, k, failure);
		uint32_t get = list == 0 ? 0 : cells_for(capacity, k, goal);
		uint32_t cells = get > list ? get : list;

		if (get == 0 || (best != 0 && (uint64_t) cells * (unsigned) k >=
						 (uint64_t) best * (unsigned) *hashes))
			continue;
		best = cells;
		*hashes = k;
	}
	return best;
}
