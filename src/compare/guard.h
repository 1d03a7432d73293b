/*-------------------------------------------------------------------------
 *
 * guard.h
 *	  Keeps comparisons from running code of other roles.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_GUARD_H
#define IBLT_GUARD_H

/* Once, when a session loads the library. */
extern void iblt_guard_register(void);

/* From now on, code of other roles is refused, as iblt_guard says. */
extern void iblt_guard_begin(void);

/* The same, and says that statements read tables only, or views and foreign tables, too. */
extern void iblt_guard_read(bool views);

/*
 * From here to iblt_guard_shut, functions of all roles may run, for what a
 * repair writes.  An error shuts it, too.  ERROR while a statement reads.
 */
extern int	iblt_guard_open(void);
extern void iblt_guard_shut(int level);

#endif
