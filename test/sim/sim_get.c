/*
 * sim_get.c
 *		Goodrich & Mitzenmacher 2011: GET, beside duplicates, extraneous deletions
 *		and damaged keys, of absent keys, and as the size of a table.
 *
 * A damaged key is one with two values.  Each experiment runs the paper's cells
 * and the core on the same keys in the same cells.  GET finds a key that is alone
 * in one of its k cells, so that both have to find the share that one formula
 * gives, and neither may ever give a wrong answer.
 */
#include "paper_table.h"
#include "theory.h"

#define PUBLISHED_GET 97.83 /* percent of the keys, in all experiments */

/* GET finds so many of n keys: 1 - (1 - (1 - k/m)^(n-1))^k, m = k s. */
static double
get_theory(double n, double s, int k)
{
	return 1 - pow(1 - pow(1 - 1 / s, n - 1), k);
}

/* Both tables, with the same keys. */
typedef struct Pair
{
	uint32_t keys;
	uint64_t first;
	int8_t *count; /* of each key: 1, 2 or -1 */
	uint32_t damaged;
	IbltSketch *ours;
	PaperTable paper;
} Pair;

static int64_t
value_of(uint32_t i)
{
	return (int64_t) (i * UINT32_C(2654435761));
}

/* Puts rows of one key into both. */
static void
pair_add(Pair *pair, uint32_t i, int64_t value, int count)
{
	uint32_t index[IBLT_MAX_HASHES];

	paper_add(&pair->paper, (int64_t) (pair->first + i), value, count, index);
	for (int j = 0; j < abs(count); j++)
		sim_add(pair->ours, pair->first + i, (uint64_t) value, count < 0 ? -1 : 1);
}

/*
 * The first keys have two values each, so many of them.  If odd, a key is there
 * twice with probability 1/5, and deleted only with probability 1/5.
 */
static void
pair_open(Pair *pair, uint32_t keys, uint32_t cells, bool odd, uint32_t damaged)
{
	uint64_t seed = tap_random();

	pair->keys = keys;
	pair->first = tap_random() >> 33;
	pair->damaged = damaged;
	pair->count = take_zeros(keys);
	pair->ours = sim_sketch(PAPER_K, cells / PAPER_K, true, seed);
	pair->paper = paper_open(PAPER_K, cells / PAPER_K);
	paper_clear(&pair->paper, seed);
	for (uint32_t i = 0; i < keys; i++)
	{
		uint64_t die = odd ? tap_random() % 5 : 4;

		pair->count[i] = die == 0 ? 2 : die == 1 ? -1 : 1;
		pair_add(pair, i, value_of(i), pair->count[i]);
		if (i < damaged)
			pair_add(pair, i, value_of(i) + 1, 1);
	}
	iblt_core_seal(pair->ours);
}

static const uint8_t *
cell_here(const IbltSketch *sketch, uint32_t i, void *source)
{
	(void) source;
	return iblt_cell(sketch, i);
}

/*
 * What the core says of a key from its own cells.  iblt_core_get also looks at
 * all other cells, with which 10^7 keys would take days.
 */
static IbltPresence
core_answer(const IbltSketch *sketch, uint64_t x, IbltEntry *entry)
{
	uint8_t key[8];

	iblt_store64(key, x);
	return iblt_core_get_cells(sketch, key, 2, cell_here, NULL, entry);
}

/* The core's own GET says the same of some keys, there and absent. */
static bool
core_agrees(const IbltSketch *sketch, uint64_t first, uint32_t keys)
{
	for (uint32_t i = 0; i < 2; i++)
	{
		uint64_t x = first + (tap_random() >> 32) * (i + 1) * keys / UINT32_MAX;
		IbltEntry entry;
		uint8_t key[8];

		iblt_store64(key, x);
		if (iblt_core_get(sketch, key, &entry) != core_answer(sketch, x, &entry))
			return false;
	}
	return true;
}

/* --- GET of keys that are there ------------------------------------------- */

typedef struct Found
{
	SimSample ours; /* percent of the valid keys, in each trial */
	SimSample paper;
	SimSample ours_damaged; /* percent of the damaged ones: without a value */
	uint32_t wrong;			/* answers */
	uint32_t ours_complete; /* listings */
	uint32_t paper_complete;
} Found;

/* Does the core find the key?  A damaged one is there, without one value. */
static bool
ours_finds(const Pair *pair, uint32_t i, uint32_t *wrong)
{
	bool damaged = i < pair->damaged;
	uint8_t value[8];
	IbltEntry entry;
	IbltPresence answer = core_answer(pair->ours, pair->first + i, &entry);

	if (answer == IBLT_UNKNOWN)
		return false;
	*wrong += answer != IBLT_PRESENT ||
			  entry.count != pair->count[i] + damaged ||
			  iblt_core_entry_value(pair->ours, &entry, value) == damaged ||
			  (!damaged && iblt_load64(value) != (uint64_t) value_of(i));
	return true;
}

static bool
paper_finds(const Pair *pair, uint32_t i, uint32_t *wrong)
{
	int64_t value;
	PaperAnswer answer = paper_get(&pair->paper, (int64_t) (pair->first + i), &value);

	if (answer == PAPER_NOT_FOUND)
		return false;
	*wrong += answer != PAPER_FOUND || value != value_of(i);
	return true;
}

static void
get_trial(Pair *pair, Found *found)
{
	uint32_t valid = pair->keys - pair->damaged;
	uint32_t ours = 0, ours_damaged = 0, paper = 0;
	uint32_t listed;

	for (uint32_t i = 0; i < pair->keys; i++)
		if (i < pair->damaged)
			ours_damaged += ours_finds(pair, i, &found->wrong);
		else
		{
			ours += ours_finds(pair, i, &found->wrong);
			paper += paper_finds(pair, i, &found->wrong);
		}
	sim_sample_add(&found->ours, 100.0 * ours / valid);
	sim_sample_add(&found->paper, 100.0 * paper / valid);
	if (pair->damaged > 0)
		sim_sample_add(&found->ours_damaged, 100.0 * ours_damaged / pair->damaged);
	found->wrong += !core_agrees(pair->ours, pair->first, pair->keys);
	found->ours_complete += sim_peel(pair->ours, &listed) && listed == pair->keys;
	paper_list(&pair->paper);
	found->paper_complete += pair->paper.listed == valid;
}

/* The keys of a table are nearly independent of one another. */
static void
check_found(const char *what, const SimSample *found, double keys, double theory)
{
	double error = fmax(sim_sd(found) / sqrt(found->n),
						100 * sim_proportion_error(theory / 100, found->n * keys));

	sim_agree(sim_mean(found), PUBLISHED_GET, SIM_SIGMAS * error + 0.005, "%s: found, %%", what);
	sim_agree(sim_mean(found), theory, SIM_SIGMAS * error, "%s: found, %%, by theory", what);
}

typedef struct GetRun
{
	uint32_t keys;
	bool odd;
	uint32_t damaged;
	uint32_t quick; /* trials */
	uint32_t usual;
	uint32_t full;
} GetRun;

static void
check_get(const GetRun *run, const Found *found)
{
	double theory = 100 * get_theory(run->keys, 8 * run->keys / PAPER_K, PAPER_K);
	double valid = run->keys - run->damaged;
	double trials = found->ours.n;
	char what[80];

	snprintf(what, sizeof what, "%u keys%s, %u damaged: weighted cells",
			 run->keys, run->odd ? ", 1/5 twice and 1/5 deleted only" : "", run->damaged);
	check_found(what, &found->ours, valid, theory);
	tap_ok(found->ours_complete == found->ours.n,
		   "%s: complete listings in %u of %.0f trials", what, found->ours_complete, trials);
	if (run->damaged > 0)
		check_found("and the damaged ones, without a value",
					&found->ours_damaged, run->damaged, theory);
	check_found("the paper's cells", &found->paper, valid, theory);
	if (run->damaged == 0)
		tap_ok(found->paper_complete == found->paper.n,
			   "the paper's cells: complete listings in %u of %.0f trials",
			   found->paper_complete, trials);
	tap_ok(found->wrong == 0, "no wrong answer in %.0f of each", trials * run->keys);
}

static void
run_get(void)
{
	static const GetRun runs[] = {{10000, true, 0, 10, 200, 4000}, {100000, true, 0, 1, 15, 400},
		{10000, false, 500, 10, 100, 2000}, {10000, false, 1000, 10, 100, 2000}};

	for (int r = 0; r < LENGTH(runs); r++)
	{
		const GetRun *run = &runs[r];
		Found found = {0};

		TRIALS(i, sim_trials_of(run->quick, run->usual, run->full))
		{
			Pair pair;

			pair_open(&pair, run->keys, 8 * run->keys, run->odd, run->damaged);
			get_trial(&pair, &found);
		}
		check_get(run, &found);
	}
}

/* --- GET of absent keys ---------------------------------------------------- */

#define ABSENT_KEYS 10000
#define ABSENT_PROBES 200000 /* in each table */

/* All its cells hold several keys: (1 - e^-l - l e^-l)^k for large tables. */
static double
absent_theory(double n, double s, int k)
{
	return pow(1 - pow(1 - 1 / s, n) - n / s * pow(1 - 1 / s, n - 1), k);
}

/* Counts the answers for keys behind those of the table. */
static void
probe_absent(const Pair *pair, uint32_t *ours, uint32_t *paper, uint32_t *wrong)
{
	for (uint32_t i = 0; i < ABSENT_PROBES; i++)
	{
		uint64_t x = pair->first + pair->keys + i;
		IbltEntry entry;
		int64_t value;
		IbltPresence answer = core_answer(pair->ours, x, &entry);
		PaperAnswer theirs = paper_get(&pair->paper, (int64_t) x, &value);

		*ours += answer == IBLT_UNKNOWN;
		*paper += theirs == PAPER_NOT_FOUND;
		*wrong += answer == IBLT_PRESENT || answer == IBLT_CONTRADICTION ||
				  theirs == PAPER_FOUND;
	}
}

/*
 * Among the probes of one table the rate is that of its own cells: the product
 * over k subtables of the share of cells with several keys, f on average.
 */
static void
run_absent(void)
{
	double s = 8.0 * ABSENT_KEYS / PAPER_K;
	double rate = absent_theory(ABSENT_KEYS, s, PAPER_K);
	double f = pow(rate, 1.0 / PAPER_K);
	uint32_t tables = sim_trials_of(2, 50, 100);
	double probes = (double) tables * ABSENT_PROBES;
	double error = sqrt(rate / probes + rate * rate * PAPER_K * (1 - f) / f / s / tables);
	uint32_t ours = 0, paper = 0, wrong = 0;

	TRIALS(i, tables)
	{
		Pair pair;

		pair_open(&pair, ABSENT_KEYS, 8 * ABSENT_KEYS, false, 0);
		probe_absent(&pair, &ours, &paper, &wrong);
	}
	sim_agree(1e5 * ours / probes, 1e5 * rate, 1e5 * SIM_SIGMAS * error,
		"absent keys: unknown in 10^5");
	sim_agree(1e5 * paper / probes, 1e5 * rate, 1e5 * SIM_SIGMAS * error,
		"the paper's cells: not found in 10^5");
	tap_ok(wrong == 0, "no absent key is found, of %.0f", probes);
}

/* --- GET success as the size of a table ------------------------------------ */

#define SIZE_KEYS 1000

/*
 * Formula against simulation for one size: the keys that GET finds, and the share that
 * it would find by the cells of each table.  The product of estimates is right to the
 * second order.
 */
static void
check_size(int k, uint32_t s, uint32_t keys, FILE *table)
{
	uint32_t tables = sim_trials(200000, 1000000) / keys / (uint32_t) k;
	double theory = 100 * get_theory(keys, s, k);
	SimSample found = {0}, now = {0};
	double error;

	TRIALS(t, tables)
	{
		IbltSketch *sketch = sim_sketch(k, s, false, tap_random());
		uint64_t first = tap_random();
		uint32_t n = 0;
		IbltEntry entry;

		sim_add_range(sketch, first, keys, 1);
		iblt_core_seal(sketch);
		for (uint32_t i = 0; i < keys; i++)
			n += core_answer(sketch, first + i, &entry) == IBLT_PRESENT;
		sim_sample_add(&found, 100.0 * n / keys);
		sim_sample_add(&now, 100 * iblt_core_get_success_now(sketch));
	}
	error = fmax(sim_sd(&found) / sqrt(tables),
				 100 * sim_proportion_error(theory / 100, (double) keys * tables));
	sim_agree(sim_mean(&found), theory, SIM_SIGMAS * error + 100 * SIM_RARE / keys / tables,
		"k = %d, %u keys in %u cells: GET finds, %%", k, keys, (uint32_t) k * s);
	sim_agree(sim_mean(&now), theory, SIM_SIGMAS * error + 0.1 * (100 - theory), "by the cells, %%");
	sim_row(table, "%d\t%u\t%u\t%.4f\t%.6g\t%.6g\t%.3g", k, keys, (uint32_t) k * s,
			(double) k * s / keys, 1 - theory / 100, 1 - sim_mean(&found) / 100, error / 100);
}

/* The least cells of a subtable with which GET finds this share of n keys. */
static uint32_t
least_subtable(double n, int k, double success)
{
	uint32_t s = 2;

	while (get_theory(n, s, k) < success)
		s++;
	return s;
}

/* The formula turned into sizes, each of them simulated. */
static void
sizes_for(double success, FILE *table)
{
	double best = INFINITY;
	int best_k = 0;

	for (int k = IBLT_MIN_HASHES; k <= IBLT_MAX_HASHES; k++)
	{
		uint32_t s = least_subtable(SIZE_KEYS, k, success);
		double each = (double) k * s / SIZE_KEYS;

		check_size(k, s, SIZE_KEYS, table);
		if (each < best)
		{
			best = each;
			best_k = k;
		}
		printf("# GET finds %g %% of %d keys, k = %d: %.3f cells for each\n",
			   100 * success, SIZE_KEYS, k, each);
	}
	printf("# the least is k = %d, %.3f cells for each\n", best_k, best);
	sim_row(table, "\n");
}

/* And what a table answers that is sized for listing. */
static void
run_get_size(void)
{
	FILE *table = sim_table("get_size", "k\tkeys\tcells\tcells_each\t"
										"formula_fails\tours_fails\terror");

	sizes_for(0.9, table);
	sizes_for(0.99, table);
	sizes_for(0.999, table);
	for (uint32_t keys = 10; keys <= 10000; keys *= 10)
		check_size(4, iblt_core_subtable_cells(keys, 4, IBLT_DEFAULT_FAILURE), keys, table);
}

SIM_MAIN({ "get", run_get }, { "absent", run_absent }, { "get_size", run_get_size })
