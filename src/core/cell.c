/*
 * cell.c
 *		Rows into cells, and cells added to cells.
 */
#include "cell.h"
#include "meter.h"
#include "pause.h"
#include "row.h"

/*
 * Any shape.  A separate function, so that its 4 KB of terms burden no other.
 */
static IbltStatus
add_row_any(IbltSketch *sketch, const uint8_t *key, uint64_t y, int sign)
{
	uint64_t terms[IBLT_MAX_FIELDS];

	return iblt_row_add(sketch, key, y, sign, sketch->params.limbs,
						sketch->params.hashes, false,
						sketch->params.with_values, terms, iblt_cell_add);
}

IbltStatus
iblt_core_add_row(IbltSketch *sketch, const uint8_t *key, uint64_t y, int sign)
{
	const IbltRowAdder *adder = iblt_core_row_adder(&sketch->params);

	if (adder != NULL && sign > 0)
		return adder->add(sketch, key, y);
	return add_row_any(sketch, key, y, sign);
}

void
iblt_core_add_cell(IbltSketch *sketch, uint32_t i, const uint8_t *addend,
				   int sign)
{
	uint8_t *cell = iblt_cell(sketch, i);
	uint32_t count = iblt_load32(addend);
	unsigned f;

	iblt_store32(cell, iblt_load32(cell) + (sign > 0 ? count : -count));
	for (f = 0; f < sketch->fields; f++)
	{
		uint64_t term = fp_reduce(iblt_cell_field(addend, f));

		iblt_cell_set_field(cell, f,
							fp_add_lazy(iblt_cell_field(cell, f),
										sign > 0 ? term : fp_neg(term)));
	}
}

/* Is the sum or difference of two cells' counts in range? */
static bool
count_fits(const uint8_t *cell, const uint8_t *addend, int sign)
{
	int64_t count = iblt_cell_count(cell) +
		sign * (int64_t) iblt_cell_count(addend);

	return count >= INT32_MIN && count <= INT32_MAX;
}

/* The same for numbers of rows. */
static bool
rows_fit(int64_t rows, int64_t addend, int sign)
{
	if (sign < 0)
		return addend < 0 ? rows <= INT64_MAX + addend
			: rows >= INT64_MIN + addend;
	return addend < 0 ? rows >= INT64_MIN - addend
		: rows <= INT64_MAX - addend;
}

IbltStatus
iblt_core_add_row_checked(IbltSketch *sketch, const uint8_t *key, uint64_t y,
						  int sign)
{
	int32_t limit = sign > 0 ? INT32_MAX : INT32_MIN;
	int subtables = iblt_core_subtable_count(&sketch->params);
	uint32_t index[IBLT_MAX_HASHES];
	int i;

	(void) iblt_core_key_cells(sketch, key, index);
	for (i = 0; i < subtables; i++)
		if (iblt_cell_count(iblt_cell(sketch, index[i])) == limit)
			return IBLT_COUNT_OVERFLOW;
	if (!rows_fit(sketch->rows, 1, sign))
		return IBLT_COUNT_OVERFLOW;
	return iblt_core_add_row(sketch, key, y, sign);
}

IbltStatus
iblt_core_add_sketch(IbltSketch *sketch, const IbltSketch *other, int sign)
{
	uint32_t i;

	if (!rows_fit(sketch->rows, other->rows, sign))
		return IBLT_COUNT_OVERFLOW;
	for (i = 0; i < sketch->ncells; i++)
	{
		const uint8_t *addend = iblt_cell(other, i);

		iblt_pause_at(i);
		if (!count_fits(iblt_cell(sketch, i), addend, sign))
			return IBLT_COUNT_OVERFLOW;
		iblt_core_add_cell(sketch, i, addend, sign);
	}
	iblt_core_meter_add_all(sketch->meter, other->meter, sign);
	sketch->rows = sign > 0 ? sketch->rows + other->rows
		: sketch->rows - other->rows;
	return IBLT_OK;
}

IbltStatus
iblt_core_negate(IbltSketch *sketch)
{
	uint32_t i;
	unsigned f;
	int b;

	if (sketch->rows == INT64_MIN)
		return IBLT_COUNT_OVERFLOW;
	for (i = 0; i < sketch->ncells; i++)
	{
		uint8_t *cell = iblt_cell(sketch, i);

		iblt_pause_at(i);
		if (iblt_cell_count(cell) == INT32_MIN)
			return IBLT_COUNT_OVERFLOW;
		iblt_store32(cell, -iblt_load32(cell));
		for (f = 0; f < sketch->fields; f++)
			iblt_cell_set_field(cell, f, fp_neg(iblt_cell_field(cell, f)));
	}
	for (b = 0; b < IBLT_METER_BUCKETS; b++)
		iblt_store16(sketch->meter + 2 * b,
					 (uint16_t) -(unsigned) iblt_load16(sketch->meter + 2 * b));
	sketch->rows = -sketch->rows;
	return IBLT_OK;
}

uint64_t
iblt_core_key_cells(const IbltSketch *sketch, const uint8_t *key,
					uint32_t *index)
{
	const IbltParams *params = &sketch->params;
	uint32_t position[IBLT_MAX_HASHES];
	uint64_t check = iblt_hash_key(&sketch->hasher, key,
								   8 * (size_t) params->limbs, params->hashes,
								   params->subtable_cells, position);
	uint32_t base = 0;
	int i;

	for (i = 0; i < params->hashes; i++)
	{
		if ((params->subtables >> i & 1) == 0)
			continue;
		*index++ = base + position[i];
		base += params->subtable_cells;
	}
	return check;
}

bool
iblt_core_key_of_cell(const IbltSketch *sketch, uint32_t i,
					  const uint8_t *cell, uint64_t inverse, uint8_t *key)
{
	unsigned limbs = sketch->params.limbs;
	uint64_t weight = iblt_cell_field(cell, IBLT_FIELD_WEIGHT);
	uint64_t check = iblt_cell_field(cell, IBLT_FIELD_CHECK(limbs));
	uint32_t index[IBLT_MAX_HASHES];
	unsigned l;

	for (l = 0; l < limbs; l++)
	{
		uint64_t x = fp_mul(iblt_cell_field(cell, IBLT_FIELD_KEY + l), inverse);

		iblt_store64(key + 8 * (size_t) l,
					 x ^ iblt_limb_mask(&sketch->hasher, l));
	}
	return fp_mul(weight, iblt_core_key_cells(sketch, key, index)) ==
		fp_reduce(check) && index[i / sketch->params.subtable_cells] == i;
}

bool
iblt_core_cell_key(const IbltSketch *sketch, uint32_t i, uint64_t inverse,
				   uint8_t *key)
{
	return iblt_core_key_of_cell(sketch, i, iblt_cell(sketch, i), inverse, key);
}

void
iblt_core_read_entry(const IbltSketch *sketch, const uint8_t *cell,
					 IbltEntry *entry)
{
	unsigned limbs = sketch->params.limbs;
	uint64_t weight = fp_reduce(iblt_cell_field(cell, IBLT_FIELD_WEIGHT));
	uint64_t divisor;

	entry->count = iblt_cell_count(cell);
	entry->has_value = false;
	entry->value = 0;
	if (!sketch->params.with_values || entry->count == 0)
		return;

	divisor = fp_from_int32(entry->count);
	entry->value = fp_mul(iblt_cell_field(cell, IBLT_FIELD_VALUE(limbs)),
						  fp_inv(divisor)) ^ sketch->hasher.value_mask;
	entry->has_value = weight ==
		fp_mul(iblt_hash_weight(&sketch->hasher, entry->value), divisor);
}

void
iblt_core_remove(IbltSketch *sketch, const uint32_t *index, int32_t count,
				 const uint64_t *terms)
{
	int subtables = iblt_core_subtable_count(&sketch->params);
	int i;
	unsigned f;

	for (i = 0; i < subtables; i++)
	{
		uint8_t *cell = iblt_cell(sketch, index[i]);

		iblt_store32(cell, iblt_load32(cell) - (uint32_t) count);
		for (f = 0; f < sketch->fields; f++)
			iblt_cell_set_field(cell, f,
								fp_add_lazy(iblt_cell_field(cell, f),
											fp_neg(terms[f])));
	}
}
