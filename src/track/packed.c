/*-------------------------------------------------------------------------
 *
 * packed.c
 *	  Changes of rows as bytes, one after the other.
 *
 *-------------------------------------------------------------------------
 */
#include "track/packed.h"

#include "core/row.h"

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

/* Is there a whole change at bytes?  Sets its size. */
static bool
change_size(const uint8 *bytes, Size left, unsigned limbs, Size *size)
{
	if (left == 0 || bytes[0] < 1 || bytes[0] > 3)
		return false;
	*size = iblt_packed_size(bytes[0], limbs);
	return *size <= left;
}

/* Adds a row, or removes it, with the sketch's adder if it has one. */
static inline bool
apply_row(IbltSketch *sketch, const IbltRowAdder *adder, const uint8 *key,
		  const uint8 *sum, int sign)
{
	uint64		y = iblt_load64(sum);

	if (adder == NULL)
		return iblt_core_add_row(sketch, key, y, sign) == IBLT_OK;
	return (sign > 0 ? adder->add : adder->remove) (sketch, key, y) == IBLT_OK;
}

bool
iblt_packed_apply(IbltSketch *sketch, const uint8 *bytes, Size size)
{
	const IbltRowAdder *adder = iblt_core_row_adder(&sketch->params);
	unsigned	limbs = sketch->params.limbs;
	Size		one;

	for (; size > 0; bytes += one, size -= one)
	{
		const uint8 *key = bytes + 1;
		const uint8 *sum = key + 8 * (Size) limbs;

		if (!change_size(bytes, size, limbs, &one))
			return false;
		if (bytes[0] & IBLT_CHANGE_OLD)
		{
			if (!apply_row(sketch, adder, key, sum, -1))
				return false;
			sum += 8;
		}
		if ((bytes[0] & IBLT_CHANGE_NEW) &&
			!apply_row(sketch, adder, key, sum, 1))
			return false;
	}
	return true;
}

Size
iblt_packed_prefix(const uint8 *bytes, Size size, unsigned limbs, Size most)
{
	Size		taken = 0;
	Size		one;

	while (taken < size)
	{
		one = iblt_packed_size(bytes[taken], limbs);
		if (taken + one > most)
			break;
		taken += one;
	}
	return taken;
}

int64
iblt_packed_count(const uint8 *bytes, Size size, unsigned limbs, int64 *rows)
{
	int64		number = 0;
	Size		one;

	*rows = 0;
	for (; change_size(bytes, size, limbs, &one); bytes += one, size -= one)
	{
		number++;
		*rows += ((bytes[0] & IBLT_CHANGE_NEW) != 0) -
			((bytes[0] & IBLT_CHANGE_OLD) != 0);
	}
	return number;
}
