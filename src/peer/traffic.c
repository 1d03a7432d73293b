/*-------------------------------------------------------------------------
 *
 * traffic.c
 *	  What this session has sent to a peer and received from it since the
 *	  counters were last taken.
 *
 * A driver takes the counters when it begins, and again when it ends.  They
 * are not part of a transaction, because a rollback does not undo traffic.
 *
 *-------------------------------------------------------------------------
 */
#include "sketch/iblt.h"

#include "peer/traffic.h"

/* Messages, bytes sent, bytes received, and bytes of sketches among these. */
#define COUNTERS 4

static int64 counters[COUNTERS];

void
iblt_traffic_message(int64 sent, int64 received)
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
