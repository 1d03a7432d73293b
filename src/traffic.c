/*-------------------------------------------------------------------------
 *
 * traffic.c
 *	  What this session has sent to a peer and received from it since the
 *	  counters were last taken.
 *
 * A driver takes the counters when it begins, and again when it ends.  They
 * are not part of a transaction: what was sent was sent.
 *
 *-------------------------------------------------------------------------
 */
#include "iblt.h"

#include "funcapi.h"
#include "access/htup_details.h"

/* Messages, bytes sent, bytes received, and bytes of sketches among these. */
#define COUNTERS 4

static int64 counters[COUNTERS];

PG_FUNCTION_INFO_V1(iblt_traffic_add);
PG_FUNCTION_INFO_V1(iblt_traffic_take);

/* iblt_traffic_add(messages, sent, received, sketches) -> void; NULL counts 0 */
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

/* iblt_traffic_take() -> (messages, sent, received, sketches); they are 0 then */
Datum
iblt_traffic_take(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	Datum		values[COUNTERS];
	bool		nulls[COUNTERS] = {false};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "iblt_traffic_take must return a row");
	for (int i = 0; i < COUNTERS; i++)
	{
		values[i] = Int64GetDatum(counters[i]);
		counters[i] = 0;
	}
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}
