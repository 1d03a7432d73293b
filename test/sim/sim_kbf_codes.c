/*
 * sim_kbf_codes.c
 *		The encodings of the key-value Bloom filter: their two rules by
 *		enumeration, the published search, and the bound on their length.
 *
 * The paper wants n words of P bits whose singles and sums of two are all
 * different (Xiong, Yao, Cao & He 2014, section "Encoding").  As these are
 * n + n(n-1)/2 words, and none of them 0, 2^P must be above that number.
 *
 * Ours are the columns of the check matrix of a BCH code (gf.h), which also
 * keep sums of three apart with a third power.
 */
#include "../../src/core/gf.h"
#include "kbf_paper.h"

static double
bound_of(double n)
{
	return ceil(log2(n * (n + 1) / 2 + 1));
}

static int
bits_of(uint32_t x)
{
	int bits = 0;

	for (; x > 0; x >>= 1)
		bits++;
	return bits;
}

/* --- by algebra ----------------------------------------------------------- */

/* Marks a sum.  Is it a new one, and not 0? */
static bool
is_new(uint64_t *seen, uint64_t sum)
{
	bool fresh = sum != 0 && !paper_bit(seen, (uint32_t) sum);

	paper_set_bit(seen, (uint32_t) sum);
	return fresh;
}

/* Enumerates all singles, pairs and, for three terms, triples. */
static void
check_algebraic(int degree, int terms)
{
	uint64_t *seen = take_zeros(((size_t) 1 << (terms * degree)) / 8 + 8);
	unsigned n = gf_values(degree);
	uint64_t sums = 0;
	uint64_t repeated = 0;

	for (unsigned x = 1; x <= n; x++)
		for (unsigned y = 0; y < x; y++)
			for (unsigned z = 0; z < (terms == 3 && y > 0 ? y : 1); z++, sums++)
				repeated += !is_new(seen, iblt_core_gf_encode(x, degree, terms) ^
									(y > 0 ? iblt_core_gf_encode(y, degree, terms) : 0) ^
									(z > 0 ? iblt_core_gf_encode(z, degree, terms) : 0));
	tap_ok(repeated == 0, "%u values in %d bits: all %" PRIu64 " sums of at most %d are different", n,
		   terms * degree, sums, terms);
}

static void
algebraic(void)
{
	int degree;

	for (degree = IBLT_GF_MIN_DEGREE; degree <= (sim_options.quick ? 9 : 12); degree++)
		check_algebraic(degree, 2);
	for (degree = IBLT_GF_MIN_DEGREE; degree <= (sim_options.quick ? 6 : 8); degree++)
		check_algebraic(degree, 3);
	for (degree = IBLT_GF_MIN_DEGREE; degree <= 14; degree++)
		tap_ok(2 * degree - bound_of(ldexp(1, degree) - 1) == 1 &&
				   bound_of(ldexp(1, degree)) == 2 * degree,
			   "2^%d - 1 values take %d bits by algebra, one above the bound, and 2^%d values need %d",
			   degree, 2 * degree, degree, 2 * degree);
}

/* --- the bound ------------------------------------------------------------ */

/* The most words of `bits` bits that keep both rules, beginning with these. */
static uint32_t
largest_set(uint32_t *code, uint32_t n, uint32_t from, uint32_t limit, uint64_t sums)
{
	uint32_t most = n;

	for (uint32_t c = from; c < limit; c++)
	{
		uint64_t more = sums;
		bool good = (more >> c & 1) == 0;
		uint32_t got;

		more |= UINT64_C(1) << c;
		for (uint32_t i = 0; i < n && good; i++)
		{
			good = (more >> (c ^ code[i]) & 1) == 0;
			more |= UINT64_C(1) << (c ^ code[i]);
		}
		if (!good)
			continue;
		code[n] = c;
		got = largest_set(code, n + 1, c + 1, limit, more);
		most = got > most ? got : most;
	}
	return most;
}

static void
bound(void)
{
	uint32_t code[64];
	static const double known[][2] = {{4, 4}, {7, 5}, {100, 13}, {16384, 28}};

	for (int i = 0; i < LENGTH(known); i++)
		sim_agree(bound_of(known[i][0]), known[i][1], 0, "the bound for %.0f values", known[i][0]);
	sim_agree(largest_set(code, 0, 1, 16, 1), 5, 0,
		"the most values that 4 bits can take, of all sets");
	sim_agree(largest_set(code, 0, 1, 32, 1), 6, 0,
		"the most values that 5 bits can take, of all sets");
}

/* --- the search ----------------------------------------------------------- */

/* A straight line through (log n, log code) of the last half. */
static double
extrapolate(const uint32_t *code, uint32_t n, double to, double *slope)
{
	double x = 0, y = 0, xx = 0, xy = 0;
	double m = 0;

	for (uint32_t i = n / 2; i < n; i++)
	{
		double u = log2(i + 1);
		double v = log2(code[i]);

		x += u;
		y += v;
		xx += u * u;
		xy += u * v;
		m++;
	}
	*slope = (m * xy - x * y) / (m * xx - x * x);
	return y / m + *slope * (log2(to) - x / m);
}

static void
write_search(const uint32_t *code, uint32_t found)
{
	FILE *table = sim_table("kbf_codes", "values\tsearched\tbound\talgebra");

	for (uint32_t n = 3; n <= 16384; n += 1 + n / 12)
		sim_row(table, "%u\t%d\t%.0f\t%.0f", n, n <= found ? bits_of(code[n - 1]) : -1,
				bound_of(n), 2 * ceil(log2(n + 1)));
}

static void
search(void)
{
	static const uint32_t first[] = { 1, 2, 4, 8, 15, 16, 32, 51, 64, 85, 106, 128 };
	static const uint32_t known[][2] = { { 4, 4 }, { 5, 4 }, { 7, 6 }, { 8, 6 },
		{ 11, 7 }, { 17, 8 }, { 64, 13 }, { 100, 15 }, { 256, 18 }, { 512, 21 }, { 1000, 24 }, { 2000, 26 }, { 3000, 28 } };
	uint32_t most = sim_trials(256, PAPER_VALUES);
	uint32_t *code = take_zeros(most * sizeof(uint32_t));
	uint32_t found = paper_search(code, most, PAPER_BITS);
	double slope;
	double bits;
	size_t i;

	tap_ok(found == most && memcmp(code, first, sizeof first) == 0,
		   "the search begins with 1, 2, 4, 8, 15, 16, 32, 51, 64, 85, 106, 128");
	for (i = 0; i < sizeof known / sizeof known[0] && known[i][0] <= found; i++)
		tap_ok(bits_of(code[known[i][0] - 1]) == (int) known[i][1],
			   "the search takes %d bits for %u values, the bound is %.0f",
			   bits_of(code[known[i][0] - 1]), known[i][0], bound_of(known[i][0]));
	bits = extrapolate(code, found, 16384, &slope);
	/* published: 30 bits.  The line bends upward: 2.7 here, 3 in the end. */
	tap_ok(bits > 32, "the search's codes grow like n^%.2f: 2^14 values take %.1f bits "
		   "by extrapolation | theirs 30", slope, bits);
	write_search(code, found);
}

SIM_MAIN({ "algebraic", algebraic }, { "bound", bound }, { "search", search })
