/*
 * test_meter.c
 *		The difference meter: one row, counters that wrap, and its bound.  sim_meter.c
 *		holds estimates and bounds of many rows against theory, test_estimate.c of
 *		changed ones.
 */
#include "model.h"

/*
 * Both sides hold the same rows, so many that counters wrap, and a few that
 * differ; the difference is that of the few alone.
 */
static void
test_wrapping(void)
{
	uint8_t left[2 * IBLT_METER_BUCKETS] = { 0 };
	uint8_t right[2 * IBLT_METER_BUCKETS] = { 0 };
	uint8_t few[2 * IBLT_METER_BUCKETS] = { 0 };
	uint8_t back[2 * IBLT_METER_BUCKETS];
	int wrapped = 0;

	for (int i = 0; i < IBLT_METER_BUCKETS; i++)
	{
		/* around the turn of the counters' sign and of the word */
		unsigned many = i < 128 ? 0x8000u - 64 + (unsigned) i : 0x10000u - 192 + (unsigned) i;

		iblt_store16(left + 2 * i, (uint16_t) many);
		iblt_store16(right + 2 * i, (uint16_t) many);
	}
	for (int i = 0; i < 100000; i++)
	{
		uint64_t hash = tap_random();

		iblt_meter_add(left, hash, 1);
		iblt_meter_add(few, hash, 1);
	}
	for (int i = 0; i < 2 * IBLT_METER_BUCKETS; i += 2)
		wrapped += (iblt_load16(left + i) ^ iblt_load16(right + i)) >> 15;
	memcpy(back, left, sizeof back);
	iblt_core_meter_add_all(left, right, -1);
	check(wrapped > 10, "only %d counters changed sign", wrapped);
	check(memcmp(left, few, sizeof few) == 0, "the difference is another");
	iblt_core_meter_add_all(left, right, 1);
	check(memcmp(left, back, sizeof back) == 0, "and does not add up again");
	checked("counters that wrap leave the difference as it is");
}

/* Deleting is minus inserting; reading goes by two's complement. */
static void
test_signs(void)
{
	uint8_t meter[2 * IBLT_METER_BUCKETS] = { 0 };

	for (int i = 0; i < 100; i++)
	{
		uint64_t hash = tap_random();

		iblt_meter_add(meter, hash, 1);
		check(!iblt_core_meter_is_zero(meter) && iblt_core_meter_estimate(meter) == 1 &&
			  iblt_core_meter_bound(meter) >= 1, "one row is not one");
		iblt_meter_add(meter, hash, -1);
		check(iblt_core_meter_is_zero(meter) && iblt_core_meter_bound(meter) == 0,
			  "a row stays when deleted");
	}
	iblt_store16(meter, 0x8000);
	iblt_store16(meter + 510, 0xffff);
	check(iblt_core_meter_estimate(meter) == 32768 * 32768 + 1,
		  "the lowest counter is read as %" PRIu64, iblt_core_meter_estimate(meter));
	checked("insert and delete cancel, counters are signed");
}

/* The bound is 1.26 times the estimate and two, rounded up, exactly. */
static void
test_bound(void)
{
	uint8_t meter[2 * IBLT_METER_BUCKETS] = { 0 };
	uint64_t least;

	for (int i = 1; i <= 65535; i++)
	{
		iblt_store16(meter, (uint16_t) i);
		least = 126 * iblt_core_meter_estimate(meter);
		check((iblt_core_meter_bound(meter) - 2) * 100 >= least &&
				  (iblt_core_meter_bound(meter) - 3) * 100 < least,
			  "of counter %d the bound is %" PRIu64, i, iblt_core_meter_bound(meter));
	}
	for (int i = 0; i < IBLT_METER_BUCKETS; i++)
		iblt_store16(meter + 2 * i, 0x8000);
	check(iblt_core_meter_bound(meter) == UINT64_C(346346162752),
		  "the largest bound is %" PRIu64, iblt_core_meter_bound(meter));
	checked("the bound is exact");
}

TAP_MAIN(test_wrapping, test_signs, test_bound)
