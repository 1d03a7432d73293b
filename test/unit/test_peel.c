/*
 * test_peel.c
 *		A decoding is right or says that it is not complete.
 *
 * On all tiny sketches and 300,000 random ones, against the hypergraph that
 * the keys' positions make, and at the limits of counts.  What sketches that no
 * rows make come to is test_crafted.c's matter.
 */
#include "model.h"

/* --- all tiny sketches ------------------------------------------------------ */

#define TINY_ROWS 6
#define TINY_TOTAL 15625 /* counts -2 .. 2 for each of the rows */

/* Which of the rows have which key; each row has a value of its own. */
static const uint32_t universes[][TINY_ROWS] = { { 0, 0, 1, 1, 2, 2 },
												 { 0, 0, 0, 1, 1, 1 },
												 { 0, 0, 0, 0, 1, 2 },
												 { 0, 1, 2, 3, 4, 5 } };

/* The sketch that has row i of the universe (code's digit i) - 2 times. */
static bool
decode_tiny(IbltSketch *sketch, Model *model, const uint32_t *keys, uint32_t code)
{
	memset(sketch->meter, 0, 2 * IBLT_METER_BUCKETS);
	memset(sketch->cells, 0, sketch->ncells * (size_t) sketch->cell_size);
	sketch->rows = 0;
	model->nrows = 0;
	for (int i = 0; i < TINY_ROWS; i++, code /= 5)
	{
		int count = (int) (code % 5) - 2;
		uint64_t y = (uint64_t) i - 2;

		for (int n = count; n != 0; n -= count < 0 ? -1 : 1)
			(void) iblt_core_add_row(sketch, model_key(model, keys[i]), y, count < 0 ? -1 : 1);
		model_add(model, keys[i], y, count);
	}
	model_settle(model);
	return check_decode(sketch, model, "tiny");
}

static void
test_tiny(void)
{
	long complete = 0;
	long decoded = 0;
	long stride = 100 / scaled(100);

	/* each shape with other keys, seeds and cells: 1 to 5, k 3 and 4 */
	TRIALS(shape, 80)
	{
		unsigned limbs = 1 + (unsigned) shape / 40 % 2;
		IbltParams params = make_params(usual_kind(limbs), limbs, 3 + (int) (shape / 20 % 2),
										1 + (uint32_t) shape / 4 % 5, shape & 1, tap_random());
		IbltSketch *sketch = sketch_new(&params);
		Model *model = model_new(limbs, TINY_ROWS, TINY_ROWS);

		TRIALS(step, (TINY_TOTAL - 1 - shape % stride) / stride + 1)
		{
			complete += decode_tiny(sketch, model, universes[(shape + shape / 4) % 4],
									(uint32_t) (shape % stride + step * stride));
			decoded++;
		}
	}
	check(complete > decoded / 10 && complete < decoded * 9 / 10,
		  "%ld of %ld complete: not a mixture", complete, decoded);
	printf("# %ld of %ld tiny sketches decode completely\n", complete, decoded);
	checked("every tiny sketch decodes exactly as far as its hypergraph peels");
}

/* --- many random ones ------------------------------------------------------ */

#define POOL 64

/* Rows of some of the keys of a pool. */
static bool
decode_random(Model *pool)
{
	static const uint32_t ladder[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12};
	int hashes = 3 + (int) below(below(2) ? 6 : 2);
	IbltParams params = make_params(usual_kind(pool->limbs), pool->limbs, hashes, ladder[below(11)],
									below(2), tap_random());
	uint32_t cells = params.subtable_cells * (uint32_t) hashes;
	uint32_t nkeys = 1 + below(cells + cells / 4 + 1);
	IbltSketch *sketch = sketch_new(&params);

	pool->nkeys = nkeys < POOL ? nkeys : POOL;
	pool->nrows = 0;
	for (uint32_t i = nkeys; i > 0; i--)
	{
		uint32_t key = below(pool->nkeys);
		uint64_t y = below(4);
		int sign = below(2) ? 1 : -1;

		(void) iblt_core_add_row(sketch, model_key(pool, key), y, sign);
		model_add(pool, key, y, sign);
	}
	model_settle(pool);
	return check_decode(sketch, pool, "random");
}

static void
test_random(void)
{
	long complete = 0;
	long rounds = 0;

	TRIALS(i, scaled(300))
	{
		Model *pool = model_new(i % 8 == 7 ? 4 : 1 + (unsigned) i % 2, POOL, 256);

		TRIALS(j, 1000)
			complete += decode_random(pool);
		rounds += 1000;
	}
	check(complete > rounds / 5 && complete < rounds * 4 / 5,
		  "%ld of %ld complete: not a mixture", complete, rounds);
	printf("# %ld of %ld random sketches decode completely\n", complete, rounds);
	checked("random sketches decode right or say they are not complete");
}

/* --- counts at their limits ---------------------------------------------------- */

/* Adds a sketch to itself, whether its counts fit or not. */
static void
double_unchecked(IbltSketch *sketch)
{
	for (uint32_t i = 0; i < sketch->ncells; i++)
		iblt_core_add_cell(sketch, i, iblt_cell(sketch, i), 1);
	iblt_core_meter_add_all(sketch->meter, sketch->meter, 1);
	sketch->rows *= 2;
}

/*
 * A row 2^n times; count and sketch agree as long as a count can hold it, and
 * adding fails just when it cannot.
 */
static void
test_counts(void)
{
	IbltParams params = make_params(IBLT_KEY_INTEGER, 1, 4, 5, true, 1);
	uint8_t key[8] = { 0 };
	uint8_t value[8];

	for (int sign = -1; sign <= 1; sign += 2)
	{
		IbltSketch *sketch = sketch_new(&params);

		(void) iblt_core_add_row(sketch, key, 42, sign);
		for (int n = 0; n <= 34; n++)
		{
			bool fits = n < 31 || (n == 31 && sign < 0);
			int64_t count = sign * (INT64_C(1) << n);
			Decoded d = decode(sketch);

			check(d.result == (fits ? IBLT_PEEL_COMPLETE : IBLT_PEEL_INCONSISTENT),
				  "%" PRId64 " rows: result %d", count, (int) d.result);
			if (fits)
				check(d.n == 1 && d.entry[0].count == count &&
						  iblt_core_entry_value(sketch, &d.entry[0], value) &&
						  iblt_load64(value) == 42, "%" PRId64 " rows: count %d", count,
					  (int) d.entry[0].count);
			iblt_core_seal(sketch);
			if (fits)
			{
				fits = n + 1 < 31 || (n + 1 == 31 && sign < 0);
				check(iblt_core_add_sketch(sketch_copy(sketch), sketch, 1) ==
						  (fits ? IBLT_OK : IBLT_COUNT_OVERFLOW), "twice %" PRId64, count);
				check(iblt_core_add_sketch(sketch_new(&params), sketch, -1) ==
						  (n < 31 ? IBLT_OK : IBLT_COUNT_OVERFLOW), "minus %" PRId64, count);
			}
			double_unchecked(sketch);
		}
	}
	checked("a count is right up to the limits of 32 bits, and no further");
}

/* The sum and the difference that just fit, and the ones that just do not. */
static void
test_row_count_sums(void)
{
	static const struct
	{
		int64_t rows;
		int64_t more;
		int sign;
	} last[] = {
		{ INT64_MAX - 5, 5, 1 }, { INT64_MIN + 5, -5, 1 },
		{ INT64_MAX - 5, -5, -1 }, { INT64_MIN + 5, 5, -1 },
		{ INT64_MAX, 0, 1 }, { INT64_MIN, 0, -1 },
	};
	IbltParams params = make_params(IBLT_KEY_INTEGER, 1, 4, 5, false, 1);
	IbltSketch *sketch = sketch_new(&params);
	IbltSketch *other = sketch_new(&params);

	for (int i = 0; i < 6; i++)
	{
		int64_t limit = last[i].rows > 0 ? INT64_MAX : INT64_MIN;

		sketch->rows = last[i].rows;
		other->rows = last[i].more;
		check(iblt_core_add_sketch(sketch, other, last[i].sign) == IBLT_OK && sketch->rows == limit,
			  "sum %d fits", i);
		sketch->rows = last[i].rows;
		other->rows += (last[i].rows > 0) == (last[i].sign > 0) ? 1 : -1;
		check(iblt_core_add_sketch(sketch, other, last[i].sign) == IBLT_COUNT_OVERFLOW,
			  "sum %d does not fit", i);
	}
}

/*
 * A crafted row count may be anything: rows one by one must wrap, not trap, and
 * sums are refused.
 */
static void
test_row_count_limits(void)
{
	IbltParams params = make_params(IBLT_KEY_INTEGER, 1, 4, 5, false, 1);
	IbltSketch *sketch = sketch_new(&params);
	uint8_t key[8] = { 0 };

	sketch->rows = INT64_MAX;
	(void) iblt_core_add_row(sketch, key, 1, 1);
	check(sketch->rows == INT64_MIN, "the largest row count plus one");
	(void) iblt_core_add_row(sketch, key, 1, -1);
	check(sketch->rows == INT64_MAX, "the smallest row count less one");
	sketch->rows = INT64_MIN;
	iblt_core_seal(sketch);
	check(iblt_core_add_sketch(sketch, sketch, 1) == IBLT_COUNT_OVERFLOW,
		  "twice the smallest row count");
	test_row_count_sums();
	checked("row counts wrap one by one, and are refused in sums");
}

TAP_MAIN(test_tiny, test_random, test_counts, test_row_count_limits)
