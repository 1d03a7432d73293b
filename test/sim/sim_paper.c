/*
 * sim_paper.c
 *		Goodrich & Mitzenmacher 2011, "Invertible Bloom Lookup Tables":
 *		thresholds, recovery around them, GET, keys with several values.
 *
 * The number of cells in the run with several values is not one that was taken
 * from the paper: 80,000 is what its GET run has, and the one of the paper's
 * sizes with which the counts it gives come out.  What its Figure 2 and Table 2
 * measure is not compared; the table "several" shows the same kind of run for
 * more keys with several values.
 */
#include "graph.h"
#include "paper_table.h"

#define PAPER_K 5

/* --- Table 1: thresholds -------------------------------------------------- */

#define FIRST_K 3
#define LAST_K 7

/*
 * The last is .0021 above what its own equation gives, 1.7189.  The core's
 * success rate is held against both.
 */
static const double published_threshold[] = { 1.222, 1.295, 1.425, 1.570,
											  1.721 };
static const double published_slip[] = { 0, 0, 0, 0, 0.0021 };

/*
 * Cells for each key at the threshold: the minimum over x of
 * -ln(1 - x) / x^(k-1) is that of keys for each cell of a subtable.
 */
static double
density_evolution(int k)
{
	double least = INFINITY;
	int i;

	for (i = 1; i < 1000000; i++)
	{
		double x = i * 1e-6;

		least = fmin(least, -log1p(-x) / pow(x, k - 1));
	}
	return k / least;
}

/* Does the core decode n keys from an empty table? */
static bool
core_decodes(int k, uint32_t s, uint32_t n, uint64_t seed, uint64_t first)
{
	IbltSketch *sketch = sim_sketch(k, s, false, seed);
	uint32_t recovered;
	bool complete;

	sim_add_range(sketch, first, n, 1);
	complete = sim_peel(sketch, &recovered);
	sim_sketch_free(sketch);
	return complete && recovered == n;
}

static int
compare_numbers(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *) a;
	uint32_t y = *(const uint32_t *) b;

	return x < y ? -1 : x > y;
}

typedef struct Crossing
{
	double keys;			 /* with which half of the tables decode */
	double error;			 /* standard error of this */
	uint32_t contradictions; /* trials in which the core did otherwise */
} Crossing;

/*
 * With how many keys does the core's success rate cross 1/2?  In each trial
 * keys are added one by one; the graph says with which it first fails, and the
 * core has to decode one key less and to fail with that.
 */
static Crossing
find_crossing(int k, uint32_t s, uint32_t trials)
{
	double expected = k * (double) s / density_evolution(k);
	uint32_t *first_failure = sim_take(trials * sizeof(uint32_t));
	SimSample sample = { 0 };
	Crossing crossing = { 0 };
	Graph g;
	uint32_t i;

	graph_open(&g, k, s, (uint32_t) (expected + 6 * sqrt(s) + 6));
	for (i = 0; i < trials; i++)
	{
		uint64_t seed = tap_random();
		uint64_t first = tap_random();
		uint32_t d;

		graph_draw(&g, seed, first);
		d = first_failure[i] = graph_first_failure(&g);
		sim_sample_add(&sample, d);
		if (!core_decodes(k, s, d - 1, seed, first) ||
			core_decodes(k, s, d, seed, first))
			crossing.contradictions++;
	}
	graph_close(&g);
	qsort(first_failure, trials, sizeof(uint32_t), compare_numbers);
	crossing.keys =
		(first_failure[(trials - 1) / 2] + first_failure[trials / 2]) / 2.0 -
		0.5;
	crossing.error = sqrt(M_PI / 2) * sim_sd(&sample) / sqrt(trials);
	free(first_failure);
	return crossing;
}

/*
 * The crossing is at lambda s - b s^(1/3) keys up to a constant.  Of two sizes
 * with s' = 8 s, the combination D' - 2 D = 6 lambda s is free of b.
 */
static void
threshold(int k, FILE *table)
{
	double published = published_threshold[k - FIRST_K];
	double slip = published_slip[k - FIRST_K];
	double theory = density_evolution(k);
	uint32_t s = sim_trials(504, 1008);
	Crossing small = find_crossing(k, s, sim_trials(60, 400));
	Crossing large = find_crossing(k, 8 * s, sim_trials(16, 160));
	double lambda = (large.keys - 2 * small.keys) / (6.0 * s);
	double ours = k / lambda;
	double error = ours / lambda / (6.0 * s) *
				   sqrt(pow(large.error, 2) + 4 * pow(small.error, 2));
	char what[100];

	snprintf(what, sizeof what, "c_%d by density evolution", k);
	sim_agree(what, theory, published, 0.00051 + slip);
	snprintf(what, sizeof what,
			 "c_%d where the core decodes half of the tables", k);
	sim_agree(what, ours, published, SIM_SIGMAS * error + 0.0005 + slip);
	snprintf(what, sizeof what, "c_%d of the core and by density evolution", k);
	sim_agree(what, ours, theory, SIM_SIGMAS * error);
	tap_ok(small.contradictions + large.contradictions == 0,
		   "k = %d: the core decodes exactly what the graph allows", k);
	sim_row(table, "%d\t%.3f\t%.4f\t%.4f\t%.4f", k, published, theory, ours,
			error);
}

static void
run_thresholds(void)
{
	FILE *table =
		sim_table("thresholds", "k\tpublished\tdensity_evolution\tcore\terror");
	int k;

	for (k = FIRST_K; k <= LAST_K; k++)
		threshold(k, table);
	sim_table_close(table);
}

/* --- Figure 1: recovery around the threshold ------------------------------ */

/*
 * The law of finite tables, mean = lambda s - b s^(1/3) + c, for k = 5; the
 * constants are in the head of src/core/sizing_table.h.
 */
static double
law_keys(double s)
{
	return 3.50890 * s - 1.2824 * cbrt(s) + 0.6256;
}

/* The cells with which half of the tables of n keys decode, by that law. */
static double
law_cells(double n)
{
	double low = 0;
	double high = n;
	int i;

	for (i = 0; i < 60; i++)
	{
		double middle = (low + high) / 2;

		if (law_keys(middle) < n)
			low = middle;
		else
			high = middle;
	}
	return PAPER_K * high;
}

typedef struct Curve
{
	uint32_t n;		/* keys */
	uint32_t first; /* cells */
	uint32_t step;
	uint32_t points;
	uint32_t trials;	  /* for each point */
	uint32_t core_trials; /* of these with the core */
	uint32_t threshold;	  /* cells, published */
} Curve;

/* The fraction of tables that do not decode, with so many cells. */
static double
incomplete_fraction(const Curve *curve, uint32_t cells,
					uint32_t *contradictions)
{
	uint32_t s = cells / PAPER_K;
	uint32_t failures = 0;
	uint32_t i;
	Graph g;

	graph_open(&g, PAPER_K, s, curve->n);
	for (i = 0; i < curve->trials; i++)
	{
		uint64_t seed = tap_random();
		uint64_t first = tap_random();
		bool complete;

		graph_draw(&g, seed, first);
		complete = graph_peel(&g) == 0;
		failures += !complete;
		if (i < curve->core_trials &&
			core_decodes(PAPER_K, s, curve->n, seed, first) != complete)
			(*contradictions)++;
	}
	graph_close(&g);
	return (double) failures / curve->trials;
}

/* How many cells a table needs, as the distribution that the points show. */
typedef struct Drop
{
	double mean;
	double error; /* standard error of the mean */
	double sd;
	double first; /* fraction incomplete at the first point and the last */
	double last;
	uint32_t contradictions;
} Drop;

/*
 * The fractions fall from 1 to 0 over the points, so that their sums give mean
 * and deviation, without a model of the shape.
 */
static Drop
find_drop(const Curve *curve, FILE *table)
{
	Drop drop = { 0 };
	double sum = 0;
	double moment = 0;
	double variance = 0;
	uint32_t i;

	for (i = 0; i < curve->points; i++)
	{
		uint32_t cells = curve->first + i * curve->step;
		double p = incomplete_fraction(curve, cells, &drop.contradictions);

		if (i == 0)
			drop.first = p;
		drop.last = p;
		sum += p;
		moment += (2 * i + 1) * p;
		variance += p * (1 - p) / curve->trials;
		sim_row(table, "%u\t%u\t%.3f\t%.3f", curve->n, cells, 100 * p,
				100 * sim_proportion_error(p, curve->trials));
	}
	sim_row(table, "\n");
	drop.mean = curve->first + curve->step * (sum - 0.5);
	drop.error = curve->step * sqrt(variance);
	drop.sd = curve->step * sqrt(moment - sum * sum);
	return drop;
}

static void
recovery_curve(const Curve *curve, FILE *table)
{
	Drop drop = find_drop(curve, table);
	char what[100];

	snprintf(what, sizeof what,
			 "%u keys: cells where half is incomplete, "
			 "within a deviation of the drop",
			 curve->n);
	sim_agree(what, drop.mean, curve->threshold,
			  drop.sd + SIM_SIGMAS * drop.error);
	snprintf(what, sizeof what,
			 "%u keys: the same, by the law of finite tables", curve->n);
	sim_agree(what, drop.mean, law_cells(curve->n),
			  SIM_SIGMAS * drop.error + 0.05 * drop.sd);
	tap_ok(drop.first > 0.99 && drop.last < 0.01,
		   "%u keys: sharp, from %.1f to %.1f %% incomplete, the deviation is "
		   "%.2f %% of the cells",
		   curve->n, 100 * drop.first, 100 * drop.last,
		   100 * drop.sd / drop.mean);
	tap_ok(drop.contradictions == 0,
		   "%u keys: the core decodes exactly what the graph allows, %u trials",
		   curve->n, curve->points * curve->core_trials);
}

static void
run_recovery(void)
{
	static const Curve quick[] = { { 10000, 14000, 100, 7, 300, 10, 14250 },
								   { 100000, 141700, 400, 5, 20, 2, 142500 } };
	static const Curve full[] = { { 10000, 14000, 50, 12, 4000, 50, 14250 },
								  { 100000, 141700, 200, 10, 400, 4, 142500 } };
	FILE *table =
		sim_table("recovery", "keys\tcells\tincomplete_percent\terror");
	int i;

	for (i = 0; i < 2; i++)
		recovery_curve(sim_options.quick ? &quick[i] : &full[i], table);
	sim_table_close(table);
}

/* --- GET, with duplicates and extraneous deletions ------------------------ */

#define GET_KEYS 10000
#define GET_CELLS 80000
#define GET_ODD 500 /* duplicates, and as many deletions */
#define GET_PUBLISHED 97.83

/*
 * GET finds a key that is alone in one of its k cells:
 * 1 - (1 - (1 - 1/s)^(n-1))^k.
 */
static double
get_theory(double n, double s, int k)
{
	return 1 - pow(1 - pow(1 - 1 / s, n - 1), k);
}

/*
 * The paper does not make it known to us how many of its keys were odd, and
 * GET does not care: here 500 are inserted twice and 500 deleted only.
 */
static double
get_trial(bool *listed)
{
	IbltSketch *sketch =
		sim_sketch(PAPER_K, GET_CELLS / PAPER_K, true, tap_random());
	uint64_t first = tap_random();
	uint32_t found = 0;
	uint32_t recovered;
	uint32_t i;

	for (i = 0; i < GET_KEYS; i++)
	{
		uint64_t value = i;

		sim_add(sketch, first + i, value, i < GET_ODD ? -1 : 1);
		if (i >= GET_KEYS - GET_ODD)
			sim_add(sketch, first + i, value, 1);
	}
	iblt_core_seal(sketch);
	for (i = 0; i < GET_KEYS; i++)
	{
		IbltEntry entry;
		uint8_t key[8];
		int count = i < GET_ODD ? -1 : i < GET_KEYS - GET_ODD ? 1 : 2;

		iblt_store64(key, first + i);
		found += iblt_core_get(sketch, key, &entry) == IBLT_PRESENT &&
				 entry.count == count && entry.has_value && entry.value == i;
	}
	*listed = sim_peel(sketch, &recovered) && recovered == GET_KEYS;
	sim_sketch_free(sketch);
	return 100.0 * found / GET_KEYS;
}

static void
run_get(void)
{
	uint32_t trials = sim_trials(10, 400);
	double theory = 100 * get_theory(GET_KEYS, GET_CELLS / PAPER_K, PAPER_K);
	SimSample found = { 0 };
	uint32_t complete = 0;
	double error;
	uint32_t i;
	FILE *table = sim_table("get", "published\ttheory\tours\terror");

	for (i = 0; i < trials; i++)
	{
		bool listed;

		sim_sample_add(&found, get_trial(&listed));
		complete += listed;
	}
	error = sim_sd(&found) / sqrt(trials);
	sim_agree("GET finds, % of the keys", sim_mean(&found), GET_PUBLISHED,
			  SIM_SIGMAS * error + 0.005);
	sim_agree("GET finds, % by theory", sim_mean(&found), theory,
			  SIM_SIGMAS * error);
	sim_agree("complete listings, %", 100.0 * complete / trials, 100, 0);
	sim_row(table, "%.2f\t%.3f\t%.3f\t%.3f", GET_PUBLISHED, theory,
			sim_mean(&found), error);
	sim_table_close(table);
}

/* --- keys with several values --------------------------------------------- */

#define SEVERAL_KEYS 10000
#define SEVERAL_TRIALS 20000 /* of the paper */

typedef struct Several
{
	uint32_t several; /* keys with two values */
	uint32_t trials;
	uint32_t core_trials;	 /* of these with the core as well */
	uint32_t paper_complete; /* trials in which all others were listed */
	uint64_t paper_missing;	 /* other keys not listed */
	uint32_t core_tried;
	uint32_t core_complete; /* and these with their several values */
} Several;

/*
 * The expected number of other keys that the paper's structure misses: those
 * whose k cells all hold a key with several values.
 */
static double
several_theory(double several, double cells)
{
	double s = cells / PAPER_K;

	return (SEVERAL_KEYS - several) * pow(1 - pow(1 - 1 / s, several), PAPER_K);
}

/* The paper's structure: how many of the keys with one value are not listed? */
static uint32_t
several_paper(PaperTable *table, uint32_t several, uint64_t seed, int64_t first)
{
	uint32_t index[IBLT_MAX_HASHES];
	uint32_t i;

	paper_clear(table, seed);
	for (i = 0; i < SEVERAL_KEYS; i++)
	{
		paper_add(table, first + i, (int64_t) (tap_random() >> 32), 1, index);
		if (i < several)
			paper_add(table, first + i, (int64_t) (tap_random() >> 32), 1,
					  index);
	}
	paper_list(table);
	return SEVERAL_KEYS - several - table->listed;
}

/* The core: are all keys listed? */
static bool
several_core(uint32_t several, uint32_t s, uint64_t seed, int64_t first)
{
	IbltSketch *sketch = sim_sketch(PAPER_K, s, true, seed);
	uint32_t recovered;
	bool complete;

	sim_add_range(sketch, (uint64_t) first, SEVERAL_KEYS, 1);
	sim_add_range(sketch, (uint64_t) first, several, 1);
	complete = sim_peel(sketch, &recovered);
	sim_sketch_free(sketch);
	return complete && recovered == SEVERAL_KEYS;
}

/* The core also takes every trial in which the paper's structure missed a key. */
static void
several_trials(Several *run, PaperTable *table)
{
	uint32_t i;

	for (i = 0; i < run->trials; i++)
	{
		uint64_t seed = tap_random();
		int64_t first = (int64_t) (tap_random() >> 33);
		uint32_t missing = several_paper(table, run->several, seed, first);

		run->paper_missing += missing;
		run->paper_complete += missing == 0;
		if (missing == 0 && i >= run->core_trials)
			continue;
		run->core_tried++;
		run->core_complete += several_core(run->several, table->s, seed, first);
	}
}

/* Holds one run against the published count, if there is one, and theory. */
static void
several_report(const Several *run, double published, FILE *table)
{
	double n = run->trials;
	double missing = several_theory(run->several, GET_CELLS);
	double theory = exp(-missing);
	double error = sim_proportion_error(theory, n);
	double ours = run->paper_complete / n;
	char what[120];

	snprintf(what, sizeof what,
			 "paper's structure, %u keys with two values: "
			 "trials of 20,000 with all others listed",
			 run->several);
	if (published > 0)
		sim_agree(what, SEVERAL_TRIALS * ours, published,
				  SIM_SIGMAS * sqrt(pow(error * SEVERAL_TRIALS, 2) +
									SEVERAL_TRIALS * theory * (1 - theory)) +
					  1);
	snprintf(what, sizeof what,
			 "paper's structure, %u keys with two values: "
			 "others not listed, by theory",
			 run->several);
	sim_agree(what, run->paper_missing / n, missing,
			  SIM_SIGMAS * sqrt(2 * missing / n) + 4 / n);
	tap_ok(run->core_complete == run->core_tried,
		   "weighted cells, %u keys with "
		   "two values: all listed in %u of %u trials",
		   run->several, run->core_complete, run->core_tried);
	sim_row(table, "%u\t%.0f\t%.5f\t%.5f\t%.5f\t%.5f\t%.5f", run->several, n,
			ours, theory, run->paper_missing / n, missing,
			(double) run->core_complete / run->core_tried);
}

static void
run_several(void)
{
	static const struct
	{
		uint32_t several;
		uint32_t quick;
		uint32_t full;
		double published; /* 0: none */
	} runs[] = { { 500, 2500, SEVERAL_TRIALS, 19996 },
				 { 1000, 2500, SEVERAL_TRIALS, 19872 },
				 { 2000, 60, 800, 0 },
				 { 3000, 0, 400, 0 },
				 { 4000, 0, 400, 0 },
				 { 5000, 0, 400, 0 } };
	PaperTable paper;
	size_t i;
	FILE *table = sim_table("several", "keys_with_two_values\ttrials\t"
									   "paper_complete\ttheory\tpaper_missing\t"
									   "theory_missing\tours_complete");

	paper_open(&paper, PAPER_K, GET_CELLS / PAPER_K);
	for (i = 0; i < sizeof runs / sizeof runs[0]; i++)
	{
		Several run = { 0 };

		run.several = runs[i].several;
		run.trials = sim_trials(runs[i].quick, runs[i].full);
		run.core_trials = sim_trials(4, 100);
		if (run.trials == 0)
			continue;
		several_trials(&run, &paper);
		several_report(&run, runs[i].published, table);
	}
	printf("# with 15,000 cells the paper's structure would list all others in "
		   "%.0f of 20,000 trials at 500 keys: its run had 80,000\n",
		   SEVERAL_TRIALS * exp(-several_theory(500, 15000)));
	paper_close(&paper);
	sim_table_close(table);
}

int
main(int argc, char **argv)
{
	static const SimExperiment experiments[] = { { "thresholds",
												   run_thresholds },
												 { "recovery", run_recovery },
												 { "get", run_get },
												 { "several", run_several },
												 { NULL, NULL } };

	return sim_main(argc, argv, experiments);
}
