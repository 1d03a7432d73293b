/*
 * value.h
 *	  What types whose values are validated bytes have in common: memory, the
 *	  functions through which values come in, and the refusal of bad values.
 */
#ifndef IBLT_SKETCH_VALUE_H
#define IBLT_SKETCH_VALUE_H

#include "postgres.h"

#include "access/tupdesc.h"
#include "nodes/pg_list.h"
#include "utils/tuplestore.h"

#include "codec/codec.h"
#include "codec/version.h"
#include "core/kbf.h"

/* One such type. */
typedef struct IbltValueType
{
	const char *name;
	const char *aggregate;		/* that makes its values, and never returns
								 * NULL */
	const char *null_detail;	/* why NULL is not a value */
	/* the one validator: opens a view of bytes, which it only reads */
	IbltStatus	(*open) (void *view, uint8 *bytes, size_t size);
} IbltValueType;

/* A view of a value of any type. */
typedef union IbltAnyView
{
	IbltSketch	sketch;
	IbltKbf		kbf;
} IbltAnyView;

/*
 * Opens a view of a datum of the type, detoasted if needed.  ERROR if the value
 * is not valid.  The view is valid as long as the datum is.
 */
extern void iblt_value_open(const IbltValueType *type, void *view, Datum value);

/* The same for argument n of a function.  NULL is an ERROR as well. */
extern void iblt_value_open_arg(const IbltValueType *type, void *view,
								FunctionCallInfo fcinfo, int n);

/*
 * A value of which a few bytes are read.  One that TOAST keeps out of line and not
 * compressed is in chunks of some 2,000 bytes, which have an index.  A slice of it
 * costs the look-up of one or two chunks, whatever the size of the value.  Any
 * other value is taken as a whole, and so is one of few chunks, for which slices
 * would cost more.  Nothing here validates the bytes.
 */
typedef struct IbltSlices
{
	Datum		value;			/* as given */
	size_t		size;			/* bytes of the value, without varlena header */
	uint8	   *whole;			/* all of them, or NULL if slices are fetched */
} IbltSlices;

/*
 * Begins to read a datum, and returns its first bytes, with its whole header as far
 * as it is there, and their number.  header_size tells the header's size from its first
 * bytes.  Slices are valid as long as the datum and CurrentMemoryContext are.
 */
extern uint8 *iblt_slices_open(IbltSlices *slices, Datum value,
							   size_t (*header_size) (const uint8 *bytes), size_t *size);

/*
 * The bytes [from, to) of the value, to be read only, of any alignment.  ERROR if they are
 * not there.
 */
extern uint8 *iblt_slices_get(const IbltSlices *slices, size_t from, size_t to);

/* Allocates a varlena for a value of this many bytes. */
extern struct varlena *iblt_value_alloc(size_t size);

/* ERROR for bytes, or parameters, that the core refuses.  IBLT_OK passes. */
extern void iblt_value_check(const IbltValueType *type, IbltStatus status);

/* ERROR for an argument out of range: a number, or a probability. */
extern void iblt_check_range(const char *name, int value, int least, int most);
extern void iblt_check_failure(const char *name, double failure, double least, double most);

/*
 * Argument n of a function, which has this name.  ERROR, with the hint if there
 * is one, if it is NULL.
 */
extern Datum iblt_require_arg(FunctionCallInfo fcinfo, int n, const char *name,
							  const char *hint);

/* The hint for an argument that has a default. */
#define IBLT_HAS_DEFAULT	"Leave it out to get its default."

/* Copies a value's bytes into a new varlena. */
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

/* An array of n values of a type.  Without nulls, none of them is null. */
extern Datum iblt_array_make(Datum *values, bool *nulls, int n, Oid type);

/* The elements of an array.  Returns their number, which is 0 for 0. */
extern int	iblt_array_take(Datum array, Datum **values, bool **nulls);

/* A list of OIDs as oid[]. */
extern Datum iblt_value_oids(const List *list);

/*
 * Begins the result of a function that returns all its rows at once.  Without
 * a description, the columns are those that the function declares.
 */
extern Tuplestorestate *iblt_value_rows(FunctionCallInfo fcinfo, TupleDesc desc);

/* A row that is filled column by column.  It begins as all zero. */
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

/* The row that a function with OUT parameters returns. */
extern Datum iblt_value_row(FunctionCallInfo fcinfo, IbltRow *row);

#endif							/* IBLT_SKETCH_VALUE_H */
