/*
 * test_strata.c
 *		The strata estimator: its format, its algebra, and its estimates.
 *
 * Estimates are held against a model that knows the keys: which stratum each
 * is in, and which strata peeling can empty, from positions alone.  Their
 * spread is held against what is published by test/sim/sim_meter.c, and cells
 * of random bytes are for fuzz_strata.c.
 */
#include "model.h"
#include "strata.h"

#define HEADER_SIZE		32

static IbltStrataParams
strata_params(int strata, int hashes, uint32_t cells, uint64_t seed)
{
	IbltStrataParams params;

	params.table = make_params(IBLT_KEY_INTEGER, 1, hashes, cells, false, seed);
	params.strata = strata;
	return params;
}

static IbltStrata *
strata_new(const IbltStrataParams *params)
{
	IbltStrata *strata = take(sizeof *strata);

	iblt_core_strata_init(strata, params, take(iblt_core_strata_size(params)));
	return strata;
}

static IbltStrata *
strata_copy(const IbltStrata *from)
{
	IbltStrata *strata = take(sizeof *strata);
	uint8_t    *bytes = take(from->all.size);

	memcpy(bytes, from->all.bytes, from->all.size);
	iblt_core_strata_view_copy(strata, from, bytes);
	return strata;
}

static void
strata_free(IbltStrata *strata)
{
	free(strata->all.bytes);
	free(strata);
}

static bool
same(const IbltStrata *a, const IbltStrata *b)
{
	return a->all.size == b->all.size &&
		memcmp(a->all.bytes, b->all.bytes, a->all.size) == 0;
}

static void
add_integer(IbltStrata *strata, uint64_t key, uint64_t y, int sign)
{
	uint8_t		bytes[8];

	iblt_store64(bytes, key);
	iblt_core_strata_add_row(strata, bytes, sizeof bytes, y, sign);
}

/* Estimates from a copy; demands that it ends in time. */
static IbltPeelResult
estimate(const IbltStrata *strata, uint64_t *keys)
{
	IbltStrata *copy = strata_copy(strata);
	IbltStrataDecoder *decoder = take(sizeof *decoder);
	void	   *scratch = take(iblt_core_strata_scratch_size(copy));
	uint64_t	steps = 0;
	IbltPeelResult result;

	iblt_core_strata_decode_start(decoder, copy, scratch);
	while (iblt_core_strata_decode_step(decoder) &&
		   check(++steps <= copy->all.ncells + (uint64_t) copy->params.strata,
				 "%" PRIu64 " steps", steps))
		;
	result = iblt_core_strata_result(decoder, keys);
	free(scratch);
	free(decoder);
	strata_free(copy);
	return result;
}

/* --- the format ---------------------------------------------------------------- */

/*
 * Computed from doc/internals/format.md by a program of its own, in Python with its own
 * arithmetic.
 */
static const struct
{
	IbltKeyKind kind;
	int			strata;
	int			hashes;
	uint32_t	cells;
	uint64_t	seed;
	int			rows;
	size_t		size;
	uint64_t	trailer;
} golden[] = {
	{IBLT_KEY_UNTYPED, 32, 4, 20, 0, 0, 40, UINT64_C(0x87A747E3C397C68C)},
	{IBLT_KEY_INTEGER, 32, 4, 20, 0, 0, 71720,
	UINT64_C(0x09DBFCAA329198BB)},
	{IBLT_KEY_INTEGER, 32, 4, 20, 0, 1000, 71720,
	UINT64_C(0xBF2344503EE00CBC)},
	{IBLT_KEY_UUID, 5, 3, 7, UINT64_C(0x0123456789ABCDEF), 40, 2980,
	UINT64_C(0x353CA27B6D551012)},
	{IBLT_KEY_CANONICAL, 64, 8, 1, UINT64_MAX, 300, 14384,
	UINT64_C(0xD562A549222E5264)}
};

/* Row n: of an integer, of a uuid, or of a text of n mod 200 bytes. */
static void
golden_row(IbltStrata *strata, IbltKeyKind kind, int n)
{
	uint8_t		key[200];
	size_t		size = kind == IBLT_KEY_INTEGER ? 8
		: kind == IBLT_KEY_UUID ? 16 : (size_t) n % 200;
	size_t		b;

	memset(key, 0, sizeof key);
	if (kind == IBLT_KEY_INTEGER)
		iblt_store64(key, (uint64_t) n - 500);
	else
		for (b = 0; b < size; b++)
			key[b] = (uint8_t) (n * 7 + (int) b * 3);
	iblt_core_strata_add_row(strata, key, size,
							 (uint64_t) n * (uint64_t) n - 5,
							 n % 4 == 3 ? -1 : 1);
}

static void
test_golden(void)
{
	size_t		g;
	int			n;

	for (g = 0; g < sizeof golden / sizeof golden[0]; g++)
	{
		IbltStrataParams params = strata_params(golden[g].strata,
												golden[g].hashes,
												golden[g].cells,
												golden[g].seed);
		IbltStrata *strata;
		uint64_t	trailer;

		params.table.kind = golden[g].kind;
		params.table.limbs = golden[g].kind == IBLT_KEY_UUID ? 2 : 1;
		if (golden[g].kind == IBLT_KEY_CANONICAL)
		{
			params.table.description = (const uint8_t *) "text";
			params.table.description_size = 4;
		}
		strata = strata_new(&params);
		for (n = 0; n < golden[g].rows; n++)
			golden_row(strata, golden[g].kind, n);
		iblt_core_strata_seal(strata);
		trailer = iblt_load64(strata->all.bytes + strata->all.size - 8);
		check(strata->all.size == golden[g].size, "size %zu of vector %zu",
			  strata->all.size, g);
		check(trailer == golden[g].trailer, "trailer %016" PRIX64
			  " of vector %zu", trailer, g);
		strata_free(strata);
	}
	checked("golden estimators have the golden sizes and checksums");
}

/* A small estimator of text keys: header, description, padding, cells. */
static IbltStrata *
small_estimator(void)
{
	IbltStrataParams params = strata_params(2, 3, 2, 77);
	IbltStrata *strata;
	int			n;

	params.table.kind = IBLT_KEY_CANONICAL;
	params.table.description = (const uint8_t *) "text,int4";
	params.table.description_size = 9;
	strata = strata_new(&params);
	for (n = 0; n < 5; n++)
		golden_row(strata, IBLT_KEY_CANONICAL, 10 + n);
	iblt_core_strata_seal(strata);
	return strata;
}

/* Opens bytes that lie in memory of their exact size. */
static IbltStatus
open_bytes(const uint8_t *bytes, size_t size)
{
	uint8_t    *copy = take(size);
	IbltStrata *strata = take(sizeof *strata);
	IbltStatus	status;

	if (size > 0)
		memcpy(copy, bytes, size);
	status = iblt_core_strata_open(strata, copy, size);
	check(size == 0 || memcmp(copy, bytes, size) == 0, "bytes were changed");
	check(iblt_core_strata_status_text(status) != NULL, "no text");
	free(strata);
	free(copy);
	return status;
}

static void
test_damage(void)
{
	IbltStrata *strata = small_estimator();
	uint8_t    *bytes = take(strata->all.size + 8);
	size_t		size = strata->all.size;
	size_t		i;
	int			bit;

	memset(bytes, 0, size + 8);
	memcpy(bytes, strata->all.bytes, size);
	check(open_bytes(bytes, size) == IBLT_OK, "the honest bytes");
	for (i = 0; i < size; i++)
		check(open_bytes(bytes, i) != IBLT_OK, "cut to %zu bytes", i);
	for (i = 1; i <= 8; i++)
		check(open_bytes(bytes, size + i) == IBLT_BAD_SIZE, "%zu more", i);
	for (i = 0; i < size; i++)
		for (bit = 0; bit < 8; bit++)
		{
			bytes[i] ^= (uint8_t) (1 << bit);
			check(open_bytes(bytes, size) != IBLT_OK, "byte %zu bit %d", i, bit);
			bytes[i] ^= (uint8_t) (1 << bit);
		}
	free(bytes);
	strata_free(strata);
	checked("a bit turned, bytes missing or too many are refused");
}

/* What is wrong in the header alone, under a checksum that is right. */
static void
test_header(void)
{
	static const struct
	{
		size_t		offset;
		uint8_t		byte;
		IbltStatus	status;
	}			wrong[] = {
		{0, 'X', IBLT_BAD_MAGIC}, {3, 'T', IBLT_BAD_MAGIC},
		{4, 0, IBLT_BAD_VERSION}, {4, 2, IBLT_BAD_VERSION},
		{5, 2, IBLT_BAD_HASHES}, {5, 9, IBLT_BAD_HASHES},
		{5, 255, IBLT_BAD_HASHES}, {5, 4, IBLT_BAD_SIZE},
		{6, 0, IBLT_BAD_STRATA}, {6, 65, IBLT_BAD_STRATA},
		{6, 3, IBLT_BAD_SIZE}, {7, 1, IBLT_BAD_RESERVED},
		{9, 128, IBLT_BAD_RESERVED}, {8, 4, IBLT_BAD_KEY_KIND},
		{8, 1, IBLT_BAD_DESCRIPTION}, {8, 2, IBLT_BAD_DESCRIPTION},
		{8, 0, IBLT_BAD_DESCRIPTION}, {10, 0, IBLT_BAD_DESCRIPTION},
		{10, 10, IBLT_BAD_DESCRIPTION}, {10, 8, IBLT_BAD_SIZE},
		{11, 255, IBLT_BAD_SIZE}, {12, 0, IBLT_BAD_CELLS},
		{12, 11, IBLT_BAD_CELLS}, {12, 3, IBLT_BAD_SIZE},
		{15, 255, IBLT_BAD_CELLS}, {15, 1, IBLT_BAD_CELLS},
		{HEADER_SIZE, 10, IBLT_BAD_DESCRIPTION},
		{HEADER_SIZE, 0xff, IBLT_BAD_DESCRIPTION},
		{HEADER_SIZE + 15, 1, IBLT_BAD_RESERVED}
	};
	size_t		i;

	for (i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
	{
		IbltStrata *strata = small_estimator();
		IbltStatus	status;

		strata->all.bytes[wrong[i].offset] = wrong[i].byte;
		repair_trailer(strata->all.bytes, strata->all.size);
		status = open_bytes(strata->all.bytes, strata->all.size);
		check(status == wrong[i].status, "byte %zu = %d: %s", wrong[i].offset,
			  wrong[i].byte, iblt_core_strata_status_text(status));
		strata_free(strata);
	}
	checked("each wrong part of the header is found");
}

static void
test_cells_refused(void)
{
	IbltStrata *strata = small_estimator();
	IbltStrataParams params = strata_params(3, 4, 2, 0);
	uint64_t	keys;
	uint32_t	i;
	unsigned	f;

	for (i = 0; i < strata->all.ncells; i++)
		for (f = 0; f < strata->all.fields; f++)
		{
			uint8_t    *cell = iblt_cell(&strata->all, i);
			uint64_t	old = iblt_cell_field(cell, f);

			iblt_cell_set_field(cell, f, IBLT_FP_P + below(59));
			repair_trailer(strata->all.bytes, strata->all.size);
			check(open_bytes(strata->all.bytes, strata->all.size) ==
				  IBLT_BAD_FIELD, "cell %u, field %u", i, f);
			iblt_cell_set_field(cell, f, old);
		}
	strata_free(strata);

	/* without a type of key there can be no rows */
	params.table.kind = IBLT_KEY_UNTYPED;
	strata = strata_new(&params);
	strata->all.rows = 1;
	iblt_core_strata_seal(strata);
	check(open_bytes(strata->all.bytes, strata->all.size) == IBLT_BAD_TEMPLATE,
		  "a row count without a type of key");
	strata_free(strata);
	strata = strata_new(&params);
	iblt_core_strata_seal(strata);
	check(open_bytes(strata->all.bytes, strata->all.size) == IBLT_OK, "empty");
	check(iblt_core_strata_is_empty(strata) &&
		  estimate(strata, &keys) == IBLT_PEEL_COMPLETE && keys == 0,
		  "no keys in a template");
	strata_free(strata);
	checked("cells outside the field and rows without a key type are refused");
}

static void
test_sizes(void)
{
	IbltStrataParams params = strata_params(64, 8, UINT32_C(1) << 24, 0);

	check(iblt_core_strata_size(&params) == 0, "240 GB");
	check(iblt_core_strata_check_params(&params) == IBLT_BAD_SIZE, "240 GB");
	params = strata_params(1, 3, 12582912, 0);
	check(iblt_core_strata_check_params(&params) == IBLT_OK, "most of 1 GB");
	/* what a sketch of uuids could not have, an estimator of them can */
	params.table.kind = IBLT_KEY_UUID;
	params.table.limbs = 2;
	check(iblt_core_strata_check_params(&params) == IBLT_OK, "of uuids");
	params.strata = 2;
	check(iblt_core_strata_check_params(&params) == IBLT_BAD_SIZE, "2 GB");
	params.table.kind = IBLT_KEY_UNTYPED;
	params.table.limbs = 1;
	check(iblt_core_strata_check_params(&params) == IBLT_BAD_SIZE,
		  "a template of 2 GB");
	checked("sizes are known before memory is taken");
}

static void
test_compatible(void)
{
	IbltStrataParams a = strata_params(32, 4, 20, 7);
	IbltStrataParams b = a;

	check(iblt_core_strata_compatible(&a, &b) == IBLT_OK, "the same");
	b.strata = 31;
	check(iblt_core_strata_compatible(&a, &b) == IBLT_OTHER_STRATA, "strata");
	b = strata_params(32, 5, 20, 7);
	check(iblt_core_strata_compatible(&a, &b) == IBLT_OTHER_HASHES, "hashes");
	b = strata_params(32, 4, 21, 7);
	check(iblt_core_strata_compatible(&a, &b) == IBLT_OTHER_CELLS, "cells");
	b = strata_params(32, 4, 20, 8);
	check(iblt_core_strata_compatible(&a, &b) == IBLT_OTHER_SEED, "seed");
	b = a;
	b.table.kind = IBLT_KEY_UUID;
	b.table.limbs = 2;
	check(iblt_core_strata_compatible(&a, &b) == IBLT_OTHER_KEY_TYPE, "type");
	a.table.kind = IBLT_KEY_UNTYPED;
	check(iblt_core_strata_compatible(&a, &b) == IBLT_OK, "left untyped");
	check(iblt_core_strata_compatible(&b, &a) == IBLT_OK, "right untyped");
	b.table.seed = 1;
	check(iblt_core_strata_compatible(&b, &a) == IBLT_OTHER_SEED, "and a seed");
	checked("parameters that differ are told");
}

/* --- the algebra ---------------------------------------------------------------- */

static void
test_order(void)
{
	long		round;
	int			i;

	for (round = scaled(50); round > 0; round--)
	{
		IbltStrataParams params = strata_params(1 + (int) below(64),
												3 + (int) below(6), 7,
												tap_random());
		IbltStrata *forward = strata_new(&params);
		IbltStrata *backward = strata_new(&params);
		IbltStrata *part = strata_new(&params);
		uint64_t	base = tap_random();
		int			rows = (int) below(300);

		for (i = 0; i < rows; i++)
			add_integer(i % 3 == 0 ? part : forward, base + (uint64_t) i / 2,
						(uint64_t) i, i % 5 == 0 ? -1 : 1);
		for (i = rows - 1; i >= 0; i--)
			add_integer(backward, base + (uint64_t) i / 2, (uint64_t) i,
						i % 5 == 0 ? -1 : 1);
		/* a state that a worker sends is sealed */
		iblt_core_strata_seal(part);
		iblt_core_strata_add(forward, part, 1);
		iblt_core_strata_seal(forward);
		iblt_core_strata_seal(backward);
		check(same(forward, backward), "%d rows", rows);
		check(open_bytes(forward->all.bytes, forward->all.size) == IBLT_OK,
			  "opens");
		strata_free(forward);
		strata_free(backward);
		strata_free(part);
	}
	checked("any order and any partition of the rows gives the same bytes");
}

static void
test_linear(void)
{
	IbltStrataParams params = strata_params(32, 4, 20, tap_random());
	IbltStrata *a = strata_new(&params);
	IbltStrata *empty = strata_new(&params);
	IbltStrata *b;
	uint64_t	keys;
	int			i;

	iblt_core_strata_seal(empty);
	check(iblt_core_strata_is_empty(empty), "empty");
	for (i = 0; i < 5000; i++)
		add_integer(a, tap_random(), tap_random(), i % 7 == 0 ? -1 : 1);
	iblt_core_strata_seal(a);
	check(!iblt_core_strata_is_empty(a), "not empty");

	b = strata_copy(a);
	iblt_core_strata_negate(b);
	iblt_core_strata_seal(b);
	check(!same(a, b), "-a is not a");
	iblt_core_strata_negate(b);
	iblt_core_strata_seal(b);
	check(same(a, b), "-(-a) is a");
	iblt_core_strata_add(b, a, -1);
	iblt_core_strata_seal(b);
	check(same(b, empty) && iblt_core_strata_is_empty(b), "a - a is empty");
	check(estimate(b, &keys) == IBLT_PEEL_COMPLETE && keys == 0, "no keys");
	iblt_core_strata_add(b, a, 1);
	iblt_core_strata_add(b, a, 1);
	iblt_core_strata_add(b, a, -1);
	iblt_core_strata_seal(b);
	check(same(a, b), "a + a - a is a");
	strata_free(a);
	strata_free(b);
	strata_free(empty);
	checked("addition, subtraction and negation are linear");
}

/* The 59 hashes that are no field element, and those next to them. */
static void
test_limb(void)
{
	IbltStrataParams params = strata_params(32, 4, 20, tap_random());
	IbltStrata *strata = strata_new(&params);
	uint64_t	mask = iblt_limb_mask(&strata->all.hasher, 0);
	uint64_t	x;
	int			n;

	for (x = 0; x < 64; x++)
	{
		uint64_t	hash = (UINT64_MAX - x) ^ mask;
		uint64_t	limb = iblt_strata_limb(strata, hash);

		check((limb ^ mask) < IBLT_FP_P, "word %" PRIu64, x);
		check((limb == hash) == (x >= 59), "word %" PRIu64, x);
		for (n = 1; n <= IBLT_MAX_STRATA; n++)
			check(iblt_strata_stratum(hash, n) == iblt_strata_stratum(limb, n),
				  "stratum of %d", n);
	}
	for (n = 0; n < 64; n++)
		check(iblt_strata_stratum(UINT64_C(1) << n, 64) == n &&
			  iblt_strata_stratum(UINT64_C(1) << n, 9) == (n < 8 ? n : 8) &&
			  iblt_strata_stratum(UINT64_C(1) << n, 1) == 0, "bit %d", n);
	check(iblt_strata_stratum(0, 64) == 63, "no bit");
	strata_free(strata);
	checked("every hash can be kept, and keeps its stratum");
}

/* --- the estimate, against the keys ---------------------------------------------- */

/* Marks of one key's hash in a table of counted and XORed names. */
static void
toggle(const IbltStrata *strata, uint64_t hash, uint32_t name, uint32_t *degree,
	   uint32_t *names, uint32_t step)
{
	uint32_t	index[IBLT_MAX_HASHES];
	uint8_t		limb[8];
	int			i;

	iblt_store64(limb, iblt_strata_limb(strata, hash));
	for (i = positions(&strata->all, limb, index) - 1; i >= 0; i--)
	{
		degree[index[i]] += step;
		names[index[i]] ^= name;
	}
}

/* How many of the keys in a stratum peeling cannot reach; n is those there. */
static uint32_t
stuck(const IbltStrata *strata, const uint64_t *hash, uint32_t nkeys,
	  int number, uint32_t *n)
{
	uint32_t	cells = (uint32_t) strata->params.table.hashes *
		strata->params.table.subtable_cells;
	uint32_t   *degree = calloc(cells, sizeof *degree);
	uint32_t   *names = calloc(cells, sizeof *names);
	uint32_t	left = 0;
	uint32_t	before;
	uint32_t	i;

	if (degree == NULL || names == NULL)
		exit(1);
	for (i = 0; i < nkeys; i++)
		if (iblt_strata_stratum(hash[i], strata->params.strata) == number)
		{
			toggle(strata, hash[i], i, degree, names, 1);
			left++;
		}
	*n = left;
	do
	{
		before = left;
		for (i = 0; i < cells; i++)
			if (degree[i] == 1)
			{
				toggle(strata, hash[names[i]], names[i], degree, names,
					   UINT32_MAX);
				left--;
			}
	} while (left != before);
	free(degree);
	free(names);
	return left;
}

/* The paper's estimate of these keys; *exact if it is their number. */
static uint64_t
paper_estimate(const IbltStrata *strata, const uint64_t *hash, uint32_t nkeys,
			   bool *exact)
{
	uint64_t	count = 0;
	uint32_t	n;
	int			i;

	*exact = true;
	for (i = strata->params.strata - 1; i >= 0; i--)
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
static IbltStrata *
random_difference(const IbltStrataParams *params, uint32_t nkeys,
				  uint64_t *hash)
{
	IbltStrata *a = strata_new(params);
	IbltStrata *b = strata_new(params);
	uint64_t	base = tap_random();
	uint32_t	i;

	for (i = 0; i < nkeys; i++)
	{
		uint64_t	key = base + i;
		uint8_t		bytes[8];

		iblt_store64(bytes, key);
		hash[i] = iblt_strata_hash(a, bytes, sizeof bytes);
		add_integer(i % 3 == 1 ? b : a, key, 1, 1);
		if (i % 3 == 2)
			add_integer(b, key, 2, 1);
		if (i % 5 == 0)
			add_integer(a, key, 3, 1);
	}
	for (i = 0; i < 100; i++)
	{
		uint64_t	key = tap_random();

		add_integer(a, key, i, 1);
		add_integer(b, key, i, 1);
	}
	iblt_core_strata_seal(b);
	iblt_core_strata_add(a, b, -1);
	iblt_core_strata_seal(a);
	strata_free(b);
	return a;
}

/*
 * Two keys with the same cells, 20^-4 of the pairs in a stratum, cannot be told
 * apart.  d keys have some d^2 / 6 such pairs, which makes 0.5 failures of
 * all these; more than 6 happen once in a million times.
 */
static void
test_exact(void)
{
	uint64_t	hash[40];
	uint32_t	nkeys;
	long		round;
	uint64_t	keys;
	long		inexact = 0;

	for (nkeys = 0; nkeys <= 40; nkeys++)
		for (round = scaled(20); round > 0; round--)
		{
			IbltStrataParams params = strata_params(32, 4, 20, tap_random());
			IbltStrata *d = random_difference(&params, nkeys, hash);
			IbltPeelResult result = estimate(d, &keys);

			if (result != IBLT_PEEL_COMPLETE)
				inexact++;
			else
				check(keys == nkeys, "%" PRIu64 " of %u keys", keys, nkeys);
			strata_free(d);
		}
	check(inexact <= 6, "%ld were not counted", inexact);
	checked("up to 40 differences are counted exactly");
}

static void
test_against_model(void)
{
	static const uint32_t sizes[] = {1, 2, 5, 20, 36};
	long		round;
	long		inexact = 0;

	for (round = scaled(2000); round > 0; round--)
	{
		IbltStrataParams params = strata_params(1 + (int) below(12),
												3 + (int) below(6),
												sizes[below(5)], tap_random());
		uint32_t	nkeys = below(below(4) == 0 ? 2000 : 60);
		uint64_t   *hash = take((nkeys + 1) * sizeof *hash);
		IbltStrata *d = random_difference(&params, nkeys, hash);
		uint64_t	keys;
		bool		exact;
		uint64_t	expected = paper_estimate(d, hash, nkeys, &exact);
		IbltPeelResult result = estimate(d, &keys);

		check(keys == expected && result ==
			  (exact ? IBLT_PEEL_COMPLETE : IBLT_PEEL_INCOMPLETE),
			  "%" PRIu64 " instead of %" PRIu64 ", result %d", keys, expected,
			  (int) result);
		check(!exact || keys == nkeys, "%u keys", nkeys);
		inexact += !exact;
		free(hash);
		strata_free(d);
	}
	check(inexact > 0, "all were exact");
	checked("estimates of all shapes are the paper's, and 0 only for no keys");
}

/* --- what nobody made ------------------------------------------------------------- */

static void
test_contradictions(void)
{
	IbltStrataParams params = strata_params(8, 4, 20, 3);
	IbltStrata *strata = strata_new(&params);
	size_t		size = strata->stratum_size;
	uint8_t    *cells = strata->all.cells;
	uint64_t	keys;
	uint64_t	i;

	for (i = 0; i < 20; i++)
		add_integer(strata, i, i, 1);
	iblt_core_strata_seal(strata);
	check(estimate(strata, &keys) == IBLT_PEEL_COMPLETE && keys == 20, "honest");
	strata->all.rows = 19;
	check(estimate(strata, &keys) == IBLT_PEEL_INCONSISTENT, "row count");
	strata->all.rows = 20;
	/* the lowest stratum's keys in the highest */
	memcpy(cells + 7 * size, cells, size);
	memset(cells, 0, size);
	check(estimate(strata, &keys) == IBLT_PEEL_INCONSISTENT, "strata changed");
	strata_free(strata);

	strata = strata_new(&params);
	strata->all.rows = 1;
	check(estimate(strata, &keys) == IBLT_PEEL_INCONSISTENT, "rows, no keys");
	strata->all.rows = 0;
	iblt_store32(strata->all.cells, 1);
	check(estimate(strata, &keys) == IBLT_PEEL_INCOMPLETE && keys == 2,
		  "a cell of count only, in the lowest stratum");
	strata_free(strata);
	checked("cells and header that contradict each other are not believed");
}

static void
test_overflow(void)
{
	IbltStrataParams params = strata_params(64, 3, 1, 3);
	IbltStrata *strata = strata_new(&params);
	uint64_t	keys;

	iblt_store32(strata->all.cells + 62 * strata->stratum_size, 1);
	check(estimate(strata, &keys) == IBLT_PEEL_INCOMPLETE &&
		  keys == INT64_MAX, "%" PRIu64, keys);
	iblt_store32(strata->all.cells + 63 * strata->stratum_size, 1);
	check(estimate(strata, &keys) == IBLT_PEEL_INCOMPLETE && keys == 0,
		  "%" PRIu64, keys);
	strata_free(strata);
	checked("an estimate beyond 63 bits stops there; none is told as 0");
}

int
main(void)
{
	test_golden();
	test_damage();
	test_header();
	test_cells_refused();
	test_sizes();
	test_compatible();
	test_order();
	test_linear();
	test_limb();
	test_exact();
	test_against_model();
	test_contradictions();
	test_overflow();
	return tap_done();
}
