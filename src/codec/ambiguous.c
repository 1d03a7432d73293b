/*-------------------------------------------------------------------------
 *
 * ambiguous.c
 *	  Columns that have the name of their relation.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/builtins.h"

#include "codec/ambiguous.h"

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
