/*
 * sim.h
 *		What the simulations share: options, statistics, tables, sketches.
 *
 * Each sim_*.c reproduces published results with the core's own code and
 * prints, as TAP, ours beside theirs with the tolerance between them:
 *
 *		sim_x [--quick | --full] [--out DIR] [EXPERIMENT ...]
 *
 * --quick takes few trials (it is part of the tests); --full takes at least as
 * many as were published, where the usual run takes fewer; --out writes a table
 * of tab-separated values for each experiment, from which plot.gp draws the
 * figures.  Every experiment has a random stream of its own, derived from the
 * seed (IBLT_TEST_SEED), so that it can be repeated alone.
 *
 * A tolerance is SIM_SIGMAS standard errors, ours and theirs together, plus
 * the rounding of what was published.
 */
#ifndef IBLT_SIM_H
#define IBLT_SIM_H

#include <math.h>
#include <time.h>

#include "../../src/core/cell.h"
#include "../../src/core/get.h"
#include "../../src/core/meter.h"
#include "../../src/core/peel.h"
#include "../../src/core/sizing.h"
#include "../unit/tap.h"

/* A right result is outside by accident in 1 of 16,000 comparisons. */
#define SIM_SIGMAS 4.0
#define SIM_RARE 3.0 /* events more, where few are expected */

typedef struct SimOptions
{
	bool quick;
	bool full;
	const char *dir; /* of the tables; NULL: none are written */
	int nwanted;
	char **wanted; /* experiments; none: all */
} SimOptions;

static SimOptions sim_options;
static FILE *sim_tables[2]; /* of the experiment that runs */

typedef struct SimExperiment
{
	const char *name;
	void (*run)(void);
} SimExperiment;

static inline uint32_t
sim_trials(uint32_t quick, uint32_t usual)
{
	return sim_options.quick ? quick : usual;
}

/* The same where the usual run takes less time than the published trials. */
static inline uint32_t
sim_trials_of(uint32_t quick, uint32_t usual, uint32_t full)
{
	return sim_options.full ? full : sim_trials(quick, usual);
}

/* --- tables --------------------------------------------------------------- */

/* Opens the table DIR/name.tsv until the experiment ends; NULL when none are written. */
static inline FILE *
sim_table(const char *name, const char *columns)
{
	char path[1024];
	FILE *table;

	if (sim_options.dir == NULL)
		return NULL;
	snprintf(path, sizeof path, "%s/%s.tsv", sim_options.dir, name);
	table = fopen(path, "w");
	if (table == NULL)
		tap_bail("cannot write %s", path);
	fprintf(table, "# seed %" PRIu64 "\n%s\n", tap_seed(), columns);
	return sim_tables[sim_tables[0] != NULL] = table;
}

static inline void TAP_PRINTF(2, 3) sim_row(FILE *table, const char *fmt, ...)
{
	va_list ap;

	if (table == NULL)
		return;
	va_start(ap, fmt);
	vfprintf(table, fmt, ap);
	va_end(ap);
	putc('\n', table);
}

static inline void
sim_close_tables(void)
{
	for (int i = 0; i < 2; i++)
	{
		if (sim_tables[i] != NULL && fclose(sim_tables[i]) != 0)
			tap_bail("cannot write a table");
		sim_tables[i] = NULL;
	}
}

/* --- comparisons ---------------------------------------------------------- */

/* Is ours between two numbers, to a tolerance?  Written so that NaN is not. */
static inline bool TAP_PRINTF(5, 6)
sim_within(double ours, double low, double high, double tolerance, const char *fmt, ...)
{
	bool good = ours >= low - tolerance && ours <= high + tolerance;
	char what[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	tap_ok(good, "%s: ours %.6g | theirs %.6g to %.6g | tolerance %.2g", what, ours, low, high,
		   tolerance);
	return good;
}

/* Halves low..high so many times: is a number in the middle, by its name, too low? */
#define SIM_HALVE(times, low, high, middle, is_low) \
	for (int halved = 0; halved < (times); halved++) \
	{ \
		double middle = ((low) + (high)) / 2; \
		if (is_low) \
			(low) = middle; \
		else \
			(high) = middle; \
	}

#define sim_agree(ours, theirs, ...) sim_within(ours, theirs, theirs, __VA_ARGS__)

/* The standard error of a proportion p among n. */
static inline double
sim_proportion_error(double p, double n)
{
	return sqrt(p * (1 - p) / n);
}

/*
 * The tolerance for the proportion of rare events among n: with few of them the
 * distribution has a longer tail than the normal one, by some three events.
 */
static inline double
sim_proportion_tolerance(double p, double n)
{
	return SIM_SIGMAS * sim_proportion_error(p, n) + SIM_RARE / n;
}

/* The same for the difference of two proportions, with p expected of both. */
static inline double
sim_proportions_tolerance(double p, double n, double others)
{
	return SIM_SIGMAS * sqrt(p * (1 - p) * (1 / n + 1 / others)) + SIM_RARE / n + SIM_RARE / others;
}

/* Sums of powers of a sample, from which its moments follow. */
typedef struct SimSample
{
	double n;
	double sum[5];
} SimSample;

static inline void
sim_sample_add(SimSample *sample, double x)
{
	double power = 1;

	sample->n++;
	for (int i = 1; i < 5; i++)
		sample->sum[i] += power *= x;
}

static inline double
sim_mean(const SimSample *sample)
{
	return sample->sum[1] / sample->n;
}

static inline double
sim_sd(const SimSample *sample)
{
	double mean = sim_mean(sample);

	return sqrt(fmax(0, sample->sum[2] / sample->n - mean * mean));
}

/* The standard error of that deviation, by the fourth moment. */
static inline double
sim_sd_error(const SimSample *sample)
{
	double m = sim_mean(sample);
	double second = pow(sim_sd(sample), 2);
	double fourth = (sample->sum[4] - 4 * m * sample->sum[3] + 6 * m * m * sample->sum[2]) / sample->n -
		3 * pow(m, 4);

	return second > 0 ? sqrt(second * fmax(0, fourth / (second * second) - 1) / sample->n) / 2 : 0;
}

static inline int
sim_compare_numbers(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *) a;
	uint32_t y = *(const uint32_t *) b;

	return x < y ? -1 : x > y;
}

/* --- sketches ------------------------------------------------------------- */

/*
 * Makes an empty sketch of integer keys.  Its size need not be on the ladder:
 * that is a matter of the format, and the published sizes are not.
 */
static inline IbltSketch *
sim_sketch(int k, uint32_t s, bool with_values, uint64_t seed)
{
	IbltSketch *sketch = take_zeros(sizeof *sketch);
	IbltParams params = {.hashes = k, .subtables = (1u << k) - 1, .subtable_cells = s,
		.key = {.kind = IBLT_KEY_INTEGER, .limbs = 1}, .seed = seed,
		.value = {.kind = with_values ? IBLT_KEY_INTEGER : IBLT_KEY_UNTYPED, .limbs = with_values}};

	iblt_core_init(sketch, &params, take_zeros(iblt_core_size(&params)));
	return sketch;
}

/* A key that no field element stands for would need 10^17 rows. */
static inline void
sim_add(IbltSketch *sketch, uint64_t key, uint64_t y, int sign)
{
	uint8_t bytes[8];

	iblt_store64(bytes, key);
	if (iblt_core_add_row(sketch, bytes, y, sign) != IBLT_OK)
		tap_bail("a key is not representable");
}

/* Adds the keys first, first + 1, ... with one random value each. */
static inline void
sim_add_range(IbltSketch *sketch, uint64_t first, uint32_t n, int sign)
{
	for (uint32_t i = 0; i < n; i++)
		sim_add(sketch, first + i, tap_random(), sign);
}

/*
 * Peels a sketch, which is used up.  Returns whether it was complete, and how
 * many keys were reported.
 */
static inline bool
sim_peel(IbltSketch *sketch, uint32_t *recovered)
{
	static IbltPeeler peeler;
	void *scratch = take_zeros(iblt_core_peel_scratch_size(sketch));
	IbltEntry entry;
	bool complete;

	iblt_core_peel_start(&peeler, sketch, scratch);
	while (iblt_core_peel_next(&peeler, &entry))
		;
	complete = iblt_core_peel_result(&peeler) == IBLT_PEEL_COMPLETE;
	*recovered = peeler.recovered;
	return complete;
}

/*
 * Does the core list all keys first, first + 1, ... but those left, and say so
 * if there are such?  The first "several" keys have two values, which makes no
 * difference to it.
 */
static inline bool
sim_core_lists(int k, uint32_t s, uint32_t keys, uint32_t several, uint32_t left, uint64_t seed,
			   uint64_t first)
{
	IbltSketch *sketch = sim_sketch(k, s, true, seed);
	uint32_t listed;

	sim_add_range(sketch, first, keys, 1);
	sim_add_range(sketch, first, several, 1);
	return sim_peel(sketch, &listed) == (left == 0) && listed == keys - left;
}

/* --- the program ---------------------------------------------------------- */

static inline void
sim_parse(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
	{
		if (strcmp(argv[i], "--quick") == 0)
			sim_options.quick = true;
		else if (strcmp(argv[i], "--full") == 0)
			sim_options.full = true;
		else if (strcmp(argv[i], "--out") == 0 && i + 1 < argc)
			sim_options.dir = argv[++i];
		else if (argv[i][0] == '-')
		{
			fprintf(stderr, "usage: %s [--quick | --full] [--out DIR] " "[EXPERIMENT ...]\n",
					argv[0]);
			exit(2);
		}
		else
		{
			sim_options.wanted = argv + i;
			sim_options.nwanted = argc - i;
			return;
		}
	}
}

static inline bool
sim_is_wanted(const char *name)
{
	for (int i = 0; i < sim_options.nwanted; i++)
		if (strcmp(sim_options.wanted[i], name) == 0)
			return true;
	return sim_options.nwanted == 0;
}

/* The program that runs these experiments. */
#define SIM_MAIN(...)                                                          \
	int main(int argc, char **argv)                                            \
	{                                                                          \
		static const SimExperiment experiments[] = { __VA_ARGS__,              \
													 { NULL, NULL } };         \
		return sim_main(argc, argv, experiments);                              \
	}

/* Runs the experiments, up to one without a name; returns the exit status. */
static inline int
sim_main(int argc, char **argv, const SimExperiment *experiment)
{
	sim_parse(argc, argv);
	for (; experiment->name != NULL; experiment++)
	{
		clock_t start = clock();

		if (!sim_is_wanted(experiment->name))
			continue;
		tap_state = XXH3_64bits_withSeed(experiment->name, strlen(experiment->name), tap_seed());
		printf("# %s\n", experiment->name);
		experiment->run();
		sim_close_tables();
		printf("# %s: %.1f s of processor time\n", experiment->name,
			   (double) (clock() - start) / CLOCKS_PER_SEC);
	}
	return tap_done();
}

#endif /* IBLT_SIM_H */
