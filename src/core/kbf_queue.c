/*
 * kbf_queue.c
 *		Pairs on their way into the cells of a large filter.
 */
#include "kbf_queue.h"
#include "row.h"

/* Adds the pair of a slot, if there is one, to the cells, and frees the slot. */
IBLT_INLINE void
put(IbltKbfQueue *queue, unsigned slot, IbltKbf *kbf, int hashes)
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

	put(queue, next, kbf, hashes);
	iblt_kbf_place(kbf, key, size, hashes, &place);
	IBLT_UNROLL
	for (i = 0; i < hashes; i++)
	{
		uint64_t bit = (uint64_t) place.index[i] * kbf->cell_bits;

		queue->slot[next].bit[i] = bit;
#if defined(__GNUC__)
		/* a cell is seldom on two cache lines */
		__builtin_prefetch(kbf->cells + (bit >> 3), 1);
#endif
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
		put(queue, slot, kbf, kbf->params.hashes);
}
