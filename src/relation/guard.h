/*
 * guard.h
 *	  Keeps comparisons from running code of other roles.
 */
#ifndef IBLT_GUARD_H
#define IBLT_GUARD_H

/* Once, when a session loads the library. */
extern void iblt_guard_register(void);

/* From now on, code of other roles is refused, as iblt_guard says. */
extern void iblt_guard_begin(void);

/*
 * The same, and says that statements read tables only, or foreign tables and
 * iblt_guard_allow's views, too.  Until the calling function ends, if that has a SET
 * clause.
 */
extern void iblt_guard_read(bool views);
extern void iblt_guard_allow(Oid view);

/* Does this role trust what another role owns? */
extern bool iblt_guard_trusts(Oid owner);

/*
 * From now on, functions of all roles may run, for what a repair writes.
 * AtEOXact_GUC(true, result) ends it, and so does an error.  ERROR while a
 * statement reads.
 */
extern int	iblt_guard_open(void);

#endif
