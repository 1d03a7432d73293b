/*
 * progress.c
 *	  When progress is to be told, and how far a scan is whose rows an aggregate
 *	  sums up.
 *
 * PostgreSQL shows the progress of commands only.  Progress is for the message
 * of the client that asked for it, so an error need not take it back.  In a
 * scan, the clock is read after each 65536 rows.  In a parallel scan, the leader says
 * which part of the blocks it and the workers have taken.  It says nothing if
 * it only waits for workers.
 */
#include "sketch/aggsite.h"

#include "access/heapam.h"
#include "access/parallel.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "nodes/execnodes.h"
#include "nodes/nodeFuncs.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/numeric.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

/* When the message of the client began that asked for progress, and how often. */
static TimestampTz asked = 0;
static int	every_ms;

/* When progress was told last. */
static TimestampTz last_told;

static bool
is_due(void)
{
	TimestampTz now;

	if (asked != GetCurrentStatementStartTimestamp() || IsParallelWorker())
		return false;
	now = GetCurrentTimestamp();
	if (!TimestampDifferenceExceeds(last_told, now, every_ms))
		return false;
	last_told = now;
	return true;
}

/* ms(since) -> numeric: milliseconds since then, with one decimal */
IBLT_FUNCTION(iblt_ms, NumericGetDatum(int64_div_fast_to_numeric((GetCurrentTimestamp() -
																  PG_GETARG_TIMESTAMPTZ(0)) / 100, 1)))

PG_FUNCTION_INFO_V1(iblt_progress_by_time);

/* iblt_progress_by_time(shown, ms): from now on, progress is due so often, or never */
Datum
iblt_progress_by_time(PG_FUNCTION_ARGS)
{
	asked = PG_GETARG_BOOL(0) ? GetCurrentStatementStartTimestamp() : 0;
	every_ms = PG_GETARG_INT32(1);
	last_told = GetCurrentTimestamp();
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(iblt_progress_timely);

/* iblt_progress_timely(message): says it if progress is due, which it is not for a while then */
Datum
iblt_progress_timely(PG_FUNCTION_ARGS)
{
	if (is_due())
		ereport(NOTICE,
				(errmsg_internal("%s", text_to_cstring(PG_GETARG_TEXT_PP(0))),
				 errhidestmt(true), errhidecontext(true)));
	PG_RETURN_VOID();
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
