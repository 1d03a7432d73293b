/*
 * sim_fifty.c
 *		Eppstein, Goodrich, Uyeda & Varghese 2011, "What's the Difference?": which
 *		share of the differences is decoded from 50 cells.
 *
 * The paper has two such curves against the size of the difference.  One is for
 * sets of 100 to 1,000,000 keys: it is the same for all.  The other is for 2 to
 * 6 hashes.  Their points are not published as numbers.
 *
 * The paper's hashes choose among all 50 cells.  Ours have a subtable each, so
 * that k = 3, 4 and 6 take 51, 52 and 48 cells.  Every point is held against
 * keys in uniformly random cells, drawn without a hash, and where theory has
 * bounds, against them.  For k = 2 the core has no sketch, and the point is the
 * bare hypergraph with the core's hash.
 */
#include "graph.h"
#include "theory.h"

#define CELLS 50
#define FIRST_D 5
#define LAST_D 60
#define STEP_D 5
#define POINTS ((LAST_D - FIRST_D) / STEP_D + 1)
#define LEAST_K 2
#define MOST_K 6

static uint32_t
subtable(int k)
{
	return (uint32_t) ((CELLS + k / 2) / k);
}

static uint32_t
difference(int point)
{
	return (uint32_t) (FIRST_D + point * STEP_D);
}

/* --- theory ----------------------------------------------------------------- */

/* Decoding fails at most as often as some set of keys leaves none alone. */
static double
most_failures(int k, uint32_t s, uint32_t d)
{
	double stopping[THEORY_MAX_SMALL + 1];

	theory_stopping(stopping, k, s);
	return fmin(1, theory_union_bound(stopping, d, 2, (int) d));
}

/*
 * And at least as often as two keys share all cells, or no key is alone from the
 * start.  As many keys as cells less k - 2 never decode: each of them takes a
 * cell for itself when it leaves, and the last one k.
 */
static double
least_failures(int k, uint32_t s, uint32_t d)
{
	double stopping[THEORY_MAX_SMALL + 1];
	double distinct = 1;

	if (d + (uint32_t) k - 1 > (uint32_t) k * s)
		return 1;
	theory_stopping(stopping, k, s);
	for (uint32_t i = 0; i < d; i++)
		distinct *= 1 - i / pow(s, k);
	return fmax(1 - distinct, stopping[d]);
}

/* The share of trials in which d keys in random cells are all taken out. */
static double
uniform(int k, uint32_t d, uint32_t trials)
{
	return (double) (trials - graph_failures(k, subtable(k), d, trials, false)) / trials;
}

/* --- two sets ---------------------------------------------------------------- */

/* Keys that only one side has, added to a copy of what both have. */
static IbltSketch *
one_side(const IbltSketch *common, uint64_t first, uint32_t n)
{
	IbltSketch *side = sim_sketch(common->params.hashes, common->params.subtable_cells, false,
								  common->params.seed);

	iblt_core_add_sketch(side, common, 1);
	sim_add_range(side, first, n, 1);
	return side;
}

/*
 * Two sets of n keys, d of which have only one of them: is the difference decoded?
 * common has the first n - LAST_D / 2 keys of both.
 */
static bool
decodes(const IbltSketch *common, uint32_t d)
{
	uint32_t only = d / 2;
	uint32_t more = LAST_D / 2 - only;
	uint64_t first = tap_random();
	uint64_t both = tap_random();
	IbltSketch *left = one_side(common, first, only);
	IbltSketch *right = one_side(common, first + only, d - only);
	uint32_t recovered;

	for (uint32_t i = 0; i < more; i++)
	{
		uint64_t y = tap_random();

		sim_add(left, both + i, y, 1);
		sim_add(right, both + i, y, 1);
	}
	iblt_core_add_sketch(left, right, -1);
	return sim_peel(left, &recovered) && recovered == d;
}

/* Adds to decoded[] the trials that decode, with one hash for all of them. */
static void
decode_sets(int k, uint32_t n, uint32_t trials, uint32_t decoded[POINTS])
{
	IbltSketch *common = sim_sketch(k, subtable(k), false, tap_random());

	sim_add_range(common, tap_random(), n - LAST_D / 2, 1);
	for (int point = 0; point < POINTS; point++)
		TRIALS(i, trials)
			decoded[point] += decodes(common, difference(point));
}

/* --- comparisons -------------------------------------------------------------- */

#define HASHES_DRAWN 10 /* of a set size's trials, so many share a hash */

/* A share of the trials against one of random cells, in percent. */
static void
check_share(double ours, double trials, double theirs, double draws, int k, uint32_t n, uint32_t d)
{
	double p = (ours * trials + theirs * draws) / (trials + draws);

	sim_agree(100 * ours, 100 * theirs, 100 * sim_proportions_tolerance(p, trials, draws),
		"k = %d, sets of %u keys, %u differences: decoded, %%", k, n, d);
}

/* The curve for one set size, against that of random cells. */
static void
check_size(uint32_t n, const double reference[POINTS], double draws, FILE *table)
{
	uint32_t trials = sim_trials_of(20, 1000, 10000);
	uint32_t decoded[POINTS] = { 0 };
	double total = (double) trials * HASHES_DRAWN;

	for (int i = 0; i < HASHES_DRAWN; i++)
		decode_sets(4, n, trials, decoded);
	for (int i = 0; i < POINTS; i++)
	{
		check_share(decoded[i] / total, total, reference[i], draws, 4, n, difference(i));
		sim_row(table, "%u\t%u\t%.0f\t%.3f\t%.3f", n, difference(i), total,
				100 * decoded[i] / total, 100 * reference[i]);
	}
	sim_row(table, "\n");
}

static void
run_set_size(void)
{
	double reference[POINTS];
	uint32_t draws = sim_trials_of(2000, 50000, 500000);
	uint32_t most = sim_trials(10000, 1000000);
	FILE *table = sim_table("set_size", "keys\tdifferences\ttrials\t"
										"decoded_percent\trandom_cells");

	for (int i = 0; i < POINTS; i++)
		reference[i] = uniform(4, difference(i), draws);
	for (uint32_t n = 100; n <= most; n *= 10)
		check_size(n, reference, draws, table);
}

/* One k, one difference: against random cells, and theory's bounds. */
static void
check_hashes(int k, uint32_t d, double decoded, double trials, FILE *table)
{
	uint32_t draws = sim_trials_of(2000, 50000, 500000);
	uint32_t s = subtable(k);
	double p = uniform(k, d, draws);
	double low = 1 - most_failures(k, s, d);
	double high = 1 - least_failures(k, s, d);

	check_share(decoded, trials, p, draws, k, 100, d);
	sim_within(100 * decoded, 100 * low, 100 * high, 100 * sim_proportion_tolerance(p, trials),
		"the same, by theory");
	sim_row(table, "%d\t%u\t%u\t%.0f\t%.3f\t%.3f\t%.4f\t%.4f", k,
			(uint32_t) k * s, d, trials, 100 * decoded, 100 * p, 100 * low, 100 * high);
}

static void
run_hash_count(void)
{
	uint32_t trials = sim_trials_of(300, 5000, 50000);
	FILE *table = sim_table("hash_count", "k\tcells\tdifferences\ttrials\t"
										  "decoded_percent\trandom_cells\t"
										  "theory_low\ttheory_high");

	for (int k = LEAST_K; k <= MOST_K; k++)
	{
		uint32_t decoded[POINTS] = { 0 };

		if (k < IBLT_MIN_HASHES)
			for (int i = 0; i < POINTS; i++)
				decoded[i] = trials - graph_failures(k, subtable(k), difference(i), trials, true);
		else
			for (int i = 0; i < 10; i++)
				decode_sets(k, 100, trials / 10, decoded);
		for (int i = 0; i < POINTS; i++)
			check_hashes(k, difference(i), (double) decoded[i] / trials, trials, table);
		sim_row(table, "\n");
	}
}

SIM_MAIN({ "set_size", run_set_size }, { "hash_count", run_hash_count })
