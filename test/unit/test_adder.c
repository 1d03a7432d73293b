/*
 * test_adder.c
 *		Rows in plain sketches: the processor's own way and the portable one, at
 *		once or by way of a queue, leave the same bytes as the loop for any
 *		shape, from any state of the cells.
 */
#include "cell.h"
#include "model.h"
#include "row.h"
#include "sizing.h"

#if defined(__GNUC__) && defined(__x86_64__)
#define HAS_OWN_WAY		(__builtin_cpu_supports("avx2") != 0)
#else
#define HAS_OWN_WAY		false
#endif

/* Words where a carry is decided, and others. */
static uint64_t
edge_word(void)
{
	static const uint64_t edges[] = {
		0, 1, 58, 59, 60, IBLT_FP_P - 1, IBLT_FP_P, IBLT_FP_P + 1, UINT64_MAX,
		UINT64_MAX - 1, (uint64_t) INT64_MAX, (uint64_t) INT64_MAX + 1
	};
	size_t n = sizeof edges / sizeof *edges;

	return tap_random() % 3 == 0 ? tap_random() : edges[tap_random() % n];
}

/* A sketch with arbitrary, lazy cells. */
static IbltSketch *
lazy_sketch(uint32_t subtable_cells, unsigned limbs)
{
	IbltParams params =
		make_params(limbs == 1 ? IBLT_KEY_INTEGER : IBLT_KEY_CANONICAL, limbs, 4,
					subtable_cells, false, tap_random());
	IbltSketch *sketch = sketch_new(&params);

	for (uint32_t i = 0; i < sketch->ncells; i++)
	{
		iblt_store32(iblt_cell(sketch, i), (uint32_t) edge_word());
		for (unsigned f = 0; f < sketch->fields; f++)
			iblt_cell_set_field(iblt_cell(sketch, i), f, edge_word());
	}
	return sketch;
}

/* Puts a row into a sketch in the way for any shape.  True if it was refused. */
static bool
reference_refuses(IbltSketch *b, const uint8_t *key, uint64_t y, int sign)
{
	uint64_t terms[IBLT_QUEUE_LIMBS + 2];

	return iblt_row_add(b, key, y, sign, b->params.key.limbs, b->params.hashes, false,
						terms, iblt_cell_add) != IBLT_OK;
}

/*
 * Adds every other row to two sketches and removes the rest, by an adder (with
 * its queue or without) and in the way for any shape; in how many respects do
 * they differ?
 */
static int
rounds_differ(bool own, bool queued, uint32_t cells, unsigned limbs, int rows)
{
	const IbltRowAdder *adder;
	IbltSketch *a = lazy_sketch(cells, limbs);
	IbltSketch *b = sketch_copy(a);
	IbltQueue queue;
	int wrong = 0;

	memset(&queue, 0, sizeof queue);
	adder = own ? iblt_core_row_adder(&a->params)
		: iblt_core_row_adder_portable(&a->params);
	while (rows-- > 0)
	{
		uint8_t key[8 * IBLT_QUEUE_LIMBS];
		uint64_t y = edge_word();
		int sign = rows % 2 == 0 ? 1 : -1;
		IbltStatus status;

		for (unsigned l = 0; l < limbs; l++)
			iblt_store64(key + 8 * l, edge_word());
		status = queued
			? adder->queue(&queue, a, key, y, sign) : adder->add(a, key, y, sign);
		wrong += (status != IBLT_OK) != reference_refuses(b, key, y, sign);
	}
	wrong += a->rows != b->rows;
	iblt_core_queue_flush(&queue, a);
	wrong += !same_bytes(a, b);
	/* nothing is left in it */
	iblt_core_queue_flush(&queue, a);
	wrong += !same_bytes(a, b);
	sketch_free(a);
	sketch_free(b);
	return wrong;
}

static void
test_shapes(void)
{
	IbltParams params = {.hashes = 4, .subtables = 0x0f, .subtable_cells = 1,
		.key = {IBLT_KEY_CANONICAL, 5, (const uint8_t *) "x", 1}};
	int wrong = 0;

	/* keys too wide; values; a subtable left out; another number of hashes */
	wrong += iblt_core_row_adder(&params) != NULL;
	params.key.limbs = 1;
	wrong += iblt_core_row_adder(&params) == NULL;
	params.value.limbs = 1;
	wrong += iblt_core_row_adder(&params) != NULL;
	params.value.limbs = 0;
	params.subtables = 0x07;
	wrong += iblt_core_row_adder(&params) != NULL;
	params.hashes = 3;
	wrong += iblt_core_row_adder(&params) != NULL;
	tap_ok(wrong == 0, "only plain sketches have adders");
	params.hashes = 4;
	params.subtables = 0x0f;
	tap_ok((iblt_core_row_adder(&params) != iblt_core_row_adder_portable(&params)) == HAS_OWN_WAY,
		   "the processor's own way is chosen where it has one");
}

int
main(void)
{
	int wrong = 0, rounds = 0;
	uint32_t cells;

	(void) tap_seed();
	for (cells = 1; cells <= 1000; cells = iblt_core_ladder_at_least(cells + 1))
	{
		for (unsigned limbs = 1; limbs <= IBLT_QUEUE_LIMBS; limbs++)
		{
			wrong += rounds_differ(true, false, cells, limbs, 1000);
			wrong += rounds_differ(true, true, cells, limbs, 1000);
			wrong += rounds_differ(false, false, cells, limbs, 200);
			wrong += rounds_differ(false, true, cells, limbs, (int) (tap_random() % 20));
		}
		rounds++;
	}
	tap_ok(rounds > 70 && wrong == 0,
		   "all ways leave the same bytes in %d sizes (%d differences)",
		   rounds, wrong);
	test_shapes();
	return tap_done();
}
