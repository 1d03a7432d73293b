/*-------------------------------------------------------------------------
 *
 * aggstate.c
 *	  The state of a group of the aggregates that make sketches.
 *
 *-------------------------------------------------------------------------
 */
#include "sketch/aggstate.h"

#include "utils/memutils.h"

IbltAggState *
iblt_state_make(const IbltParams *params, MemoryContext context)
{
	IbltAggState *state;
	bool		queued;
	size_t		head;

	iblt_check_params(params);
	queued = params->strata == 0 &&
		iblt_core_size(params) >= IBLT_QUEUE_MIN_SIZE;
	head = MAXALIGN(queued ? sizeof(IbltAggState)
					: offsetof(IbltAggState, queue));
	/* the largest sketch fits in a value, but not with this in front */
	state = MemoryContextAllocExtended(context,
									   head + iblt_core_size(params),
									   MCXT_ALLOC_HUGE);
	memset(state, 0, head);
	iblt_core_init(&state->sketch, params, (uint8 *) state + head);
	state->adder = iblt_core_row_adder(params);
	state->queued = queued;
	return state;
}

IbltSketch *
iblt_state_sketch(IbltAggState *state)
{
	if (state->queued)
		iblt_core_queue_flush(&state->queue, &state->sketch);
	if (state->inserted && !iblt_core_inserted_fit(&state->sketch))
		iblt_check_counts(&state->sketch.params, IBLT_COUNT_OVERFLOW);
	return &state->sketch;
}

struct varlena *
iblt_state_value(void *state)
{
	IbltSketch *sketch = iblt_state_sketch(state);

	iblt_core_seal(sketch);
	return iblt_value_copy(sketch->bytes, sketch->size);
}

IbltAggState *
iblt_state_add(IbltAggState *state, const IbltSketch *sketch, int sign,
			   MemoryContext context)
{
	IbltParams	params = sketch->params;

	if (state != NULL)
		iblt_params_check_match(&state->sketch.params, &sketch->params);
	if (state == NULL || (state->sketch.params.key.kind == IBLT_KEY_UNTYPED &&
						  sketch->params.key.kind != IBLT_KEY_UNTYPED))
		state = iblt_state_make(&params, context);
	iblt_check_counts(&sketch->params,
					  iblt_core_add_sketch(&state->sketch, sketch, sign));
	return state;
}
