/*-------------------------------------------------------------------------
 *
 * guard.c
 *	  Runs what may fail without failing the user's statement.
 *
 *-------------------------------------------------------------------------
 */
#include "digest/guard.h"

#include "access/xact.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

/* Is it an error that no statement survives? */
static bool
must_raise(const ErrorData *error)
{
	return error->sqlerrcode == ERRCODE_QUERY_CANCELED ||
		ERRCODE_TO_CATEGORY(error->sqlerrcode) ==
		ERRCODE_OPERATOR_INTERVENTION;
}

bool
iblt_guard(void (*function) (void *arg), void *arg)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool passed = true;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		function(arg);
		ReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
		if (must_raise(error))
			ReThrowError(error);
		FreeErrorData(error);
		passed = false;
	}
	PG_END_TRY();
	return passed;
}
