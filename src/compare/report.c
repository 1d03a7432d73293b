/*-------------------------------------------------------------------------
 *
 * report.c
 *	  Errors that do not show the statement that caused them, and statements
 *	  that no log shows.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "pgstat.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

PG_FUNCTION_INFO_V1(iblt_peer_raise);
PG_FUNCTION_INFO_V1(iblt_peer_show);
PG_FUNCTION_INFO_V1(iblt_repair_raise);

/* Argument n as a C string, or NULL. */
static char *
text_arg(FunctionCallInfo fcinfo, int n)
{
	if (PG_ARGISNULL(n))
		return NULL;
	return text_to_cstring(PG_GETARG_TEXT_PP(n));
}

static int
sqlstate_code(const char *sqlstate)
{
	if (sqlstate == NULL || strlen(sqlstate) != 5)
		return ERRCODE_INTERNAL_ERROR;
	return MAKE_SQLSTATE(sqlstate[0], sqlstate[1], sqlstate[2],
						 sqlstate[3], sqlstate[4]);
}

/*
 * iblt_peer_raise(sqlstate, message, detail, hint): an ERROR that the server's
 * log shows without its statement and context.  The statement may contain a
 * connection string with a password.
 */
Datum
iblt_peer_raise(PG_FUNCTION_ARGS)
{
	char	   *sqlstate = text_arg(fcinfo, 0);
	char	   *message = text_arg(fcinfo, 1);
	char	   *detail = text_arg(fcinfo, 2);
	char	   *hint = text_arg(fcinfo, 3);

	ereport(ERROR,
			(errcode(sqlstate_code(sqlstate)),
			 errmsg_internal("%s", message == NULL ? "unknown error" : message),
			 detail == NULL || *detail == '\0' ? 0
			 : errdetail_internal("%s", detail),
			 hint == NULL || *hint == '\0' ? 0 : errhint("%s", hint),
			 errhidestmt(true), errhidecontext(true)));
	PG_RETURN_VOID();
}

/*
 * iblt_peer_show(label): until the current message ends, the log and
 * pg_stat_activity show "iblt: label" as its statement.  The message itself
 * may contain rows of a table.  An error, a lock wait, a deadlock or the end
 * of the session would write all of it to the log.
 */
Datum
iblt_peer_show(PG_FUNCTION_ARGS)
{
	static const char prefix[] = "iblt: ";
	static char shown[1024];	/* outlives the message */
	text	   *label = PG_ARGISNULL(0) ? cstring_to_text("") : PG_GETARG_TEXT_PP(0);
	int			length = pg_mbcliplen(VARDATA_ANY(label), VARSIZE_ANY_EXHDR(label),
									  sizeof(shown) - sizeof(prefix));

	memcpy(shown, prefix, sizeof(prefix) - 1);
	memcpy(shown + sizeof(prefix) - 1, VARDATA_ANY(label), length);
	shown[sizeof(prefix) - 1 + length] = '\0';
	debug_query_string = shown;
	pgstat_report_activity(STATE_RUNNING, shown);
	PG_RETURN_VOID();
}

/* Sets the fields of the error under construction that are not empty. */
static int
error_fields(char **values)
{
	static const int codes[] = {PG_DIAG_SCHEMA_NAME, PG_DIAG_TABLE_NAME,
		PG_DIAG_COLUMN_NAME, PG_DIAG_DATATYPE_NAME, PG_DIAG_CONSTRAINT_NAME};

	for (int i = 0; i < (int) lengthof(codes); i++)
	{
		if (values[i] != NULL && *values[i] != '\0')
			err_generic_string(codes[i], values[i]);
	}
	return 0;
}

/*
 * iblt_repair_raise(sqlstate, message, detail, hint, schema, table, column,
 * datatype, constraint): raises an error that was caught, with another detail
 * and hint.
 */
Datum
iblt_repair_raise(PG_FUNCTION_ARGS)
{
	char	   *value[9];

	for (int i = 0; i < (int) lengthof(value); i++)
		value[i] = text_arg(fcinfo, i);
	ereport(ERROR,
			(errcode(sqlstate_code(value[0])),
			 errmsg_internal("%s", value[1] == NULL ? "unknown error" : value[1]),
			 value[2] == NULL || *value[2] == '\0' ? 0 : errdetail_internal("%s", value[2]),
			 value[3] == NULL || *value[3] == '\0' ? 0 : errhint("%s", value[3]),
			 error_fields(value + 4)));
	PG_RETURN_VOID();
}
