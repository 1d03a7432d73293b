/*
 * test_strata.c
 *		The strata estimator: its keys, and its estimates.
 *
 * Estimates are held against a model that knows the keys: which stratum each
 * is in, and which strata peeling can empty, from positions alone.  Their
 * spread is held against what is published by test/sim/sim_meter.c.  That rows
 * in any order and in parts give the same bytes is for test/sql/aggregates.sql, what
 * bytes are refused for test/sql/strata.sql, and that the others stay as they are for
 * test/sql/golden.sql.
 */
#include "model.h"
#include "strata.h"

static IbltParams
strata_params(int strata, int hashes, uint32_t cells, uint64_t seed)
{
	IbltParams	params = make_params(IBLT_KEY_INTEGER, 1, hashes, cells, false, seed);

	params.strata = strata;
	return params;
}

static void
add_to_strata(IbltSketch *strata, uint64_t key, uint64_t y, int sign)
{
	uint8_t		bytes[8];

	iblt_store64(bytes, key);
	iblt_core_strata_add_row(strata, bytes, sizeof bytes, y, sign);
}

/* Estimates from a copy. */
static IbltPeelResult
estimate(const IbltSketch *strata, uint64_t *keys)
{
	IbltSketch *copy = sketch_copy(strata);

	return iblt_core_strata_estimate(copy, take(sizeof(IbltPeeler)),
									 take(iblt_core_strata_scratch_size(copy)), keys);
}

/* The 59 hashes that are no field element, and those next to them. */
static void
test_limb(void)
{
	IbltParams	params = strata_params(32, 4, 20, tap_random());
	IbltSketch *strata = sketch_new(&params);
	uint64_t	mask = iblt_limb_mask(&strata->hasher, 0);

	for (uint64_t x = 0; x < 64; x++)
	{
		uint64_t	hash = (UINT64_MAX - x) ^ mask;
		uint64_t	limb = iblt_strata_limb(strata, hash);

		check((limb ^ mask) < IBLT_FP_P, "word %" PRIu64, x);
		check((limb == hash) == (x >= 59), "word %" PRIu64, x);
		for (int n = 1; n <= IBLT_MAX_STRATA; n++)
			check(iblt_strata_stratum(hash, n) == iblt_strata_stratum(limb, n), "stratum of %d", n);
	}
	for (int n = 0; n < 64; n++)
		check(iblt_strata_stratum(UINT64_C(1) << n, 64) == n &&
			  iblt_strata_stratum(UINT64_C(1) << n, 9) == (n < 8 ? n : 8) &&
			  iblt_strata_stratum(UINT64_C(1) << n, 1) == 0, "bit %d", n);
	check(iblt_strata_stratum(0, 64) == 63, "no bit");
	checked("every hash can be kept, and keeps its stratum");
}

/* --- the estimate, against the keys ---------------------------------------------- */

/* How many of the keys in a stratum peeling cannot reach; n is those there. */
static uint32_t
stuck(const IbltSketch *strata, const uint64_t *hash, uint32_t nkeys, int number, uint32_t *n)
{
	Graph		graph = graph_new(strata, nkeys);
	uint8_t		limb[8];

	for (uint32_t i = 0; i < nkeys; i++)
		if (iblt_strata_stratum(hash[i], strata->params.strata) == number)
		{
			iblt_store64(limb, iblt_strata_limb(strata, hash[i]));
			graph_put_key(&graph, strata, i, limb);
		}
	*n = graph.left;
	return graph_peel(&graph);
}

/* The paper's estimate of these keys; *exact if it is their number. */
static uint64_t
paper_estimate(const IbltSketch *strata, const uint64_t *hash, uint32_t nkeys, bool *exact)
{
	uint64_t	count = 0;
	uint32_t	n;

	*exact = true;
	for (int i = strata->params.strata - 1; i >= 0; i--)
	{
		if (stuck(strata, hash, nkeys, i, &n) > 0)
		{
			*exact = false;
			if (i == strata->params.strata - 1)
				return 0;
			/* with nothing seen, one is: the estimate is never 0 */
			return (count == 0 ? 1 : count) * (UINT64_C(1) << (i + 1));
		}
		count += n;
	}
	return count;
}

/*
 * A difference of so many keys amid rows that are the same on both sides: keys
 * missing, extra, changed, and with several rows.
 */
static IbltSketch *
random_difference(const IbltParams *params, uint32_t nkeys, uint64_t *hash)
{
	IbltSketch *a = sketch_new(params);
	IbltSketch *b = sketch_new(params);
	uint64_t	base = tap_random();

	for (uint32_t i = 0; i < nkeys; i++)
	{
		uint64_t	key = base + i;
		uint8_t		bytes[8];

		iblt_store64(bytes, key);
		hash[i] = iblt_strata_hash(a, bytes, sizeof bytes);
		add_to_strata(i % 3 == 1 ? b : a, key, 1, 1);
		if (i % 3 == 2)
			add_to_strata(b, key, 2, 1);
		if (i % 5 == 0)
			add_to_strata(a, key, 3, 1);
	}
	for (uint32_t i = 0; i < 100; i++)
	{
		uint64_t	key = tap_random();

		add_to_strata(a, key, i, 1);
		add_to_strata(b, key, i, 1);
	}
	iblt_core_seal(b);
	iblt_core_add_sketch(a, b, -1);
	iblt_core_seal(a);
	return a;
}

static void
test_against_model(void)
{
	static const uint32_t sizes[] = {1, 2, 5, 20, 36};
	long		inexact = 0;

	TRIALS(round, scaled(2000))
	{
		IbltParams	params = strata_params(1 + (int) below(12), 3 + (int) below(6),
												sizes[below(5)], tap_random());
		uint32_t	nkeys = below(below(4) == 0 ? 2000 : 60);
		uint64_t   *hash = take((nkeys + 1) * sizeof *hash);
		IbltSketch *d = random_difference(&params, nkeys, hash);
		uint64_t	keys;
		bool		exact;
		uint64_t	expected = paper_estimate(d, hash, nkeys, &exact);
		IbltPeelResult result = estimate(d, &keys);

		check(keys == expected && result == (exact ? IBLT_PEEL_COMPLETE : IBLT_PEEL_INCOMPLETE),
			  "%" PRIu64 " instead of %" PRIu64 ", result %d", keys, expected, (int) result);
		check(!exact || keys == nkeys, "%u keys", nkeys);
		inexact += !exact;
	}
	check(inexact > 0, "all were exact");
	checked("estimates of all shapes are the paper's, and 0 only for no keys");
}

/* --- what nobody made ------------------------------------------------------------- */

static void
test_contradictions(void)
{
	IbltParams	params = strata_params(8, 4, 20, 3);
	IbltSketch *strata = sketch_new(&params);
	size_t		size = strata->cell_size * 80;
	uint8_t    *cells = strata->cells;
	uint64_t	keys;

	for (uint64_t i = 0; i < 20; i++)
		add_to_strata(strata, i, i, 1);
	iblt_core_seal(strata);
	check(estimate(strata, &keys) == IBLT_PEEL_COMPLETE && keys == 20, "honest");
	strata->rows = 19;
	check(estimate(strata, &keys) == IBLT_PEEL_INCONSISTENT, "row count");
	strata->rows = 20;
	/* the lowest stratum's keys in the highest */
	memcpy(cells + 7 * size, cells, size);
	memset(cells, 0, size);
	check(estimate(strata, &keys) == IBLT_PEEL_INCONSISTENT, "strata changed");

	strata = sketch_new(&params);
	strata->rows = 1;
	check(estimate(strata, &keys) == IBLT_PEEL_INCONSISTENT, "rows, no keys");
	strata->rows = 0;
	iblt_store16(strata->meter, 1);
	check(estimate(strata, &keys) == IBLT_PEEL_INCONSISTENT, "a meter, no keys");
	iblt_store16(strata->meter, 0);
	iblt_store32(strata->cells, 1);
	check(estimate(strata, &keys) == IBLT_PEEL_INCOMPLETE && keys == 2,
		  "a cell of count only, in the lowest stratum");
	checked("cells and header that contradict each other are not believed");
}

static void
test_overflow(void)
{
	IbltParams	params = strata_params(64, 3, 1, 3);
	IbltSketch *strata = sketch_new(&params);
	size_t		stratum_size = strata->cell_size * 3;
	uint64_t	keys;

	iblt_store32(strata->cells + 62 * stratum_size, 1);
	check(estimate(strata, &keys) == IBLT_PEEL_INCOMPLETE && keys == INT64_MAX, "%" PRIu64, keys);
	iblt_store32(strata->cells + 63 * stratum_size, 1);
	check(estimate(strata, &keys) == IBLT_PEEL_INCOMPLETE && keys == 0, "%" PRIu64, keys);
	checked("an estimate beyond 63 bits stops there; none is told as 0");
}

TAP_MAIN(test_limb, test_against_model, test_contradictions, test_overflow)
