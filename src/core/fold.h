/*
 * fold.h
 *		Sketches made smaller without a new scan of the rows.
 *
 * A key's position is floor(h * s / 2^32), so for any divisor f of s its
 * position among s / f cells is position / f: adding each run of f neighbouring
 * cells gives, bit for bit, the sketch that would have been built with s / f
 * cells.  One scan builds one large sketch, and each message is a fold of it.
 * (The key-value Bloom filter's compaction, made exact.)  Dropping a subtable,
 * the lost subblock of Goodrich & Mitzenmacher, gives steps in between.
 */
#ifndef IBLT_CORE_FOLD_H
#define IBLT_CORE_FOLD_H

#include "sketch.h"

/* The sizes of subtables that both can be folded to, or 0: one divides the other. */
extern uint32_t iblt_core_common_cells(uint32_t a, uint32_t b);

/*
 * The least size of at least `least` cells that subtables of `cells` cells can
 * be folded to; cells itself if there is no smaller one, 0 if least > cells.
 */
extern uint32_t iblt_core_fold_cells(uint32_t cells, uint32_t least);

/*
 * Adds to `to`, an empty sketch, the contents of `from`.  Their parameters
 * must be the same except that to's subtables have fewer cells, a divisor of
 * from's, or that to keeps only some of from's subtables.  `to` is not sealed.
 *
 * Here and below, counts wrap: two folds can be subtracted whatever the number
 * of rows in a cell, and each key's own count is that of the larger sketch.
 */
extern void iblt_core_fold(IbltSketch *to, const IbltSketch *from);

/*
 * Whoever has a sketch folded to s / 2 cells a subtable need not be sent all s
 * to have the sketch of s cells: the even ones are enough, for the odd ones are
 * what is missing to the sums.
 *
 * iblt_core_evens adds the even cells of `from` to `to`, an empty sketch whose
 * subtables have half as many cells; row count and meter are from's.  `to` is
 * sealed like a sketch, but only iblt_core_refine makes sense of it.
 */
extern void iblt_core_evens(IbltSketch *to, const IbltSketch *from);

/*
 * Adds to `fine`, an empty sketch, the one of which `evens` are the even cells
 * and `coarse` is the fold by two; these two have half of fine's cells.
 */
extern void iblt_core_refine(IbltSketch *fine, const IbltSketch *coarse,
							 const IbltSketch *evens);

#endif
