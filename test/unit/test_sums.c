/*
 * test_sums.c
 *		What is told of a sketch without decoding it: contradictions, and counts
 *		that do not fit.
 */
#include "model.h"
#include "sums.h"

/* A sealed sketch of random rows of random keys, both signs. */
static IbltSketch *
random_sketch(const IbltParams *params, int rows)
{
	IbltSketch *sketch = sketch_new(params);
	uint8_t key[8 * IBLT_MAX_LIMBS] = { 0 };

	while (rows-- > 0)
	{
		for (unsigned l = 0; l < params->key.limbs; l++)
			iblt_store64(key + 8 * (size_t) l, tap_random());
		(void) iblt_core_add_row(sketch, key, tap_random(), below(2) == 0 ? 1 : -1);
	}
	iblt_core_seal(sketch);
	return sketch;
}

/* Changes one word of a sealed sketch, which stays a valid one. */
static void
damage_word(IbltSketch *sketch, uint32_t i, unsigned field)
{
	uint8_t *cell = iblt_cell(sketch, i);

	if (field == sketch->fields)
		iblt_store32(cell, iblt_load32(cell) + 1);
	else
		iblt_cell_set_field(cell, field, fp_add(iblt_cell_field(cell, field), 1));
}

/* Honest sketches are consistent, whatever was done to them; no other is. */
static void
test_consistent(void)
{
	TRIALS(i, scaled(2000))
	{
		IbltParams params = draw_shape(4, 8 << below(3));
		IbltSketch *sketch = random_sketch(&params, (int) below(200));
		IbltSketch *other = random_sketch(&params, (int) below(200));
		IbltSketch *sum = sketch_sum(sketch, other, below(2) == 0 ? 1 : -1);
		IbltSketch *folded = sketch_fold(sum, params.subtable_cells / 4, params.subtables);
		uint32_t cell = below(sum->ncells);
		unsigned field = below(sum->fields + 1);

		check(iblt_core_sums(sketch) == IBLT_SUMS_AGREE && iblt_core_sums(sum) == IBLT_SUMS_AGREE &&
				  iblt_core_sums(folded) == IBLT_SUMS_AGREE, "an honest sketch contradicts itself");
		damage_word(sum, cell, field);
		check(iblt_core_sums(sum) == IBLT_SUMS_CONTRADICT, "cell %u, field %u", cell, field);
		folded->rows += below(2) == 0 ? 1 : -1;
		check(iblt_core_sums(folded) == IBLT_SUMS_CONTRADICT, "a wrong row count");
	}
	checked("sums agree in what rows make, and in nothing that one word is wrong in");
}

/* Moves what is in one cell of a subtable to another one, past the sums. */
static void
move_cell(IbltSketch *sketch, uint32_t from, uint32_t to)
{
	iblt_core_add_cell(sketch, to, iblt_cell(sketch, from), 1);
	memset(iblt_cell(sketch, from), 0, sketch->cell_size);
}

/* A key in all its cells but one, or with other contents in one. */
static void
test_cells_of_a_key(void)
{
	TRIALS(i, scaled(2000))
	{
		IbltParams params = draw_shape(4, 8 << below(3));
		IbltSketch *sketch = sketch_new(&params);
		int subtables = iblt_core_subtable_count(&params);
		uint32_t index[IBLT_MAX_HASHES];
		uint8_t key[8 * IBLT_MAX_LIMBS] = { 0 };
		IbltEntry entry;
		uint8_t *cell;
		uint32_t other;

		iblt_store64(key, tap_random());
		(void) iblt_core_add_row(sketch, key, tap_random(), 1);
		iblt_core_seal(sketch);
		(void) iblt_core_key_cells(sketch, key, index);
		cell = iblt_cell(sketch, index[below((uint32_t) subtables)]);
		check(iblt_core_get(sketch, key, &entry) == IBLT_PRESENT && entry.count == 1,
			  "a key that is there");
		sketch->rows += INT64_C(1) << 32;
		check(iblt_core_get(sketch, key, &entry) == IBLT_UNKNOWN,
			  "a key in a sketch that may have more rows than its counts");
		sketch->rows -= INT64_C(1) << 32;

		/* the same in a cell that is not the key's */
		other = (uint32_t) (cell - sketch->cells) / sketch->cell_size;
		move_cell(sketch, other, other % params.subtable_cells == 0 ? other + 1 : other - 1);
		check(iblt_core_get(sketch, key, &entry) == IBLT_CONTRADICTION,
			  "a key that one of its cells lacks");
	}
	checked("GET hears all cells of a key, which must not contradict each other");
}

/* Two rows of one key whose weights differ from cell to cell. */
static void
test_other_contents(void)
{
	IbltParams params = make_params(IBLT_KEY_INTEGER, 1, 4, 8, false, 5);
	IbltSketch *sketch = sketch_new(&params);
	uint8_t key[8] = { 7 };
	uint32_t index[IBLT_MAX_HASHES];
	IbltEntry entry;
	uint32_t other;

	(void) iblt_core_add_row(sketch, key, 1, 1);
	iblt_core_seal(sketch);
	(void) iblt_core_key_cells(sketch, key, index);
	other = index[1] % 8 == 0 ? index[1] + 1 : index[1] - 1;
	/* twice the contents in one cell, and once less in its neighbour */
	move_cell(sketch, index[1], other);
	for (unsigned f = 0; f < sketch->fields; f++)
	{
		uint64_t element = iblt_cell_field(iblt_cell(sketch, other), f);

		iblt_cell_set_field(iblt_cell(sketch, index[1]), f, fp_add(element, element));
		iblt_cell_set_field(iblt_cell(sketch, other), f, fp_neg(element));
	}
	check(iblt_core_sums(sketch) == IBLT_SUMS_AGREE, "the sums agree");
	check(iblt_core_get(sketch, key, &entry) == IBLT_CONTRADICTION,
		  "once in three cells, twice in the fourth");
	checked("GET does not choose between cells that say different things");
}

/* Puts a count into the first cell of each subtable, as rows there would. */
static void
count_rows(IbltSketch *sketch, uint32_t cell, uint64_t rows)
{
	uint32_t i;

	for (i = cell; i < sketch->ncells; i += sketch->params.subtable_cells)
		iblt_store32(iblt_cell(sketch, i), iblt_load32(iblt_cell(sketch, i)) + (uint32_t) rows);
	sketch->rows += (int64_t) rows;
}

/* Rows inserted by the billion: does every count tell the truth? */
static void
test_inserted(void)
{
	static const struct
	{
		uint64_t rows[2];		/* in two cells */
		bool fits;
	} cases[] = {
		{ { 0, 0 }, true },
		{ { INT32_MAX, 0 }, true },
		{ { INT32_MAX, INT32_MAX }, true },
		{ { UINT64_C(1) << 31, 0 }, false },
		{ { (UINT64_C(1) << 31) + 5, 7 }, false },
		{ { UINT32_MAX, 7 }, false },
		{ { UINT64_C(1) << 32, 0 }, false },
		{ { (UINT64_C(1) << 32) + 5, 7 }, false },
		{ { UINT64_C(3) << 32, INT32_MAX }, false },
		{ { UINT64_C(1) << 32, UINT64_C(1) << 32 }, false },
	};

	TRIALS(i, LENGTH(cases))
	{
		IbltParams params = make_params(IBLT_KEY_INTEGER, 1, 4, 8, false, 1);
		IbltSketch *sketch = sketch_new(&params);

		count_rows(sketch, 3, cases[i].rows[0]);
		count_rows(sketch, 5, cases[i].rows[1]);
		check(iblt_core_inserted_fit(sketch) == cases[i].fits,
			  "%" PRIu64 " and %" PRIu64 " rows", cases[i].rows[0], cases[i].rows[1]);
		sketch->rows = -1;
		check(!iblt_core_inserted_fit(sketch), "rows below none");
	}
	checked("rows that were inserted are as many as the counts say, or too many");
}

TAP_MAIN(test_consistent, test_cells_of_a_key, test_other_contents, test_inserted)
