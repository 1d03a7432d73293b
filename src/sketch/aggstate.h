/*-------------------------------------------------------------------------
 *
 * aggstate.h
 *	  The state of a group of the aggregates that make sketches.
 *
 * A state is the value that the aggregate will return, behind a view of it.
 * It takes one allocation of the value's size and some 350 bytes, whatever the
 * number of rows.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_SKETCH_AGGSTATE_H
#define IBLT_SKETCH_AGGSTATE_H

#include "sketch/iblt.h"

#include "core/row.h"
#include "core/sums.h"

/* The state of one group.  The sketch's bytes follow. */
typedef struct IbltAggState
{
	IbltSketch	sketch;
	uint64		version;		/* of site and coder at the last check */
	const IbltRowAdder *adder;	/* for a plain sketch, or NULL */
	bool		queued;			/* large enough for rows to go through the
								 * queue */
	bool		inserted;		/* rows were inserted without checking counts */
	IbltQueue	queue;			/* exists only if queued */
} IbltAggState;

/* An empty state for these parameters that lives as long as the context. */
extern IbltAggState *iblt_state_make(const IbltParams *params,
									 MemoryContext context);

/*
 * The state's sketch with all rows in its cells.  ERROR if a count wrapped
 * while rows were inserted one by one.  This can be seen because the state
 * holds no rows but its group's.
 */
extern IbltSketch *iblt_state_sketch(IbltAggState *state);

/* The sealed value of a state.  The state can still be used. */
extern struct varlena *iblt_state_value(void *state);

/*
 * Adds a sketch to the state, or subtracts it.  An untyped state takes the key
 * type of the sketch, and then another state is returned, as for NULL.
 */
extern IbltAggState *iblt_state_add(IbltAggState *state,
									const IbltSketch *sketch, int sign,
									MemoryContext context);

/* Adds a key and its checksum to a state. */
static pg_attribute_always_inline IbltStatus
iblt_state_insert(IbltAggState *state, const uint8 *key, uint64 y)
{
	if (unlikely(state->adder == NULL))
		return iblt_core_add_row(&state->sketch, key, y, 1);
	if (state->queued)
		return state->adder->queue(&state->queue, &state->sketch, key, y, 1);
	return state->adder->add(&state->sketch, key, y, 1);
}

/* Adds a row, or removes it, that has a checksum and no other value. */
static pg_attribute_always_inline IbltStatus
iblt_state_change(IbltAggState *state, const uint8 *key, uint64 y, int sign)
{
	return sign > 0 ? iblt_state_insert(state, key, y)
		: iblt_core_add_row(&state->sketch, key, y, sign);
}

#endif							/* IBLT_SKETCH_AGGSTATE_H */
