/*-------------------------------------------------------------------------
 *
 * progress.c
 *	  How far a scan is whose rows an aggregate sums up.
 *
 * PostgreSQL shows the progress of commands only.  The setting
 * iblt.scan_progress is the number of milliseconds between two messages.  The
 * clock is read after each 65536 rows.  In a parallel scan, the leader says
 * which part of the blocks it and the workers have taken.  It says nothing if
 * it only waits for workers.
 *
 *-------------------------------------------------------------------------
 */
#include "sketch/progress.h"

#include "access/heapam.h"
#include "access/parallel.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "nodes/execnodes.h"
#include "nodes/nodeFuncs.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

/* When the last message was sent. */
static TimestampTz last_said = 0;

static bool
is_due(void)
{
	const char *ms = GetConfigOption("iblt.scan_progress", true, false);
	TimestampTz now;

	if (ms == NULL || *ms == '\0' || IsParallelWorker())
		return false;
	now = GetCurrentTimestamp();
	last_said = Max(last_said, GetCurrentStatementStartTimestamp());
	if (!TimestampDifferenceExceeds(last_said, now, atoi(ms)))
		return false;
	last_said = now;
	return true;
}

/* Which percentage of its blocks has a scan read, or -1 if it is not a scan of a heap? */
static int
percentage(TableScanDesc scan)
{
	HeapScanDesc heap = (HeapScanDesc) scan;
	uint64		done;

	if (scan == NULL || scan->rs_rd->rd_tableam != GetHeapamTableAmRoutine() ||
		heap->rs_nblocks == 0 || !BlockNumberIsValid(heap->rs_cblock))
		return -1;
	if (scan->rs_parallel != NULL)
		done = pg_atomic_read_u64(&((ParallelBlockTableScanDesc)
									scan->rs_parallel)->phs_nallocated);
	else if (heap->rs_cblock >= heap->rs_startblock)
		done = heap->rs_cblock - heap->rs_startblock;
	else
		done = (uint64) heap->rs_cblock + heap->rs_nblocks - heap->rs_startblock;
	/* the last blocks are read, but not all of their rows are counted */
	return (int) Min(done * 100 / heap->rs_nblocks, 99);
}

/* Says how far the scan is that is under way in a part of a plan. */
static bool
say_of_plan(PlanState *node, void *context)
{
	if (IsA(node, SeqScanState))
	{
		TableScanDesc scan = ((ScanState *) node)->ss_currentScanDesc;
		int			percent = percentage(scan);

		if (percent >= 0)
		{
			Relation	heap = scan->rs_rd;
			char	   *schema = get_namespace_name(RelationGetNamespace(heap));

			ereport(NOTICE,
					(errmsg("scanning %s: %d %% of its blocks",
							quote_qualified_identifier(schema, RelationGetRelationName(heap)),
							percent),
					 errhidestmt(true), errhidecontext(true)));
			return true;
		}
	}
	return planstate_tree_walker(node, say_of_plan, context);
}

void
iblt_progress_say(FunctionCallInfo fcinfo)
{
	PlanState  *below;

	if (fcinfo->context == NULL || !IsA(fcinfo->context, AggState) || !is_due())
		return;
	below = outerPlanState(fcinfo->context);
	if (below != NULL)
		say_of_plan(below, NULL);
}
