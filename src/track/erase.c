/*-------------------------------------------------------------------------
 *
 * erase.c
 *	  Deletes many rows of a store, for a fold.
 *
 * heap_delete takes more than half of the time of a fold, because it pins and
 * locks the page and writes a record of WAL for each row.  So it deletes only
 * the first row of a page here.  It does all that a page and a transaction
 * need: a transaction ID, the oldest multixact that the transaction may be a
 * member of, and the page's bit in the visibility map.  The other rows of the
 * page get the same header at once, with one generic record of WAL, which has
 * the bytes that have changed.
 *
 * That is heap_delete without the steps that do nothing here:
 *
 * - Nobody else deletes or locks these rows.  Only folds and others who hold
 *	 the fold lock delete rows of a relation, and users cannot lock rows of a
 *	 materialized view.  A row with any trace of that is left to heap_delete.
 * - VACUUM cannot move or remove a row that a registered snapshot sees.  It
 *	 cannot set the page's bit in the visibility map again, because the first
 *	 row has a deleter that has not ended.
 * - A row that this transaction inserted needs a combined command ID, and one
 *	 with values out of line has more to delete.  Both are left to heap_delete.
 * - Hint bits that only one server has set may differ between the pages of a
 *	 primary and a standby, as always.  wal_consistency_checking does not know
 *	 that of generic records.
 * - Serializable transactions do not fold, stores are not in the catalog, and
 *	 what is decoded logically has none of their rows.
 *
 *-------------------------------------------------------------------------
 */
#include "track/erase.h"

#include "access/generic_xlog.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"

/*
 * To compare all bytes of a page for a generic record takes as long as
 * heap_delete of about twenty rows.
 */
#define MANY_ROWS		20

/* The row's header if it can be changed here, or NULL. */
static HeapTupleHeader
plain_row(Page page, const ItemPointerData *row)
{
	OffsetNumber number = ItemPointerGetOffsetNumber(row);
	HeapTupleHeader header;
	ItemId		id;

	if (number > PageGetMaxOffsetNumber(page))
		return NULL;
	id = PageGetItemId(page, number);
	if (!ItemIdIsNormal(id))
		return NULL;
	header = (HeapTupleHeader) PageGetItem(page, id);
	if ((header->t_infomask & HEAP_XMAX_INVALID) == 0 ||
		(header->t_infomask & (HEAP_HASEXTERNAL | HEAP_MOVED)) != 0 ||
		TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(header)))
		return NULL;
	return header;
}

/* Marks a row as heap_delete does. */
static void
mark_deleted(HeapTupleHeader header, const ItemPointerData *row,
			 TransactionId xid, CommandId cid)
{
	header->t_infomask &= ~HEAP_XMAX_BITS;
	header->t_infomask2 |= HEAP_KEYS_UPDATED;
	HeapTupleHeaderClearHotUpdated(header);
	HeapTupleHeaderSetXmax(header, xid);
	HeapTupleHeaderSetCmax(header, cid, false);
	header->t_ctid = *row;
}

/*
 * Deletes rows of one page, another row of which this command has deleted.
 * Those that it leaves to heap_delete come to the front.  Returns their number.
 */
static int
delete_plain(Relation store, ItemPointerData *rows, int n)
{
	Buffer		buffer = ReadBuffer(store, ItemPointerGetBlockNumber(rows));
	TransactionId xid = GetCurrentTransactionId();
	CommandId	cid = GetCurrentCommandId(true);
	GenericXLogState *state;
	Page		page;
	int			left = 0;

	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	state = GenericXLogStart(store);
	page = GenericXLogRegisterBuffer(state, buffer, 0);
	for (int i = 0; i < n; i++)
	{
		HeapTupleHeader header = PageIsAllVisible(page) ? NULL
			: plain_row(page, &rows[i]);

		if (header == NULL)
		{
			rows[left++] = rows[i];
			continue;
		}
		mark_deleted(header, &rows[i], xid, cid);
		pgstat_count_heap_delete(store);
	}
	PageSetPrunable(page, xid);
	GenericXLogFinish(state);
	UnlockReleaseBuffer(buffer);
	return left;
}

/* How many of the rows, from the first one on, are in the same page? */
static int
same_page(const ItemPointerData *rows, int n)
{
	int			same = 1;

	while (same < n && ItemPointerGetBlockNumber(&rows[same]) ==
		   ItemPointerGetBlockNumber(rows))
		same++;
	return same;
}

void
iblt_erase(Relation store, ItemPointerData *rows, int n)
{
	while (n > 0)
	{
		int			same = same_page(rows, n);
		int			left = same - 1;

		CHECK_FOR_INTERRUPTS();
		simple_heap_delete(store, rows);
		if (left >= MANY_ROWS)
			left = delete_plain(store, rows + 1, left);
		for (int i = 1; i <= left; i++)
			simple_heap_delete(store, &rows[i]);
		rows += same;
		n -= same;
	}
}
