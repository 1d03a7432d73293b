/*
 * sim_kbf_ours.c
 *		What our key-value Bloom filter promises, with the core itself: its size
 *		and rates, values that are alike, deletions, overload and growth.
 *
 * Rates are held against the limits that a size was chosen for, or against the
 * formulas of src/core/kbf_size.c.  What deletions and updates leave in each cell, after
 * an overload too, is for test/unit/test_kbf.c.
 */
#include "kbf_paper.h"
#include "kbf_trial.h"

#define KEYS 200000
#define Z_SURE 3.0903 /* 99.9 % */
#define FORMULA_OFF 0.25 /* how far the formulas may be off, with test_kbf_size.c */

static IbltKbfParams
chosen(unsigned values, int superposed, uint64_t capacity, double failure)
{
	IbltKbfParams params = kbf_params(values, 3, superposed, 3, 1);

	if (iblt_core_kbf_choose(&params, capacity, failure) != IBLT_OK)
		tap_bail("no size for %u values", values);
	return params;
}

static double
bits_for(const IbltKbfParams *params, double keys)
{
	return (double) params->hashes * params->subtable_cells * kbf_cell_bits(params) / keys;
}

/* Is a rate at most the limit, as far as the count shows? */
static bool
at_most(uint64_t seen, uint64_t lookups, double limit)
{
	return kbf_poisson_bound((double) seen, -Z_SURE) <= limit * (double) lookups;
}

/* Is a count what the formula says, give or take what that may be off? */
static bool
expected(uint64_t seen, uint64_t lookups, double rate)
{
	double mean = rate * (double) lookups;

	return fabs((double) seen - mean) <= SIM_SIGMAS * sqrt(mean) + FORMULA_OFF * mean + 1;
}

/* --- the formulas ----------------------------------------------------------- */

/* Filters of so many keys, and as many others, against the formulas. */
static void
rates_at(IbltKbfParams params, uint32_t keys, unsigned alike, uint32_t filters)
{
	double load = (double) keys / params.subtable_cells;
	IbltKbfRates rates;
	KbfCounts c = { 0 };

	iblt_core_kbf_rates(&params, load, &rates);
	rates.false_positive += iblt_core_kbf_shared(&params, keys, params.subtable_cells);
	for (uint32_t i = 0; i < filters; i++)
		kbf_trial(params, keys, alike, filters == 1, keys, &c);
	tap_ok(c.wrong == 0 && expected(c.unknown, c.present, rates.unknown) &&
			   expected(c.positive, c.absent, rates.false_positive) &&
			   expected(c.absent_unknown, c.absent, rates.absent_unknown),
		   "%u values, %u %% of them alike, t = %d, k = %d, load %.2f: unknown %.2e, formula %.2e; "
		   "others get a value %.2e, %.2e, or are unknown %.2e, %.2e", params.values, alike,
		   params.superposed, params.hashes, load, kbf_share(c.unknown, c.present), rates.unknown,
		   kbf_share(c.positive, c.absent), rates.false_positive,
		   kbf_share(c.absent_unknown, c.absent), rates.absent_unknown);
}

/* --- small filters --------------------------------------------------------- */

/* Small filters, where keys have several cells in common. */
static void
small(void)
{
	uint64_t absent = sim_trials(100000, 5000000);
	IbltKbfParams params = chosen(255, 3, 40, 1e-3);
	KbfCounts c = { 0 };

	rates_at(kbf_params(255, 8, 3, 5, IBLT_KBF_LEAST_CELLS), 40, 0, (uint32_t) (absent / 40));
	while (c.absent < absent)
		kbf_trial(params, 40, 0, true, 4000, &c);
	tap_ok(c.wrong == 0 && at_most(c.positive, c.absent, 1e-5) && at_most(c.unknown, c.present, 1e-3),
		   "40 keys in the %d times %u cells that are chosen: %.2e, at most 1e-5, %.1f bits a key",
		   params.hashes, params.subtable_cells, kbf_share(c.positive, c.absent),
		   bits_for(&params, 40));
}

/* --- sizes ----------------------------------------------------------------- */

/* Bits a key of other structures, with the same rate of false positives. */
static double
cuckoo_bits(double values, double p)
{
	/* fingerprint and value, in buckets of four that are 95 % full */
	return (ceil(log2(1 / p) + 3) + ceil(log2(values + 1))) / 0.95;
}

static double
ribbon_bits(double values, double p)
{
	return 1.05 * (ceil(log2(1 / p)) + ceil(log2(values + 1)));
}

static double
published_bits(double p)
{
	return PAPER_CELL_BITS * log(1 / p) / (LN2 * LN2);
}

static void
size_row(FILE *table, unsigned values, int t, double failure, uint32_t filters)
{
	uint64_t keys = sim_trials(20000, KEYS);
	IbltKbfParams params = chosen(values, t, keys, failure);
	double bits = bits_for(&params, (double) keys);
	KbfCounts c = { 0 };

	for (uint32_t i = 0; i < filters; i++)
		kbf_trial(params, keys, 0, true, keys, &c);
	if (filters > 0)
		tap_ok(c.wrong == 0 && at_most(c.unknown, c.present, failure) &&
				   at_most(c.positive, c.absent, failure / IBLT_KBF_FALSE_POSITIVE_SHARE),
			   "%u values, t = %d, failure %g: k = %d, q = %d, %.1f bits a key, unknown %.2e, false "
			   "positives %.1e, other keys unknown %.2e", values, t, failure, params.hashes,
			   params.degree, bits, kbf_share(c.unknown, c.present), kbf_share(c.positive, c.absent),
			   kbf_share(c.absent_unknown, c.absent));
	if (values == 255 && t == 3 && failure == 1e-3)
		tap_ok(bits <= 120, "the bar: 120 bits a key");
	sim_row(table, "%u\t%d\t%g\t%d\t%d\t%.2f\t%.2f\t%.2f\t%.2f", values, t, failure, params.hashes,
			params.degree, bits, cuckoo_bits(values, failure), ribbon_bits(values, failure),
			published_bits(failure));
}

/* Most filters for the size that has a bar. */
static void
sizes(void)
{
	static const unsigned values[] = { 3, 15, 255, 4095 };
	static const double failures[] = { 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6 };
	FILE *table = sim_table("kbf_sizes", "values\tt\tfailure\tk\tdegree\tbits\tcuckoo\tribbon\tpublished");

	for (int i = 0; i < 4 * 3 * 6; i++)
		size_row(table, values[i / 18], 1 + i / 6 % 3, failures[i % 6], i % 6 != 1 && i % 6 != 2 ? 0
				 : values[i / 18] == 255 && i / 6 % 3 == 2 && i % 6 == 2 ? sim_trials(1, 50) : 1);
}

static void
formulas(void)
{
	static const struct
	{
		unsigned values;
		int degree, superposed, hashes;
		double load;
	} cases[] = {
		{ 255, 8, 1, 4, 0.6 }, { 255, 8, 2, 4, 1.5 }, { 255, 8, 3, 4, 2.0 }, { 255, 8, 3, 3, 2.5 },
		{ 4095, 12, 3, 3, 2.0 }, { 63, 6, 3, 4, 1.8 }, { 15, 4, 2, 5, 1.4 }, { 3, 3, 2, 4, 1.0 }
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		rates_at(kbf_params(cases[i].values, cases[i].degree, cases[i].superposed, cases[i].hashes,
							(uint32_t) (20000 / cases[i].load)), 20000, i % 2 == 0 ? 0 : 90, 1);
}

/* Keys that share cells in small filters, beyond the formula for independent cells. */
static void
shared(void)
{
	for (int k = 3; k <= 5; k++)
		rates_at(kbf_params(255, 8, 3, k, 16), 24, 0, 2000u << 2 * (k - 3));
}

/* --- values that are alike --------------------------------------------------- */

static void
turn(void)
{
	static const unsigned alike[] = { 0, 50, 99 };
	uint32_t keys = sim_trials(20000, KEYS);

	for (int i = 0; i < 3; i++)
		rates_at(kbf_params(255, 8, 2, 6, keys), keys, alike[i], 1);
}

/* --- deletions --------------------------------------------------------------- */

static void
changes(void)
{
	uint64_t keys = sim_trials(20000, KEYS);
	IbltKbfParams params = chosen(255, 3, keys, 1e-3);
	KbfPairs pairs = kbf_pairs(255, 0);
	IbltKbf *kbf = kbf_take(&params);

	kbf_fill(kbf, &pairs, 0, keys);
	for (uint64_t step = 1; step <= 4; step++)
	{
		KbfCounts c = { 0 };
		IbltKbfRates rates;

		for (uint64_t i = keys * (step - 1) / 10; i < keys * step / 10; i++)
		{
			uint8_t key[8];

			iblt_store64(key, pairs.first + i);
			(void) iblt_core_kbf_delete(kbf, key, sizeof key, kbf_value(&pairs, i));
		}
		kbf_count_absent(kbf, &pairs, 0, keys * step / 10, &c);
		kbf_count_present(kbf, &pairs, keys * step / 10, keys, &c);
		iblt_core_kbf_rates(&params, (double) kbf->keys / params.subtable_cells, &rates);
		tap_ok(c.wrong == 0 && expected(c.unknown, c.present, rates.unknown) &&
				   at_most(c.positive, c.absent, 1e-5),
			   "%" PRIu64 " %% deleted: %.1e of those get a value, %.2e of the others are "
			   "unknown, formula %.2e", 10 * step, kbf_share(c.positive, c.absent),
			   kbf_share(c.unknown, c.present), rates.unknown);
	}
}

/* --- overload ------------------------------------------------------------------- */

/* The paper's rho = 4, and up to five times the load of our size. */
static void
overload(void)
{
	IbltKbfParams params = chosen(255, 3, sim_trials(20000, KEYS), 1e-3);

	rates_at(params, (uint32_t) (4 * LN2 * params.subtable_cells), 0, 1);
	for (int times = 1; times <= 5; times++)
		rates_at(params, (uint32_t) (1.5 * times * params.subtable_cells), 0, 1);
}

/* --- growth ------------------------------------------------------ */

/* A key is present if it is in one filter, and no other one has or may have it. */
static void
growth_at(uint32_t filters)
{
	uint64_t keys = sim_trials(5000, 25000);
	IbltKbfParams params = chosen(255, 3, keys, 1e-3);
	KbfPairs pairs = kbf_pairs(255, 0);
	IbltKbf *kbf[8];
	uint64_t unclear = 0, wrong = 0, positive = 0;
	uint64_t all = keys * filters;

	for (uint32_t f = 0; f < filters; f++)
	{
		kbf[f] = kbf_take(&params);
		kbf_fill(kbf[f], &pairs, f * keys, (f + 1) * keys);
	}
	for (uint64_t i = 0; i < 2 * all; i++)
	{
		unsigned value = 0;
		uint32_t present = 0, unknown = 0;

		for (uint32_t f = 0; f < filters; f++)
		{
			IbltPresence answer = kbf_get(kbf[f], &pairs, i, &value);

			present += answer == IBLT_PRESENT;
			unknown += answer == IBLT_UNKNOWN;
		}
		if (i < all)
			unclear += present != 1 || unknown > 0;
		else
			positive += present > 0;
		wrong += i < all && present == 0 && unknown == 0;
	}
	tap_ok(wrong == 0 && at_most(positive, all, 1e-5 * filters),
		   "%u filters: %.2e of the keys have no clear answer, %.1e of others get a value",
		   filters, kbf_share(unclear, all), kbf_share(positive, all));
}

static void
growth(void)
{
	uint32_t keys = sim_trials(20000, KEYS);

	TRIALS(i, 4)
		growth_at(1u << i);
	/* the sum of two full filters */
	rates_at(chosen(255, 3, keys, 1e-3), 2 * keys, 0, 1);
}

SIM_MAIN({ "small", small }, { "sizes", sizes }, { "formulas", formulas },
		 { "shared", shared }, { "turn", turn }, { "changes", changes }, { "overload", overload },
		 { "growth", growth })
