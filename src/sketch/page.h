/*
 * page.h
 *	  The rows of a heap page, taken by an aggregate without the executor.
 */
#ifndef IBLT_SKETCH_PAGE_H
#define IBLT_SKETCH_PAGE_H

#include "postgres.h"

#include "fmgr.h"

/* What a call site of a transition function knows of the scan below it. */
typedef struct IbltPage IbltPage;

/* A row that was taken. */
typedef struct IbltPageRow
{
	const NullableDatum *key;	/* a value, or the columns of a row */
	bool		key_is_row;
	const NullableDatum *checksum;
} IbltPageRow;

/*
 * For calls of a transition function (state, key, checksum, ...), in fn_mcxt.  NULL if only
 * the executor can give it rows.
 */
extern IbltPage *iblt_page_make(FunctionCallInfo fcinfo);

/* The executor has given a row, and others can perhaps be taken from its page. */
extern void iblt_page_begin(IbltPage *page);

/* Takes the next row.  NULL if the executor is to go on, and always if page is NULL. */
extern const IbltPageRow *iblt_page_next(IbltPage *page);

#endif							/* IBLT_SKETCH_PAGE_H */
