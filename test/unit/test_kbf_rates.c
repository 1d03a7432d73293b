/*
 * test_kbf_rates.c
 *		How often a key-value Bloom filter answers: small simulations against
 *		the formulas, the paper's and ours, and the sizes that follow.
 */
#include <math.h>

#include "kbf_cell.h"
#include "kbf_size.h"
#include "model.h"

/* The paper's load coefficient: nk/m = rho * ln 2. */
#define LN2		0.69314718055994530942

/* Look-ups of one filter. */
typedef struct Counts
{
	long		keys;
	long		unknown;
	long		wrong;
	long		absent;			/* keys that are not there */
	long		false_positive;
	long		absent_unknown;
	long		cells;
	long		crowded;		/* cells with 3 pairs or more */
	long		undecoded;		/* keys whose cells are crowded, all or but one
								 * with 2 pairs */
} Counts;

static void
write_key(uint8_t *key, uint64_t number)
{
	iblt_store64(key, number);
}

/* Does the paper's rule leave a key undecoded? */
static bool
undecoded(const IbltKbf *kbf, const uint8_t *key)
{
	IbltKbfPlace place;
	int			singles = 0,
				pairs = 0,
				i;

	iblt_core_kbf_place(kbf, key, 8, &place);
	for (i = 0; i < kbf->params.hashes; i++)
	{
		unsigned	count = iblt_kbf_count(iblt_kbf_cell(kbf, place.index[i]));

		singles += count == 1;
		pairs += count == 2;
	}
	return singles == 0 && pairs < 2;
}

static void
look_up(const IbltKbf *kbf, const unsigned *values, long keys, Counts *counts)
{
	long		i;

	for (i = 0; i < 3 * keys; i++)
	{
		uint8_t		key[8];
		unsigned	value = 0;
		IbltPresence answer;

		write_key(key, (uint64_t) i);
		answer = iblt_core_kbf_get(kbf, key, sizeof key, &value);
		if (i < keys)
		{
			counts->keys++;
			counts->unknown += answer == IBLT_UNKNOWN;
			counts->wrong += answer != IBLT_UNKNOWN &&
				(answer != IBLT_PRESENT || value != values[i]);
			counts->undecoded += undecoded(kbf, key);
			continue;
		}
		counts->absent++;
		counts->false_positive += answer == IBLT_PRESENT;
		counts->absent_unknown += answer == IBLT_UNKNOWN;
	}
}

/*
 * Fills a filter with keys of random values, and looks up thrice as many.  This
 * many of a hundred keys have the value 1.
 */
static void
simulate(IbltKbfParams params, long keys, unsigned skew, Counts *counts)
{
	unsigned   *values = take((size_t) keys * sizeof *values);
	uint8_t    *bytes = take(iblt_core_kbf_size(&params));
	IbltKbf		kbf;
	uint32_t	cell;
	long		i;

	params.seed = tap_random();
	iblt_core_kbf_init(&kbf, &params, bytes);
	for (i = 0; i < keys; i++)
	{
		uint8_t		key[8];

		write_key(key, (uint64_t) i);
		values[i] = below(100) < skew ? 1 : 1 + below(params.values);
		(void) iblt_core_kbf_insert(&kbf, key, sizeof key, values[i]);
	}
	for (cell = 0; cell < kbf.ncells; cell++)
		counts->crowded += iblt_kbf_count(iblt_kbf_cell(&kbf, cell)) >= 3;
	counts->cells += kbf.ncells;
	look_up(&kbf, values, keys, counts);
	free(bytes);
	free(values);
}

static IbltKbfParams
params_of(unsigned values, int superposed, int hashes, uint32_t cells)
{
	IbltKbfParams params = {0};

	params.values = values;
	params.degree = IBLT_GF_MIN_DEGREE;
	while (gf_values(params.degree) < values)
		params.degree++;
	params.superposed = superposed;
	params.hashes = hashes;
	params.subtable_cells = cells;
	params.kind = IBLT_KEY_INTEGER;
	return params;
}

/*
 * Is a count within four standard errors of what is expected, and of a part of
 * it that the formula may be off?
 */
static bool
near(long count, long trials, double rate, double off)
{
	double		expected = (double) trials * rate;

	return fabs((double) count - expected) <=
		4 * sqrt(expected * (1 - rate)) + off * expected + 1;
}

/* The paper's Pn(1): cells with 3 or more at the optimal load. */
static void
test_crowded_cells(void)
{
	IbltKbfParams params = params_of(255, 2, 8, 15000);
	Counts		counts = {0};
	double		expected = (4 - LN2 * LN2 - 2 * LN2 - 2) / 4;

	simulate(params, lround(15000 * LN2), 0, &counts);
	tap_ok(fabs(expected - 0.0333132) < 1e-7 &&
		   near(counts.crowded, counts.cells, expected, 0),
		   "Pn(1) is 0.0333: %ld of %ld cells hold 3 or more", counts.crowded, counts.cells);
}

/*
 * Keys that the paper's rule leaves undecoded: the formula with the key itself
 * left out of the others.  The published formula, with it, is far off.
 */
static void
test_decodability(void)
{
	static const int hashes[] = {3, 5, 8};
	int			h,
				rho;

	for (h = 0; h < 3; h++)
		for (rho = 1; rho <= 3; rho++)
		{
			int			k = hashes[h];
			double		load = rho * LN2;
			double		one = load * exp(-load);
			double		more = 1 - exp(-load) - one;
			double		right = pow(more, k) + k * pow(more, k - 1) * one;
			long		keys = scaled(20000);
			Counts		counts = {0};

			simulate(params_of(255, 2, k, (uint32_t) ((double) keys / load)), keys,
					 0, &counts);
			tap_ok(near(counts.undecoded, counts.keys, right, 0.03) && counts.wrong == 0,
				   "k = %d, rho = %d: %.2e of the keys are not decoded, %.2e expected", k, rho,
				   (double) counts.undecoded / (double) counts.keys, right);
		}
}

/* Our rates, at loads where there is something to count. */
static void
test_rates(void)
{
	static const struct
	{
		unsigned	values;
		int			superposed,
					hashes;
		double		load;
	}			cases[] = {
		{255, 1, 4, 0.6}, {255, 2, 4, 1.5}, {255, 3, 4, 2.0}, {255, 3, 3, 2.5},
		{4095, 3, 3, 2.0}, {63, 3, 4, 1.8}, {15, 2, 5, 1.4}, {3, 2, 4, 1.0}
	};
	size_t		i;

	for (i = 0; i < sizeof cases / sizeof cases[0]; i++)
	{
		long		keys = scaled(20000);
		IbltKbfParams params = params_of(cases[i].values, cases[i].superposed,
										 cases[i].hashes,
										 (uint32_t) ((double) keys / cases[i].load));
		Counts		c = {0};
		IbltKbfRates rates;

		iblt_core_kbf_rates(&params, cases[i].load, &rates);
		simulate(params, keys, i % 2 == 0 ? 0 : 90, &c);
		tap_ok(c.wrong == 0 && near(c.unknown, c.keys, rates.unknown, 0.25) &&
			   near(c.false_positive, c.absent, rates.false_positive, 0.25) &&
			   near(c.absent_unknown, c.absent, rates.absent_unknown, 0.25),
			   "%u values, t = %d, k = %d, load %.1f: unknown %.2e (%.2e), "
			   "false positives %.2e (%.2e), absent unknown %.2e (%.2e)",
			   cases[i].values, cases[i].superposed, cases[i].hashes, cases[i].load,
			   (double) c.unknown / (double) c.keys, rates.unknown,
			   (double) c.false_positive / (double) c.absent, rates.false_positive,
			   (double) c.absent_unknown / (double) c.absent, rates.absent_unknown);
	}
}

/* Filters of a chosen size keep what they were chosen for. */
static void
test_chosen(void)
{
	static const struct
	{
		unsigned	values;
		int			superposed;
		double		failure;
		uint64_t	capacity;
		double		most_bits;	/* a key */
		unsigned	skew;
	}			cases[] = {
		{255, 3, 1e-3, 20000, 92, 0}, {255, 3, 1e-3, 20000, 92, 99},
		{255, 2, 1e-3, 20000, 120, 0}, {255, 1, 1e-3, 20000, 185, 50},
		{255, 3, 1e-2, 20000, 76, 50}, {15, 3, 1e-3, 20000, 75, 0},
		{3, 3, 1e-3, 20000, 68, 50}, {4095, 3, 1e-3, 20000, 130, 0},
		{255, 3, 1e-3, 40, 120, 0}, {1, 1, 1e-2, 20000, 75, 0}
	};
	size_t		i;

	for (i = 0; i < sizeof cases / sizeof cases[0]; i++)
	{
		long		keys = scaled((long) cases[i].capacity);
		IbltKbfParams params = params_of(cases[i].values, cases[i].superposed, 2, 1);
		Counts		c = {0};
		double		bits;
		IbltStatus	status = iblt_core_kbf_choose(&params, (uint64_t) keys, cases[i].failure);

		if (status != IBLT_OK || iblt_core_kbf_check_params(&params) != IBLT_OK)
			abort();
		simulate(params, keys, cases[i].skew, &c);
		bits = (double) params.hashes * params.subtable_cells *
			(4 + params.degree * params.superposed) / (double) keys;
		tap_ok(c.wrong == 0 &&
			   (double) c.unknown <= 4 * sqrt((double) keys * cases[i].failure) +
			   (double) keys * cases[i].failure &&
			   (double) c.false_positive <= 4 * sqrt((double) c.absent * cases[i].failure / 100) +
			   (double) c.absent * cases[i].failure / 100 + 1 &&
			   (keys < (long) cases[i].capacity || bits <= cases[i].most_bits),
			   "%u values, %u %% alike, t = %d, failure %g, %ld keys: k = %d, %.1f bits a key, "
			   "unknown %.2e, false positives %.2e", cases[i].values, cases[i].skew,
			   cases[i].superposed, cases[i].failure, keys, params.hashes, bits, (double) c.unknown / (double) keys,
			   (double) c.false_positive / (double) c.absent);
	}
}

static IbltStatus
choose(unsigned values, int superposed, uint64_t capacity, double failure,
	   IbltKbfParams *params)
{
	*params = params_of(1, superposed, 2, 1);
	params->values = values;
	return iblt_core_kbf_choose(params, capacity, failure);
}

static void
test_choice_limits(void)
{
	IbltKbfParams params;
	uint32_t	last = 0;
	uint64_t	capacity;

	check(choose(0, 3, 100, 1e-3, &params) == IBLT_BAD_VALUES, "no values");
	check(choose(4096, 3, 100, 1e-3, &params) == IBLT_BAD_VALUES, "too many values");
	check(choose(255, 0, 100, 1e-3, &params) == IBLT_BAD_VALUES, "superposed 0");
	check(choose(255, 4, 100, 1e-3, &params) == IBLT_BAD_VALUES, "superposed 4");
	check(choose(255, 3, 0, 1e-3, &params) == IBLT_BAD_CELLS, "no keys");
	check(choose(255, 3, 100, 0.9e-6, &params) == IBLT_BAD_CELLS, "failure below");
	check(choose(255, 3, 100, 0.11, &params) == IBLT_BAD_CELLS, "failure above");
	check(choose(255, 3, 100, NAN, &params) == IBLT_BAD_CELLS, "failure NaN");
	check(choose(255, 3, UINT64_MAX, 1e-3, &params) == IBLT_BAD_CELLS, "too many keys");
	check(choose(255, 3, 25000000, 1e-3, &params) == IBLT_OK &&
		  iblt_core_kbf_check_params(&params) == IBLT_OK, "25 million keys");
	check(choose(4095, 3, 100, 1e-5, &params) == IBLT_OK && params.degree == 12, "4095");
	check(choose(4, 3, 100, 1e-5, &params) == IBLT_OK && params.degree >= 3, "4");
	check(choose(8, 3, 100, 1e-5, &params) == IBLT_OK && params.degree >= 4, "8");
	for (capacity = 1; capacity < 10000000; capacity += 1 + capacity / 4)
	{
		uint32_t	cells;

		check(choose(255, 3, capacity, 1e-3, &params) == IBLT_OK, "capacity");
		cells = (uint32_t) params.hashes * params.subtable_cells;
		check(cells >= last, "fewer cells for %" PRIu64 " keys", capacity);
		check(params.subtable_cells < 128 || params.subtable_cells %
			  (1u << (int) floor(log2(params.subtable_cells / 64.0))) == 0,
			  "%u cells do not fold", params.subtable_cells);
		last = cells;
	}
	checked("parameters are chosen within their limits");
}

int
main(void)
{
	(void) tap_seed();
	test_crowded_cells();
	test_decodability();
	test_rates();
	test_chosen();
	test_choice_limits();
	return tap_done();
}
