/*
 * interrupt.h
 *		Lets the caller of long loops decide whether they go on.
 *
 * The loops over all cells of a sketch, which can have 2^27, call
 * iblt_core_check_interrupts, if it is set, at every IBLT_INTERRUPT_CELLS-th cell.  It may
 * leave by longjmp.  The core has no resources to free, and what it was
 * working on must not be used after that.
 */
#ifndef IBLT_CORE_INTERRUPT_H
#define IBLT_CORE_INTERRUPT_H

#include <stddef.h>
#include <stdint.h>

/* Some milliseconds in the slowest loop. */
#define IBLT_INTERRUPT_CELLS	4096

extern void (*iblt_core_check_interrupts) (void);

static inline void
iblt_check_interrupts(void)
{
	if (iblt_core_check_interrupts != NULL)
		iblt_core_check_interrupts();
}

/* In a loop over cells, with the number of the cell. */
static inline void
iblt_check_interrupts_at(uint32_t i)
{
	if (i % IBLT_INTERRUPT_CELLS == 0)
		iblt_check_interrupts();
}

/* memset(bytes, 0, size), which can be interrupted. */
extern void iblt_core_clear(uint8_t *bytes, size_t size);

#endif
