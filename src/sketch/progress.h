/*-------------------------------------------------------------------------
 *
 * progress.h
 *	  How far a scan is whose rows an aggregate sums up.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_SKETCH_PROGRESS_H
#define IBLT_SKETCH_PROGRESS_H

#include "postgres.h"

#include "fmgr.h"

/* Says how far the scan below an aggregate is, if that is due. */
extern void iblt_progress_say(FunctionCallInfo fcinfo);

/* To be called after each row, with the number of rows in the state. */
static inline void
iblt_progress_row(FunctionCallInfo fcinfo, int64 rows)
{
	if (unlikely((rows & 0xffff) == 0))
		iblt_progress_say(fcinfo);
}

#endif							/* IBLT_SKETCH_PROGRESS_H */
