/*
 * sim_kbf_ours.c
 *		What our key-value Bloom filter promises, with the core itself: its size
 *		and rates, values that are alike, deletions and updates, overload and growth.
 *
 * Rates are held against the limits that a size was chosen for, or against the
 * formulas of src/core/kbf_size.c.
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
	{
		printf("Bail out! no size for %u values\n", values);
		exit(1);
	}
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

/* --- small filters --------------------------------------------------------- */

/* Small filters, where keys have several cells in common. */
static void
small(void)
{
	uint64_t absent = sim_trials(100000, 5000000);
	IbltKbfParams least = kbf_params(255, 8, 3, 5, IBLT_KBF_LEAST_CELLS);
	IbltKbfParams params = chosen(255, 3, 40, 1e-3);
	IbltKbfRates rates;
	KbfCounts before = { 0 }, c = { 0 };

	while (c.absent < absent)
	{
		kbf_trial(least, 40, 0, true, 4000, &before);
		kbf_trial(params, 40, 0, true, 4000, &c);
	}
	iblt_core_kbf_rates(&least, 40.0 / least.subtable_cells, &rates);
	rates.false_positive += iblt_core_kbf_shared(&least, 40, least.subtable_cells);
	tap_ok(expected(before.positive, before.absent, rates.false_positive),
		   "40 keys in 5 times %u cells: %.2e of other keys get a value, formula %.2e",
		   least.subtable_cells, kbf_share(before.positive, before.absent), rates.false_positive);
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

/* --- the formulas ----------------------------------------------------------- */

/* Loads where there is something to count. */
static void
rates_at(IbltKbfParams params, uint32_t keys, unsigned alike)
{
	double load = (double) keys / params.subtable_cells;
	IbltKbfRates rates;
	KbfCounts c = { 0 };

	iblt_core_kbf_rates(&params, load, &rates);
	kbf_trial(params, keys, alike, true, keys, &c);
	tap_ok(c.wrong == 0 && expected(c.unknown, c.present, rates.unknown) &&
			   expected(c.positive, c.absent, rates.false_positive) &&
			   expected(c.absent_unknown, c.absent, rates.absent_unknown),
		   "%u values, %u %% of them alike, t = %d, k = %d, load %.1f: unknown %.2e, formula %.2e",
		   params.values, alike, params.superposed, params.hashes, load,
		   kbf_share(c.unknown, c.present), rates.unknown);
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
							(uint32_t) (20000 / cases[i].load)),
				 20000, i % 2 == 0 ? 0 : 90);
}

/* Keys that share cells in small filters, beyond the formula for independent cells. */
static void
shared(void)
{
	for (int k = 3; k <= 5; k++)
	{
		IbltKbfParams params = kbf_params(255, 8, 3, k, 16);
		IbltKbfRates rates;
		KbfCounts c = { 0 };

		for (long i = 0; i < 2000l << 2 * (k - 3); i++)
			kbf_trial(params, 24, 0, false, 24, &c);
		iblt_core_kbf_rates(&params, 24.0 / 16, &rates);
		tap_ok(expected(c.positive, c.absent,
						rates.false_positive + iblt_core_kbf_shared(&params, 24, 16)),
			   "24 keys in %d times 16 cells: %.2e of other keys get a value", k,
			   kbf_share(c.positive, c.absent));
	}
}

/* --- values that are alike --------------------------------------------------- */

static void
turn(void)
{
	static const unsigned alike[] = { 0, 50, 99 };
	uint32_t keys = sim_trials(20000, KEYS);

	for (int i = 0; i < 3; i++)
		rates_at(kbf_params(255, 8, 2, 6, keys), keys, alike[i]);
}

/* --- deletions and updates --------------------------------------------------- */

static void
delete_keys(IbltKbf *kbf, const KbfPairs *pairs, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++)
	{
		uint8_t key[8];

		iblt_store64(key, pairs->first + i);
		(void) iblt_core_kbf_delete(kbf, key, sizeof key, kbf_value(pairs, i));
	}
}

static void
changes(void)
{
	uint64_t keys = sim_trials(20000, KEYS);
	IbltKbfParams params = chosen(255, 3, keys, 1e-3);
	KbfPairs pairs = kbf_pairs(255, 0);
	KbfPairs newer = { pairs.first, tap_random(), 255, 0 };
	IbltKbf *kbf = kbf_take(&params);
	KbfCounts updated = { 0 };

	kbf_fill(kbf, &pairs, 0, keys);
	for (uint64_t i = 0; i < keys; i++)
	{
		uint8_t key[8];

		iblt_store64(key, pairs.first + i);
		(void) iblt_core_kbf_update(kbf, key, sizeof key, kbf_value(&pairs, i),
									kbf_value(&newer, i));
	}
	kbf_count_present(kbf, &newer, 0, keys, &updated);
	tap_ok(updated.wrong == 0 && at_most(updated.unknown, keys, 1e-3),
		   "after an update of all keys %.2e are unknown, none is wrong",
		   kbf_share(updated.unknown, keys));
	for (uint64_t step = 1; step <= 4; step++)
	{
		KbfCounts c = { 0 };
		IbltKbfRates rates;

		delete_keys(kbf, &newer, keys * (step - 1) / 10, keys * step / 10);
		kbf_count_absent(kbf, &newer, 0, keys * step / 10, &c);
		kbf_count_present(kbf, &newer, keys * step / 10, keys, &c);
		iblt_core_kbf_rates(&params, (double) kbf->keys / params.subtable_cells, &rates);
		tap_ok(c.wrong == 0 && expected(c.unknown, c.present, rates.unknown) &&
				   at_most(c.positive, c.absent, 1e-5),
			   "%" PRIu64 " %% deleted: %.1e of those get a value, %.2e of the others are "
			   "unknown, formula %.2e", 10 * step, kbf_share(c.positive, c.absent),
			   kbf_share(c.unknown, c.present), rates.unknown);
	}
}

/* --- overload and back --------------------------------------------------------- */

/* Are all cells equal, except those that are full in the second? */
static bool
same_but_full(const IbltKbf *a, const IbltKbf *b)
{
	for (uint32_t i = 0; i < a->ncells; i++)
		if (iblt_kbf_count(iblt_kbf_cell(b, i)) != IBLT_KBF_FULL &&
			iblt_kbf_cell(a, i) != iblt_kbf_cell(b, i))
			return false;
	return true;
}

/*
 * Is a number as the formula has it, within four standard errors and a tenth?
 * It takes no full cells into account.
 */
static bool
kbf_near(uint64_t seen, uint64_t of, double rate)
{
	return fabs((double) seen - (double) of * rate) <=
		0.1 * (double) of * rate + 4 * sqrt((double) of * rate) + 4;
}

static void
overload_at(double load, int times)
{
	uint64_t keys = sim_trials(20000, KEYS);
	IbltKbfParams params = chosen(255, 3, keys, 1e-3);
	KbfPairs pairs = kbf_pairs(255, 0);
	KbfCounts before = { 0 }, during = { 0 }, after = { 0 };
	IbltKbf *small = kbf_take(&params);
	IbltKbf *kbf = kbf_take(&params);
	IbltKbfRates rates;
	double lost;

	keys = (uint64_t) (load * params.subtable_cells);
	kbf_fill(small, &pairs, 0, keys);
	kbf_count_present(small, &pairs, 0, keys, &before);
	kbf_fill(kbf, &pairs, 0, (uint64_t) times * keys);
	kbf_count_present(kbf, &pairs, 0, keys, &during);
	kbf_count_absent(kbf, &pairs, (uint64_t) times * keys, (uint64_t) (times + 1) * keys,
					 &during);
	delete_keys(kbf, &pairs, keys, (uint64_t) times * keys);
	kbf_count_present(kbf, &pairs, 0, keys, &after);
	lost = kbf_share(iblt_core_kbf_full_cells(kbf), kbf->ncells);
	tap_ok(before.wrong + during.wrong + after.wrong == 0 && same_but_full(small, kbf) &&
			   kbf->keys == keys,
		   "load %.2f, %d times and back: unknown %.2e, %.2e, %.2e, and %.2e of the cells "
		   "stay full, all others are as before", load, times, kbf_share(before.unknown, keys),
		   kbf_share(during.unknown, keys), kbf_share(after.unknown, keys), lost);
	iblt_core_kbf_rates(&params, times * load, &rates);
	tap_ok(kbf_near(during.absent_unknown, keys, rates.absent_unknown) &&
			   kbf_near(during.positive, keys, rates.false_positive),
		   "meanwhile other keys are unknown: %.2e, %.2e by the formula, or get a value: %.2e, "
		   "%.2e by the formula", kbf_share(during.absent_unknown, keys),
		   rates.absent_unknown, kbf_share(during.positive, keys), rates.false_positive);
}

static void
overload(void)
{
	double ours = 1.5;

	overload_at(LN2, 4); /* the paper's rho = 4 */
	TRIALS(times, 4)
		overload_at(ours, 2 + (int) times);
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
	rates_at(chosen(255, 3, keys, 1e-3), 2 * keys, 0);
}

SIM_MAIN({ "small", small }, { "sizes", sizes }, { "formulas", formulas },
		 { "shared", shared }, { "turn", turn }, { "changes", changes }, { "overload", overload },
		 { "growth", growth })
