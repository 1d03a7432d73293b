/*
 * test_field.c
 *		The field F_p against arithmetic that is slow and obvious.
 *
 * The reference shares nothing with field.h: p is written out, reduction is
 * the operator %, products are made by doubling and adding.  The file is also
 * compiled by test_field_portable.c, without 128-bit integers.
 */
#include <stdbool.h>

#include "field.h"
#include "tap.h"

#define P UINT64_C(18446744073709551557)
#define ROUNDS 1000000
#define BATCH 200

/* Around every place where a carry or a reduction turns. */
static const uint64_t edges[] = {
	0, 1, 2, 57, 58, 59, 60, 61, 118, 3480, 3481, 3482,
	UINT64_C(0x7fffffff), UINT64_C(0x80000000), UINT64_C(0xffffffff), UINT64_C(0x100000000),
	UINT64_C(0x100000001), UINT64_C(0x7fffffffffffffff), UINT64_C(0x8000000000000000),
	UINT64_C(0xffffffff00000000), UINT64_C(312656679215416129),
	P - 3481, P - 60, P - 59, P - 58, P - 2, P - 1, P, P + 1, P + 2, P + 29, P + 57, P + 58
};

#define EDGES ((int) (sizeof edges / sizeof edges[0]))

static uint64_t
slow_add(uint64_t a, uint64_t b)
{
	a %= P;
	b %= P;
	return a >= P - b ? a - (P - b) : a + b;
}

static uint64_t
slow_mul(uint64_t a, uint64_t b)
{
	uint64_t product = 0;

	for (; b != 0; b >>= 1, a = slow_add(a, a))
		if (b & 1)
			product = slow_add(product, a);
	return product;
}

/* An edge, a word close to one, or any word. */
static uint64_t
operand(void)
{
	uint64_t r = tap_random();

	switch (r & 3)
	{
		case 0:
			return edges[(r >> 8) % EDGES];
		case 1:
			return edges[(r >> 8) % EDGES] + (r >> 16) % 200 - 100;
		default:
			return tap_random();
	}
}

static bool
failed(const char *what, uint64_t a, uint64_t b)
{
	printf("# seed %" PRIu64 ": %s is wrong for %" PRIu64 " and %" PRIu64 "\n",
		   tap_seed(), what, a, b);
	return false;
}

/* Everything that takes two operands, or one. */
static bool
right(uint64_t a, uint64_t b)
{
	uint64_t x = a % P;
	uint64_t y = b % P;

	if (fp_reduce(a) != x)
		return failed("fp_reduce", a, b);
	if (fp_mul(a, b) != slow_mul(a, b))
		return failed("fp_mul", a, b);
	if (fp_add_lazy(a, y) % P != slow_add(a, y))
		return failed("fp_add_lazy", a, y);
	if (fp_add(x, y) != slow_add(x, y))
		return failed("fp_add", x, y);
	if (fp_neg(x) >= P || slow_add(fp_neg(x), x) != 0)
		return failed("fp_neg", x, y);
	if (fp_sub(x, y) >= P || slow_add(fp_sub(x, y), y) != x)
		return failed("fp_sub", x, y);
	return true;
}

static void
test_edges(void)
{
	bool ok = true;

	for (int i = 0; i < EDGES; i++)
		for (int j = 0; j < EDGES; j++)
			ok = right(edges[i], edges[j]) && ok;
	tap_ok(ok, "all pairs of edge operands add, subtract and multiply right");
}

static void
test_random(void)
{
	bool ok = true;

	for (int i = 0; i < ROUNDS && ok; i++)
	{
		uint64_t a = operand();

		ok = right(a, operand());
	}
	tap_ok(ok, "random operands add, subtract and multiply right");
}

/* Sums that stay lazy for long: each step may find any word. */
static void
test_lazy_sums(void)
{
	uint64_t lazy = 0;
	uint64_t sum = 0;
	bool ok = true;

	for (int i = 0; i < ROUNDS && ok; i++)
	{
		uint64_t term = i % 3 == 0 ? P - 1 - tap_random() % 100 : operand() % P;

		lazy = fp_add_lazy(lazy, term);
		sum = slow_add(sum, term);
		ok = fp_reduce(lazy) == sum || failed("a lazy sum", lazy, sum);
	}
	tap_ok(ok, "a lazy running sum keeps its residue");
}

static void
test_lazy_bounds(void)
{
	bool ok = true;

	/* the largest sum there can be: its carry must not carry again */
	ok = fp_add_lazy(UINT64_MAX, P - 1) == UINT64_MAX - 1 && ok;
	/* a carry that leaves nothing behind, and none by one */
	for (uint64_t i = 1; i <= 120; i++)
	{
		ok = fp_add_lazy(UINT64_MAX - i + 1, i) == 59 && ok;
		ok = fp_add_lazy(UINT64_MAX - i, i) == UINT64_MAX && ok;
	}
	tap_ok(ok, "lazy addition folds exactly at the carry");
}

static void
test_from_int32(void)
{
	static const int32_t numbers[] = { 0,		  1,		  -1,		2,
									   -2,		  58,		  -59,		65535,
									   INT32_MAX, -INT32_MAX, INT32_MIN };
	bool ok = true;

	for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
	{
		int64_t n = numbers[i];
		uint64_t expected = n >= 0 ? (uint64_t) n : P - (uint64_t) -n;

		if (fp_from_int32(numbers[i]) != expected)
			ok = failed("fp_from_int32", (uint64_t) n, expected);
	}
	tap_ok(ok, "signed integers become field elements, INT32_MIN too");
}

static void
test_inverses(void)
{
	bool ok = true;

	for (int i = 0; i < ROUNDS / 100 && ok; i++)
	{
		uint64_t a = (i < EDGES ? edges[i] : operand()) % P;

		if (a != 0 && (fp_inv(a) >= P || slow_mul(fp_inv(a), a) != 1))
			ok = failed("fp_inv", a, fp_inv(a));
	}
	tap_ok(ok, "an element times its inverse is one");
}

static bool
batch_right(size_t n)
{
	uint64_t in[BATCH];
	uint64_t out[BATCH + 1];

	for (size_t i = 0; i < n; i++)
		while ((in[i] = operand() % P) == 0)
			;
	out[n] = 42;
	fp_inv_batch(in, out, n);
	for (size_t i = 0; i < n; i++)
		if (out[i] >= P || slow_mul(in[i], out[i]) != 1)
			return failed("fp_inv_batch", in[i], i);
	return out[n] == 42 || failed("the end of fp_inv_batch", n, out[n]);
}

static void
test_batches(void)
{
	bool ok = true;

	for (size_t n = 0; n <= BATCH && ok; n++)
		ok = batch_right(n);
	tap_ok(ok, "batches of 0 to %d elements invert like single ones", BATCH);
}

int
main(void)
{
	(void) tap_seed();
	tap_ok(IBLT_FP_P == P && IBLT_FP_FOLD == 59, "p is 2^64 - 59");
	test_edges();
	test_random();
	test_lazy_sums();
	test_lazy_bounds();
	test_from_int32();
	test_inverses();
	test_batches();
	return tap_done();
}
