/*
 * test_gf.c
 *		Codes of values: that all their sums differ, and are taken apart.
 *
 * For small fields every sum is enumerated, and every word is decoded.  A word
 * decodes if and only if it was enumerated.  For the large fields sums and
 * words are drawn at random.  test/sim/sim_kbf_codes.c has the bound and the
 * search of the paper.
 */
#include "gf.h"
#include "tap.h"

/* What a word is a sum of, for fields with at most 18 bits in a code. */
#define MAX_WORDS	(1u << 18)

static uint16_t kind[MAX_WORDS];	/* 0, or 1 to 3 values */
static uint16_t parts[MAX_WORDS][3];

/* A field: no zero divisors, and the laws that are not obvious. */
static void
test_fields(void)
{
	for (int degree = IBLT_GF_MIN_DEGREE; degree <= IBLT_GF_MAX_DEGREE; degree++)
	{
		unsigned	power = 2, order = 1;

		for (; power != 1; order++)
			power = gf_mul(power, 2, degree);
		check(order == gf_values(degree), "degree %d: order %u", degree, order);
		for (unsigned a = 1; a <= gf_values(degree); a += 1 + (unsigned) (tap_random() % 64))
		{
			unsigned	c = (unsigned) tap_random() & gf_values(degree);
			unsigned	b = (unsigned) tap_random() & gf_values(degree);

			check(gf_mul(a, b, degree) == gf_mul(b, a, degree) && gf_mul(a, 1, degree) == a &&
				  gf_mul(a, 0, degree) == 0, "%u and %u", a, b);
			check(gf_mul(a, gf_mul(b, c, degree), degree) == gf_mul(gf_mul(a, b, degree), c, degree) &&
				  gf_mul(a, b ^ c, degree) == (gf_mul(a, b, degree) ^ gf_mul(a, c, degree)),
				  "%u, %u and %u", a, b, c);
		}
	}
	checked("z generates a field of each degree");
}

/* Notes a sum.  Was it there already? */
static bool
note(uint64_t sum, unsigned count, unsigned a, unsigned b, unsigned c)
{
	if (sum == 0 || kind[sum] != 0)
		return true;
	kind[sum] = (uint16_t) count;
	parts[sum][0] = (uint16_t) a;
	parts[sum][1] = (uint16_t) b;
	parts[sum][2] = (uint16_t) c;
	return false;
}

/* Enumerates all sums of up to `terms` values.  Returns how many collide. */
static int
enumerate(int degree, int terms)
{
	unsigned	n = gf_values(degree);
	int			collisions = 0;

	memset(kind, 0, sizeof kind);
	for (unsigned a = 1; a <= n; a++)
	{
		uint64_t	one = iblt_core_gf_encode(a, degree, terms);

		collisions += note(one, 1, a, 0, 0);
		for (unsigned b = a + 1; terms >= 2 && b <= n; b++)
		{
			uint64_t	two = one ^ iblt_core_gf_encode(b, degree, terms);

			collisions += note(two, 2, a, b, 0);
			for (unsigned c = b + 1; terms >= 3 && c <= n; c++)
				collisions += note(two ^ iblt_core_gf_encode(c, degree, terms), 3, a, b, c);
		}
	}
	return collisions;
}

/* Is a word split into exactly these values? */
static bool
splits_into(uint64_t word, int n, int degree, int terms, const unsigned *values)
{
	unsigned	found[3];
	int			right = 0;

	if (!iblt_core_gf_split(word, n, degree, terms, found))
		return false;
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++)
			right += found[j] == values[i];
	return right == n;
}

/* Is a word taken apart as it was put together, or as nothing? */
static bool
decodes_right(uint64_t word, int degree, int terms)
{
	unsigned	values[3] = {parts[word][0], parts[word][1], parts[word][2]};
	unsigned	found[3];

	for (int n = 1; n <= terms; n++)
		if (kind[word] == n ? !splits_into(word, n, degree, terms, values)
			: iblt_core_gf_split(word, n, degree, terms, found))
			return false;
	return true;
}

static void
test_small_fields(void)
{
	int			degree,
				terms;

	for (terms = 1; terms <= 3; terms++)
		for (degree = 3; degree <= (terms == 3 ? 6 : terms == 2 ? 9 : 12); degree++)
		{
			int			collisions = enumerate(degree, terms);
			int			wrong = 0;

			for (uint64_t word = 0; word >> (degree * terms) == 0; word++)
				wrong += !decodes_right(word, degree, terms);
			tap_ok(collisions == 0 && wrong == 0,
				   "degree %d: sums of up to %d values differ, and decode (%d, %d)",
				   degree, terms, collisions, wrong);
		}
}

/* Draws `count` different values and sums their codes. */
static uint64_t
random_sum(unsigned *v, int count, int degree, int terms)
{
	uint64_t	sum = 0;

	for (int i = 0; i < count; i++)
	{
		v[i] = 1 + (unsigned) (tap_random() % gf_values(degree));
		for (int j = 0; j < i; j++)
			if (v[j] == v[i])
				return random_sum(v, count, degree, terms);
	}
	for (int i = 0; i < count; i++)
		sum ^= iblt_core_gf_encode(v[i], degree, terms);
	return sum;
}

static void
test_large_fields(void)
{
	for (int degree = 7; degree <= IBLT_GF_MAX_DEGREE; degree++)
		for (int round = 0; round < 2000; round++)
		{
			unsigned	v[3], found[3];
			uint64_t	sum = random_sum(v, 2, degree, 3);

			check(splits_into(sum, 2, degree, 3, v) &&
				  !iblt_core_gf_split(sum, 3, degree, 3, found) &&
				  !iblt_core_gf_split(sum, 1, degree, 3, found), "degree %d: a pair", degree);
			sum = random_sum(v, 3, degree, 3);
			check(splits_into(sum, 3, degree, 3, v), "degree %d: a triple", degree);
			sum = random_sum(v, 2, degree, 2);
			check(splits_into(sum, 2, degree, 2, v), "degree %d: a pair of two", degree);
		}
	checked("degrees 7 to 12: random pairs and triples decode");
}

/* The share of random words that are a sum of three is that of all words. */
static void
test_share_of_triples(void)
{
	int			round,
				triples = 0;
	unsigned	found[3];
	double		share = 255.0 * 254 * 253 / 6 / (1 << 24);
	double		expected = 20000 * share;

	for (round = 0; round < 20000; round++)
		triples += iblt_core_gf_split(tap_random() >> 40, 3, 8, 3, found);
	/* four standard errors, squared */
	tap_ok((triples - expected) * (triples - expected) < 16 * expected * (1 - share),
		   "degree 8: %d of 20000 random words are triples, %.0f expected", triples, expected);
}

TAP_MAIN(test_fields, test_small_fields, test_large_fields, test_share_of_triples)
