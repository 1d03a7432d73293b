/*
 * test_integer.c
 *		Rows with integer keys: the processor's own way and the portable one,
 *		at once or by way of a queue, leave the same bytes, from any state of
 *		the cells.
 */
#include <stdlib.h>

#include "cell.h"
#include "row.h"
#include "sizing.h"
#include "tap.h"

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

/* Two sketches with the same arbitrary, lazy cells. */
static void
make_pair(IbltSketch *a, IbltSketch *b, uint32_t subtable_cells)
{
	IbltParams params = {4, 0x0f, 0, IBLT_KEY_INTEGER, 1, false, 0, NULL, 0};
	uint8_t *bytes;
	uint32_t i;
	unsigned f;

	params.subtable_cells = subtable_cells;
	params.seed = tap_random();
	if ((bytes = malloc(iblt_core_size(&params))) == NULL)
		abort();
	iblt_core_init(a, &params, bytes);
	for (i = 0; i < a->ncells; i++)
	{
		iblt_store32(iblt_cell(a, i), (uint32_t) edge_word());
		for (f = 0; f < a->fields; f++)
			iblt_cell_set_field(iblt_cell(a, i), f, edge_word());
	}
	if ((bytes = malloc(a->size)) == NULL)
		abort();
	memcpy(bytes, a->bytes, a->size);
	iblt_core_view_copy(b, a, bytes);
}

/*
 * Adds the same rows to two sketches, by an adder (with or without its queue)
 * and in the portable way; in how many respects do they differ?
 */
static int
rounds_differ(const IbltIntegerAdder *adder, bool queued, uint32_t cells,
			  int rows)
{
	IbltSketch a, b;
	IbltQueue queue;
	int wrong = 0;

	memset(&queue, 0, sizeof queue);
	make_pair(&a, &b, cells);
	while (rows-- > 0)
	{
		uint64_t key = edge_word(), y = edge_word();
		IbltStatus status = queued ? adder->queue(&queue, &a, key, y)
			: adder->add(&a, key, y);

		wrong += status != iblt_core_integer_adder_portable.add(&b, key, y);
	}
	wrong += a.rows != b.rows;
	iblt_core_queue_flush(&queue, &a);
	wrong += memcmp(a.bytes, b.bytes, a.size) != 0;
	/* nothing is left in it */
	iblt_core_queue_flush(&queue, &a);
	wrong += memcmp(a.bytes, b.bytes, a.size) != 0;
	free(a.bytes);
	free(b.bytes);
	return wrong;
}

int
main(void)
{
	const IbltIntegerAdder *own = iblt_core_integer_adder();
	int wrong = 0, rounds = 0;
	uint32_t cells;

	(void) tap_seed();
	for (cells = 1; cells <= 1000; cells = iblt_core_ladder_at_least(cells + 1))
	{
		wrong += rounds_differ(own, false, cells, 2000);
		wrong += rounds_differ(own, true, cells, 2000);
		wrong += rounds_differ(&iblt_core_integer_adder_portable, true, cells,
							   (int) (tap_random() % 20));
		rounds++;
	}
	tap_ok(rounds > 70 && wrong == 0,
		   "all ways leave the same bytes in %d sizes (%d differences)",
		   rounds, wrong);
	tap_ok((own != &iblt_core_integer_adder_portable) == HAS_OWN_WAY, "the processor's own way is chosen where it has one");
	return tap_done();
}
