/*
 * private.h
 *	  What the files of src/codec share: the codec, canonical bytes in a buffer,
 *	  pinned settings and encodings.
 *
 * No file uses one that comes later in this list: text, type, name, write, read.
 */
#ifndef IBLT_CODEC_PRIVATE_H
#define IBLT_CODEC_PRIVATE_H

#include "codec/codec.h"

#include "access/tupdesc.h"
#include "mb/pg_wchar.h"
#include "port/pg_bswap.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

#include "codec/version.h"

/* How a value's bytes are made.  Kinds up to NUMERIC never call a function. */
typedef enum IbltKind
{
	IBLT_KIND_BYTE,				/* bool and "char" */
	IBLT_KIND_INT2,
	IBLT_KIND_INT4,
	IBLT_KIND_INT8,
	IBLT_KIND_FLOAT4,
	IBLT_KIND_FLOAT8,
	IBLT_KIND_FIXED,			/* typlen bytes as stored */
	IBLT_KIND_BYTES,			/* a varlena as stored */
	IBLT_KIND_TEXT,				/* a varlena of server text */
	IBLT_KIND_CSTRING,			/* a literal of unknown type */
	IBLT_KIND_NUMERIC,
	IBLT_KIND_SEND,				/* the type's send function */
	IBLT_KIND_FLOATS,			/* the same, with float8s in what it sends */
	IBLT_KIND_JSONB,			/* the last three outside UTF8 databases */
	IBLT_KIND_TSVECTOR,
	IBLT_KIND_HSTORE,
	IBLT_KIND_OUTPUT,			/* output text under pinned settings */
	IBLT_KIND_ENUM,
	IBLT_KIND_ARRAY,
	IBLT_KIND_ROW,
	IBLT_KIND_RANGE,
	IBLT_KIND_MULTIRANGE
} IbltKind;

/* The columns of a row type as of the last lookup. */
typedef struct IbltRow
{
	Oid			type;
	int32		typmod;
	uint64		identifier;		/* the type cache's, new after each change */
	TupleDesc	desc;			/* our own copy */
	int			ncolumns;		/* without dropped ones */
	int		   *attributes;		/* attribute index of each column */
	IbltCodec **columns;
	Datum	   *values;			/* working space, desc->natts long */
	bool	   *nulls;
} IbltRow;

struct IbltCodec
{
	IbltKind	kind;
	bool		exact;			/* reading must give the same bytes again */
	bool		names_only;		/* OUTPUT: only name settings matter */
	int16		float_offset;	/* FLOATS: where they begin */
	int32		min_bits;		/* SEND, FLOATS: least bits of each thing counted */
	int			count_offset;	/* where that int32 count is */
	int16		typlen;
	bool		typbyval;
	char		typalign;
	Oid			type;			/* as the caller gave it */
	Oid			base;			/* below domains */
	int32		typmod;
	MemoryContext cxt;
	MemoryContext scratch;		/* emptied after each value, NULL until used */
	FmgrInfo	write;			/* send or output function */
	FmgrInfo	read;			/* receive or input function */
	Oid			ioparam;
	TypeCacheEntry *range;		/* RANGE and MULTIRANGE: the range type */
	IbltCodec  *element;		/* of an array, range or multirange */
	MemoryContext row_cxt;		/* holds row; replaced with it */
	IbltRow    *row;			/* ROW: NULL until known */
};

/* Canonical bytes appended to a buffer: integers, lengths and items */

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

/* text.c */
extern bool iblt_text_is_raw(void);
extern void iblt_append_utf8(StringInfo buf, const char *text, Size len);
extern void iblt_append_text_item(StringInfo buf, const char *text, Size len);
extern char *iblt_utf8_to_server(const char *text, int len);
extern int	iblt_pinned_encoding(void);
extern int	iblt_pin_encoding(int encoding);
extern void iblt_unpin_encoding(int saved);
extern int	iblt_pin_settings(bool names_only);
extern bytea *iblt_call_send(IbltCodec *codec, Datum value, int encoding);
extern void iblt_append_jsonb(StringInfo buf, Datum value);
extern void iblt_append_tsvector(StringInfo buf, IbltCodec *codec, Datum value);
extern void iblt_append_hstore(StringInfo buf, IbltCodec *codec, Datum value);

/* type.c */
extern IbltRow *iblt_codec_follow(IbltCodec *codec, Oid type, int32 typmod);
extern IbltRow *iblt_codec_own_row(IbltCodec *codec);

/* The typmod of anonymous rows of these columns, whose typmods are -1 for NULL. */
extern int32 iblt_codec_row_typmod(int ncolumns, const Oid *types, const int32 *typmods);

#endif							/* IBLT_CODEC_PRIVATE_H */
