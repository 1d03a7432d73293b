/*-------------------------------------------------------------------------
 *
 * scalar.h
 *	  Items of the types whose values have a fixed width.
 *
 * Everything is inlined: these are the values that most rows are made of.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_CODEC_SCALAR_H
#define IBLT_CODEC_SCALAR_H

#include "postgres.h"

#include <math.h>

#include "codec/bytes.h"
#include "codec/private.h"

/* PostgreSQL treats all NaNs as equal, and text can carry only one. */
#define CANONICAL_NAN4	UINT32_C(0x7fc00000)
#define CANONICAL_NAN8	UINT64_C(0x7ff8000000000000)

static pg_attribute_always_inline uint32
float4_bits(float4 value)
{
	uint32		bits;

	memcpy(&bits, &value, sizeof(bits));
	return isnan(value) ? CANONICAL_NAN4 : bits;
}

static pg_attribute_always_inline uint64
float8_bits(float8 value)
{
	uint64		bits;

	memcpy(&bits, &value, sizeof(bits));
	return isnan(value) ? CANONICAL_NAN8 : bits;
}

static inline char *
put_fixed(char *out, const void *value, int len)
{
	*out++ = (char) (len + 1);
	memcpy(out, value, len);
	return out + len;
}

/*
 * Writes an item and returns what follows it.  There must be 32 bytes of
 * room.
 */
static pg_attribute_always_inline char *
put_scalar(char *out, IbltCodec *codec, Datum value)
{
	switch (codec->kind)
	{
		case IBLT_KIND_BYTE:
			*out++ = 1 + 1;
			*out++ = DatumGetChar(value);
			return out;
		case IBLT_KIND_INT2:
			*out++ = 2 + 1;
			return put_int16(out, DatumGetUInt16(value));
		case IBLT_KIND_INT4:
			*out++ = 4 + 1;
			return put_int32(out, DatumGetUInt32(value));
		case IBLT_KIND_INT8:
			*out++ = 8 + 1;
			return put_int64(out, (uint64) DatumGetInt64(value));
		case IBLT_KIND_FLOAT4:
			*out++ = 4 + 1;
			return put_int32(out, float4_bits(DatumGetFloat4(value)));
		case IBLT_KIND_FLOAT8:
			*out++ = 8 + 1;
			return put_int64(out, float8_bits(DatumGetFloat8(value)));
		case IBLT_KIND_FIXED:
			return put_fixed(out, DatumGetPointer(value), codec->typlen);
		default:
			return NULL;
	}
}

#endif							/* IBLT_CODEC_SCALAR_H */
