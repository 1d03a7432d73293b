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
 * Trials of the meter at d.  The first go through the core's rows, and the rest,
 * where d is large, through random words.
 */
static void
meter_point(uint32_t d, FILE *table)
{
	double budget = sim_options.quick ? BUDGET_QUICK : BUDGET_FULL;
	uint32_t trials = sim_options.quick ? (uint32_t) fmin(700, 5e7 / d) : 10000;
	double theory = sqrt(2 * (1 - 1.0 / d) / IBLT_METER_BUCKETS);
	double slack = sim_options.quick ? SIM_SIGMAS * sim_proportion_error(COVERED, trials) : 0;
	SimSample relative = {0};
	double covered = 0;

	TRIALS(i, trials)
	{
		uint8_t meter[2 * IBLT_METER_BUCKETS];

		if ((double) d * (double) (i + 1) <= budget)
			meter_of_rows(meter, d);
		else
			meter_of_words(meter, d);
		sim_sample_add(&relative, (double) iblt_core_meter_estimate(meter) / d);
		covered += (iblt_core_meter_bound(meter) >= d) / (double) trials;
	}
	sim_agree(sim_mean(&relative), 1, SIM_SIGMAS * theory / sqrt(trials),
		"meter at %u: mean of estimate / d", d);
	sim_agree(sim_sd(&relative), theory, SIM_SIGMAS * sim_sd_error(&relative) + 1e-7,
		"meter at %u: relative deviation", d);
	tap_ok(covered >= COVERED - slack, "meter at %u: the bound covers %.2f %% of %u trials | at least %.2f",
		   d, 100 * covered, trials, 100 * (COVERED - slack));
	sim_row(table, "%u\t%u\t%.5f\t%.5f\t%.5f\t%.5f\t%.4f", d, trials, sim_mean(&relative) - 1,
			sim_sd(&relative), sim_sd_error(&relative), theory, covered);
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

static void
strata_point(uint32_t d, FILE *table)
{
	static IbltSketch strata;
	IbltParams params = {.strata = STRATA, .hashes = STRATA_K, .subtables = (1u << STRATA_K) - 1,
		.subtable_cells = STRATA_CELLS, .key = {.kind = IBLT_KEY_INTEGER, .limbs = 1}};
	uint32_t trials = (uint32_t) (sim_options.quick ? fmax(40, fmin(200, 5e6 / d))
								  : fmax(200, fmin(4000, 3e8 / d)));
	double low = d < 100 ? 0 : d < 1000 ? STRATA_AT_100 : STRATA_LEAST;
	double high = d <= 100 ? STRATA_AT_100 : STRATA_MOST;
	SimSample relative = {0};

	TRIALS(i, trials)
	{
		uint64_t first;
		uint64_t keys;

		params.seed = tap_random();
		first = tap_random();
		iblt_core_init(&strata, &params, take(iblt_core_size(&params)));
		for (uint32_t j = 0; j < d; j++)
		{
			uint8_t key[8];

			iblt_store64(key, first + j);
			iblt_core_strata_add_row(&strata, key, 8, tap_random(), j & 1 ? -1 : 1);
		}
		if (iblt_core_strata_estimate(&strata, take(sizeof(IbltPeeler)),
									  take(iblt_core_strata_scratch_size(&strata)), &keys) ==
			IBLT_PEEL_INCONSISTENT)
			keys = UINT64_MAX;
		sim_sample_add(&relative, (double) keys / d);
	}
	sim_within(sim_sd(&relative), low, high, STRATA_ROUNDING + SIM_SIGMAS *
		sqrt(pow(sim_sd_error(&relative), 2) + pow(STRATA_ERROR * sim_sd(&relative), 2)),
		"strata at %u: relative deviation", d);
	printf("# strata at %u: mean of estimate / d %.4f, %u trials\n", d, sim_mean(&relative), trials);
	sim_row(table, "%u\t%u\t%.5f\t%.5f\t%.5f", d, trials, sim_mean(&relative) - 1, sim_sd(&relative),
			sim_sd_error(&relative));
}

static void
run_strata(void)
{
	FILE *table = sim_table("strata", "differences\ttrials\tbias\tdeviation\terror");

	for (int i = 0; i < DIFFERENCES; i += STEP)
		strata_point(nth_difference(i), table);
	printf("# bytes: meter %d, strata with the paper's cells of %d bytes %d\n", 2 * IBLT_METER_BUCKETS,
		   PAPER_CELL, STRATA * STRATA_K * STRATA_CELLS * PAPER_CELL);
}

SIM_MAIN({ "meter", run_meter }, { "strata", run_strata })
