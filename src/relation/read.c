/*-------------------------------------------------------------------------
 *
 * read.c
 *	  Locks what a statement is about to read.
 *
 * Everything is checked under the lock, which lasts until the transaction ends:
 * that the relation is the one that was described, and of a view that another
 * role owns, that it calls no volatile function (view.c).  Almost all functions of
 * PostgreSQL that write files, connect to servers or change settings are volatile.
 * guard.c refuses the functions of other roles when they are called.
 *
 *-------------------------------------------------------------------------
 */
#include "sketch/iblt.h"

#include "access/relation.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "rewrite/rewriteHandler.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/varlena.h"

#include "relation/fingerprint.h"
#include "relation/guard.h"
#include "relation/view.h"

/*
 * Before a relation is locked: may the role read it at all?  A lock that waits for
 * the right to read would hold up others.
 */
static void
check_rights(const RangeVar *name, Oid relid, Oid old, void *arg)
{
	AclResult	result;

	(void) old;
	(void) arg;
	if (!OidIsValid(relid))
		return;
	result = pg_class_aclcheck(relid, GetUserId(), ACL_SELECT);
	if (result != ACLCHECK_OK)
		result = pg_attribute_aclcheck_all(relid, GetUserId(), ACL_SELECT, ACLMASK_ANY);
	if (result != ACLCHECK_OK)
		aclcheck_error(result, get_relkind_objtype(get_rel_relkind(relid)), name->relname);
}

/* Of a fingerprint, only these are sent. */
#define DIGITS 32

static void lock_view(Relation view);

/* Locks the views that a view reads. */
static bool
lock_views(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;

		/* before PostgreSQL 16, that of a view names the view itself */
		if (rte->rtekind == RTE_RELATION && rte->relkind == RELKIND_VIEW &&
			rte->relid != *(Oid *) context)
		{
			Relation	view = try_relation_open(rte->relid, AccessShareLock);

			if (view != NULL)
				lock_view(view);
		}
		return false;
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, lock_views, context, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, lock_views, context);
}

/* Closes a view that is locked, and lets it be read. */
static void
lock_view(Relation view)
{
	Oid			relid = RelationGetRelid(view);
	Query	   *query;

	check_stack_depth();
	if (view->rd_rel->relkind == RELKIND_VIEW)
	{
		query = get_view_query(view);
		if (iblt_view_runs_code(query, iblt_guard_trusts(view->rd_rel->relowner)))
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("refusing to read view \"%s\" of role \"%s\"",
							RelationGetRelationName(view),
							GetUserNameFromId(view->rd_rel->relowner, true)),
					 errdetail("It would run code of another role as role \"%s\".",
							   GetUserNameFromId(GetUserId(), true)),
					 errhint("Compare as its owner, or compare the tables that it reads.")));
		iblt_guard_allow(relid);
		(void) lock_views((Node *) query, &relid);
	}
	relation_close(view, NoLock);
}

PG_FUNCTION_INFO_V1(iblt_read_lock);

/*
 * iblt_read_lock(relation, server, fingerprint, views) -> boolean: locks the relation of
 * that name until the transaction ends, and refuses code of other roles from now on.
 * Whether server and relation are those that were described.
 */
Datum
iblt_read_lock(PG_FUNCTION_ARGS)
{
	Relation	relation = NULL;
	text	   *found;
	Oid			relid = InvalidOid;

	if (PG_ARGISNULL(0))
		PG_RETURN_BOOL(false);
	iblt_guard_read(!PG_ARGISNULL(3) && PG_GETARG_BOOL(3));
	/* behind a pooler there may be several servers */
	if (PG_ARGISNULL(1) ||
		strcmp(text_to_cstring(PG_GETARG_TEXT_PP(1)), iblt_server_started()) == 0)
		relid = RangeVarGetRelidExtended(makeRangeVarFromNameList(
										 textToQualifiedNameList(PG_GETARG_TEXT_PP(0))),
										 AccessShareLock, RVR_MISSING_OK, check_rights, NULL);
	if (OidIsValid(relid))
		relation = try_relation_open(relid, NoLock);
	if (relation == NULL)
		PG_RETURN_BOOL(false);
	found = iblt_fingerprint_now(relation);
	if (!PG_ARGISNULL(2) && strncmp(text_to_cstring(found), text_to_cstring(PG_GETARG_TEXT_PP(2)), DIGITS) != 0)
	{
		relation_close(relation, NoLock);
		PG_RETURN_BOOL(false);
	}
	lock_view(relation);
	PG_RETURN_BOOL(true);
}
