/*
 * condition.c
 *	  Does a condition, or an expression, depend on the row alone?
 *
 * The steps of a comparison read a relation several times, on two servers.
 * They need a condition that chooses the same rows each time.  So the rule is
 * that of index predicates: one expression over the relation with immutable
 * functions, without subqueries and system columns.  A function that is
 * declared immutable is believed.
 *
 * An index lies on one server, and a comparison has two.  So literals that read
 * the clock or name an object are refused too, and the collations that the
 * expression depends on are returned.  The driver compares those of the two
 * sides.
 *
 * A server without iblt cannot check its condition.  The other side checks it
 * on its own relation, and takes only what every PostgreSQL has.
 */
#include "sketch/iblt.h"

#include "access/relation.h"
#include "access/transam.h"
#include "catalog/heap.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "optimizer/optimizer.h"
#include "parser/parse_clause.h"
#include "parser/parse_coerce.h"
#include "parser/parse_collate.h"
#include "parser/parse_expr.h"
#include "parser/parse_relation.h"
#include "parser/parser.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/formatting.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"

#include "relation/relation.h"

#define HINT_CONSTANT	"Use constants and immutable functions, as in condition => format('ts > %L', now() - interval '1 hour')."
#define HINT_SUBQUERY	"Use the subquery's result as a constant, as in condition => format('id = ANY (%L)', ARRAY(SELECT id FROM chosen))."
#define HINT_COLUMN		"Use the columns of the relation."

/* What is known about an expression while its nodes are visited. */
typedef struct Expression
{
	bool		is_condition;
	bool		portable;		/* is it for a server without iblt? */
	ParseState *pstate;
	List	   *literals;		/* of A_Const, strings alone */
	List	   *collations;		/* OIDs of those it depends on, and InvalidOid
								 * for the encoding */
	List	   *enums;			/* OIDs of those whose order it depends on */
	Bitmapset  *columns;		/* their numbers */
	Node	   *call;			/* whose functions are being visited */
} Expression;

static void
refuse(Expression *expression, int location, const char *what, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg(expression->is_condition
					? "condition depends on more than the row: %s"
					: "expression depends on more than the row: %s", what),
			 errhint("%s", hint),
			 parser_errposition(expression->pstate, location)));
}

/* An error for what a server without iblt may understand in another way. */
static void
refuse_portable(Expression *expression, const char *what)
{
	if (expression->portable)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot compare by plain queries: an expression may mean something else on the peer, because of %s",
						what),
				 errhint("Use functions, operators and types of PostgreSQL itself, and write COLLATE \"C\" after texts.")));
}

/* --- from a text ------------------------------------------------------------- */

/*
 * Parses a text as one expression, before names are looked up.  ERROR if it is
 * anything else.  The expression means the same in parentheses, which it must
 * not close.
 */
static Node *
parse(bool is_condition, const char *text)
{
	List	   *statements = raw_parser(text, RAW_PARSE_PLPGSQL_EXPR);
	SelectStmt *plain = makeNode(SelectStmt);
	Node	   *select = list_length(statements) == 1
		? linitial_node(RawStmt, statements)->stmt : NULL;

	if (select != NULL && IsA(select, SelectStmt))
		plain->targetList = ((SelectStmt *) select)->targetList;
	/* there must not be a FROM or anything else */
	if (list_length(plain->targetList) == 1 && equal(plain, select))
	{
		ResTarget  *target = linitial_node(ResTarget, plain->targetList);

		/* parse analysis does not expect "*" as an expression */
		if (target->name == NULL &&
			!(IsA(target->val, ColumnRef) &&
			  IsA(linitial(((ColumnRef *) target->val)->fields), A_Star)))
			return target->val;
	}
	ereport(ERROR,
			(errcode(ERRCODE_SYNTAX_ERROR),
			 errmsg(is_condition ? "condition must be one expression"
					: "a value must be one expression")));
}

/* Gives all columns the same collation. */
static bool
forget_collations(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var) && OidIsValid(((Var *) node)->varcollid))
		((Var *) node)->varcollid = DEFAULT_COLLATION_OID;
	return expression_tree_walker(node, forget_collations, context);
}

/* --- literals ---------------------------------------------------------------- */

/* Collects the literals.  Refuses subqueries, which would take locks. */
static bool
collect_literals(Node *node, void *context)
{
	Expression *expression = context;

	if (node == NULL)
		return false;
	if (IsA(node, SubLink))
		refuse(expression, ((SubLink *) node)->location,
			   "it has a subquery", HINT_SUBQUERY);
	if (IsA(node, A_Const) && IsA(&((A_Const *) node)->val, String))
		expression->literals = lappend(expression->literals, node);
	return raw_expression_tree_walker(node, collect_literals, context);
}

/* Does a text have a word that date and time types read from the clock? */
static bool
names_clock(const char *text)
{
	char	   *lower = asc_tolower(text, strlen(text));
	char	   *letters = lower;

	/* arrays and rows may quote each letter */
	for (char *c = lower; *c != '\0'; c++)
		if (*c != '"' && *c != '\\')
			*letters++ = *c;
	*letters = '\0';
	return strstr(lower, "now") || strstr(lower, "today") ||
		strstr(lower, "tomorrow") || strstr(lower, "yesterday");
}

/*
 * Is it the same on both servers, and at each moment?  Of PostgreSQL's own base
 * types, those of dates and times alone read the clock.
 */
static bool
literal_is_constant(Oid type, const char *text)
{
	char		category;
	bool		preferred;

	type = iblt_base_type(type);
	switch (type)
	{
		case REGCONFIGOID:
		case REGDICTIONARYOID:
			return true;
		case BYTEAOID:
		case CHAROID:
		case TSVECTOROID:
		case TSQUERYOID:
			/* otherwise it depends on the encoding, or on what is a blank */
			while (*text != '\0' && !IS_HIGHBIT_SET(*text))
				text++;
			return *text == '\0';
	}
	get_type_category_preferred(type, &category, &preferred);
	if (type < FirstNormalObjectId && get_typtype(type) == TYPTYPE_BASE)
		/* others name an object */
		return iblt_codec_type_is_immutable(type) &&
			(category != TYPCATEGORY_DATETIME || !names_clock(text));
	return category == TYPCATEGORY_STRING || category == TYPCATEGORY_ENUM ||
		category == TYPCATEGORY_NUMERIC || !names_clock(text);
}

static void
check_literal(Expression *expression, Const *constant)
{
	ListCell   *lc;

	foreach(lc, expression->literals)
	{
		A_Const    *literal = lfirst(lc);
		const char *text = strVal(&literal->val);

		if (!constant->constisnull && literal->location == constant->location &&
			constant->location >= 0 && !literal_is_constant(constant->consttype, text))
			refuse(expression, constant->location,
				   psprintf("'%s' of type %s is not always the same",
							text, format_type_be(constant->consttype)),
				   HINT_CONSTANT);
	}
}

/* --- nodes ---------------------------------------------------------------------- */

/* Callback of check_functions_in_node. */
static bool
check_function(Oid function, void *context)
{
	Expression *expression = context;

	if (func_volatile(function) != PROVOLATILE_IMMUTABLE)
		refuse(expression, exprLocation(expression->call),
			   psprintf("function %s is not immutable", format_procedure(function)),
			   HINT_CONSTANT);
	if (function >= FirstGenbkiObjectId)
		refuse_portable(expression, psprintf("function %s", get_func_name(function)));
	return false;
}

static void
check_portable(Expression *expression, Node *node)
{
	Oid			type;
	Oid			element;

	/* an operator of a user may have one of PostgreSQL's own functions */
	if (iblt_call_operator(node) >= FirstGenbkiObjectId)
		refuse_portable(expression,
						psprintf("operator %s", get_opname(iblt_call_operator(node))));
	if (IsA(node, CoerceToDomain) || IsA(node, XmlExpr))
		refuse_portable(expression, "a domain or xml");
	/* ON ERROR of SQL/JSON may have no type; of an enum, only the order may be another one */
	if (IsA(node, List) || IsA(node, CaseWhen) || !OidIsValid(exprType(node)))
		return;
	/* a literal of an array runs the checks of a domain of its elements */
	element = get_base_element_type(exprType(node));
	type = OidIsValid(element) ? element : getBaseType(exprType(node));
	if (type >= FirstNormalObjectId && !type_is_enum(type))
		refuse_portable(expression, psprintf("type %s", format_type_be(exprType(node))));
}

static bool
check_node(Node *node, void *context)
{
	Expression *expression = context;
	List	   *enums = NIL;
	ListCell   *lc;

	CHECK_FOR_INTERRUPTS();
	if (node == NULL)
		return false;
	(void) expression_tree_walker(node, check_node, context);
	expression->call = node;
	if (IsA(node, Var))
	{
		AttrNumber	column = ((Var *) node)->varattno;

		if (column < 0)
			refuse(expression, exprLocation(node),
				   psprintf("system column %s", NameStr(SystemAttributeDefinition(column)->attname)),
				   HINT_COLUMN);
		if (column == 0)
			refuse_portable(expression, "a whole row");
		expression->columns = bms_add_member(expression->columns, column);
	}
	else if (IsA(node, Const))
		check_literal(expression, (Const *) node);
	else if (IsA(node, XmlExpr) && ((XmlExpr *) node)->op != IS_DOCUMENT)
		refuse(expression, exprLocation(node), "an XML constructor", HINT_CONSTANT);
	else if (IsA(node, SQLValueFunction))
		refuse(expression, exprLocation(node), "the clock or the user", HINT_CONSTANT);
	else if (iblt_is_json_query(node))
	{
		Oid			function;
		Oid			param;

		/* JSON_VALUE and others may read their result from text, when they are run */
		getTypeInputInfo(exprType(node), &function, &param);
		(void) check_function(function, expression);
	}
	if (expression->portable)
		check_portable(expression, node);
	check_functions_in_node(node, check_function, expression);
	iblt_call_depends(node, &expression->collations, &enums);
	if (enums != NIL && IsA(node, FuncExpr) && ((FuncExpr *) node)->funcid < FirstNormalObjectId &&
		strncmp(get_func_name(((FuncExpr *) node)->funcid), "hash", 4) == 0)
		refuse(expression, exprLocation(node), psprintf("function %s hashes the OIDs of labels",
														format_procedure(((FuncExpr *) node)->funcid)),
			   HINT_CONSTANT);
	expression->enums = list_concat_unique_oid(expression->enums, enums);
	foreach(lc, expression->collations)
		if (OidIsValid(lfirst_oid(lc)) && lfirst_oid(lc) != C_COLLATION_OID)
			refuse_portable(expression, "a collation");
	if (expression->enums != NIL)
		refuse_portable(expression, "the order of an enum");
	return false;
}

/* --- the function ---------------------------------------------------------------- */

/* Makes error locations refer to the expression, not to the caller's statement. */
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
 * Analyses and checks a text on the relation, which it may call "t".  If it is
 * portable, columns have no collations of their own, because those of another
 * server may differ.
 */
static Node *
check_text(Expression *expression, Relation relation, const char *text)
{
	ErrorContextCallback callback;
	ParseState *pstate = expression->pstate = make_parsestate(NULL);
	Node	   *result;

	callback.callback = locate_error;
	callback.arg = unconstify(char *, text);
	callback.previous = error_context_stack;
	error_context_stack = &callback;
	result = parse(expression->is_condition, text);
	pstate->p_sourcetext = text;
	collect_literals(result, expression);
	addNSItemToQuery(pstate,
					 addRangeTableEntryForRelation(pstate, relation, AccessShareLock,
												   makeAlias("t", NIL), true, true),
					 true, true, true);
	if (expression->is_condition)
		result = transformWhereClause(pstate, result, EXPR_KIND_WHERE, "condition");
	else
	{
		result = transformExpr(pstate, result, EXPR_KIND_INDEX_EXPRESSION);
		if (exprType(result) == UNKNOWNOID)
			result = coerce_type(pstate, result, UNKNOWNOID, TEXTOID, -1,
								 COERCION_IMPLICIT, COERCE_IMPLICIT_CAST, -1);
	}
	if (expression->portable)
		forget_collations(result, NULL);
	assign_expr_collations(pstate, result);
	check_node(result, expression);
	/* the planner fills in the arguments that a call leaves out */
	if (contain_mutable_functions((Node *) expression_planner((Expr *) copyObject(result))))
		refuse(expression, 0, "a function or a default of its arguments is not immutable",
			   HINT_CONSTANT);
	free_parsestate(pstate);

	error_context_stack = callback.previous;
	return result;
}

PG_FUNCTION_INFO_V1(iblt_compare_check_expression);

/*
 * iblt_compare_check_expression(relation, expression, is_condition, portable)
 * -> (type, typmod, collations, columns, enums).  NULL if the relation does not
 * exist any more.
 */
Datum
iblt_compare_check_expression(PG_FUNCTION_ARGS)
{
	char	   *source = text_to_cstring(PG_GETARG_TEXT_PP(1));
	Expression	expression = {.is_condition = PG_GETARG_BOOL(2), .portable = PG_GETARG_BOOL(3)};
	const char *conforming = GetConfigOption("standard_conforming_strings", true, false);
	Relation	relation;
	Node	   *checked;
	ArrayBuildState *names;
	int			column = 0;
	IbltRow		row = {0};

	/* the drivers cannot pin the setting: a peer reads a query before it runs them */
	if (strchr(source, '\\') != NULL)
		refuse_portable(&expression, "a backslash, which depends on standard_conforming_strings");
	if (strchr(source, '\\') != NULL && conforming != NULL && strcmp(conforming, "on") != 0)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg(expression.is_condition
						? "condition contains a backslash while standard_conforming_strings is off"
						: "expression contains a backslash while standard_conforming_strings is off"),
				 errhint("Set standard_conforming_strings to on for the role or database, or use chr(92).")));
	if ((relation = try_relation_open(PG_GETARG_OID(0), AccessShareLock)) == NULL)
		PG_RETURN_NULL();
	checked = check_text(&expression, relation, source);
	/* the bytes of a date in it may be those of an integer */
	if (exprType(checked) == RECORDOID || exprType(checked) == RECORDARRAYOID)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("expressions of type %s cannot be compared", format_type_be(exprType(checked))),
				 errhint("Compare the columns one by one, or cast them to a named type.")));
	names = initArrayResult(TEXTOID, CurrentMemoryContext, false);
	while ((column = bms_next_member(expression.columns, column)) > 0)
		names = accumArrayResult(names, CStringGetTextDatum(get_attname(PG_GETARG_OID(0),
																		column, false)),
								 false, TEXTOID, CurrentMemoryContext);
	iblt_column(&row, ObjectIdGetDatum(exprType(checked)), false);
	iblt_column(&row, Int32GetDatum(exprTypmod(checked)), false);
	iblt_column(&row, iblt_value_oids(expression.collations), false);
	iblt_column(&row, makeArrayResult(names, CurrentMemoryContext), false);
	iblt_column(&row, iblt_value_oids(expression.enums), false);
	relation_close(relation, AccessShareLock);
	return iblt_value_row(fcinfo, &row);
}
