/*
 * test_interrupt.c
 *		Every loop over all cells asks whether to go on, and can be left.
 */
#include <setjmp.h>

#include "model.h"

#include "cell.h"
#include "interrupt.h"
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

/* Each is a loop of its own over all cells, or over half of them. */
typedef enum Loop
{
	MAKING, OPENING, SEALING, ADDING, FOLDING, SUMS, INSERTED, ESTIMATE, KEYS, PEEL_START, PEEL_NEXT,
	PEEL_RESULT
} Loop;

static void
run(Loop loop)
{
	IbltSketch view;
	IbltEntry entry;
	uint64_t bound;

	switch (loop)
	{
		case MAKING:
			iblt_core_init(other, &sketch->params, other->bytes);
			break;
		case OPENING:
			check(iblt_core_open(&view, sketch->bytes, sketch->size) == IBLT_OK, "not valid");
			break;
		case SEALING:
			iblt_core_seal(sketch);
			break;
		case ADDING:
			check(iblt_core_add_sketch(other, sketch, 1) == IBLT_OK, "overflow");
			break;
		case FOLDING:
			iblt_core_fold(small, sketch);
			break;
		case SUMS:
			check(iblt_core_sums(sketch) == IBLT_SUMS_AGREE, "a contradiction");
			break;
		case INSERTED:
			check(!iblt_core_inserted_fit(sketch), "so many rows");
			break;
		case ESTIMATE:
			check(iblt_core_estimate(sketch, &bound) == 0, "rows");
			break;
		case KEYS:
			check(iblt_core_net_squares(sketch) == 0, "rows");
			break;
		case PEEL_START:
			iblt_core_peel_start(&peeler, sketch, scratch);
			break;
		case PEEL_NEXT:
			iblt_core_check_interrupts = NULL;
			iblt_core_peel_start(&peeler, sketch, scratch);
			iblt_core_check_interrupts = ask;
			check(!iblt_core_peel_next(&peeler, &entry), "a key");
			break;
		case PEEL_RESULT:
			check(iblt_core_peel_result(&peeler) != IBLT_PEEL_INCONSISTENT, "a row");
			break;
	}
}

/* Asked at least once for every IBLT_INTERRUPT_CELLS cells, and heeded at each. */
static void
test_loop(const char *what, Loop loop, uint32_t cells)
{
	volatile long times;

	asked = leave_at = 0;
	run(loop);
	times = asked;
	check(times >= (long) (cells / IBLT_INTERRUPT_CELLS), "asked %ld times", times);
	leave_at = times / 2;
	asked = 0;
	if (setjmp(out) == 0)
	{
		run(loop);
		check(asked < 0, "%s went on", what);
	}
	leave_at = 0;
	checked(what);
}

/* A pure cell nowhere: each cell has a weight, but no key. */
static void
fill_with_noise(void)
{
	for (uint32_t i = 0; i < sketch->ncells; i++)
		iblt_cell_set_field(iblt_cell(sketch, i), IBLT_FIELD_WEIGHT, i + 1);
}

int
main(void)
{
	IbltParams params = make_params(IBLT_KEY_INTEGER, 1, 4, CELLS, false, 1);
	uint32_t cells = 4 * CELLS;

	(void) tap_seed();
	sketch = sketch_new(&params);
	other = sketch_new(&params);
	params.subtable_cells /= 2;
	small = sketch_new(&params);
	scratch = take(iblt_core_peel_scratch_size(sketch));
	iblt_core_seal(sketch);

	iblt_core_check_interrupts = ask;
	test_loop("making a sketch", MAKING, cells);
	test_loop("the validator", OPENING, cells);
	test_loop("sealing", SEALING, cells);
	test_loop("adding", ADDING, cells);
	test_loop("folding", FOLDING, cells);
	test_loop("sums", SUMS, cells);
	test_loop("estimating", ESTIMATE, cells);
	test_loop("estimating keys", KEYS, 2 * cells);
	test_loop("the first look at each cell", PEEL_START, cells);
	test_loop("peeling empty cells", PEEL_NEXT, cells);
	test_loop("the last look at each cell", PEEL_RESULT, cells);
	sketch->rows = INT64_C(1) << 40;
	test_loop("counts of inserted rows", INSERTED, cells);
	fill_with_noise();
	test_loop("peeling cells without a key", PEEL_NEXT, cells);
	iblt_core_check_interrupts = NULL;

	return tap_done();
}
