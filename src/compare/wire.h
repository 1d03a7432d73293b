/*-------------------------------------------------------------------------
 *
 * wire.h
 *	  Sketches as they travel.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_COMPARE_WIRE_H
#define IBLT_COMPARE_WIRE_H

#include "iblt.h"

/*
 * Folds a sketch into a new one, which it returns.  ERROR unless its subtables
 * can have this number of cells.
 */
extern struct varlena *iblt_fold_to(IbltSketch *to, const IbltSketch *from,
									int32 subtable_cells);

/*
 * How many cells of each subtable travel to a receiver that already has the
 * fold to `known` cells.
 */
extern uint32 iblt_wire_cells(uint32 cells, uint32 known);

#endif							/* IBLT_COMPARE_WIRE_H */
