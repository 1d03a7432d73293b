/*
 * theory.h
 *		What is known of peeling without simulation.
 *
 * With n keys in k subtables of s cells, and a fraction of the keys that can
 * never be taken out, let x be the probability that a cell, looked at from one
 * of its keys, holds another key in the end.  As n grows,
 *
 *		x = 1 - exp(-load (several + (1 - several) x^(k-1))),	load = n / s,
 *
 * the largest solution of it, and another key is left when all its k cells hold
 * one: x^k (Molloy 2005; Goodrich & Mitzenmacher 2011 for the threshold).
 *
 * In a finite table the number of keys with which peeling first fails is close
 * to normal.  Dembo & Montanari 2008 show the exponents; the constants for
 * k = 5 are those that sizing.c has fitted, in the head of
 * src/core/sizing_table.h.
 */
#ifndef IBLT_SIM_THEORY_H
#define IBLT_SIM_THEORY_H

#include "sim.h"

#define PAPER_K 5 /* of all that the paper measures */

/*
 * Keys for each cell of a subtable at the threshold: the minimum over x of what
 * the equation above gives for the load if all keys can be taken out.
 */
static inline double
theory_threshold(int k)
{
	double least = INFINITY;

	for (int i = 1; i < 1000000; i++)
	{
		double x = i * 1e-6;

		least = fmin(least, -log1p(-x) / pow(x, k - 1));
	}
	return least;
}

/*
 * The fraction of all keys that is listed, for n without bound.  From 1 the
 * iteration falls to the largest solution.
 */
static inline double
theory_listed(int k, double load, double several)
{
	double x = 1;

	for (int i = 0; i < 1000000; i++)
	{
		double others = several + (1 - several) * pow(x, k - 1);
		double next = -expm1(-load * others);

		if (x - next < 1e-12)
			break;
		x = next;
	}
	return (1 - several) * (1 - pow(x, k));
}

/* --- small stopping sets -------------------------------------------------- */

#define THEORY_MAX_SMALL 64

/*
 * The probability that j balls in s bins leave no bin with one ball, to the
 * k-th power, for j = 0..THEORY_MAX_SMALL: that j keys are a stopping set.
 * From the partitions of j things into b blocks, none of them of one thing.
 */
static inline void
theory_stopping(double *stopping, int k, uint32_t s)
{
	static double partitions[THEORY_MAX_SMALL + 1][THEORY_MAX_SMALL + 1];

	partitions[0][0] = 1;
	for (int j = 0; j <= THEORY_MAX_SMALL; j++)
	{
		double sum = j == 0;
		double choices = 1; /* s (s-1) .. (s-b+1) / s^b */

		for (int b = 1; b <= j / 2; b++)
		{
			partitions[j][b] = b * partitions[j - 1][b] + (j - 1) * partitions[j - 2][b - 1];
			choices *= fmax(0, (double) s - b + 1) / s;
			sum += partitions[j][b] * choices * pow(s, b - j);
		}
		stopping[j] = pow(sum, k);
	}
}

/* The union bound on the probability of a stopping set of first..last keys among d. */
static inline double
theory_union_bound(const double *stopping, uint32_t d, int first, int last)
{
	double subsets = d;
	double sum = 0;

	for (int j = 2; j <= last && (uint32_t) j <= d; j++)
	{
		subsets *= (double) (d - j + 1) / j;
		if (j >= first)
			sum += subsets * stopping[j];
	}
	return sum;
}

/* --- finite tables, k = PAPER_K ------------------------------------------- */

#define LAW_LAMBDA 3.50890

/* The keys with which s cells a subtable first fail: mean and deviation. */
static inline double
law_mean(double s)
{
	return LAW_LAMBDA * s - 1.2824 * cbrt(s) + 0.6256;
}

static inline double
law_sd(double s)
{
	return 0.8302 * sqrt(s) - 0.1793 * pow(s, 1 / 6.0);
}

/* How many deviations is n below that mean? */
static inline double
law_distance(double s, double n)
{
	return (law_mean(s) - n) / law_sd(s);
}

/* The fraction of tables of n keys that are not listed completely. */
static inline double
law_incomplete(double s, double n)
{
	return erfc(law_distance(s, n) / sqrt(2)) / 2;
}

/* The cells in all with which n keys are so many deviations below the mean. */
static inline double
law_cells(double n, double distance)
{
	double low = 0;
	double high = n;

	SIM_HALVE(60, low, high, middle, law_distance(middle, n) < distance)
	return PAPER_K * high;
}

/* What finite tables list: percent of their keys. */
typedef struct Expected
{
	double complete; /* fraction above the threshold */
	double full;	 /* what these list; less than 100 if keys stay */
	double partial;	 /* and the others */
	double sd;		 /* of one table */
} Expected;

/*
 * A finite table is taken for an infinite one whose threshold is drawn from the
 * law, bias + sd z above LAW_LAMBDA s keys: the fluctuation that decides whether
 * it is complete also moves what is listed.
 */
static inline Expected
theory_finite(double s, double n, double bias)
{
	const double step = 0.005;
	double threshold = theory_threshold(PAPER_K);
	double weight[2] = { 0, 0 };
	double sum[2] = { 0, 0 };
	double squares = 0;
	Expected expected;
	double mean;
	double z;

	for (z = -6; z < 6; z += step)
	{
		double density = exp(-z * z / 2);
		double keys = LAW_LAMBDA * s + bias + z * law_sd(s);
		double load = LAW_LAMBDA * n / keys;
		double listed = 100 * theory_listed(PAPER_K, load, 0);
		bool above = load < threshold;

		weight[above] += density;
		sum[above] += density * listed;
		squares += density * listed * listed;
	}
	mean = (sum[0] + sum[1]) / (weight[0] + weight[1]);
	expected.complete = weight[1] / (weight[0] + weight[1]);
	expected.full = weight[1] > 0 ? sum[1] / weight[1] : 0;
	expected.partial = weight[0] > 0 ? sum[0] / weight[0] : 0;
	expected.sd = sqrt(fmax(0, squares / (weight[0] + weight[1]) - mean * mean));
	return expected;
}

static inline double
theory_mean(double complete, double full, double partial)
{
	return complete * full + (1 - complete) * partial;
}

/* What the mean percentage listed is between, and how far one table strays. */
typedef struct Bounds
{
	double low;
	double high;
	double sd;
} Bounds;

/*
 * Beyond so many deviations from the threshold, 1 in 30,000 tables is on the
 * other side of it: .002 on the average percentage.
 */
#define THEORY_WINDOW 4.0

/*
 * Away from the window: the asymptotic value, up to what the fluctuation adds on
 * average, which is second order.  Within it: as many complete as by the law,
 * good to law_error deviations; and what the others list is between its values
 * with the bias and without, for the bias belongs to the threshold and fades
 * below it.
 */
static inline Bounds
theory_bounds(double s, double n, double law_error)
{
	double bias = law_mean(s) - LAW_LAMBDA * s;
	double error = law_error * law_sd(s);
	Expected unbiased = theory_finite(s, n, 0);
	Bounds bounds = { 0 };

	if (fabs(law_distance(s, n)) > THEORY_WINDOW)
	{
		double mean = theory_mean(unbiased.complete, unbiased.full, unbiased.partial);
		double listed = 100 * theory_listed(PAPER_K, n / s, 0);

		bounds.low = listed - fabs(mean - listed) - 1e-9;
		bounds.high = listed + fabs(mean - listed) + 1e-9;
	}
	else
	{
		Expected low = theory_finite(s, n, bias - error);
		Expected high = theory_finite(s, n, bias + error);

		bounds.low = theory_mean(low.complete, low.full, low.partial);
		bounds.high = theory_mean(high.complete, high.full, fmax(high.partial, unbiased.partial));
		bounds.sd = low.sd;
	}
	return bounds;
}

#endif /* IBLT_SIM_THEORY_H */
