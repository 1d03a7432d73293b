/*
 * peel.h
 *		Decoding: the keys of a sketch, one at a time.
 *
 * Peeling follows LISTENTRIES of Goodrich & Mitzenmacher and the decode of the
 * Difference Digest.  Take a pure cell from a queue, report its key, subtract
 * the cell's contents from all the key's cells, queue those, and go on until
 * no cell is pure.  A cell reports at most once, which bounds the work on
 * corrupt and crafted sketches.  At the end every cell must be zero.
 */
#ifndef IBLT_CORE_PEEL_H
#define IBLT_CORE_PEEL_H

#include "cell.h"

/*
 * Weights inverted together.  An inversion costs some 75 products.  Shared by
 * 64 it costs one more product for each.
 */
#define IBLT_PEEL_BATCH		64

typedef enum IbltPeelResult
{
	IBLT_PEEL_COMPLETE,			/* every row of the sketch was reported */
	IBLT_PEEL_INCOMPLETE,		/* more keys than the cells can hold */
	IBLT_PEEL_INCONSISTENT		/* cells and header contradict each other: not
								 * made by inserting, deleting and adding, or a
								 * key's count does not fit in 32 bits */
} IbltPeelResult;

typedef struct IbltPeeler
{
	IbltSketch *sketch;			/* peeled until it is empty */
	uint32_t   *queue;			/* ring of cells to check */
	uint32_t	head;
	uint32_t	queued;			/* cells in the ring */
	uint8_t    *in_queue;		/* bit for each cell */
	uint8_t    *reported;		/* bit for each cell */
	uint32_t	recovered;		/* keys reported */
	int64_t		rows;			/* sum of their counts */
	bool		contradiction;	/* a reported key's cell had been reported
								 * before, as another's or its own */
	uint32_t	batch_size;
	uint32_t	batch_next;
	uint32_t	batch[IBLT_PEEL_BATCH];
	uint64_t	weight[IBLT_PEEL_BATCH];
	uint64_t	inverse[IBLT_PEEL_BATCH];
	uint8_t		key[8 * IBLT_MAX_LIMBS];
	uint8_t		cell[4 + 8 * IBLT_MAX_FIELDS];	/* reported last */
} IbltPeeler;

/* Bytes of scratch memory that peeling this sketch takes, 4-byte aligned. */
extern size_t iblt_core_peel_scratch_size(const IbltSketch *sketch);

/* Begins to peel.  The sketch is a copy that may be destroyed. */
extern void iblt_core_peel_start(IbltPeeler *peeler, IbltSketch *sketch,
								 void *scratch);

/*
 * The next key, or false if no cell is pure any more.  entry is valid until
 * the next call.  The number of steps of all calls is bounded (each
 * report queues at most k cells, and there are at most ncells reports).
 */
extern bool iblt_core_peel_next(IbltPeeler *peeler, IbltEntry *entry);

/* The result, after iblt_core_peel_next has returned false. */
extern IbltPeelResult iblt_core_peel_result(const IbltPeeler *peeler);

#endif
