/*
 * key.h
 *	  Keys as SQL values, and as the bytes that a sketch keeps.
 *
 * smallint, integer and bigint are one kind of key, and uuid is another.  Any
 * other type, or row of types, is kept as its canonical bytes (codec/codec.h),
 * padded with zeros to the sketch's key size.
 */
#ifndef IBLT_SKETCH_KEY_H
#define IBLT_SKETCH_KEY_H

#include "sketch/iblt.h"

#include "catalog/pg_type.h"

/* A value of an integer type, of any width.  False for all other types. */
static inline bool
iblt_key_integer(Oid type, Datum value, int64 *integer)
{
	switch (type)
	{
		case INT8OID:
			*integer = DatumGetInt64(value);
			return true;
		case INT4OID:
			*integer = DatumGetInt32(value);
			return true;
		case INT2OID:
			*integer = DatumGetInt16(value);
			return true;
		default:
			return false;
	}
}

/*
 * Turns keys, or values, of one SQL type into bytes and back.  Holds caches and working
 * memory, and lives as long as the call site that uses it.
 */
typedef struct IbltKeyCoder
{
	bool		of_value;		/* of values, not keys */
	Oid			type;			/* base type of the keys */
	Oid			asked;			/* as the caller gave it, maybe a domain */
	IbltKeyKind kind;
	IbltCodec  *codec;			/* of canonical keys, NULL if they are shown as bytes */
	StringInfoData bytes;		/* the key last encoded */
	char	   *description;	/* the key's type in UTF-8, once known */
	size_t		description_size;
	uint64		generation;		/* of the codecs when it became known */
	uint64		version;		/* increases when the description changes */
	MemoryContext context;
} IbltKeyCoder;

/* A coder for keys of a type, in context.  ERROR if the type is not known. */
extern IbltKeyCoder *iblt_key_coder(Oid type, MemoryContext context);

/* A coder for anonymous rows whose column types are known in advance. */
extern IbltKeyCoder *iblt_key_coder_for_columns(int ncolumns,
												const Oid *types,
												MemoryContext context);

/*
 * A coder for the keys that a typed sketch describes, or for its values, to
 * show them as text.  If a type in it is not of pg_catalog, its functions could
 * be anybody's, and the coder shows the canonical bytes as bytea, without zeros
 * at their end.  It lives in CurrentMemoryContext.
 */
extern IbltKeyCoder *iblt_key_coder_for_params(const IbltParams *params,
											   bool of_value);

/*
 * A coder for keys of a typed sketch, or for its values, as a type of
 * pg_catalog that the caller asks for.  It must be the sketch's.  If the caller
 * asks for records, they are those that the sketch describes.
 */
extern IbltKeyCoder *iblt_key_coder_as_asked(FunctionCallInfo fcinfo, Oid type,
											 const IbltParams *params,
											 bool of_value);

/* The type of argument n of a function.  ERROR if it is not known. */
extern Oid	iblt_key_type_asked(FunctionCallInfo fcinfo, int n);

/*
 * The coder of argument n of a function, 1 or 2, kept in fn_extra between calls
 * and replaced if the argument's type changes.
 */
extern IbltKeyCoder *iblt_key_coder_for_arg(FunctionCallInfo fcinfo, int n);

/*
 * Encodes a key, or the columns of one that iblt_key_coder_for_columns is for.  The
 * bytes stay in the coder until the next key.
 */
extern void iblt_key_encode(IbltKeyCoder *coder, Datum key);
extern void iblt_key_encode_columns(IbltKeyCoder *coder, const NullableDatum *columns);

/*
 * Must the coder's description be updated?  True before the first key, and
 * after a row type may have changed.  iblt_key_set_params updates it.
 */
extern bool iblt_key_type_changed(const IbltKeyCoder *coder);

/*
 * Pads the encoded key to 8 * limbs bytes and returns it.  ERROR if it is too
 * long.
 */
extern const uint8 *iblt_key_padded(IbltKeyCoder *coder, unsigned limbs);

/*
 * Gives untyped typing the coder's type.  ERROR, with the beginning of a hint,
 * unless typed typing has it already.  Anonymous rows have a type once a key
 * has been encoded.
 */
extern void iblt_key_set_typing(IbltKeyCoder *coder, IbltTyping *typing,
								const char *advice);

/*
 * Gives an untyped template the coder's type of key.  ERROR unless a typed one
 * has it already.  Anonymous rows have a type once a key has been encoded.
 * Until then the template stays untyped.  ERROR if that key does not show the
 * columns of a row in it.
 */
extern void iblt_key_set_params(IbltKeyCoder *coder, IbltParams *params);

/*
 * The same for a row of a sketch with or without values.  A template is typed
 * only if both types are known.  Without values, ERROR if the value is not an
 * integer.
 */
extern void iblt_key_set_row_params(IbltKeyCoder *key, IbltKeyCoder *value,
									IbltParams *params);

/* The encoded value as a checksum, if it is an integer. */
extern uint64 iblt_key_checksum(const IbltKeyCoder *value);

/*
 * The key that these bytes, limbs words of them, stand for, of the coder's type.
 */
extern Datum iblt_key_decode(IbltKeyCoder *coder, const uint8 *bytes,
							 unsigned limbs);

#endif							/* IBLT_SKETCH_KEY_H */
