/*
 * get.c
 *		One key looked up: the GET of Goodrich & Mitzenmacher.
 */
#include "get.h"
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
	unsigned limbs = sketch->params.limbs;
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

/* Does the cell, whose weight is not zero, hold only rows of one other key? */
static bool
cell_holds_another(const IbltSketch *sketch, uint32_t i, const uint8_t *cell)
{
	uint64_t weight = iblt_cell_field(cell, IBLT_FIELD_WEIGHT);
	uint8_t other[8 * IBLT_MAX_LIMBS];

	return iblt_core_key_of_cell(sketch, i, cell, fp_inv(weight), other);
}

/*
 * Reads all of the cells, because they may contradict each other.  A cell that
 * is empty, or holds only another key, contradicts a cell that holds only this
 * key.  Two cells that hold only this key must be equal.
 */
IbltPresence
iblt_core_judge(const IbltSketch *sketch, const uint8_t *key, uint64_t check,
				const uint32_t *index, const uint8_t *const *cells,
				IbltEntry *entry)
{
	int subtables = iblt_core_subtable_count(&sketch->params);
	const uint8_t *found = NULL;
	bool absent = false;
	int i;

	for (i = 0; i < subtables; i++)
	{
		const uint8_t *cell = cells[i];

		if (iblt_cell_field(cell, IBLT_FIELD_WEIGHT) == 0)
			absent |= iblt_core_cell_is_zero(sketch, cell);
		else if (!cell_holds_only(sketch, cell, key, check))
			absent |= cell_holds_another(sketch, index[i], cell);
		else if (found == NULL)
			found = cell;
		else if (memcmp(cell, found, sketch->cell_size) != 0)
			return IBLT_CONTRADICTION;
	}
	if (found == NULL)
		return absent ? IBLT_ABSENT : IBLT_UNKNOWN;
	if (absent)
		return IBLT_CONTRADICTION;
	iblt_core_read_entry(sketch, found, entry);
	return IBLT_PRESENT;
}

IbltPresence
iblt_core_get(const IbltSketch *sketch, const uint8_t *key, IbltEntry *entry)
{
	int subtables = iblt_core_subtable_count(&sketch->params);
	const uint8_t *cells[IBLT_MAX_HASHES];
	uint32_t index[IBLT_MAX_HASHES];
	IbltPresence presence;
	IbltSums agreement;
	uint64_t check;
	int i;

	if (sketch->ncells == 0)
		return IBLT_ABSENT;
	agreement = iblt_core_sums(sketch);
	if (agreement == IBLT_SUMS_CONTRADICT)
		return IBLT_CONTRADICTION;
	check = iblt_core_key_cells(sketch, key, index);
	for (i = 0; i < subtables; i++)
		cells[i] = iblt_cell(sketch, index[i]);
	presence = iblt_core_judge(sketch, key, check, index, cells, entry);
	if (presence == IBLT_CONTRADICTION || agreement == IBLT_SUMS_AGREE)
		return presence;
	return IBLT_UNKNOWN;
}
