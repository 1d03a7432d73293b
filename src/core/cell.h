/*
 * cell.h
 *		Rows into cells, cells added to cells, and folds.
 *
 * A row (key, y) adds its terms to one cell of each subtable: c, and the field
 * elements c*w(y), c*w(y)*x_1 .. c*w(y)*x_L, c*w(y)*g(key) and, in a value
 * sketch, c*w(y)*v_1 .. c*w(y)*v_V of its value.  c is +1 for insert and -1 for
 * delete.  Everything is linear, so sketches can be added and subtracted cell by
 * cell.  Every sum is weighted by w(y), so that rows of one key with several
 * values can share a cell and still decode.  Goodrich & Mitzenmacher leave this
 * case open.
 *
 * A key's position is floor(h * s / 2^32), so for any divisor f of s its
 * position among s / f cells is position / f.  Adding each run of f
 * neighbouring cells gives, bit for bit, the sketch that would have been built
 * with s / f cells.  So one scan builds one large sketch, and each message is
 * a fold of it.  (This is the compaction of the key-value Bloom filter, made
 * exact.)  A dropped subtable, the lost subblock of Goodrich & Mitzenmacher,
 * gives the sizes in between.
 */
#ifndef IBLT_CORE_CELL_H
#define IBLT_CORE_CELL_H

#include "sketch.h"

/* What a cell or a decoding says about one key. */
typedef struct IbltEntry
{
	const uint8_t *key;			/* 8 * limbs bytes */
	int32_t		count;			/* rows inserted less rows deleted */
	const uint8_t *cell;		/* that holds these rows, for
								 * iblt_core_entry_value */
} IbltEntry;

/* Is a key there?  (get.h, kbf_cell.h) */
typedef enum IbltPresence
{
	IBLT_ABSENT,
	IBLT_PRESENT,
	IBLT_UNKNOWN,
	IBLT_CONTRADICTION			/* header and cells cannot both be right */
} IbltPresence;

/*
 * Inserts (sign +1) or deletes (sign -1) a row.  key has 8 * limbs bytes, and
 * y is its checksum or, in a sketch of integer values, its value.  The sketch
 * must have cells, and no values of another kind.  It is not sealed
 * afterwards.  Fails without a change if a limb is one of the 59 words that no
 * field element stands for (probability 3e-18 each).  Counts wrap.  A caller
 * that only inserts calls iblt_core_inserted_fit (sums.h) at the end.
 */
extern IbltStatus iblt_core_add_row(IbltSketch *sketch, const uint8_t *key,
									uint64_t y, int sign);

/* The same for a value of any kind, which has 8 * value.limbs bytes. */
extern IbltStatus iblt_core_add_pair(IbltSketch *sketch, const uint8_t *key,
									 const uint8_t *value, int sign);

/*
 * Cell i += sign * addend, a cell of the same shape.  Neither needs to be
 * sealed.  The count wraps.
 */
extern void iblt_core_add_cell(IbltSketch *sketch, uint32_t i,
							   const uint8_t *addend, int sign);

/*
 * sketch += sign * other, which is compatible or an untyped template.  They need
 * not be sealed, and sketch is left unsealed.  Fails with IBLT_COUNT_OVERFLOW
 * if the count of a cell or of all rows is out of range.  sketch must not be
 * used after that.
 */
extern IbltStatus iblt_core_add_sketch(IbltSketch *sketch,
									   const IbltSketch *other, int sign);

/*
 * Adds the contents of `from` to `to`, an empty sketch.  Their parameters must
 * be the same, with two exceptions.  to's subtables may have fewer cells, a
 * divisor of from's, and `to` may keep only some of from's subtables.  `to` is
 * not sealed.
 *
 * Counts wrap.  Two folds can be subtracted whatever the number of rows in a
 * cell, and each key's own count is that of the larger sketch.
 */
extern void iblt_core_fold(IbltSketch *to, const IbltSketch *from);

/*
 * Is cell i, whose bytes may be anywhere, pure: does it hold rows of one key only?
 * inverse is that of its weight.  If the cell is pure, sets key (8 * limbs bytes).
 * A cell of several keys passes with probability 2^-64 / cells of a subtable.
 */
extern bool iblt_core_key_of_cell(const IbltSketch *sketch, uint32_t i,
								  const uint8_t *cell, uint64_t inverse,
								  uint8_t *key);

/*
 * Do all rows of an entry carry one value?  If so, sets value, which has
 * room for 8 * value.limbs bytes.  False in a sketch without values.  Rows of
 * several values pass with a probability below 2^-62.
 */
extern bool iblt_core_entry_value(const IbltSketch *sketch,
								  const IbltEntry *entry, uint8_t *value);

/*
 * The indices of a key's cells, one for each subtable kept.  Returns g(key).
 */
extern uint64_t iblt_core_key_cells(const IbltSketch *sketch,
									const uint8_t *key, uint32_t *index);

#endif
