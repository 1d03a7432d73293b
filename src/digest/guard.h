/*-------------------------------------------------------------------------
 *
 * guard.h
 *	  Runs what may fail without failing the user's statement.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_DIGEST_GUARD_H
#define IBLT_DIGEST_GUARD_H

#include "postgres.h"

/*
 * Calls a function in a subtransaction.  Returns false, with everything undone
 * that a subtransaction undoes, if it raised an error.  A cancelled statement
 * or an ending session still is an error.
 */
extern bool iblt_guard(void (*function) (void *arg), void *arg);

#endif							/* IBLT_DIGEST_GUARD_H */
