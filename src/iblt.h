/*-------------------------------------------------------------------------
 *
 * iblt.h
 *	  What the PostgreSQL side of iblt shares: values of type iblt as datums,
 *	  and the errors they give rise to.
 *
 * The algorithm is in src/core and knows nothing of PostgreSQL.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_H
#define IBLT_H

#include "postgres.h"

#include "fmgr.h"

#include "core/peel.h"
#include "value.h"

/* An incomplete decoding; class IB belongs to this extension. */
#define ERRCODE_IBLT_INCOMPLETE MAKE_SQLSTATE('I', 'B', '0', '0', '1')

/* What iblt_new and iblt_agg take when they are not told. */
#define IBLT_DEFAULT_CAPACITY	100
#define IBLT_DEFAULT_HASHES		4
#define IBLT_DEFAULT_KEY_SIZE	32

/* type.c */

/*
 * Opens a view on a datum of type iblt, detoasted if need be.  ERROR if the
 * value is not valid.  The view is good for as long as the datum is.
 */
extern void iblt_open(IbltSketch *sketch, Datum value);

/* The same for argument n of a function, where NULL is an ERROR as well. */
extern void iblt_open_arg(IbltSketch *sketch, FunctionCallInfo fcinfo, int n);

/* A new empty value in CurrentMemoryContext, and a view upon it. */
extern struct varlena *iblt_make(IbltSketch *sketch, const IbltParams *params);

/* A copy of an open sketch in CurrentMemoryContext, and a view upon it. */
extern struct varlena *iblt_copy(IbltSketch *copy, const IbltSketch *sketch);

/* ERROR for parameters that the core refuses; IBLT_OK passes. */
extern void iblt_check_params(const IbltParams *params);

/* ERROR for a row that the core cannot keep. */
extern void iblt_refuse_row(IbltStatus status);

/* ERROR for what the core says of counts when it adds; IBLT_OK passes. */
extern void iblt_check_counts(IbltStatus status);

/* ERROR for a sketch whose header and cells cannot both be right. */
extern void iblt_refuse_contradiction(void);

/* params.c */

/* Parameters of an untyped template; each is checked, with a hint. */
extern void iblt_params_make(IbltParams *params, int capacity, int hashes,
							 int key_size, bool with_values, uint64 seed);

/*
 * Cells of a subtable for a capacity and probability of failure; ERROR, with a
 * hint, if either is out of range.
 */
extern uint32 iblt_params_cells(int capacity, int hashes, double failure);

/* Capacity of a sketch at the default failure probability; 0 if none. */
extern uint32 iblt_params_capacity(const IbltParams *params);

/* The key's type for messages and iblt_info, or NULL when untyped. */
extern char *iblt_params_key_type(const IbltParams *params);

/* All parameters in one line, for messages. */
extern char *iblt_params_text(const IbltParams *params);

/*
 * ERROR, naming both, unless sketches with these parameters can be added.
 * An untyped one goes with any type of key.
 */
extern void iblt_params_check_match(const IbltParams *left,
									const IbltParams *right);

/*
 * The same for sketches that may be folded first: returns the cells that a
 * subtable of both is to have.
 */
extern uint32 iblt_params_match_folded(const IbltParams *left,
									   const IbltParams *right);

/* Takes kind of key, limbs and description from another. */
extern void iblt_params_set_key(IbltParams *params, const IbltParams *from);

#endif							/* IBLT_H */
