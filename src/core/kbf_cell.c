/*
 * kbf_cell.c
 *		Pairs into the cells of a key-value Bloom filter, and keys looked up.
 */
#include "kbf_cell.h"
#include "pause.h"

/* What a cell can say of its values: a number of them, or one of these. */
#define ANY_VALUE	0			/* every value is possible */
#define NO_VALUES	(-1)		/* no values make up this cell */

void
iblt_core_kbf_key_cells(const IbltKbf *kbf, const uint8_t *key, size_t size,
						uint32_t *index)
{
	const IbltKbfParams *params = &kbf->params;
	int			i;

	(void) iblt_hash_key(&kbf->hasher, key, size, params->hashes,
						 params->subtable_cells, index);
	for (i = 0; i < params->hashes; i++)
		index[i] += (uint32_t) i * params->subtable_cells;
}

uint64_t
iblt_core_kbf_code(const IbltKbfParams *params, unsigned value)
{
	return iblt_core_gf_encode(value, params->degree, params->superposed);
}

static bool
in_range(const IbltKbfParams *params, unsigned value)
{
	return value >= 1 && value <= params->values;
}

/* The sum of two cells. */
static uint64_t
sum_of(uint64_t a, uint64_t b)
{
	unsigned	count = iblt_kbf_count(a) + iblt_kbf_count(b);

	if (count >= IBLT_KBF_FULL)
		return iblt_kbf_make_cell(IBLT_KBF_FULL, 0);
	return iblt_kbf_make_cell(count, iblt_kbf_content(a) ^ iblt_kbf_content(b));
}

void
iblt_core_kbf_insert_code(IbltKbf *kbf, const uint8_t *key, size_t size,
						  uint64_t code)
{
	uint64_t	pair = iblt_kbf_make_cell(1, code);
	uint32_t	index[IBLT_MAX_HASHES];
	int			i;

	iblt_core_kbf_key_cells(kbf, key, size, index);
	for (i = 0; i < kbf->params.hashes; i++)
		iblt_kbf_set_cell(kbf, index[i],
						  sum_of(iblt_kbf_cell(kbf, index[i]), pair));
	kbf->keys++;
}

IbltStatus
iblt_core_kbf_insert(IbltKbf *kbf, const uint8_t *key, size_t size,
					 unsigned value)
{
	if (!in_range(&kbf->params, value))
		return IBLT_VALUE_OUT_OF_RANGE;
	if (kbf->keys >= INT64_MAX)
		return IBLT_COUNT_OVERFLOW;
	iblt_core_kbf_insert_code(kbf, key, size,
							  iblt_core_kbf_code(&kbf->params, value));
	return IBLT_OK;
}

/*
 * The values of a sum of `count` different ones, at most t.  Returns false if
 * there are none in range.  values are in ascending order.
 */
static bool
split(const IbltKbfParams *params, uint64_t sum, unsigned count,
	  unsigned *values)
{
	bool		found;

	if (count == 1)
		found = iblt_core_gf_single(sum, params->degree, params->superposed,
									values);
	else if (count == 2)
		found = iblt_core_gf_pair(sum, params->degree, params->superposed,
								  values);
	else
		found = iblt_core_gf_triple(sum, params->degree, values);
	return found && values[count - 1] <= params->values;
}

/*
 * What a cell of at most t pairs says of its values.  Two equal codes cancel,
 * so a sum of fewer codes leaves those two, and with them all, open.
 */
static int
cell_values(const IbltKbfParams *params, uint64_t cell, unsigned *values)
{
	unsigned	count = iblt_kbf_count(cell);
	uint64_t	sum = iblt_kbf_content(cell);

	if (split(params, sum, count, values))
		return (int) count;
	if ((count == 2 && sum == 0) ||
		(count == 3 && split(params, sum, 1, values)))
		return ANY_VALUE;
	return NO_VALUES;
}

/* Can `count` values, at most t and not all different, have this sum? */
static bool
possible(const IbltKbfParams *params, unsigned count, uint64_t sum)
{
	unsigned	values[IBLT_GF_MAX_TERMS];

	if (count == 0)
		return sum == 0;
	return cell_values(params, iblt_kbf_make_cell(count, sum), values) !=
		NO_VALUES;
}

/* Can this cell have a pair with this code? */
static bool
admits(const IbltKbfParams *params, uint64_t cell, uint64_t code)
{
	unsigned	count = iblt_kbf_count(cell);

	if (count == 0)
		return false;
	if (count > (unsigned) params->superposed + 1)
		return true;
	return possible(params, count - 1, iblt_kbf_content(cell) ^ code);
}

/*
 * The values that the most telling of the cells leaves, as cell_values
 * returns them.
 */
static int
first_values(const IbltKbfParams *params, const uint64_t *cells,
			 unsigned *values)
{
	int			count = ANY_VALUE;
	int			i,
				v;

	for (i = 0; i < params->hashes; i++)
	{
		unsigned	some[IBLT_GF_MAX_TERMS];
		int			found;

		if (iblt_kbf_count(cells[i]) > (unsigned) params->superposed)
			continue;
		found = cell_values(params, cells[i], some);
		if (found == NO_VALUES)
			return NO_VALUES;
		if (found == ANY_VALUE || (count != ANY_VALUE && found >= count))
			continue;
		count = found;
		for (v = 0; v < found; v++)
			values[v] = some[v];
	}
	return count;
}

/* Can all cells have a pair with this value? */
static bool
all_admit(const IbltKbfParams *params, const uint64_t *cells, unsigned value)
{
	uint64_t	code = iblt_core_kbf_code(params, value);
	int			i;

	for (i = 0; i < params->hashes; i++)
		if (!admits(params, cells[i], code))
			return false;
	return true;
}

IbltPresence
iblt_core_kbf_judge(const IbltKbfParams *params, const uint64_t *cells,
					unsigned *value)
{
	unsigned	values[IBLT_GF_MAX_TERMS];
	int			count,
				left = 0,
				i;

	for (i = 0; i < params->hashes; i++)
		if (iblt_kbf_count(cells[i]) == 0)
			return IBLT_ABSENT;
	count = first_values(params, cells, values);
	if (count == NO_VALUES)
		return IBLT_CONTRADICTION;
	if (count == ANY_VALUE)
		return IBLT_UNKNOWN;
	for (i = 0; i < count; i++)
		if (all_admit(params, cells, values[i]))
		{
			*value = values[i];
			left++;
		}
	return left == 0 ? IBLT_ABSENT : left == 1 ? IBLT_PRESENT : IBLT_UNKNOWN;
}

/* Reads the key's cells. */
static void
read_cells(const IbltKbf *kbf, const uint8_t *key, size_t size,
		   uint32_t *index, uint64_t *cells)
{
	int			i;

	iblt_core_kbf_key_cells(kbf, key, size, index);
	for (i = 0; i < kbf->params.hashes; i++)
		cells[i] = iblt_kbf_cell(kbf, index[i]);
}

IbltPresence
iblt_core_kbf_get(const IbltKbf *kbf, const uint8_t *key, size_t size,
				  unsigned *value)
{
	uint32_t	index[IBLT_MAX_HASHES];
	uint64_t	cells[IBLT_MAX_HASHES];

	if (kbf->ncells == 0)
		return IBLT_ABSENT;
	read_cells(kbf, key, size, index, cells);
	return iblt_core_kbf_judge(&kbf->params, cells, value);
}

/*
 * Adds a number and a code to those of the key's cells that are not full, if
 * they can have a pair with the old code.
 */
static IbltStatus
change(IbltKbf *kbf, const uint8_t *key, size_t size, unsigned old_value,
	   int number, uint64_t code)
{
	const IbltKbfParams *params = &kbf->params;
	uint32_t	index[IBLT_MAX_HASHES];
	uint64_t	cells[IBLT_MAX_HASHES];
	int			i;

	if (kbf->keys == 0 || kbf->ncells == 0)
		return IBLT_NOT_IN_FILTER;
	read_cells(kbf, key, size, index, cells);
	if (!all_admit(params, cells, old_value))
		return IBLT_NOT_IN_FILTER;
	for (i = 0; i < params->hashes; i++)
	{
		unsigned	count = iblt_kbf_count(cells[i]);

		if (count != IBLT_KBF_FULL)
			iblt_kbf_set_cell(kbf, index[i],
							  iblt_kbf_make_cell((unsigned) ((int) count + number),
												 iblt_kbf_content(cells[i]) ^ code));
	}
	return IBLT_OK;
}

IbltStatus
iblt_core_kbf_delete(IbltKbf *kbf, const uint8_t *key, size_t size,
					 unsigned value)
{
	IbltStatus	status;

	if (!in_range(&kbf->params, value))
		return IBLT_VALUE_OUT_OF_RANGE;
	status = change(kbf, key, size, value, -1,
					iblt_core_kbf_code(&kbf->params, value));
	if (status == IBLT_OK)
		kbf->keys--;
	return status;
}

IbltStatus
iblt_core_kbf_update(IbltKbf *kbf, const uint8_t *key, size_t size,
					 unsigned old_value, unsigned new_value)
{
	const IbltKbfParams *params = &kbf->params;

	if (!in_range(params, old_value) || !in_range(params, new_value))
		return IBLT_VALUE_OUT_OF_RANGE;
	return change(kbf, key, size, old_value, 0,
				  iblt_core_kbf_code(params, old_value) ^
				  iblt_core_kbf_code(params, new_value));
}

IbltStatus
iblt_core_kbf_add(IbltKbf *kbf, const IbltKbf *other)
{
	uint32_t	i;

	if (other->keys > INT64_MAX - kbf->keys)
		return IBLT_COUNT_OVERFLOW;
	for (i = 0; i < other->ncells; i++)
	{
		iblt_pause_at(i);
		iblt_kbf_set_cell(kbf, i, sum_of(iblt_kbf_cell(kbf, i),
										 iblt_kbf_cell(other, i)));
	}
	kbf->keys += other->keys;
	return IBLT_OK;
}

/* cell -= part.  False if the part is not one. */
static bool
take_out(const IbltKbfParams *params, uint64_t *cell, uint64_t part)
{
	unsigned	count = iblt_kbf_count(*cell);
	unsigned	less = iblt_kbf_count(part);
	uint64_t	content = iblt_kbf_content(*cell) ^ iblt_kbf_content(part);

	if (count == IBLT_KBF_FULL || less == IBLT_KBF_FULL)
	{
		*cell = iblt_kbf_make_cell(IBLT_KBF_FULL, 0);
		return true;
	}
	if (less > count)
		return false;
	*cell = iblt_kbf_make_cell(count - less, content);
	return count - less > (unsigned) params->superposed ||
		possible(params, count - less, content);
}

IbltStatus
iblt_core_kbf_subtract(IbltKbf *kbf, const IbltKbf *other)
{
	uint32_t	i;

	if (other->keys > kbf->keys)
		return IBLT_NOT_A_PART;
	for (i = 0; i < other->ncells; i++)
	{
		uint64_t	cell = iblt_kbf_cell(kbf, i);

		iblt_pause_at(i);
		if (!take_out(&kbf->params, &cell, iblt_kbf_cell(other, i)))
			return IBLT_NOT_A_PART;
		iblt_kbf_set_cell(kbf, i, cell);
	}
	kbf->keys -= other->keys;
	return IBLT_OK;
}

void
iblt_core_kbf_fold(IbltKbf *to, const IbltKbf *from)
{
	uint32_t	run = from->params.subtable_cells / to->params.subtable_cells;
	uint32_t	i;

	/* runs do not straddle subtables, because run divides their cells */
	for (i = 0; i < from->ncells; i++)
	{
		iblt_pause_at(i);
		iblt_kbf_set_cell(to, i / run, sum_of(iblt_kbf_cell(to, i / run),
											  iblt_kbf_cell(from, i)));
	}
	to->keys = from->keys;
}

bool
iblt_core_kbf_is_empty(const IbltKbf *kbf)
{
	uint32_t	i;

	for (i = 0; i < kbf->ncells; i++)
	{
		iblt_pause_at(i);
		if (iblt_kbf_cell(kbf, i) != 0)
			return false;
	}
	return kbf->keys == 0;
}

uint32_t
iblt_core_kbf_full_cells(const IbltKbf *kbf)
{
	uint32_t	full = 0;
	uint32_t	i;

	for (i = 0; i < kbf->ncells; i++)
	{
		iblt_pause_at(i);
		full += iblt_kbf_count(iblt_kbf_cell(kbf, i)) == IBLT_KBF_FULL;
	}
	return full;
}
