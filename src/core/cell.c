/*
 * cell.c
 *		Rows into cells, cells added to cells, and folds.
 */
#include "cell.h"
#include "meter.h"
#include "interrupt.h"
#include "row.h"

/*
 * Any shape.  A separate function, so that its 8 KB of terms burden no other.
 */
static IbltStatus
add_row_any(IbltSketch *sketch, const uint8_t *key, uint64_t y,
			const uint8_t *value, int sign)
{
	uint32_t position[IBLT_MAX_HASHES];
	uint64_t terms[IBLT_MAX_FIELDS];
	unsigned f = IBLT_FIELD_VALUE(sketch->params.key.limbs);
	unsigned l;
	IbltStatus status;

	/* the value first, because iblt_row_take counts the row */
	for (l = 0; l < sketch->params.value.limbs; l++)
	{
		terms[f + l] = iblt_load64(value + 8 * (size_t) l) ^ iblt_value_mask(&sketch->hasher, l);
		if (terms[f + l] >= IBLT_FP_P)
			return IBLT_VALUE_NOT_REPRESENTABLE;
	}
	status = iblt_row_take(sketch, key, y, sign, sketch->params.key.limbs,
						   sketch->params.hashes, position, terms);
	if (status != IBLT_OK)
		return status;
	for (; f < sketch->fields; f++)
		terms[f] = fp_mul(terms[IBLT_FIELD_WEIGHT], terms[f]);
	iblt_row_put(sketch, position, terms, sign, sketch->fields,
				 sketch->params.hashes, false, iblt_cell_add);
	return IBLT_OK;
}

IbltStatus
iblt_core_add_row(IbltSketch *sketch, const uint8_t *key, uint64_t y, int sign)
{
	const IbltRowAdder *adder = iblt_core_row_adder(&sketch->params);
	uint8_t value[8];

	if (adder != NULL)
		return adder->add(sketch, key, y, sign);
	iblt_store64(value, y);
	return add_row_any(sketch, key, y, value, sign);
}

/* The checksum of a value, which is itself if it is an integer. */
static uint64_t
value_checksum(const IbltSketch *sketch, const uint8_t *value)
{
	if (sketch->params.value.kind == IBLT_KEY_INTEGER)
		return iblt_load64(value);
	return iblt_hash_value(&sketch->hasher, value,
						   8 * (size_t) sketch->params.value.limbs);
}

IbltStatus
iblt_core_add_pair(IbltSketch *sketch, const uint8_t *key,
				   const uint8_t *value, int sign)
{
	return add_row_any(sketch, key, value_checksum(sketch, value), value, sign);
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

IbltStatus
iblt_core_add_sketch(IbltSketch *sketch, const IbltSketch *other, int sign)
{
	int64_t rows;
	uint32_t i;

	if (sign > 0 ? __builtin_add_overflow(sketch->rows, other->rows, &rows)
		: __builtin_sub_overflow(sketch->rows, other->rows, &rows))
		return IBLT_COUNT_OVERFLOW;
	for (i = 0; i < other->ncells; i++)
	{
		const uint8_t *addend = iblt_cell(other, i);
		int64_t count = iblt_cell_count(iblt_cell(sketch, i)) +
			sign * (int64_t) iblt_cell_count(addend);

		iblt_check_interrupts_at(i);
		if (count < INT32_MIN || count > INT32_MAX)
			return IBLT_COUNT_OVERFLOW;
		iblt_core_add_cell(sketch, i, addend, sign);
	}
	iblt_core_meter_add_all(sketch->meter, other->meter, sign);
	sketch->rows = rows;
	return IBLT_OK;
}

void
iblt_core_fold(IbltSketch *to, const IbltSketch *from)
{
	uint32_t cells = from->params.subtable_cells;
	uint32_t run = cells / to->params.subtable_cells;
	uint32_t from_base = 0;
	uint32_t to_base = 0;
	uint32_t c;
	int i;

	for (i = 0; i < from->params.hashes && from->ncells > 0; i++)
	{
		if ((from->params.subtables >> i & 1) == 0)
			continue;
		if ((to->params.subtables >> i & 1) != 0)
		{
			/* each run of neighbouring cells into one */
			for (c = 0; c < cells; c++)
			{
				iblt_check_interrupts_at(c);
				iblt_core_add_cell(to, to_base + c / run, iblt_cell(from, from_base + c), 1);
			}
			to_base += to->params.subtable_cells;
		}
		from_base += cells;
	}
	iblt_core_meter_add_all(to->meter, from->meter, 1);
	to->rows = from->rows;
}

uint64_t
iblt_core_key_cells(const IbltSketch *sketch, const uint8_t *key,
					uint32_t *index)
{
	const IbltParams *params = &sketch->params;
	uint32_t position[IBLT_MAX_HASHES];
	uint64_t check = iblt_hash_key(&sketch->hasher, key,
								   8 * (size_t) params->key.limbs, params->hashes,
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
	unsigned limbs = sketch->params.key.limbs;
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

/*
 * With one value, its limbs come out, and the weight is count times that of
 * the value.  With several the limbs are a weighted mean.
 */
bool
iblt_core_entry_value(const IbltSketch *sketch, const IbltEntry *entry,
					  uint8_t *value)
{
	const IbltHasher *hasher = &sketch->hasher;
	unsigned field = IBLT_FIELD_VALUE(sketch->params.key.limbs);
	uint64_t weight = fp_reduce(iblt_cell_field(entry->cell,
												IBLT_FIELD_WEIGHT));
	uint64_t inverse;
	unsigned l;

	if (sketch->params.value.limbs == 0 || entry->count == 0)
		return false;
	inverse = fp_inv(weight);
	for (l = 0; l < sketch->params.value.limbs; l++)
		iblt_store64(value + 8 * (size_t) l,
					 fp_mul(iblt_cell_field(entry->cell, field + l), inverse) ^
					 iblt_value_mask(hasher, l));
	return weight ==
		fp_mul(iblt_hash_weight(hasher, value_checksum(sketch, value)),
			   fp_from_int32(entry->count));
}
