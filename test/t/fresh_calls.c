/*
 * fresh_calls.c
 *	  Aggregates that call another aggregate's functions as Citus does: looked
 *	  up for each row, for an aggregate of another name, and with the states of
 *	  workers as text.  test/t/097_distributed.pl compiles this.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/expandeddatum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(fresh_trans);
PG_FUNCTION_INFO_V1(fresh_text);
PG_FUNCTION_INFO_V1(fresh_combine);
PG_FUNCTION_INFO_V1(fresh_final);

typedef struct Box
{
	FormData_pg_aggregate agg;
	Datum		value;
	bool		isnull;
} Box;

static MemoryContext
group_context(FunctionCallInfo fcinfo)
{
	MemoryContext context;

	if (!AggCheckCallContext(fcinfo, &context))
		elog(ERROR, "not in an aggregate");
	return context;
}

/* The box of a group.  Argument 1 is the aggregate. */
static Box *
box_arg(FunctionCallInfo fcinfo)
{
	HeapTuple	tuple;
	Box		   *box;

	if (!PG_ARGISNULL(0))
		return (Box *) PG_GETARG_POINTER(0);
	box = MemoryContextAllocZero(group_context(fcinfo), sizeof *box);
	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(PG_GETARG_OID(1)));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "no such aggregate");
	memcpy(&box->agg, GETSTRUCT(tuple), sizeof box->agg);
	ReleaseSysCache(tuple);
	box->isnull = true;
	return box;
}

/* The call, and what nodeAgg.c does with the new state. */
static void
advance(FunctionCallInfo outer, Box *box, Oid function, int nargs, NullableDatum *args)
{
	LOCAL_FCINFO(fcinfo, FUNC_MAX_ARGS);
	MemoryContext group = group_context(outer);
	MemoryContext old;
	FmgrInfo	info;
	Datum		value;

	fmgr_info(function, &info);
	InitFunctionCallInfoData(*fcinfo, &info, nargs + 1, InvalidOid, outer->context, NULL);
	fcinfo->args[0].value = box->value;
	fcinfo->args[0].isnull = box->isnull;
	memcpy(&fcinfo->args[1], args, nargs * sizeof *args);
	value = FunctionCallInvoke(fcinfo);
	old = MemoryContextSwitchTo(group);
	if (value != box->value && !fcinfo->isnull &&
		!(DatumIsReadWriteExpandedObject(value, false, -1) &&
		  MemoryContextGetParent(DatumGetEOHP(value)->eoh_context) == group))
		elog(ERROR, "the state would be copied for each row");
	MemoryContextSwitchTo(old);
	box->value = value;
	box->isnull = fcinfo->isnull;
}

/* fresh_trans(internal, aggregate, bigint, bigint, ...) -> internal */
Datum
fresh_trans(PG_FUNCTION_ARGS)
{
	Box		   *box = box_arg(fcinfo);

	advance(fcinfo, box, box->agg.aggtransfn, PG_NARGS() - 2, &fcinfo->args[2]);
	PG_RETURN_POINTER(box);
}

/* fresh_text(internal) -> text: the state, as a worker sends it */
Datum
fresh_text(PG_FUNCTION_ARGS)
{
	Box		   *box = PG_ARGISNULL(0) ? NULL : (Box *) PG_GETARG_POINTER(0);
	Oid			output;
	bool		varlena;

	if (box == NULL || box->isnull)
		PG_RETURN_NULL();
	getTypeOutputInfo(box->agg.aggtranstype, &output, &varlena);
	PG_RETURN_TEXT_P(cstring_to_text(OidOutputFunctionCall(output, box->value)));
}

/* fresh_combine(internal, aggregate, text) -> internal */
Datum
fresh_combine(PG_FUNCTION_ARGS)
{
	Box		   *box = box_arg(fcinfo);
	NullableDatum state = {0, PG_ARGISNULL(2)};
	Oid			input;
	Oid			param;

	getTypeInputInfo(box->agg.aggtranstype, &input, &param);
	if (!state.isnull)
		state.value = OidInputFunctionCall(input, text_to_cstring(PG_GETARG_TEXT_PP(2)), param, -1);
	advance(fcinfo, box, box->agg.aggcombinefn, 1, &state);
	PG_RETURN_POINTER(box);
}

/* fresh_final(internal) -> text: the result in text form */
Datum
fresh_final(PG_FUNCTION_ARGS)
{
	Box		   *box = PG_ARGISNULL(0) ? NULL : (Box *) PG_GETARG_POINTER(0);
	Oid			output;
	bool		varlena;

	if (box == NULL || box->isnull)
		PG_RETURN_NULL();
	getTypeOutputInfo(box->agg.aggtranstype, &output, &varlena);
	PG_RETURN_TEXT_P(cstring_to_text(OidOutputFunctionCall(output,
														   OidFunctionCall1(box->agg.aggfinalfn, box->value))));
}
