/*
 * row.h
 *		The inner loop: one row into its cells.
 *
 * Everything is inlined, with limbs and hashes as constants for the common
 * shapes.  So short loops unroll and a row's terms stay in registers.  A value
 * is not part of the loop (cell.c adds it).  iblt_core_add_row (cell.h) is the
 * function to call.  A caller that adds millions of rows to a plain sketch uses
 * an adder, which is chosen once.  It can also use a queue, so that it does not
 * wait for cells that are not in the processor's cache.
 */
#ifndef IBLT_CORE_ROW_H
#define IBLT_CORE_ROW_H

#include "meter.h"

#define IBLT_INLINE		static inline __attribute__((always_inline))

/*
 * -O2 alone does not unroll the short loops, which costs a fifth of the time.
 */
#if defined(__clang__)
#define IBLT_UNROLL		_Pragma("unroll 8")
#else
#define IBLT_UNROLL		_Pragma("GCC unroll 8")
#endif

/* Adds a row's count and canonical terms to one cell. */
IBLT_INLINE void
iblt_cell_add(uint8_t *cell, uint32_t count, const uint64_t *terms,
			  unsigned fields)
{
	unsigned f;

	iblt_store32(cell, iblt_load32(cell) + count);
	IBLT_UNROLL
	for (f = 0; f < fields; f++)
		iblt_cell_set_field(cell, f,
							fp_add_lazy(iblt_cell_field(cell, f), terms[f]));
}

/* Adds a row's terms to one cell. */
typedef void (*IbltCellAdd) (uint8_t *cell, uint32_t count,
							 const uint64_t *terms, unsigned fields);

/*
 * The first half of a row: computes its position in each subtable and its
 * terms (room for limbs + 2 elements), and counts the row in the meter and in
 * the total.  Fails if a limb is a word that no field element stands for.
 */
IBLT_INLINE IbltStatus
iblt_row_take(IbltSketch *sketch, const uint8_t *key, uint64_t y, int sign,
			  unsigned limbs, int hashes, uint32_t *position, uint64_t *terms)
{
	const IbltHasher *hasher = &sketch->hasher;
	uint64_t weight = iblt_hash_weight(hasher, y);
	uint64_t check = iblt_hash_key(hasher, key, 8 * (size_t) limbs, hashes,
								   sketch->params.subtable_cells, position);
	uint64_t signed_weight = sign > 0 ? weight : IBLT_FP_P - weight;
	unsigned l;

	terms[IBLT_FIELD_WEIGHT] = signed_weight;
	IBLT_UNROLL
	for (l = 0; l < limbs; l++)
	{
		/* the seeded mask keeps common numbers such as -1 away from words without an element */
		uint64_t x = iblt_load64(key + 8 * (size_t) l) ^ iblt_limb_mask(hasher, l);

		if (x >= IBLT_FP_P)
			return IBLT_KEY_NOT_REPRESENTABLE;
		terms[IBLT_FIELD_KEY + l] = fp_mul(signed_weight, x);
	}
	check = fp_mul(weight, check);
	terms[IBLT_FIELD_CHECK(limbs)] = sign > 0 ? check : fp_neg(check);
	iblt_meter_add(sketch->meter, check, sign);
	/* unsigned: row counts of crafted values must wrap, not trap */
	sketch->rows = (int64_t) ((uint64_t) sketch->rows + (uint64_t) sign);
	return IBLT_OK;
}

/*
 * The second half: adds the terms to the cells.  cell_add is a constant,
 * inlined.
 */
IBLT_INLINE void
iblt_row_put(IbltSketch *sketch, const uint32_t *position,
			 const uint64_t *terms, int sign, unsigned fields, int hashes,
			 bool all_subtables, IbltCellAdd cell_add)
{
	size_t cell_size = 4 + 8 * (size_t) fields;
	size_t subtable_size = sketch->params.subtable_cells * cell_size;
	uint8_t *subtable = sketch->cells;
	int i;

	IBLT_UNROLL
	for (i = 0; i < hashes; i++)
	{
		if (!all_subtables && (sketch->params.subtables >> i & 1) == 0)
			continue;
		cell_add(subtable + position[i] * cell_size, (uint32_t) sign, terms,
				 fields);
		subtable += subtable_size;
	}
}

/* Adders and queues take keys of at most this many limbs. */
#define IBLT_QUEUE_LIMBS	4

/*
 * Does the sketch have four hashes, all subtables, no values and short keys?
 */
static inline bool
iblt_core_is_plain(const IbltParams *params)
{
	return params->hashes == 4 && params->subtables == 0x0f &&
		params->value.limbs == 0 && params->key.limbs >= 1 &&
		params->key.limbs <= IBLT_QUEUE_LIMBS;
}

/* Rows whose cells are being fetched, as many as a fetch takes to arrive. */
#define IBLT_QUEUE_ROWS		8

/* From this size on, in bytes of cells, a queue saves more than it costs. */
#define IBLT_QUEUE_MIN_SIZE	(128 * 1024)

/*
 * Rows that are counted in a sketch and whose terms are not in its cells yet.
 * An empty queue is all zero.
 */
typedef struct IbltQueue
{
	unsigned	next;			/* the slot to use, that of the oldest row */
	struct
	{
		uint32_t	position[4];
		int			sign;		/* what the cells count */
		/* the first, the weight, is 0 in a free slot */
		uint64_t	terms[IBLT_QUEUE_LIMBS + 2];
	}			slot[IBLT_QUEUE_ROWS];
} IbltQueue;

/*
 * Each inserts a row into a plain sketch (sign +1) or removes one (sign -1), at
 * once or through a queue.  The keys must have as many limbs as the adder was
 * chosen for.
 */
typedef struct IbltRowAdder
{
	IbltStatus	(*add) (IbltSketch *sketch, const uint8_t *key, uint64_t y,
						int sign);
	IbltStatus	(*queue) (IbltQueue *queue, IbltSketch *sketch,
						  const uint8_t *key, uint64_t y, int sign);
} IbltRowAdder;

/*
 * The fastest adder that this processor has for a shape of sketch, and one for
 * any processor.  NULL if the sketch is not plain.
 */
extern const IbltRowAdder *iblt_core_row_adder(const IbltParams *params);
extern const IbltRowAdder *iblt_core_row_adder_portable(const IbltParams *params);

/*
 * Adds the queued rows to the cells.  Must be called before the cells are
 * read.
 */
extern void iblt_core_queue_flush(IbltQueue *queue, IbltSketch *sketch);

#endif
