/*
 * test_adder.c
 *		Rows in plain sketches: the processor's own way and the portable one, at
 *		once or by way of a queue, leave the same bytes as the loop for any
 *		shape, from any state of the cells.
 */
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

	return tap_random() % 3 == 0 ? tap_random() : edges[tap_random() % (uint64_t) LENGTH(edges)];
}

/* A sketch with arbitrary, lazy cells. */
static IbltSketch *
lazy_sketch(uint32_t subtable_cells, unsigned limbs)
{
	IbltParams params = make_params(limbs == 1 ? IBLT_KEY_INTEGER : IBLT_KEY_CANONICAL, limbs, 4,
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
	unsigned limbs = b->params.key.limbs;
	int hashes = b->params.hashes;
	uint32_t position[IBLT_MAX_HASHES];
	uint64_t terms[IBLT_QUEUE_LIMBS + 2];

	if (iblt_row_take(b, key, y, sign, limbs, hashes, position, terms) != IBLT_OK)
		return true;
	iblt_row_put(b, position, terms, sign, limbs + 2, hashes, false, iblt_cell_add);
	return false;
}

/*
 * Adds every other row to two sketches and removes the rest, by an adder (with
 * its queue or without) and in the way for any shape.
 */
static void
check_rows(bool own, bool queued, uint32_t cells, unsigned limbs, int rows)
{
	const IbltRowAdder *adder;
	IbltSketch *a = lazy_sketch(cells, limbs);
	IbltSketch *b = sketch_copy(a);
	IbltQueue queue;

	memset(&queue, 0, sizeof queue);
	adder = own ? iblt_core_row_adder(&a->params) : iblt_core_row_adder_portable(&a->params);
	while (rows-- > 0)
	{
		uint8_t key[8 * IBLT_QUEUE_LIMBS];
		uint64_t y = edge_word();
		int sign = rows % 2 == 0 ? 1 : -1;
		IbltStatus status;

		for (unsigned l = 0; l < limbs; l++)
			iblt_store64(key + 8 * l, edge_word());
		status = queued ? adder->queue(&queue, a, key, y, sign) : adder->add(a, key, y, sign);
		check((status != IBLT_OK) == reference_refuses(b, key, y, sign), "row %d", rows);
	}
	check(a->rows == b->rows, "row counts");
	/* the second time, nothing is left in it */
	for (int i = 0; i < 2; i++)
	{
		iblt_core_queue_flush(&queue, a);
		check(same_bytes(a, b), "%u cells, %u limbs, own %d, queued %d", cells, limbs, own, queued);
	}
}

static void
test_ways(void)
{
	uint32_t cells;

	for (cells = 1; cells <= 1000; cells = iblt_core_ladder_at_least(cells + 1))
		TRIALS(limbs, IBLT_QUEUE_LIMBS)
		{
			check_rows(true, false, cells, 1 + (unsigned) limbs, 1000);
			check_rows(true, true, cells, 1 + (unsigned) limbs, 1000);
			check_rows(false, false, cells, 1 + (unsigned) limbs, 200);
			check_rows(false, true, cells, 1 + (unsigned) limbs, (int) below(20));
		}
	checked("all ways leave the same bytes in all sizes");
}

static void
test_shapes(void)
{
	static const struct
	{
		unsigned limbs, values, subtables;
		int hashes;
		bool plain;
	} shapes[] = {{5, 0, 0x0f, 4, false}, {1, 0, 0x0f, 4, true}, {1, 1, 0x0f, 4, false},
		{1, 0, 0x07, 4, false}, {1, 0, 0x07, 3, false}};
	IbltParams params = {.subtable_cells = 1,
		.key = {IBLT_KEY_CANONICAL, 5, (const uint8_t *) "x", 1}};

	for (int i = 0; i < LENGTH(shapes); i++)
	{
		params.hashes = shapes[i].hashes;
		params.subtables = shapes[i].subtables;
		params.key.limbs = shapes[i].limbs;
		params.value.limbs = shapes[i].values;
		check((iblt_core_row_adder(&params) != NULL) == shapes[i].plain, "shape %d", i);
	}
	checked("only plain sketches have adders");
	params.hashes = 4;
	params.subtables = 0x0f;
	tap_ok((iblt_core_row_adder(&params) != iblt_core_row_adder_portable(&params)) == HAS_OWN_WAY,
		   "the processor's own way is chosen where it has one");
}

TAP_MAIN(test_ways, test_shapes)
