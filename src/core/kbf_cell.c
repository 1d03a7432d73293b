/*
 * kbf_cell.c
 *		The cells of a key-value Bloom filter: pairs that are put in, filters that are
 *		added and subtracted, and keys looked up.
 */
#include "kbf_cell.h"
#include "interrupt.h"
#include "row.h"

/* What a cell can say of its values: a number of them, or one of these. */
#define ANY_VALUE	0			/* every value is possible */
#define NO_VALUES	(-1)		/* no values make up this cell */

static uint64_t
code_of(const IbltKbfParams *params, unsigned element)
{
	return iblt_core_gf_encode(element, params->degree, params->superposed);
}

void
iblt_core_kbf_codes(const IbltKbfParams *params, uint64_t *codes)
{
	unsigned	element;

	for (element = 0; element <= gf_values(params->degree); element++)
		codes[element] = code_of(params, element);
}

static bool
in_range(const IbltKbfParams *params, unsigned value)
{
	return value >= 1 && value <= params->values;
}

void
iblt_core_kbf_insert_with(IbltKbf *kbf, const uint64_t *codes,
						  const uint8_t *key, size_t size, unsigned value)
{
	const IbltKbfParams *params = &kbf->params;
	IbltKbfPlace place;
	unsigned	element;
	uint64_t	code;
	int			i;

	iblt_kbf_place(kbf, key, size, params->hashes, &place);
	element = iblt_kbf_turned(params, value, place.turn);
	code = codes != NULL ? codes[element] : code_of(params, element);
	for (i = 0; i < params->hashes; i++)
		iblt_kbf_put_at(kbf, (uint64_t) place.index[i] * kbf->cell_bits,
						iblt_kbf_make_cell(1, code));
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
	iblt_core_kbf_insert_with(kbf, NULL, key, size, value);
	return IBLT_OK;
}

/* Adds the pair of a slot, if there is one, to the cells, and frees the slot. */
IBLT_INLINE void
put_slot(IbltKbfQueue *queue, unsigned slot, IbltKbf *kbf, int hashes)
{
	uint64_t pair = queue->slot[slot].pair;
	int i;

	if (pair == 0)
		return;
	IBLT_UNROLL
	for (i = 0; i < hashes; i++)
		iblt_kbf_put_at(kbf, queue->slot[slot].bit[i], pair);
	kbf->keys++;
	queue->slot[slot].pair = 0;
}

/*
 * Takes a pair into the queue.  size and hashes are constants for the common
 * cases, so that loops unroll and the hash of a short key is a few instructions.
 */
IBLT_INLINE void
take(IbltKbfQueue *queue, IbltKbf *kbf, const uint64_t *codes,
	 const uint8_t *key, size_t size, unsigned value, int hashes)
{
	unsigned next = queue->next;
	IbltKbfPlace place;
	int i;

	put_slot(queue, next, kbf, hashes);
	iblt_kbf_place(kbf, key, size, hashes, &place);
	IBLT_UNROLL
	for (i = 0; i < hashes; i++)
	{
		uint64_t bit = (uint64_t) place.index[i] * kbf->cell_bits;

		queue->slot[next].bit[i] = bit;
		/* a cell is seldom on two cache lines */
		__builtin_prefetch(kbf->cells + (bit >> 3), 1);
	}
	queue->slot[next].pair =
		iblt_kbf_make_cell(1, codes[iblt_kbf_turned(&kbf->params, value,
													place.turn)]);
	queue->next = (next + 1) % IBLT_KBF_QUEUE_PAIRS;
}

void
iblt_core_kbf_queue_insert(IbltKbfQueue *queue, IbltKbf *kbf,
						   const uint64_t *codes, const uint8_t *key,
						   size_t size, unsigned value)
{
	if (size != 8)
		take(queue, kbf, codes, key, size, value, kbf->params.hashes);
	else if (kbf->params.hashes == 4)
		take(queue, kbf, codes, key, 8, value, 4);
	else if (kbf->params.hashes == 5)
		take(queue, kbf, codes, key, 8, value, 5);
	else if (kbf->params.hashes == 6)
		take(queue, kbf, codes, key, 8, value, 6);
	else
		take(queue, kbf, codes, key, 8, value, kbf->params.hashes);
}

void
iblt_core_kbf_queue_flush(IbltKbfQueue *queue, IbltKbf *kbf)
{
	unsigned slot;

	for (slot = 0; slot < IBLT_KBF_QUEUE_PAIRS; slot++)
		put_slot(queue, slot, kbf, kbf->params.hashes);
}

/*
 * What a cell of at most t pairs says of its values.  Two equal codes cancel,
 * so a sum of fewer codes leaves those two, and with them all, open.
 */
static int
cell_elements(const IbltKbfParams *params, uint64_t cell, unsigned *elements)
{
	int			count = (int) iblt_kbf_count(cell);
	uint64_t	sum = iblt_kbf_content(cell);

	if (iblt_core_gf_split(sum, count, params->degree, params->superposed, elements))
		return count;
	if ((count == 2 && sum == 0) ||
		(count == 3 && iblt_core_gf_split(sum, 1, params->degree, params->superposed, elements)))
		return ANY_VALUE;
	return NO_VALUES;
}

/* Can `count` pairs, at most t, have this sum? */
static bool
possible(const IbltKbfParams *params, unsigned count, uint64_t sum)
{
	unsigned	elements[IBLT_GF_MAX_TERMS];

	if (count == 0)
		return sum == 0;
	return cell_elements(params, iblt_kbf_make_cell(count, sum), elements) !=
		NO_VALUES;
}

/*
 * The values that the most telling of the cells leaves, as cell_elements
 * returns them.
 */
static int
first_elements(const IbltKbfParams *params, const uint64_t *cells,
			   unsigned *elements)
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
		found = cell_elements(params, cells[i], some);
		if (found == NO_VALUES)
			return NO_VALUES;
		if (found == ANY_VALUE || (count != ANY_VALUE && found >= count))
			continue;
		count = found;
		for (v = 0; v < found; v++)
			elements[v] = some[v];
	}
	return count;
}

/* Can all cells have a pair with this element? */
static bool
all_admit(const IbltKbfParams *params, const uint64_t *cells,
		  unsigned element)
{
	uint64_t	code = code_of(params, element);
	int			i;

	for (i = 0; i < params->hashes; i++)
	{
		unsigned	count = iblt_kbf_count(cells[i]);

		if (count == 0 || (count <= (unsigned) params->superposed + 1 &&
						   !possible(params, count - 1, iblt_kbf_content(cells[i]) ^ code)))
			return false;
	}
	return true;
}

IbltPresence
iblt_core_kbf_judge(const IbltKbfParams *params, const uint64_t *cells,
					unsigned turn, unsigned *value)
{
	unsigned	elements[IBLT_GF_MAX_TERMS];
	int			count,
				left = 0,
				i;

	for (i = 0; i < params->hashes; i++)
		if (iblt_kbf_count(cells[i]) == 0)
			return IBLT_ABSENT;
	count = first_elements(params, cells, elements);
	if (count == NO_VALUES)
		return IBLT_CONTRADICTION;
	if (count == ANY_VALUE)
		return IBLT_UNKNOWN;
	for (i = 0; i < count; i++)
	{
		unsigned	candidate = iblt_kbf_turned_back(params, elements[i], turn);

		if (!in_range(params, candidate) ||
			!all_admit(params, cells, elements[i]))
			continue;
		*value = candidate;
		left++;
	}
	return left == 0 ? IBLT_ABSENT : left == 1 ? IBLT_PRESENT : IBLT_UNKNOWN;
}

static void
read_cells(const IbltKbf *kbf, const IbltKbfPlace *place, uint64_t *cells)
{
	int			i;

	for (i = 0; i < kbf->params.hashes; i++)
		cells[i] = iblt_kbf_cell(kbf, place->index[i]);
}

IbltPresence
iblt_core_kbf_get(const IbltKbf *kbf, const uint8_t *key, size_t size,
				  unsigned *value)
{
	IbltKbfPlace place;
	uint64_t	cells[IBLT_KBF_MAX_HASHES];

	if (kbf->ncells == 0)
		return IBLT_ABSENT;
	iblt_kbf_place(kbf, key, size, kbf->params.hashes, &place);
	read_cells(kbf, &place, cells);
	return iblt_core_kbf_judge(&kbf->params, cells, place.turn, value);
}

/*
 * Takes a value out of the key's cells that are not full, if all can have it,
 * and puts another in, or none if that is 0.
 */
static IbltStatus
change(IbltKbf *kbf, const uint8_t *key, size_t size, unsigned old_value,
	   unsigned new_value)
{
	const IbltKbfParams *params = &kbf->params;
	IbltKbfPlace place;
	uint64_t	cells[IBLT_KBF_MAX_HASHES];
	unsigned	element;
	uint64_t	code;
	int			i;

	if (kbf->keys == 0 || kbf->ncells == 0)
		return IBLT_NOT_IN_FILTER;
	iblt_kbf_place(kbf, key, size, kbf->params.hashes, &place);
	read_cells(kbf, &place, cells);
	element = iblt_kbf_turned(params, old_value, place.turn);
	if (!all_admit(params, cells, element))
		return IBLT_NOT_IN_FILTER;
	code = code_of(params, element);
	if (new_value != 0)
		code ^= code_of(params, iblt_kbf_turned(params, new_value, place.turn));
	for (i = 0; i < params->hashes; i++)
	{
		unsigned	count = iblt_kbf_count(cells[i]);
		uint64_t	content = iblt_kbf_content(cells[i]) ^ code;

		if (count != IBLT_KBF_FULL)
			iblt_kbf_set_cell(kbf, place.index[i],
							  iblt_kbf_make_cell(count - (new_value == 0), content));
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
	status = change(kbf, key, size, value, 0);
	if (status == IBLT_OK)
		kbf->keys--;
	return status;
}

IbltStatus
iblt_core_kbf_update(IbltKbf *kbf, const uint8_t *key, size_t size,
					 unsigned old_value, unsigned new_value)
{
	if (!in_range(&kbf->params, old_value) ||
		!in_range(&kbf->params, new_value))
		return IBLT_VALUE_OUT_OF_RANGE;
	return change(kbf, key, size, old_value, new_value);
}

IbltStatus
iblt_core_kbf_add(IbltKbf *kbf, const IbltKbf *other)
{
	uint32_t	run = other->params.subtable_cells / kbf->params.subtable_cells;
	uint32_t	i;

	if (other->keys > INT64_MAX - kbf->keys)
		return IBLT_COUNT_OVERFLOW;
	/* runs do not straddle subtables, because run divides their cells */
	for (i = 0; i < other->ncells; i++)
	{
		uint64_t	a = iblt_kbf_cell(kbf, i / run);
		uint64_t	b = iblt_kbf_cell(other, i);
		unsigned	count = iblt_kbf_count(a) + iblt_kbf_count(b);

		iblt_check_interrupts_at(i);
		iblt_kbf_set_cell(kbf, i / run, count >= IBLT_KBF_FULL ? iblt_kbf_make_cell(IBLT_KBF_FULL, 0)
						  : iblt_kbf_make_cell(count, iblt_kbf_content(a) ^ iblt_kbf_content(b)));
	}
	kbf->keys += other->keys;
	return IBLT_OK;
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
		uint64_t	part = iblt_kbf_cell(other, i);
		unsigned	count = iblt_kbf_count(cell);
		unsigned	less = iblt_kbf_count(part);
		uint64_t	content = iblt_kbf_content(cell) ^ iblt_kbf_content(part);

		iblt_check_interrupts_at(i);
		if (count == IBLT_KBF_FULL || less == IBLT_KBF_FULL)
			cell = iblt_kbf_make_cell(IBLT_KBF_FULL, 0);
		else if (less > count || (count - less <= (unsigned) kbf->params.superposed &&
								  !possible(&kbf->params, count - less, content)))
			return IBLT_NOT_A_PART;
		else
			cell = iblt_kbf_make_cell(count - less, content);
		iblt_kbf_set_cell(kbf, i, cell);
	}
	kbf->keys -= other->keys;
	return IBLT_OK;
}

uint32_t
iblt_core_kbf_full_cells(const IbltKbf *kbf)
{
	uint32_t	full = 0;
	uint32_t	i;

	for (i = 0; i < kbf->ncells; i++)
	{
		iblt_check_interrupts_at(i);
		full += iblt_kbf_count(iblt_kbf_cell(kbf, i)) == IBLT_KBF_FULL;
	}
	return full;
}
