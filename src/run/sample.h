/*-------------------------------------------------------------------------
 *
 * sample.h
 *	  What our methods of TABLESAMPLE share: all rows of the blocks that a
 *	  method chooses, in order, unless it chooses among them, too.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_RUN_SAMPLE_H
#define IBLT_RUN_SAMPLE_H

#include "postgres.h"

#include "access/tsmapi.h"
#include "storage/block.h"
#include "storage/off.h"

/* The first member of a method's own state. */
typedef struct IbltSample
{
	MemoryContext context;		/* all that belongs to this scan */
	BlockNumber next;			/* the block to look at */
	OffsetNumber offset;		/* of the last row in the block before it */
} IbltSample;

/*
 * The state of a scan that begins, of that many zero bytes, in place of that of the
 * last one.  What else belongs to the scan goes into its context.
 */
extern void *iblt_sample_begin(SampleScanState *node, Size size);

/*
 * ERROR unless the role that reads the relation may read this column, too, of all its
 * rows.  The executor knows nothing of columns that a method's arguments name.
 */
extern void iblt_sample_require(SampleScanState *node, const char *column);

/* Chooses the block to look at. */
extern BlockNumber iblt_sample_take(IbltSample *sample);

/*
 * A method, whose state is an IbltSample or begins with one.  parameters are
 * the OIDs of types, and repeatable tells whether a second scan may choose the
 * same blocks again.
 */
extern TsmRoutine *iblt_sample_method(List *parameters, bool repeatable,
									  BeginSampleScan_function begin,
									  NextSampleBlock_function next_block);

#endif							/* IBLT_RUN_SAMPLE_H */
