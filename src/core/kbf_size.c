/*
 * kbf_size.c
 *		How large a key-value Bloom filter has to be, and how often it fails.
 */
#include <math.h>

#include "kbf_size.h"
#include "sizing.h"

/* Loads beyond this are not of use, whatever the failure. */
#define MAX_LOAD	8.0

/* What a cell says: it names one, two or three values, ... */
#define ONE		0
#define TWO		1
#define THREE	2
#define TESTS	3				/* ... it can only test a value, ... */
#define NOTHING	4				/* ... or not even that. */
#define CLASSES	5

/* The cells of one key, as a mixture. */
typedef struct Mix
{
	double		share[CLASSES]; /* of the cells */
	double		named[3];		/* wrong values that a cell names */
	double		match;			/* chance of one wrong value to be another */
	double		admit;			/* chance of one to pass a test */
	double		in_range;		/* chance of one to be a value, turned back */
} Mix;

/* How often a key is left with no, one or several wrong values. */
typedef struct Outcome
{
	double		one;
	double		several;
} Outcome;

/* The chance that a Poisson variable is n. */
static double
poisson(double mean, int n)
{
	double		chance = exp(-mean);

	for (; n > 0; n--)
		chance *= mean / n;
	return chance;
}

/* C(n, k) for small k. */
static double
choose(double n, int k)
{
	double		product = 1;
	int			i;

	for (i = 0; i < k; i++)
		product *= (n - i) / (i + 1);
	return product > 0 ? product : 0;
}

/* The chance that the elements of n keys are all different. */
static double
all_different(const IbltKbfParams *params, int n)
{
	double		chance = 1;

	while (--n > 0)
		chance *= 1 - (double) n / gf_values(params->degree);
	return chance;
}

/*
 * The chance that a cell of t + 1 pairs can have a given wrong value.  It can
 * have any value if two of its own are equal.  Otherwise the value must be one
 * of its own, of which `others` may be it, or what is left must be by chance a
 * sum of t codes.
 */
static double
admit_rate(const IbltKbfParams *params, int others)
{
	double		elements = gf_values(params->degree);
	int			t = params->superposed;
	double		different = all_different(params, t + 1);
	double		sums = choose(elements, t) +
		(t == 2 ? 1 : t == 3 ? elements : 0);
	double		refuted = (1 - fmin(sums / ldexp(1, params->degree * t), 1)) *
		pow(1 - 1 / elements, others);

	return 1 - different * refuted;
}

/*
 * The cells of a key with `own` pairs of its own, 0 or 1, in each.  A cell of n
 * pairs names their values if n is at most t and they are different.
 */
static void
set_mix(Mix *mix, const IbltKbfParams *params, double load, int own)
{
	double		elements = gf_values(params->degree);
	int			t = params->superposed;
	double		rest = own == 1 ? 1 : 1 - poisson(load, 0);
	int			n;

	for (n = 1; n <= IBLT_GF_MAX_TERMS; n++)
	{
		mix->share[n - 1] = n > t ? 0
			: poisson(load, n - own) * all_different(params, n);
		mix->named[n - 1] = n - own;
		rest -= mix->share[n - 1];
	}
	mix->share[TESTS] = poisson(load, t + 1 - own);
	rest -= mix->share[TESTS];
	mix->share[NOTHING] = rest > 0 ? rest : 0;
	mix->match = 1 / (elements - own);
	mix->in_range = (params->values - own) / (elements - own);
	mix->admit = admit_rate(params, t + 1 - own);
}

/*
 * The chances for given numbers of cells of each class.  The cell that names
 * the fewest values gives the candidates, and the others leave a part of them.
 */
static Outcome
outcome_of(const Mix *mix, const int *cells)
{
	Outcome		outcome = {0, 1};
	double		candidates = -1;
	double		survive = mix->in_range;
	double		none;
	int			c;

	for (c = ONE; c <= THREE; c++)
	{
		int			tests = cells[c];

		if (tests > 0 && candidates < 0)
		{
			candidates = mix->named[c];
			tests--;
		}
		survive *= pow(fmin(mix->named[c] * mix->match, 1), tests);
	}
	if (candidates < 0)
		return outcome;
	survive *= pow(mix->admit, cells[TESTS]);
	none = pow(1 - survive, candidates);
	outcome.one = candidates * survive *
		(candidates > 1 ? pow(1 - survive, candidates - 1) : 1);
	outcome.several = fmax(1 - none - outcome.one, 0);
	return outcome;
}

/* Adds up over the ways to choose the classes of `left` cells from class c on. */
static Outcome
sum_over(const Mix *mix, int *cells, int c, int left, double chance)
{
	Outcome		sum = {0, 0};
	int			n;

	if (c == NOTHING)
	{
		sum = outcome_of(mix, cells);
		chance *= pow(mix->share[NOTHING], left);
		sum.one *= chance;
		sum.several *= chance;
		return sum;
	}
	for (n = 0; n <= left; n++)
	{
		double		part = chance * choose(left, n) * pow(mix->share[c], n);
		Outcome		more;

		cells[c] = n;
		if (part == 0)
			continue;
		more = sum_over(mix, cells, c + 1, left - n, part);
		sum.one += more.one;
		sum.several += more.several;
	}
	return sum;
}

static Outcome
outcome(const IbltKbfParams *params, double load, int own)
{
	int			cells[CLASSES] = {0};
	Mix			mix;

	set_mix(&mix, params, load, own);
	return sum_over(&mix, cells, ONE, params->hashes, 1);
}

void
iblt_core_kbf_rates(const IbltKbfParams *params, double load,
					IbltKbfRates *rates)
{
	Outcome		present = outcome(params, load, 1);
	Outcome		absent = outcome(params, load, 0);

	/* a wrong value beside the true one makes it unknown */
	rates->unknown = present.one + present.several;
	rates->false_positive = absent.one;
	rates->absent_unknown = absent.several;
}

double
iblt_core_kbf_load(const IbltKbfParams *params, double failure)
{
	double		low = 0;
	double		high = MAX_LOAD;
	int			i;

	for (i = 0; i < 16; i++)
	{
		double		middle = (low + high) / 2;
		IbltKbfRates rates;

		iblt_core_kbf_rates(params, middle, &rates);
		if (rates.unknown <= failure &&
			rates.false_positive <= failure * IBLT_KBF_FALSE_POSITIVE_SHARE)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* The least number of cells for a load, with seven significant bits. */
static uint32_t
cells_for(uint64_t capacity, double load, int hashes, double failure)
{
	double		keys = (double) capacity;
	double		apart = pow(keys / (failure * IBLT_KBF_FALSE_POSITIVE_SHARE),
							1.0 / hashes);
	double		exact = fmax(fmax(ceil(keys / load), ceil(apart)),
							 IBLT_KBF_LEAST_CELLS);
	uint32_t	step = 1;
	uint32_t	cells;

	if (!(exact <= IBLT_KBF_MAX_CELLS))
		return 0;
	cells = (uint32_t) exact;
	while (cells / step > 127)
		step *= 2;
	return (cells + step - 1) / step * step;
}

/* Tries all numbers of hashes, and keeps what takes fewer bits than before. */
static void
choose_hashes(IbltKbfParams *best, IbltKbfParams *trial, uint64_t capacity,
			  double failure, uint64_t *fewest)
{
	for (trial->hashes = IBLT_KBF_MIN_HASHES;
		 trial->hashes <= IBLT_KBF_MAX_HASHES; trial->hashes++)
	{
		double		load = iblt_core_kbf_load(trial, failure * IBLT_KBF_MARGIN);
		uint32_t	cells = cells_for(capacity, load, trial->hashes, failure);
		uint64_t	bits = (uint64_t) cells * (unsigned) trial->hashes *
			(unsigned) (IBLT_KBF_COUNTER_BITS + trial->degree * trial->superposed);

		if (cells == 0 || (*fewest != 0 && bits >= *fewest))
			continue;
		*fewest = bits;
		trial->subtable_cells = cells;
		*best = *trial;
	}
}

IbltStatus
iblt_core_kbf_choose(IbltKbfParams *params, uint64_t capacity, double failure)
{
	IbltKbfParams trial = *params;
	uint64_t	fewest = 0;

	if (params->values < 1 || params->values > gf_values(IBLT_GF_MAX_DEGREE) ||
		params->superposed < 1 || params->superposed > IBLT_GF_MAX_TERMS)
		return IBLT_BAD_VALUES;
	/* written so that NaN is refused */
	if (capacity == 0 ||
		!(failure >= IBLT_MIN_FAILURE && failure <= IBLT_MAX_FAILURE))
		return IBLT_BAD_CELLS;
	for (trial.degree = IBLT_GF_MIN_DEGREE;
		 trial.degree <= IBLT_GF_MAX_DEGREE; trial.degree++)
		if (gf_values(trial.degree) >= params->values)
			choose_hashes(params, &trial, capacity, failure, &fewest);
	return fewest == 0 ? IBLT_BAD_CELLS : IBLT_OK;
}
