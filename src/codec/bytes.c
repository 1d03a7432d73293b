/*-------------------------------------------------------------------------
 *
 * bytes.c
 *	  Canonical bytes appended to a buffer.
 *
 *-------------------------------------------------------------------------
 */
#include "codec/bytes.h"

void
iblt_append_binary(StringInfo buf, const void *data, Size len)
{
	ensure_room(buf, len);
	memcpy(buf->data + buf->len, data, len);
	buf->len += (int) len;
}

void
iblt_append_int32(StringInfo buf, uint32 value)
{
	ensure_room(buf, sizeof(value));
	put_int32(buf->data + buf->len, value);
	buf->len += sizeof(value);
}

int
iblt_item_begin(StringInfo buf)
{
	ensure_room(buf, 1);
	return buf->len++;
}

void
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
