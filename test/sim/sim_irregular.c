/*
 * sim_irregular.c
 *		What irregular tables would save: keys with different numbers of cells.
 *
 * Rink 2013, "Mixed Hypergraphs for Linear-Time Construction of Denser
 * Hashing-Based Data Structures": if some 89 % of the keys lie in 3 cells and the
 * others in 21, tables decode from 1 / 0.920 = 1.087 cells for each key on, as
 * the number of keys grows.  With 3 cells for all keys it takes 1.222.  What is
 * measured here is how much of that is left at the sizes that differences have.
 *
 * There are no subtables: a key's cells are any distinct ones, drawn without a
 * hash.
 */
#include "sim.h"

#define RINK_SHARE 0.8874
#define RINK_THRESHOLD 0.920

/* A share of the keys has degree[0] cells, the others degree[1]. */
typedef struct Mix
{
	const char *name;
	uint32_t degree[2];
	double share;
} Mix;

static const Mix mixes[] = { { "3", { 3, 3 }, 1 },
							 { "4", { 4, 4 }, 1 },
							 { "3 and 21", { 3, 21 }, RINK_SHARE } };

#define MIXES 3
#define MOST_DEGREE 21

/* Keys for each cell at the threshold, by density evolution. */
static double
mix_threshold(const Mix *mix)
{
	double least = INFINITY;

	for (int i = 1; i < 100000; i++)
	{
		double x = i * 1e-5;
		double others =
			mix->share * mix->degree[0] * pow(x, mix->degree[0] - 1.0) +
			(1 - mix->share) * mix->degree[1] * pow(x, mix->degree[1] - 1.0);

		least = fmin(least, -log1p(-x) / others);
	}
	return least;
}

typedef struct Table
{
	uint32_t n;
	uint32_t cells;
	uint32_t *degree; /* of each key */
	uint32_t *place;  /* MOST_DEGREE for each key */
	uint32_t *held;	  /* keys in each cell */
	uint32_t *sum;	  /* the XOR of their numbers */
	uint32_t *stack;
} Table;

static void
table_open(Table *t, uint32_t n, uint32_t most_cells)
{
	t->n = n;
	t->degree = sim_take(sizeof(uint32_t) * n);
	t->place = sim_take(sizeof(uint32_t) * n * MOST_DEGREE);
	t->held = sim_take(sizeof(uint32_t) * most_cells);
	t->sum = sim_take(sizeof(uint32_t) * most_cells);
	t->stack = sim_take(sizeof(uint32_t) * (n * MOST_DEGREE + most_cells));
}

static void
table_close(Table *t)
{
	free(t->degree);
	free(t->place);
	free(t->held);
	free(t->sum);
	free(t->stack);
}

static uint32_t
other_cell(const Table *t, const uint32_t *place, uint32_t used)
{
	uint32_t cell;
	uint32_t i;

	do
	{
		cell = (uint32_t) ((tap_random() >> 32) * t->cells >> 32);
		for (i = 0; i < used && place[i] != cell; i++)
			;
	} while (i < used);
	return cell;
}

static void
table_draw(Table *t, const Mix *mix)
{
	memset(t->held, 0, sizeof(uint32_t) * t->cells);
	memset(t->sum, 0, sizeof(uint32_t) * t->cells);
	for (uint32_t key = 0; key < t->n; key++)
	{
		uint32_t *place = t->place + (size_t) key * MOST_DEGREE;
		bool second = ldexp((double) (tap_random() >> 11), -53) >= mix->share;

		t->degree[key] = mix->degree[second];
		for (uint32_t i = 0; i < t->degree[key]; i++)
		{
			place[i] = other_cell(t, place, i);
			t->held[place[i]]++;
			t->sum[place[i]] ^= key;
		}
	}
}

/* Are all keys taken out? */
static bool
table_peels(Table *t)
{
	uint32_t left = t->n;
	uint32_t top = 0;

	for (uint32_t i = 0; i < t->cells; i++)
		if (t->held[i] == 1)
			t->stack[top++] = i;
	while (top > 0)
	{
		uint32_t cell = t->stack[--top];
		uint32_t key = t->sum[cell];
		const uint32_t *place = t->place + (size_t) key * MOST_DEGREE;

		if (t->held[cell] != 1)
			continue;
		left--;
		for (uint32_t i = 0; i < t->degree[key]; i++)
		{
			t->sum[place[i]] ^= key;
			if (--t->held[place[i]] == 1)
				t->stack[top++] = place[i];
		}
	}
	return left == 0;
}

static double
failures(Table *t, const Mix *mix, uint32_t cells, uint32_t trials)
{
	uint32_t failed = 0;

	t->cells = cells;
	for (uint32_t i = 0; i < trials; i++)
	{
		table_draw(t, mix);
		failed += !table_peels(t);
	}
	return (double) failed / trials;
}

/* The least cells with which at most 1 % of the trials fail, by bisection. */
static uint32_t
least_cells(Table *t, const Mix *mix, uint32_t trials)
{
	uint32_t low = t->n;
	uint32_t high = 3 * t->n;

	while (high - low > 1 + t->n / 200)
	{
		uint32_t middle = (low + high) / 2;

		if (failures(t, mix, middle, trials) > 0.01)
			low = middle;
		else
			high = middle;
	}
	return high;
}

static void
run_irregular(void)
{
	static const uint32_t sizes[] = { 30, 100, 300, 1000, 10000, 100000 };
	uint32_t last = sim_trials_of(3, 5, 6);
	double work = sim_trials_of(100000, 2000000, 40000000);
	double each[MIXES];

	sim_agree("keys for each cell at the threshold of 3 and 21",
			  mix_threshold(&mixes[2]), RINK_THRESHOLD, 0.00051);
	for (uint32_t i = 0; i < last; i++)
	{
		uint32_t trials = (uint32_t) fmax(200, fmin(4000, work / sizes[i]));
		Table t;

		table_open(&t, sizes[i], 3 * sizes[i]);
		for (int j = 0; j < MIXES; j++)
			each[j] = least_cells(&t, &mixes[j], trials) / (double) sizes[i];
		table_close(&t);
		printf("# %u keys, cells for each, 99 %% certain: 3 hashes %.3f, 4 "
			   "hashes %.3f, 3 and 21 %.3f\n",
			   sizes[i], each[0], each[1], each[2]);
		for (int j = 0; j < MIXES; j++)
			tap_ok(each[j] > 1 / mix_threshold(&mixes[j]) - 0.005,
				   "%u keys, hashes %s: %.3f cells for each, more than the "
				   "threshold %.3f",
				   sizes[i], mixes[j].name, each[j],
				   1 / mix_threshold(&mixes[j]));
	}
}

int
main(int argc, char **argv)
{
	static const SimExperiment experiments[] = { { "irregular",
												   run_irregular },
												 { NULL, NULL } };

	return sim_main(argc, argv, experiments);
}
