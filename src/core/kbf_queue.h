/*
 * kbf_queue.h
 *		Pairs on their way into the cells of a large filter.
 *
 * The cells of a key are at random places.  A queue asks for them when a pair
 * comes, and adds the pair some pairs later, when they have arrived in the
 * processor's cache.  The cells are the same in the end, because the order of
 * insertions does not matter.
 */
#ifndef IBLT_CORE_KBF_QUEUE_H
#define IBLT_CORE_KBF_QUEUE_H

#include "kbf_cell.h"

/* Pairs whose cells are being fetched, as many as a fetch takes to arrive. */
#define IBLT_KBF_QUEUE_PAIRS	8

/* From this size on, in bytes of a filter, a queue saves more than it costs. */
#define IBLT_KBF_QUEUE_MIN_SIZE	(128 * 1024)

/* An empty queue is all zero. */
typedef struct IbltKbfQueue
{
	unsigned	next;			/* the slot to use, that of the oldest pair */
	struct
	{
		uint64_t	pair;		/* as a cell, or 0 in a free slot */
		uint64_t	bit[IBLT_KBF_MAX_HASHES];	/* where its cells begin */
	}			slot[IBLT_KBF_QUEUE_PAIRS];
} IbltKbfQueue;

/*
 * iblt_core_kbf_insert_with through a queue.  The cells and the number of keys
 * are right after iblt_core_kbf_queue_flush.
 */
extern void iblt_core_kbf_queue_insert(IbltKbfQueue *queue, IbltKbf *kbf,
									   const uint64_t *codes,
									   const uint8_t *key, size_t size,
									   unsigned value);

/* Adds the queued pairs to the cells. */
extern void iblt_core_kbf_queue_flush(IbltKbfQueue *queue, IbltKbf *kbf);

#endif
