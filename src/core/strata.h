/*
 * strata.h
 *		The strata estimator: how many keys differ, exactly while they are few.
 *
 * Eppstein, Goodrich, Uyeda & Varghese 2011, "What's the Difference? Efficient
 * Set Reconciliation without Prior Context".  Keys are spread over strata by
 * the trailing zeros of a hash, so that stratum i has a 2^-(i+1) part of them,
 * and each stratum is a small table.  In a difference the sparse strata
 * decode.  The first one that does not, from the highest down, gives the
 * scale.
 *
 * An estimator is a sketch whose cells are those of all strata, the lowest
 * first, so what adds and compares sketches does the same to estimators.  The
 * key in a cell is the hash that chose the stratum, because the estimator does
 * not return keys.  A changed row has one key, so it is in one stratum and is
 * one difference.
 */
#ifndef IBLT_CORE_STRATA_H
#define IBLT_CORE_STRATA_H

#include "peel.h"

/* The hash that chooses the stratum of a key, and stands for the key there. */
static inline uint64_t
iblt_strata_hash(const IbltSketch *strata, const uint8_t *key, size_t size)
{
	return iblt_hash_value(&strata->hasher, key, size);
}

/*
 * The hash as a limb.  If the mask would make it one of the 59 words that no
 * field element stands for, which all have the top bit set, that bit is
 * flipped.
 */
static inline uint64_t
iblt_strata_limb(const IbltSketch *strata, uint64_t hash)
{
	uint64_t	mask = iblt_limb_mask(&strata->hasher, 0);

	return (hash ^ mask) >= IBLT_FP_P ? hash ^ UINT64_C(1) << 63 : hash;
}

/* Trailing zeros, at most strata - 1.  Hash and limb have the same. */
static inline int
iblt_strata_stratum(uint64_t hash, int strata)
{
	return __builtin_ctzll(hash | UINT64_C(1) << (strata - 1));
}

/*
 * Inserts (sign +1) or deletes (sign -1) a row whose key has size bytes.  The
 * estimator must have a type of key.  It is not sealed afterwards.
 */
extern void iblt_core_strata_add_row(IbltSketch *strata, const uint8_t *key,
									 size_t size, uint64_t y, int sign);

/* Bytes of scratch memory that this takes, 4-byte aligned. */
extern size_t iblt_core_strata_scratch_size(const IbltSketch *difference);

/*
 * Estimates the keys of a difference, a sealed copy that may be destroyed.
 * COMPLETE if keys is exact.  INCOMPLETE if keys is the paper's estimate.  It is
 * 0 then only if not even the highest stratum decoded, and nothing is known.
 * INCONSISTENT if cells and header contradict each other.
 */
extern IbltPeelResult iblt_core_strata_estimate(IbltSketch *difference,
												IbltPeeler *peeler,
												void *scratch, uint64_t *keys);

#endif
