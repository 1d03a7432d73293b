/*
 * checksum_support.c
 *	  Planner support for iblt_checksum.
 *
 * iblt_checksum(t.*) becomes iblt_checksum(t.a, t.b, ...), so that no row
 * value is built for each row.
 *
 * iblt_checksum is STABLE, because enum labels and the names behind reg*
 * values can be changed.  Where no argument has such a type, an IMMUTABLE twin
 * takes its place.  postgres_fdw sends only immutable functions to a server.
 * The twin has no planner support: nobody but the planner calls it, here or on
 * another server, so a single argument is never ambiguous.  Its first argument
 * names the types of the others, which may be different on that server.
 *
 * A single argument that could be a column or a row (checksum.h) is an ERROR.
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/namespace.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_proc.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/pathnodes.h"
#include "nodes/supportnodes.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "codec/checksum.h"
#include "codec/codec.h"
#include "codec/version.h"

bool
iblt_has_column_of_its_name(const RangeTblEntry *rte, int n)
{
	bool		found = false;
	int			ncolumns = 0;
	int			i = 0;
	ListCell   *lc;

	if (rte->eref == NULL)
		return false;
	foreach(lc, rte->eref->colnames)
	{
		const char *name = strVal(lfirst(lc));

		i++;
		if (name[0] == '\0')
			continue;			/* dropped */
		ncolumns++;
		if ((n == 0 || n == i) && strcmp(name, rte->eref->aliasname) == 0)
			found = true;
	}
	return found && ncolumns > 1;
}

void
iblt_refuse_column_of_its_name(const RangeTblEntry *rte, const char *role)
{
	const char *name = quote_identifier(rte->eref->aliasname);
	bool		key = strcmp(role, "key") == 0;

	ereport(ERROR,
			(errcode(ERRCODE_AMBIGUOUS_COLUMN),
			 errmsg("\"%s\" names both a relation and a column of it",
					rte->eref->aliasname),
			 errdetail("SQL takes the column, so the %s would leave out the rest of the row.",
					   role),
			 key ? errhint("Write %s.* for the row, or give the relation another alias.",
						   name)
			 : errhint("Write %s.* for the row, ROW(%s.%s) for the column, or give the relation another alias.",
					   name, name, name)));
}

/* Does a join tree hold anything but inner joins? */
static bool
has_other_joins(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, JoinExpr) && ((JoinExpr *) node)->jointype != JOIN_INNER)
		return true;
	return expression_tree_walker(node, has_other_joins, context);
}

/*
 * The columns of a whole-row variable as variables, or NIL if their checksum would
 * differ.  It must be a row of a table that no join and no grouping set can replace
 * by NULL.  Its type must be the table's, because constraints are simplified before
 * their variables point to the right table.  The planner holds a lock on the table.
 */
static List *
columns_of_table(PlannerInfo *root, Var *var)
{
	RangeTblEntry *rte;
	Relation	relation;
	List	   *columns = NIL;
	bool		usable = true;

	if (root == NULL || var->varattno != InvalidAttrNumber ||
		var->varlevelsup != 0 || iblt_var_is_nulled(var) || iblt_var_is_returned(var) ||
		root->parse->commandType != CMD_SELECT ||
		has_other_joins((Node *) root->parse->jointree, NULL) ||
		(int) var->varno < 1 || (int) var->varno > list_length(root->parse->rtable))
		return NIL;
	rte = rt_fetch(var->varno, root->parse->rtable);
	if (rte->rtekind != RTE_RELATION || get_rel_type_id(rte->relid) != var->vartype)
		return NIL;
	relation = relation_open(rte->relid, NoLock);
	for (int i = 0; i < RelationGetNumberOfAttributes(relation); i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(relation), i);

		if (att->attisdropped)
			continue;
		if (att->attgenerated == ATTRIBUTE_GENERATED_VIRTUAL)
			usable = false;
		columns = lappend(columns, makeVar(var->varno, att->attnum,
										   att->atttypid, att->atttypmod,
										   att->attcollation, 0));
	}
	relation_close(relation, NoLock);
	return usable ? columns : NIL;
}

/* Is a relation, of which this is the index, a leaf of a join tree? */
static bool
is_in_join_tree(Node *node, void *index)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblRef))
		return ((RangeTblRef *) node)->rtindex == *(int *) index;
	return expression_tree_walker(node, is_in_join_tree, index);
}

/*
 * The relation that has the same name as the argument, which is a column of
 * it, or NULL.  If the planner may have replaced the columns of the relation of
 * the argument by expressions, the argument no longer shows that it was one of
 * these.  If such a relation has a column of its own name, the argument is taken
 * for that column.
 */
static const RangeTblEntry *
ambiguous_relation(PlannerInfo *root, Node *arg)
{
	int			index = 0;
	ListCell   *lc;

	if (IsA(arg, Var))
	{
		Var		   *var = (Var *) arg;
		RangeTblEntry *rte;

		if (var->varattno == InvalidAttrNumber)
			return NULL;
		for (Index up = var->varlevelsup; up > 0 && root != NULL; up--)
			root = root->parent_root;
		if (root == NULL || (int) var->varno < 1 ||
			(int) var->varno > list_length(root->parse->rtable))
			return NULL;
		rte = rt_fetch(var->varno, root->parse->rtable);
		if (iblt_has_column_of_its_name(rte, var->varattno))
			return rte;
	}
	foreach(lc, root->parse->rtable)
	{
		RangeTblEntry *rte = lfirst(lc);

		index++;
		if (((rte->rtekind == RTE_SUBQUERY &&
			  !is_in_join_tree((Node *) root->parse->jointree, &index)) ||
			 (rte->rtekind == RTE_JOIN && rte->alias != NULL)) &&
			iblt_has_column_of_its_name(rte, 0))
			return rte;
	}
	return NULL;
}

/* The columns that can replace a single row argument, or NIL. */
static List *
columns_of_argument(PlannerInfo *root, Node *arg)
{
	List	   *columns = NIL;

	/* a grouping set can make a grouped row NULL, but not its columns */
	if (root != NULL && root->parse->groupingSets != NIL)
		return NIL;
	if (IsA(arg, RowExpr) && ((RowExpr *) arg)->row_typeid == RECORDOID)
		columns = list_copy(((RowExpr *) arg)->args);
	else if (IsA(arg, Var))
		columns = columns_of_table(root, (Var *) arg);

	/* as a single argument these would be read in another way, or refused */
	if (list_length(columns) == 1)
	{
		Oid			type = exprType(linitial(columns));

		if (type == UNKNOWNOID || type_is_rowtype(type) ||
			(root != NULL && ambiguous_relation(root, linitial(columns))))
			return NIL;
	}
	return columns;
}

/*
 * Makes a call of the immutable twin if the checksum of arguments of these
 * types can never change.  Index expressions are planned without a query and
 * keep the function that they name.  The result does not depend on a
 * collation, and postgres_fdw asks where one comes from.
 */
static bool
use_immutable_twin(PlannerInfo *root, FuncExpr *call)
{
	Oid			twin;
	Oid			types[3] = {TEXTOID};
	Oid		   *arguments;
	int			n;
	StringInfoData names;		/* of the types without that of a seed */
	ListCell   *lc;

	if (root == NULL)
		return false;
	/* iblt_internal.NAME_immutable, with a text in front of the arguments of NAME */
	(void) get_func_signature(call->funcid, &arguments, &n);
	Assert(n < (int) lengthof(types));
	memcpy(types + 1, arguments, sizeof(Oid) * n);
	twin = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid,
						   CStringGetDatum(psprintf("%s_immutable", get_func_name(call->funcid))),
						   PointerGetDatum(buildoidvector(types, n + 1)),
						   ObjectIdGetDatum(get_namespace_oid("iblt_internal", true)));
	if (!OidIsValid(twin) || list_length(call->args) + 1 > FUNC_MAX_ARGS)
		return false;
	initStringInfo(&names);
	foreach(lc, call->args)
	{
		Oid			type = exprType(lfirst(lc));

		if (!iblt_codec_type_is_immutable(type))
			return false;
		if (foreach_current_index(lc) >= get_func_nargs(call->funcid) - 1)
			appendStringInfo(&names, "%s,", iblt_codec_type_name(type));
	}
	call->args = lcons(makeConst(TEXTOID, -1, DEFAULT_COLLATION_OID, -1,
								 CStringGetTextDatum(names.data), false, false),
					   list_copy(call->args));
	call->funcid = twin;
	call->inputcollid = InvalidOid;
	return true;
}

/*
 * Puts the columns of a single row argument in its place, if the result is the
 * same.  ERROR if the argument may be meant otherwise.  A call can have at
 * most FUNC_MAX_ARGS arguments.
 */
static bool
spread_argument(PlannerInfo *root, FuncExpr *call)
{
	Node	   *arg = llast(call->args);
	const RangeTblEntry *rte = NULL;
	List	   *columns;

	if (list_length(call->args) != get_func_nargs(call->funcid))
		return false;
	if (IsA(arg, PlaceHolderVar))
		arg = (Node *) ((PlaceHolderVar *) arg)->phexpr;
	if (root != NULL && !IsA(arg, RowExpr) && !IsA(arg, Param))
		rte = ambiguous_relation(root, arg);
	if (rte != NULL)
		iblt_refuse_column_of_its_name(rte, "checksum");
	columns = columns_of_argument(root, llast(call->args));
	if (columns == NIL ||
		list_length(columns) + list_length(call->args) - 1 > FUNC_MAX_ARGS)
		return false;
	if (list_length(call->args) == 2)
		columns = lcons(linitial(call->args), columns); /* the seed */
	call->args = columns;
	return true;
}

PG_FUNCTION_INFO_V1(iblt_checksum_support);

Datum
iblt_checksum_support(PG_FUNCTION_ARGS)
{
	Node	   *request = (Node *) PG_GETARG_POINTER(0);
	PlannerInfo *root;
	FuncExpr   *call;
	bool		spread;

	if (!IsA(request, SupportRequestSimplify) ||
		((SupportRequestSimplify *) request)->fcall->funcvariadic)
		PG_RETURN_POINTER(NULL);
	root = ((SupportRequestSimplify *) request)->root;
	call = makeNode(FuncExpr);
	*call = *((SupportRequestSimplify *) request)->fcall;
	spread = spread_argument(root, call);
	if (!use_immutable_twin(root, call) && !spread)
		PG_RETURN_POINTER(NULL);
	PG_RETURN_POINTER(call);
}
