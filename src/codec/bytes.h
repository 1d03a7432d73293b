/*
 * bytes.h
 *	  Canonical bytes appended to a buffer: integers, lengths and items.
 */
#ifndef IBLT_CODEC_BYTES_H
#define IBLT_CODEC_BYTES_H

#include "postgres.h"

#include "lib/stringinfo.h"
#include "port/pg_bswap.h"
#include "utils/memutils.h"

/*
 * Makes room for this many bytes.  ERROR if the buffer cannot grow that far.
 */
static pg_attribute_always_inline void
ensure_room(StringInfo buf, Size room)
{
	if (unlikely((Size) (buf->maxlen - buf->len) <= room))
	{
		if (room > MaxAllocSize)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("canonical bytes of a value exceed %zu bytes",
							(Size) MaxAllocSize)));
		enlargeStringInfo(buf, (int) room);
	}
}

/* Writes LEB128(n).  The caller has made room for 5 bytes. */
static pg_attribute_always_inline char *
put_leb128(char *out, uint32 n)
{
	while (n >= 0x80)
	{
		*out++ = (char) (n | 0x80);
		n >>= 7;
	}
	*out++ = (char) n;
	return out;
}

/* These write an integer, highest byte first, and return the end of it. */
static pg_attribute_always_inline char *
put_int16(char *out, uint16 value)
{
	value = pg_hton16(value);
	memcpy(out, &value, sizeof(value));
	return out + sizeof(value);
}

static pg_attribute_always_inline char *
put_int32(char *out, uint32 value)
{
	value = pg_hton32(value);
	memcpy(out, &value, sizeof(value));
	return out + sizeof(value);
}

static pg_attribute_always_inline char *
put_int64(char *out, uint64 value)
{
	value = pg_hton64(value);
	memcpy(out, &value, sizeof(value));
	return out + sizeof(value);
}

/* Appends bytes as an item. */
static pg_attribute_always_inline void
append_bytes_item(StringInfo buf, const char *data, Size len)
{
	char	   *out;

	ensure_room(buf, len + 5);
	out = put_leb128(buf->data + buf->len, (uint32) len + 1);
	memcpy(out, data, len);
	buf->len = (int) (out + len - buf->data);
}

/* Appends len bytes. */
static inline void
iblt_append_binary(StringInfo buf, const void *data, Size len)
{
	ensure_room(buf, len);
	memcpy(buf->data + buf->len, data, len);
	buf->len += (int) len;
}

/* Appends four bytes, the highest first. */
static inline void
iblt_append_int32(StringInfo buf, uint32 value)
{
	ensure_room(buf, sizeof(value));
	put_int32(buf->data + buf->len, value);
	buf->len += sizeof(value);
}

/*
 * Begins an item whose length is not known yet, with one byte for it.  Returns
 * the argument for iblt_item_end.
 */
static inline int
iblt_item_begin(StringInfo buf)
{
	ensure_room(buf, 1);
	return buf->len++;
}

/* Writes the length of the item begun at start, and moves the item if needed. */
static inline void
iblt_item_end(StringInfo buf, int start)
{
	int			n = buf->len - start - 1;
	char		header[5];
	int			width = (int) (put_leb128(header, (uint32) n + 1) - header);

	if (width > 1)
	{
		ensure_room(buf, (Size) width - 1);
		memmove(buf->data + start + width, buf->data + start + 1, n);
		buf->len += width - 1;
	}
	memcpy(buf->data + start, header, width);
}

#endif							/* IBLT_CODEC_BYTES_H */
