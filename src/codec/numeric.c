/*-------------------------------------------------------------------------
 *
 * numeric.c
 *	  Items of numeric values, from their stored form.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "codec/bytes.h"
#include "codec/private.h"

/* The stored form of a numeric, unchanged since PostgreSQL 9.1. */
#define NUMERIC_FLAGS		0xC000
#define NUMERIC_SHORT		0x8000
#define NUMERIC_SPECIAL		0xC000
#define NUMERIC_EXT_SIGN	0xF000

/*
 * Writes weight, sign and display scale as numeric_send does.  Returns how
 * many bytes of the stored form they take.  Sets *special for NaN and the
 * infinities, which have no digits.
 */
static Size
put_numeric_header(char *out, const char *data, bool *special)
{
	uint16		header;
	uint16		sign;
	uint16		dscale;
	int16		weight = 0;
	Size		size = sizeof(header);

	memcpy(&header, data, sizeof(header));
	dscale = (header & 0x1F80) >> 7;
	*special = (header & NUMERIC_FLAGS) == NUMERIC_SPECIAL;
	if (*special)
		sign = header & NUMERIC_EXT_SIGN;
	else if ((header & NUMERIC_FLAGS) == NUMERIC_SHORT)
	{
		sign = (header & 0x2000) ? 0x4000 : 0;
		weight = (int16) ((header & 0x3F) - (header & 0x40));
	}
	else
	{
		sign = header & NUMERIC_FLAGS;
		dscale = header & 0x3FFF;
		memcpy(&weight, data + size, sizeof(weight));
		size += sizeof(weight);
	}
	out = put_int16(out, (uint16) weight);
	out = put_int16(out, sign);
	put_int16(out, dscale);
	return size;
}

void
iblt_append_numeric_item(StringInfo buf, const char *data, Size len)
{
	char		header[6];
	bool		special;
	Size		skip = put_numeric_header(header, data, &special);
	uint32		ndigits = special ? 0 : (uint32) (len - skip) / sizeof(int16);
	char	   *out;

	ensure_room(buf, 5 + 8 + len);
	out = put_leb128(buf->data + buf->len, 8 + 2 * ndigits + 1);
	out = put_int16(out, (uint16) ndigits);
	memcpy(out, header, sizeof(header));
	out += sizeof(header);
	for (uint32 i = 0; i < ndigits; i++)
	{
		uint16		digit;

		memcpy(&digit, data + skip + i * sizeof(digit), sizeof(digit));
		out = put_int16(out, digit);
	}
	buf->len = (int) (out - buf->data);
}
