/*-------------------------------------------------------------------------
 *
 * wait.c
 *	  Asks a peer, waits for its answer, and takes it.
 *
 * The socket is dblink's own, and dblink_get_result cannot be interrupted in
 * all releases.  So this asks dblink_is_busy again and again, which takes in
 * what has arrived, with pauses.  In PL/pgSQL each look would be parsed and
 * planned, and pg_sleep does not pause for less than a millisecond.  A message
 * has several results, and each would be a query that is parsed and planned, too.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "parser/parse_func.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
#include "utils/varlena.h"

/* In seconds.  Pauses grow from the shortest on by a fifth each. */
#define SHORTEST_PAUSE	0.00005
#define LONG_PAUSE		0.001

/* An answer that is so large that it is read in parts has short pauses so long. */
#define HASTE_MS		20

/* The function of this name that makes a value, or a set, of texts, for the caller. */
static Oid
find_function(text *name, int texts, Oid rettype, bool retset)
{
	Oid			argtypes[] = {TEXTOID, TEXTOID};
	Oid			found = LookupFuncName(textToQualifiedNameList(name), texts, argtypes, false);
	AclResult	result;

#if PG_VERSION_NUM >= 160000
	result = object_aclcheck(ProcedureRelationId, found, GetUserId(), ACL_EXECUTE);
#else
	result = pg_proc_aclcheck(found, GetUserId(), ACL_EXECUTE);
#endif
	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_FUNCTION, get_func_name(found));
	if (get_func_rettype(found) != rettype || get_func_retset(found) != retset ||
		get_func_prokind(found) != PROKIND_FUNCTION)
		ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
						errmsg("function %s does not return %s%s", text_to_cstring(name),
							   retset ? "a set of " : "", format_type_be(rettype))));
	return found;
}

/* A cancel ends a pause at once, or after less than a millisecond. */
static void
nap(double seconds)
{
	if (seconds < LONG_PAUSE)
		pg_usleep((long) (seconds * 1e6));
	else
		DirectFunctionCall1(pg_sleep, Float8GetDatum(seconds));
	CHECK_FOR_INTERRUPTS();
}

/* Does the function say that the connection is busy?  Keeps no memory. */
static bool
ask(FmgrInfo *is_busy, Datum conn, MemoryContext scratch)
{
	MemoryContext old = MemoryContextSwitchTo(scratch);
	int32		busy = DatumGetInt32(FunctionCall1Coll(is_busy, InvalidOid, conn));

	MemoryContextSwitchTo(old);
	MemoryContextReset(scratch);
	return busy != 0;
}

PG_FUNCTION_INFO_V1(iblt_peer_send);

/* iblt_peer_send(send_query, conn, query) -> integer: what the function answers */
Datum
iblt_peer_send(PG_FUNCTION_ARGS)
{
	return OidFunctionCall2(find_function(PG_GETARG_TEXT_PP(0), 2, INT4OID, false),
							PG_GETARG_DATUM(1), PG_GETARG_DATUM(2));
}

PG_FUNCTION_INFO_V1(iblt_peer_wait);

/*
 * iblt_peer_wait(is_busy, conn, longest, until) -> boolean: is the connection
 * not busy any more?  Pauses grow up to that many seconds, or to a millisecond.
 * If "longest" is 0, they stay short for a while.
 */
Datum
iblt_peer_wait(PG_FUNCTION_ARGS)
{
	FmgrInfo	is_busy;
	double		longest = PG_GETARG_FLOAT8(2);
	TimestampTz until = PG_GETARG_TIMESTAMPTZ(3);
	TimestampTz hasty = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), HASTE_MS);
	double		pause = SHORTEST_PAUSE;
	MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "iblt wait",
												  ALLOCSET_SMALL_SIZES);

	fmgr_info(find_function(PG_GETARG_TEXT_PP(0), 1, INT4OID, false), &is_busy);
	while (ask(&is_busy, PG_GETARG_DATUM(1), scratch))
	{
		TimestampTz now = GetCurrentTimestamp();

		if (now > until)
			PG_RETURN_BOOL(false);
		nap(pause);
		if (longest > 0 || now > hasty)
			pause = fmin(pause * 1.2, fmax(longest, LONG_PAUSE));
	}
	PG_RETURN_BOOL(true);
}

/* The text in the first row of a result of one column; NULL without a row. */
static Datum
first_value(ReturnSetInfo *result, bool *isnull)
{
	TupleDesc	desc = result->setDesc;
	TupleTableSlot *slot;
	Datum		value = (Datum) 0;

	*isnull = true;
	if (result->setResult == NULL || desc == NULL)
		return value;
	if (desc->natts != 1 || TupleDescAttr(desc, 0)->atttypid != TEXTOID)
		ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
						errmsg("result is not a column of type text")));
	slot = MakeSingleTupleTableSlot(desc, &TTSOpsMinimalTuple);
	if (tuplestore_gettupleslot(result->setResult, true, false, slot))
		value = slot_getattr(slot, 1, isnull);
	if (!*isnull)
		value = datumCopy(value, false, -1);
	ExecDropSingleTupleTableSlot(slot);
	return value;
}

PG_FUNCTION_INFO_V1(iblt_peer_take);

/*
 * iblt_peer_take(get_result, conn) -> text: the value of the next result over a
 * connection, NULL if it has no row.
 */
Datum
iblt_peer_take(PG_FUNCTION_ARGS)
{
	LOCAL_FCINFO(call, 1);
	FmgrInfo	get_result;
	ReturnSetInfo result = {.type = T_ReturnSetInfo,.allowedModes = SFRM_Materialize};
	Datum		value;
	bool		isnull;

	fmgr_info(find_function(PG_GETARG_TEXT_PP(0), 1, RECORDOID, true), &get_result);
	result.econtext = CreateStandaloneExprContext();
	result.expectedDesc = CreateTemplateTupleDesc(1);
	TupleDescInitEntry(result.expectedDesc, 1, "value", TEXTOID, -1, 0);
	InitFunctionCallInfoData(*call, &get_result, 1, InvalidOid, NULL, (Node *) &result);
	call->args[0].value = PG_GETARG_DATUM(1);
	call->args[0].isnull = false;
	FunctionCallInvoke(call);
	value = first_value(&result, &isnull);
	if (result.setResult != NULL)
		tuplestore_end(result.setResult);
	FreeExprContext(result.econtext, true);
	if (isnull)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(value);
}
