/*-------------------------------------------------------------------------
 *
 * sample.c
 *	  What our methods of TABLESAMPLE share.
 *
 *-------------------------------------------------------------------------
 */
#include "run/sample.h"

#include "nodes/execnodes.h"
#include "nodes/pathnodes.h"

BlockNumber
iblt_sample_take(IbltSample *sample)
{
	sample->offset = InvalidOffsetNumber;
	return sample->next++;
}

/* All rows of a block. */
static OffsetNumber
next_tuple(SampleScanState *node, BlockNumber blockno pg_attribute_unused(),
		   OffsetNumber maxoffset)
{
	IbltSample *sample = node->tsm_state;

	sample->offset = OffsetNumberNext(sample->offset);
	return sample->offset <= maxoffset ? sample->offset : InvalidOffsetNumber;
}

/* As the planner takes it; there is no other way to read the relation. */
static void
sample_size(PlannerInfo *root pg_attribute_unused(), RelOptInfo *relation,
			List *params pg_attribute_unused(), BlockNumber *pages, double *tuples)
{
	*pages = relation->pages;
	*tuples = relation->tuples;
}

TsmRoutine *
iblt_sample_method(List *parameters, bool repeatable, BeginSampleScan_function begin,
				   NextSampleBlock_function next_block)
{
	TsmRoutine *routine = makeNode(TsmRoutine);

	routine->parameterTypes = parameters;
	routine->repeatable_across_queries = false;
	routine->repeatable_across_scans = repeatable;
	routine->SampleScanGetSampleSize = sample_size;
	routine->BeginSampleScan = begin;
	routine->NextSampleBlock = next_block;
	routine->NextSampleTuple = next_tuple;
	return routine;
}
