/*
 * meter.c
 *		The difference meter: combining and reading it.
 */
#include <math.h>

#include "cell.h"
#include "meter.h"

/*
 * The estimate has relative standard deviation sqrt(2/256) = .0884, and 2.326
 * of them below the truth is its 1 % quantile: 1 / (1 - 2.326 * .0884).
 */
#define BOUND_FACTOR	1.26

/*
 * Below this the estimate is exact but for collisions in a bucket, each of
 * which moves it by two; the same factor would round that away.
 */
#define BOUND_SLACK		2.0

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

bool
iblt_core_meter_is_zero(const uint8_t *meter)
{
	int i;

	for (i = 0; i < IBLT_METER_BUCKETS; i++)
		if (iblt_load16(meter + 2 * i) != 0)
			return false;
	return true;
}

double
iblt_core_meter_estimate(const uint8_t *meter)
{
	double sum = 0;
	int i;

	for (i = 0; i < IBLT_METER_BUCKETS; i++)
	{
		/* two's complement by arithmetic: the cast alone is not portable */
		int32_t counter = iblt_load16(meter + 2 * i);

		if (counter >= 32768)
			counter -= 65536;
		sum += (double) counter * counter;
	}
	return sum;
}

double
iblt_core_meter_bound(const uint8_t *meter)
{
	double estimate = iblt_core_meter_estimate(meter);

	return estimate == 0 ? 0 : ceil(BOUND_FACTOR * estimate + BOUND_SLACK);
}

/* The least number of rows that header and cells are evidence of. */
static double
evident_rows(const IbltSketch *sketch)
{
	uint32_t i;

	if (sketch->rows != 0)
		return fabs((double) sketch->rows);
	for (i = 0; i < sketch->ncells; i++)
		if (!iblt_core_cell_is_zero(sketch, iblt_cell(sketch, i)))
			return 1;
	return 0;
}

double
iblt_core_estimate(const IbltSketch *sketch, double *bound)
{
	double least = evident_rows(sketch);
	double estimate = iblt_core_meter_estimate(sketch->meter);

	*bound = iblt_core_meter_bound(sketch->meter);
	if (*bound < least)
		*bound = least;
	return estimate < least ? least : estimate;
}
