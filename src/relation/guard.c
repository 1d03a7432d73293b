/*
 * guard.c
 *	  Keeps comparisons from running code of other roles.
 *
 * Who reads a relation runs code of its owner: functions in a view, a cast to
 * json, the expressions of an index that the planner folds.  It would run with
 * the rights of the role that compares, perhaps a superuser.  A check of the
 * catalogs beforehand does not help, because the owner can alter the relation
 * after the check.
 *
 * So the setting iblt.guard makes the server itself refuse two things.  A
 * function must belong to a superuser or to the role that calls it.  The same is
 * true of a view or a foreign table, unless the caller asked for such a relation:
 * a function of PostgreSQL that is in a view can write files.
 *
 * It is a setting because parallel workers inherit settings.  Drivers and queries
 * on a peer switch it on until they end (iblt_guard, iblt_peer_settings).  SQL cannot
 * change it: a view can call set_config, and a function can have a SET clause,
 * which is carried out before the function is refused.
 *
 * Functions of PostgreSQL's own library bypass the hooks.  They belong to a
 * superuser.
 */
#include "relation/relation.h"

#include "access/transam.h"
#include "access/parallel.h"
#include "access/relation.h"
#include "catalog/pg_proc.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/plancat.h"
#include "parser/parsetree.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/regproc.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "codec/codec.h"
#include "codec/version.h"

/* What the setting can be. */
typedef enum Guard
{
	GUARD_OFF,
	GUARD_ON,					/* between the statements that read */
	GUARD_VIEWS,				/* some views, and foreign tables, may be read */
	GUARD_TABLES
} Guard;

static const struct config_enum_entry values[] = {
	{"off", GUARD_OFF, false},
	{"on", GUARD_ON, false},
	{"views", GUARD_VIEWS, false},
	{"tables", GUARD_TABLES, false},
	{NULL, 0, false}
};

static int	guard = GUARD_OFF;

static needs_fmgr_hook_type next_needs_fmgr_hook;
static fmgr_hook_type next_fmgr_hook;
static ExecutorCheckPerms_hook_type next_check_perms_hook;
static build_simple_rel_hook_type next_planner_hook;

/* Views that may be read, with GUARD_VIEWS.  In the memory of the transaction. */
static List *views = NIL;

static const char *const setting = "iblt.guard";

/* Does iblt itself set it?  A client can give a parameter of PGC_BACKEND when it connects. */
static bool setting_it = false;

static bool
check_setting(int *value, void **extra, GucSource source)
{
	(void) extra;
	(void) source;
	return *value == GUARD_OFF || setting_it || InitializingParallelWorker;
}

/* Until the calling function ends, if that has a SET clause, or the transaction. */
static void
set(Guard value)
{
	setting_it = true;
	(void) set_config_option(setting, values[value].name, PGC_POSTMASTER, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, WARNING, false);
	setting_it = false;
	if (guard != (int) value)
		elog(ERROR, "could not set %s", setting);
}

/*
 * Does a role trust what another role owns?  A function with SECURITY DEFINER
 * runs as its owner already when it is asked, so the role is the one that began.
 */
static bool
is_trusted(Oid owner, Oid role)
{
	return owner == role || superuser_arg(owner);
}

static bool
function_is_trusted(Oid function, Oid *owner)
{
	HeapTuple	tuple;
	bool		definer;

	if (function < FirstGenbkiObjectId)
		return true;
	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	if (!HeapTupleIsValid(tuple))
		return true;			/* whoever looks for it will say so */
	*owner = ((Form_pg_proc) GETSTRUCT(tuple))->proowner;
	definer = ((Form_pg_proc) GETSTRUCT(tuple))->prosecdef;
	ReleaseSysCache(tuple);
	return is_trusted(*owner, definer ? GetOuterUserId() : GetUserId());
}

/* Has a function been hooked, so that expressions of indexes may not be as usual? */
static bool hooked = false;

/* A SQL function that is hooked is not inlined. */
static bool
needs_hook(Oid function)
{
	Oid			owner;

	if (next_needs_fmgr_hook != NULL && next_needs_fmgr_hook(function))
		return true;
	if (guard == GUARD_OFF || function_is_trusted(function, &owner))
		return false;
	hooked = true;
	return true;
}

/*
 * Only a call is an error.  The planner looks at the functions of all indexes of
 * a table, which nobody calls.
 */
static void
on_call(FmgrHookEventType event, FmgrInfo *call, Datum *private)
{
	Oid			owner;

	if (next_fmgr_hook != NULL)
		next_fmgr_hook(event, call, private);
	if (event != FHET_START || guard == GUARD_OFF || function_is_trusted(call->fn_oid, &owner))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("refusing to run function %s of role \"%s\"",
					format_procedure(call->fn_oid), GetUserNameFromId(owner, true)),
			 errdetail("It would run as role \"%s\".", GetUserNameFromId(GetOuterUserId(), true)),
			 errhint("Exclude the columns that call it, or compare as its owner. "
					 "Functions of superusers are trusted.")));
}

/* Refuses a view or a foreign table that the caller has not asked for. */
static void
check_relation(const RangeTblEntry *rte)
{
	HeapTuple	tuple;
	Form_pg_class class;
	char		kind;
	Oid			owner;

	if (guard == GUARD_OFF || rte->relid < FirstNormalObjectId ||
		(rte->relkind != RELKIND_VIEW && rte->relkind != RELKIND_FOREIGN_TABLE))
		return;
	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(rte->relid));
	if (!HeapTupleIsValid(tuple))
		return;
	class = (Form_pg_class) GETSTRUCT(tuple);
	kind = class->relkind;
	owner = class->relowner;
	ReleaseSysCache(tuple);
	if (guard == GUARD_VIEWS && (kind == RELKIND_FOREIGN_TABLE || IsParallelWorker() ||
								 list_member_oid(views, rte->relid)))
		return;
	if (guard != GUARD_TABLES && is_trusted(owner, GetUserId()))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("refusing to read \"%s\", which is a %s and was described as a table",
					get_rel_name(rte->relid), kind == RELKIND_VIEW ? "view" : "foreign table"),
			 errdetail("It would run code of role \"%s\" as role \"%s\".",
					   GetUserNameFromId(owner, true), GetUserNameFromId(GetUserId(), true))));
}

/*
 * The planner asks a function of a range type how far bounds are apart.  The session keeps it as
 * it was found, perhaps while nothing was refused, and without the hook.  So it is looked up again.
 */
static void
hook_ranges(Oid relid)
{
	Relation	rel = try_relation_open(relid, NoLock);

	for (int i = 0; rel != NULL && i < RelationGetNumberOfAttributes(rel); i++)
	{
		Oid			type = TupleDescAttr(RelationGetDescr(rel), i)->atttypid;
		Oid			owner;
		TypeCacheEntry *entry;

		if (type < FirstNormalObjectId)
			continue;
		type = getBaseType(type);
		if (type_is_multirange(type))
			type = get_multirange_range(type);
		entry = type_is_range(type) ? lookup_type_cache(type, TYPECACHE_RANGE_INFO) : NULL;
		if (entry != NULL && OidIsValid(entry->rng_subdiff_finfo.fn_oid) &&
			!function_is_trusted(entry->rng_subdiff_finfo.fn_oid, &owner))
			fmgr_info_cxt(entry->rng_subdiff_finfo.fn_oid, &entry->rng_subdiff_finfo,
						  CacheMemoryContext);
	}
	if (rel != NULL)
		relation_close(rel, NoLock);
}

/* Before a foreign table is planned, which may connect to its server. */
static void
on_plan(IBLT_PLAN_HOOK_PARAMS)
{
	RangeTblEntry *planned = planner_rt_fetch(rel->relid, root);
	ListCell   *lc;

	if (next_planner_hook != NULL)
		next_planner_hook(IBLT_PLAN_HOOK_ARGS);
	if (planned->rtekind == RTE_RELATION)
		check_relation(planned);
	if (planned->rtekind == RTE_RELATION && guard != GUARD_OFF)
		hook_ranges(planned->relid);

	/*
	 * The session keeps the expressions of an index as the planner has made them.  Where a SQL
	 * function was not inlined, they would not be those of later statements: these would not find
	 * the index, and INSERT ... ON CONFLICT would be an error.
	 */
	foreach(lc, hooked ? rel->indexlist : NIL)
	{
		IndexOptInfo *info = lfirst(lc);
		Relation	index = info->indexprs == NIL && info->indpred == NIL ? NULL :
			try_relation_open(info->indexoid, NoLock);

		if (index == NULL)
			continue;
		index->rd_indexprs = NIL;
		index->rd_indpred = NIL;
		relation_close(index, NoLock);
	}
	/* read_heap: settings only make indexes dear, and a scan may be dearer */
	if (guard != GUARD_OFF && !enable_indexscan && !enable_bitmapscan)
		rel->indexlist = NIL;
}

/* Views are in the list, too. */
static bool
on_check_perms(IBLT_PERMS_HOOK_PARAMS)
{
	ListCell   *lc;

	if (guard != GUARD_OFF)
		foreach(lc, range_table)
			check_relation(lfirst(lc));
	return next_check_perms_hook == NULL || next_check_perms_hook(IBLT_PERMS_HOOK_ARGS);
}

/* A session cannot set a parameter of PGC_BACKEND, except by the code of an extension. */
void
iblt_guard_register(void)
{
	DefineCustomEnumVariable(setting, "Refuses to run code of other roles.",
							 "iblt sets it while it compares.", &guard, GUARD_OFF, values,
							 PGC_BACKEND, GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE |
							 GUC_NO_RESET_ALL | GUC_DISALLOW_IN_FILE, check_setting, NULL, NULL);
	next_needs_fmgr_hook = needs_fmgr_hook;
	needs_fmgr_hook = needs_hook;
	next_fmgr_hook = fmgr_hook;
	fmgr_hook = on_call;
	next_check_perms_hook = ExecutorCheckPerms_hook;
	ExecutorCheckPerms_hook = on_check_perms;
	next_planner_hook = build_simple_rel_hook;
	build_simple_rel_hook = on_plan;
}

void
iblt_guard_begin(void)
{
	if (guard == GUARD_OFF)
		set(GUARD_ON);
}

/* iblt_guard() */
IBLT_FUNCTION(iblt_guard, ((void) fcinfo, iblt_guard_begin(), (Datum) 0))

void
iblt_guard_read(bool with_views)
{
	if (guard < GUARD_VIEWS)
		views = NIL;
	if (guard != GUARD_VIEWS)
		set(with_views ? GUARD_VIEWS : GUARD_TABLES);
}

void
iblt_guard_allow(Oid view)
{
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);

	views = lappend_oid(views, view);
	MemoryContextSwitchTo(old);
}

bool
iblt_guard_trusts(Oid owner)
{
	return is_trusted(owner, GetUserId());
}

int
iblt_guard_open(void)
{
	int			level = NewGUCNestLevel();

	if (guard > GUARD_ON)
		ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
						errmsg("a statement that reads cannot write")));
	set(GUARD_OFF);
	return level;
}
