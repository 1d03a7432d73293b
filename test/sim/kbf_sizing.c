/*
 * kbf_sizing.c
 *		Compute src/core/kbf_size_table.h, or check a part of it afresh.
 *
 *		kbf_sizing > src/core/kbf_size_table.h	compute (make kbf-sizing-table)
 *		kbf_sizing --quick						check a random part of it
 *
 * The entries come from the formulas of src/core/kbf_size.c, and simulation with the
 * core mends and proves them.  doc/kbf/kbf.md has the method.
 */
#include "kbf_trial.h"

#define GENERATOR_SEED UINT64_C(2014)
#define FAILURES 16
#define TERMS IBLT_GF_MAX_TERMS
#define WIDTHS IBLT_GF_MAX_DEGREE
#define MIN_K 3
#define MAX_K 8
#define KS (MAX_K - MIN_K + 1)
#define ONE 8192 /* the unit of a load */
#define MAX_LOAD 7.9
#define MARGIN 0.8
#define SMALL_MARGIN 0.9
#define CLOSE 1.05  /* bits of a k that is simulated at length */
#define USEFUL 1.35 /* bits of a k, by those of the best */
#define Z99 2.3264	   /* 99 %, one-sided */
#define Z_ABOVE 3.0903 /* 99.9 %: above the limit */
#define LARGE 2048	   /* cells of a subtable */
#define BATCH 5000		   /* look-ups before the first decision */

static const double failures[FAILURES] = { 1e-1, 5e-2, 2e-2, 1e-2, 5e-3, 2e-3,
										   1e-3, 5e-4, 2e-4, 1e-4, 5e-5, 2e-5,
										   1e-5, 5e-6, 2e-6, 1e-6 };

typedef struct Entry
{
	int degree;
	uint32_t load; /* 0: not of use */
	uint32_t extra;
} Entry;

typedef struct Row
{
	double failure;
	int t;
	unsigned values;
	Entry *entries;
} Row;

/* What all entries of one failure saw, and what the formula expects. */
typedef struct Tally
{
	uint32_t entries;
	uint32_t proved;
	uint32_t mended;
	double seen;
	double expected;
	double seen_positive;
	double expected_positive;
	double wrong;
	double lookups;
} Tally;

static Entry table[FAILURES][TERMS][WIDTHS][KS];
static Tally tallies[FAILURES];

/* --- the formula ---------------------------------------------------------- */

static bool
keeps(const IbltKbfParams *params, double load, double failure)
{
	IbltKbfRates rates;

	iblt_core_kbf_rates(params, load, &rates);
	return rates.unknown <= failure &&
		rates.false_positive <= failure / IBLT_KBF_FALSE_POSITIVE_SHARE;
}

/* The largest load at which the formula gives this failure. */
static double
load_of(const IbltKbfParams *params, double failure)
{
	double low = 0;
	double high = MAX_LOAD;

	SIM_HALVE(20, low, high, middle, keeps(params, middle, failure))
	return low;
}

static double
bits_of(const Row *row, int i)
{
	const Entry *entry = &row->entries[i];

	return entry->load == 0 ? INFINITY
		: (double) (MIN_K + i) * (IBLT_KBF_COUNTER_BITS + entry->degree * row->t) / entry->load;
}

/* The keys that an entry gives to this many cells. */
static uint64_t
keys_in(const Entry *entry, uint32_t cells)
{
	return cells <= entry->extra ? 0 : (uint64_t) (cells - entry->extra) * entry->load / ONE;
}

/* The fewest cells that are chosen with an entry, as kbf_size.c does it. */
static uint32_t
fewest_cells(const Row *row, int i)
{
	uint32_t cells = IBLT_KBF_LEAST_CELLS;

	while (keys_in(&row->entries[i], cells) == 0)
		cells++;
	while (cells < LARGE && pow(cells, MIN_K + i) * row->failure / IBLT_KBF_FALSE_POSITIVE_SHARE <
			   (double) keys_in(&row->entries[i], cells) * IBLT_KBF_APART)
		cells++;
	return cells;
}

/* What the two formulas expect. */
static IbltKbfRates
expected(const IbltKbfParams *params, double keys)
{
	IbltKbfRates rates;

	iblt_core_kbf_rates(params, keys / params->subtable_cells, &rates);
	rates.false_positive += iblt_core_kbf_shared(params, keys, params->subtable_cells);
	return rates;
}

/* The extra cells that keep all filters below SMALL_MARGIN times the limit. */
static void
add_cells(const Row *row, int i)
{
	Entry *entry = &row->entries[i];
	uint32_t cells;

	for (cells = fewest_cells(row, i); cells < LARGE; cells += cells < 256 ? 1 : cells / 8)
	{
		IbltKbfParams params = kbf_params(row->values, entry->degree, row->t, MIN_K + i, cells);

		while (expected(&params, (double) keys_in(entry, cells)).false_positive >
			   SMALL_MARGIN * row->failure / IBLT_KBF_FALSE_POSITIVE_SHARE)
			entry->extra++;
	}
}

/* The best degree and load for each k, by the formula. */
static void
compute(const Row *row)
{
	double fewest = INFINITY;
	int degree;

	for (int i = 0; i < KS; i++)
	{
		for (degree = IBLT_GF_MIN_DEGREE; degree <= IBLT_GF_MAX_DEGREE; degree++)
		{
			IbltKbfParams params = kbf_params(row->values, degree, row->t, MIN_K + i, 1);
			Entry best = row->entries[i];
			double before = bits_of(row, i);

			if (gf_values(degree) < row->values)
				continue;
			row->entries[i].degree = degree;
			row->entries[i].load = (uint32_t) (ONE * load_of(&params, row->failure * MARGIN));
			if (bits_of(row, i) >= before)
				row->entries[i] = best;
		}
		fewest = fmin(fewest, bits_of(row, i));
	}
	for (int i = 0; i < KS; i++)
		if (bits_of(row, i) > USEFUL * fewest)
			memset(&row->entries[i], 0, sizeof(Entry));
		else
			add_cells(row, i);
}

/* --- the simulation ------------------------------------------------------- */

/*
 * Keys in the filters that are looked up, for each of two sizes.  Most go to the
 * entries that are chosen: those of the fewest bits, or nearly so.
 */
static double
budget_of(const Row *row, bool close)
{
	if (row->failure > 0.9e-3)
		return close ? fmin(fmax(200 / row->failure, 4e4), 2e5) : 1e4;
	return close ? 2e4 : 4e3;
}

/* Is this rate, by its count, surely below the limit (1), above it with 99.9 % (-1), or neither (0)? */
static int
verdict(uint64_t seen, uint64_t lookups, double limit)
{
	double mean = limit * (double) lookups;
	double chance = exp(-mean);
	double fewer = 0;

	if (kbf_poisson_bound((double) seen, Z99) <= mean)
		return 1;
	if (seen > 100)
		return kbf_poisson_bound((double) seen, -Z_ABOVE) > mean ? -1 : 0;
	for (uint64_t i = 0; i < seen; i++)
	{
		fewer += chance;
		chance *= mean / (double) (i + 1);
	}
	return 1 - fewer < 1e-3 ? -1 : 0;
}

/*
 * Fills filters of one size until both rates are decided or the trials end.
 * Returns 1 if they are proved, -1 if one is too high, 0 if it is open.
 */
static int
decide(const Row *row, const IbltKbfParams *params, uint64_t keys, double budget, KbfCounts *counts)
{
	double absent_budget = row->failure > 0.9e-3 ? 4 * budget : 2 * budget;
	uint64_t next = BATCH;
	int unknown = 0;
	int positive = 0;

	for (;;)
	{
		bool look = unknown == 0 && (double) counts->present < budget;
		bool other = positive == 0 && (double) counts->absent < absent_budget;

		if (!look && !other)
			return unknown == 1 && positive == 1;
		kbf_trial(*params, keys, 0, look, other ? 2 * keys : 0, counts);
		if (counts->present + counts->absent < next)
			continue;
		next += next / 2;
		if (look)
			unknown = verdict(counts->unknown, counts->present, row->failure);
		if (other)
			positive = verdict(counts->positive, counts->absent,
							   row->failure / IBLT_KBF_FALSE_POSITIVE_SHARE);
		if (unknown < 0 || positive < 0)
			return -1;
	}
}

/*
 * Tries one size of an entry, and mends the entry until it is not too high.
 * Returns whether it is proved.
 */
static bool
try_entry(const Row *row, int i, bool large, double budget, Tally *sum)
{
	Entry *entry = &row->entries[i];

	for (;;)
	{
		IbltKbfParams params = kbf_params(row->values, entry->degree, row->t, MIN_K + i,
					   large ? LARGE : fewest_cells(row, i));
		uint64_t keys = keys_in(entry, params.subtable_cells);
		KbfCounts counts = { 0 };
		int result = decide(row, &params, keys, budget, &counts);
		IbltKbfRates rates = expected(&params, (double) keys);

		sum->seen += (double) counts.unknown;
		sum->expected += rates.unknown * (double) counts.present;
		sum->seen_positive += (double) counts.positive;
		sum->expected_positive += rates.false_positive * (double) counts.absent;
		sum->wrong += (double) counts.wrong;
		sum->lookups += (double) (counts.present + counts.absent);
		if (result >= 0)
			return result > 0;
		if (large)
			entry->load = (uint32_t) (entry->load * 0.99);
		else
			entry->extra++;
		sum->mended++;
	}
}

static void
simulate(const Row *row, Tally *sum)
{
	double fewest = INFINITY;

	for (int i = 0; i < KS; i++)
		fewest = fmin(fewest, bits_of(row, i));
	for (int i = 0; i < KS; i++)
	{
		double budget = budget_of(row, bits_of(row, i) <= CLOSE * fewest);
		bool proved;

		if (row->entries[i].load == 0)
			continue;
		sum->entries++;
		proved = try_entry(row, i, true, budget, sum);
		proved &= try_entry(row, i, false, budget, sum);
		sum->proved += proved;
	}
}

/* --- checking ------------------------------------------------------------- */

/* Chooses random parameters and holds filters of them against their limits. */
static int
quick(void)
{
	for (int trial = 0; trial < 60; trial++)
	{
		double failure = failures[tap_random() % 7];
		unsigned values = 1 + (unsigned) (tap_random() % ((1u << (1 + tap_random() % 12)) - 1));
		IbltKbfParams params = kbf_params(values, 3, 1 + (int) (tap_random() % 3), 3, 1);
		uint64_t keys = UINT64_C(10) << tap_random() % 10;
		unsigned alike = tap_random() % 2 == 0 ? 0 : 90;
		KbfCounts counts = { 0 };

		if (iblt_core_kbf_choose(&params, keys, failure) != IBLT_OK)
			return 1;
		while ((double) counts.present < fmin(20 / failure, 20000))
			kbf_trial(params, keys, alike, true, keys, &counts);
		tap_ok(counts.wrong == 0 && verdict(counts.unknown, counts.present, failure) >= 0 &&
				   verdict(counts.positive, counts.absent, failure / IBLT_KBF_FALSE_POSITIVE_SHARE) >= 0,
			   "%u values, t = %d, %" PRIu64 " keys, failure %g: k = %d, q = %d, "
			   "%" PRIu64 " of %" PRIu64 " unknown, %" PRIu64 " false positives",
			   values, params.superposed, keys, failure, params.hashes, params.degree,
			   counts.unknown, counts.present, counts.positive);
	}
	return tap_done();
}

/* --- the table ------------------------------------------------------------ */

static Row
row_of(int f, int t, int bits)
{
	Row row = { failures[f], t, (1u << bits) - 1, table[f][t - 1][bits - 1] };

	return row;
}

/* Copies what promises more and takes fewer bits. */
static void
improve(const Row *row, const Row *better)
{
	for (int i = 0; i < KS; i++)
		if (bits_of(better, i) < bits_of(row, i))
			row->entries[i] = better->entries[i];
}

static void
make_monotone(void)
{
	int f, t, bits;

	for (f = FAILURES - 1; f >= 0; f--)
		for (t = 1; t <= TERMS; t++)
			for (bits = WIDTHS; bits >= 1; bits--)
			{
				Row row = row_of(f, t, bits);
				Row stricter = row_of(f < FAILURES - 1 ? f + 1 : f, t, bits);
				Row wider = row_of(f, t, bits < WIDTHS ? bits + 1 : bits);

				improve(&row, &stricter);
				improve(&row, &wider);
			}
}

static void
print_head(void)
{
	printf("/*\n * kbf_size_table.h\n"
		   " *\t\tHow many keys a key-value Bloom filter takes.  Generated:\n"
		   " *\t\tdo not edit, run `make kbf-sizing-table`.\n *\n"
		   " * Computed by test/sim/kbf_sizing.c (doc/kbf/kbf.md), with seed %"
		   PRIu64 ".\n *\n"
		   " * For each failure: the entries, those whose rates the simulation proved with\n"
		   " * 99 %% confidence, and how often one was mended.  Then the look-ups,\n"
		   " * the unknown keys and the false positives that all entries saw, and what the\n"
		   " * formulas expect of the same look-ups.  Entries that are not proved rest on them.\n"
		   " *\n"
		   " * failure entries proved mended    look-ups    unknown   expected   positive   expected\n",
		   GENERATOR_SEED);
	for (int f = 0; f < FAILURES; f++)
	{
		const Tally *sum = &tallies[f];

		printf(" * %7g %7u %6u %7u %10.0f %10.0f %10.1f %10.0f %10.1f\n",
			   failures[f], sum->entries, sum->proved, sum->mended,
			   sum->lookups, sum->seen, sum->expected, sum->seen_positive,
			   sum->expected_positive);
	}
	printf(" */\n#ifndef IBLT_CORE_KBF_SIZE_TABLE_H\n"
		   "#define IBLT_CORE_KBF_SIZE_TABLE_H\n\n#include <stdint.h>\n\n");
}

static void
print_entries(void)
{
	int f, t, bits;

	printf("/* for each failure, t = 1 to 3 (a line), and 2^n - 1 values, n = 1 to %d:\n"
		   " * load, degree and extra cells for k = %d to %d */\n"
		   "static const KbfSize kbf_size[KBF_SIZE_FAILURES][%d][%d]\n"
		   "\t[KBF_SIZE_MAX_HASHES - KBF_SIZE_MIN_HASHES + 1] = {\n",
		   WIDTHS, MIN_K, MAX_K, TERMS, WIDTHS);
	for (f = 0; f < FAILURES; f++)
	{
		printf("\t{ /* %g */\n", failures[f]);
		for (t = 1; t <= TERMS; t++)
		{
			printf("\t\t{ ");
			for (bits = 1; bits <= WIDTHS; bits++)
			{
				Row row = row_of(f, t, bits);

				for (int i = 0; i < KS; i++)
				{
					const Entry *entry = &row.entries[i];

					if (entry->load > UINT16_MAX || entry->extra > UINT8_MAX)
						exit(1);
					printf("%s{%u, %d, %u}", i > 0 ? ", " : "{", entry->load, entry->degree, entry->extra);
				}
				printf("}, ");
			}
			printf("},\n");
		}
		printf("\t},\n");
	}
	printf("};\n\n#endif\n");
}

static void
print_table(void)
{
	print_head();
	printf("#define KBF_SIZE_MIN_HASHES %d\n#define KBF_SIZE_MAX_HASHES %d\n"
		   "#define KBF_SIZE_FAILURES %d\n"
		   "#define KBF_SIZE_ONE %d /* the load of one key a cell */\n\n",
		   MIN_K, MAX_K, FAILURES, ONE);
	printf("/* load is 0 where k is not of use */\n"
		   "typedef struct KbfSize\n{\n\tuint16_t\tload;\n\tuint8_t\t\tdegree;\n"
		   "\tuint8_t\t\textra; /* cells of a subtable */\n} KbfSize;\n\n"
		   "/* shares of unknown keys, each stricter than the last */\n"
		   "static const double kbf_size_failure[KBF_SIZE_FAILURES] = {\n\t");
	for (int f = 0; f < FAILURES; f++)
		printf("%g%s", failures[f], f % 8 < 7 ? ", " : f < FAILURES - 1 ? ",\n\t" : "\n};\n\n");
	printf("/* one by the chance that two keys have all cells in common */\n"
		   "static const uint32_t kbf_size_apart[KBF_SIZE_FAILURES] = {\n\t");
	for (int f = 0; f < FAILURES; f++)
		printf("%.0f%s", (double) IBLT_KBF_APART * IBLT_KBF_FALSE_POSITIVE_SHARE / failures[f],
			   f % 8 < 7 ? ", " : f < FAILURES - 1 ? ",\n\t" : "\n};\n\n");
	print_entries();
}

/* Is the formula right, as far as all entries of a failure show? */
static bool
formula_holds(int f)
{
	const Tally *sum = &tallies[f];
	bool good = sum->wrong == 0 &&
		kbf_poisson_bound(sum->seen, -Z_ABOVE) <= sum->expected / MARGIN &&
		kbf_poisson_bound(sum->seen_positive, -Z_ABOVE) <= sum->expected_positive / MARGIN;

	fprintf(stderr, "%g: %u entries, %u proved, %u mended, %.0f look-ups, "
			"unknown %.0f (%.1f), false positives %.0f (%.1f)%s\n",
			failures[f], sum->entries, sum->proved, sum->mended, sum->lookups,
			sum->seen, sum->expected, sum->seen_positive, sum->expected_positive,
			good ? "" : ": the formula does not hold");
	return good;
}

static int
generate(void)
{
	bool good = true;
	int f, t, bits;

	for (f = 0; f < FAILURES; f++)
	{
		for (t = 1; t <= TERMS; t++)
			for (bits = 1; bits <= WIDTHS; bits++)
			{
				Row row = row_of(f, t, bits);

				/* a row does not depend on the trials of others */
				tap_state = GENERATOR_SEED << 32 | (uint64_t) (f << 16 | t << 8 | bits);
				compute(&row);
				simulate(&row, &tallies[f]);
			}
		good &= formula_holds(f);
	}
	make_monotone();
	print_table();
	return good ? 0 : 1;
}

int
main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "--quick") == 0)
		return quick();
	/* the table has the generator's own seed, and nothing else on stdout */
	tap_seeded = 1;
	return generate();
}
