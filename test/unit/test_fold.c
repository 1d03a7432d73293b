/*
 * test_fold.c
 *		Folding and dropping subtables: the same bytes as built smaller.
 */
#include <stdlib.h>

#include "cell.h"
#include "fold.h"
#include "model.h"
#include "peel.h"
#include "sizing.h"

#define ROWS	300

/* An empty sketch in memory of its own. */
static void
make(IbltSketch *sketch, const IbltParams *params)
{
	uint8_t *bytes = malloc(iblt_core_size(params));

	if (bytes == NULL || iblt_core_check_params(params) != IBLT_OK)
		abort();
	iblt_core_init(sketch, params, bytes);
}

/* The same rows for the same seed: inserted, deleted, some keys twice. */
static void
fill(IbltSketch *sketch, uint64_t seed)
{
	for (int i = 0; i < ROWS; i++)
	{
		uint8_t key[8 * 4] = {0};

		iblt_store64(key, (seed + (uint64_t) i) / 2 * IBLT_GOLDEN);
		if (iblt_core_add_row(sketch, key, seed ^ (uint64_t) (i * 77),
							  i % 5 == 0 ? -1 : 1) != IBLT_OK)
			abort();
	}
	iblt_core_seal(sketch);
}

static IbltParams
random_params(void)
{
	IbltParams params = {0};

	params.hashes = 3 + (int) (tap_random() % 6);
	params.subtables = (1U << params.hashes) - 1;
	params.key.kind = tap_random() % 2 ? IBLT_KEY_INTEGER : IBLT_KEY_UUID;
	params.key.limbs = params.key.kind == IBLT_KEY_INTEGER ? 1 : 2;
	if (tap_random() % 2 != 0)
	{
		params.value.kind = IBLT_KEY_INTEGER;
		params.value.limbs = 1;
	}
	params.seed = tap_random();
	params.subtable_cells = iblt_core_ladder_at_least(1 + (uint32_t) (tap_random() % 3000));
	return params;
}

/* Is the fold of a large sketch, byte for byte, the one built small? */
static bool
folds_to(IbltParams small_params, const IbltSketch *large, uint64_t rows)
{
	IbltSketch small, folded;
	bool same;

	make(&small, &small_params);
	make(&folded, &small_params);
	fill(&small, rows);
	iblt_core_fold(&folded, large);
	iblt_core_seal(&folded);
	same = memcmp(small.bytes, folded.bytes, small.size) == 0;
	free(small.bytes);
	free(folded.bytes);
	return same;
}

static void
test_folds(void)
{
	long rounds = scaled(400);
	int wrong = 0, tried = 0;

	for (long round = 0; round < rounds; round++)
	{
		IbltParams params = random_params();
		uint64_t rows = tap_random();
		uint32_t size = params.subtable_cells;
		IbltSketch large;
		uint32_t least;

		make(&large, &params);
		fill(&large, rows);
		for (least = 1; least <= size; least = params.subtable_cells + 1)
		{
			params.subtable_cells = iblt_core_fold_cells(size, least);
			/* every third time, one subtable is dropped on the way */
			if (tried % 3 == 0)
				params.subtables = large.params.subtables & ~(1U << (tap_random() % 3));
			wrong += !folds_to(params, &large, rows);
			params.subtables = large.params.subtables;
			tried++;
		}
		free(large.bytes);
	}
	tap_ok(tried > 5 * rounds && wrong == 0,
		   "a fold is what would have been built (%d of %d are not)", wrong, tried);
}

/* Against trying every size: the least divisor that is large enough. */
static void
test_sizes(void)
{
	int wrong = 0;
	uint32_t cells, least;

	for (cells = iblt_core_ladder_at_least(1); cells <= 720;
		 cells = iblt_core_ladder_at_least(cells + 1))
		for (least = 1; least <= cells + 1; least++)
		{
			uint32_t size = least;

			while (size <= cells && cells % size != 0)
				size++;
			wrong += iblt_core_fold_cells(cells, least) != (size <= cells ? size : 0);
		}
	tap_ok(wrong == 0, "the least size to fold to");
	tap_ok(iblt_core_common_cells(360, 20160) == 360 &&
		   iblt_core_common_cells(20160, 360) == 360 &&
		   iblt_core_common_cells(360, 360) == 360 &&
		   iblt_core_common_cells(360, 420) == 0,
		   "two sizes meet where one divides the other");
}

int
main(void)
{
	(void) tap_seed();
	test_folds();
	test_sizes();
	return tap_done();
}
