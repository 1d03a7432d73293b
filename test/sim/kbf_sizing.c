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
#include "kbf_entry.h"

#define GENERATOR_SEED UINT64_C(2014)

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
