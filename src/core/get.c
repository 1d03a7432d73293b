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

/* Does the cell, whose weight is not zero, hold only rows of one other key? */
static bool
cell_holds_another(const IbltSketch *sketch, uint32_t i, const uint8_t *cell)
{
	uint64_t weight = iblt_cell_field(cell, IBLT_FIELD_WEIGHT);
	uint8_t other[8 * IBLT_MAX_LIMBS];

	return iblt_core_key_of_cell(sketch, i, cell, fp_inv(weight), other);
}

/*
 * Cells may contradict each other.  One that is empty, or holds only another
 * key, contradicts one that holds only this key.  Two that hold only this key
 * must be equal.
 */
void
iblt_core_hear(IbltHearing *hearing, const IbltSketch *sketch,
			   const uint8_t *key, uint64_t check, uint32_t i,
			   const uint8_t *cell)
{
	bool only = false;

	if (iblt_cell_field(cell, IBLT_FIELD_WEIGHT) == 0)
	{
		if (!iblt_core_cell_is_zero(sketch, cell))
			return;
	}
	else
	{
		only = cell_holds_only(sketch, cell, key, check);
		if (!only && !cell_holds_another(sketch, i, cell))
			return;
	}
	hearing->told++;
	hearing->absent |= !only;
	if (hearing->found != NULL)
		hearing->contradiction |=
			memcmp(cell, hearing->found, sketch->cell_size) != 0;
	if (only)
		hearing->found = cell;
}

IbltPresence
iblt_core_judge(const IbltHearing *hearing, IbltEntry *entry)
{
	if (hearing->contradiction || (hearing->found != NULL && hearing->absent))
		return IBLT_CONTRADICTION;
	if (hearing->found == NULL)
		return hearing->absent ? IBLT_ABSENT : IBLT_UNKNOWN;
	entry->count = iblt_cell_count(hearing->found);
	entry->cell = hearing->found;
	return IBLT_PRESENT;
}

IbltPresence
iblt_core_get(const IbltSketch *sketch, const uint8_t *key, IbltEntry *entry)
{
	int subtables = iblt_core_subtable_count(&sketch->params);
	IbltHearing hearing = { 0 };
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
		iblt_core_hear(&hearing, sketch, key, check, index[i],
					   iblt_cell(sketch, index[i]));
	presence = iblt_core_judge(&hearing, entry);
	if (presence == IBLT_CONTRADICTION || agreement == IBLT_SUMS_AGREE)
		return presence;
	return IBLT_UNKNOWN;
}
