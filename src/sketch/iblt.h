/*
 * iblt.h
 *	  What the PostgreSQL side of iblt shares: values of the types iblt and
 *	  iblt_strata as datums, their keys, and the errors they raise.
 *
 * The algorithm is in src/core and does not depend on PostgreSQL.
 */
#ifndef IBLT_H
#define IBLT_H

#include "postgres.h"

#include "core/peel.h"
#include "sketch/value.h"

/* An incomplete decoding.  Class IB belongs to this extension. */
#define ERRCODE_IBLT_INCOMPLETE MAKE_SQLSTATE('I', 'B', '0', '0', '1')

/* The defaults of iblt_new and iblt_agg. */
#define IBLT_DEFAULT_CAPACITY	100
#define IBLT_DEFAULT_HASHES		4
#define IBLT_DEFAULT_KEY_SIZE	32
#define IBLT_DEFAULT_VALUE_SIZE	32

/* The defaults of iblt_strata_agg; iblt_strata_new has them in SQL. */
#define IBLT_DEFAULT_STRATA			32
#define IBLT_DEFAULT_STRATUM_CELLS	80

/* type.c */

extern const IbltValueType iblt_type;
extern const IbltValueType iblt_strata_type;

/* Opens a value of either type, as operators take them, which is not NULL. */
extern void iblt_open_either(IbltSketch *sketch, Datum value);

/*
 * Opens the header of argument n alone, as iblt_core_open_header does, and
 * leaves the rest to be fetched by slices.  ERROR if the argument is NULL or
 * the header is not valid.
 */
extern void iblt_open_header_arg(IbltSketch *sketch, IbltSlices *slices,
								 FunctionCallInfo fcinfo, int n);

/* Creates an empty value in CurrentMemoryContext, and a view of it. */
extern struct varlena *iblt_make(IbltSketch *sketch, const IbltParams *params);

/* The same without the view, and sealed. */
extern struct varlena *iblt_make_empty(const IbltParams *params);

/* Copies an open sketch into CurrentMemoryContext, and opens a view of it. */
extern struct varlena *iblt_copy(IbltSketch *copy, const IbltSketch *sketch);

/*
 * Creates a value with the rows of an open sketch in subtables of this many
 * cells, those in the mask, as iblt_core_fold does.  Sealed.
 */
extern struct varlena *iblt_make_fold(IbltSketch *fold,
									  const IbltSketch *sketch, uint32 cells,
									  unsigned subtables);

/* ERROR for parameters that the core refuses.  IBLT_OK passes. */
extern void iblt_check_params(const IbltParams *params);

/* ERROR for a row that the core cannot add. */
extern void iblt_refuse_row(IbltStatus status);

/* ERROR if the core found counts out of range.  IBLT_OK passes. */
extern void iblt_check_counts(const IbltParams *params, IbltStatus status);

/* ops.c */

/*
 * Creates left + sign * right, which can be added.  An untyped template counts
 * as empty.  Sealed.
 */
extern struct varlena *iblt_combine(IbltSketch *result, const IbltSketch *left,
									const IbltSketch *right, int sign);

/* params.c */

/*
 * Makes the parameters of an untyped template.  Each is checked, with a hint.
 * value_size is 0 for a sketch without values.
 */
extern void iblt_params_make(IbltParams *params, int capacity, double failure, int hashes,
							 int key_size, int value_size, uint64 seed);

/* The same for an estimator of strata of so many cells. */
extern void iblt_strata_params_make(IbltParams *params, int strata, int cells,
									int hashes, uint64 seed);

/* Capacity of a sketch at the default failure probability, or 0 if none. */
extern uint32 iblt_params_capacity(const IbltParams *params);

/*
 * Cells of a subtable after folding to a capacity and probability of failure.
 * ERROR, with a hint, if the sketch is smaller than that.
 */
extern uint32 iblt_params_fold_cells(const IbltParams *params, int capacity,
									 double failure);

/* ERROR unless a sketch can be folded to that many cells a subtable. */
extern void iblt_require_fold(const IbltParams *params, int32 cells);

/* A type for messages and iblt_info, or NULL when untyped. */
extern char *iblt_params_type_name(const IbltTyping *typing);

/*
 * ERROR, naming both, unless sketches with these parameters can be added.  An
 * untyped one matches any type of key.
 */
extern void iblt_params_check_match(const IbltParams *left,
									const IbltParams *right);

/*
 * The mask of one subtable, which is counted from 1.  ERROR, with a hint, if
 * the sketch does not have it.
 */
extern unsigned iblt_params_subtable(const IbltParams *params, int number);

/* The hashes of a mask of subtables, counted from 1, as integer[]. */
extern Datum iblt_params_subtables(unsigned mask);

/*
 * key.c: keys as SQL values, and as the bytes that a sketch keeps
 *
 * smallint, integer and bigint are one kind of key, and uuid is another.  Any
 * other type, or row of types, is kept as its canonical bytes (codec/codec.h),
 * padded with zeros to the sketch's key size.
 */

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

/* decode.c: a sketch decoded key by key, and the verdict on the result */

/* A decoding in progress. */
typedef struct IbltDecoding
{
	IbltSketch	original;		/* as given, not changed */
	IbltSketch	work;			/* the copy that is peeled */
	IbltPeeler *peeler;
} IbltDecoding;

/* How a decoding ended, and how large the difference is. */
typedef struct IbltVerdict
{
	bool		complete;
	uint32		recovered;		/* keys */
	uint64		rows;			/* estimate of those that differ */
	uint64		keys;			/* estimate of those that differ */
	uint64		bound;			/* bound of the keys, with 99 % certainty */
	uint32		capacity;		/* of the sketch, or 0 if it has none */
	uint64		recommended;	/* capacity to use */
} IbltVerdict;

/*
 * Begins to decode decoding->original, which is open, in a copy.
 * iblt_core_peel_next gives the keys.
 */
extern void iblt_decoding_start(IbltDecoding *decoding);

/*
 * Judges a decoding after its last key.  ERROR if header and cells contradict
 * each other.
 */
extern void iblt_decoding_finish(IbltDecoding *decoding, IbltVerdict *verdict);

/*
 * Decodes an open sketch into the result of a function that returns the rows of
 * iblt_decode.  If key_type is InvalidOid, keys and values are shown as text.
 * ERROR if header and cells contradict each other.
 */
extern void iblt_decode_into(FunctionCallInfo fcinfo, const IbltSketch *sketch,
							 Oid key_type, Oid value_type,
							 IbltVerdict *verdict);

/*
 * A number of rows as bigint, or the largest bigint.  A sketch that is added to
 * itself again and again can exceed it.
 */
extern Datum iblt_rows_datum(uint64 rows);

/* kept.c */

/* Drops what the role keeps in this session under a name; false if there is nothing. */
extern bool iblt_kept_drop(const char *name);

#endif							/* IBLT_H */
