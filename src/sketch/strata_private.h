/*-------------------------------------------------------------------------
 *
 * strata_private.h
 *	  What strata*.c share: values of type iblt_strata.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_SKETCH_STRATA_PRIVATE_H
#define IBLT_SKETCH_STRATA_PRIVATE_H

#include "sketch/iblt.h"

#include "core/strata.h"

/* The defaults of iblt_strata_agg; iblt_strata_new has them in SQL. */
#define IBLT_DEFAULT_STRATA			32
#define IBLT_DEFAULT_STRATUM_CELLS	80

/*
 * Opens a view of a datum of type iblt_strata, detoasted if needed.  ERROR if
 * the value is not valid.  The view is valid as long as the datum is.
 */
extern void iblt_strata_open(IbltStrata *strata, Datum value);

/* The same for argument n of a function.  NULL is an ERROR as well. */
extern void iblt_strata_open_arg(IbltStrata *strata, FunctionCallInfo fcinfo,
								 int n);

/* ERROR if the core found counts out of range.  IBLT_OK passes. */
extern void iblt_strata_check_counts(IbltStatus status);

/* Creates an empty value in CurrentMemoryContext, and a view of it. */
extern struct varlena *iblt_strata_make(IbltStrata *strata,
										const IbltStrataParams *params);

/* The same without the view, and sealed. */
extern struct varlena *iblt_strata_make_empty(const IbltStrataParams *params);

/*
 * Copies an open estimator into CurrentMemoryContext, and opens a view of it.
 */
extern struct varlena *iblt_strata_copy(IbltStrata *copy,
										const IbltStrata *strata);

/* Makes parameters without a type of key.  Each is checked, with a hint. */
extern void iblt_strata_params_make(IbltStrataParams *params, int strata,
									int cells, int hashes, uint64 seed);

/* ERROR for parameters that the core refuses. */
extern void iblt_strata_check_params(const IbltStrataParams *params);

/* ERROR, naming both, unless estimators with these parameters can be added. */
extern void iblt_strata_check_match(const IbltStrataParams *left,
									const IbltStrataParams *right);

#endif							/* IBLT_SKETCH_STRATA_PRIVATE_H */
