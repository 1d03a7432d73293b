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

/* Each of these is a loop of its own over all cells, or over half of them. */
static void
do_init(void)
{
	iblt_core_init(other, &sketch->params, other->bytes);
}

static void
do_open(void)
{
	IbltSketch view;

	check(iblt_core_open(&view, sketch->bytes, sketch->size) == IBLT_OK,
		  "not valid");
}

static void
do_seal(void)
{
	iblt_core_seal(sketch);
}

static void
do_add(void)
{
	check(iblt_core_add_sketch(other, sketch, 1) == IBLT_OK, "overflow");
}

static void
do_fold(void)
{
	iblt_core_fold(small, sketch);
}

static void
do_consistent(void)
{
	check(iblt_core_sums(sketch) == IBLT_SUMS_AGREE, "a contradiction");
}

static void
do_inserted(void)
{
	check(!iblt_core_inserted_fit(sketch), "so many rows");
}

static void
do_estimate(void)
{
	uint64_t bound;

	check(iblt_core_estimate(sketch, &bound) == 0, "rows");
}

static void
do_estimate_keys(void)
{
	check(iblt_core_net_squares(sketch) == 0, "rows");
}

static void
do_peel_start(void)
{
	iblt_core_peel_start(&peeler, sketch, scratch);
}

static void
do_peel_next(void)
{
	IbltEntry entry;

	iblt_core_check_interrupts = NULL;
	do_peel_start();
	iblt_core_check_interrupts = ask;
	check(!iblt_core_peel_next(&peeler, &entry), "a key");
}

static void
do_peel_result(void)
{
	check(iblt_core_peel_result(&peeler) != IBLT_PEEL_INCONSISTENT, "a row");
}

/* Asked at least once for every IBLT_INTERRUPT_CELLS cells, and heeded at each. */
static void
test_loop(const char *what, void (*loop) (void), uint32_t cells)
{
	volatile long times;

	asked = leave_at = 0;
	loop();
	times = asked;
	check(times >= (long) (cells / IBLT_INTERRUPT_CELLS), "asked %ld times", times);
	leave_at = times / 2;
	asked = 0;
	if (setjmp(out) == 0)
	{
		loop();
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
	IbltParams params =
		make_params(IBLT_KEY_INTEGER, 1, 4, CELLS, false, 1);
	uint32_t cells = 4 * CELLS;

	(void) tap_seed();
	sketch = sketch_new(&params);
	other = sketch_new(&params);
	params.subtable_cells /= 2;
	small = sketch_new(&params);
	scratch = take(iblt_core_peel_scratch_size(sketch));
	iblt_core_seal(sketch);

	iblt_core_check_interrupts = ask;
	test_loop("making a sketch", do_init, cells);
	test_loop("the validator", do_open, cells);
	test_loop("sealing", do_seal, cells);
	test_loop("adding", do_add, cells);
	test_loop("folding", do_fold, cells);
	test_loop("sums", do_consistent, cells);
	test_loop("estimating", do_estimate, cells);
	test_loop("estimating keys", do_estimate_keys, 2 * cells);
	test_loop("the first look at each cell", do_peel_start, cells);
	test_loop("peeling empty cells", do_peel_next, cells);
	test_loop("the last look at each cell", do_peel_result, cells);
	sketch->rows = INT64_C(1) << 40;
	test_loop("counts of inserted rows", do_inserted, cells);
	fill_with_noise();
	test_loop("peeling cells without a key", do_peel_next, cells);
	iblt_core_check_interrupts = NULL;

	free(scratch);
	sketch_free(sketch);
	sketch_free(other);
	sketch_free(small);
	return tap_done();
}
