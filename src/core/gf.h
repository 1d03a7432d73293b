/*
 * gf.h
 *		The finite fields GF(2^q), q = 3 to 12, and sums that can be taken apart.
 *
 * A key-value Bloom filter adds the codes of several values in one cell by
 * XOR.  The code of a value x, a non-zero field element, is the list of its odd
 * powers: x for t = 1, (x, x^3) for t = 2 and (x, x^3, x^5) for t = 3.  These
 * are the columns of the check matrix of a BCH code that corrects t errors
 * (Bose & Ray-Chaudhuri 1960).  So any sum of at most t different codes has
 * only one set of values, and equations of degree 2 and 3 find it.
 *
 * Both equations become linear over GF(2) here, because squaring is linear.
 * So they are solved by elimination, without division, tables or search.
 *
 * A code is a word of t * q bits, with x in the lowest q bits.  Nothing here
 * fails for a word that is not a sum of codes.  It is reported as none.
 */
#ifndef IBLT_CORE_GF_H
#define IBLT_CORE_GF_H

#include <stdbool.h>
#include <stdint.h>

#define IBLT_GF_MIN_DEGREE	3
#define IBLT_GF_MAX_DEGREE	12
#define IBLT_GF_MAX_TERMS	3

/* The irreducible polynomial of each degree, bit i for z^i. */
extern const uint16_t iblt_core_gf_modulus[IBLT_GF_MAX_DEGREE + 1];

/* Product of two elements of GF(2^degree). */
static inline unsigned
gf_mul(unsigned a, unsigned b, int degree)
{
	unsigned	modulus = iblt_core_gf_modulus[degree];
	unsigned	product = 0;
	int			i;

	for (i = 0; i < degree; i++)
	{
		product ^= a & -(b >> i & 1);
		a <<= 1;
		a ^= modulus & -(a >> degree);
	}
	return product;
}

/* The number of different non-zero elements, which have codes. */
static inline unsigned
gf_values(int degree)
{
	return (1u << degree) - 1;
}

/* The code of x with `terms` odd powers, 1 to 3.  That of 0 is 0. */
extern uint64_t iblt_core_gf_encode(unsigned x, int degree, int terms);

/*
 * Is the sum that of the codes of `count` different values, of at most `terms`?
 * Sets them if so.
 */
extern bool iblt_core_gf_split(uint64_t sum, int count, int degree, int terms,
							   unsigned *value);

#endif
