/*
 * test_kbf_queue.c
 *		Pairs through the queue, one by one and as sums: the same filter.
 *
 * The sum of filters of one pair each adds cells without the shortcut of
 * iblt_kbf_put.
 */
#include "kbf_queue.h"
#include "model.h"

#define PAIRS	400

static IbltKbfParams
random_params(void)
{
	IbltKbfParams params = {0};

	params.hashes = 2 + (int) below(7);
	params.degree = 3 + (int) below(10);
	params.superposed = 1 + (int) below(3);
	params.values = gf_values(params.degree);
	params.subtable_cells = 1 + below(90);
	params.kind = IBLT_KEY_INTEGER;
	params.seed = tap_random();
	return params;
}

static void
make_kbf(IbltKbf *kbf, const IbltKbfParams *params)
{
	iblt_core_kbf_init(kbf, params, take(iblt_core_kbf_size(params)));
}

/* Do the filters have the same bytes? */
static int
same(IbltKbf *a, IbltKbf *b)
{
	iblt_core_kbf_seal(a);
	iblt_core_kbf_seal(b);
	return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

/* Inserts up to PAIRS pairs in three ways, with a flush at times. */
static void
test_queue(int round)
{
	static uint64_t codes[1 << IBLT_GF_MAX_DEGREE];
	IbltKbfParams params = random_params();
	IbltKbfQueue queue = {0};
	IbltKbf		queued, direct, summed, one, opened;
	uint32_t	n = below(PAIRS);
	size_t		size = round % 2 == 0 ? 8 : 1 + below(24);
	uint32_t	i;

	iblt_core_kbf_codes(&params, codes);
	make_kbf(&queued, &params);
	make_kbf(&direct, &params);
	make_kbf(&summed, &params);
	make_kbf(&one, &params);
	for (i = 0; i < n; i++)
	{
		uint8_t		key[24];
		unsigned	value = 1 + below(params.values);

		iblt_store64(key, tap_random());
		iblt_store64(key + 8, tap_random());
		iblt_store64(key + 16, tap_random());
		iblt_core_kbf_queue_insert(&queue, &queued, codes, key, size, value);
		iblt_core_kbf_insert_with(&direct, codes, key, size, value);
		iblt_core_kbf_init(&one, &params, one.bytes);
		(void) iblt_core_kbf_insert(&one, key, size, value);
		(void) iblt_core_kbf_add(&summed, &one);
		if (below(50) == 0)
			iblt_core_kbf_queue_flush(&queue, &queued);
	}
	iblt_core_kbf_queue_flush(&queue, &queued);
	tap_ok(queued.keys == n && same(&queued, &direct) && same(&queued, &summed) &&
		   iblt_core_kbf_open(&opened, queued.bytes, queued.size) == IBLT_OK,
		   "round %d: %u pairs of keys of %zu bytes, %d hashes of %u cells, %u full", round, n, size, params.hashes,
		   params.subtable_cells, iblt_core_kbf_full_cells(&queued));
	free(queued.bytes);
	free(direct.bytes);
	free(summed.bytes);
	free(one.bytes);
}

int
main(void)
{
	int			round;

	for (round = 0; round < 40; round++)
		test_queue(round);
	return tap_done();
}
