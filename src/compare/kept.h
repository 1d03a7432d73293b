/*-------------------------------------------------------------------------
 *
 * kept.h
 *	  Sketches that a session keeps under a name.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_COMPARE_KEPT_H
#define IBLT_COMPARE_KEPT_H

#include "iblt.h"

/*
 * The kept sketch that the function's first argument names.  It stays with the
 * session.  ERROR if it does not exist.
 */
extern struct varlena *iblt_kept_arg(FunctionCallInfo fcinfo);

#endif							/* IBLT_COMPARE_KEPT_H */
