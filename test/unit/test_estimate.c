/*
 * test_estimate.c
 *		How many keys differ: the estimates against their theory.
 *
 * n keys on one side only and any number of changed ones, in m subtables of s
 * cells.  The sum of squared net rows has expectation n and variance
 * 2 n (n - 1) / (m (s - 1)): the two keys of a pair share a cell of a subtable
 * with probability 1/s, independently of all other pairs.  Means and deviations
 * of many trials are held against that with a margin of five of their own
 * standard errors.
 */
#include <math.h>

#include "model.h"

#define MARGIN 5.0
#define COVERAGE 0.99

/* A difference; missing and extra keys are on one side only. */
typedef struct Mix
{
	uint32_t missing;
	uint32_t extra;
	uint32_t changed;
} Mix;

static IbltSketch *
sketch_of(const Mix *mix, uint32_t cells)
{
	IbltParams params = make_params(IBLT_KEY_INTEGER, 1, 4, cells, false, tap_random());
	IbltSketch *sketch = sketch_new(&params);
	uint64_t number = tap_random();

	for (uint32_t i = 0; i < mix->missing; i++)
		add_integer(sketch, number++, tap_random(), -1);
	for (uint32_t i = 0; i < mix->extra; i++)
		add_integer(sketch, number++, tap_random(), 1);
	for (uint32_t i = 0; i < mix->changed; i++)
	{
		add_integer(sketch, number, tap_random(), 1);
		add_integer(sketch, number++, tap_random(), -1);
	}
	iblt_core_seal(sketch);
	return sketch;
}

/*
 * Trials of one mix in sketches of 24 cells a subtable that are folded to
 * `cells` and keep only some subtables.
 */
static void
check_squares(const Mix *mix, uint32_t cells, unsigned subtables, long trials)
{
	double n = (double) mix->missing + mix->extra;
	int m = __builtin_popcount(subtables);
	double variance = 2 * n * (n - 1) / (m * (cells - 1.0));
	double kurtosis = 3 + 12.0 / (m * (cells - 1.0)) + 2 * m * cells / (n * n + 1);
	double sum = 0;
	double squares = 0;

	TRIALS(i, trials)
	{
		IbltSketch *sketch = sketch_fold(sketch_of(mix, 24), cells, subtables);
		double error = iblt_core_net_squares(sketch) - n;

		sum += error;
		squares += error * error;
	}
	check(fabs(sum / (double) trials) <= MARGIN * sqrt(variance / (double) trials) + 1e-9,
		  "%.0f keys in %d x %u cells are off by %.3f on average", n, m, cells,
		  sum / (double) trials);
	if (variance == 0)
		check(squares < 1e-9, "%.0f keys are not exact", n);
	else
		check(fabs(squares / (double) trials / variance - 1) <
				  MARGIN * sqrt((kurtosis - 1) / (double) trials),
			  "%.0f keys in %d x %u cells: variance %.3f times that of theory",
			  n, m, cells, squares / (double) trials / variance);
}

static void
test_squares(void)
{
	static const uint32_t cells[] = { 2, 6, 24 };
	static const unsigned subtables[] = { 0xf, 0x5, 0x8 };
	static const Mix mixes[] = { { 0, 1, 0 }, { 0, 0, 30 }, { 40, 0, 0 },
								 { 20, 25, 0 }, { 60, 100, 40 } };

	for (unsigned i = 0; i < 3; i++)
		for (unsigned j = 0; j < 3; j++)
			for (unsigned k = 0; k < 5; k++)
				check_squares(&mixes[k], cells[i], subtables[j], scaled(4000));
	checked("squared net rows are what theory says, folded and with subtables dropped");
}

/* Estimate and bound of keys, for one mix and size. */
static void
check_keys(const Mix *mix, uint32_t cells, long trials)
{
	double one = (double) mix->missing + mix->extra;
	double rows = one + 2.0 * mix->changed;
	double keys = one + mix->changed;
	double net = fabs((double) mix->missing - mix->extra);
	/* of the mean of two independent estimates */
	double deviation = sqrt(rows * rows / 128 + one * one * 2 / (4 * (cells - 1.0))) / 2;
	double least = COVERAGE - MARGIN * sqrt(COVERAGE * (1 - COVERAGE) / (double) trials);
	double squares = 0;
	double sum = 0;
	long covered = 0;

	TRIALS(i, trials)
	{
		IbltSketch *sketch = sketch_of(mix, cells);
		double bound;
		double estimate = iblt_core_estimate_keys(sketch, &bound);
		uint64_t rows_bound;
		double rows_estimate = (double) iblt_core_estimate(sketch, &rows_bound);

		check(bound <= (double) rows_bound, "more keys than rows: %f of %f",
			  bound, (double) rows_bound);
		check(estimate >= 1 && estimate >= fmin(net, rows_estimate),
			  "fewer keys than evident: %f", estimate);
		covered += bound >= keys;
		squares += (estimate - keys) * (estimate - keys);
		sum += estimate - keys;
	}
	check((double) covered >= least * (double) trials,
		  "%.0f keys (%.0f rows) in 4 x %u cells: %ld of %ld covered", keys,
		  rows, cells, covered, trials);
	/* at least 1, and no more keys than rows: that only helps large numbers */
	check(sqrt(squares / (double) trials) < (1.05 + MARGIN / sqrt((double) trials)) * deviation + 1,
		  "%.0f keys (%.0f rows) in 4 x %u cells: deviation %.2f, not %.2f",
		  keys, rows, cells, sqrt(squares / (double) trials), deviation);
	if (keys >= 1000)
		printf("# %u missing, %u extra, %u changed in 4 x %u cells: mean error "
			   "%.2f %%, deviation %.2f %%, covered %.2f %%\n",
			   mix->missing, mix->extra, mix->changed, cells, 100 * sum / (double) trials / keys,
			   100 * sqrt(squares / (double) trials) / keys,
			   100.0 * (double) covered / (double) trials);
}

/* From 1 to 12 keys, a pair of keys that share a cell, or a bucket, is no rare thing. */
static void
test_keys(void)
{
	static const uint32_t large[] = {2, 4, 8, 48, 504};
	static const uint32_t small[] = {2, 3, 6, 16};
	static const Mix mixes[] = {{1000, 0, 0}, {500, 500, 0}, {0, 0, 1000}, {250, 250, 500},
		{500, 0, 500}, {100, 0, 900}, {0, 900, 100}};

	for (int i = 0; i < LENGTH(large); i++)
		for (int j = 0; j < LENGTH(mixes); j++)
			check_keys(&mixes[j], large[i], scaled(1500));
	for (int i = 0; i < LENGTH(small); i++)
		for (uint32_t n = 1; n <= 12; n++)
		{
			const Mix few[] = {{n, 0, 0}, {n / 2, n - n / 2, 0}, {0, 0, n},
				{n / 3, n / 3, n - n / 3 - n / 3}};

			for (int j = 0; j < LENGTH(few); j++)
				check_keys(&few[j], small[i], scaled(2000));
		}
	checked("keys are estimated as theory says, and the bound covers 99 %%, from 1 key on");
}

/* A single subtable of a few cells says little about the keys on one side. */
static void
test_dropped(void)
{
	for (uint32_t n = 2; n <= 200; n *= 10)
	{
		Mix mix = { n / 2, n - n / 2, n / 2 };
		uint32_t keys = n + n / 2;
		long trials = scaled(4000);
		long covered = 0;

		TRIALS(i, trials)
		{
			IbltSketch *sketch = sketch_fold(sketch_of(&mix, 24), i & 1 ? 6 : 2, 0x4);
			double bound;

			(void) iblt_core_estimate_keys(sketch, &bound);
			covered += bound >= keys;
		}
		check((double) covered >= COVERAGE * (double) trials -
					  MARGIN * sqrt((double) trials * COVERAGE * (1 - COVERAGE)),
			  "%u keys in one subtable: %ld of %ld covered", keys, covered, trials);
	}
	checked("the bound holds with one subtable of a few cells");
}

/* A key's rows on one side count squared, as in the meter: never too few. */
static void
test_duplicates(void)
{
	IbltParams params = make_params(IBLT_KEY_INTEGER, 1, 4, 24, false, tap_random());
	IbltSketch *sketch = sketch_new(&params);
	double bound;
	uint64_t rows_bound;
	uint64_t y = tap_random();

	for (int i = 0; i < 30; i++)
		add_integer(sketch, 1, y, -1);
	iblt_core_seal(sketch);
	check(fabs(iblt_core_net_squares(sketch) - 900) < 1e-6,
		  "30 rows of a key are %f", iblt_core_net_squares(sketch));
	check(fabs(iblt_core_estimate_keys(sketch, &bound) - 900) < 1e-6 && bound >= 900,
		  "and are estimated at %f", iblt_core_estimate_keys(sketch, &bound));
	for (int i = 0; i < 30; i++)
		add_integer(sketch, 1, y + 1, 1);
	iblt_core_seal(sketch);
	check(iblt_core_net_squares(sketch) == 0, "net rows of 0 are not 0");
	check(iblt_core_estimate_keys(sketch, &bound) >= 450,
		  "30 rows changed are fewer than half of their squares");
	for (int i = 0; i < 30; i++)
		add_integer(sketch, 1, tap_random(), 1);
	iblt_core_seal(sketch);
	check(iblt_core_estimate_keys(sketch, &bound) <=
			  (double) iblt_core_estimate(sketch, &rows_bound), "more keys than rows");
	checked("n rows of one key count n squared, but never as more than all rows");
}

/* Nothing, a single cell, and counts that no honest sketch has. */
static void
test_edges(void)
{
	static const uint32_t counts[] = { 0x80000000u, 0x7fffffffu, 0xffffffffu, 0 };
	static const Mix none = { 0, 0, 0 };
	static const Mix some = { 5, 3, 2 };
	IbltSketch *empty = sketch_of(&none, 24);
	IbltSketch *single = sketch_of(&some, 1);
	IbltSketch *crafted = sketch_of(&none, 1008);
	IbltParams params = make_params(IBLT_KEY_UNTYPED, 0, 4, 24, false, 1);
	IbltSketch *untyped = sketch_new(&params);
	double bound;
	uint64_t rows_bound;

	check(iblt_core_estimate_keys(empty, &bound) == 0 && bound == 0, "an empty sketch has keys");
	check(iblt_core_estimate_keys(untyped, &bound) == 0 && bound == 0, "a template has keys");
	check(iblt_core_estimate_keys(single, &bound) ==
				  (double) iblt_core_estimate(single, &rows_bound) && bound == (double) rows_bound,
		  "of single cells the keys are not the rows");
	for (uint32_t i = 0; i < crafted->ncells; i++)
		iblt_store32(iblt_cell(crafted, i), counts[i % 3]);
	crafted->rows = INT64_MIN;
	check(isfinite(iblt_core_net_squares(crafted)) && iblt_core_net_squares(crafted) > 1e18,
		  "crafted counts give %g", iblt_core_net_squares(crafted));
	check(isfinite(iblt_core_estimate_keys(crafted, &bound)) && isfinite(bound),
		  "crafted counts are not estimated");
	checked("no rows, single cells and crafted counts");
}

TAP_MAIN(test_squares, test_keys, test_dropped, test_duplicates, test_edges)
