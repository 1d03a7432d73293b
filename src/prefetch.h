/*-------------------------------------------------------------------------
 *
 * prefetch.h
 *	  Fetches the tuples that a scan will read next.
 *
 * A heap page is filled from its end, so a scan reads tuples at descending
 * addresses, one after the other.  If the addresses of a column move in small
 * steps, memory a little further on is fetched in advance.  A wrong guess
 * fetches memory that is not needed, and never faults.
 *
 * Measured on an AMD EPYC with the table in shared buffers: 5 to 9 % of a
 * digest.  There is no gain if the pages have just been copied from the
 * operating system.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_PREFETCH_H
#define IBLT_PREFETCH_H

/* How far ahead, in bytes: some eight tuples of 150 bytes. */
#define IBLT_PREFETCH_AHEAD		1280

/* Steps that tuples on one page can make.  Longer ones go to another page. */
#define IBLT_PREFETCH_MAX_STEP	1024

#define IBLT_CACHE_LINE			64

/* The address of a column in the last row. */
typedef struct IbltTrail
{
	uintptr_t	last;
} IbltTrail;

/* Fetches as much memory as the last step was long, further ahead. */
static inline void
iblt_prefetch_next(IbltTrail *trail, Datum column)
{
	uintptr_t	here = (uintptr_t) DatumGetPointer(column);
	uintptr_t	step = trail->last - here;

	trail->last = here;
	if (step - 1 < IBLT_PREFETCH_MAX_STEP)
	{
		for (uintptr_t done = 0; done < step; done += IBLT_CACHE_LINE)
			__builtin_prefetch((void *) (here - IBLT_PREFETCH_AHEAD - done));
	}
}

#endif							/* IBLT_PREFETCH_H */
