/*
 * meter.h
 *		How much differs, from a sketch that need not decode.
 *
 * The difference meter tells how many rows differ, from 512 bytes.  Each row
 * adds +1 or -1 to one of 256 counters.  Bucket and sign are hash bits of the
 * row.  After subtraction the counters' sum of squares estimates the number of
 * rows in the difference, with a standard deviation of sqrt(2/256) = 8.8 %
 * whatever their number.  A changed row counts two, and n
 * copies of a row count n^2.  This is the fast-AMS sketch of Thorup & Zhang
 * (2004, "Tabulation based 4-universal hashing with applications to second
 * moment estimation").  Counters wrap at 16 bits.  The estimate holds while
 * the difference of a counter fits in 16 bits, which is up to some 10^9 rows.
 *
 * The meter counts rows: a changed row, which is one key, counts two.  The
 * cells' counts tell how many keys are on one side only, since a changed row
 * leaves a count of 0.  Let D be the sum of the counts c_i of a subtable of s
 * cells.  Then the sum of (c_i - D/s)^2, times s/(s-1), is an unbiased estimate
 * of the sum over all keys of (net rows of the key)^2.  This is the second
 * moment estimate of Alon, Matias & Szegedy with buckets in place of signs
 * (Thorup & Zhang 2004).  The mean of both estimates counts each key once.
 * doc/internals/mathematics.md has the proof.
 */
#ifndef IBLT_CORE_METER_H
#define IBLT_CORE_METER_H

#include <stdbool.h>

#include "sketch.h"

/*
 * Adds a row, sign +1 or -1.  hash is w(y) * g(key), a uniform element for
 * each row that the cells need anyway.
 */
static inline void
iblt_meter_add(uint8_t *meter, uint64_t hash, int sign)
{
	uint8_t *counter = meter + 2 * (hash >> 56);
	unsigned step = (unsigned) ((hash >> 55) & 1 ? -sign : sign);

	iblt_store16(counter, (uint16_t) (iblt_load16(counter) + step));
}

/* meter += sign * other, counter by counter. */
extern void iblt_core_meter_add_all(uint8_t *meter, const uint8_t *other,
									int sign);

static inline bool
iblt_core_meter_is_zero(const uint8_t *meter)
{
	return iblt_all_zero(meter, 2 * IBLT_METER_BUCKETS);
}

/* Estimated number of rows in the difference. */
extern uint64_t iblt_core_meter_estimate(const uint8_t *meter);

/* A bound that the true number of rows passes in at most 1 % of cases. */
extern uint64_t iblt_core_meter_bound(const uint8_t *meter);

/*
 * The same two for a sketch, sealed or not.  A row that occurs 32,768 times or
 * more makes a counter wrap, and the meter may then say too little.  So the
 * result is at least the net number of rows, and 0 only for an empty sketch.
 */
extern uint64_t iblt_core_estimate(const IbltSketch *sketch, uint64_t *bound);

/*
 * The estimate of the sum of squared net rows, averaged over the subtables.
 * Its relative standard deviation is at most sqrt(2 / (m (s - 1))) for m
 * subtables.  INFINITY if a subtable has one cell, which says nothing.  0
 * without cells.
 */
extern double iblt_core_net_squares(const IbltSketch *sketch);

/*
 * Estimated number of keys in a difference.  The true number passes bound in
 * at most 1 % of cases.  If a key has several rows on one side, both are too
 * high, as the meter is.  At least 1 unless the sketch is empty.
 */
extern double iblt_core_estimate_keys(const IbltSketch *sketch, double *bound);

#endif
