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
 * A stratum is a sketch of one-limb keys whose cells, adding and peeling are
 * those of cell.h and peel.h.  The limb is the hash that chose the stratum,
 * because the estimator does not return keys.  A changed row has one key, so
 * it is in one stratum and is one difference.  doc/internals/format.md has the bytes.
 */
#ifndef IBLT_CORE_STRATA_H
#define IBLT_CORE_STRATA_H

#include "peel.h"

#define IBLT_STRATA_MAGIC		"IBLS"
#define IBLT_STRATA_VERSION		1
#define IBLT_MAX_STRATA			64		/* bits of the hash */

/* What is fixed when an estimator is created. */
typedef struct IbltStrataParams
{
	/*
	 * The table of each stratum.  Kind and description are those of the keys
	 * before they were hashed.  limbs only agrees with the kind (2 for uuids,
	 * otherwise 1).  All subtables are kept and there are no values.
	 */
	IbltParams	table;
	int			strata;			/* 1 to IBLT_MAX_STRATA */
} IbltStrataParams;

/*
 * A view of the bytes of one estimator.  It points into itself, so it must not
 * be copied by assignment.
 */
typedef struct IbltStrata
{
	IbltStrataParams params;
	uint8_t		secret[IBLT_SECRET_SIZE];	/* of the hash of keys */
	IbltSketch	all;			/* the cells of all strata, lowest first, and
								 * the row count */
	size_t		stratum_size;	/* bytes of one stratum's cells */
	uint8_t		meter[2 * IBLT_METER_BUCKETS];	/* without meaning: a sketch
												 * has a meter, an estimator
												 * does not */
} IbltStrata;

/* The hash that chooses the stratum of a key, and stands for the key there. */
static inline uint64_t
iblt_strata_hash(const IbltStrata *strata, const uint8_t *key, size_t size)
{
	return XXH3_64bits_withSecret(key, size, strata->secret, IBLT_SECRET_SIZE);
}

/*
 * The hash as a limb.  If the mask would make it one of the 59 words that no
 * field element stands for, which all have the top bit set, that bit is
 * flipped.
 */
static inline uint64_t
iblt_strata_limb(const IbltStrata *strata, uint64_t hash)
{
	uint64_t	mask = iblt_limb_mask(&strata->all.hasher, 0);

	return (hash ^ mask) >= IBLT_FP_P ? hash ^ UINT64_C(1) << 63 : hash;
}

/* Trailing zeros, at most strata - 1.  Hash and limb have the same. */
static inline int
iblt_strata_stratum(uint64_t hash, int strata)
{
	int			zeros = 0;

	hash |= UINT64_C(1) << (strata - 1);
#if defined(__GNUC__)
	zeros = __builtin_ctzll(hash);
#else
	while ((hash >> zeros & 1) == 0)
		zeros++;
#endif
	return zeros;
}

/*
 * Bytes of an estimator, or 0 if more than IBLT_MAX_BYTES.  One without a type
 * of key is an empty template, which has no cells.
 */
extern size_t iblt_core_strata_size(const IbltStrataParams *params);

/*
 * Are these parameters possible?  The first that is not, or IBLT_OK.  In this
 * file the statuses about subtables are about strata.
 */
extern IbltStatus iblt_core_strata_check_params(const IbltStrataParams *params);

/*
 * Creates an empty estimator in bytes, which has iblt_core_strata_size(params)
 * of them.  params must have passed iblt_core_strata_check_params.
 */
extern void iblt_core_strata_init(IbltStrata *strata,
								  const IbltStrataParams *params,
								  uint8_t *bytes);

/*
 * The one validator.  Opens a view of bytes from anywhere, or says what is
 * wrong with them, and then the view must not be used.  Only reads the bytes.
 */
extern IbltStatus iblt_core_strata_open(IbltStrata *strata, uint8_t *bytes,
										size_t size);

/* Sets a view of a byte-for-byte copy of an open estimator. */
extern void iblt_core_strata_view_copy(IbltStrata *copy,
									   const IbltStrata *strata,
									   uint8_t *bytes);

/* Makes the bytes canonical again, as iblt_core_seal does. */
extern void iblt_core_strata_seal(IbltStrata *strata);

/*
 * The first parameter that prevents adding the two, or IBLT_OK.  One without a
 * type of key goes with any.
 */
extern IbltStatus iblt_core_strata_compatible(const IbltStrataParams *a,
											  const IbltStrataParams *b);

/* iblt_core_status_text in the words of an estimator. */
extern const char *iblt_core_strata_status_text(IbltStatus status);

/*
 * Inserts (sign +1) or deletes (sign -1) a row whose key has size bytes.  The
 * estimator must have a type of key.  It is not sealed afterwards.
 */
extern void iblt_core_strata_add_row(IbltStrata *strata, const uint8_t *key,
									 size_t size, uint64_t y, int sign);

/* The same with counts checked, as in iblt_core_add_row_checked. */
extern IbltStatus iblt_core_strata_add_row_checked(IbltStrata *strata,
												   const uint8_t *key,
												   size_t size, uint64_t y,
												   int sign);

/*
 * strata += sign * other, of compatible parameters.  strata is left unsealed.
 * It must have a type of key if the other has one.  Fails as
 * iblt_core_add_sketch does.
 */
extern IbltStatus iblt_core_strata_add(IbltStrata *strata,
									   const IbltStrata *other, int sign);

/*
 * strata = -strata.  It must be sealed, and is left unsealed.  Fails as
 * iblt_core_strata_add does.
 */
extern IbltStatus iblt_core_strata_negate(IbltStrata *strata);

extern bool iblt_core_strata_is_empty(const IbltStrata *strata);

/* An estimate in progress. */
typedef struct IbltStrataDecoder
{
	const IbltStrata *difference;
	IbltSketch	stratum;		/* the one that is being peeled */
	int			number;			/* of it */
	IbltPeeler	peeler;
	void	   *scratch;
	uint64_t	keys;			/* in the strata decoded so far */
	uint64_t	rows;			/* sum of their counts, modulo 2^64 */
	bool		incomplete;		/* this stratum did not decode */
	bool		contradiction;
} IbltStrataDecoder;

/* Bytes of scratch memory that this takes, 4-byte aligned. */
extern size_t iblt_core_strata_scratch_size(const IbltStrata *difference);

/* Begins.  The difference is a copy that may be destroyed. */
extern void iblt_core_strata_decode_start(IbltStrataDecoder *decoder,
										  IbltStrata *difference,
										  void *scratch);

/*
 * Decodes one more key, or goes on to the next stratum.  Returns false at the
 * end, which comes after at most as many calls as there are cells and strata.
 */
extern bool iblt_core_strata_decode_step(IbltStrataDecoder *decoder);

/*
 * The result, after iblt_core_strata_decode_step has returned false.  COMPLETE
 * if keys is exact.  INCOMPLETE if keys is the paper's estimate.  It is 0 then
 * only if not even the highest stratum decoded, and nothing is known.
 * INCONSISTENT if cells and header contradict each other.
 */
extern IbltPeelResult iblt_core_strata_result(const IbltStrataDecoder *decoder,
											  uint64_t *keys);

#endif
