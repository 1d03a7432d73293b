/*
 * read.c
 *	  Locks what a statement is about to read.
 *
 * Everything is checked under the lock, which lasts until the transaction ends:
 * that the relation is the one that was described, and of a view that another
 * role owns, that it calls no volatile function.  Almost all functions of
 * PostgreSQL that write files, connect to servers or change settings are volatile.
 * guard.c refuses the functions of other roles when they are called.
 */
#include "sketch/iblt.h"

#include "access/relation.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "rewrite/rewriteHandler.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"
#include "utils/varlena.h"

#include "codec/version.h"
#include "relation/relation.h"

/* --- may a view run code of other roles that guard.c does not see? --------------- */

/*
 * The functions of a view run as the role that reads it.  guard.c refuses those of
 * other roles when they are called.  An aggregate is not called, only its
 * functions are, and they may be any of PostgreSQL's or of an extension, such as
 * dblink_exec.  The same is true of the constraints of a domain.  PostgreSQL takes
 * every aggregate for immutable, and does not look into domains.
 *
 * What belongs to a superuser or to the role itself is trusted.
 */

/*
 * These read whatever relation they are given, perhaps a foreign table or a view,
 * and are not volatile.
 */
static const Oid readers[] = {
	F_TABLE_TO_XML, F_TABLE_TO_XML_AND_XMLSCHEMA, F_SCHEMA_TO_XML, F_SCHEMA_TO_XML_AND_XMLSCHEMA,
	F_DATABASE_TO_XML, F_DATABASE_TO_XML_AND_XMLSCHEMA
};

/*
 * No other function of PostgreSQL that is not volatile runs what it is given.  One of
 * an extension may, as crosstab does, unless it is immutable.
 */
static bool
is_risky(Oid function, void *context)
{
	bool		own = *(bool *) context;
	HeapTuple	tuple;
	Form_pg_proc proc;
	bool		risky;

	if (function < FirstNormalObjectId)
	{
		risky = func_volatile(function) == PROVOLATILE_VOLATILE;
		for (int i = 0; i < (int) lengthof(readers); i++)
			risky |= function == readers[i];
		return !own && risky;
	}
	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	if (!HeapTupleIsValid(tuple))
		return true;
	proc = (Form_pg_proc) GETSTRUCT(tuple);
	risky = (!own && proc->provolatile != PROVOLATILE_IMMUTABLE) ||
		((proc->prokind == PROKIND_AGGREGATE || proc->prokind == PROKIND_WINDOW) &&
		 !iblt_guard_trusts(proc->proowner));
	ReleaseSysCache(tuple);
	return risky;
}

/*
 * Could making a value of the type run code of another role?  No lock keeps what a
 * domain or a composite type is now, so its owner may still give it a constraint.
 */
static bool
type_runs_code(Oid type)
{
	FormData_pg_type form;
	Oid			part;

	check_stack_depth();
	if (type < FirstNormalObjectId)
		return false;
	if (!iblt_type_form(type, true, &form))
		return true;
	if ((form.typtype == TYPTYPE_DOMAIN || form.typtype == TYPTYPE_COMPOSITE) &&
		!iblt_guard_trusts(form.typowner))
		return true;
	if (form.typtype == TYPTYPE_COMPOSITE)
	{
		TupleDesc	columns = lookup_rowtype_tupdesc_copy(type, -1);

		for (int i = 0; i < columns->natts; i++)
			if (!TupleDescAttr(columns, i)->attisdropped &&
				type_runs_code(TupleDescAttr(columns, i)->atttypid))
				return true;
	}
	part = form.typtype == TYPTYPE_DOMAIN ? form.typbasetype : iblt_codec_type_part(type);
	return OidIsValid(part) && type_runs_code(part);
}

static bool
types_run_code(List *types)
{
	ListCell   *lc;

	foreach(lc, types)
		if (type_runs_code(lfirst_oid(lc)))
			return true;
	return false;
}

/* Does a node other than a function say that values of a type are to be made? */
static bool
makes_values(Node *node)
{
	switch (nodeTag(node))
	{
		case T_FuncExpr:
		case T_OpExpr:
		case T_CoerceViaIO:
		case T_CoerceToDomain:
		case T_Aggref:
		case T_WindowFunc:
			return type_runs_code(exprType(node));
		case T_RangeTblFunction:
			return types_run_code(((RangeTblFunction *) node)->funccoltypes);
		case T_TableFunc:
			return types_run_code(((TableFunc *) node)->coltypes);
		default:
			return (iblt_is_json_query(node) || iblt_is_json_constructor(node)) &&
				type_runs_code(exprType(node));
	}
}

static bool
runs_code(Node *node, void *context)
{
	if (node == NULL)
		return false;
	check_stack_depth();
	if (check_functions_in_node(node, is_risky, context) || makes_values(node))
		return true;
	if (!*(bool *) context && IsA(node, NextValueExpr))
		return true;
	if (IsA(node, RangeTblEntry))
	{
		ListCell   *lc;

		foreach(lc, ((RangeTblEntry *) node)->functions)
			if (makes_values(lfirst(lc)))
				return true;
		return false;
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, runs_code, context, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, runs_code, context);
}

/* --- locks ---------------------------------------------------------------------- */

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

/* Closes a view that is locked, and lets it be read.  Locks the views that it reads. */
static void
lock_view(Relation view)
{
	bool		own = iblt_guard_trusts(view->rd_rel->relowner);
	ListCell   *lc;

	check_stack_depth();
	if (view->rd_rel->relkind == RELKIND_VIEW)
	{
		if (runs_code((Node *) get_view_query(view), &own))
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("refusing to read view \"%s\" of role \"%s\"",
							RelationGetRelationName(view),
							GetUserNameFromId(view->rd_rel->relowner, true)),
					 errdetail("It would run code of another role as role \"%s\".",
							   GetUserNameFromId(GetUserId(), true)),
					 errhint("Compare as its owner, or compare the tables that it reads.")));
		iblt_guard_allow(RelationGetRelid(view));
		foreach(lc, iblt_view_relations(view))
		{
			const RangeTblEntry *rte = lfirst(lc);
			Relation	inner = rte->relkind != RELKIND_VIEW ? NULL
				: try_relation_open(rte->relid, AccessShareLock);

			if (inner != NULL)
				lock_view(inner);
		}
	}
	relation_close(view, NoLock);
}

/*
 * Locks a relation, and sets what may be read; false unless it is what was described.  NULL for a
 * server or a fingerprint stands for any.
 */
static bool
read_lock(const char *name, const char *server, const char *fingerprint, bool views)
{
	Relation	relation = NULL;
	Oid			relid = InvalidOid;

	if (name == NULL)
		return false;
	iblt_guard_read(views);
	/* behind a pooler there may be several servers */
	if (server == NULL || strcmp(server, iblt_server_started()) == 0)
		relid = RangeVarGetRelidExtended(makeRangeVarFromNameList(
										 textToQualifiedNameList(cstring_to_text(name))),
										 AccessShareLock, RVR_MISSING_OK, check_rights, NULL);
	if (OidIsValid(relid))
		relation = try_relation_open(relid, NoLock);
	if (relation == NULL)
		return false;
	if (fingerprint != NULL
		&& strncmp(text_to_cstring(iblt_fingerprint_now(relation)), fingerprint, DIGITS) != 0)
	{
		relation_close(relation, NoLock);
		return false;
	}
	lock_view(relation);
	return true;
}

/* The error for a relation that is not what was described. */
static void
refuse_altered(const char *relation, const char *side, const char *detail)
{
	ereport(ERROR,
			(errcode(MAKE_SQLSTATE('I', 'B', '0', '0', '4')),
			 errmsg("relation %s was altered while it was compared (%s)", relation, side),
			 *detail != '\0' ? errdetail_internal("%s", detail) : 0,
			 IsolationUsesXactSnapshot()
			 ? errhint("Begin another transaction. The snapshot of this one is from before the relation was altered or rewritten, by TRUNCATE, VACUUM FULL, REPACK or the like.")
			 : errhint("Compare when no other session alters, renames or drops it.")));
}

/* iblt_refuse_altered(relation, side, detail) -> void */
IBLT_FUNCTION(iblt_refuse_altered,
			  (refuse_altered(iblt_text_arg(fcinfo, 0, ""), iblt_text_arg(fcinfo, 1, ""),
							  iblt_text_arg(fcinfo, 2, "")), (Datum) 0))

/* iblt_read_lock(relation, server, fingerprint, views) -> boolean */
IBLT_FUNCTION(iblt_read_lock,
			  BoolGetDatum(read_lock(iblt_text_arg(fcinfo, 0, NULL), iblt_text_arg(fcinfo, 1, NULL),
									 iblt_text_arg(fcinfo, 2, NULL),
									 !PG_ARGISNULL(3) && PG_GETARG_BOOL(3))))

/* What was described of a side; "plain" are the places that are asked by plain queries, if not NULL. */
static Datum
described(Datum side, Jsonb *plain, TupleDesc desc)
{
	const char *identity = iblt_text_field(side, "identity", NULL);
	const char *kind = iblt_text_field(side, "kind", "");
	const char *place = iblt_text_field(side, "place", NULL);
	const char *texts[] = {
		place, iblt_text_field(side, "side", NULL), iblt_text_field(side, "relation", NULL),
		identity == NULL ? NULL : pnstrdup(identity, strcspn(identity, " ")),
		iblt_text_field(side, "fingerprint", NULL)
	};
	Datum		values[lengthof(texts) + 1];
	bool		nulls[lengthof(texts) + 1] = {false};

	if (iblt_flag_field(side, "bare") && (plain == NULL || place == NULL ||
		!DatumGetBool(DirectFunctionCall2(jsonb_exists, JsonbPGetDatum(plain), CStringGetTextDatum(place)))))
		texts[4] = NULL;
	else if (texts[4] != NULL)
		texts[4] = pnstrdup(texts[4], DIGITS);
	for (int i = 0; i < (int) lengthof(texts); i++)
	{
		nulls[i] = texts[i] == NULL;
		values[i] = nulls[i] ? 0 : CStringGetTextDatum(texts[i]);
	}
	values[lengthof(texts)] = BoolGetDatum(
		strcmp(kind, "v") == 0 || strcmp(kind, "f") == 0 || iblt_flag_field(side, "remote"));
	return HeapTupleGetDatum(heap_form_tuple(desc, values, nulls));
}

PG_FUNCTION_INFO_V1(iblt_reads);

/* iblt_reads(side[], plain jsonb) -> described[] */
Datum
iblt_reads(PG_FUNCTION_ARGS)
{
	Oid			type = iblt_row_type(fcinfo);
	Jsonb	   *plain = PG_ARGISNULL(1) ? NULL : PG_GETARG_JSONB_P(1);
	TupleDesc	desc = lookup_rowtype_tupdesc_copy(type, -1);
	int			n;
	Datum	   *rows;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	rows = iblt_rows_of(PG_GETARG_DATUM(0), &n);
	for (int i = 0; i < n; i++)
		if (rows[i] != 0)
			rows[i] = described(rows[i], plain, desc);
	return iblt_array_of(rows, n, type);
}

PG_FUNCTION_INFO_V1(iblt_read_begin);

/* iblt_read_begin(described[]) -> void: an error if a relation is not what was described */
Datum
iblt_read_begin(PG_FUNCTION_ARGS)
{
	int			n;
	Datum	   *rows = iblt_rows_of(PG_ARGISNULL(0) ? 0 : PG_GETARG_DATUM(0), &n);

	for (int i = 0; i < n; i++)
	{
		if (rows[i] == 0)
			refuse_altered("", "", "");
		if (!read_lock(iblt_text_field(rows[i], "relation", NULL), iblt_text_field(rows[i], "server", NULL),
					   iblt_text_field(rows[i], "fingerprint", NULL), iblt_flag_field(rows[i], "views")))
			refuse_altered(iblt_text_field(rows[i], "relation", ""), iblt_text_field(rows[i], "side", ""), "");
	}
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(iblt_read);

/* iblt_read(query, keys, lo, hi, described) -> record: the first row of a query, after iblt_read_begin */
Datum
iblt_read(PG_FUNCTION_ARGS)
{
	Oid			types[3] = {TEXTARRAYOID, TEXTARRAYOID, TEXTARRAYOID};
	Datum		values[3];
	char		nulls[3];
	int			result;
	HeapTupleHeader answer = NULL;

	iblt_require_arg(fcinfo, 0, "query", NULL);
	if (!PG_ARGISNULL(4))
		(void) DirectFunctionCall1(iblt_read_begin, PG_GETARG_DATUM(4));
	for (int i = 0; i < 3; i++)
	{
		values[i] = PG_GETARG_DATUM(i + 1);
		nulls[i] = PG_ARGISNULL(i + 1) ? 'n' : ' ';
	}
	SPI_connect();
	result = SPI_execute_with_args(text_to_cstring(PG_GETARG_TEXT_PP(0)), 3, types, values, nulls, false, 0);
	if (result < 0)
		elog(ERROR, "SPI_execute_with_args failed: %s", SPI_result_code_string(result));
	if (SPI_processed > 0 && SPI_tuptable != NULL)
		answer = SPI_returntuple(SPI_tuptable->vals[0], SPI_tuptable->tupdesc);
	SPI_finish();
	if (answer == NULL)
		PG_RETURN_NULL();
	PG_RETURN_HEAPTUPLEHEADER(answer);
}
