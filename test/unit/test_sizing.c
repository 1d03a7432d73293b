/*
 * test_sizing.c
 *		The table of sizes: that its two directions are inverse and monotone,
 *		what is refused, and what a size folds to.
 *
 * Whether the numbers themselves are true is for test/sim/sizing --quick to
 * tell, by simulation.  Known values are in expected/type.out and fold.out.
 */
#include <math.h>

#include "sizing.h"
#include "tap.h"

#define MIN_K 3
#define MAX_K 8
#define LADDER_PRODUCT UINT64_C(5284823040) /* 2^24 * 3^2 * 5 * 7 */
#define EXHAUSTIVE 20000
#define MAX_LADDER 400

/* stricter from left to right, with some that are not in the table, and what each is taken as */
static const double failures[] = { 1e-1, 1e-2, 5e-3, 1e-3, 1e-4, 2e-5, 1e-5 };
static const double targets[] = { 1e-2, 1e-2, 1e-3, 1e-3, 1e-4, 1e-5, 1e-5 };

static uint32_t ladder[MAX_LADDER];
static int	ladder_sizes;

/*
 * Membership by division, successor by the last member seen.
 */
static void
test_ladder(void)
{
	uint32_t	next = 0;

	for (uint32_t s = IBLT_LADDER_MAX; s > 0; s--)
	{
		bool		member = LADDER_PRODUCT % s == 0;

		if (member)
			next = s;
		check(iblt_core_ladder_has(s) == member, "%" PRIu32, s);
		check(iblt_core_ladder_at_least(s) == next, "%" PRIu32, s);
	}
	checked("the ladder is the divisors of 2^24*3^2*5*7, and each has its next");
	tap_ok(!iblt_core_ladder_has(0) && !iblt_core_ladder_has(IBLT_LADDER_MAX + 1) &&
		   !iblt_core_ladder_has(UINT32_C(18350080)) && !iblt_core_ladder_has(UINT32_MAX) &&
		   iblt_core_ladder_at_least(0) == 1 && iblt_core_ladder_at_least(IBLT_LADDER_MAX + 1) == 0 &&
		   iblt_core_ladder_at_least(UINT32_MAX) == 0, "it begins at 1 and ends at 2^24");
	for (uint32_t s = 1; s <= IBLT_LADDER_MAX && ladder_sizes < MAX_LADDER; s++)
		if (iblt_core_ladder_has(s))
			ladder[ladder_sizes++] = s;
	tap_ok(ladder_sizes == 245, "it has %d members", ladder_sizes);
}

/*
 * The size for a capacity is on the ladder, suffices, and is the smallest.
 */
static bool
is_least(uint32_t capacity, int k, double failure)
{
	uint32_t	s = iblt_core_subtable_cells(capacity, k, failure);

	return iblt_core_ladder_has(s) && iblt_core_capacity(s, k, failure) >= capacity &&
		(s == 1 || iblt_core_capacity(s - 1, k, failure) < capacity);
}

/*
 * Sizes hold more keys than smaller ones, and no more if the failure is stricter.  So it
 * is with the sizes of capacities, which are the least.
 *
 * Two keys fail to decode when they share all cells, with probability s^-k.  d
 * keys fail at least about as often as some pair of them does.
 */
static void
test_sizes(int k)
{
	for (int f = 0; f < LENGTH(failures); f++)
	{
		uint32_t	last = 1;

		for (int i = 0; i < ladder_sizes; i++)
		{
			uint32_t	s = ladder[i];
			uint32_t	c = iblt_core_capacity(s, k, failures[f]);
			double		pair = pow(s, -k);
			double		most = targets[f] * (1 + 1e-6);

			check(c >= last, "%" PRIu32 " cells hold fewer", s);
			check(f == 0 || c <= iblt_core_capacity(s, k, failures[f - 1]), "stricter, and more keys");
			check(i == 0 || iblt_core_capacity(s - 1, k, failures[f]) == last,
				  "a size between two is not the lower");
			check(is_least(c, k, failures[f]), "the capacity of %" PRIu32 " cells", s);
			check((double) c * (c - 1.0) / 2 * pair <= most, "%" PRIu32 " keys have too many pairs", c);
			check((c >= 2) == (pair <= most), "two keys in %" PRIu32 " cells", s);
			last = c;
		}
		for (uint32_t c = 1; c <= EXHAUSTIVE; c++)
			check(is_least(c, k, failures[f]), "%" PRIu32 " keys", c);
		for (int i = 0; i < 3000; i++)
		{
			uint32_t	most = iblt_core_capacity(IBLT_LADDER_MAX, k, failures[f]);
			uint32_t	c = 1 + ((uint32_t) (tap_random() % most) >> tap_random() % 12);

			check(is_least(c, k, failures[f]), "%" PRIu32 " keys", c);
		}
	}
	checked("the least size for each capacity, and monotone");
}

/* Neither direction knows such a k, failure, capacity or size. */
static void
test_refusals(void)
{
	static const int bad_k[] = { INT32_MIN, -4, -1, 0, 1, 2, 9, 100, INT32_MAX };
	static const double bad_failure[] = {
		0, -0.0, -1e-4, 1e-300, 9.9e-6, 0.11, 0.5, 1, 2, 1e300, (double) NAN, (double) INFINITY,
		-(double) INFINITY
	};
	static const double good_failure[] = { IBLT_MIN_FAILURE, IBLT_MAX_FAILURE, IBLT_DEFAULT_FAILURE };
	static const uint32_t bad_cells[] = { 0, IBLT_LADDER_MAX + 1, UINT32_MAX };

	for (int i = 0; i < LENGTH(bad_k); i++)
		check(iblt_core_subtable_cells(10, bad_k[i], 1e-4) == 0 &&
			  iblt_core_capacity(96, bad_k[i], 1e-4) == 0, "k = %d", bad_k[i]);
	for (int i = 0; i < LENGTH(bad_failure); i++)
		check(iblt_core_subtable_cells(10, 4, bad_failure[i]) == 0 &&
			  iblt_core_capacity(96, 4, bad_failure[i]) == 0, "failure %g", bad_failure[i]);
	for (int i = 0; i < LENGTH(good_failure); i++)
		check(iblt_core_subtable_cells(10, 4, good_failure[i]) > 0, "%g is refused", good_failure[i]);
	for (int i = 0; i < LENGTH(bad_cells); i++)
		check(iblt_core_capacity(bad_cells[i], 4, 1e-4) == 0, "%" PRIu32 " cells", bad_cells[i]);
	check(iblt_core_subtable_cells(0, 4, 1e-4) == 0 &&
		  iblt_core_subtable_cells(UINT32_MAX, 4, 1e-4) == 0, "no capacity, and an impossible one");
	for (int k = MIN_K; k <= MAX_K; k++)
	{
		uint32_t	most = iblt_core_capacity(IBLT_LADDER_MAX, k, 1e-4);

		check(iblt_core_subtable_cells(most, k, 1e-4) == IBLT_LADDER_MAX &&
			  iblt_core_subtable_cells(most + 1, k, 1e-4) == 0, "k = %d: %" PRIu32 " keys", k, most);
	}
	checked("what is out of range is refused, and the ends of ranges are not");
}

/* The cells to fold to, against trying every size: the least divisor that is large enough. */
static void
test_folds(void)
{
	for (uint32_t cells = 1; cells <= 720; cells = iblt_core_ladder_at_least(cells + 1))
		for (uint32_t least = 1; least <= cells + 1; least++)
		{
			uint32_t	size = least;

			while (size <= cells && cells % size != 0)
				size++;
			check(iblt_core_fold_cells(cells, least) == (size <= cells ? size : 0),
				  "%" PRIu32 " of %" PRIu32 " cells", least, cells);
		}
	checked("the least size to fold to");
}

/*
 * At the largest size the cells for each key are nearly the threshold c_k of
 * Goodrich and Mitzenmacher, and above it.
 */
static void
test_thresholds(void)
{
	static const double threshold[] = {
		1.2218, 1.2949, 1.4249, 1.5697, 1.7189, 1.8692
	};

	for (int k = MIN_K; k <= MAX_K; k++)
		for (int f = 0; f < LENGTH(failures); f++)
		{
			double		cells = (double) k * IBLT_LADDER_MAX /
				iblt_core_capacity(IBLT_LADDER_MAX, k, failures[f]);

			check(cells >= threshold[k - MIN_K] && cells <= threshold[k - MIN_K] * 1.003,
				  "k=%d, %g: %.4f cells a key", k, failures[f], cells);
		}
	checked("as many cells a key as the threshold says, at the largest size");
}

int
main(void)
{
	(void) tap_seed();
	test_ladder();
	for (int k = MIN_K; k <= MAX_K; k++)
		test_sizes(k);
	test_refusals();
	test_folds();
	test_thresholds();
	return tap_done();
}
