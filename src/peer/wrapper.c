/*-------------------------------------------------------------------------
 *
 * wrapper.c
 *	  The options of foreign servers of iblt's own wrapper, iblt_fdw.
 *
 *-------------------------------------------------------------------------
 */
#include "peer/connection.h"

#include "access/reloptions.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "fmgr.h"

bool
iblt_is_secret(const PQconninfoOption *option)
{
	return strchr(option->dispchar, '*') != NULL || strstr(option->keyword, "secret") != NULL
		|| strncmp(option->keyword, "scram_", 6) == 0;
}

bool
iblt_belongs_to(const PQconninfoOption *option, bool mapping)
{
	return strchr(option->dispchar, 'D') == NULL && strcmp(option->keyword, "client_encoding") != 0
		&& mapping == (iblt_is_secret(option) || strcmp(option->keyword, "user") == 0);
}

PG_FUNCTION_INFO_V1(iblt_fdw_validator);

/*
 * iblt_fdw_validator(options, catalog) -> void: a foreign server has options of libpq but
 * those of a user mapping, which are the user and its secrets
 */
Datum
iblt_fdw_validator(PG_FUNCTION_ARGS)
{
	List	   *options = untransformRelOptions(PG_GETARG_DATUM(0));
	Oid			catalog = PG_GETARG_OID(1);
	PQconninfoOption *known = PQconndefaults();
	const char *wrong = NULL;
	ListCell   *cell;

	foreach(cell, options)
	{
		DefElem    *def = lfirst(cell);
		bool		found = false;

		for (PQconninfoOption *o = known; o != NULL && o->keyword != NULL; o++)
			found = found || (strcmp(o->keyword, def->defname) == 0
							  && ((catalog == ForeignServerRelationId && iblt_belongs_to(o, false))
								  || (catalog == UserMappingRelationId && iblt_belongs_to(o, true))));
		if (!found)
			wrong = def->defname;
	}
	PQconninfoFree(known);
	if (wrong != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
				 errmsg("invalid option \"%s\"", wrong),
				 errhint("A server has the options of a connection string, and a user mapping has user and password.")));
	PG_RETURN_VOID();
}
