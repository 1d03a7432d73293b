/*
 * meter.c
 *		The difference meter: how to combine and read it.
 *
 * All arithmetic is on integers, so that every machine gives the same.
 */
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

uint64_t
iblt_core_meter_estimate(const uint8_t *meter)
{
	uint64_t sum = 0; /* at most 2^38 */
	int i;

	for (i = 0; i < IBLT_METER_BUCKETS; i++)
	{
		/* two's complement by arithmetic: the cast alone is not portable */
		int32_t counter = iblt_load16(meter + 2 * i);

		if (counter >= 32768)
			counter -= 65536;
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

/* The smallest number of rows that the header and cells prove. */
static uint64_t
evident_rows(const IbltSketch *sketch)
{
	uint32_t i;

	if (sketch->rows != 0)
		return sketch->rows < 0 ? -(uint64_t) sketch->rows
								: (uint64_t) sketch->rows;
	for (i = 0; i < sketch->ncells; i++)
	{
		iblt_check_interrupts_at(i);
		if (!iblt_core_cell_is_zero(sketch, iblt_cell(sketch, i)))
			return 1;
	}
	return 0;
}

uint64_t
iblt_core_estimate(const IbltSketch *sketch, uint64_t *bound)
{
	uint64_t least = evident_rows(sketch);
	uint64_t estimate = iblt_core_meter_estimate(sketch->meter);

	*bound = iblt_core_meter_bound(sketch->meter);
	if (*bound < least)
		*bound = least;
	return estimate < least ? least : estimate;
}
