/*-------------------------------------------------------------------------
 *
 * collation.c
 *	  The collations that a call depends on.
 *
 * What compares texts only by equality or LIKE does not depend on their
 * collation, unless that is nondeterministic.  All else that reads a text may.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "compare/collation.h"

List *
iblt_call_args(Node *call)
{
	switch (nodeTag(call))
	{
		case T_FuncExpr:
			return ((FuncExpr *) call)->args;
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
			return ((OpExpr *) call)->args;
		case T_ScalarArrayOpExpr:
			return ((ScalarArrayOpExpr *) call)->args;
		case T_MinMaxExpr:
			return ((MinMaxExpr *) call)->args;
		case T_CoerceViaIO:
			return list_make1(((CoerceViaIO *) call)->arg);
		default:
			return NIL;
	}
}

static bool
is_built_in(Oid type)
{
	Oid			element = get_base_element_type(type);

	type = getBaseType(OidIsValid(element) ? element : type);
	return type < FirstNormalObjectId && type != RECORDOID;
}

/* Does an operator tell only whether values are equal, or alike? */
static bool
compares_bytes(Node *call)
{
	Oid			operator = IsA(call, ScalarArrayOpExpr) ? ((ScalarArrayOpExpr *) call)->opno
		: ((OpExpr *) call)->opno;
	Oid			type = exprType(linitial(iblt_call_args(call)));
	Oid			negator = get_negator(operator);
	RegProcedure function = get_opcode(operator);

	if (operator >= FirstNormalObjectId || !is_built_in(type))
		return false;
	return function == F_TEXTLIKE || function == F_TEXTNLIKE ||
		function == F_BPCHARLIKE || function == F_BPCHARNLIKE ||
		op_hashjoinable(operator, type) ||
		(OidIsValid(negator) && op_hashjoinable(negator, type));
}

/*
 * May a call compare texts by a collation that the call does not show?  They
 * may be in a row, in a range, in jsonb that is ordered, or in a JSON path with
 * like_regex.  A text search configuration folds case.
 */
static bool
hides_collation(Node *call, Oid type)
{
	type = getBaseType(type);
	switch (type)
	{
		case JSONPATHOID:
		case REGCONFIGOID:
		case REGDICTIONARYOID:
			return true;
		case JSONBOID:
			return IsA(call, MinMaxExpr) ||
				(IsA(call, FuncExpr) && list_length(iblt_call_args(call)) == 2 &&
				 getBaseType(exprType(lsecond(iblt_call_args(call)))) == JSONBOID) ||
				(IsA(call, OpExpr) && !compares_bytes(call) &&
				 get_op_btree_interpretation(((OpExpr *) call)->opno) != NIL);
		default:
			return !is_built_in(type) && !type_is_enum(type);
	}
}

/* Does a call only compare texts, as bytes do? */
static bool
is_equality(Node *call)
{
	Oid			collation = exprInputCollation(call);

	if (!IsA(call, OpExpr) && !IsA(call, DistinctExpr) && !IsA(call, NullIfExpr) &&
		!IsA(call, ScalarArrayOpExpr))
		return false;
	return compares_bytes(call) &&
		(!OidIsValid(collation) || get_collation_isdeterministic(collation));
}

/* Adds the collations of a call that has texts among its arguments. */
static List *
add_collations_of_texts(List *collations, Node *call, bool text_varies)
{
	Oid			collation = exprInputCollation(call);

	if (is_equality(call))
		return collations;
	if (OidIsValid(collation))
		collations = list_append_unique_oid(collations, collation);
	/* a function, or a value made of text, may see its bytes */
	if ((IsA(call, FuncExpr) && OidIsValid(collation)) || (IsA(call, CoerceViaIO) && text_varies))
		collations = list_append_unique_oid(collations, InvalidOid);
	return collations;
}

List *
iblt_call_collations(Node *call)
{
	bool		of_constants = IsA(call, FuncExpr) || IsA(call, OpExpr);
	bool		text_varies = false;
	List	   *collations = NIL;
	ListCell   *lc;

	foreach(lc, iblt_call_args(call))
	{
		Node	   *arg = lfirst(lc);
		bool		is_constant = IsA(arg, Const);

		text_varies = text_varies || (OidIsValid(exprCollation(arg)) && !is_constant);
		of_constants = of_constants && is_constant;
		if (hides_collation(call, exprType(arg)))
			collations = list_append_unique_oid(collations, DEFAULT_COLLATION_OID);
	}
	if (IsA(call, RowCompareExpr))
	{
		foreach(lc, ((RowCompareExpr *) call)->inputcollids)
			if (OidIsValid(lfirst_oid(lc)))
				collations = list_append_unique_oid(collations, lfirst_oid(lc));
	}
	return text_varies || of_constants
		? add_collations_of_texts(collations, call, text_varies) : collations;
}
