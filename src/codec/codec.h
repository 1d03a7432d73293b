/*
 * codec.h
 *	  The canonical bytes of SQL values, and back.
 *
 * The bytes of a value depend only on the value.  They do not depend on
 * settings, encodings, OIDs, storage, byte order or server version.  An item
 * is one value with its length in front: NULL is the byte 0, and a value of n
 * bytes is LEB128(n + 1) and the n bytes.  Items delimit themselves, so
 * different lists of items never have the same bytes.  doc/checksum.md has the
 * bytes of each type.
 *
 * Limits: the output is one StringInfo, hence at most 1 GB.
 */
#ifndef IBLT_CODEC_CODEC_H
#define IBLT_CODEC_CODEC_H

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "lib/stringinfo.h"

/* Defines a function for SQL that returns a Datum computed from fcinfo. */
#define IBLT_FUNCTION(function, result) \
	PG_FUNCTION_INFO_V1(function); \
	Datum function(PG_FUNCTION_ARGS) { return result; }

/*
 * Bounds on a description, which comes from another machine: its bytes, its
 * levels (a column is one level below its row), and its columns, as many as a
 * row can have.
 */
#define IBLT_MAX_DESCRIPTION	8192
#define IBLT_MAX_DESCRIPTION_DEPTH	64
#define IBLT_MAX_COLUMNS		MaxTupleAttributeNumber

/*
 * How values of one type become canonical bytes and back.  It caches function
 * lookups and working memory, so it serves one call site and must not be
 * shared.
 */
typedef struct IbltCodec IbltCodec;

/*
 * The codec of a type, allocated in cxt.  A domain is treated as its base
 * type.  RECORDOID gives a codec of the anonymous rows of this typmod, or for -1
 * one that follows each datum's own row type.  ERROR for pseudo-types, whose
 * values have no bytes.
 */
extern IbltCodec *iblt_codec_build(Oid type, int32 typmod, MemoryContext cxt);

/* The codec of an anonymous row whose columns have these types. */
extern IbltCodec *iblt_codec_for_columns(int ncolumns, const Oid *types,
										 MemoryContext cxt);

/*
 * Appends one item.  buf->data is not kept NUL-terminated.  Memory taken from
 * CurrentMemoryContext is freed.
 */
extern void iblt_codec_append(StringInfo buf, IbltCodec *codec, Datum value,
							  bool isnull);

/* Appends the items of codecs[i] and args[i] for all i < n. */
extern void iblt_codec_append_args(StringInfo buf, IbltCodec **codecs,
								   const NullableDatum *args, int n);

/*
 * Reads a key at *pos, which is one item, or the items of a row's columns without
 * the row's own length, and advances *pos.  The type's receive or input
 * function makes the value, in CurrentMemoryContext.  ERROR if the bytes are
 * malformed, or are not what is written for the value.  The type
 * must be of pg_catalog, because others can run anybody's code.  Never reads at
 * or past end.  Takes memory in proportion to the bytes at hand.
 */
extern Datum iblt_codec_read(IbltCodec *codec, const uint8 **pos,
							 const uint8 *end, bool *isnull);

/*
 * The type's portable name, palloc'd, in UTF-8 whatever the database's
 * encoding: "text", "int4[]", "(int4,text)", "public.mood".  Every description
 * can be read back.  So there is an ERROR for arrays of domains over arrays, for
 * arrays of anonymous rows, which may differ in their columns, for names with
 * control characters, for a type that is not known (iblt_codec_is_known), and
 * beyond the bounds above.
 */
extern char *iblt_codec_description(IbltCodec *codec);

/*
 * False if the columns of the record, or of a record in it, are not known yet.
 */
extern bool iblt_codec_is_known(IbltCodec *codec);

/*
 * Inverse of iblt_codec_description.  NULL if it names a type that is not of
 * pg_catalog.  The text may come from an untrusted source.  It is bounded,
 * search_path plays no part, and otherwise only a text that
 * iblt_codec_description would write is accepted.
 */
extern IbltCodec *iblt_codec_from_description(const char *description,
											  MemoryContext cxt);

/* The type of what iblt_codec_read returns. */
extern Oid	iblt_codec_type(IbltCodec *codec);

/*
 * Increases whenever a codec of this process looks up a row type again.
 * Descriptions can change only then.
 */
extern uint64 iblt_codec_generation(void);

/* What pg_type says of a type.  If it does not exist, false, or an ERROR unless missing_ok. */
extern bool iblt_type_form(Oid type, bool missing_ok, FormData_pg_type *form);

/*
 * The type of the elements of an array, of the bounds of a range, or of the
 * ranges of a multirange.  InvalidOid for another type.
 */
extern Oid	iblt_codec_type_part(Oid type);

/*
 * Do the canonical bytes of a value of this type never change while the value
 * stays the same?  False for enums, reg* types and rows, and for types that
 * hold them.
 */
extern bool iblt_codec_type_is_immutable(Oid type);

/*
 * The name of a type for another server, palloc'd.  Types of the same name have
 * the same canonical bytes for the same text: varchar is text, and a domain is
 * the type that it is over.
 */
extern char *iblt_codec_type_name(Oid type);

/* Are its values rows? */
extern bool iblt_codec_is_row(IbltCodec *codec);

/*
 * The columns' items alone, without the row's own length: of a row, or of the
 * values for a codec of iblt_codec_for_columns.
 */
extern void iblt_codec_append_columns(StringInfo buf, IbltCodec *codec,
									  Datum row);
extern void iblt_codec_append_values(StringInfo buf, IbltCodec *codec,
									 const NullableDatum *values);

#endif							/* IBLT_CODEC_CODEC_H */
