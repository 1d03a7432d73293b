/*
 * test_sizing.c
 *		The table of sizes: that its two directions are inverse and monotone,
 *		what is refused, and known values.
 *
 * Whether the numbers themselves are true is for test/sim/sizing --quick to
 * tell, by simulation.
 */
#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "../../src/core/sizing.h"
#include "tap.h"

#define MIN_K 3
#define MAX_K 8
#define LADDER_PRODUCT UINT64_C(5284823040) /* 2^24 * 3^2 * 5 * 7 */
#define EXHAUSTIVE 20000
#define MAX_LADDER 400

/* stricter from left to right; with some that are not in the table */
static const double failures[] = { 1e-1, 1e-2, 5e-3, 1e-3, 1e-4, 2e-5, 1e-5 };

/* what each of them is taken as */
static const double targets[] = { 1e-2, 1e-2, 1e-3, 1e-3, 1e-4, 1e-5, 1e-5 };

#define FAILURES ((int) (sizeof(failures) / sizeof(failures[0])))

static uint32_t ladder[MAX_LADDER];
static int	ladder_sizes;

/*
 * Membership by division, successor by the last member seen.
 */
static void
test_ladder(void)
{
	uint32_t	wrong_has = 0;
	uint32_t	wrong_next = 0;
	uint32_t	next = 0;

	for (uint32_t s = IBLT_LADDER_MAX; s > 0; s--)
	{
		bool		member = LADDER_PRODUCT % s == 0;

		if (member)
			next = s;
		wrong_has += iblt_core_ladder_has(s) != member;
		wrong_next += iblt_core_ladder_at_least(s) != next;
	}
	tap_ok(wrong_has == 0, "the ladder is the divisors of 2^24*3^2*5*7");
	tap_ok(wrong_next == 0, "ladder_at_least finds the next member");
	tap_ok(!iblt_core_ladder_has(0), "0 is not on the ladder");
	tap_ok(!iblt_core_ladder_has(IBLT_LADDER_MAX + 1) &&
		   !iblt_core_ladder_has(UINT32_C(18350080)) &&
		   !iblt_core_ladder_has(UINT32_MAX), "nor is anything above 2^24");
	tap_ok(iblt_core_ladder_at_least(0) == 1, "at least 0 is 1");
	tap_ok(iblt_core_ladder_at_least(IBLT_LADDER_MAX) == IBLT_LADDER_MAX &&
		   iblt_core_ladder_at_least(IBLT_LADDER_MAX + 1) == 0 &&
		   iblt_core_ladder_at_least(UINT32_MAX) == 0,
		   "the ladder ends at 2^24");
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

	return iblt_core_ladder_has(s) &&
		iblt_core_capacity(s, k, failure) >= capacity &&
		(s == 1 || iblt_core_capacity(s - 1, k, failure) < capacity);
}

static void
test_capacities(int k)
{
	uint32_t	wrong = 0;
	uint32_t	falling = 0;
	uint32_t	looser = 0;

	for (uint32_t c = 1; c <= EXHAUSTIVE; c++)
	{
		uint32_t	last = 0;

		for (int f = 0; f < FAILURES; f++)
		{
			uint32_t	s = iblt_core_subtable_cells(c, k, failures[f]);

			wrong += !is_least(c, k, failures[f]);
			falling += iblt_core_subtable_cells(c + 1, k, failures[f]) < s;
			looser += s < last;
			last = s;
		}
	}
	tap_ok(wrong == 0, "k=%d: the least size, for each capacity to %d", k,
		   EXHAUSTIVE);
	tap_ok(falling == 0, "k=%d: more capacity never takes fewer cells", k);
	tap_ok(looser == 0, "k=%d: a stricter failure never takes fewer cells", k);
}

static void
test_large_capacities(int k)
{
	uint32_t	wrong = 0;
	uint32_t	falling = 0;

	for (int i = 0; i < 20000; i++)
	{
		double		failure = failures[tap_random() % FAILURES];
		uint32_t	most = iblt_core_capacity(IBLT_LADDER_MAX, k, failure);
		uint32_t	a = (uint32_t) (tap_random() % most) >> tap_random() % 12;
		uint32_t	b = (uint32_t) (tap_random() % (a + 1));

		wrong += !is_least(a + 1, k, failure);
		falling += iblt_core_subtable_cells(a + 1, k, failure) <
			iblt_core_subtable_cells(b + 1, k, failure);
	}
	tap_ok(wrong == 0 && falling == 0,
		   "k=%d: least and monotone for random large capacities", k);
}

static void
test_sizes(int k)
{
	uint32_t	wrong = 0;
	uint32_t	falling = 0;
	uint32_t	between = 0;
	uint32_t	looser = 0;

	for (int f = 0; f < FAILURES; f++)
	{
		uint32_t	last = 1;

		for (int i = 0; i < ladder_sizes; i++)
		{
			uint32_t	s = ladder[i];
			uint32_t	c = iblt_core_capacity(s, k, failures[f]);

			falling += c < last;
			wrong += iblt_core_subtable_cells(c, k, failures[f]) > s;
			looser += f > 0 && c > iblt_core_capacity(s, k, failures[f - 1]);
			if (i > 0)
				between += iblt_core_capacity(s - 1, k, failures[f]) != last;
			last = c;
		}
	}
	tap_ok(wrong == 0, "k=%d: the size for a size's capacity is no larger", k);
	tap_ok(falling == 0, "k=%d: more cells never hold fewer keys", k);
	tap_ok(looser == 0, "k=%d: a stricter failure never allows more keys", k);
	tap_ok(between == 0, "k=%d: a size between two counts as the lower", k);
}

/*
 * Two keys fail to decode when they share all cells, with probability s^-k; d
 * keys fail at least about as often as some pair of them does.
 */
static void
test_pairs(int k)
{
	uint32_t	wrong = 0;
	uint32_t	inexact = 0;

	for (int f = 0; f < FAILURES; f++)
	{
		double		target = targets[f];

		for (int i = 0; i < ladder_sizes; i++)
		{
			double		c = iblt_core_capacity(ladder[i], k, failures[f]);
			double		pair = pow(ladder[i], -k);

			wrong += c * (c - 1) / 2 * pair > target * (1 + 1e-6);
			inexact += (c >= 2) != (pair <= target * (1 + 1e-6));
		}
	}
	tap_ok(wrong == 0, "k=%d: no capacity has too many pairs of keys", k);
	tap_ok(inexact == 0, "k=%d: two keys are allowed exactly when they decode",
		   k);
}

static void
test_refusals(void)
{
	static const int bad_k[] = {
		INT32_MIN, -4, -1, 0, 1, 2, 9, 100, INT32_MAX
	};
	static const double bad_failure[] = {
		0, -0.0, -1e-4, 1e-300, 9.9e-6, 0.11, 0.5, 1, 2, 1e300
	};
	int			accepted = 0;

	for (size_t i = 0; i < sizeof(bad_k) / sizeof(bad_k[0]); i++)
		accepted += iblt_core_subtable_cells(10, bad_k[i], 1e-4) != 0 ||
			iblt_core_capacity(96, bad_k[i], 1e-4) != 0;
	tap_ok(accepted == 0, "k outside 3..8 is refused");
	accepted = 0;
	for (size_t i = 0; i < sizeof(bad_failure) / sizeof(bad_failure[0]); i++)
		accepted += iblt_core_subtable_cells(10, 4, bad_failure[i]) != 0 ||
			iblt_core_capacity(96, 4, bad_failure[i]) != 0;
	tap_ok(accepted == 0, "a failure outside the range is refused");
	tap_ok(iblt_core_subtable_cells(10, 4, (double) NAN) == 0 &&
		   iblt_core_capacity(96, 4, (double) NAN) == 0 &&
		   iblt_core_subtable_cells(10, 4, (double) INFINITY) == 0 &&
		   iblt_core_subtable_cells(10, 4, -(double) INFINITY) == 0,
		   "a failure that is not a number, or infinite, is refused");
	tap_ok(iblt_core_subtable_cells(10, 4, IBLT_MIN_FAILURE) > 0 &&
		   iblt_core_subtable_cells(10, 4, IBLT_MAX_FAILURE) > 0 &&
		   iblt_core_subtable_cells(10, 4, IBLT_DEFAULT_FAILURE) > 0,
		   "the ends of the range and the default are not");
	tap_ok(iblt_core_subtable_cells(0, 4, 1e-4) == 0, "no capacity is refused");
	tap_ok(iblt_core_subtable_cells(UINT32_MAX, 4, 1e-4) == 0,
		   "an impossible capacity is refused");
	tap_ok(iblt_core_capacity(0, 4, 1e-4) == 0 &&
		   iblt_core_capacity(IBLT_LADDER_MAX + 1, 4, 1e-4) == 0 &&
		   iblt_core_capacity(UINT32_MAX, 4, 1e-4) == 0,
		   "a size outside the ladder's range is refused");
	for (int k = MIN_K; k <= MAX_K; k++)
	{
		uint32_t	most = iblt_core_capacity(IBLT_LADDER_MAX, k, 1e-4);

		tap_ok(iblt_core_subtable_cells(most, k, 1e-4) == IBLT_LADDER_MAX &&
			   iblt_core_subtable_cells(most + 1, k, 1e-4) == 0,
			   "k=%d: %" PRIu32 " keys are the most", k, most);
	}
}

/*
 * Cells in all for d keys must be within low..high.
 */
static void
test_anchor(uint32_t d, int k, double failure, uint32_t low, uint32_t high)
{
	uint32_t	cells = k * iblt_core_subtable_cells(d, k, failure);

	tap_ok(cells >= low && cells <= high, "%" PRIu32 " keys, k=%d, %g: %" PRIu32
		   " cells, expected %" PRIu32 "..%" PRIu32, d, k, failure, cells, low,
		   high);
}

static void
test_anchors(void)
{
	test_anchor(1, 4, 1e-4, 4, 4);
	test_anchor(2, 4, 1e-4, 40, 40);
	/* pairs of keys decide: 10^4 * 100 * 99 / 2 < 84^4, but not < 80^4 */
	test_anchor(100, 4, 1e-4, 336, 336);
	test_anchor(100, 5, 1e-4, 185, 215);
	test_anchor(1000, 4, 1e-4, 1380, 1480);
	test_anchor(10000, 4, 1e-4, 13220, 14000);
	test_anchor(100000, 4, 1e-4, 129500, 150000);
	test_anchor(1000000, 4, 1e-4, 1295000, 1450000);
	test_anchor(10000, 3, 1e-2, 12435, 13500);
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
		for (int f = 0; f < FAILURES; f++)
		{
			double		cells = (double) k * IBLT_LADDER_MAX /
				iblt_core_capacity(IBLT_LADDER_MAX, k, failures[f]);

			if (cells < threshold[k - MIN_K] ||
				cells > threshold[k - MIN_K] * 1.003)
				tap_ok(false, "k=%d, %g: %.4f cells a key at the largest size",
					   k, failures[f], cells);
			else if (f == 0)
				tap_ok(true, "k=%d: %.4f cells a key at the largest size", k,
					   cells);
		}
}

int
main(void)
{
	(void) tap_seed();
	test_ladder();
	for (int k = MIN_K; k <= MAX_K; k++)
	{
		test_capacities(k);
		test_large_capacities(k);
		test_sizes(k);
		test_pairs(k);
	}
	test_refusals();
	test_anchors();
	test_thresholds();
	return tap_done();
}
