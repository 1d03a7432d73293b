/*
 * kbf_cell.h
 *		The cells of a key-value Bloom filter: pairs that are put in, filters that are
 *		added and subtracted, and keys looked up.
 *
 * Each key turns the circle of values by a hash of its own.  So the codes in a
 * cell are uniform and independent, however uneven the values are, and equal
 * values of different keys seldom cancel.  A decoded code that is none of the
 * filter's values, after it is turned back, is ruled out.
 *
 * The true value of a key that was inserted once is possible by all its cells.
 * So an answer that it is absent or has another value is impossible, as long as
 * nobody deletes or updates a pair that is not there.  A key that was inserted
 * twice, or whose cells leave several values, is unknown.
 *
 * What holds of the order of operations:
 *
 *	- Insertions, sums and folds of the same pairs give the same bytes in any
 *	  order and grouping.  A cell is full if its pairs are 15 or more, or if it
 *	  was full in one of the filters.
 *	- Deletions, updates and differences may give other bytes in another order
 *	  only in cells that were full on the way in one of the orders.  All other
 *	  cells and the number of keys are the same.  Insertions first, deletions
 *	  last makes the most cells full, and does not depend on the order of either.
 *	- A deletion before its insertion, or a difference before its sum, is
 *	  refused.  There are no negative counters.
 */
#ifndef IBLT_CORE_KBF_CELL_H
#define IBLT_CORE_KBF_CELL_H

#include "cell.h"
#include "kbf.h"

/* Where a key is, and how it turns its value. */
typedef struct IbltKbfPlace
{
	uint32_t	index[IBLT_KBF_MAX_HASHES]; /* its cells, one of each subtable */
	unsigned	turn;			/* 0 to 2^q - 2 */
} IbltKbfPlace;

/*
 * The place of a key.  Integers have 8 bytes, uuids 16, and canonical keys their
 * items without padding.  hashes is that of the filter, maybe as a constant.
 */
static inline void
iblt_kbf_place(const IbltKbf *kbf, const uint8_t *key, size_t size,
			   int hashes, IbltKbfPlace *place)
{
	const IbltKbfParams *params = &kbf->params;
	uint64_t	hash = iblt_hash_key(&kbf->hasher, key, size, hashes,
									 params->subtable_cells, place->index);
	int			i;

	for (i = 0; i < hashes; i++)
		place->index[i] += (uint32_t) i * params->subtable_cells;
	/* the product mixes in the bits that no position depends on */
	place->turn = iblt_scale((uint32_t) (hash * IBLT_GOLDEN >> 32),
							 gf_values(params->degree));
}

/* The field element that stands for a key's value. */
static inline unsigned
iblt_kbf_turned(const IbltKbfParams *params, unsigned value, unsigned turn)
{
	unsigned	element = value + turn;

	return element > gf_values(params->degree)
		? element - gf_values(params->degree) : element;
}

/* The value that a field element stands for.  It may be out of range. */
static inline unsigned
iblt_kbf_turned_back(const IbltKbfParams *params, unsigned element,
					 unsigned turn)
{
	return element > turn ? element - turn
		: element + gf_values(params->degree) - turn;
}

/*
 * Adds a pair, as a cell of one pair, to the cell that begins at a bit of the
 * cells.  A cell of 14 pairs becomes full, and a full one stays full.  Below that,
 * counter and content are added within the word, without a carry.
 */
static inline void
iblt_kbf_put_at(IbltKbf *kbf, uint64_t bit, uint64_t pair)
{
	uint8_t    *word = kbf->cells + (bit >> 3);
	unsigned	shift = (unsigned) (bit & 7);
	uint64_t	cells = iblt_load64(word);
	uint64_t	mask = ((UINT64_C(1) << kbf->cell_bits) - 1) << shift;

	if (iblt_kbf_count(cells >> shift) < IBLT_KBF_FULL - 1)
		iblt_store64(word,
					 (cells ^ (pair - 1) << shift) + (UINT64_C(1) << shift));
	else
		iblt_store64(word,
					 (cells & ~mask) | (uint64_t) IBLT_KBF_FULL << shift);
}

/*
 * Inserts a pair.  The filter must have a type of key, and is not sealed
 * afterwards.  Cells become full as described above.  Fails, without a change,
 * with IBLT_VALUE_OUT_OF_RANGE or IBLT_COUNT_OVERFLOW.
 */
extern IbltStatus iblt_core_kbf_insert(IbltKbf *kbf, const uint8_t *key,
									   size_t size, unsigned value);

/*
 * The same for millions of pairs, with a table of 2^q codes that
 * iblt_core_kbf_codes has filled, or NULL.  value must be in range.  It cannot
 * fail below 2^63 keys.
 */
extern void iblt_core_kbf_codes(const IbltKbfParams *params, uint64_t *codes);
extern void iblt_core_kbf_insert_with(IbltKbf *kbf, const uint64_t *codes,
									  const uint8_t *key, size_t size,
									  unsigned value);

/*
 * Pairs on their way into the cells of a large filter, as many as a fetch takes
 * to arrive.  The cells of a key are at random places.  A queue asks for them
 * when a pair comes, and adds the pair some pairs later, when they have arrived
 * in the processor's cache.
 */
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

/*
 * Deletes a pair that was inserted.  If the key's cells show that they do not
 * hold it, fails with IBLT_NOT_IN_FILTER and changes nothing.  They do not
 * always show it, and then the filter is damaged.  So the caller must know the
 * value, or have looked it up as IBLT_PRESENT.
 */
extern IbltStatus iblt_core_kbf_delete(IbltKbf *kbf, const uint8_t *key,
									   size_t size, unsigned value);

/* Changes the value of a pair that was inserted.  Fails as deletion does. */
extern IbltStatus iblt_core_kbf_update(IbltKbf *kbf, const uint8_t *key,
									   size_t size, unsigned old_value,
									   unsigned new_value);

/*
 * Looks a key up.  PRESENT with its value if it is the only one that all its
 * cells can have.  ABSENT if a cell is empty or they can have none in common.
 * UNKNOWN if several values are left or the cells say nothing.  CONTRADICTION
 * if no values make up a cell.
 *
 * A cell tells its values if it has at most t pairs, unless two of them are
 * equal.  One of t + 1 pairs only tells whether it can have a given value.
 */
extern IbltPresence iblt_core_kbf_get(const IbltKbf *kbf, const uint8_t *key,
									  size_t size, unsigned *value);

/*
 * The same from the key's cells, one of each subtable, and its turn.  The caller
 * has fetched them.
 */
extern IbltPresence iblt_core_kbf_judge(const IbltKbfParams *params,
										const uint64_t *cells, unsigned turn,
										unsigned *value);

/*
 * kbf += other, of compatible parameters, except that the other's subtables may
 * have a multiple of the cells.  kbf must have a type of key if the other has
 * one, and is left unsealed.  Fails with IBLT_COUNT_OVERFLOW.  The other is then
 * folded: it adds what a filter of its pairs and of fewer cells would add.  Only
 * cells that were full and then lost pairs can differ, because they stay full.
 */
extern IbltStatus iblt_core_kbf_add(IbltKbf *kbf, const IbltKbf *other);

/*
 * kbf -= other, of compatible parameters.  Fails with IBLT_NOT_A_PART if kbf
 * does not hold the pairs of the other as far as the cells show it.  kbf must
 * not be used after that.  A cell that is full in either is full.
 */
extern IbltStatus iblt_core_kbf_subtract(IbltKbf *kbf, const IbltKbf *other);

/* Cells that are full. */
extern uint32_t iblt_core_kbf_full_cells(const IbltKbf *kbf);

#endif
