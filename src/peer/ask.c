/*
 * ask.c
 *	  Sends a question over a connection, waits for its answer, and takes it.
 *
 * A question is a message of several statements, of which the last answers with one
 * row.  Nothing else of an answer is kept, however much the other server sends.
 */
#include "sketch/iblt.h"

#include "peer/connection.h"

#include "codec/version.h"
#include "relation/relation.h"

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

/*
 * What this session has sent to a peer and received from it since a driver last took the
 * counters: messages, bytes sent and bytes received.  They are not part of a transaction, because
 * a rollback does not undo traffic.
 */
#define COUNTERS 3

static int64 counters[COUNTERS];

PG_FUNCTION_INFO_V1(iblt_traffic_take);

/* iblt_traffic_take() -> (messages, sent, received), and resets them */
Datum
iblt_traffic_take(PG_FUNCTION_ARGS)
{
	IbltRow		row = {0};

	for (int i = 0; i < COUNTERS; i++)
	{
		iblt_column(&row, Int64GetDatum(counters[i]), false);
		counters[i] = 0;
	}
	return iblt_value_row(fcinfo, &row);
}

/* Waits for the socket, or until that time, and sees to interrupts. */
static void
wait_for_socket(IbltConnection *c, int events, TimestampTz until)
{
	long		ms = -1;

	if (until != DT_NOEND)
	{
		ms = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), until);
		events |= WL_TIMEOUT;
	}
	(void) WaitLatchOrSocket(MyLatch, events | WL_LATCH_SET | WL_EXIT_ON_PM_DEATH, PQsocket(c->pg),
							 ms, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

/* Takes in what has arrived; false if the connection is lost.  Nobody asked for notifications. */
static bool
take_in(IbltConnection *c)
{
	bool		good;
	PGnotify   *notification;

	if (!iblt_connection_count(c))
	{
		iblt_connection_close(c);
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("the peer sent more than an answer has")));
	}
	good = PQconsumeInput(c->pg) == 1;

	while ((notification = PQnotifies(c->pg)) != NULL)
		PQfreemem(notification);
	return good;
}

/*
 * Waits until libpq has a result; false if it has none at that time.  A lost connection
 * has a result, too, which says so.
 */
static bool
wait_for_result(IbltConnection *c, TimestampTz until)
{
	while (PQisBusy(c->pg) && PQstatus(c->pg) == CONNECTION_OK)
	{
		if (until != DT_NOEND && GetCurrentTimestamp() >= until)
			return false;
		wait_for_socket(c, WL_SOCKET_READABLE, until);
		if (!take_in(c))
			break;
	}
	return true;
}

/* An open connection; an error without one. */
static IbltConnection *
open_connection(const char *name)
{
	IbltConnection *c = iblt_connection(name);

	if (c == NULL || !c->checked)
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_DOES_NOT_EXIST),
				 errmsg("the connection is closed")));
	return c;
}

bool
iblt_question_send(const char *name, const char *query)
{
	IbltConnection *c = open_connection(name);
	int			left;

	if (PQsendQuery(c->pg, query) != 1 || PQsetSingleRowMode(c->pg) != 1)
		return false;
	while ((left = PQflush(c->pg)) > 0)
	{
		if (PQstatus(c->pg) != CONNECTION_OK)
			return false;
		/* a server that writes may read no more until its answer is read */
		wait_for_socket(c, WL_SOCKET_READABLE | WL_SOCKET_WRITEABLE, DT_NOEND);
		if (!take_in(c))
			return false;
	}
	/* the results of its settings */
	c->arrived = Max(0, c->arrived - 65536);
	counters[0]++;
	counters[1] += strlen(query);
	return left == 0;
}

/* iblt_peer_send(conn, query) -> boolean: sends a query; false if the connection is lost or not free */
IBLT_FUNCTION(iblt_peer_send, BoolGetDatum(iblt_question_send(iblt_text_arg(fcinfo, 0, NULL), iblt_text_arg(fcinfo, 1, ""))))

/* iblt_peer_wait(conn, until) -> boolean: is the answer there, at the latest at that time? */
IBLT_FUNCTION(iblt_peer_wait, BoolGetDatum(wait_for_result(open_connection(iblt_text_arg(fcinfo, 0, NULL)), PG_GETARG_TIMESTAMPTZ(1))))

/* A text of the other server's in an error; NULL if there is none. */
static const char *
said(const char *text)
{
	char	   *chomped;

	if (text == NULL || *text == '\0')
		return NULL;
	chomped = pchomp(text);
	return pg_verifymbstr(chomped, (int) strlen(chomped), true) ? chomped
		: "(a text that is not valid in the encoding of this database)";
}

/* A value of the type failure, for an error that a query ended with there, or a lost connection. */
static Datum
failure_of(const PGresult *result, TupleDesc failure)
{
	const char *texts[IBLT_FAILURE_TEXTS];

	for (int i = 0; i < IBLT_FAILURE_TEXTS; i++)
		texts[i] = said(PQresultErrorField(result, iblt_failure_codes[i]));
	if (texts[IBLT_FAILURE_STATE] == NULL || strlen(texts[IBLT_FAILURE_STATE]) != 5)
		texts[IBLT_FAILURE_STATE] = texts[IBLT_FAILURE_STATE] == NULL ? "08006" : "XX000";
	if (texts[IBLT_FAILURE_MESSAGE] == NULL)
		texts[IBLT_FAILURE_MESSAGE] = said(PQresultErrorMessage(result));
	return iblt_failure(failure, texts, true);
}

/* A text of an answer; an error if it is not valid in the encoding of this database. */
static char *
verified(char *text)
{
	(void) pg_verifymbstr(text, (int) strlen(text), false);
	return text;
}

/*
 * The row as a value of a type: its columns if that is a composite one, or its one column.
 * What has no row answers with its command tag.
 */
static Datum
answer_of(const PGresult *row, Oid type, bool *isnull)
{
	TupleDesc	desc = type_is_rowtype(type) ? lookup_rowtype_tupdesc_copy(type, -1) : NULL;
	int			columns = desc == NULL ? 1 : desc->natts;
	char	  **values = palloc(sizeof(char *) * Max(columns, 1));
	Oid			input;
	Oid			param;

	*isnull = false;
	if (PQresultStatus(row) == PGRES_COMMAND_OK && type == TEXTOID)
		return CStringGetTextDatum(verified(PQcmdStatus((PGresult *) row)));
	if (PQnfields(row) != columns)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("the peer answered with %d columns instead of %d", PQnfields(row), columns)));
	for (int i = 0; i < columns; i++)
		values[i] = PQgetisnull(row, 0, i) ? NULL : verified(PQgetvalue(row, 0, i));
	if (desc != NULL)
		return HeapTupleGetDatum(BuildTupleFromCStrings(TupleDescGetAttInMetadata(desc), values));
	*isnull = values[0] == NULL;
	getTypeInputInfo(type, &input, &param);
	return OidInputFunctionCall(input, values[0], param, -1);
}

/* 0 for NULL */
static int64
bytes_of(const PGresult *row)
{
	int64		bytes = 0;

	for (int i = 0; PQntuples(row) > 0 && i < PQnfields(row); i++)
		bytes += PQgetlength(row, 0, i);
	return bytes;
}

/* What libpq holds of an answer, until the memory context ends. */
typedef struct Answer
{
	MemoryContextCallback callback;
	PGresult   *row;
	PGresult   *error;
} Answer;

static void
let_go(void *arg)
{
	PQclear(((Answer *) arg)->row);
	PQclear(((Answer *) arg)->error);
}

/* The rest of an answer that ended with an error comes at once. */
#define REST_MS		2000

/*
 * Takes results until the connection is free.  The first row of the last statement is kept, and
 * the first error; false if neither has come by then.  A connection that does not become free is closed.
 */
static bool
take_results(IbltConnection *c, TimestampTz until, Answer *answer)
{
	PGresult   *result;
	bool		has_row = false;	/* has this statement given one? */

	for (;;)
	{
		ExecStatusType status;
		int64		bytes;
		bool		keep = false;

		CHECK_FOR_INTERRUPTS();
		if (!wait_for_result(c, until) || (until != DT_NOEND && GetCurrentTimestamp() >= until))
		{
			iblt_connection_close(c);
			return answer->error != NULL;
		}
		result = PQgetResult(c->pg);
		if (result == NULL)
			break;
		bytes = bytes_of(result);
		c->large = c->large || bytes > 16 * 1024 * 1024;
		status = PQresultStatus(result);
		switch (status)
		{
			case PGRES_SINGLE_TUPLE:
			case PGRES_TUPLES_OK:
			case PGRES_COMMAND_OK:
			case PGRES_EMPTY_QUERY:
				if (!has_row)
				{
					PQclear(answer->row);
					keep = status == PGRES_SINGLE_TUPLE || status == PGRES_COMMAND_OK;
					answer->row = keep ? result : NULL;
				}
				has_row = status == PGRES_SINGLE_TUPLE;
				break;
			case PGRES_FATAL_ERROR:
				keep = answer->error == NULL;
				if (keep)
				{
					answer->error = result;
					until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), REST_MS);
				}
				break;
			default:
				/* COPY, which nobody asked for */
				PQclear(result);
				iblt_connection_close(c);
				ereport(ERROR,
						(errcode(ERRCODE_PROTOCOL_VIOLATION),
						 errmsg("the peer did not answer with rows")));
		}
		c->arrived = Max(0, c->arrived - bytes);
		if (!keep)
			PQclear(result);
	}
	/* of an answer in short records of TLS, up to eight times as much was counted */
	c->arrived = Max(0, c->arrived - 7 * bytes_of(answer->row));
	if (PQstatus(c->pg) != CONNECTION_OK)
		iblt_connection_close(c);
	return true;
}

Datum
iblt_question_answer(const char *name, TimestampTz until, Oid type, bool *isnull, TupleDesc failure,
					 Datum *failed)
{
	IbltConnection *c = open_connection(name);
	Answer	   *answer = palloc0(sizeof(Answer));
	Datum		value = 0;

	answer->callback.func = let_go;
	answer->callback.arg = answer;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &answer->callback);
	c->failed = true;
	if (!take_results(c, until, answer))
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("the peer did not answer in time")));
	*isnull = true;
	*failed = 0;
	if (answer->error != NULL)
		*failed = failure_of(answer->error, failure);
	else
	{
		counters[0]++;
		if (answer->row != NULL)
		{
			counters[2] += bytes_of(answer->row);
			value = answer_of(answer->row, type, isnull);
		}
		/* the connection may be closed by now */
		c = iblt_connection(name);
		if (c != NULL)
			c->failed = false;
	}
	PQclear(answer->row);
	answer->row = NULL;
	return value;
}

PG_FUNCTION_INFO_V1(iblt_peer_fetch);

/* iblt_peer_fetch(conn, answer, until) -> (answer, failure) */
Datum
iblt_peer_fetch(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	Datum		values[2];
	bool		nulls[2];

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	values[0] = iblt_question_answer(iblt_text_arg(fcinfo, 0, NULL),
									 PG_ARGISNULL(2) ? DT_NOEND : PG_GETARG_TIMESTAMPTZ(2),
									 get_fn_expr_argtype(fcinfo->flinfo, 1), &nulls[0],
									 lookup_rowtype_tupdesc_copy(TupleDescAttr(desc, 1)->atttypid, -1), &values[1]);
	nulls[1] = values[1] == 0;
	return HeapTupleGetDatum(heap_form_tuple(desc, values, nulls));
}
