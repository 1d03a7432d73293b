/*-------------------------------------------------------------------------
 *
 * packed.c
 *	  Changes of rows as bytes, one after the other.
 *
 *-------------------------------------------------------------------------
 */
#include "digest/packed.h"

#include "core/interrupt.h"

/* Bytes of one change. */
static inline Size
packed_size(unsigned flags, unsigned limbs)
{
	return 1 + 8 * (Size) limbs + (flags & IBLT_CHANGE_OLD ? 8 : 0) +
		(flags & IBLT_CHANGE_NEW ? 8 : 0);
}

uint8 *
iblt_packed_put(uint8 *out, unsigned flags, unsigned limbs, const uint8 *key,
				uint64 old_sum, uint64 new_sum)
{
	*out++ = (uint8) flags;
	memcpy(out, key, 8 * (Size) limbs);
	out += 8 * (Size) limbs;
	if (flags & IBLT_CHANGE_OLD)
	{
		iblt_store64(out, old_sum);
		out += 8;
	}
	if (flags & IBLT_CHANGE_NEW)
	{
		iblt_store64(out, new_sum);
		out += 8;
	}
	return out;
}

static inline bool
add_row(IbltApplier *applier, const uint8 *key, uint64 sum, int sign)
{
	applier->rows += sign;
	if (applier->sketch == NULL)
		return true;
	return (applier->adder == NULL
			? iblt_core_add_row(applier->sketch, key, sum, sign)
			: applier->adder->queue(&applier->queue, applier->sketch, key, sum,
									sign)) == IBLT_OK;
}

void
iblt_applier_begin(IbltApplier *applier, IbltSketch *sketch, unsigned limbs)
{
	memset(applier, 0, sizeof *applier);
	applier->sketch = sketch;
	applier->limbs = limbs;
	if (sketch != NULL)
		applier->adder = iblt_core_row_adder(&sketch->params);
}

int64
iblt_applier_add(IbltApplier *applier, const uint8 *bytes, Size size)
{
	IbltSketch *sketch = applier->sketch;
	int64		number = 0;
	Size		one;

	if (sketch != NULL && (sketch->ncells == 0 || sketch->params.value.limbs > 0))
		return -1;
	for (; size > 0; bytes += one, size -= one)
	{
		const uint8 *key = bytes + 1;
		const uint8 *sums = key + 8 * (Size) applier->limbs;

		if (bytes[0] < 1 || bytes[0] > 3)
			return -1;
		one = packed_size(bytes[0], applier->limbs);
		if (one > size)
			return -1;
		if (bytes[0] & IBLT_CHANGE_OLD)
		{
			if (!add_row(applier, key, iblt_load64(sums), -1))
				return -1;
			sums += 8;
		}
		if ((bytes[0] & IBLT_CHANGE_NEW) && !add_row(applier, key, iblt_load64(sums), 1))
			return -1;
		iblt_check_interrupts_at((uint32) number++);
	}
	return number;
}

void
iblt_applier_end(IbltApplier *applier)
{
	if (applier->sketch != NULL)
		iblt_core_queue_flush(&applier->queue, applier->sketch);
}

int64
iblt_packed_apply(IbltSketch *sketch, const uint8 *bytes, Size size)
{
	IbltApplier applier;
	int64		number;

	iblt_applier_begin(&applier, sketch, sketch->params.key.limbs);
	number = iblt_applier_add(&applier, bytes, size);
	iblt_applier_end(&applier);
	return number;
}

Size
iblt_packed_prefix(const uint8 *bytes, Size size, unsigned limbs, Size most)
{
	Size		taken = 0;
	Size		one;

	while (taken < size)
	{
		one = packed_size(bytes[taken], limbs);
		if (taken + one > most)
			break;
		taken += one;
	}
	return taken;
}
