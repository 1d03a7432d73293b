/*
 * test_kbf_size.c
 *		How often a key-value Bloom filter answers, the table of its sizes, and the
 *		choice from it.
 *
 * The formulas are held against small simulations, each entry of the table
 * against the formulas, and each row against a simulation again.
 * test/sim/kbf_sizing.c has made the table with large ones.  The formulas and
 * the load of the paper are for test/sim/sim_kbf_paper.c.
 */
#include <math.h>

#include "kbf_cell.h"
#include "kbf_size.h"
#include "kbf_size_table.h"
#include "model.h"

#define TERMS	3
#define WIDTHS	12
#define KS		(KBF_SIZE_MAX_HASHES - KBF_SIZE_MIN_HASHES + 1)

/* What a size promises, of false positives for each key that is unknown. */
#define SHARE	0.01

static IbltKbfParams
params_of(unsigned values, int superposed)
{
	IbltKbfParams params = {0};

	params.values = values;
	params.superposed = superposed;
	params.key.kind = IBLT_KEY_INTEGER;
	return params;
}

/* The least cells of an entry for some keys, slowly and with real numbers. */
static double
slow_cells(const KbfSize *entry, int hashes, double keys, double failure)
{
	double		load = entry->load / (double) KBF_SIZE_ONE;
	double		cells = fmax(ceil(keys / load) + entry->extra, 32);
	double		step = 1;

	/* a key shares all cells with another in a quarter of the false positives */
	while (pow(cells, hashes) * failure * SHARE / 4 < keys * (1 - 1e-12))
		cells++;
	while (floor(cells / step) > 127)
		step *= 2;
	return ceil(cells / step) * step;
}

static double
slow_bits(const KbfSize *entry, int t, int hashes, double keys, double failure)
{
	return entry->load == 0 ? INFINITY
		: slow_cells(entry, hashes, keys, failure) * hashes *
		(4 + entry->degree * t);
}

/* Does an entry keep its rates, by the formulas, in filters of all sizes? */
static bool
keeps_rates(const KbfSize *entry, int t, int bits, int hashes, double failure)
{
	IbltKbfParams params = params_of((1u << bits) - 1, t);
	double		keys;
	bool		good = true;

	params.degree = entry->degree;
	params.hashes = hashes;
	for (keys = 1; keys < 1e6; keys *= 1.7)
	{
		double		cells = slow_cells(entry, hashes, keys, failure);
		IbltKbfRates rates;

		iblt_core_kbf_rates(&params, keys / cells, &rates);
		rates.false_positive += iblt_core_kbf_shared(&params, keys, cells);
		good &= check(rates.unknown <= failure && rates.false_positive <= failure * SHARE,
					  "failure %g, t = %d, %d bits, k = %d, %.0f keys: %g, %g", failure, t, bits,
					  hashes, keys, rates.unknown, rates.false_positive);
	}
	return good;
}

static void
test_entries(void)
{
	int			f,
				t,
				bits,
				i;

	for (f = 0; f < KBF_SIZE_FAILURES; f++)
	{
		check(f == 0 || kbf_size_failure[f] < kbf_size_failure[f - 1], "order");
		check(fabs(kbf_size_apart[f] * kbf_size_failure[f] * SHARE - 4) < 1e-9, "apart");
		for (t = 1; t <= TERMS; t++)
			for (bits = 1; bits <= WIDTHS; bits++)
			{
				int			useful = 0;

				for (i = 0; i < KS; i++)
				{
					const KbfSize *entry = &kbf_size[f][t - 1][bits - 1][i];

					if (entry->load == 0)
						continue;
					useful++;
					check(entry->degree >= bits && entry->degree >= 3 && entry->degree <= 12, "degree");
					keeps_rates(entry, t, bits, KBF_SIZE_MIN_HASHES + i, kbf_size_failure[f]);
				}
				check(useful > 0, "nothing for %d bits", bits);
			}
	}
	check(kbf_size_failure[0] == IBLT_KBF_MAX_FAILURE &&
		  kbf_size_failure[KBF_SIZE_FAILURES - 1] == IBLT_KBF_MIN_FAILURE, "range");
	checked("all entries of the table keep their rates by the formulas");
}

/* The row of a failure and a number of values, found slowly. */
static const KbfSize *
slow_row(int t, unsigned values, double failure, double *class)
{
	int			f = KBF_SIZE_FAILURES - 1;
	int			bits = (int) ceil(log2(values + 1.0));

	while (f > 0 && kbf_size_failure[f - 1] <= failure)
		f--;
	*class = kbf_size_failure[f];
	return kbf_size[f][t - 1][bits - 1];
}

/* The choice is the entry of the fewest bits. */
static void
test_choice(void)
{
	for (int trial = 0; trial < scaled(3000); trial++)
	{
		int			t = 1 + (int) below(3);
		IbltKbfParams params = params_of(1 + below((1u << (1 + below(12))) - 1), t);
		uint64_t	capacity = 1 + below(1u << below(22));
		double		failure = pow(10, -1 - 5 * (below(1000001) / 1e6));
		double		class;
		const KbfSize *row = slow_row(t, params.values, failure, &class);
		double		fewest = INFINITY;
		double		bits;
		int			i;

		for (i = 0; i < KS; i++)
			fewest = fmin(fewest, slow_bits(&row[i], t, 3 + i, (double) capacity, class));
		if (!check(iblt_core_kbf_choose(&params, capacity, failure) == IBLT_OK, "refused"))
			continue;
		bits = (double) params.hashes * params.subtable_cells * (4 + params.degree * t);
		i = params.hashes - KBF_SIZE_MIN_HASHES;
		check(bits == fewest && params.degree == row[i].degree &&
			  params.subtable_cells == slow_cells(&row[i], params.hashes, (double) capacity, class),
			  "%u values, t = %d, %" PRIu64 " keys, failure %g: %.0f bits, not %.0f",
			  params.values, t, capacity, failure, bits, fewest);
	}
	checked("the choice has the fewest bits of all entries");
}

typedef struct Counts
{
	uint64_t	unknown;		/* keys of the filter */
	uint64_t	positive;		/* other keys, of which there are as many */
	uint64_t	absent_unknown;
} Counts;

/* The value of key i.  This many of a hundred keys have the value 1. */
static unsigned
value_of_key(uint64_t i, uint64_t salt, unsigned skew, unsigned values)
{
	uint64_t	word = i * IBLT_GOLDEN ^ salt;

	return (word >> 32) % 100 < skew ? 1 : 1 + (unsigned) (word % values);
}

/* Adds what one filter of random pairs answers.  No answer is wrong. */
static void
count(IbltKbfParams params, uint64_t keys, unsigned skew, Counts *counts)
{
	uint8_t    *bytes = take(iblt_core_kbf_size(&params));
	uint64_t	salt = tap_random();
	IbltKbf		kbf;

	params.seed = tap_random();
	iblt_core_kbf_init(&kbf, &params, bytes);
	for (uint64_t i = 0; i < 3 * keys; i++)
	{
		unsigned	found = 0;
		uint8_t		key[8];
		IbltPresence answer;

		iblt_store64(key, i % (2 * keys));
		if (i < keys)
		{
			(void) iblt_core_kbf_insert(&kbf, key, sizeof key,
										value_of_key(i, salt, skew, params.values));
			continue;
		}
		answer = iblt_core_kbf_get(&kbf, key, sizeof key, &found);
		if (i < 2 * keys)
		{
			counts->positive += answer == IBLT_PRESENT;
			counts->absent_unknown += answer == IBLT_UNKNOWN;
			continue;
		}
		counts->unknown += answer == IBLT_UNKNOWN;
		check(answer == IBLT_UNKNOWN ||
			  (answer == IBLT_PRESENT &&
			   found == value_of_key(i - 2 * keys, salt, skew, params.values)), "wrong");
	}
	free(bytes);
}

/* Is a count within four standard errors, and a quarter that the formula may be off? */
static bool
near(uint64_t seen, double expected)
{
	return fabs((double) seen - expected) <= 4 * sqrt(expected) + 0.25 * expected + 1;
}

/* The rates, at loads where there is something to count. */
static void
test_rates(void)
{
	static const struct
	{
		unsigned	values;
		int			superposed,
					hashes;
		double		load;
	}			cases[] = {
		{255, 1, 4, 0.6}, {255, 2, 4, 1.5}, {255, 3, 4, 2.0}, {255, 3, 3, 2.5},
		{4095, 3, 3, 2.0}, {63, 3, 4, 1.8}, {15, 2, 5, 1.4}, {3, 2, 4, 1.0}
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
	{
		double		keys = (double) scaled(20000);
		IbltKbfParams params = params_of(cases[i].values, cases[i].superposed);
		Counts		c = {0};
		IbltKbfRates rates;

		params.degree = IBLT_GF_MIN_DEGREE;
		while (gf_values(params.degree) < params.values)
			params.degree++;
		params.hashes = cases[i].hashes;
		params.subtable_cells = (uint32_t) (keys / cases[i].load);
		iblt_core_kbf_rates(&params, cases[i].load, &rates);
		count(params, (uint64_t) keys, i % 2 == 0 ? 0 : 90, &c);
		check(near(c.unknown, keys * rates.unknown) &&
			  near(c.positive, keys * rates.false_positive) &&
			  near(c.absent_unknown, keys * rates.absent_unknown),
			  "case %zu: unknown %" PRIu64 ", false positives %" PRIu64 ", absent unknown %" PRIu64,
			  i, c.unknown, c.positive, c.absent_unknown);
	}
	checked("filters answer as often as the formulas say, also of values that are alike");
}

/*
 * Keys that share cells in small filters, where the formula for independent
 * cells expects far fewer false positives.
 */
static void
test_shared(void)
{
	static const int hashes[] = {3, 4, 5};

	for (int h = 0; h < 3; h++)
	{
		IbltKbfParams params = params_of(255, 3);
		IbltKbfRates rates;
		Counts		c = {0};
		long		filters = scaled(2000) << 2 * h;
		double		expected;

		params.degree = 8;
		params.hashes = hashes[h];
		params.subtable_cells = 16;
		iblt_core_kbf_rates(&params, 24.0 / 16, &rates);
		expected = 24 * (double) filters *
			(rates.false_positive + iblt_core_kbf_shared(&params, 24, 16));
		for (long i = 0; i < filters; i++)
			count(params, 24, 0, &c);
		check(near(c.positive, expected), "k = %d: %" PRIu64 " false positives, not %.1f",
			  hashes[h], c.positive, expected);
	}
	checked("keys that share cells are counted in small filters");
}

/* Is a count at most that of a rate?  Four standard errors and 2 are allowed. */
static bool
at_most(uint64_t seen, double lookups, double rate)
{
	return (double) seen <= lookups * rate + 4 * sqrt(lookups * rate) + 2;
}

/* Every row by simulation, in a small filter and in one not so small. */
static void
test_rows(void)
{
	int			f,
				t,
				bits;

	for (f = 0; f < KBF_SIZE_FAILURES; f++)
		for (t = 1; t <= TERMS; t++)
			for (bits = 1; bits <= WIDTHS; bits++)
				for (long size = 40; size <= 1000; size += 960)
				{
					IbltKbfParams params = params_of((1u << bits) - 1, t);
					uint64_t	keys = size > 40 ? (uint64_t) scaled(size) : 40;
					Counts		c = {0};
					double		failure = kbf_size_failure[f];

					check(iblt_core_kbf_choose(&params, keys, failure) == IBLT_OK &&
						  iblt_core_kbf_check_params(&params) == IBLT_OK, "refused");
					count(params, keys, bits % 2 * 50, &c);
					check(at_most(c.unknown, (double) keys, failure) &&
						  at_most(c.positive, (double) keys, failure * SHARE),
						  "failure %g, t = %d, %d bits, %" PRIu64 " keys: %" PRIu64 " unknown, %"
						  PRIu64 " false positives", failure, t, bits, keys, c.unknown, c.positive);
				}
	checked("all rows of the table keep their rates in simulated filters");
}

static void
test_limits(void)
{
	static const unsigned refused[][2] = {{0, 3}, {4096, 3}, {255, 0}, {255, 4}};
	IbltKbfParams params;
	IbltKbfParams before;

	for (int i = 0; i < 4; i++)
	{
		params = params_of(refused[i][0], (int) refused[i][1]);
		check(iblt_core_kbf_choose(&params, 100, 1e-3) == IBLT_BAD_VALUES, "values %d", i);
	}
	params = params_of(255, 3);
	check(iblt_core_kbf_choose(&params, 0, 1e-3) == IBLT_BAD_CELLS, "no keys");
	check(iblt_core_kbf_choose(&params, 100, (double) NAN) == IBLT_BAD_CELLS, "not a number");
	check(iblt_core_kbf_choose(&params, (UINT64_C(1) << 27) - 1, 1e-3) == IBLT_BAD_CELLS, "2^27 - 1");
	check(iblt_core_kbf_choose(&params, UINT64_C(1) << 27, 1e-3) == IBLT_BAD_CELLS, "2^27");
	check(iblt_core_kbf_choose(&params, UINT64_C(1) << 63, 1e-3) == IBLT_BAD_CELLS, "2^63");
	check(iblt_core_kbf_choose(&params, 100, 1e-6) == IBLT_OK, "1e-6");
	check(iblt_core_kbf_choose(&params, 100, nextafter(1e-6, 0)) == IBLT_BAD_CELLS, "below");
	check(iblt_core_kbf_choose(&params, 100, 0.1) == IBLT_OK, "0.1");
	check(iblt_core_kbf_choose(&params, 100, nextafter(0.1, 1)) == IBLT_BAD_CELLS, "above");
	/* a failure counts as the next smaller one of the table */
	check(iblt_core_kbf_choose(&params, 100000, 1e-3) == IBLT_OK, "1e-3");
	before = params;
	check(iblt_core_kbf_choose(&params, 100000, 1.9e-3) == IBLT_OK &&
		  params.subtable_cells == before.subtable_cells, "1.9e-3");
	check(iblt_core_kbf_choose(&params, 100000, 2e-3) == IBLT_OK &&
		  params.subtable_cells < before.subtable_cells, "2e-3");
	checked("the choice keeps to its limits");
}

/* The same on all machines, and for ever: filters of equal arguments add up. */
static void
test_frozen(void)
{
	static const struct
	{
		unsigned	values;
		int			superposed;
		uint64_t	capacity;
		double		failure;
		int			hashes;
		int			degree;
		uint32_t	cells;
	}			frozen[] = {
		{255, 3, 1000, 0.001, 5, 8, 656},
		{255, 3, 1000000, 0.001, 5, 8, 647168},
		{255, 2, 100000, 0.01, 6, 8, 72704},
		{15, 3, 1, 0.1, 3, 10, 32},
		{3, 1, 5000, 0.03, 6, 3, 7232},
		{4095, 3, 20000, 1e-06, 7, 12, 16128},
		{100, 3, 20000000, 0.0002, 6, 7, 13107200},
		{1, 1, 10, 1e-05, 8, 3, 39}
	};

	for (size_t i = 0; i < sizeof frozen / sizeof frozen[0]; i++)
	{
		IbltKbfParams params = params_of(frozen[i].values, frozen[i].superposed);

		check(iblt_core_kbf_choose(&params, frozen[i].capacity, frozen[i].failure) == IBLT_OK &&
			  params.hashes == frozen[i].hashes && params.degree == frozen[i].degree &&
			  params.subtable_cells == frozen[i].cells,
			  "{%u, %d, %" PRIu64 ", %g, %d, %d, %u}", frozen[i].values, frozen[i].superposed,
			  frozen[i].capacity, frozen[i].failure, params.hashes, params.degree, params.subtable_cells);
	}
	checked("choices are what they were");
}

int
main(void)
{
	(void) tap_seed();
	test_rates();
	test_entries();
	test_choice();
	test_shared();
	test_rows();
	test_limits();
	test_frozen();
	return tap_done();
}
