/*
 * estimate.h
 *		How many keys differ, from a sketch that is too small to decode.
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
#ifndef IBLT_CORE_ESTIMATE_H
#define IBLT_CORE_ESTIMATE_H

#include "sketch.h"

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
