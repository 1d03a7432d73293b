/*-------------------------------------------------------------------------
 *
 * sample.c
 *	  What our methods of TABLESAMPLE share.
 *
 *-------------------------------------------------------------------------
 */
#include "run/sample.h"

#include "access/parallel.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "nodes/pathnodes.h"
#include "nodes/plannodes.h"
#include "parser/parse_relation.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rls.h"

void *
iblt_sample_begin(SampleScanState *node, Size size)
{
	IbltSample *sample = node->tsm_state;
	MemoryContext context;

	if (sample == NULL)
		context = AllocSetContextCreate(node->ss.ps.state->es_query_cxt, "iblt sample",
										ALLOCSET_SMALL_SIZES);
	else
	{
		context = sample->context;
		MemoryContextReset(context);
	}
	sample = MemoryContextAllocZero(context, size);
	sample->context = context;
	node->tsm_state = sample;
	return sample;
}

/*
 * The relation of the statement that a scan is for.  A partition or a child is read by
 * the rights to the table that the statement names.
 */
static RangeTblEntry *
named_entry(SampleScanState *node)
{
	EState	   *estate = node->ss.ps.state;
	Index		number = ((Scan *) node->ss.ps.plan)->scanrelid;
	ListCell   *cell;
	bool		climbs;

	do
	{
		climbs = false;
		foreach(cell, estate->es_plannedstmt->appendRelations)
		{
			AppendRelInfo *info = lfirst_node(AppendRelInfo, cell);

			if (info->child_relid != number || !OidIsValid(info->parent_reloid))
				continue;
			number = info->parent_relid;
			climbs = true;
		}
	} while (climbs);
	return exec_rt_fetch(number, estate);
}

/* The role that the rights are checked of: the owner of a view, or the current one. */
static Oid
reading_role(EState *estate pg_attribute_unused(), RangeTblEntry *entry)
{
	Oid			role;

#if PG_VERSION_NUM >= 160000
	role = getRTEPermissionInfo(estate->es_rteperminfos, entry)->checkAsUser;
#else
	role = entry->checkAsUser;
#endif
	return OidIsValid(role) ? role : GetUserId();
}

void
iblt_sample_require(SampleScanState *node, const char *column)
{
	RangeTblEntry *entry;
	const char *relation;
	AttrNumber	number;
	Oid			role;

	/* workers do not know what a partition belongs to */
	if (IsParallelWorker())
		elog(ERROR, "a sample is read by a parallel worker");
	entry = named_entry(node);
	relation = get_rel_name(entry->relid);
	role = reading_role(node->ss.ps.state, entry);
	number = get_attnum(entry->relid, column);
	if (number == InvalidAttrNumber)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of relation \"%s\" does not exist", column, relation)));
	if (pg_class_aclcheck(entry->relid, role, ACL_SELECT) != ACLCHECK_OK &&
		pg_attribute_aclcheck(entry->relid, number, role, ACL_SELECT) != ACLCHECK_OK)
		aclcheck_error_col(ACLCHECK_NO_PRIV, OBJECT_COLUMN, relation, column);
	/* a policy is asked after the method, which has looked into hidden rows then */
	if (check_enable_rls(entry->relid, role, true) == RLS_ENABLED)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for rows of \"%s\" that a policy hides", relation)));
}

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
