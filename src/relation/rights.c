/*
 * rights.c
 *	  May a role read a relation that a caller names by its OID?
 *
 * PostgreSQL asks that of the relations of a query.  A function that reads a
 * relation by its OID has to ask itself.
 */
#include "relation/relation.h"

#include "catalog/pg_inherits.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"

bool
iblt_has_rights(Oid relid, List *columns)
{
	ListCell   *cell;

	if (pg_class_aclcheck(relid, GetUserId(), ACL_SELECT) == ACLCHECK_OK)
		return true;
	foreach(cell, columns)
	{
		AttrNumber	column = get_attnum(relid, lfirst(cell));

		if (column == InvalidAttrNumber ||
			pg_attribute_aclcheck(relid, column, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
			return false;
	}
	return columns != NIL;
}

bool
iblt_is_readable(Oid relid, List *columns)
{
	ListCell   *cell;

	check_stack_depth();
	if (iblt_has_rights(relid, columns) &&
		check_enable_rls(relid, InvalidOid, true) != RLS_ENABLED)
		return true;
	/* other children may have columns that the table above does not have */
	if (columns == NIL && !get_rel_relispartition(relid))
		return false;
	foreach(cell, iblt_catalog_rows(InheritsRelationId, InheritsRelidSeqnoIndexId,
									Anum_pg_inherits_inhrelid, relid, NULL))
		if (iblt_is_readable(((Form_pg_inherits) GETSTRUCT((HeapTuple) lfirst(cell)))->inhparent,
							 columns))
			return true;
	return false;
}

void
iblt_require_readable(Relation relation, List *columns)
{
	Oid			relid = RelationGetRelid(relation);

	if (iblt_is_readable(relid, columns))
		return;
	if (!iblt_has_rights(relid, columns))
		aclcheck_error(ACLCHECK_NO_PRIV, get_relkind_objtype(relation->rd_rel->relkind),
					   RelationGetRelationName(relation));
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied for rows of \"%s\" that a policy hides",
					RelationGetRelationName(relation))));
}
