/*
 * report.c
 *	  Errors that do not show the statement that caused them, and statements
 *	  that no log shows.
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "pgstat.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"

#include "codec/version.h"
#include "peer/connection.h"
#include "relation/relation.h"

PG_FUNCTION_INFO_V1(iblt_raise);
PG_FUNCTION_INFO_V1(iblt_refuse_early);
PG_FUNCTION_INFO_V1(iblt_tell);
PG_FUNCTION_INFO_V1(iblt_require_no_block);
PG_FUNCTION_INFO_V1(iblt_peer_show);

const int	iblt_failure_codes[IBLT_FAILURE_TEXTS] = {
	PG_DIAG_SQLSTATE, PG_DIAG_MESSAGE_PRIMARY, PG_DIAG_MESSAGE_DETAIL, PG_DIAG_MESSAGE_HINT,
	PG_DIAG_CONTEXT, PG_DIAG_SCHEMA_NAME, PG_DIAG_TABLE_NAME, PG_DIAG_COLUMN_NAME,
	PG_DIAG_DATATYPE_NAME, PG_DIAG_CONSTRAINT_NAME
};

Datum
iblt_failure(TupleDesc desc, const char *const *texts, bool reported)
{
	Datum		values[IBLT_FAILURE_COLUMNS] = {[IBLT_FAILURE_REPORTED] = BoolGetDatum(true)};
	bool		nulls[IBLT_FAILURE_COLUMNS] = {[IBLT_FAILURE_REPORTED] = !reported, [IBLT_FAILURE_SECRET] = true};

	for (int i = 0; i < IBLT_FAILURE_TEXTS; i++)
	{
		nulls[i] = texts[i] == NULL;
		if (!nulls[i])
			values[i] = CStringGetTextDatum(texts[i]);
	}
	return HeapTupleGetDatum(heap_form_tuple(desc, values, nulls));
}

/* A text of a failure as a C string, or NULL if it is null or empty. */
static char *
failure_text(HeapTupleHeader failure, int column)
{
	bool		isnull;
	Datum		value = GetAttributeByNum(failure, (AttrNumber) (column + 1), &isnull);
	char	   *string = isnull ? "" : TextDatumGetCString(value);

	return *string == '\0' ? NULL : string;
}

/* Sets the names in the error under construction. */
static int
failure_names(HeapTupleHeader failure)
{
	for (int i = IBLT_FAILURE_SCHEMA; i <= IBLT_FAILURE_CONSTRAINT; i++)
	{
		char	   *name = failure_text(failure, i);

		if (name != NULL)
			err_generic_string(iblt_failure_codes[i], name);
	}
	return 0;
}

/*
 * iblt_raise(failure, frames) -> failure: raises an error that was caught, or
 * made.  Its context leaves out so many frames: 1 is the function that calls
 * this, 3 a PERFORM, its function and the one that assigns what that returns.  If it
 * is secret, the server's log shows neither its statement, which may contain a
 * connection string with a password, nor its context.  Returns NULL if there is
 * no error.
 */
Datum
iblt_raise(PG_FUNCTION_ARGS)
{
	HeapTupleHeader failure;
	char	   *message;
	char	   *detail;
	char	   *hint;
	char	   *sqlstate;
	bool		isnull;
	bool		secret;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	failure = PG_GETARG_HEAPTUPLEHEADER(0);
	sqlstate = failure_text(failure, IBLT_FAILURE_STATE);
	if (sqlstate == NULL)
		PG_RETURN_NULL();
	message = failure_text(failure, IBLT_FAILURE_MESSAGE);
	detail = failure_text(failure, IBLT_FAILURE_DETAIL);
	hint = failure_text(failure, IBLT_FAILURE_HINT);
	secret = DatumGetBool(GetAttributeByNum(failure, IBLT_FAILURE_SECRET + 1, &isnull)) && !isnull;
	/* whoever catches the error sets this again */
	for (int i = PG_GETARG_INT32(1); i > 0 && error_context_stack != NULL; i--)
		error_context_stack = error_context_stack->previous;
	ereport(ERROR,
			(errcode(strlen(sqlstate) != 5 ? ERRCODE_INTERNAL_ERROR
					 : MAKE_SQLSTATE(sqlstate[0], sqlstate[1], sqlstate[2], sqlstate[3],
									 sqlstate[4])),
			 errmsg_internal("%s", message == NULL ? "unknown error" : message),
			 detail == NULL ? 0 : errdetail_internal("%s", detail),
			 hint == NULL ? 0 : errhint("%s", hint),
			 failure_names(failure),
			 errhidestmt(secret), errhidecontext(secret)));
}

/* iblt_refuse_early(message, hint) -> void: an error of an argument */
Datum
iblt_refuse_early(PG_FUNCTION_ARGS)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg_internal("%s", iblt_text_arg(fcinfo, 0, "")),
			 PG_ARGISNULL(1) ? 0 : errhint("%s", iblt_text_arg(fcinfo, 1, "")),
			 errhidestmt(true), errhidecontext(true)));
}

/*
 * iblt_tell(level, message, detail, hint) -> void: a message of that level,
 * unless it is null, without the statement and the functions that led to it in
 * the log: RAISE would show both, and either may contain a connection string.
 */
Datum
iblt_tell(PG_FUNCTION_ARGS)
{
	const char *texts[4];
	int			level;

	if (PG_ARGISNULL(1))
		PG_RETURN_VOID();
	for (int i = 0; i < (int) lengthof(texts); i++)
		texts[i] = iblt_text_arg(fcinfo, i, "");
	level = strcmp(texts[0], "warning") == 0 ? WARNING : NOTICE;
	ereport(level,
			(errmsg_internal("%s", texts[1]),
			 *texts[2] == '\0' ? 0 : errdetail_internal("%s", texts[2]),
			 *texts[3] == '\0' ? 0 : errhint("%s", texts[3]),
			 errhidestmt(true), errhidecontext(true)));
	PG_RETURN_VOID();
}

/*
 * iblt_require_no_block(what).  PostgreSQL's own error would show the statement,
 * which may contain a connection string.
 */
Datum
iblt_require_no_block(PG_FUNCTION_ARGS)
{
	/* in a block with EXCEPTION, which is a subtransaction, only the first tells */
	if (IsTransactionBlock() || !SPI_inside_nonatomic_context())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("%s cannot run inside a transaction block or a function",
						text_to_cstring(PG_GETARG_TEXT_PP(0))),
				 errhint("CALL it by itself, with autocommit."),
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
