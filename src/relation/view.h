/*-------------------------------------------------------------------------
 *
 * view.h
 *	  May a view run code of other roles that guard.c does not see?
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_COMPARE_VIEW_H
#define IBLT_COMPARE_VIEW_H

#include "nodes/parsenodes.h"

/* Its query.  An owner that the role trusts may call volatile functions. */
extern bool iblt_view_runs_code(Query *query, bool own);

#endif							/* IBLT_COMPARE_VIEW_H */
