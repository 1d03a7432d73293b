/*
 * field.h
 *		Arithmetic in the prime field F_p, p = 2^64 - 59.
 *
 * p is the largest prime below 2^64, so a field element fits in one 64-bit
 * word.  2^64 = 59 (mod p), so whatever overflows a word is folded back times
 * 59.
 *
 * Two kinds of words appear.  A *canonical* word is below p.  A *lazy* word is
 * any 64-bit word and stands for its residue.  Running sums are lazy, so that
 * adding a row needs no comparison with p.  fp_reduce turns lazy into
 * canonical, and every value that leaves the core is canonical.
 */
#ifndef IBLT_CORE_FIELD_H
#define IBLT_CORE_FIELD_H

#include <stddef.h>
#include <stdint.h>

#define IBLT_FP_FOLD	UINT64_C(59)
#define IBLT_FP_P		(UINT64_MAX - IBLT_FP_FOLD + 1)

/* Lazy to canonical.  A word holds p at most once. */
static inline uint64_t
fp_reduce(uint64_t a)
{
	return a >= IBLT_FP_P ? a - IBLT_FP_P : a;
}

/*
 * Lazy a plus canonical b, lazy.  When the sum carries it is at most
 * 2^64 - 61, so adding 59 for the carry cannot carry again.
 */
static inline uint64_t
fp_add_lazy(uint64_t a, uint64_t b)
{
	uint64_t sum = a + b;

	return sum + (IBLT_FP_FOLD & -(uint64_t) (sum < b));
}

/* Canonical operands, canonical result. */
static inline uint64_t
fp_add(uint64_t a, uint64_t b)
{
	return fp_reduce(fp_add_lazy(a, b));
}

static inline uint64_t
fp_neg(uint64_t a)
{
	return a == 0 ? 0 : IBLT_FP_P - a;
}

static inline uint64_t
fp_sub(uint64_t a, uint64_t b)
{
	return fp_add(a, fp_neg(b));
}

/*
 * Product of any two words, canonical.  The first fold leaves a high word of
 * at most 59, so the second adds at most 59 * 59 to the low word.  If that
 * carries, the rest is far below 2^64 - 59.
 */
#ifdef __SIZEOF_INT128__
__extension__ typedef unsigned __int128 iblt_uint128;

static inline uint64_t
fp_mul(uint64_t a, uint64_t b)
{
	iblt_uint128 product = (iblt_uint128) a * b;
	iblt_uint128 fold = (iblt_uint128) (uint64_t) (product >> 64) *
		IBLT_FP_FOLD + (uint64_t) product;

	return fp_reduce(fp_add_lazy((uint64_t) fold,
								 (uint64_t) (fold >> 64) * IBLT_FP_FOLD));
}
#else
static inline uint64_t
fp_mul_wide(uint64_t a, uint64_t b, uint64_t *high)
{
	uint64_t a_low = (uint32_t) a, a_high = a >> 32;
	uint64_t b_low = (uint32_t) b, b_high = b >> 32;
	uint64_t low = a_low * b_low;
	uint64_t middle = a_high * b_low + (low >> 32);
	uint64_t cross = a_low * b_high + (uint32_t) middle;

	*high = a_high * b_high + (middle >> 32) + (cross >> 32);
	return (cross << 32) | (uint32_t) low;
}

static inline uint64_t
fp_mul(uint64_t a, uint64_t b)
{
	uint64_t high, fold_high;
	uint64_t low = fp_mul_wide(a, b, &high);
	uint64_t fold_low = fp_mul_wide(high, IBLT_FP_FOLD, &fold_high);

	fold_low += low;
	fold_high += fold_low < low;
	return fp_reduce(fp_add_lazy(fold_low, fold_high * IBLT_FP_FOLD));
}
#endif

/* A signed integer as a field element. */
static inline uint64_t
fp_from_int32(int32_t a)
{
	return a >= 0 ? (uint64_t) a : fp_neg((uint64_t) -(int64_t) a);
}

/* a^(2^n) */
static inline uint64_t
fp_square_times(uint64_t a, int n)
{
	while (n-- > 0)
		a = fp_mul(a, a);
	return a;
}

/*
 * Inverse of a non-zero a, by Fermat: a^(p-2).  The exponent 2^64 - 61 is 58
 * ones followed by 000011 in binary.  Runs of ones double in length in each
 * step.
 */
static inline uint64_t
fp_inv(uint64_t a)
{
	uint64_t ones2 = fp_mul(fp_square_times(a, 1), a);
	uint64_t ones3 = fp_mul(fp_square_times(ones2, 1), a);
	uint64_t ones6 = fp_mul(fp_square_times(ones3, 3), ones3);
	uint64_t ones7 = fp_mul(fp_square_times(ones6, 1), a);
	uint64_t ones14 = fp_mul(fp_square_times(ones7, 7), ones7);
	uint64_t ones28 = fp_mul(fp_square_times(ones14, 14), ones14);
	uint64_t ones29 = fp_mul(fp_square_times(ones28, 1), a);
	uint64_t ones58 = fp_mul(fp_square_times(ones29, 29), ones29);

	return fp_mul(fp_square_times(ones58, 6), ones2);
}

/*
 * Inverses of n non-zero elements, for the cost of one inversion and three
 * products each (Montgomery's trick).  in and out must not overlap.
 */
static inline void
fp_inv_batch(const uint64_t *in, uint64_t *out, size_t n)
{
	uint64_t running = 1;
	size_t i;

	for (i = 0; i < n; i++)
	{
		out[i] = running;
		running = fp_mul(running, in[i]);
	}
	running = fp_inv(running);
	while (n-- > 0)
	{
		out[n] = fp_mul(out[n], running);
		running = fp_mul(running, in[n]);
	}
}

#endif
