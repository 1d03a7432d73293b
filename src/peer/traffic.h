/*-------------------------------------------------------------------------
 *
 * traffic.h
 *	  The counters of what goes to a peer and comes from it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_COMPARE_TRAFFIC_H
#define IBLT_COMPARE_TRAFFIC_H

#include "postgres.h"

/* Counts a message with so many bytes sent, or received. */
extern void iblt_traffic_message(int64 sent, int64 received);

#endif							/* IBLT_COMPARE_TRAFFIC_H */
