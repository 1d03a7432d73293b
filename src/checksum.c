/*-------------------------------------------------------------------------
 *
 * checksum.c
 *	  iblt_checksum: 64 bits that are equal for rows with equal values, on any
 *	  two servers.
 *
 * The checksum is XXH3_64bits_withSeed over the canonical items of the
 * arguments; canonical.h says what those are.  A sole argument of a row type
 * stands for its columns.
 *
 * Limits: the items of one row fit in 1 GB.  XXH3 is no MAC: who may choose
 * rows and knows the seed can make two of them collide.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "access/htup_details.h"
#include "access/relation.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/pathnodes.h"
#include "nodes/supportnodes.h"
#include "parser/parsetree.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/typcache.h"

#include "canonical.h"

/* A buffer that a huge row has made larger than this is given back. */
#define KEEP_BUFFER		(1024 * 1024)

/* How a call's arguments are to be read. */
typedef enum CallMode
{
	CALL_ARGS,					/* each argument is a column */
	CALL_ROW,					/* a sole row: its columns */
	CALL_LITERAL,				/* a sole literal without a type */
	CALL_ARRAY					/* VARIADIC array: each element is a column */
} CallMode;

/* What one call site keeps between calls, in fn_mcxt. */
typedef struct CallState
{
	CallMode	mode;
	MemoryContext cxt;
	int			nargs;
	StringInfoData buf;
	Oid			element_type;	/* of a VARIADIC array */
	IbltCodec  *codecs[FLEXIBLE_ARRAY_MEMBER];
} CallState;

PG_FUNCTION_INFO_V1(iblt_checksum);
PG_FUNCTION_INFO_V1(iblt_checksum_seeded);
PG_FUNCTION_INFO_V1(iblt_checksum_support);

static CallMode
choose_mode(FunctionCallInfo fcinfo, int first)
{
	Oid			type = get_fn_expr_argtype(fcinfo->flinfo, first);

	if (get_fn_expr_variadic(fcinfo->flinfo))
		return CALL_ARRAY;
	if (PG_NARGS() - first > 1 || !OidIsValid(type))
		return CALL_ARGS;
	if (type_is_rowtype(type))
		return CALL_ROW;
	return type == UNKNOWNOID ? CALL_LITERAL : CALL_ARGS;
}

/* Finds the codecs of the arguments from first on, once for a call site. */
static CallState *
make_state(FunctionCallInfo fcinfo, int first)
{
	MemoryContext cxt = fcinfo->flinfo->fn_mcxt;
	MemoryContext caller;
	int			nargs = PG_NARGS() - first;
	CallState  *state;

	if (nargs < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a row checksum needs at least one value")));
	state = MemoryContextAllocZero(cxt, offsetof(CallState, codecs) +
								   sizeof(IbltCodec *) * nargs);
	state->mode = choose_mode(fcinfo, first);
	state->cxt = cxt;
	state->nargs = nargs;
	for (int i = 0; i < nargs; i++)
	{
		Oid			type = get_fn_expr_argtype(fcinfo->flinfo, first + i);

		if (!OidIsValid(type))
			ereport(ERROR,
					(errcode(ERRCODE_INDETERMINATE_DATATYPE),
					 errmsg("could not determine data type for argument %d",
							first + i + 1)));
		if (state->mode == CALL_ARRAY)
			type = state->element_type = get_base_element_type(type);
		state->codecs[i] = iblt_codec_for_type(type, cxt);
	}
	caller = MemoryContextSwitchTo(cxt);
	initStringInfo(&state->buf);
	MemoryContextSwitchTo(caller);
	fcinfo->flinfo->fn_extra = state;
	return state;
}

/*
 * The columns of a row.  A NULL in place of the row gets bytes that no list of
 * items begins with, so that it differs from every row.
 */
static void
append_row(StringInfo buf, IbltCodec *codec, Datum row, bool isnull)
{
	static const char null_row[2] = {(char) 0x80, 0x00};

	if (isnull)
		appendBinaryStringInfo(buf, null_row, sizeof(null_row));
	else
		iblt_codec_append_columns(buf, codec, row);
}

/* The elements of a VARIADIC array, as if they had been listed. */
static void
append_variadic(StringInfo buf, CallState *state, Datum value)
{
	ArrayType  *array = DatumGetArrayTypeP(value);
	Datum	   *values;
	bool	   *nulls;
	int			n;
	int16		typlen;
	bool		typbyval;
	char		typalign;

	get_typlenbyvalalign(state->element_type, &typlen, &typbyval, &typalign);
	deconstruct_array(array, state->element_type, typlen, typbyval, typalign,
					  &values, &nulls, &n);
	if (n == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a row checksum needs at least one value"),
				 errdetail("The VARIADIC array is empty.")));
	if (n == 1 && iblt_codec_is_row(state->codecs[0]))
		append_row(buf, state->codecs[0], values[0], nulls[0]);
	else
	{
		for (int i = 0; i < n; i++)
			iblt_codec_append(buf, state->codecs[0], values[i], nulls[i]);
	}
	pfree(values);
	pfree(nulls);
	if ((Pointer) array != DatumGetPointer(value))
		pfree(array);
}

static void
append_unusual(StringInfo buf, CallState *state, const NullableDatum *arg)
{
	if (state->mode == CALL_LITERAL && !arg->isnull)
		iblt_codec_append(buf, state->codecs[0], arg->value, false);
	else if (state->mode != CALL_ARRAY)
		append_row(buf, state->codecs[0], arg->value, arg->isnull);
	else if (arg->isnull)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("a VARIADIC array of values must not be null")));
	else
		append_variadic(buf, state, arg->value);
}

static void
shrink_buffer(CallState *state)
{
	MemoryContext caller = MemoryContextSwitchTo(state->cxt);

	pfree(state->buf.data);
	initStringInfo(&state->buf);
	MemoryContextSwitchTo(caller);
}

static pg_attribute_always_inline Datum
checksum(FunctionCallInfo fcinfo, int first, uint64 seed)
{
	CallState  *state = fcinfo->flinfo->fn_extra;
	uint64		result;

	if (unlikely(state == NULL))
		state = make_state(fcinfo, first);
	state->buf.len = 0;
	if (likely(state->mode == CALL_ARGS))
		iblt_codec_append_args(&state->buf, state->codecs,
							   &fcinfo->args[first], state->nargs);
	else
		append_unusual(&state->buf, state, &fcinfo->args[first]);
	result = XXH3_64bits_withSeed(state->buf.data, state->buf.len, seed);
	if (unlikely(state->buf.maxlen > KEEP_BUFFER))
		shrink_buffer(state);
	return Int64GetDatum((int64) result);
}

/* iblt_checksum(VARIADIC "any") RETURNS bigint; never NULL. */
Datum
iblt_checksum(PG_FUNCTION_ARGS)
{
	return checksum(fcinfo, 0, 0);
}

/* iblt_checksum_seeded(seed bigint, VARIADIC "any") RETURNS bigint. */
Datum
iblt_checksum_seeded(PG_FUNCTION_ARGS)
{
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("the seed of a row checksum must not be null")));
	return checksum(fcinfo, 1, (uint64) PG_GETARG_INT64(0));
}

/* Whether a join tree holds anything but inner joins. */
static bool
has_other_joins(Node *node)
{
	ListCell   *lc;

	if (node == NULL || IsA(node, RangeTblRef))
		return false;
	if (IsA(node, JoinExpr))
	{
		JoinExpr   *join = (JoinExpr *) node;

		return join->jointype != JOIN_INNER || has_other_joins(join->larg) ||
			has_other_joins(join->rarg);
	}
	if (!IsA(node, FromExpr))
		return true;
	foreach(lc, ((FromExpr *) node)->fromlist)
	{
		if (has_other_joins(lfirst(lc)))
			return true;
	}
	return false;
}

/*
 * Whether a whole-row variable is a row of a table that no join can replace
 * by NULL, and that no grouping set can.  Its type must be the table's:
 * constraints are simplified before their variables point to the right table.
 */
static bool
is_plain_row(PlannerInfo *root, Var *var)
{
	RangeTblEntry *rte;

	if (root == NULL || var->varattno != InvalidAttrNumber ||
		var->varlevelsup != 0 || root->parse->commandType != CMD_SELECT ||
		has_other_joins((Node *) root->parse->jointree))
		return false;
#if PG_VERSION_NUM >= 160000
	if (!bms_is_empty(var->varnullingrels))
		return false;
#endif
#if PG_VERSION_NUM >= 180000
	if (var->varreturningtype != VAR_RETURNING_DEFAULT)
		return false;
#endif
	if ((int) var->varno < 1 ||
		(int) var->varno > list_length(root->parse->rtable))
		return false;
	rte = rt_fetch(var->varno, root->parse->rtable);
	return rte->rtekind == RTE_RELATION &&
		get_rel_type_id(rte->relid) == var->vartype;
}

/*
 * The columns of a whole-row variable as variables, NIL if they would not say
 * the same.  The planner holds a lock on the table.
 */
static List *
columns_of_table(PlannerInfo *root, Var *var)
{
	Relation	relation;
	List	   *columns = NIL;
	bool		usable = true;

	if (!is_plain_row(root, var))
		return NIL;
	relation = relation_open(rt_fetch(var->varno, root->parse->rtable)->relid,
							 NoLock);
	for (int i = 0; i < RelationGetNumberOfAttributes(relation); i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(relation), i);

		if (att->attisdropped)
			continue;
#if PG_VERSION_NUM >= 180000
		if (att->attgenerated == ATTRIBUTE_GENERATED_VIRTUAL)
			usable = false;
#endif
		columns = lappend(columns, makeVar(var->varno, att->attnum,
										   att->atttypid, att->atttypmod,
										   att->attcollation, 0));
	}
	relation_close(relation, NoLock);
	return usable ? columns : NIL;
}

/*
 * Whether a type is the row type of a table or view of the query.  Only then a
 * plan is made anew when the type changes.
 */
static bool
is_type_of_relation(PlannerInfo *root, Oid type)
{
	ListCell   *lc;

	if (root == NULL)
		return false;
	foreach(lc, root->parse->rtable)
	{
		RangeTblEntry *rte = lfirst(lc);

		/* a view is a subquery by now, and still has its OID from 16 on */
		if ((rte->rtekind == RTE_RELATION || rte->rtekind == RTE_SUBQUERY) &&
			OidIsValid(rte->relid) && get_rel_type_id(rte->relid) == type)
			return true;
	}
	return false;
}

/*
 * The fields of a row constructor, NIL if they would not say the same.  One
 * of a named type has fields for the type's dropped columns too.
 */
static List *
fields_of_row(PlannerInfo *root, RowExpr *row)
{
	TupleDesc	desc;
	List	   *fields = NIL;
	ListCell   *lc;
	int			i = 0;

	if (row->row_typeid == RECORDOID)
		return list_copy(row->args);
	if (!is_type_of_relation(root, row->row_typeid))
		return NIL;
	desc = lookup_rowtype_tupdesc_domain(row->row_typeid, -1, false);
	if (desc->natts == list_length(row->args))
	{
		foreach(lc, row->args)
		{
			if (!TupleDescAttr(desc, i++)->attisdropped)
				fields = lappend(fields, lfirst(lc));
		}
	}
	ReleaseTupleDesc(desc);
	return fields;
}

/* The columns that a sole row argument can be replaced by, or NIL. */
static List *
columns_of_argument(PlannerInfo *root, Node *arg)
{
	List	   *columns = NIL;

	/* a grouping set can make a grouped row, but not its columns, NULL */
	if (root != NULL && root->parse->groupingSets != NIL)
		return NIL;
	if (IsA(arg, RowExpr))
		columns = fields_of_row(root, (RowExpr *) arg);
	else if (IsA(arg, Var))
		columns = columns_of_table(root, (Var *) arg);

	/* as a sole argument these would be read in another way */
	if (list_length(columns) == 1)
	{
		Oid			type = exprType(linitial(columns));

		if (type == UNKNOWNOID || type_is_rowtype(type))
			return NIL;
	}
	return columns;
}

/*
 * Planner support: iblt_checksum(t) becomes iblt_checksum(t.a, t.b, ...), which
 * saves making a row value of each row.  Done only where the result is the
 * same; a call can have FUNC_MAX_ARGS arguments.
 */
Datum
iblt_checksum_support(PG_FUNCTION_ARGS)
{
	Node	   *request = (Node *) PG_GETARG_POINTER(0);
	FuncExpr   *call;
	FuncExpr   *result;
	List	   *columns;

	if (!IsA(request, SupportRequestSimplify))
		PG_RETURN_POINTER(NULL);
	call = ((SupportRequestSimplify *) request)->fcall;
	if (call->funcvariadic ||
		list_length(call->args) != get_func_nargs(call->funcid))
		PG_RETURN_POINTER(NULL);
	columns = columns_of_argument(((SupportRequestSimplify *) request)->root,
								  llast(call->args));
	if (columns == NIL ||
		list_length(columns) + list_length(call->args) - 1 > FUNC_MAX_ARGS)
		PG_RETURN_POINTER(NULL);

	if (list_length(call->args) == 2)
		columns = lcons(linitial(call->args), columns); /* the seed */
	result = makeNode(FuncExpr);
	*result = *call;
	result->args = columns;
	PG_RETURN_POINTER(result);
}
