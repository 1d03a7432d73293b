/*-------------------------------------------------------------------------
 *
 * value.h
 *	  What types whose values are validated bytes have in common: memory, the
 *	  functions through which values come in, and the refusal of bad values.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_SKETCH_VALUE_H
#define IBLT_SKETCH_VALUE_H

#include "postgres.h"

#include "access/tupdesc.h"
#include "fmgr.h"
#include "nodes/pg_list.h"
#include "utils/tuplestore.h"

#include "codec/codec.h"
#include "codec/version.h"
#include "core/sketch.h"

/* One such type. */
typedef struct IbltValueType
{
	const char *name;
	const char *aggregate;		/* that makes its values, and never returns
								 * NULL */
	const char *null_detail;	/* why NULL is not a value */
	/* the one validator, which only reads */
	IbltStatus	(*validate) (const struct IbltValueType *type, uint8 *bytes,
							 size_t size);
} IbltValueType;

/* Allocates a varlena for a value of this many bytes. */
extern struct varlena *iblt_value_alloc(size_t size);

/* ERROR for bytes that are not a value of the type. */
extern void iblt_value_refuse(const IbltValueType *type, IbltStatus status);

/* ERROR for an argument out of range. */
extern void iblt_check_range(const char *name, int value, int least, int most);

/*
 * Argument n of a function, which has this name.  ERROR, with the hint if there
 * is one, if it is NULL.
 */
extern Datum iblt_require_arg(FunctionCallInfo fcinfo, int n, const char *name,
							  const char *hint);

/* The hint for an argument that has a default. */
#define IBLT_HAS_DEFAULT	"Leave it out to get its default."

/* Copies a value's bytes.  Can be cancelled. */
extern void iblt_value_copy_bytes(void *to, const void *from, size_t size);

/* The same into a new varlena. */
extern struct varlena *iblt_value_copy(const void *bytes, size_t size);

/* ERROR for NULL in place of a value. */
extern void iblt_value_refuse_null(const IbltValueType *type);

/* Argument n of a function.  NULL is an ERROR. */
extern Datum iblt_value_arg(FunctionCallInfo fcinfo, int n,
							const IbltValueType *type);

/* The type's input, output, receive function and cast from bytea. */
extern Datum iblt_value_in(FunctionCallInfo fcinfo, const IbltValueType *type);
extern Datum iblt_value_out(FunctionCallInfo fcinfo,
							const IbltValueType *type);
extern Datum iblt_value_recv(FunctionCallInfo fcinfo,
							 const IbltValueType *type);
extern Datum iblt_value_from_bytea(FunctionCallInfo fcinfo,
								   const IbltValueType *type);

/* The type's send function and cast to bytea, which give the same bytes. */
extern Datum iblt_value_bytes(FunctionCallInfo fcinfo);

/*
 * Defines all six for a type: NAME_in(cstring), NAME_out(NAME), NAME_recv(internal),
 * NAME_send(NAME), and the casts NAME_from_bytea(bytea) and NAME_to_bytea(NAME).
 */
#define IBLT_VALUE_FUNCTIONS(name, type) \
	IBLT_FUNCTION(name##_in, iblt_value_in(fcinfo, &(type))) \
	IBLT_FUNCTION(name##_out, iblt_value_out(fcinfo, &(type))) \
	IBLT_FUNCTION(name##_recv, iblt_value_recv(fcinfo, &(type))) \
	IBLT_FUNCTION(name##_send, iblt_value_bytes(fcinfo)) \
	IBLT_FUNCTION(name##_from_bytea, iblt_value_from_bytea(fcinfo, &(type))) \
	IBLT_FUNCTION(name##_to_bytea, iblt_value_bytes(fcinfo))

/* A list of OIDs as oid[]. */
extern Datum iblt_value_oids(const List *list);

/*
 * Begins the result of a function that returns all its rows at once.  Without
 * a description, the columns are those that the function declares.
 */
extern Tuplestorestate *iblt_value_rows(FunctionCallInfo fcinfo, TupleDesc desc);

/* The row that a function with OUT parameters returns. */
extern Datum iblt_value_row(FunctionCallInfo fcinfo, Datum *values,
							bool *nulls);

/* Such a row that is filled column by column.  It begins as all zero. */
typedef struct IbltRow
{
	int			columns;
	Datum		values[18];
	bool		nulls[18];
} IbltRow;

static inline void
iblt_column(IbltRow *row, Datum value, bool isnull)
{
	row->nulls[row->columns] = isnull;
	row->values[row->columns++] = value;
}

/* A column of type text.  NULL stands for NULL. */
extern void iblt_column_text(IbltRow *row, const char *text);

#endif							/* IBLT_SKETCH_VALUE_H */
