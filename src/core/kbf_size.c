/*
 * kbf_size.c
 *		How often a key-value Bloom filter fails, by a formula, and how large it
 *		has to be, by a table.
 */
#include "kbf_size.h"

#include <math.h>

#include "kbf_size_table.h"

/* The least number from 1 whose power reaches n, which that of the limit does. */
static uint32_t
root_above(uint64_t n, int exponent)
{
	uint32_t	low = 1;
	uint32_t	high = IBLT_KBF_MAX_CELLS;

	while (low < high)
	{
		uint32_t	middle = low + (high - low) / 2;
		uint64_t	power = 1;
		bool		reached = false;
		int			i;

		for (i = 0; i < exponent && !reached; i++)
			reached = __builtin_mul_overflow(power, middle, &power);
		if (reached || power >= n)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/*
 * The least number of cells of a subtable, with seven significant bits, or 0.
 * The products do not overflow: capacity is below 2^27, and apart below 2^29.
 */
static uint32_t
cells_for(uint64_t capacity, const KbfSize *size, int hashes, uint32_t apart)
{
	uint64_t	cells = (capacity * KBF_SIZE_ONE + size->load - 1) / size->load +
		size->extra;
	uint32_t	least = root_above(capacity * apart, hashes);
	uint32_t	step = 1;

	if (cells < least)
		cells = least;
	if (cells < IBLT_KBF_LEAST_CELLS)
		cells = IBLT_KBF_LEAST_CELLS;
	if (cells > IBLT_KBF_MAX_CELLS)
		return 0;
	while (cells / step > 127)
		step *= 2;
	return (uint32_t) ((cells + step - 1) / step * step);
}

IbltStatus
iblt_core_kbf_choose(IbltKbfParams *params, uint64_t capacity, double failure)
{
	uint64_t	fewest = UINT64_MAX;
	int			column = 0;
	int			width = 1;
	int			hashes;

	if (params->values < 1 || params->values > gf_values(IBLT_GF_MAX_DEGREE) ||
		params->superposed < 1 || params->superposed > IBLT_GF_MAX_TERMS)
		return IBLT_BAD_VALUES;
	/* written so that NaN is refused */
	if (!(failure >= IBLT_KBF_MIN_FAILURE && failure <= IBLT_KBF_MAX_FAILURE))
		return IBLT_BAD_CELLS;
	if (capacity == 0 || capacity >= (UINT64_C(1) << 27))
		return IBLT_BAD_CELLS;
	while (column < KBF_SIZE_FAILURES - 1 && kbf_size_failure[column] > failure)
		column++;
	while (params->values > gf_values(width))
		width++;
	/* of all numbers of hashes, the one that takes the fewest bits */
	for (hashes = KBF_SIZE_MIN_HASHES; hashes <= KBF_SIZE_MAX_HASHES; hashes++)
	{
		const KbfSize *size = &kbf_size[column][params->superposed - 1][width - 1]
			[hashes - KBF_SIZE_MIN_HASHES];
		uint32_t	cells;
		uint64_t	bits;

		if (size->load == 0)
			continue;
		cells = cells_for(capacity, size, hashes, kbf_size_apart[column]);
		bits = (uint64_t) cells * (unsigned) hashes *
			(unsigned) (IBLT_KBF_COUNTER_BITS + size->degree * params->superposed);
		if (cells == 0 || bits >= fewest)
			continue;
		fewest = bits;
		params->hashes = hashes;
		params->degree = size->degree;
		params->subtable_cells = cells;
	}
	return fewest == UINT64_MAX ? IBLT_BAD_CELLS : IBLT_OK;
}

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

/* The other keys, and the share of them in each of its cells. */
typedef struct Others
{
	double		number;			/* INFINITY if only their mean is known */
	double		load;			/* their mean in a cell */
} Others;

/* The chance that n of them are in a cell: binomial, or Poisson of their mean. */
static double
chance_of(const Others *others, int n)
{
	bool		endless = isinf(others->number);
	double		share = others->load / others->number;
	double		chance = endless ? exp(-others->load) : pow(1 - share, others->number - n);
	int			i;

	for (i = 0; i < n; i++)
		chance *= (endless ? others->load : (others->number - i) * share) / (i + 1);
	return chance > 0 ? chance : 0;
}

/* x^n for small n.  The sums below take most of their time for such powers, and pow() is slower. */
static double
power(double x, int n)
{
	double		product = 1;

	while (n-- > 0)
		product *= x;
	return product;
}

/* C(n, k) for small k. */
static double
choose(double n, int k)
{
	double		product = 1;
	int			i;

	for (i = 0; i < k; i++)
		product *= (n - i) / (i + 1);
	return product;
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
set_mix(Mix *mix, const IbltKbfParams *params, const Others *others, int own)
{
	double		elements = gf_values(params->degree);
	int			t = params->superposed;
	double		rest = own == 1 ? 1 : 1 - chance_of(others, 0);
	int			n;

	for (n = 1; n <= IBLT_GF_MAX_TERMS; n++)
	{
		mix->share[n - 1] = n > t ? 0
			: chance_of(others, n - own) * all_different(params, n);
		mix->named[n - 1] = n - own;
		rest -= mix->share[n - 1];
	}
	mix->share[TESTS] = chance_of(others, t + 1 - own);
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
	int			candidates = -1;
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
		survive *= power(fmin(mix->named[c] * mix->match, 1), tests);
	}
	if (candidates < 0)
		return outcome;
	survive *= power(mix->admit, cells[TESTS]);
	none = power(1 - survive, candidates);
	outcome.one = candidates * survive *
		power(1 - survive, candidates - 1);
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
		chance *= power(mix->share[NOTHING], left);
		sum.one *= chance;
		sum.several *= chance;
		return sum;
	}
	for (n = 0; n <= left; n++)
	{
		double		part = chance * choose(left, n) * power(mix->share[c], n);
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
	Others		others = {INFINITY, load};
	Mix			mix;

	set_mix(&mix, params, &others, own);
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
iblt_core_kbf_shared(const IbltKbfParams *params, double keys,
					 double subtable_cells)
{
	Others		others = {keys - 1, (keys - 1) / subtable_cells};
	double		common = 1 / subtable_cells;
	double		sum = 0;
	Mix			without,
				with;
	double		admit;			/* a cell of other keys can have a given wrong value */
	int			shared;
	int			c;

	if (!(keys > 1))
		return 0;
	set_mix(&without, params, &others, 0);
	set_mix(&with, params, &others, 1);
	admit = without.share[TESTS] * without.admit + without.share[NOTHING];
	for (c = ONE; c <= THREE; c++)
		admit += without.share[c] * without.named[c] * without.match;
	admit = fmin(admit, 1);
	for (shared = 2; shared <= params->hashes; shared++)
	{
		int			rest = params->hashes - shared;
		double		silent = pow(with.share[TESTS] + with.share[NOTHING], shared);

		sum += choose(params->hashes, shared) * pow(common, shared) *
			pow(admit, rest) * (1 - silent);
	}
	return fmin(keys * sum * without.in_range, 1);
}
