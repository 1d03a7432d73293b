/*
 * sizing.c
 *		Compute src/core/sizing_table.h, or check it by fresh simulation.
 *
 *		sizing > src/core/sizing_table.h		compute (make sizing-table)
 *		sizing --quick							check a random part of it
 *
 * A set of keys is a stopping set if no cell holds just one of them.  Failures by
 * small stopping sets, of at most J keys, are bounded by the union bound, and those by
 * a large core by simulation, for large s by the scaling law of peeling.
 * doc/internals/mathematics.md has the method and its margins.
 *
 * Results are reproducible: every (k, s) has its own stream of random numbers
 * derived from the seed, and the number of trials depends on (k, s) only.
 */
#include "graph.h"
#include "theory.h"

#define MIN_K 3
#define MAX_K 8
#define KS (MAX_K - MIN_K + 1)
#define LADDER_PRODUCT UINT64_C(5284823040) /* 2^24 * 3^2 * 5 * 7 */
#define MAX_LADDER 256
#define FAILURES 4
#define GENERATOR_SEED UINT64_C(2011)

#define MAX_SPLIT 32			/* largest J */
#define MAX_SMALL THEORY_MAX_SMALL	/* largest d bounded without simulation */
#define CONFIDENCE_MISS 0.01	/* of a direct bound */
#define CONFIDENCE_Z 2.3264		/* its normal quantile */
#define TAIL_MARGIN 1.1			/* on the distance from mean to quantile */
#define FLAT_MARGIN 0.999		/* on the mean */
#define ALARM 1e-4				/* of a false alarm, for each check */
#define ALARM_Z 3.72			/* its normal quantile, rounded up */

#define DIRECT_TRIALS 1000000
#define DIRECT_EDGES 6e8		/* keys * k * trials for one (k, s) */
#define MODEL_EDGES 2e8
#define LEAST_TRIALS 40
#define ALL_SIZES_BELOW 2048	/* every ladder size up to here is simulated */
#define LAST_SIZE 327680

static const double failure_target[FAILURES] = { 1e-2, 1e-3, 1e-4, 1e-5 };

static uint32_t ladder[MAX_LADDER];
static int	ladder_sizes;
static uint32_t table[KS][FAILURES][MAX_LADDER];

/* ---------- random numbers ---------- */

/*
 * Start the stream that belongs to (seed, k, s).
 */
static void
random_start(uint64_t seed, int k, uint32_t s)
{
	/* nothing but the table goes to stdout */
	tap_seeded = 1;
	tap_state = seed;
	tap_state = tap_random() ^ ((uint64_t) k << 32 | s);
	tap_state = tap_random();
}

/* ---------- small stopping sets ---------- */

/*
 * J: the size between 4 and MAX_SPLIT with the least term in the union bound.
 */
static int
choose_split(const double *stopping, uint32_t d)
{
	int			best = 4;
	double		least = INFINITY;

	for (int j = 4; j <= MAX_SPLIT && (uint32_t) j <= d; j++)
	{
		double		term = theory_union_bound(stopping, d, j, j);

		if (term < least)
		{
			least = term;
			best = j;
		}
	}
	return best;
}

/* ---------- a little statistics ---------- */

static double
poisson_at_most(double mean, uint64_t count)
{
	double		term = exp(-mean);
	double		sum = term;

	for (uint64_t i = 1; i <= count; i++)
	{
		term *= mean / i;
		sum += term;
	}
	return sum;
}

/*
 * The mean of which a Poisson variable is at most `count` with probability
 * CONFIDENCE_MISS only: the upper confidence bound.  Wilson and Hilferty's
 * approximation above 500, where the sum would underflow.
 */
static double
poisson_upper(uint64_t count)
{
	double		low = count;
	double		high = count + 10 * sqrt(count + 1.0) + 20;

	if (count > 500)
	{
		double		n = count + 1.0;

		return n * pow(1 - 1 / (9 * n) + CONFIDENCE_Z / (3 * sqrt(n)), 3);
	}
	SIM_HALVE(60, low, high, middle, poisson_at_most(middle, count) > CONFIDENCE_MISS)
	return high;
}

/*
 * Is `count` so large that a Poisson variable of this mean reaches it with
 * probability ALARM at most?
 */
static bool
poisson_alarm(double mean, uint64_t count)
{
	if (count == 0)
		return false;
	if (mean > 500)
		return count > mean + ALARM_Z * sqrt(mean) + 3;
	return 1 - poisson_at_most(mean, count - 1) < ALARM;
}

/*
 * The z with P(standard normal > z) = p.
 */
static double
normal_quantile(double p)
{
	double		low = -10;
	double		high = 40;

	SIM_HALVE(80, low, high, middle, erfc(middle / sqrt(2)) / 2 > p)
	return high;
}

/* Weighted least squares of y = p0 u + p1 v, by accumulated sums. */
typedef struct Fit
{
	double		uu, uv, vv, uy, vy;
} Fit;

static void
fit_add(Fit *f, double u, double v, double y, double variance)
{
	f->uu += u * u / variance;
	f->uv += u * v / variance;
	f->vv += v * v / variance;
	f->uy += u * y / variance;
	f->vy += v * y / variance;
}

static void
fit_solve(const Fit *f, double *p0, double *p1)
{
	double		determinant = f->uu * f->vv - f->uv * f->uv;

	*p0 = (f->uy * f->vv - f->vy * f->uv) / determinant;
	*p1 = (f->vy * f->uu - f->uy * f->uv) / determinant;
}

/* ---------- one k ---------- */

typedef struct Sample
{
	uint32_t	s;
	int			split;
	uint32_t	trials;			/* 0: not simulated */
	uint32_t	keys;			/* of each trial */
	uint32_t   *at_most;		/* number of trials with D <= d, d <= keys */
	double		mean;
	double		sd;
	double		skewness;
} Sample;

typedef struct Model
{
	int			k;
	double		lambda;			/* threshold: keys for a cell of a subtable */
	double		b;
	double		c;
	double		alpha;
	double		alpha1;
	double		g;
} Model;

static uint32_t
model_starts(int k)
{
	return k == 3 ? 128 : k == 4 ? 64 : 36;
}

static bool
is_simulated(int step)
{
	uint32_t	s = ladder[step];

	return s <= ALL_SIZES_BELOW ||
		(s < LAST_SIZE && step % (s < 20000 ? 4 : 8) == 0) || s == LAST_SIZE;
}

/*
 * Run the trials of one (k, s).
 */
static void
simulate(Sample *sample, const Model *m, const double *stopping)
{
	double		center = m->lambda * sample->s;
	double		lower = center - 4 * sqrt(sample->s);
	bool		direct = sample->s < model_starts(m->k);
	double		trials;
	Graph		g;
	double		sum[4] = { 0, 0, 0, 0 };

	sample->keys = (uint32_t) (center + 3 * sqrt(sample->s) + 6);
	sample->split = choose_split(stopping, lower > 6 ? (uint32_t) lower : 6);
	trials = (direct ? DIRECT_EDGES : MODEL_EDGES) / m->k / sample->keys;
	sample->trials = (uint32_t) fmax(fmin(trials, DIRECT_TRIALS), LEAST_TRIALS);
	sample->at_most = take_zeros(sizeof(uint32_t) * (sample->keys + 2));
	random_start(GENERATOR_SEED, m->k, sample->s);
	g = graph_open(m->k, sample->s, sample->keys);
	for (uint32_t i = 0; i < sample->trials; i++)
	{
		uint32_t	d;
		double		x;

		graph_draw_random(&g);
		d = graph_first_failure(&g, sample->split);
		x = d - center;
		sample->at_most[d]++;
		sum[1] += x;
		sum[2] += x * x;
		sum[3] += x * x * x;
	}
	for (int i = 1; i <= 3; i++)
		sum[i] /= sample->trials;
	sample->mean = center + sum[1];
	sample->sd = sqrt(sum[2] - sum[1] * sum[1]);
	sample->skewness = (sum[3] - 3 * sum[1] * sum[2] + 2 * pow(sum[1], 3)) / pow(sample->sd, 3);
	for (uint32_t d = 1; d <= sample->keys + 1; d++)
		sample->at_most[d] += sample->at_most[d - 1];
}

/*
 * Fit the scaling law to the samples.  The constants added to the variances
 * stand for the terms that the law leaves out; they keep the smallest sizes,
 * with the most trials, from deciding alone.
 */
static void
fit_model(Model *m, const Sample *samples)
{
	Fit			mean = { 0 };
	Fit			sd = { 0 };
	Fit			skewness = { 0 };
	double		unused;

	for (int i = 0; i < ladder_sizes; i++)
	{
		const Sample *a = &samples[i];
		double		root = sqrt(a->s);
		double		cube = cbrt(a->s);

		if (a->trials == 0 || a->s < model_starts(m->k))
			continue;
		fit_add(&mean, cube, -1, m->lambda * a->s - a->mean,
				a->sd * a->sd / a->trials + 0.05 * 0.05);
		fit_add(&sd, 1, -1 / cube, a->sd / root,
				a->sd * a->sd / a->s / (2.0 * a->trials) + 0.002 * 0.002);
		fit_add(&skewness, 1, 0, -a->skewness * root, a->s * (6.0 / a->trials + 0.02 * 0.02));
	}
	fit_solve(&mean, &m->b, &m->c);
	fit_solve(&sd, &m->alpha, &m->alpha1);
	skewness.vv = 1;
	fit_solve(&skewness, &m->g, &unused);
}

static double
model_mean(const Model *m, uint32_t s)
{
	return m->lambda * s - m->b * cbrt(s) + m->c;
}

static double
model_sd(const Model *m, uint32_t s)
{
	return (m->alpha - m->alpha1 / cbrt(s)) * sqrt(s);
}

/*
 * Does the scaling law, with its margins, allow d keys in subtables of s cells
 * when a large core may have probability p?
 */
static bool
model_allows(const Model *m, uint32_t s, uint32_t d, double p)
{
	double		z;

	if (p <= 0)
		return false;
	z = normal_quantile(p);
	z += fmax(m->g, 0) / sqrt(s) * (z * z - 1) / 6;
	return d <= FLAT_MARGIN * model_mean(m, s) - TAIL_MARGIN * z * model_sd(m, s);
}

static bool
allows(const Model *m, const Sample *a, const double *stopping, uint32_t d, double failure)
{
	double		most = failure * (1 + 1e-9);
	double		left;

	if (d <= MAX_SMALL && theory_union_bound(stopping, d, 2, d) <= most)
		return true;
	left = most - theory_union_bound(stopping, d, 2, a->split);
	if (a->s >= model_starts(m->k))
		return model_allows(m, a->s, d, left);
	return d <= a->keys && left > 0 && poisson_upper(a->at_most[d]) / a->trials <= left;
}

/*
 * The largest d that is allowed.  One key always decodes.
 */
static uint32_t
largest_allowed(const Model *m, const Sample *a, const double *stopping, double failure)
{
	uint32_t	low = 1;
	uint32_t	high = (uint32_t) (m->lambda * a->s + 7 * sqrt(a->s) + 10);

	while (high - low > 1)
	{
		uint32_t	middle = low + (high - low) / 2;

		if (allows(m, a, stopping, middle, failure))
			low = middle;
		else
			high = middle;
	}
	return low;
}

/*
 * Compare the simulation with the margins.  Returns false if the trials
 * contradict an entry that the scaling law gave.
 */
static bool
confirm(const Model *m, const Sample *a, const double *stopping, double failure, uint32_t d)
{
	double		left = failure - theory_union_bound(stopping, d, 2, a->split);
	uint32_t	seen;

	if (a->trials == 0 || a->s < model_starts(m->k) || d > a->keys)
		return true;
	seen = a->at_most[d];
	if (!poisson_alarm(left * a->trials, seen))
		return true;
	fprintf(stderr, "k=%d s=%" PRIu32 " d=%" PRIu32 " at %g: %" PRIu32
			" large cores in %" PRIu32 " trials\n", m->k, a->s, d, failure, seen, a->trials);
	return false;
}

/*
 * The lower number wins, along the ladder and across failure probabilities.
 */
static void
make_monotone(uint32_t column[FAILURES][MAX_LADDER])
{
	for (int f = 0; f < FAILURES; f++)
	{
		for (int i = ladder_sizes - 2; i >= 0; i--)
			if (column[f][i] > column[f][i + 1])
				column[f][i] = column[f][i + 1];
		for (int i = 0; f > 0 && i < ladder_sizes; i++)
			if (column[f][i] > column[f - 1][i])
				column[f][i] = column[f - 1][i];
	}
}

/*
 * One k, whole ladder.  Returns false if the simulation contradicts the law.
 */
static bool
compute(Model *m)
{
	static Sample samples[MAX_LADDER];
	double		stopping[MAX_SMALL + 1];
	bool		good = true;

	for (int i = 0; i < ladder_sizes; i++)
	{
		Sample	   *a = &samples[i];

		memset(a, 0, sizeof(*a));
		a->s = ladder[i];
		a->split = MAX_SPLIT;
		theory_stopping(stopping, m->k, a->s);
		if (!is_simulated(i))
			continue;
		simulate(a, m, stopping);
		fprintf(stderr, "k=%d s=%" PRIu32 ": J=%d, %" PRIu32 " trials, mean "
				"%.2f, sd %.3f, skewness %.3f\n", m->k, a->s, a->split,
				a->trials, a->mean, a->sd, a->skewness);
	}
	fit_model(m, samples);
	for (int i = 0; i < ladder_sizes; i++)
	{
		Sample	   *a = &samples[i];

		theory_stopping(stopping, m->k, a->s);
		for (int f = 0; f < FAILURES; f++)
		{
			uint32_t	d = largest_allowed(m, a, stopping, failure_target[f]);

			table[m->k - MIN_K][f][i] = d;
			good &= confirm(m, a, stopping, failure_target[f], d);
		}
	}
	make_monotone(table[m->k - MIN_K]);
	return good;
}

/* ---------- the table ---------- */

static void
make_ladder(void)
{
	for (uint32_t s = 1; s <= IBLT_LADDER_MAX; s++)
		if (LADDER_PRODUCT % s == 0)
			ladder[ladder_sizes++] = s;
}

/* A row of the table in braces, on one line. */
static void
print_numbers(const uint32_t *number)
{
	for (int i = 0; i < ladder_sizes; i++)
		printf("%s%" PRIu32, i == 0 ? "{" : ", ", number[i]);
	printf("}");
}

static void
print_head(const Model *model)
{
	printf("/*\n * sizing_table.h\n"
		   " *\t\tHow many keys k subtables of s cells decode.  Generated:\n"
		   " *\t\tdo not edit, run `make sizing-table`.\n *\n"
		   " * Computed by test/sim/sizing.c (doc/internals/mathematics.md), with seed %" PRIu64 "\n * and up to %d trials for each (k, s).  Small"
		   " subtables: 99 %% confidence\n * from the trials.  Larger ones:"
		   " the scaling law, with its margins.\n *\n",
		   GENERATOR_SEED, DIRECT_TRIALS);
	printf(" * The scaling law of each k, mean = lambda s - b s^(1/3) + c,\n"
		   " * sd = alpha s^(1/2) - alpha' s^(1/6), skewness = -g s^(-1/2):\n"
		   " *\n"
		   " * k    c_k    lambda      b       c    alpha   alpha'      g\n");
	for (int i = 0; i < KS; i++)
	{
		const Model *m = &model[i];

		printf(" * %d  %.4f  %.5f  %.4f  %.4f  %.4f  %.4f  %.4f\n", m->k,
			   m->k / m->lambda, m->lambda, m->b, m->c, m->alpha, m->alpha1,
			   m->g);
	}
	printf(" */\n#ifndef IBLT_CORE_SIZING_TABLE_H\n"
		   "#define IBLT_CORE_SIZING_TABLE_H\n\n#include <stdint.h>\n\n");
}

static void
print_table(void)
{
	printf("#define SIZING_MIN_HASHES %d\n#define SIZING_MAX_HASHES %d\n"
		   "#define SIZING_LADDER_SIZES %d\n#define SIZING_FAILURES %d\n\n",
		   MIN_K, MAX_K, ladder_sizes, FAILURES);
	printf("/* allowed subtable sizes, in cells */\n"
		   "static const uint32_t sizing_ladder[SIZING_LADDER_SIZES] =\n\t");
	print_numbers(ladder);
	printf(";\n\n/* probabilities of failure, each stricter than the last */\n"
		   "static const double sizing_failure[SIZING_FAILURES] = {");
	for (int f = 0; f < FAILURES; f++)
		printf(" %g%s", failure_target[f], f < FAILURES - 1 ? "," : " };\n\n");
	printf("/* the most keys, for each k, failure (a line) and size */\n"
		   "static const uint32_t\n\tsizing_capacity[SIZING_MAX_HASHES - "
		   "SIZING_MIN_HASHES + 1]\n\t[SIZING_FAILURES][SIZING_LADDER_SIZES]"
		   " = {\n");
	for (int i = 0; i < KS; i++)
	{
		printf("\t{ /* k = %d */\n", i + MIN_K);
		for (int f = 0; f < FAILURES; f++)
		{
			printf("\t\t");
			print_numbers(table[i][f]);
			printf("%s\n", f < FAILURES - 1 ? "," : "");
		}
		printf("\t}%s\n", i < KS - 1 ? "," : "");
	}
	printf("};\n\n#endif\t\t\t\t\t\t\t/* IBLT_CORE_SIZING_TABLE_H */\n");
}

static int
generate(void)
{
	Model		model[KS];
	bool		good = true;

	memset(model, 0, sizeof(model));
	for (int i = 0; i < KS; i++)
	{
		model[i].k = i + MIN_K;
		model[i].lambda = theory_threshold(model[i].k);
		good &= compute(&model[i]);
	}
	fprintf(stderr, "%.0f s of processor time\n", (double) clock() / CLOCKS_PER_SEC);
	if (!good)
	{
		fprintf(stderr, "the simulation contradicts the scaling law\n");
		return 1;
	}
	print_head(model);
	print_table();
	return 0;
}

/* ---------- checking ---------- */

/*
 * How many of `trials` graphs with d keys fail to decode.
 */
static uint32_t
count_failures(uint64_t seed, int k, uint32_t s, uint32_t d, uint32_t trials)
{
	random_start(seed, k, s);
	return graph_failures(k, s, d, trials, false);
}

/* Is a number of failures out of the question?  Says so. */
static bool
report(int k, uint32_t s, uint32_t d, uint32_t seen, double trials, double allowed, bool bad)
{
	fprintf(stderr, "%sk=%d s=%" PRIu32 " d=%" PRIu32 ": %" PRIu32 " of %.0f fail, %.2f expected or allowed\n",
			bad ? "WRONG: " : "", k, s, d, seen, trials, allowed);
	return !bad;
}

/*
 * Check `entries` random entries of the table, with `edges` of work for each.
 */
static bool
check_entries(uint64_t seed, int entries, double edges)
{
	bool		good = true;

	for (int i = 0; i < entries; i++)
	{
		uint64_t	pick;
		int			k;
		uint32_t	s, d, seen;
		double		failure, trials;

		random_start(seed, 0, i);
		pick = tap_random();
		/* the default k, and the default failure, half of the time */
		k = pick & 1 ? 4 : MIN_K + (int) (pick >> 8 & 0xff) % KS;
		failure = pick & 2 ? IBLT_DEFAULT_FAILURE : failure_target[pick >> 16 & 3];
		/* one key always decodes, and large graphs allow few trials */
		do
		{
			s = ladder[tap_random() % ladder_sizes];
			d = iblt_core_capacity(s, k, failure);
		} while (d < 2 || s > 5040);
		trials = floor(fmin(edges / d / k, 50 / failure));
		seen = count_failures(seed + i, k, s, d, (uint32_t) trials);
		good &= report(k, s, d, seen, trials, failure * trials, poisson_alarm(failure * trials, seen));
	}
	return good;
}

/*
 * Check the union bound, at small d where it should be nearly the truth.
 */
static bool
check_union_bound(uint64_t seed, double edges)
{
	static const uint32_t cases[][3] = {	/* k, s, d */
		{ 3, 4, 2 }, { 3, 12, 5 }, { 3, 60, 30 }, { 4, 6, 5 }, { 4, 10, 10 },
		{ 4, 20, 25 }, { 5, 5, 6 }, { 6, 4, 5 }, { 7, 3, 4 }, { 8, 3, 4 }
	};
	bool		good = true;

	for (int i = 0; i < LENGTH(cases); i++)
	{
		int			k = (int) cases[i][0];
		uint32_t	s = cases[i][1], d = cases[i][2];
		double		stopping[MAX_SMALL + 1];
		double		trials = floor(fmin(edges / d / k, 1e6));
		uint32_t	seen = count_failures(seed, k, s, d, (uint32_t) trials);
		double		bound;

		theory_stopping(stopping, k, s);
		bound = theory_union_bound(stopping, d, 2, d) * trials;
		good &= report(k, s, d, seen, trials, bound,
					   poisson_alarm(bound, seen) || seen < bound / 2 - 3 * sqrt(bound));
	}
	return good;
}

static int
quick(void)
{
	uint64_t	seed = tap_seed();

	tap_ok(check_union_bound(seed, 6e6), "the union bound agrees with simulation");
	tap_ok(check_entries(seed, 60, 7e6), "fresh simulation agrees with the table");
	return tap_done();
}

int
main(int argc, char **argv)
{
	make_ladder();
	if (argc == 1)
		return generate();
	if (argc == 2 && strcmp(argv[1], "--quick") == 0)
		return quick();
	fprintf(stderr, "usage: %s [--quick]\n", argv[0]);
	return 2;
}
