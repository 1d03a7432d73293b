/*
 * test_fold.c
 *		Folding and dropping subtables: the same bytes as built smaller.
 */
#include "cell.h"
#include "model.h"
#include "peel.h"
#include "sizing.h"

#define ROWS	300

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

static void
test_folds(void)
{
	int wrong = 0, tried = 0;

	TRIALS(round, scaled(400))
	{
		unsigned limbs = 1 + below(2);
		uint32_t size = iblt_core_ladder_at_least(1 + below(3000));
		IbltParams params = make_params(usual_kind(limbs), limbs, 3 + (int) below(6), size, below(2),
										tap_random());
		uint64_t rows = tap_random();
		IbltSketch *large = sketch_new(&params);
		uint32_t least;

		fill(large, rows);
		for (least = 1; least <= size; least = params.subtable_cells + 1)
		{
			IbltSketch *small;

			params.subtable_cells = iblt_core_fold_cells(size, least);
			/* every third time, one subtable is dropped on the way */
			if (tried % 3 == 0)
				params.subtables = large->params.subtables & ~(1U << (tap_random() % 3));
			small = sketch_new(&params);
			fill(small, rows);
			wrong += !same_bytes(small, sketch_fold(large, params.subtable_cells, params.subtables));
			params.subtables = large->params.subtables;
			tried++;
		}
	}
	tap_ok(tried > 5 * scaled(400) && wrong == 0,
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
}

TAP_MAIN(test_folds, test_sizes)
