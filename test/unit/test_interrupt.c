/*
 * test_interrupt.c
 *		Every loop over all cells asks whether to go on, and can be left.
 */
#include <setjmp.h>

#include "model.h"
#include "interrupt.h"
#include "kbf_cell.h"
#include "sums.h"

#define CELLS 65536 /* of a subtable */

static long asked;
static long leave_at; /* at this call; 0: never */
static jmp_buf out;

static void
ask(void)
{
	if (++asked == leave_at)
		longjmp(out, 1);
}

/* What the loops work on. */
static IbltSketch *sketch;
static IbltSketch *other;
static IbltSketch *small;
static IbltPeeler peeler;
static void *scratch;

/*
 * A loop over so many cells asks at least once for every IBLT_INTERRUPT_CELLS of them, and
 * heeds the answer: half of the way it is left.
 */
#define TEST_LOOP(what, cells, ...) \
	do \
	{ \
		asked = leave_at = 0; \
		__VA_ARGS__; \
		check(asked >= (long) ((cells) / IBLT_INTERRUPT_CELLS), "asked %ld times", asked); \
		leave_at = asked / 2; \
		asked = 0; \
		if (setjmp(out) == 0) \
		{ \
			__VA_ARGS__; \
			check(asked < 0, "it went on"); \
		} \
		leave_at = 0; \
		checked(what); \
	} while (0)

static void
set_up(void)
{
	IbltParams params = make_params(IBLT_KEY_INTEGER, 1, 4, CELLS, false, 1);

	sketch = sketch_new(&params);
	other = sketch_new(&params);
	params.subtable_cells /= 2;
	small = sketch_new(&params);
	scratch = take(iblt_core_peel_scratch_size(sketch));
	iblt_core_seal(sketch);
	iblt_core_check_interrupts = ask;
}

/* The first loop of peeling, which does not count. */
static void
start_silently(void)
{
	iblt_core_check_interrupts = NULL;
	iblt_core_peel_start(&peeler, sketch, scratch);
	iblt_core_check_interrupts = ask;
}

static void
test_loops(void)
{
	static IbltSketch view;
	static IbltEntry entry;
	static uint64_t bound;
	unsigned groups[IBLT_MAX_HASHES];
	const uint32_t cells = 4 * CELLS;

	TEST_LOOP("making a sketch", cells, iblt_core_init(other, &sketch->params, other->bytes));
	TEST_LOOP("the validator", cells,
			  check(iblt_core_open(&view, sketch->bytes, sketch->size) == IBLT_OK, "not valid"));
	TEST_LOOP("sealing", cells, iblt_core_seal(sketch));
	TEST_LOOP("adding", cells, check(iblt_core_add_sketch(other, sketch, 1) == IBLT_OK, "overflow"));
	TEST_LOOP("folding", cells, iblt_core_fold(small, sketch));
	TEST_LOOP("sums", cells, check(iblt_core_sums(sketch) == IBLT_SUMS_AGREE, "a contradiction"));
	TEST_LOOP("subtables that agree", 2 * cells,
			  check(iblt_core_agreeing(sketch, 0xf, groups) == 1, "a contradiction"));
	TEST_LOOP("success of GET", CELLS, check(iblt_core_get_success_now(sketch) == 1, "rows"));
	TEST_LOOP("estimating", cells, check(iblt_core_estimate(sketch, &bound) == 0, "rows"));
	TEST_LOOP("estimating keys", 2 * cells, check(iblt_core_net_squares(sketch) == 0, "rows"));
	TEST_LOOP("the first look at each cell", cells, iblt_core_peel_start(&peeler, sketch, scratch));
	TEST_LOOP("peeling empty cells", cells,
			  (start_silently(), check(!iblt_core_peel_next(&peeler, &entry), "a key")));
	TEST_LOOP("the last look at each cell", cells,
			  check(iblt_core_peel_result(&peeler) != IBLT_PEEL_INCONSISTENT, "a row"));
	sketch->rows = INT64_C(1) << 40;
	TEST_LOOP("counts of inserted rows", cells, check(!iblt_core_inserted_fit(sketch), "so many rows"));
	/* a pure cell nowhere: each cell has a weight, but no key */
	for (uint32_t i = 0; i < sketch->ncells; i++)
		iblt_cell_set_field(iblt_cell(sketch, i), IBLT_FIELD_WEIGHT, i + 1);
	TEST_LOOP("peeling cells without a key", cells,
			  (start_silently(), check(!iblt_core_peel_next(&peeler, &entry), "a key")));
}

/* The same of a filter. */
static void
test_kbf_loops(void)
{
	IbltKbfParams params = {.hashes = 4, .degree = 8, .superposed = 3, .values = 255,
		.subtable_cells = CELLS, .key.kind = IBLT_KEY_INTEGER};
	const uint32_t cells = 4 * CELLS;
	size_t size = iblt_core_kbf_size(&params);
	static IbltKbf kbf, part, view;

	iblt_core_kbf_init(&kbf, &params, take(size));
	iblt_core_kbf_init(&part, &params, take(size));
	iblt_core_kbf_seal(&kbf);
	TEST_LOOP("the validator of filters", cells,
			  check(iblt_core_kbf_open(&view, kbf.bytes, size) == IBLT_OK, "not valid"));
	TEST_LOOP("adding filters", cells, check(iblt_core_kbf_add(&kbf, &part) == IBLT_OK, "overflow"));
	TEST_LOOP("subtracting filters", cells,
			  check(iblt_core_kbf_subtract(&kbf, &part) == IBLT_OK, "not a part"));
	TEST_LOOP("counting full cells", cells,
			  check(iblt_core_kbf_full_cells(&kbf) == 0, "a full cell"));
}

TAP_MAIN(set_up, test_loops, test_kbf_loops)
