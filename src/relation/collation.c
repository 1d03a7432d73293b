/*
 * collation.c
 *	  The collations, and the orders of enums, that a call depends on.
 *
 * What compares texts only by equality or LIKE does not depend on their
 * collation, unless that is nondeterministic.  All else that reads a text may.
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_collation.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "codec/codec.h"
#include "codec/version.h"
#include "relation/relation.h"

/* The arguments of a call, an operator or a cast through text; else none. */
static List *
call_args(Node *call)
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
		case T_RowCompareExpr:
			return list_concat_copy(((RowCompareExpr *) call)->largs,
									((RowCompareExpr *) call)->rargs);
		case T_CoerceViaIO:
			return list_make1(((CoerceViaIO *) call)->arg);
		default:
			return iblt_is_json_query(call) ? iblt_json_query_args(call) : NIL;
	}
}

Oid
iblt_call_operator(Node *call)
{
	switch (nodeTag(call))
	{
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
			return ((OpExpr *) call)->opno;
		case T_ScalarArrayOpExpr:
			return ((ScalarArrayOpExpr *) call)->opno;
		case T_RowCompareExpr:
			return linitial_oid(((RowCompareExpr *) call)->opnos);
		default:
			return InvalidOid;
	}
}

Oid
iblt_base_type(Oid type)
{
	Oid			element = get_base_element_type(type);

	return getBaseType(OidIsValid(element) ? element : type);
}

static bool
is_built_in(Oid type)
{
	type = iblt_base_type(type);
	return type < FirstNormalObjectId && type != RECORDOID;
}

/* Does a call tell only whether values are equal, whatever their order is? */
static bool
ignores_order(Node *call)
{
	Oid			operator;
	Oid			negator;
	Oid			type;

	if (IsA(call, DistinctExpr) || IsA(call, NullIfExpr) || IsA(call, CoerceViaIO))
		return true;
	if (!IsA(call, OpExpr) && !IsA(call, ScalarArrayOpExpr))
		return false;
	operator = iblt_call_operator(call);
	type = exprType(linitial(call_args(call)));
	negator = get_negator(operator);
	return op_hashjoinable(operator, type) ||
		(OidIsValid(negator) && op_hashjoinable(negator, type));
}

/* Does an operator tell only whether values are equal, or alike? */
static bool
compares_bytes(Node *call)
{
	Oid			operator = iblt_call_operator(call);
	RegProcedure function = get_opcode(operator);

	if (operator >= FirstNormalObjectId ||
		!is_built_in(exprType(linitial(call_args(call)))))
		return false;
	return function == F_TEXTLIKE || function == F_TEXTNLIKE ||
		function == F_BPCHARLIKE || function == F_BPCHARNLIKE || ignores_order(call);
}

/* May a call with a jsonb, or an array of these, order them? */
static bool
orders_jsonb(Node *call, Oid type)
{
	List	   *args = call_args(call);

	switch (nodeTag(call))
	{
		case T_MinMaxExpr:
		case T_RowCompareExpr:
			return true;
		case T_FuncExpr:
			return getBaseType(type) != JSONBOID ||
				(list_length(args) == 2 && iblt_base_type(exprType(lsecond(args))) == JSONBOID);
		case T_OpExpr:
		case T_ScalarArrayOpExpr:
			return !compares_bytes(call) &&
				get_op_index_interpretation(iblt_call_operator(call)) != NIL;
		default:
			return false;
	}
}

/* Collects what rows are made of: their type is record, and does not tell. */
static bool
collect_fields(Node *node, void *fields)
{
	if (node == NULL)
		return false;
	if (IsA(node, RowExpr))
		*(List **) fields = list_concat(*(List **) fields, ((RowExpr *) node)->args);
	return expression_tree_walker(node, collect_fields, fields);
}

/* Adds a collation to a list, unless there is none or the list has it. */
static List *
add_collation(List *collations, Oid collation)
{
	return OidIsValid(collation) ? list_append_unique_oid(collations, collation) : collations;
}

/* Adds the enums that values of a type have inside, and the collations of columns and ranges. */
static void
look_inside(Oid type, List **collations, List **enums)
{
	Oid			part;

	check_stack_depth();
	type = iblt_base_type(type);
	part = iblt_codec_type_part(type);
	if (type_is_range(type))
		*collations = add_collation(*collations, get_range_collation(type));
	if (OidIsValid(part))
		look_inside(part, collations, enums);
	else if (type_is_enum(type))
		*enums = list_append_unique_oid(*enums, type);
	else if (get_typtype(type) == TYPTYPE_COMPOSITE)
	{
		TupleDesc	desc = lookup_rowtype_tupdesc(type, -1);

		for (int i = 0; i < desc->natts; i++)
		{
			Form_pg_attribute column = TupleDescAttr(desc, i);

			if (column->attisdropped)
				continue;
			*collations = add_collation(*collations, column->attcollation);
			look_inside(column->atttypid, collations, enums);
		}
		ReleaseTupleDesc(desc);
	}
}

/*
 * May a call compare texts by a collation that the call does not show?  They
 * may be in a row, in a range, in jsonb that is ordered, or in a JSON path with
 * like_regex.  A text search configuration folds case.
 */
static bool
hides_collation(Node *call, Oid type)
{
	switch (iblt_base_type(type))
	{
		case JSONPATHOID:
		case REGCONFIGOID:
		case REGDICTIONARYOID:
			return true;
		case JSONBOID:
			return orders_jsonb(call, type);
		default:
			return !is_built_in(type) && !type_is_enum(iblt_base_type(type));
	}
}

/* Adds the collations of a call that has texts among its arguments. */
static List *
add_collations_of_texts(List *collations, Node *call, bool text_varies)
{
	Oid			collation = exprInputCollation(call);

	/* it may only compare texts, as bytes do; there LIKE takes each byte for a character */
	if ((IsA(call, OpExpr) || IsA(call, DistinctExpr) || IsA(call, NullIfExpr) ||
		 IsA(call, ScalarArrayOpExpr)) && compares_bytes(call) &&
		(!OidIsValid(collation) || get_collation_isdeterministic(collation)))
		return GetDatabaseEncoding() == PG_SQL_ASCII && !ignores_order(call)
			? list_append_unique_oid(collations, InvalidOid) : collations;
	collations = add_collation(collations, collation);
	/* a function, or a value made of text, may see its bytes */
	if ((IsA(call, FuncExpr) && OidIsValid(collation)) || (IsA(call, CoerceViaIO) && text_varies))
		collations = list_append_unique_oid(collations, InvalidOid);
	return collations;
}

void
iblt_call_depends(Node *call, List **collations, List **enums)
{
	bool		of_constants = IsA(call, FuncExpr) || IsA(call, OpExpr);
	bool		text_varies = false;
	int			constant_texts = 0;
	ListCell   *lc;

	foreach(lc, call_args(call))
	{
		Node	   *arg = lfirst(lc);
		bool		is_constant = IsA(arg, Const);
		List	   *enums_inside = NIL;
		List	   *inside = list_make1_oid(DEFAULT_COLLATION_OID);
		List	   *fields = NIL;
		ListCell   *field;

		if (OidIsValid(exprCollation(arg)))
		{
			text_varies = text_varies || !is_constant;
			constant_texts += is_constant;
		}
		of_constants = of_constants && is_constant;
		look_inside(exprType(arg), &inside, &enums_inside);
		if (iblt_base_type(exprType(arg)) == RECORDOID)
			(void) collect_fields(arg, &fields);
		foreach(field, fields)
		{
			inside = add_collation(inside, exprCollation(lfirst(field)));
			look_inside(exprType(lfirst(field)), &inside, &enums_inside);
		}
		if (!ignores_order(call))
			*enums = list_concat_unique_oid(*enums, enums_inside);
		if (hides_collation(call, exprType(arg)))
			*collations = list_concat_unique_oid(*collations, inside);
	}
	if (IsA(call, RowCompareExpr))
	{
		foreach(lc, ((RowCompareExpr *) call)->inputcollids)
			*collations = add_collation(*collations, lfirst_oid(lc));
	}
	/* letters and blanks of a text search are those of the database's own locale */
	if (IsA(call, CoerceViaIO) && (iblt_base_type(exprType(call)) == TSVECTOROID ||
								   iblt_base_type(exprType(call)) == TSQUERYOID))
		*collations = list_append_unique_oid(*collations, DEFAULT_COLLATION_OID);
	/* a number stands for another character in another encoding */
	if (IsA(call, FuncExpr) && ((FuncExpr *) call)->funcid == F_CHR)
		*collations = list_append_unique_oid(*collations, InvalidOid);
	/* one text may be a name, as in j ->> 'a', and two are compared */
	if (text_varies || of_constants || constant_texts > 1)
		*collations = add_collations_of_texts(*collations, call, text_varies);
}
