/*
 * sim_damaged.c
 *		Goodrich & Mitzenmacher 2011, Table 2, Figure 2 and Theorem 2: keys with
 *		two values, which the paper calls damaged.
 *
 * 10,000 keys in 80,000 cells and 100,000 in 800,000, k = 5.  The paper counts
 * in 20,000 trials how many of the other keys are not listed.  In its cells a
 * damaged key stays for good.  The trials here peel the bare hypergraph
 * (graph.h).  In some of them the paper's cells themselves have to miss exactly
 * as many keys, and the core has to list all keys, the damaged ones too.
 *
 * The points of Figure 2 are not published as numbers.  Ours are held against
 * theory.  The experiments of Table 2 are points of the same curves.
 */
#include "graph.h"
#include "paper_table.h"
#include "theory.h"

#define PUBLISHED_TRIALS 20000
#define LOST_COLUMNS 4 /* trials in which 0, 1, 2 and 3 or more keys are lost */

typedef struct Damage
{
	int k;
	uint32_t keys;
	uint32_t cells;
	uint32_t damaged;
	uint32_t trials;
	uint32_t checks; /* the first trials, and as many that lose a key, in cells */
	/* results */
	uint32_t lost[LOST_COLUMNS];
	uint32_t most; /* that one trial lost */
	SimSample missing;
	uint32_t checked;
	uint32_t paper_agreed; /* of these, the paper's cells with the hypergraph */
	uint32_t core_all;	   /* of these, the core listed all keys */
} Damage;

static void
run_trials(Damage *run)
{
	uint32_t losses_checked = 0;
	uint32_t s = run->cells / (uint32_t) run->k;
	PaperTable paper = paper_open(run->k, s);
	Graph g = graph_open(run->k, s, run->keys);

	g.stuck = run->damaged;
	TRIALS(i, run->trials)
	{
		uint64_t seed = tap_random();
		int64_t first = (int64_t) (tap_random() >> 33);
		uint32_t lost;

		graph_draw(&g, seed, (uint64_t) first);
		lost = graph_peel(&g);
		run->lost[lost < LOST_COLUMNS ? lost : LOST_COLUMNS - 1]++;
		run->most = lost > run->most ? lost : run->most;
		sim_sample_add(&run->missing, lost);
		if (i >= run->checks && (lost == 0 || losses_checked >= run->checks))
			continue;
		losses_checked += lost > 0;
		run->checked++;
		run->paper_agreed += paper_missing(&paper, run->keys, run->damaged, seed, first) == lost;
		run->core_all += sim_core_lists(run->k, s, run->keys, run->damaged, 0, seed, (uint64_t) first);
	}
}

/* --- theory ----------------------------------------------------------------- */

/*
 * A key is lost if damaged keys lie in all of its cells: this happens to so many
 * keys on average, exactly.
 */
static double
poisoned_keys(const Damage *run)
{
	double s = run->cells / (double) run->k;

	return (run->keys - run->damaged) * pow(1 - pow(1 - 1 / s, run->damaged), run->k);
}

/*
 * In a finite table some keys keep one another in a loop of j keys and j cells.
 * Their other cells have to be held, too, each with probability x.  Around the
 * loop each key leaves by another subtable than it came from, in one of
 * (k-1)^j + (-1)^j (k-1) ways, which count each loop 2j times.
 */
static double
looped_keys(const Damage *run, double x)
{
	double s = run->cells / (double) run->k;
	double each = (run->keys - run->damaged) / s * pow(x, run->k - 2);
	double sum = 0;

	for (int j = 2; j < 40; j++)
		sum += (pow(run->k - 1, j) + (j % 2 == 0 ? run->k - 1 : 1 - run->k)) * pow(each, j) / 2;
	return sum;
}

/* The keys lost on average: as theory.h has it for n without bound, and loops. */
static double
lost_keys(const Damage *run)
{
	double s = run->cells / (double) run->k;
	double share = (double) run->damaged / run->keys;
	double lost = 1 - share - theory_listed(run->k, run->keys / s, share);

	return run->keys * lost + looped_keys(run, pow(fmax(0, lost) / (1 - share), 1.0 / run->k));
}

/* Few keys are lost, and almost independently: Poisson. */
static void
lost_probability(double mean, double p[LOST_COLUMNS])
{
	p[0] = exp(-mean);
	p[1] = mean * p[0];
	p[2] = mean / 2 * p[1];
	p[3] = fmax(0, 1 - p[0] - p[1] - p[2]);
}

/* --- comparisons ------------------------------------------------------------ */

static void
check_cells(const Damage *run)
{
	tap_ok(run->paper_agreed == run->checked,
		   "%u keys, %u damaged: the paper's cells miss what the hypergraph "
		   "says in %u of %u trials", run->keys, run->damaged, run->paper_agreed, run->checked);
	tap_ok(run->core_all == run->checked,
		   "%u keys, %u damaged: weighted cells list all keys, the damaged "
		   "too, in %u of these %u trials", run->keys, run->damaged, run->core_all, run->checked);
}

/* One row of Table 2: percent of trials by keys lost, published and by theory. */
static void
check_table(const Damage *run, const double *published, FILE *table)
{
	double n = run->trials;
	double p[LOST_COLUMNS];

	lost_probability(lost_keys(run), p);
	for (int j = 0; j < LOST_COLUMNS; j++)
	{
		double ours = 100 * run->lost[j] / n;

		sim_agree(ours, published[j],
			100 * sim_proportions_tolerance(p[j], n, PUBLISHED_TRIALS) + 0.0005,
			"%u keys, %u damaged, %d%s lost: %% of %.0f trials", run->keys, run->damaged, j,
			j == 3 ? " or more" : "", n);
		sim_agree(ours, 100 * p[j], 100 * sim_proportion_tolerance(p[j], n), "the same, by theory");
		sim_row(table, "%u\t%u\t%d\t%.0f\t%.3f\t%.3f\t%.3f", run->keys,
				run->damaged, j, n, ours, published[j], 100 * p[j]);
	}
	printf("# %u keys, %u damaged: at most %u lost in one trial\n", run->keys,
		   run->damaged, run->most);
}

/* One point of Figure 2: percent of trials that lose a key, against theory. */
static void
check_point(const Damage *run, FILE *table)
{
	double n = run->trials;
	double ours = 100 * (1 - run->lost[0] / n);
	double theory = -100 * expm1(-lost_keys(run));
	double ours_fail = pow(run->keys, 2) / 2 / pow(run->cells / run->k, run->k);

	sim_agree(ours, theory, 100 * sim_proportion_tolerance(theory / 100, n),
		"%u keys, %u damaged: incomplete, %% of %.0f trials", run->keys, run->damaged, n);
	sim_row(table, "%u\t%u\t%.0f\t%.3f\t%.3f\t%.3f\t%.3g", run->keys, run->damaged, n, ours,
			100 * sim_proportion_error(1 - run->lost[0] / n, n), theory, 100 * ours_fail);
}

/* The text: each valid key fails with (1 - exp(-k damaged / cells))^k. */
static void
check_one_key(const Damage *run)
{
	double valid = run->keys - run->damaged;
	double rate = sim_mean(&run->missing) / valid;
	double error = sqrt(poisoned_keys(run) / run->trials) / valid;

	sim_agree(1e7 * rate, 8.16, 1e7 * SIM_SIGMAS * error + 0.005,
		"each valid key fails, times 10^7");
	sim_agree(run->lost[0] / (double) run->trials, 0.9927,
		sim_proportion_tolerance(0.9927, run->trials) + 0.00005,
		"all valid keys are listed, by (1 - 8.16e-7)^9000");
	sim_agree(exp(-poisoned_keys(run)), 0.9927, 0.00006, "the same, from poisoned cells alone");
}

/* --- Table 2 and Figure 2 --------------------------------------------------- */

typedef struct Row
{
	uint32_t keys;
	uint32_t damaged;
	uint32_t quick; /* trials; 0: left out */
	uint32_t usual;
	double published[LOST_COLUMNS]; /* percent of trials, or zeros */
} Row;

/* The published counts at 500 and 1,000 damaged keys are in the text. */
static const Row rows[] = {
	{10000, 250, 0, 10000, {0}},
	{10000, 500, 2000, 20000, {99.980, 0.020, 0, 0}},
	{10000, 1000, 2000, 20000, {99.360, 0.640, 0, 0}},
	{10000, 1500, 0, 10000, {0}},
	{10000, 2000, 2000, 20000, {83.505, 14.885, 1.520, 0.090}},
	{10000, 2500, 0, 10000, {0}},
	{10000, 3000, 500, 10000, {0}},
	{10000, 3500, 0, 10000, {0}},
	{100000, 5000, 0, 1000, {0}},
	{100000, 7500, 0, 1000, {0}},
	{100000, 10000, 200, 20000, {92.800, 6.915, 0.265, 0.020}},
	{100000, 12500, 0, 1000, {0}},
	{100000, 15000, 0, 1000, {0}},
	{100000, 17500, 0, 1000, {0}},
	{100000, 20000, 100, 1000, {0}},
	{100000, 25000, 0, 1000, {0}},
};

static void
run_damaged(void)
{
	FILE *figure = sim_table("damaged", "keys\tdamaged\ttrials\tincomplete_percent\terror\ttheory\t"
							 "weighted_by_theory");
	FILE *table = sim_table("damaged_table", "keys\tdamaged\tlost\ttrials\tours_percent\tpublished\t"
							"theory");

	for (int i = 0; i < LENGTH(rows); i++)
	{
		Damage run = {.k = PAPER_K, .keys = rows[i].keys, .cells = 8 * rows[i].keys,
			.damaged = rows[i].damaged, .checks = sim_trials(2, 200000 / rows[i].keys),
			.trials = sim_trials_of(rows[i].quick, rows[i].usual, PUBLISHED_TRIALS)};

		if (i > 0 && rows[i].keys != rows[i - 1].keys)
			sim_row(figure, "\n");
		if (run.trials == 0)
			continue;
		run_trials(&run);
		check_cells(&run);
		check_point(&run, figure);
		if (rows[i].published[0] > 0)
			check_table(&run, rows[i].published, table);
		if (run.keys == 10000 && run.damaged == 1000)
			check_one_key(&run);
	}
}

/* --- Theorem 2 -------------------------------------------------------------- */

/* So many hashes are too few for n^(3/4) damaged keys: 1 / beta or fewer. */
#define FEW_HASHES 3
#define CELLS_EACH 3 /* cells for each key, enough for all k here */

/*
 * With n^(1-beta) damaged keys some n^-beta of the cells are useless, and
 * n^(1 - k beta) keys are lost, up to a constant: fewer and fewer if k is above
 * 1 / beta.  The theorem takes 1 / beta + 4.
 */
static Damage
theorem_point(int k, double beta, uint32_t n, uint32_t trials, FILE *table)
{
	Damage run = {.k = k, .keys = n, .trials = trials, .checks = sim_trials(1, n < 100000 ? 5 : 1),
		.cells = (CELLS_EACH * n + (uint32_t) k - 1) / (uint32_t) k * (uint32_t) k,
		.damaged = (uint32_t) floor(pow(n, 1 - beta) + 0.5)};
	double low, high, error;

	run_trials(&run);
	low = poisoned_keys(&run);
	high = fmax(low, lost_keys(&run));
	error = fmax(sim_sd(&run.missing), sqrt(high)) / sqrt(trials);
	sim_within(sim_mean(&run.missing), low, high, SIM_SIGMAS * error + SIM_RARE / trials,
		"k = %d, beta = %.3g, n = %u, %u damaged: others lost in each trial", k, beta, n,
		run.damaged);
	check_cells(&run);
	sim_row(table, "%d\t%.4f\t%u\t%u\t%u\t%u\t%.5f\t%.5g\t%.5g\t%.5g", k, beta,
			n, run.damaged, run.cells, trials, run.lost[0] / (double) trials,
			sim_mean(&run.missing), low, high);
	return run;
}

static void
theorem_trend(int k, double beta, FILE *table)
{
	static const uint32_t sizes[] = { 1000, 3000, 10000, 30000, 100000 };
	uint32_t sizes_run = sim_trials(3, 5);
	double work = sim_trials_of(500000, 20000000, 400000000);
	double first = 0, last = 0;

	for (uint32_t i = 0; i < sizes_run; i++)
	{
		uint32_t trials = (uint32_t) fmin(20000, work / sizes[i]);
		Damage run = theorem_point(k, beta, sizes[i], trials, table);

		last = 1 - run.lost[0] / (double) trials;
		first = i == 0 ? last : first;
	}
	sim_row(table, "\n");
	if (k > FEW_HASHES)
		tap_ok(last < first || last == 0,
			   "k = %d, beta = %.3g: incomplete falls with n, from %.3f %% of " "trials to %.3f %%",
			   k, beta, 100 * first, 100 * last);
	else
		tap_ok(last == 1, "k = %d, beta = %.3g: too few hashes, no trial of "
						  "the largest n is complete", k, beta);
}

static void
run_theorem(void)
{
	FILE *table = sim_table("theorem", "k\tbeta\tkeys\tdamaged\tcells\ttrials\t"
									   "complete\tlost\tpoisoned\ttheory");

	theorem_trend(8, 1 / 4.0, table);
	theorem_trend(7, 1 / 3.0, table);
	theorem_trend(6, 1 / 2.0, table);
	theorem_trend(FEW_HASHES, 1 / 4.0, table);
}

SIM_MAIN({ "damaged", run_damaged }, { "theorem", run_theorem })
