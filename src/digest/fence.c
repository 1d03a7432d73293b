/*-------------------------------------------------------------------------
 *
 * fence.c
 *	  A row that makes a digest not trustworthy, unless the transaction that
 *	  wrote it removes it again.
 *
 *-------------------------------------------------------------------------
 */
#include "digest/fence.h"

#include "utils/builtins.h"

#include "digest/store.h"

void
iblt_fence_put(IbltFence *fence, Oid store, Oid relid)
{
	Datum		reason = CStringGetTextDatum("changes of a transaction were lost");

	fence->row = iblt_store_insert_change(store, relid, IBLT_CHANGES_FENCE, 0,
										  reason, (Datum) 0);
	if (ItemPointerIsValid(&fence->row))
		fence->file = iblt_store_file(store);
	pfree(DatumGetPointer(reason));
}

void
iblt_fence_remove(IbltFence *fence, Oid store)
{
	if (OidIsValid(fence->file) && iblt_store_file(store) == fence->file)
		iblt_store_take_back(store, &fence->row);
	fence->file = InvalidOid;
}
