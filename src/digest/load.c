/*
 * load.c
 *	  What happens when a session loads the library.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "core/interrupt.h"
#include "digest/pending.h"
#include "relation/relation.h"

PG_MODULE_MAGIC;

/* Ends the query if it was cancelled. */
static void
process_interrupts(void)
{
	CHECK_FOR_INTERRUPTS();
}

extern PGDLLEXPORT void _PG_init(void);

/*
 * Lets the core's long loops, which do not depend on PostgreSQL, be cancelled,
 * changes of tracked tables be written when a transaction commits, and code of
 * other roles be refused where iblt.guard is on.
 */
void
_PG_init(void)
{
	/*
	 * glibc gives memory at the end of its heap back, and takes it again at
	 * once, until a large block has been freed.
	 */
	pfree(palloc(1024 * 1024));

	iblt_core_check_interrupts = process_interrupts;
	iblt_pending_register();
	iblt_guard_register();
}
