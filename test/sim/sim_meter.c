/*
 * sim_meter.c
 *		How well the size of a difference is estimated: the 512 bytes of the
 *		meter, and the strata estimator of Eppstein, Goodrich, Uyeda & Varghese
 *		2011 with 32 strata of 80 cells and four hashes.
 *
 * Of d rows that differ the meter's estimate has the relative standard
 * deviation sqrt(2 (1 - 1/d) / 256) (Thorup & Zhang 2004), and its bound is to
 * cover d in 99 % of cases.  The strata have no formula: they are held against
 * the deviations that the project's design computed for them.
 */
#include "../../src/core/strata.h"
#include "sim.h"

#define BUDGET_QUICK 7e6 /* rows through the core, for each d */
#define BUDGET_FULL 3e8
#define COVERED 0.985 /* 99 %, allowing for that it is one number */

/* 10, 30, 100 ... 10^6; the quick form leaves out every second. */
#define DIFFERENCES 11
#define STEP (sim_options.quick ? 2 : 1)

static uint32_t
nth_difference(int i)
{
	return (uint32_t) ((i % 2 == 0 ? 1 : 3) * pow(10, 1 + i / 2) + 0.5);
}

/* Mean and deviation of a sample, with the standard error of the deviation. */
typedef struct Moments
{
	double mean;
	double sd;
	double error;
} Moments;

static Moments
find_moments(const double *x, uint32_t n)
{
	Moments moments = { 0, 0, 0 };
	double second = 0;
	double fourth = 0;

	for (uint32_t i = 0; i < n; i++)
		moments.mean += x[i] / n;
	for (uint32_t i = 0; i < n; i++)
	{
		double square = pow(x[i] - moments.mean, 2);

		second += square / n;
		fourth += square * square / n;
	}
	moments.sd = sqrt(second);
	/* the kurtosis of one value is what rounding makes of it */
	if (second > 0)
		moments.error =
			moments.sd / 2 * sqrt(fmax(0, fourth / (second * second) - 1) / n);
	return moments;
}

/* --- the meter ------------------------------------------------------------ */

/* The meter of d rows, half of them of either side, through the core's rows. */
static void
meter_of_rows(uint8_t *meter, uint32_t d)
{
	IbltSketch *sketch = sim_sketch(4, 1, false, tap_random());
	uint64_t first = tap_random();

	sim_add_range(sketch, first, d / 2, 1);
	sim_add_range(sketch, first + d / 2, d - d / 2, -1);
	memcpy(meter, sketch->meter, 2 * IBLT_METER_BUCKETS);
	sim_sketch_free(sketch);
}

/* The same with random words in place of the rows' hashes: ten times faster. */
static void
meter_of_words(uint8_t *meter, uint32_t d)
{
	memset(meter, 0, 2 * IBLT_METER_BUCKETS);
	for (uint32_t i = 0; i < d; i++)
		iblt_meter_add(meter, tap_random(), 1);
}

/*
 * Trials of the meter at d; the first go through the core's rows, and the rest,
 * where d is large, through random words.
 */
static double
meter_trials(uint32_t d, uint32_t trials, double *relative)
{
	double budget = sim_options.quick ? BUDGET_QUICK : BUDGET_FULL;
	uint32_t covered = 0;

	for (uint32_t i = 0; i < trials; i++)
	{
		uint8_t meter[2 * IBLT_METER_BUCKETS];

		if ((double) d * (i + 1) <= budget)
			meter_of_rows(meter, d);
		else
			meter_of_words(meter, d);
		relative[i] = (double) iblt_core_meter_estimate(meter) / d;
		covered += iblt_core_meter_bound(meter) >= d;
	}
	return (double) covered / trials;
}

static void
meter_point(uint32_t d, FILE *table)
{
	uint32_t trials =
		sim_options.quick ? (uint32_t) fmin(700, 5e7 / d) : 10000;
	double *relative = sim_take(trials * sizeof *relative);
	double theory = sqrt(2 * (1 - 1.0 / d) / IBLT_METER_BUCKETS);
	double covered = meter_trials(d, trials, relative);
	double slack = sim_options.quick
					   ? SIM_SIGMAS * sim_proportion_error(COVERED, trials)
					   : 0;
	Moments moments = find_moments(relative, trials);

	free(relative);
	sim_agree(moments.mean, 1, SIM_SIGMAS * theory / sqrt(trials),
		"meter at %u: mean of estimate / d", d);
	sim_agree(moments.sd, theory, SIM_SIGMAS * moments.error, "meter at %u: relative deviation", d);
	tap_ok(covered >= COVERED - slack,
		   "meter at %u: the bound covers %.2f %% of "
		   "%u trials | at least %.2f",
		   d, 100 * covered, trials, 100 * (COVERED - slack));
	sim_row(table, "%u\t%u\t%.5f\t%.5f\t%.5f\t%.5f\t%.4f", d, trials,
			moments.mean - 1, moments.sd, moments.error, theory, covered);
}

static void
run_meter(void)
{
	FILE *table = sim_table("meter", "differences\ttrials\tbias\t"
									 "deviation\terror\ttheory\tcovered");

	for (int i = 0; i < DIFFERENCES; i += STEP)
		meter_point(nth_difference(i), table);
}

/* --- the strata estimator ------------------------------------------------- */

#define STRATA 32
#define STRATA_K 4
#define STRATA_CELLS 20 /* in each of four subtables */
#define PAPER_CELL 12	/* bytes of a cell in the paper */

/*
 * As given for the size above: deviations, rounded to two places.  From how many
 * trials is not said; 200 are assumed, that is a standard error of 1/20.
 */
#define STRATA_AT_100 0.04
#define STRATA_LEAST 0.11
#define STRATA_MOST 0.14
#define STRATA_ROUNDING 0.005
#define STRATA_ERROR (1 / 20.0)

static IbltParams
strata_params(uint64_t seed)
{
	IbltParams params = { 0 };

	params.strata = STRATA;
	params.hashes = STRATA_K;
	params.subtables = (1u << STRATA_K) - 1;
	params.subtable_cells = STRATA_CELLS;
	params.key.kind = IBLT_KEY_INTEGER;
	params.key.limbs = 1;
	params.seed = seed;
	return params;
}

/* The core's estimate for d keys. */
static double
strata_estimate(uint32_t d, uint8_t *bytes)
{
	static IbltSketch strata;
	static IbltPeeler peeler;
	IbltParams params = strata_params(tap_random());
	uint64_t first = tap_random();
	uint64_t keys;

	iblt_core_init(&strata, &params, bytes);
	for (uint32_t i = 0; i < d; i++)
	{
		uint8_t key[8];

		iblt_store64(key, first + i);
		iblt_core_strata_add_row(&strata, key, 8, tap_random(), i & 1 ? -1 : 1);
	}
	if (iblt_core_strata_estimate(&strata, &peeler, bytes + iblt_core_size(&params),
								  &keys) == IBLT_PEEL_INCONSISTENT)
		return NAN;
	return (double) keys;
}

/* Bytes of an estimator, and what decoding takes. */
static void
strata_sizes(size_t *size, size_t *scratch)
{
	static IbltSketch strata;
	IbltParams params = strata_params(0);
	uint8_t *bytes;

	*size = iblt_core_size(&params);
	bytes = sim_take(*size);
	iblt_core_init(&strata, &params, bytes);
	*scratch = iblt_core_strata_scratch_size(&strata);
	free(bytes);
}

static void
strata_compare(uint32_t d, const Moments *ours)
{
	double low = d < 100 ? 0 : d < 1000 ? STRATA_AT_100 : STRATA_LEAST;
	double high = d <= 100 ? STRATA_AT_100 : STRATA_MOST;
	double error = sqrt(pow(ours->error, 2) + pow(STRATA_ERROR * ours->sd, 2));

	sim_within(ours->sd, low, high, SIM_SIGMAS * error + STRATA_ROUNDING,
		"strata at %u: relative deviation", d);
}

static void
strata_point(uint32_t d, FILE *table)
{
	uint32_t trials =
		(uint32_t) (sim_options.quick ? fmax(40, fmin(200, 5e6 / d))
									  : fmax(200, fmin(4000, 3e8 / d)));
	double *relative = sim_take(trials * sizeof *relative);
	size_t size;
	size_t scratch;
	uint8_t *bytes;
	Moments moments;

	strata_sizes(&size, &scratch);
	bytes = sim_take(size + scratch);
	for (uint32_t i = 0; i < trials; i++)
		relative[i] = strata_estimate(d, bytes) / d;
	moments = find_moments(relative, trials);
	free(bytes);
	free(relative);
	strata_compare(d, &moments);
	printf("# strata at %u: mean of estimate / d %.4f, %u trials\n", d,
		   moments.mean, trials);
	sim_row(table, "%u\t%u\t%.5f\t%.5f\t%.5f", d, trials, moments.mean - 1,
			moments.sd, moments.error);
}

static void
run_strata(void)
{
	FILE *table = sim_table("strata", "differences\ttrials\tbias\t"
									  "deviation\terror");
	size_t size;
	size_t scratch;

	for (int i = 0; i < DIFFERENCES; i += STEP)
		strata_point(nth_difference(i), table);
	strata_sizes(&size, &scratch);
	printf("# bytes: meter %d, strata %zu, strata with the paper's cells of %d "
		   "bytes %d\n",
		   2 * IBLT_METER_BUCKETS, size, PAPER_CELL,
		   STRATA * STRATA_K * STRATA_CELLS * PAPER_CELL);
}

SIM_MAIN({ "meter", run_meter }, { "strata", run_strata })
