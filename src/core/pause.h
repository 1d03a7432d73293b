/*
 * pause.h
 *		Lets the caller of long loops decide whether they go on.
 *
 * The loops over all cells of a sketch, which can have 2^27, call
 * iblt_core_pause, if it is set, at every IBLT_PAUSE_CELLS-th cell.  It may
 * leave by longjmp.  The core has no resources to free, and what it was
 * working on must not be used after that.
 */
#ifndef IBLT_CORE_PAUSE_H
#define IBLT_CORE_PAUSE_H

#include <stddef.h>
#include <stdint.h>

/* Some milliseconds in the slowest loop. */
#define IBLT_PAUSE_CELLS	4096

extern void (*iblt_core_pause) (void);

static inline void
iblt_pause(void)
{
	if (iblt_core_pause != NULL)
		iblt_core_pause();
}

/* In a loop over cells, with the number of the cell. */
static inline void
iblt_pause_at(uint32_t i)
{
	if (i % IBLT_PAUSE_CELLS == 0)
		iblt_pause();
}

/* memset(bytes, 0, size), with pauses. */
extern void iblt_core_clear(uint8_t *bytes, size_t size);

#endif
