/*
 * test_field.c
 *		The field F_p against arithmetic that is slow and obvious.
 *
 * The reference shares nothing with field.h: p is written out, reduction is
 * the operator %, products are made by doubling and adding.  The file is also
 * compiled by test_field_portable.c, without 128-bit integers.
 */
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
			return edges[(r >> 8) % (uint64_t) LENGTH(edges)];
		case 1:
			return edges[(r >> 8) % (uint64_t) LENGTH(edges)] + (r >> 16) % 200 - 100;
		default:
			return tap_random();
	}
}

/* Everything that takes two operands, or one. */
static void
check_right(uint64_t a, uint64_t b)
{
	uint64_t x = a % P;
	uint64_t y = b % P;

	if (!check(fp_reduce(a) == x && fp_mul(a, b) == slow_mul(a, b) &&
			   fp_add_lazy(a, y) % P == slow_add(a, y), "%" PRIu64 " and %" PRIu64, a, b))
		return;
	check(fp_add(x, y) == slow_add(x, y), "%" PRIu64 " and %" PRIu64, x, y);
	check(fp_neg(x) < P && slow_add(fp_neg(x), x) == 0, "%" PRIu64, x);
	check(fp_sub(x, y) < P && slow_add(fp_sub(x, y), y) == x, "%" PRIu64 " and %" PRIu64, x, y);
}

static void
test_operations(void)
{
	tap_ok(IBLT_FP_P == P && IBLT_FP_FOLD == 59, "p is 2^64 - 59");
	for (int i = 0; i < LENGTH(edges); i++)
		for (int j = 0; j < LENGTH(edges); j++)
			check_right(edges[i], edges[j]);
	checked("all pairs of edge operands add, subtract and multiply right");
	for (int i = 0; i < ROUNDS; i++)
	{
		uint64_t a = operand();

		check_right(a, operand());
	}
	checked("random operands add, subtract and multiply right");
}

/* Sums that stay lazy for long: each step may find any word. */
static void
test_lazy_sums(void)
{
	uint64_t lazy = 0;
	uint64_t sum = 0;

	for (int i = 0; i < ROUNDS; i++)
	{
		uint64_t term = i % 3 == 0 ? P - 1 - tap_random() % 100 : operand() % P;

		lazy = fp_add_lazy(lazy, term);
		sum = slow_add(sum, term);
		check(fp_reduce(lazy) == sum, "%" PRIu64 " stands for %" PRIu64, lazy, sum);
	}
	/* the largest sum there can be: its carry must not carry again */
	check(fp_add_lazy(UINT64_MAX, P - 1) == UINT64_MAX - 1, "the largest sum");
	/* a carry that leaves nothing behind, and none by one */
	for (uint64_t i = 1; i <= 120; i++)
		check(fp_add_lazy(UINT64_MAX - i + 1, i) == 59 &&
			  fp_add_lazy(UINT64_MAX - i, i) == UINT64_MAX, "%" PRIu64, i);
	checked("a lazy running sum keeps its residue, and folds exactly at the carry");
}

static void
test_from_int32(void)
{
	static const int32_t numbers[] = {0, 1, -1, 2, -2, 58, -59, 65535, INT32_MAX, -INT32_MAX,
		INT32_MIN};

	for (int i = 0; i < LENGTH(numbers); i++)
	{
		int64_t n = numbers[i];

		check(fp_from_int32(numbers[i]) == (n >= 0 ? (uint64_t) n : P - (uint64_t) -n),
			  "%" PRId64, n);
	}
	checked("signed integers become field elements, INT32_MIN too");
}

/* Inverses of single elements and of batches. */
static void
test_inverses(void)
{
	uint64_t in[BATCH];
	uint64_t out[BATCH + 1];

	for (int i = 0; i < ROUNDS / 100; i++)
	{
		uint64_t a = (i < LENGTH(edges) ? edges[i] : operand()) % P;

		check(a == 0 || (fp_inv(a) < P && slow_mul(fp_inv(a), a) == 1), "%" PRIu64, a);
	}
	checked("an element times its inverse is one");
	for (size_t n = 0; n <= BATCH; n++)
	{
		for (size_t i = 0; i < n; i++)
			while ((in[i] = operand() % P) == 0)
				;
		out[n] = 42;
		fp_inv_batch(in, out, n);
		for (size_t i = 0; i < n; i++)
			check(out[i] < P && slow_mul(in[i], out[i]) == 1, "%" PRIu64 " of %zu", in[i], n);
		check(out[n] == 42, "beyond the end of %zu", n);
	}
	checked("batches invert like single elements");
}

TAP_MAIN(test_operations, test_lazy_sums, test_from_int32, test_inverses)
