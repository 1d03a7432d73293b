/*
 * meter.c
 *		How much differs, from a sketch that need not decode.
 *
 * The meter's arithmetic is on integers, so that every machine gives the same.
 */
#include <math.h>

#include "meter.h"
#include "interrupt.h"

/*
 * The estimate has relative standard deviation sqrt(2/256) = .0884.  Its 1 %
 * quantile is 2.326 deviations below the truth: 1 / (1 - 2.326 * .0884).
 */
#define BOUND_PERCENT	126

/*
 * Below this the estimate is exact except for collisions in a bucket.  Each of
 * them moves it by two, and the factor would round that away.
 */
#define BOUND_SLACK		2

#define QUANTILE 2.326 /* standard deviations that leave out 1 % */

/* Two keys of opposite signs may hide in one cell of a small sketch. */
#define SQUARES_SLACK 4.0

/* Beyond the error of the meter, five deviations of 8.8 %. */
#define FAR_MORE 1.5

void
iblt_core_meter_add_all(uint8_t *meter, const uint8_t *other, int sign)
{
	int i;

	for (i = 0; i < IBLT_METER_BUCKETS; i++)
	{
		unsigned step = iblt_load16(other + 2 * i);
		unsigned sum = iblt_load16(meter + 2 * i);

		iblt_store16(meter + 2 * i,
					 (uint16_t) (sign > 0 ? sum + step : sum - step));
	}
}

uint64_t
iblt_core_meter_estimate(const uint8_t *meter)
{
	uint64_t sum = 0; /* at most 2^38 */
	int i;

	for (i = 0; i < IBLT_METER_BUCKETS; i++)
	{
		int32_t counter = (int16_t) iblt_load16(meter + 2 * i);

		sum += (uint64_t) (counter * counter);
	}
	return sum;
}

uint64_t
iblt_core_meter_bound(const uint8_t *meter)
{
	uint64_t estimate = iblt_core_meter_estimate(meter);

	/* rounded up */
	return estimate == 0 ? 0
		   : (BOUND_PERCENT * estimate + 99) / 100 + BOUND_SLACK;
}

uint64_t
iblt_core_estimate(const IbltSketch *sketch, uint64_t *bound)
{
	/* the smallest number of rows that the header and cells prove */
	uint64_t least = sketch->rows < 0 ? -(uint64_t) sketch->rows : (uint64_t) sketch->rows;
	uint64_t estimate = iblt_core_meter_estimate(sketch->meter);
	uint32_t i;

	for (i = 0; i < sketch->ncells && least == 0; i++)
	{
		iblt_check_interrupts_at(i);
		least = !iblt_core_cell_is_zero(sketch, iblt_cell(sketch, i));
	}
	*bound = iblt_core_meter_bound(sketch->meter);
	if (*bound < least)
		*bound = least;
	return estimate < least ? least : estimate;
}

/*
 * From the squared deviations from the mean of each subtable.  The mean is
 * computed first, because the difference of two large sums of squares would
 * lose digits.  At most 2^24 cells deviate by at most 2^32 each, so nothing
 * overflows.
 */
double
iblt_core_net_squares(const IbltSketch *sketch)
{
	uint32_t cells = sketch->params.subtable_cells;
	double squares = 0;
	uint32_t first;
	uint32_t i;

	if (sketch->ncells == 0)
		return 0;
	if (cells == 1)
		return INFINITY;
	for (first = 0; first < sketch->ncells; first += cells)
	{
		double mean = 0;
		double deviations = 0;

		for (i = first; i < first + cells; i++)
		{
			iblt_check_interrupts_at(i);
			mean += iblt_cell_count(iblt_cell(sketch, i));
		}
		mean /= cells;
		for (i = first; i < first + cells; i++)
		{
			double deviation = iblt_cell_count(iblt_cell(sketch, i)) - mean;

			iblt_check_interrupts_at(i);
			deviations += deviation * deviation;
		}
		squares += deviations;
	}
	/* by the number of subtables, and by s / (s - 1) */
	return squares * cells / sketch->ncells * cells / (cells - 1);
}

/*
 * Degrees of freedom of that estimate.  Its relative variance is 2 over these.
 */
static double
squares_freedom(const IbltSketch *sketch)
{
	return sketch->ncells - sketch->ncells / sketch->params.subtable_cells;
}

/*
 * A bound that the true sum passes in at most 1 % of cases.  For many keys the
 * estimate is distributed as chi-square over its degrees of freedom.  The 1 %
 * quantile of that is taken from Wilson & Hilferty (1931), and is a little too
 * low.
 */
static double
squares_bound(const IbltSketch *sketch, double squares)
{
	double variance = 2 / (9 * squares_freedom(sketch));
	double root = 1 - variance - QUANTILE * sqrt(variance);

	return root > 0 ? squares / (root * root * root) + SQUARES_SLACK : INFINITY;
}

/*
 * The mean of the two.  There cannot be more keys on one side only than rows
 * that differ.  If the estimates say there are, few keys are changed, and both
 * estimates are of the same number.  Each then gets its precision as its
 * weight.  If there are far more, keys have several rows, and the number of
 * rows is the better bound.
 */
static double
mean_of(const IbltSketch *sketch, double rows, double squares)
{
	double freedom = squares_freedom(sketch);

	if (squares <= rows)
		return (rows + squares) / 2;
	if (squares > FAR_MORE * rows)
		return rows;
	return (IBLT_METER_BUCKETS * rows + freedom * squares) /
		   (IBLT_METER_BUCKETS + freedom);
}

double
iblt_core_estimate_keys(const IbltSketch *sketch, double *bound)
{
	uint64_t most_rows;
	double rows = (double) iblt_core_estimate(sketch, &most_rows);
	double most = (double) most_rows;
	double squares;

	*bound = 0;
	if (most == 0 || sketch->ncells == 0)
		return 0;
	squares = fmax(iblt_core_net_squares(sketch), fabs((double) sketch->rows));
	*bound = ceil((most + fmin(squares_bound(sketch, squares), most)) / 2);
	return fmax(mean_of(sketch, rows, squares), 1);
}
