/*-------------------------------------------------------------------------
 *
 * wait.c
 *	  Asks a peer, waits for its answer, and takes it.
 *
 * The socket is dblink's own, and dblink_get_result cannot be interrupted in
 * all releases.  So this asks dblink_is_busy again and again, which takes in
 * what has arrived, with pauses.  In PL/pgSQL each call would be parsed and
 * planned, because dblink may be in any schema, and pg_sleep does not pause for
 * less than a millisecond.
 *
 *-------------------------------------------------------------------------
 */
#include "sketch/iblt.h"

#include <math.h>

#include "codec/version.h"
#include "relation/fingerprint.h"

#include "access/htup_details.h"
#include "catalog/indexing.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "parser/parse_func.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

/*
 * What this session has sent to a peer and received from it since a driver last took the
 * counters: messages, bytes sent, bytes received, and bytes of sketches
 * among these.  They are not part of a transaction, because a rollback does not undo traffic.
 */
#define COUNTERS 4

static int64 counters[COUNTERS];

static void
count_message(int64 sent, int64 received)
{
	counters[0]++;
	counters[1] += sent;
	counters[2] += received;
}

PG_FUNCTION_INFO_V1(iblt_traffic_add);

/* iblt_traffic_add(messages, sent, received, sketches).  NULL counts as 0. */
Datum
iblt_traffic_add(PG_FUNCTION_ARGS)
{
	for (int i = 0; i < COUNTERS; i++)
	{
		if (!PG_ARGISNULL(i))
			counters[i] += PG_GETARG_INT64(i);
	}
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(iblt_traffic_take);

/* iblt_traffic_take() -> (messages, sent, received, sketches), and resets them */
Datum
iblt_traffic_take(PG_FUNCTION_ARGS)
{
	Datum		values[COUNTERS];
	bool		nulls[COUNTERS] = {false};

	for (int i = 0; i < COUNTERS; i++)
	{
		values[i] = Int64GetDatum(counters[i]);
		counters[i] = 0;
	}
	return iblt_value_row(fcinfo, values, nulls);
}

/* In seconds.  Pauses grow from the shortest on by a fifth each. */
#define SHORTEST_PAUSE	0.00005
#define LONG_PAUSE		0.001

/* An answer that is so large that it is read in parts has short pauses so long. */
#define HASTE_MS		20

/* The schema of dblink; InvalidOid if this database does not have it. */
static Oid
dblink_schema(void)
{
	Oid			dblink = get_extension_oid("dblink", true);
	List	   *rows = iblt_catalog_rows(ExtensionRelationId, ExtensionOidIndexId,
										 Anum_pg_extension_oid, dblink, NULL);

	return rows == NIL ? InvalidOid
		: ((Form_pg_extension) GETSTRUCT((HeapTuple) linitial(rows)))->extnamespace;
}

/*
 * The function of dblink that makes a value, or a set, of so many texts, for the
 * caller.  An error if there is none.
 */
static Oid
find_function(const char *name, int texts, Oid rettype, bool retset)
{
	Oid			argtypes[] = {TEXTOID, TEXTOID};
	char	   *schema = get_namespace_name(dblink_schema());
	Oid			found = LookupFuncName(list_make2(makeString(schema == NULL ? "dblink" : schema),
												  makeString(pstrdup(name))),
									   texts, argtypes, false);
	AclResult	result = iblt_function_aclcheck(found);

	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_FUNCTION, get_func_name(found));
	if (get_func_rettype(found) != rettype || get_func_retset(found) != retset ||
		get_func_prokind(found) != PROKIND_FUNCTION)
		ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
						errmsg("function %s does not return %s%s", name,
							   retset ? "a set of " : "", format_type_be(rettype))));
	return found;
}

PG_FUNCTION_INFO_V1(iblt_peer_dblink);

/* iblt_peer_dblink() -> text: the schema of dblink, quoted; an error without it */
Datum
iblt_peer_dblink(PG_FUNCTION_ARGS)
{
	char	   *schema = get_namespace_name(dblink_schema());

	(void) fcinfo;
	if (schema == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("extension dblink is not installed in this database"),
				 errdetail("iblt connects to a peer through dblink."),
				 errhint("Run CREATE EXTENSION dblink. For relations of this database, leave peer NULL.")));
	PG_RETURN_TEXT_P(cstring_to_text(quote_identifier(schema)));
}

PG_FUNCTION_INFO_V1(iblt_peer_is_string);

/* iblt_peer_is_string(peer) -> boolean: is there no foreign server of this name? */
Datum
iblt_peer_is_string(PG_FUNCTION_ARGS)
{
	char	   *peer = text_to_cstring(PG_GETARG_TEXT_PP(0));

	PG_RETURN_BOOL(strlen(peer) >= NAMEDATALEN ||
				   !OidIsValid(get_foreign_server_oid(peer, true)));
}

PG_FUNCTION_INFO_V1(iblt_peer_open);

/* iblt_peer_open(conn, peer) -> text: opens a connection of that name, which no plan shows */
Datum
iblt_peer_open(PG_FUNCTION_ARGS)
{
	(void) OidFunctionCall2(find_function("dblink_connect", 2, TEXTOID, false),
							PG_GETARG_DATUM(0), PG_GETARG_DATUM(1));
	PG_RETURN_DATUM(PG_GETARG_DATUM(0));
}

PG_FUNCTION_INFO_V1(iblt_peer_send);

/* iblt_peer_send(conn, query) -> boolean: could dblink send it? */
Datum
iblt_peer_send(PG_FUNCTION_ARGS)
{
	bool		sent = OidFunctionCall2(find_function("dblink_send_query", 2, INT4OID, false),
										PG_GETARG_DATUM(0), PG_GETARG_DATUM(1)) == Int32GetDatum(1);

	if (sent)
		count_message(VARSIZE_ANY_EXHDR(PG_GETARG_TEXT_PP(1)), 0);
	PG_RETURN_BOOL(sent);
}

PG_FUNCTION_INFO_V1(iblt_peer_is_open);

/* iblt_peer_is_open(conn) -> boolean: is there a connection of this name? */
Datum
iblt_peer_is_open(PG_FUNCTION_ARGS)
{
	LOCAL_FCINFO(call, 0);
	FmgrInfo	connections;
	Datum		names;
	bool		open = false;

	if (PG_ARGISNULL(0) || !OidIsValid(dblink_schema()))
		PG_RETURN_BOOL(false);
	fmgr_info(find_function("dblink_get_connections", 0, TEXTARRAYOID, false), &connections);
	InitFunctionCallInfoData(*call, &connections, 0, InvalidOid, NULL, NULL);
	names = FunctionCallInvoke(call);
	if (!call->isnull)
	{
		ArrayIterator each = array_create_iterator(DatumGetArrayTypeP(names), 0, NULL);
		Datum		name;
		bool		isnull;

		while (!open && array_iterate(each, &name, &isnull))
			open = !isnull && DatumGetBool(DirectFunctionCall2Coll(texteq, C_COLLATION_OID, name,
																   PG_GETARG_DATUM(0)));
	}
	PG_RETURN_BOOL(open);
}

/*
 * Waits until a connection is not busy any more; false if it still is at that time.
 * Pauses grow up to that many seconds, or to a millisecond.  If "longest" is 0, they
 * stay short for a while.
 */
static bool
wait_for(Datum conn, double longest, TimestampTz until)
{
	FmgrInfo	is_busy;
	TimestampTz hasty = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), HASTE_MS);
	double		pause = SHORTEST_PAUSE;
	MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "iblt wait",
												  ALLOCSET_SMALL_SIZES);
	bool		busy;

	fmgr_info(find_function("dblink_is_busy", 1, INT4OID, false), &is_busy);
	for (;;)
	{
		MemoryContext old = MemoryContextSwitchTo(scratch);
		TimestampTz now;

		busy = DatumGetInt32(FunctionCall1Coll(&is_busy, InvalidOid, conn)) != 0;
		MemoryContextSwitchTo(old);
		MemoryContextReset(scratch);
		now = GetCurrentTimestamp();
		if (!busy || now > until)
			break;
		/* a cancel ends a pause at once, or after less than a millisecond */
		if (pause < LONG_PAUSE)
			pg_usleep((long) (pause * 1e6));
		else
			DirectFunctionCall1(pg_sleep, Float8GetDatum(pause));
		CHECK_FOR_INTERRUPTS();
		if (longest > 0 || now > hasty)
			pause = fmin(pause * 1.2, fmax(longest, LONG_PAUSE));
	}
	MemoryContextDelete(scratch);
	return !busy;
}

PG_FUNCTION_INFO_V1(iblt_peer_wait);

/* iblt_peer_wait(conn, longest, until) -> boolean: see wait_for() */
Datum
iblt_peer_wait(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(wait_for(PG_GETARG_DATUM(0), PG_GETARG_FLOAT8(1), PG_GETARG_TIMESTAMPTZ(2)));
}

/* The value of the next result over a connection, which is one column of type text. */
static Datum
take(FmgrInfo *get_result, Datum conn, bool *isnull)
{
	LOCAL_FCINFO(call, 1);
	ReturnSetInfo result = {.type = T_ReturnSetInfo,.allowedModes = SFRM_Materialize};
	TupleTableSlot *slot;
	Datum		value = (Datum) 0;

	result.econtext = CreateStandaloneExprContext();
	result.expectedDesc = CreateTemplateTupleDesc(1);
	TupleDescInitEntry(result.expectedDesc, 1, "value", TEXTOID, -1, 0);
	InitFunctionCallInfoData(*call, get_result, 1, InvalidOid, NULL, (Node *) &result);
	call->args[0].value = conn;
	call->args[0].isnull = false;
	FunctionCallInvoke(call);
	*isnull = true;
	if (result.setResult != NULL && result.setDesc != NULL)
	{
		if (result.setDesc->natts != 1 || TupleDescAttr(result.setDesc, 0)->atttypid != TEXTOID)
			ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
							errmsg("result is not a column of type text")));
		slot = MakeSingleTupleTableSlot(result.setDesc, &TTSOpsMinimalTuple);
		if (tuplestore_gettupleslot(result.setResult, true, false, slot))
			value = slot_getattr(slot, 1, isnull);
		if (!*isnull)
			value = datumCopy(value, false, -1);
		ExecDropSingleTupleTableSlot(slot);
	}
	if (result.setResult != NULL)
		tuplestore_end(result.setResult);
	FreeExprContext(result.econtext, true);
	return value;
}

/*
 * Takes n results over a connection, and waits after each.  Returns the value of the
 * last one, which is null if it has no row.
 */
static Datum
take_results(Datum conn, double longest, int n, bool *isnull)
{
	MemoryContext result = CurrentMemoryContext;
	MemoryContext round = AllocSetContextCreate(result, "iblt result", ALLOCSET_SMALL_SIZES);
	FmgrInfo	get_result;
	Datum		value = (Datum) 0;

	*isnull = true;
	fmgr_info(find_function("dblink_get_result", 1, RECORDOID, true), &get_result);
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(round);
		MemoryContextSwitchTo(round);
		value = take(&get_result, conn, isnull);
		wait_for(conn, longest, DT_NOEND);
	}
	MemoryContextSwitchTo(result);
	if (!*isnull)
		value = datumCopy(value, false, -1);
	MemoryContextDelete(round);
	return value;
}

PG_FUNCTION_INFO_V1(iblt_peer_take);

/*
 * iblt_peer_take(conn, longest, number) -> text: see take_results().  A connection gives
 * results without end, empty ones once it is idle.
 */
Datum
iblt_peer_take(PG_FUNCTION_ARGS)
{
	return take_results(PG_GETARG_DATUM(0), PG_GETARG_FLOAT8(1), PG_GETARG_INT32(2),
						&fcinfo->isnull);
}

PG_FUNCTION_INFO_V1(iblt_peer_answer);

/*
 * iblt_peer_answer(conn, longest, before) -> text: the value behind so many
 * results, which is counted as a message, and the connection is free
 */
Datum
iblt_peer_answer(PG_FUNCTION_ARGS)
{
	int			before = PG_GETARG_INT32(2);
	Datum		value;
	bool		isnull;

	if (before < 0 || before == PG_INT32_MAX)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("a number of results must be between 0 and %d", PG_INT32_MAX - 1)));
	value = take_results(PG_GETARG_DATUM(0), PG_GETARG_FLOAT8(1), before + 1, &fcinfo->isnull);
	count_message(0, fcinfo->isnull ? 0 : VARSIZE_ANY_EXHDR(DatumGetPointer(value)));
	/* the connection is free once an empty result has been fetched */
	(void) take_results(PG_GETARG_DATUM(0), PG_GETARG_FLOAT8(1), 1, &isnull);
	return value;
}
