/*
 * interrupt.c
 *		Lets the caller of long loops decide whether they go on.
 */
#include <string.h>

#include "interrupt.h"

/* Bytes at a time: at most those of the smallest cells between two checks. */
#define CLEAR_BYTES		((size_t) 16 * IBLT_INTERRUPT_CELLS)

void		(*iblt_core_check_interrupts) (void) = NULL;

void
iblt_core_clear(uint8_t *bytes, size_t size)
{
	size_t		done;

	for (done = 0; done < size; done += CLEAR_BYTES)
	{
		iblt_check_interrupts();
		memset(bytes + done, 0,
			   size - done < CLEAR_BYTES ? size - done : CLEAR_BYTES);
	}
}
