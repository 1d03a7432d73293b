/*
 * core_bench.c
 *		What the core costs, without a server: adding a row, decoding, folding.
 *
 * Prints lines of name, value, unit and bar, separated by tabs.  Each value is
 * the median of several rounds.  Keys are scattered, as primary keys are to
 * the hash functions; checksums are pseudorandom.
 */
#include <time.h>

#include "../unit/tap.h"
#include "cell.h"
#include "peel.h"
#include "row.h"

#define ROUNDS		9
#define ROWS		2000000

/* What a round works on. */
typedef struct Bench
{
	IbltSketch sketch;
	IbltSketch other;
	void *scratch;
	const IbltRowAdder *adder; /* by way of its queue; NULL: row by row */
	uint32_t rows;
} Bench;

typedef void Round(Bench *bench, uint64_t first);

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double) t.tv_sec * 1e9 + (double) t.tv_nsec;
}

static int
by_value(const void *a, const void *b)
{
	double x = *(const double *) a, y = *(const double *) b;

	return (x > y) - (x < y);
}

static void
require(bool condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "%s\n", what);
	exit(1);
}

/* The median of the nanoseconds that a round takes, divided by "by". */
static double
measure(Bench *bench, Round *round, double by)
{
	double ns[ROUNDS];

	for (int r = 0; r < ROUNDS; r++)
	{
		double start = now();

		round(bench, (uint64_t) r * ROWS);
		ns[r] = (now() - start) / by;
	}
	qsort(ns, ROUNDS, sizeof *ns, by_value);
	forget(0);
	return ns[ROUNDS / 2];
}

/* An empty sketch for integer keys with four subtables of so many cells. */
static void
make(IbltSketch *sketch, uint32_t subtable_cells)
{
	IbltParams params = {.hashes = 4, .subtables = 0x0f, .seed = 42, .subtable_cells = subtable_cells,
		.key = {.kind = IBLT_KEY_INTEGER, .limbs = 1}};

	require(iblt_core_check_params(&params) == IBLT_OK, "not a size of a subtable");
	iblt_core_init(sketch, &params, take(iblt_core_size(&params)));
}

static void
add_rows(Bench *bench, uint64_t first)
{
	uint64_t y = UINT64_C(0x243F6A8885A308D3);
	IbltQueue queue;

	memset(&queue, 0, sizeof queue);
	for (uint32_t i = 0; i < bench->rows; i++)
	{
		uint8_t key[8];

		iblt_store64(key, first + i);
		y = y * UINT64_C(6364136223846793005) + 1442695040888963407u;
		require((bench->adder != NULL ? bench->adder->queue(&queue, &bench->sketch, key, y, 1)
				 : iblt_core_add_row(&bench->sketch, key, y, 1)) == IBLT_OK, "a row is refused");
	}
	if (bench->adder != NULL)
		iblt_core_queue_flush(&queue, &bench->sketch);
}

/* To a sketch of so many cells in all; by way of a queue, as the aggregate does it. */
static void
bench_add(uint32_t cells, bool queued, double bar)
{
	Bench bench = {.rows = ROWS};

	make(&bench.sketch, cells / 4);
	bench.adder = queued ? iblt_core_row_adder(&bench.sketch.params) : NULL;
	printf("%s, %u cells\t%.1f\tns\t%.0f\n", queued ? "the same by way of the queue" : "add a row, k = 4",
		   cells, measure(&bench, add_rows, ROWS), bar);
}

/* Decodes a copy, which has to give all rows. */
static void
decode(Bench *bench, uint64_t first)
{
	static IbltPeeler peeler;
	IbltEntry entry;

	(void) first;
	memcpy(bench->other.bytes, bench->sketch.bytes, bench->sketch.size);
	iblt_core_view_copy(&bench->other, &bench->sketch, bench->other.bytes);
	iblt_core_peel_start(&peeler, &bench->other, bench->scratch);
	while (iblt_core_peel_next(&peeler, &entry))
		;
	require(iblt_core_peel_result(&peeler) == IBLT_PEEL_COMPLETE && peeler.recovered == bench->rows,
			"decoding failed");
}

static void
bench_decode(uint32_t keys, uint32_t subtable_cells, double bar)
{
	Bench bench = {.rows = keys};

	make(&bench.sketch, subtable_cells);
	make(&bench.other, subtable_cells);
	add_rows(&bench, 1);
	iblt_core_seal(&bench.sketch);
	bench.scratch = take(iblt_core_peel_scratch_size(&bench.sketch));
	printf("decode a difference, %u in %u cells\t%.1f\tns\t%.0f\n", keys, 4 * subtable_cells,
		   measure(&bench, decode, keys), bar);
}

/* Folds a sketch to fewer cells, sealing included. */
static void
fold(Bench *bench, uint64_t first)
{
	IbltParams params = bench->other.params;

	(void) first;
	iblt_core_init(&bench->other, &params, bench->other.bytes);
	iblt_core_fold(&bench->other, &bench->sketch);
	iblt_core_seal(&bench->other);
}

static void
bench_fold(uint32_t from_cells, uint32_t to_cells, double bar)
{
	Bench bench = {.rows = ROWS};

	make(&bench.sketch, from_cells / 4);
	make(&bench.other, to_cells / 4);
	add_rows(&bench, 1);
	iblt_core_seal(&bench.sketch);
	printf("fold %u cells to %u\t%.0f\tus\t%.0f\n", from_cells, to_cells, measure(&bench, fold, 1000), bar);
}

int
main(void)
{
	bench_add(1440, false, 24);
	bench_add(80640, false, 40);
	bench_add(80640, true, 40);
	bench_add(645120, true, 60);
	/* a size of the ladder, 4 * 35,840 = 1.352 * 106,000 */
	bench_decode(106000, 35840, 1000);
	bench_fold(80640, 1440, 1000);
	return 0;
}
