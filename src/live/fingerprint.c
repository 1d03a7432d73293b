/*-------------------------------------------------------------------------
 *
 * fingerprint.c
 *	  Tells whether a relation is still as iblt_compare has described it.
 *
 * A description is read from the catalogs under a snapshot.  The parser and
 * the planner do not use that snapshot.  They see the columns as of the last
 * ALTER TABLE that was committed.  So this function does not use it either.
 * It reads the relation cache under a lock, as they do.
 *
 * A statement that has the relation in FROM holds a lock on it until the
 * transaction ends.  What this function returns in such a statement is true of
 * the rows that the statement reads.
 *
 *-------------------------------------------------------------------------
 */
#include "iblt.h"

#include "access/relation.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/rel.h"

/*
 * One line for a column.  The length before the name keeps one name from
 * looking like several columns.
 */
static void
append_column(StringInfo buf, Form_pg_attribute att)
{
	appendStringInfo(buf, "\n%d %u %d %d %d %d %d %s",
					 att->attnum, att->atttypid, att->atttypmod,
					 att->attnotnull ? 1 : 0, att->attidentity, att->attgenerated,
					 (int) strlen(NameStr(att->attname)), NameStr(att->attname));
}

/* The hash of the text, in hexadecimal. */
static text *
hash_text(StringInfo buf)
{
	Datum		bytes = PointerGetDatum(cstring_to_text_with_len(buf->data, buf->len));
	Datum		hash = DirectFunctionCall1(sha256_bytea, bytes);

	return DatumGetTextPP(DirectFunctionCall2(binary_encode, hash,
											  CStringGetTextDatum("hex")));
}

PG_FUNCTION_INFO_V1(iblt_compare_fingerprint);

/*
 * iblt_compare_fingerprint(regclass) -> text: a hash of what a comparison
 * relies on, as iblt_internal.describe_fingerprint makes it from the catalogs.
 * NULL if the relation does not exist.
 */
Datum
iblt_compare_fingerprint(PG_FUNCTION_ARGS)
{
	Relation	relation = try_relation_open(PG_GETARG_OID(0), AccessShareLock);
	StringInfoData buf;
	int			i;

	if (relation == NULL)
		PG_RETURN_NULL();
	initStringInfo(&buf);
	appendStringInfo(&buf, "%u %c %u", RelationGetRelid(relation),
					 relation->rd_rel->relkind, relation->rd_rel->relam);
	for (i = 0; i < RelationGetDescr(relation)->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(relation), i);

		if (!att->attisdropped)
			append_column(&buf, att);
	}
	relation_close(relation, AccessShareLock);
	PG_RETURN_TEXT_P(hash_text(&buf));
}
