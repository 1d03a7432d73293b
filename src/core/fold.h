/*
 * fold.h
 *		Smaller sketches without a new scan of the rows.
 *
 * A key's position is floor(h * s / 2^32), so for any divisor f of s its
 * position among s / f cells is position / f.  Adding each run of f
 * neighbouring cells gives, bit for bit, the sketch that would have been built
 * with s / f cells.  So one scan builds one large sketch, and each message is
 * a fold of it.  (This is the compaction of the key-value Bloom filter, made
 * exact.)  A dropped subtable, the lost subblock of Goodrich & Mitzenmacher,
 * gives the sizes in between.
 */
#ifndef IBLT_CORE_FOLD_H
#define IBLT_CORE_FOLD_H

#include "sketch.h"

/*
 * The size that subtables of both sizes can be folded to: the smaller size if
 * it divides the other, else 0.
 */
extern uint32_t iblt_core_common_cells(uint32_t a, uint32_t b);

/*
 * The smallest size of at least `least` cells that subtables of `cells` cells
 * can be folded to.  That is cells itself if there is no smaller one, and 0 if
 * least > cells.
 */
extern uint32_t iblt_core_fold_cells(uint32_t cells, uint32_t least);

/*
 * Adds the contents of `from` to `to`, an empty sketch.  Their parameters must
 * be the same, with two exceptions.  to's subtables may have fewer cells, a
 * divisor of from's, and `to` may keep only some of from's subtables.  `to` is
 * not sealed.
 *
 * Here and below, counts wrap.  Two folds can be subtracted whatever the
 * number of rows in a cell, and each key's own count is that of the larger
 * sketch.
 */
extern void iblt_core_fold(IbltSketch *to, const IbltSketch *from);

#endif
