/*
 * peel.c
 *		Decoding: the keys of a sketch, one at a time.
 */
#include "meter.h"
#include "interrupt.h"
#include "peel.h"

static bool
bit_is_set(const uint8_t *bits, uint32_t i)
{
	return (bits[i >> 3] >> (i & 7) & 1) != 0;
}

static void
set_bit(uint8_t *bits, uint32_t i)
{
	bits[i >> 3] |= (uint8_t) (1 << (i & 7));
}

static size_t
bitmap_size(const IbltSketch *sketch)
{
	return ((size_t) sketch->ncells + 7) / 8;
}

size_t
iblt_core_peel_scratch_size(const IbltSketch *sketch)
{
	return sizeof(uint32_t) * (size_t) sketch->ncells + 2 * bitmap_size(sketch);
}

/* Each cell is in the ring at most once, so the ring has room for all. */
static void
enqueue(IbltPeeler *peeler, uint32_t i)
{
	uint32_t ncells = peeler->sketch->ncells;
	uint32_t tail = peeler->head + peeler->queued;

	if (bit_is_set(peeler->in_queue, i) || bit_is_set(peeler->reported, i))
		return;
	set_bit(peeler->in_queue, i);
	peeler->queue[tail >= ncells ? tail - ncells : tail] = i;
	peeler->queued++;
}

void
iblt_core_peel_start(IbltPeeler *peeler, IbltSketch *sketch, void *scratch)
{
	uint32_t i;

	peeler->sketch = sketch;
	peeler->queue = scratch;
	peeler->in_queue = (uint8_t *) (peeler->queue + sketch->ncells);
	peeler->reported = peeler->in_queue + bitmap_size(sketch);
	memset(peeler->in_queue, 0, 2 * bitmap_size(sketch));
	peeler->head = 0;
	peeler->queued = 0;
	peeler->recovered = 0;
	peeler->rows = 0;
	peeler->contradiction = false;
	peeler->batch_size = 0;
	peeler->batch_next = 0;
	for (i = 0; i < sketch->ncells; i++)
	{
		iblt_check_interrupts_at(i);
		enqueue(peeler, i);
	}
}

static uint64_t
cell_weight(const IbltPeeler *peeler, uint32_t i)
{
	return fp_reduce(iblt_cell_field(iblt_cell(peeler->sketch, i),
									 IBLT_FIELD_WEIGHT));
}

/* Takes cells from the queue and inverts their weights together. */
static bool
next_batch(IbltPeeler *peeler)
{
	uint32_t looked_at = 0;
	uint32_t n = 0;

	while (n < IBLT_PEEL_BATCH && peeler->queued > 0)
	{
		uint32_t i = peeler->queue[peeler->head];
		uint64_t weight = cell_weight(peeler, i);

		if (++peeler->head == peeler->sketch->ncells)
			peeler->head = 0;
		peeler->queued--;
		peeler->in_queue[i >> 3] &= (uint8_t) ~(1 << (i & 7));
		/* many batches, or many empty cells, may pass without a key */
		iblt_check_interrupts_at(looked_at++);
		if (weight == 0)
			continue;
		peeler->batch[n] = i;
		peeler->weight[n++] = weight;
	}
	fp_inv_batch(peeler->weight, peeler->inverse, n);
	peeler->batch_size = n;
	peeler->batch_next = 0;
	return n > 0;
}

/*
 * Reports the pure cell i, whose key is in peeler->key, and removes the key.
 *
 * A reported cell held one key only, so no other key can appear in it.  If one
 * does, a cell was not what it seemed.  Someone who knows the seed can make a
 * cell of three keys pass for a fourth.  That key is then reported at two of
 * its cells with opposite counts and leaves nothing behind.
 */
static void
report(IbltPeeler *peeler, uint32_t i, IbltEntry *entry)
{
	IbltSketch *sketch = peeler->sketch;
	int subtables = iblt_core_subtable_count(&sketch->params);
	uint32_t index[IBLT_MAX_HASHES];
	int j;

	memcpy(peeler->cell, iblt_cell(sketch, i), sketch->cell_size);
	entry->key = peeler->key;
	entry->count = iblt_cell_count(peeler->cell);
	entry->cell = peeler->cell;
	iblt_core_key_cells(sketch, peeler->key, index);
	for (j = 0; j < subtables; j++)
	{
		iblt_core_add_cell(sketch, index[j], peeler->cell, -1);
		peeler->contradiction |= bit_is_set(peeler->reported, index[j]);
		if (index[j] != i)
			enqueue(peeler, index[j]);
	}
	set_bit(peeler->reported, i);
	peeler->recovered++;
	peeler->rows += entry->count;
}

bool
iblt_core_peel_next(IbltPeeler *peeler, IbltEntry *entry)
{
	for (;;)
	{
		uint32_t n;
		uint32_t i;

		if (peeler->batch_next == peeler->batch_size && !next_batch(peeler))
			return false;
		n = peeler->batch_next++;
		i = peeler->batch[n];

		/*
		 * A key reported since the batch was taken may have changed this
		 * cell.  Then its inverse is stale, and the cell is queued again.
		 */
		if (cell_weight(peeler, i) != peeler->weight[n] ||
			bit_is_set(peeler->reported, i))
			continue;
		if (iblt_core_key_of_cell(peeler->sketch, i, iblt_cell(peeler->sketch, i),
								  peeler->inverse[n], peeler->key))
		{
			report(peeler, i, entry);
			return true;
		}
	}
}

IbltPeelResult
iblt_core_peel_result(const IbltPeeler *peeler)
{
	const IbltSketch *sketch = peeler->sketch;
	uint32_t i;

	/* whatever is left: one of the keys may be wrong */
	if (peeler->contradiction)
		return IBLT_PEEL_INCONSISTENT;
	for (i = 0; i < sketch->ncells; i++)
	{
		iblt_check_interrupts_at(i);
		if (!iblt_core_cell_is_zero(sketch, iblt_cell(sketch, i)))
			return IBLT_PEEL_INCOMPLETE;
	}

	/* if a key's count wrapped at 32 bits, this sum is not the header's */
	if (peeler->rows != sketch->rows)
		return IBLT_PEEL_INCONSISTENT;
	/* "no difference" must also hold by the meter, bit by bit */
	if (peeler->recovered == 0 &&
		(sketch->rows != 0 || !iblt_core_meter_is_zero(sketch->meter)))
		return IBLT_PEEL_INCONSISTENT;
	return IBLT_PEEL_COMPLETE;
}
