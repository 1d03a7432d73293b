/*
 * page.c
 *	  The rows of a heap page, taken by an aggregate without the executor.
 *
 * For each row, the executor calls some ten functions: to read it, to take it apart, to
 * evaluate arguments and to call the aggregate.  That is a third of the time of a sketch.
 * So it gives the aggregate the first row of a page, and the aggregate takes the others,
 * from the list of visible rows that the scan has made of the page.  Then the scan goes
 * on behind them.  The plan, the snapshot, rights, workers, interrupts and the end of the
 * scan are left to PostgreSQL.
 *
 * This needs an aggregate without groups that is the only one, above a sequential scan
 * without a condition, or above several, of partitions.  Its arguments are columns,
 * iblt_checksum of columns and constants, and as the key also a row of columns.  If a row
 * is not as expected, because it is older than a column, the executor gives it.
 */
#include "sketch/page.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/tupmacs.h"
#include "executor/nodeAgg.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "codec/checksum.h"
#include "codec/version.h"

/* A column of the rows of a scan. */
typedef struct PageColumn
{
	int			length;			/* -1 for a varlena */
	bool		by_value;
	Size		mask;			/* of an offset: what its alignment leaves 0 */
	NullableDatum *value;		/* of a row */
} PageColumn;

/* A column of the aggregate's input, and where its value goes. */
typedef struct PageInput
{
	const Var  *column;
	NullableDatum *value;
} PageInput;

/* A value that goes to a second place, as that of a key that is also in the checksum. */
typedef struct PageCopy
{
	const NullableDatum *from;
	NullableDatum *to;
} PageCopy;

struct IbltPage
{
	AggState   *agg;
	IbltPageRow row;
	NullableDatum values[2];	/* the key, unless it is a row, and the checksum */
	FunctionCallInfo calls[2];	/* of iblt_checksum for them, or NULL */
	int			ninputs;
	PageInput  *inputs;
	MemoryContext context;		/* of what follows, for one scan */
	SeqScanState *node;
	bool		usable;
	int			ncolumns;		/* up to the last one that is used */
	PageColumn *columns;
	int			ncopies;
	PageCopy   *copies;
	NullableDatum unused;		/* of columns that are no input */
	HeapScanDesc scan;			/* NULL if only the executor can give rows now */
};

/* --- what the aggregate takes ------------------------------------------------------- */

static bool
add_column(IbltPage *page, const void *expression, NullableDatum *value)
{
	const Var  *column = expression;

	if (!IsA(column, Var) || column->varattno <= 0)
		return false;
	page->inputs = page->inputs == NULL ? palloc(sizeof(PageInput))
		: repalloc(page->inputs, sizeof(PageInput) * (page->ninputs + 1));
	page->inputs[page->ninputs++] = (PageInput) {column, value};
	return true;
}

/* A column, or a call of iblt_checksum. */
static bool
add_value(IbltPage *page, Expr *expression, int n)
{
	FuncExpr   *function = (FuncExpr *) expression;
	FmgrInfo   *flinfo;
	ListCell   *lc;

	if (!IsA(expression, FuncExpr))
		return add_column(page, expression, &page->values[n]);
	flinfo = palloc(sizeof *flinfo);
	fmgr_info(function->funcid, flinfo);
	fmgr_info_set_expr((Node *) function, flinfo);
	/* the executor would look at NULLs, or count calls */
	if (function->funcvariadic || !iblt_is_checksum(flinfo->fn_addr) || flinfo->fn_strict ||
		pgstat_track_functions > flinfo->fn_stats)
		return false;
	page->calls[n] = palloc0(SizeForFunctionCallInfo(list_length(function->args)));
	InitFunctionCallInfoData(*page->calls[n], flinfo, list_length(function->args), InvalidOid, NULL, NULL);
	foreach(lc, function->args)
	{
		NullableDatum *value = &page->calls[n]->args[foreach_current_index(lc)];
		const Const *constant = lfirst(lc);

		if (IsA(constant, Const))
			*value = (NullableDatum) {constant->constvalue, constant->constisnull};
		else if (!add_column(page, constant, value))
			return false;
	}
	return true;
}

static bool
add_arguments(IbltPage *page, Aggref *aggref)
{
	RowExpr    *key = (RowExpr *) ((TargetEntry *) linitial(aggref->args))->expr;
	NullableDatum *columns;
	ListCell   *lc;

	page->row.key = &page->values[0];
	page->row.checksum = &page->values[1];
	page->row.key_is_row = IsA(key, RowExpr) && key->row_typeid == RECORDOID;
	if (page->row.key_is_row)
	{
		page->row.key = columns = palloc0(sizeof(NullableDatum) * (list_length(key->args) + 1));
		foreach(lc, key->args)
			if (!add_column(page, lfirst(lc), &columns[foreach_current_index(lc)]))
				return false;
	}
	else if (!add_value(page, (Expr *) key, 0))
		return false;
	return add_value(page, ((TargetEntry *) lsecond(aggref->args))->expr, 1);
}

/* The sequential scan without a condition that a plan has its rows from now, or NULL. */
static SeqScanState *
scan_of(PlanState *plan)
{
	SeqScanState *node;

	while (IsA(plan, AppendState) && ((AppendState *) plan)->as_whichplan >= 0)
		plan = ((AppendState *) plan)->appendplans[((AppendState *) plan)->as_whichplan];
	node = (SeqScanState *) plan;
	if (!IsA(node, SeqScanState) || plan->qual != NULL || node->ss.ss_currentScanDesc == NULL ||
		node->ss.ss_currentRelation->rd_tableam != GetHeapamTableAmRoutine() ||
		plan->state->es_epq_active != NULL || !ScanDirectionIsForward(plan->state->es_direction))
		return NULL;
	return node;
}

IbltPage *
iblt_page_make(FunctionCallInfo fcinfo)
{
	AggState   *agg = (AggState *) fcinfo->context;
	Aggref	   *aggref = AggGetAggref(fcinfo);
	MemoryContext old;
	IbltPage   *page;
	bool		usable;

	/*
	 * The call is the node's own, not one that another aggregate makes in it.  EXPLAIN ANALYZE
	 * counts the rows that pass through the executor.
	 */
	if (aggref == NULL || agg->aggstrategy != AGG_PLAIN || agg->numtrans != 1 ||
		agg->pertrans[0].transfn_fcinfo != fcinfo ||
		((Agg *) agg->ss.ps.plan)->groupingSets != NIL ||
		aggref->aggfilter != NULL || aggref->aggdistinct != NIL || aggref->aggorder != NIL ||
		agg->ss.ps.state->es_instrument != 0)
		return NULL;
	/* another partition may be one that can be taken */
	if (!IsA(outerPlanState(agg), AppendState) && scan_of(outerPlanState(agg)) == NULL)
		return NULL;
	old = MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);
	page = palloc0(sizeof *page);
	page->agg = agg;
	usable = add_arguments(page, aggref);
	if (usable)
		page->context = AllocSetContextCreate(CurrentMemoryContext, "iblt page", ALLOCSET_SMALL_SIZES);
	MemoryContextSwitchTo(old);
	return usable ? page : NULL;
}

/* --- where that is in a row --------------------------------------------------------- */

/*
 * Finds the inputs among the columns of a scan.  False if one is not a column there, or if the
 * scan has to evaluate anything, which may be a function that somebody wants to be called.
 */
static bool
map_columns(IbltPage *page, SeqScanState *node)
{
	TupleDesc	desc = RelationGetDescr(node->ss.ss_currentRelation);
	List	   *targets = node->ss.ps.plan->targetlist;
	ListCell   *lc;

	foreach(lc, targets)
		if (!IsA(((const TargetEntry *) lfirst(lc))->expr, Var))
			return false;
	MemoryContextReset(page->context);
	page->columns = MemoryContextAlloc(page->context, sizeof(PageColumn) * desc->natts);
	page->copies = MemoryContextAlloc(page->context, sizeof(PageCopy) * page->ninputs);
	page->ncolumns = page->ncopies = 0;
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (att->attlen < -1)
			return false;
		page->columns[i] = (PageColumn) {
			att->attlen, att->attbyval,
			att->attalign == TYPALIGN_DOUBLE ? ALIGNOF_DOUBLE - 1
			: att->attalign == TYPALIGN_INT ? ALIGNOF_INT - 1
			: att->attalign == TYPALIGN_SHORT ? ALIGNOF_SHORT - 1 : 0,
			&page->unused
		};
	}
	for (int i = 0; i < page->ninputs; i++)
	{
		const PageInput *input = &page->inputs[i];
		const TargetEntry *entry = list_nth(targets, input->column->varattno - 1);
		const Var  *column = (const Var *) entry->expr;
		PageColumn *from;

		if (column->varattno <= 0)
			return false;
		page->ncolumns = Max(page->ncolumns, column->varattno);
		from = &page->columns[column->varattno - 1];
		if (from->value == &page->unused)
			from->value = input->value;
		else
			page->copies[page->ncopies++] = (PageCopy) {from->value, input->value};
	}
	return true;
}

void
iblt_page_begin(IbltPage *page)
{
	const uint32 flags = SO_TYPE_SEQSCAN | SO_ALLOW_PAGEMODE;
	SeqScanState *node;
	HeapScanDesc scan;

	if (page == NULL)
		return;
	page->scan = NULL;
	node = scan_of(outerPlanState(page->agg));
	if (node == NULL)
		return;
	if (page->node != node)
	{
		page->node = node;
		page->usable = map_columns(page, node);
	}
	/* a row of a partition elsewhere may come before the first page of this one */
	scan = (HeapScanDesc) node->ss.ss_currentScanDesc;
	if (page->usable && scan->rs_inited && scan->rs_base.rs_nkeys == 0 &&
		(scan->rs_base.rs_flags & flags) == flags)
		page->scan = scan;
}

/* --- the rows ----------------------------------------------------------------------- */

/* Takes the columns of a row.  False if it does not have all of them. */
static inline bool
take_columns(IbltPage *page, HeapTupleHeader row)
{
	const PageColumn *columns = page->columns;
	int			n = page->ncolumns;
	const char *data = (const char *) row + row->t_hoff;
	bool		has_nulls = (row->t_infomask & HEAP_HASNULL) != 0;
	Size		at = 0;

	if (HeapTupleHeaderGetNatts(row) < n)
		return false;
	for (int i = 0; i < n; i++)
	{
		PageColumn	column = columns[i];

		column.value->isnull = has_nulls && att_isnull(i, row->t_bits);
		if (column.value->isnull)
			continue;
		/* a value with a short header is not aligned, and what aligns another one is 0 */
		if (column.length > 0 || data[at] == 0)
			at = (at + column.mask) & ~column.mask;
		column.value->value = fetch_att(data + at, column.by_value, column.length);
		at += column.length > 0 ? (Size) column.length : VARSIZE_ANY(data + at);
	}
	return true;
}

const IbltPageRow *
iblt_page_next(IbltPage *page)
{
	HeapScanDesc scan = page == NULL ? NULL : page->scan;
	int			next;
	Page		bytes;

	if (scan == NULL || (next = (int) scan->rs_cindex + 1) >= (int) scan->rs_ntuples)
		return NULL;
	CHECK_FOR_INTERRUPTS();
	bytes = BufferGetPage(scan->rs_cbuf);
	if (!take_columns(page, (HeapTupleHeader) PageGetItem(bytes, PageGetItemId(bytes, scan->rs_vistuples[next]))))
		return NULL;
	scan->rs_cindex = next;
	pgstat_count_heap_getnext(scan->rs_base.rs_rd);
	for (int i = 0; i < page->ncopies; i++)
		*page->copies[i].to = *page->copies[i].from;
	for (int i = 0; i < 2; i++)
		if (page->calls[i] != NULL)
			page->values[i].value = FunctionCallInvoke(page->calls[i]);
	return &page->row;
}
