/*
 * test_kbf_size.c
 *		The table of sizes of key-value Bloom filters, and the choice from it.
 *
 * Each entry is held against the formulas.  Filters that are filled are held
 * against the formulas by test/sim/sim_kbf_ours.c, and against the table by
 * test/sim/kbf_sizing.c, which made it.
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
	return entry->load == 0 ? INFINITY : slow_cells(entry, hashes, keys, failure) * hashes *
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
	for (int f = 0; f < KBF_SIZE_FAILURES; f++)
	{
		check(f == 0 || kbf_size_failure[f] < kbf_size_failure[f - 1], "order");
		check(fabs(kbf_size_apart[f] * kbf_size_failure[f] * SHARE - 4) < 1e-9, "apart");
		for (int t = 1; t <= TERMS; t++)
			for (int bits = 1; bits <= WIDTHS; bits++)
			{
				int			useful = 0;

				for (int i = 0; i < KS; i++)
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

static void
test_limits(void)
{
	static const struct
	{
		unsigned	values;
		int			superposed;
		uint64_t	keys;
		double		failure;
		IbltStatus	expected;
	}			cases[] = {
		{0, 3, 100, 1e-3, IBLT_BAD_VALUES}, {4096, 3, 100, 1e-3, IBLT_BAD_VALUES},
		{255, 0, 100, 1e-3, IBLT_BAD_VALUES}, {255, 4, 100, 1e-3, IBLT_BAD_VALUES},
		{255, 3, 0, 1e-3, IBLT_BAD_CELLS}, {255, 3, 100, (double) NAN, IBLT_BAD_CELLS},
		{255, 3, (UINT64_C(1) << 27) - 1, 1e-3, IBLT_BAD_CELLS},
		{255, 3, UINT64_C(1) << 27, 1e-3, IBLT_BAD_CELLS},
		{255, 3, UINT64_C(1) << 63, 1e-3, IBLT_BAD_CELLS}, {255, 3, 100, 1e-6, IBLT_OK},
		{255, 3, 100, 1e-6 - 1e-21, IBLT_BAD_CELLS}, {255, 3, 100, 0.1, IBLT_OK},
		{255, 3, 100, 0.1 + 1e-16, IBLT_BAD_CELLS}
	};
	uint32_t	cells[3];

	for (int i = 0; i < LENGTH(cases); i++)
	{
		IbltKbfParams params = params_of(cases[i].values, cases[i].superposed);

		check(iblt_core_kbf_choose(&params, cases[i].keys, cases[i].failure) == cases[i].expected,
			  "case %d", i);
	}
	/* a failure counts as the next smaller one of the table */
	for (int i = 0; i < 3; i++)
	{
		IbltKbfParams params = params_of(255, 3);

		check(iblt_core_kbf_choose(&params, 100000, i == 0 ? 1e-3 : i == 1 ? 1.9e-3 : 2e-3) == IBLT_OK,
			  "refused");
		cells[i] = params.subtable_cells;
	}
	check(cells[1] == cells[0] && cells[2] < cells[0], "%u, %u and %u cells", cells[0], cells[1], cells[2]);
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

	for (int i = 0; i < LENGTH(frozen); i++)
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

TAP_MAIN(test_entries, test_choice, test_limits, test_frozen)
