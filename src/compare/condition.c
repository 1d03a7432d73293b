/*-------------------------------------------------------------------------
 *
 * condition.c
 *	  Does a condition, or an expression, depend on the row alone?
 *
 * The steps of a comparison read a relation several times, on two servers.
 * They need a condition that chooses the same rows each time.  So a condition
 * is parsed here as one expression over the relation.  It may hold only
 *
 *	- columns of the row and constants,
 *	- functions and operators that are immutable, or that depend on settings
 *	  which the drivers pin (sql/pinned_settings, iblt_peer_settings),
 *	- nodes known to do no more than combine these.
 *
 * A function that is declared immutable is believed.  Comparisons of text also
 * depend on collations.  These are returned, and the driver compares those of
 * the two sides.
 *
 *-------------------------------------------------------------------------
 */
#include "iblt.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/sysattr.h"
#include "catalog/heap.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_collate.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "compare/expression.h"
#include "compare/pinned.h"

#define HINT_CONSTANT	"Use a constant, as in condition => format('ts > %L', now() - interval '1 hour')."
#define HINT_SUBQUERY	"Use the subquery's result as a constant, as in condition => format('id = ANY (%L)', ARRAY(SELECT id FROM chosen))."
#define HINT_TEXT		"Use to_date or to_timestamp with a format."
#define HINT_VALUE		"Compare the value itself, not its text."
#define HINT_COLUMN		"Use the columns of the relation."

/* A string literal of the condition. */
typedef struct Literal
{
	int			location;
	const char *text;
} Literal;

/* What is known about a condition, or a value, while its nodes are visited. */
typedef struct Condition
{
	IbltTextKind kind;
	ParseState *pstate;
	List	   *literals;		/* of Literal */
	List	   *collations;		/* OIDs of those it depends on, and InvalidOid
								 * for the encoding */
	Node	   *call;			/* whose functions are being visited */
} Condition;

static bool check_node(Node *node, void *context);

static void
refuse(Condition *condition, int location, const char *what, const char *hint)
{
	ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg(condition->kind == IBLT_CONDITION
					? "condition depends on more than the row: %s"
					: "expression depends on more than the row: %s", what),
			 errhint("%s", hint),
			 parser_errposition(condition->pstate, location)));
}

/* --- the text, before names are looked up ---------------------------------- */

/* The string that a raw constant is, or NULL. */
static const char *
constant_string(const A_Const *constant)
{
#if PG_VERSION_NUM >= 150000
	if (!constant->isnull && nodeTag(&constant->val) == T_String)
		return constant->val.sval.sval;
#else
	if (constant->val.type == T_String)
		return strVal(&constant->val);
#endif
	return NULL;
}

/* Collects the literals.  Refuses subqueries, which would take locks. */
static bool
collect_literals(Node *node, void *context)
{
	Condition  *condition = context;

	if (node == NULL)
		return false;
	if (IsA(node, SubLink))
		refuse(condition, ((SubLink *) node)->location,
			   "it has a subquery", HINT_SUBQUERY);
	if (IsA(node, A_Const))
	{
		const char *text = constant_string((A_Const *) node);

		if (text != NULL)
		{
			Literal    *literal = palloc(sizeof(Literal));

			literal->location = ((A_Const *) node)->location;
			literal->text = text;
			condition->literals = lappend(condition->literals, literal);
		}
		return false;
	}
	return raw_expression_tree_walker(node, collect_literals, context);
}

/* --- the expression ----------------------------------------------------------- */

static void
check_literal(Condition *condition, Const *constant)
{
	ListCell   *lc;

	if (constant->constisnull || constant->location < 0)
		return;
	CHECK_FOR_INTERRUPTS();
	foreach(lc, condition->literals)
	{
		Literal    *literal = lfirst(lc);

		if (literal->location == constant->location &&
			!iblt_input_is_pinned(constant->consttype, literal->text))
			refuse(condition, constant->location,
				   psprintf("'%s' of type %s is not always the same",
							literal->text, format_type_be(constant->consttype)),
				   HINT_CONSTANT);
	}
}

static void
check_output(Condition *condition, Node *value)
{
	Oid			type = exprType(value);

	if (!iblt_output_is_pinned(type))
		refuse(condition, exprLocation(value),
			   psprintf("the text of type %s", format_type_be(type)),
			   HINT_VALUE);
}

static void
check_outputs(Condition *condition, List *values)
{
	ListCell   *lc;

	foreach(lc, values)
		check_output(condition, lfirst(lc));
}

/* It depends on the bytes of text in this database. */
static void
add_encoding(Condition *condition)
{
	condition->collations = list_append_unique_oid(condition->collations,
												   InvalidOid);
}

/* A cast that makes text of a value, and a value of that text. */
static void
check_text_cast(Condition *condition, CoerceViaIO *cast)
{
	check_output(condition, (Node *) cast->arg);
	if (cast->resulttype == BYTEAOID)
		add_encoding(condition);
	if (!iblt_input_is_pinned(cast->resulttype, NULL))
		refuse(condition, cast->location,
			   psprintf("text read as type %s",
						format_type_be(cast->resulttype)), HINT_TEXT);
}

static void
check_column(Condition *condition, Var *column)
{
	if (column->varattno < 0)
		refuse(condition, column->location,
			   psprintf("system column %s",
						NameStr(SystemAttributeDefinition(column->varattno)->attname)),
			   HINT_COLUMN);
}

static void
check_domain(Condition *condition, Oid type)
{
	/* the memory context calls it back when it is deleted */
	DomainConstraintRef *domain = palloc(sizeof(DomainConstraintRef));
	ListCell   *lc;

	InitDomainConstraintRef(type, domain, CurrentMemoryContext, false);
	foreach(lc, domain->constraints)
	{
		DomainConstraintState *constraint = lfirst(lc);

		check_node((Node *) constraint->check_expr, condition);
	}
}

/* The planner fills in the defaults of arguments that a call leaves out. */
static void
check_defaults(Condition *condition, FuncExpr *call)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID,
										ObjectIdGetDatum(call->funcid));
	Datum		defaults = (Datum) 0;
	bool		isnull = true;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", call->funcid);
	if (((Form_pg_proc) GETSTRUCT(tuple))->pronargs > list_length(call->args))
		defaults = SysCacheGetAttr(PROCOID, tuple,
								   Anum_pg_proc_proargdefaults, &isnull);
	if (!isnull)
		check_node(stringToNode(TextDatumGetCString(defaults)), condition);
	ReleaseSysCache(tuple);
}

static void
add_collation(Condition *condition, Oid collation)
{
	if (OidIsValid(collation))
		condition->collations = list_append_unique_oid(condition->collations,
													   collation);
}

/* Callback of check_functions_in_node. */
static bool
check_function(Oid function, void *context)
{
	Condition  *condition = context;
	char		volatility = func_volatile(function);
	Oid			collation = exprInputCollation(condition->call);

	if (volatility == PROVOLATILE_VOLATILE ||
		(volatility == PROVOLATILE_STABLE &&
		 !iblt_function_is_pinned(function) &&
		 !iblt_function_makes_text(function)))
		refuse(condition, exprLocation(condition->call),
			   psprintf("function %s is not immutable",
						format_procedure(function)), HINT_CONSTANT);
	if (iblt_function_shows_encoding(function))
		add_encoding(condition);
	if (iblt_call_hides_collation(function, condition->call))
		add_collation(condition, DEFAULT_COLLATION_OID);
	if (OidIsValid(collation) &&
		(!iblt_call_ignores_collation(function, condition->call) ||
		 !get_collation_isdeterministic(collation)))
		add_collation(condition, collation);
	return false;
}

static void
check_functions(Condition *condition, Node *node)
{
	condition->call = node;
	check_functions_in_node(node, check_function, condition);
	if (IsA(node, FuncExpr))
	{
		FuncExpr   *call = (FuncExpr *) node;

		check_defaults(condition, call);
		if (iblt_function_makes_text(call->funcid))
			check_outputs(condition, call->args);
	}
	else if (IsA(node, OpExpr) &&
			 iblt_function_makes_text(((OpExpr *) node)->opfuncid))
		check_outputs(condition, ((OpExpr *) node)->args);
}

static void
check_row_compare(Condition *condition, RowCompareExpr *compare)
{
	ListCell   *lc;

	check_functions(condition, (Node *) compare);
	foreach(lc, compare->inputcollids)
		add_collation(condition, lfirst_oid(lc));
}

static void
check_xml(Condition *condition, XmlExpr *xml)
{
	check_outputs(condition, xml->named_args);
	check_outputs(condition, xml->args);
}

/* Nodes that only combine the values of others. */
static bool
is_plain(Node *node)
{
	switch (nodeTag(node))
	{
		case T_List:
		case T_NamedArgExpr:
		case T_SubscriptingRef:
		case T_BoolExpr:
		case T_FieldSelect:
		case T_RelabelType:
		case T_ArrayCoerceExpr:
		case T_ConvertRowtypeExpr:
		case T_CollateExpr:
		case T_CaseExpr:
		case T_CaseWhen:
		case T_CaseTestExpr:
		case T_ArrayExpr:
		case T_RowExpr:
		case T_CoalesceExpr:
		case T_NullTest:
		case T_BooleanTest:
		case T_CoerceToDomainValue:
#if PG_VERSION_NUM >= 160000
		case T_JsonIsPredicate:
#endif
			return true;
		default:
			return false;
	}
}

/* The word that a node begins with in the condition. */
static const char *
first_word(Condition *condition, Node *node)
{
	int			location = exprLocation(node);
	const char *start = condition->pstate->p_sourcetext + Max(location, 0);
	size_t		length = strspn(start, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz");

	return location < 0 || length == 0 ? "an expression" : pnstrdup(start, length);
}

/*
 * Visits an analysed expression, and refuses whatever is not known to be
 * harmless.
 */
static bool
check_node(Node *node, void *context)
{
	Condition  *condition = context;

	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Var:
			check_column(condition, (Var *) node);
			break;
		case T_Const:
			check_literal(condition, (Const *) node);
			break;
		case T_FuncExpr:
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
		case T_ScalarArrayOpExpr:
			check_functions(condition, node);
			break;
		case T_RowCompareExpr:
			check_row_compare(condition, (RowCompareExpr *) node);
			break;
		case T_MinMaxExpr:
			add_collation(condition, iblt_order_collation(node));
			break;
		case T_CoerceViaIO:
			check_text_cast(condition, (CoerceViaIO *) node);
			break;
		case T_CoerceToDomain:
			check_domain(condition, ((CoerceToDomain *) node)->resulttype);
			break;
		case T_XmlExpr:
			check_xml(condition, (XmlExpr *) node);
			break;
		default:
			if (!is_plain(node))
				refuse(condition, exprLocation(node),
					   first_word(condition, node), HINT_CONSTANT);
	}
	return expression_tree_walker(node, check_node, context);
}

/* --- the function ---------------------------------------------------------------- */

/*
 * Makes error locations refer to the condition, not to the caller's statement.
 */
static void
locate_error(void *text)
{
	int			position = geterrposition();

	if (position > 0)
	{
		errposition(0);
		internalerrposition(position);
		internalerrquery(text);
	}
}

/*
 * The drivers cannot pin this setting, because a peer reads a query before it
 * runs the settings.
 */
static void
check_backslash(IbltTextKind kind, const char *text)
{
	const char *conforming = GetConfigOption("standard_conforming_strings",
											 true, false);

	if (strchr(text, '\\') != NULL && conforming != NULL &&
		strcmp(conforming, "on") != 0)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg(kind == IBLT_CONDITION
						? "condition contains a backslash while standard_conforming_strings is off"
						: "expression contains a backslash while standard_conforming_strings is off"),
				 errhint("Set standard_conforming_strings to on for the role or database, or use chr(92).")));
}

/*
 * Analyses and checks a text on the relation.  Adds the collations that it
 * depends on to condition->collations.
 */
static Node *
check_text(Condition *condition, Relation relation, const char *text)
{
	ErrorContextCallback callback;
	Node	   *expression;

	callback.callback = locate_error;
	callback.arg = unconstify(char *, text);
	callback.previous = error_context_stack;
	error_context_stack = &callback;

	expression = iblt_parse_expression(condition->kind, text);
	condition->pstate = make_parsestate(NULL);
	condition->pstate->p_sourcetext = text;
	collect_literals(expression, condition);
	expression = iblt_analyse_expression(condition->kind, condition->pstate,
										 relation, expression);
	assign_expr_collations(condition->pstate, expression);
	if (condition->pstate->p_hasTargetSRFs)	/* an empty one would leave the row out */
		refuse(condition, 0, "it returns a set", HINT_COLUMN);
	check_node(expression, condition);
	free_parsestate(condition->pstate);

	error_context_stack = callback.previous;
	return expression;
}

PG_FUNCTION_INFO_V1(iblt_compare_check_expression);

/*
 * iblt_compare_check_expression(relation, expression, is_condition) -> (type,
 * the base of that, typmod, collations that it depends on).  ERROR unless it depends on
 * the row alone.  NULL if the relation does not exist any more.
 */
Datum
iblt_compare_check_expression(PG_FUNCTION_ARGS)
{
	char	   *source = text_to_cstring(PG_GETARG_TEXT_PP(1));
	Condition	condition = {.kind = PG_GETARG_BOOL(2) ? IBLT_CONDITION : IBLT_VALUE};
	Relation	relation;
	Node	   *expression;
	Datum		values[4];
	bool		nulls[4] = {false};

	check_backslash(condition.kind, source);
	relation = try_relation_open(PG_GETARG_OID(0), AccessShareLock);
	if (relation == NULL)
		PG_RETURN_NULL();
	expression = check_text(&condition, relation, source);
	relation_close(relation, AccessShareLock);
	values[0] = ObjectIdGetDatum(exprType(expression));
	values[1] = ObjectIdGetDatum(getBaseType(exprType(expression)));
	values[2] = Int32GetDatum(exprTypmod(expression));
	values[3] = iblt_value_oids(condition.collations);
	return iblt_value_row(fcinfo, values, nulls);
}
