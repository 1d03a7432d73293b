/*-------------------------------------------------------------------------
 *
 * codec.h
 *	  The canonical bytes of SQL values, and back.
 *
 * The bytes of a value depend on nothing but the value: not on settings,
 * encodings, OIDs, storage, byte order or server version.  An item is one
 * value with its length in front: NULL is the byte 0, a value of n bytes is
 * LEB128(n + 1) and the n bytes.  Items delimit themselves, so different
 * lists of items never join to the same bytes.  doc/checksum.md has the bytes
 * of each type.
 *
 * Limits: one StringInfo, hence 1 GB, holds what is being appended.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_CODEC_H
#define IBLT_CODEC_H

#include "access/htup_details.h"
#include "fmgr.h"
#include "lib/stringinfo.h"

/*
 * Bounds on a description, which comes from another machine: bytes; levels, a
 * column being one below its row; and columns, as many as a row can have.
 */
#define IBLT_MAX_DESCRIPTION	8192
#define IBLT_MAX_DESCRIPTION_DEPTH	64
#define IBLT_MAX_COLUMNS		MaxTupleAttributeNumber

/*
 * How values of one type become canonical bytes and back.  It caches function
 * lookups and working memory, so it serves one call site at a time and is not
 * to be shared between them.
 */
typedef struct IbltCodec IbltCodec;

/*
 * The codec of a type; it lives in cxt.  A domain is treated as its base type.
 * RECORDOID gives a codec that follows each datum's own row type.  ERROR for
 * pseudo-types, whose values have no bytes.
 */
extern IbltCodec *iblt_codec_for_type(Oid type, MemoryContext cxt);

/* The codec of an anonymous row whose columns have these types. */
extern IbltCodec *iblt_codec_for_columns(int ncolumns, const Oid *types,
										 MemoryContext cxt);

/*
 * From now on, appending a value is an ERROR if records in it differ that the
 * codec's description speaks of once: elements of one array, or within them.
 */
extern void iblt_codec_require_uniform(IbltCodec *codec);

/*
 * Appends one item.  buf->data is not kept NUL-terminated.  What is taken
 * from CurrentMemoryContext is given back.
 */
extern void iblt_codec_append(StringInfo buf, IbltCodec *codec, Datum value,
							  bool isnull);

/* Appends the items of codecs[i] and args[i] for all i < n. */
extern void iblt_codec_append_args(StringInfo buf, IbltCodec **codecs,
								   const NullableDatum *args, int n);

/*
 * Reads one item at *pos and advances *pos.  The value is made by the type's
 * receive or input function, in CurrentMemoryContext.  ERROR when the bytes
 * are malformed or not what iblt_codec_append writes for the value, when the
 * value does not fit a column's or domain's type modifier, and when it breaks
 * a constraint of its domain.  Constraints of domains are not looked at where
 * the codec is that of a description, for they may be anybody's code.  Never
 * reads at or past end, and takes memory in proportion to the bytes at hand
 * only.
 */
extern Datum iblt_codec_read(IbltCodec *codec, const uint8 **pos,
							 const uint8 *end, bool *isnull);

/*
 * The type's portable name, palloc'd, in UTF-8 whatever the database's
 * encoding: "text", "int4[]", "(int4,text)", "public.mood".  ERROR for what no
 * description can say, so that each can be read back: arrays whose elements are
 * domains over arrays, names with control characters, what iblt_codec_is_known
 * denies, and what is beyond the bounds above.
 */
extern char *iblt_codec_description(IbltCodec *codec);

/* False if a record in it, or it itself, has yet to show its columns. */
extern bool iblt_codec_is_known(IbltCodec *codec);

/*
 * Inverse of iblt_codec_description.  The text may come from an untrusted
 * source: it is bounded, search_path plays no part, and only a text that
 * iblt_codec_description would write is accepted.  ERROR otherwise, with a
 * hint if the type does not exist in this database.
 *
 * With labels_as_text, values of an enum type are read as text.  So labels that
 * do not exist here can be shown.
 */
extern IbltCodec *iblt_codec_from_description(const char *description,
											  bool labels_as_text,
											  MemoryContext cxt);

/* The type of what iblt_codec_read returns. */
extern Oid	iblt_codec_type(IbltCodec *codec);

/*
 * Rises whenever any codec of this process looks up a row type anew, which is
 * the only time when descriptions can change.
 */
extern uint64 iblt_codec_generation(void);

/* Are its values rows? */
extern bool iblt_codec_is_row(IbltCodec *codec);

/* The columns' items alone, without the row's own length in front. */
extern void iblt_codec_append_columns(StringInfo buf, IbltCodec *codec,
									  Datum row);
extern Datum iblt_codec_read_columns(IbltCodec *codec, const uint8 **pos,
									 const uint8 *end);

#endif							/* IBLT_CODEC_H */
