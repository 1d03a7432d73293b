/*
 * core_bench.c
 *		What the core costs, without a server: adding a row, decoding, folding.
 *
 * Prints lines of name, value, unit and bar, separated by tabs.  Each value is
 * the median of several rounds.  Keys are scattered, as primary keys are to
 * the hash functions; checksums are pseudorandom.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cell.h"
#include "peel.h"
#include "row.h"

#define ROUNDS		9
#define ROWS		2000000

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

static double
median(double *values, int n)
{
	qsort(values, (size_t) n, sizeof *values, by_value);
	return values[n / 2];
}

static void *
allocate(size_t size)
{
	void *memory = malloc(size);

	if (memory == NULL)
	{
		fprintf(stderr, "out of memory\n");
		exit(1);
	}
	return memory;
}

/* An empty sketch for integer keys with four subtables of so many cells. */
static void
make(IbltSketch *sketch, uint32_t subtable_cells)
{
	IbltParams params = {.hashes = 4, .subtables = 0x0f, .seed = 42,
		.key = {.kind = IBLT_KEY_INTEGER, .limbs = 1}};

	params.subtable_cells = subtable_cells;
	if (iblt_core_check_params(&params) != IBLT_OK)
	{
		fprintf(stderr, "%u is no size of a subtable\n", subtable_cells);
		exit(1);
	}
	iblt_core_init(sketch, &params, allocate(iblt_core_size(&params)));
}

static void
fill(IbltSketch *sketch, uint64_t first, uint32_t rows)
{
	uint64_t y = UINT64_C(0x243F6A8885A308D3);
	uint32_t i;

	for (i = 0; i < rows; i++)
	{
		uint8_t key[8];

		iblt_store64(key, first + i);
		y = y * UINT64_C(6364136223846793005) + 1442695040888963407u;
		if (iblt_core_add_row(sketch, key, y, 1) != IBLT_OK)
			exit(1);
	}
}

/* Nanoseconds to add a row to a sketch of so many cells in all. */
static void
bench_add(uint32_t cells, double bar)
{
	double ns[ROUNDS];
	IbltSketch sketch;
	int r;

	make(&sketch, cells / 4);
	for (r = 0; r < ROUNDS; r++)
	{
		double start = now();

		fill(&sketch, (uint64_t) r * ROWS, ROWS);
		ns[r] = (now() - start) / ROWS;
	}
	printf("add a row, k = 4, %u cells\t%.1f\tns\t%.0f\n", cells,
		   median(ns, ROUNDS), bar);
	free(sketch.bytes);
}

/* The same with integer keys by way of a queue, as the aggregate does it. */
static void
bench_queue(uint32_t cells, double bar)
{
	const IbltRowAdder *adder;
	uint64_t y = UINT64_C(0x243F6A8885A308D3);
	double ns[ROUNDS];
	IbltQueue queue;
	IbltSketch sketch;
	int r;
	uint32_t i;

	make(&sketch, cells / 4);
	adder = iblt_core_row_adder(&sketch.params);
	memset(&queue, 0, sizeof queue);
	for (r = 0; r < ROUNDS; r++)
	{
		double start = now();

		for (i = 0; i < ROWS; i++)
		{
			uint8_t key[8];

			iblt_store64(key, (uint64_t) r * ROWS + i);
			y = y * UINT64_C(6364136223846793005) + 1442695040888963407u;
			if (adder->queue(&queue, &sketch, key, y, 1) != IBLT_OK)
				exit(1);
		}
		iblt_core_queue_flush(&queue, &sketch);
		ns[r] = (now() - start) / ROWS;
	}
	printf("the same by way of the queue, %u cells\t%.1f\tns\t%.0f\n", cells,
		   median(ns, ROUNDS), bar);
	free(sketch.bytes);
}

/* Nanoseconds per difference to decode; fails if not all are recovered. */
static void
bench_decode(uint32_t keys, uint32_t subtable_cells, double bar)
{
	static IbltPeeler peeler;
	double ns[ROUNDS];
	IbltSketch sketch, copy;
	void *scratch;
	uint8_t *bytes;
	int r;

	make(&sketch, subtable_cells);
	fill(&sketch, 1, keys);
	iblt_core_seal(&sketch);
	bytes = allocate(sketch.size);
	scratch = allocate(iblt_core_peel_scratch_size(&sketch));
	for (r = 0; r < ROUNDS; r++)
	{
		double start = now();
		IbltEntry entry;

		memcpy(bytes, sketch.bytes, sketch.size);
		iblt_core_view_copy(&copy, &sketch, bytes);
		iblt_core_peel_start(&peeler, &copy, scratch);
		while (iblt_core_peel_next(&peeler, &entry))
			;
		if (iblt_core_peel_result(&peeler) != IBLT_PEEL_COMPLETE ||
			peeler.recovered != keys)
		{
			fprintf(stderr, "decoding %u keys failed\n", keys);
			exit(1);
		}
		ns[r] = (now() - start) / keys;
	}
	printf("decode a difference, %u in %u cells\t%.1f\tns\t%.0f\n", keys,
		   sketch.ncells, median(ns, ROUNDS), bar);
	free(sketch.bytes);
	free(bytes);
	free(scratch);
}

/* Microseconds to fold a sketch to fewer cells, sealing included. */
static void
bench_fold(uint32_t from_cells, uint32_t to_cells, double bar)
{
	double us[ROUNDS];
	IbltSketch from, to;
	IbltParams params;
	int r;

	make(&from, from_cells / 4);
	fill(&from, 1, ROWS);
	iblt_core_seal(&from);
	make(&to, to_cells / 4);
	params = to.params;
	for (r = 0; r < ROUNDS; r++)
	{
		double start = now();

		iblt_core_init(&to, &params, to.bytes);
		iblt_core_fold(&to, &from);
		iblt_core_seal(&to);
		us[r] = (now() - start) / 1000;
	}
	printf("fold %u cells to %u\t%.0f\tus\t%.0f\n", from_cells, to_cells,
		   median(us, ROUNDS), bar);
	free(from.bytes);
	free(to.bytes);
}

int
main(void)
{
	bench_add(1440, 24);
	bench_add(80640, 40);
	bench_queue(80640, 40);
	bench_queue(645120, 60);
	/* a size of the ladder, 4 * 35,840 = 1.352 * 106,000 */
	bench_decode(106000, 35840, 1000);
	bench_fold(80640, 1440, 1000);
	return 0;
}
