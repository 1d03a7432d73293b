/*
 * kbf_trial.h
 *		Key-value Bloom filters of random pairs, and look-ups that are counted.
 *
 * A pair's value follows from its key and a word, so that no list of pairs is
 * needed.
 */
#ifndef IBLT_KBF_TRIAL_H
#define IBLT_KBF_TRIAL_H

#include "../../src/core/kbf_cell.h"
#include "../../src/core/kbf_size.h"
#include "sim.h"

/* Keys first, first + 1, ... with values that follow from the key and a salt. */
typedef struct KbfPairs
{
	uint64_t first;
	uint64_t salt;
	unsigned values;
	unsigned alike; /* percent of the keys that have the value 1 */
} KbfPairs;

/* What look-ups said of keys that are there, and of others. */
typedef struct KbfCounts
{
	uint64_t present;
	uint64_t unknown;
	uint64_t wrong; /* another value, absent, or a contradiction */
	uint64_t absent;
	uint64_t positive;
	uint64_t absent_unknown;
} KbfCounts;

static inline KbfPairs
kbf_pairs(unsigned values, unsigned alike)
{
	KbfPairs pairs = { tap_random(), tap_random(), values, alike };

	return pairs;
}

static inline unsigned
kbf_value(const KbfPairs *pairs, uint64_t i)
{
	uint64_t hash = XXH3_64bits_withSeed(&i, sizeof i, pairs->salt);

	if (pairs->alike > 0 && hash % 100 < pairs->alike)
		return 1;
	return 1 + iblt_scale((uint32_t) (hash >> 32), pairs->values);
}

static inline IbltKbfParams
kbf_params(unsigned values, int degree, int superposed, int hashes, uint32_t cells)
{
	IbltKbfParams params = {.values = values, .degree = degree, .superposed = superposed,
		.hashes = hashes, .subtable_cells = cells, .key = {.kind = IBLT_KEY_INTEGER},
		.seed = tap_random()};

	return params;
}

static inline unsigned
kbf_cell_bits(const IbltKbfParams *params)
{
	return (unsigned) (IBLT_KBF_COUNTER_BITS + params->degree * params->superposed);
}

/* An empty filter. */
static inline IbltKbf *
kbf_take(const IbltKbfParams *params)
{
	IbltKbf *kbf = take_zeros(sizeof *kbf);

	if (iblt_core_kbf_check_params(params) != IBLT_OK)
		tap_bail("a filter with impossible parameters");
	iblt_core_kbf_init(kbf, params, take_zeros(iblt_core_kbf_size(params)));
	return kbf;
}

/* Inserts the keys from..to - 1 of the pairs. */
static inline void
kbf_fill(IbltKbf *kbf, const KbfPairs *pairs, uint64_t from, uint64_t to)
{
	static uint64_t codes[1 << IBLT_GF_MAX_DEGREE];
	static int degree;
	static int terms;

	if (degree != kbf->params.degree || terms != kbf->params.superposed)
		iblt_core_kbf_codes(&kbf->params, codes);
	degree = kbf->params.degree;
	terms = kbf->params.superposed;
	for (uint64_t i = from; i < to; i++)
	{
		uint8_t key[8];

		iblt_store64(key, pairs->first + i);
		iblt_core_kbf_insert_with(kbf, codes, key, sizeof key, kbf_value(pairs, i));
	}
}

static inline IbltPresence
kbf_get(const IbltKbf *kbf, const KbfPairs *pairs, uint64_t i, unsigned *value)
{
	uint8_t key[8];

	iblt_store64(key, pairs->first + i);
	return iblt_core_kbf_get(kbf, key, sizeof key, value);
}

/* Looks up the keys from..to - 1, which must be there. */
static inline void
kbf_count_present(const IbltKbf *kbf, const KbfPairs *pairs, uint64_t from, uint64_t to,
				  KbfCounts *counts)
{
	for (uint64_t i = from; i < to; i++)
	{
		unsigned value = 0;
		IbltPresence answer = kbf_get(kbf, pairs, i, &value);

		counts->unknown += answer == IBLT_UNKNOWN;
		counts->wrong += answer != IBLT_UNKNOWN &&
			(answer != IBLT_PRESENT || value != kbf_value(pairs, i));
	}
	counts->present += to - from;
}

/* The same for keys that must not be there. */
static inline void
kbf_count_absent(const IbltKbf *kbf, const KbfPairs *pairs, uint64_t from, uint64_t to,
				 KbfCounts *counts)
{
	for (uint64_t i = from; i < to; i++)
	{
		unsigned value = 0;
		IbltPresence answer = kbf_get(kbf, pairs, i, &value);

		counts->positive += answer == IBLT_PRESENT;
		counts->absent_unknown += answer == IBLT_UNKNOWN;
	}
	counts->absent += to - from;
}

/* One filter of this many random pairs; looks up all or none, and this many others. */
static inline void
kbf_trial(IbltKbfParams params, uint64_t keys, unsigned alike, bool look,
		  uint64_t absent, KbfCounts *counts)
{
	KbfPairs pairs = kbf_pairs(params.values, alike);
	size_t taken = tap_taken;
	IbltKbf *kbf;

	params.seed = tap_random();
	kbf = kbf_take(&params);
	kbf_fill(kbf, &pairs, 0, keys);
	if (look)
		kbf_count_present(kbf, &pairs, 0, keys, counts);
	kbf_count_absent(kbf, &pairs, keys, keys + absent, counts);
	forget(taken);
}

static inline double
kbf_share(uint64_t part, uint64_t all)
{
	return all == 0 ? 0 : (double) part / (double) all;
}

/*
 * The bound on a Poisson mean of which `seen` were seen, by the score interval
 * of z standard errors.  A negative z bounds it from below.
 */
static inline double
kbf_poisson_bound(double seen, double z)
{
	return seen + z * z / 2 + z * sqrt(seen + z * z / 4);
}

#endif /* IBLT_KBF_TRIAL_H */
