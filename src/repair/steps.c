/*
 * steps.c
 *	  Arrays that a repair keeps in a temporary file until its transaction ends.
 *
 * A repair orders its steps before it runs any, so it needs all of them.  In
 * PL/pgSQL all of them would be one array, which each function copies.  So the
 * steps of a batch of keys are one array in a file, and the functions have its
 * number.  So are the parts of a long value.
 *
 * A list is not rolled back with a subtransaction.  A name begins with random
 * characters, so that only the repair knows it.
 */
#include "postgres.h"

#include "executor/spi.h"
#include "lib/ilist.h"
#include "storage/buffile.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "relation/relation.h"

/* Where an array is in the file. */
typedef struct Place
{
	int			fileno;
	off_t		offset;
	Size		size;			/* 0: there is none */
} Place;

typedef struct Arrays
{
	dlist_node	node;
	MemoryContext context;
	MemoryContextCallback callback;
	char	   *name;
	Oid			element_type;
	BufFile    *file;
	Place		end;			/* of the file */
	Place	   *places;
	int			n;				/* places */
} Arrays;

/* All of them. */
static dlist_head lists = DLIST_STATIC_INIT(lists);

static Arrays *
find(const char *name)
{
	dlist_iter	iter;

	dlist_foreach(iter, &lists)
	{
		Arrays	   *arrays = dlist_container(Arrays, node, iter.cur);

		if (strcmp(arrays->name, name) == 0)
			return arrays;
	}
	return NULL;
}

/* Called when the memory of a list is about to be freed. */
static void
forget(void *arg)
{
	Arrays	   *arrays = arg;

	dlist_delete(&arrays->node);
	BufFileClose(arrays->file);
}

/*
 * The file outlives subtransactions.  No resource owner has it, because the end
 * of the transaction would warn of it before the memory is freed.
 */
static Arrays *
add(const char *name, Oid element_type)
{
	MemoryContext context = AllocSetContextCreate(TopTransactionContext, "iblt steps",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	ResourceOwner owner = CurrentResourceOwner;
	Arrays	   *arrays = palloc0(sizeof(Arrays));

	arrays->context = context;
	arrays->name = pstrdup(name);
	arrays->element_type = element_type;
	CurrentResourceOwner = TopTransactionResourceOwner;
	arrays->file = BufFileCreateTemp(true);
	CurrentResourceOwner = owner;
	MemoryContextSwitchTo(old);
	dlist_push_head(&lists, &arrays->node);
	arrays->callback.func = forget;
	arrays->callback.arg = arrays;
	MemoryContextRegisterResetCallback(context, &arrays->callback);
	return arrays;
}

static void
seek(Arrays *arrays, const Place *place)
{
	if (BufFileSeek(arrays->file, place->fileno, place->offset, SEEK_SET) != 0)
		ereport(ERROR, (errcode_for_file_access(),
						errmsg("could not seek in a temporary file")));
}

PG_FUNCTION_INFO_V1(iblt_repair_put);

/* iblt_repair_put(list, n, anyarray) -> integer */
Datum
iblt_repair_put(PG_FUNCTION_ARGS)
{
	char	   *name;
	ArrayType  *array;
	Arrays	   *arrays;
	Place	   *place;
	int32		n;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(2))
		PG_RETURN_NULL();
	name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	array = PG_GETARG_ARRAYTYPE_P(2);
	arrays = find(name);
	if (arrays == NULL)
		arrays = add(name, ARR_ELEMTYPE(array));
	if (arrays->element_type != ARR_ELEMTYPE(array))
		ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
						errmsg("the arrays of a list have one type")));
	n = PG_ARGISNULL(1) ? arrays->n + 1 : PG_GETARG_INT32(1);
	if (n < 1 || (Size) n > MaxAllocSize / sizeof(Place))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("a list of arrays has no place %d", n)));
	if (n > arrays->n)
	{
		Size		size = n * sizeof(Place);

		arrays->places = arrays->places == NULL ? MemoryContextAlloc(arrays->context, size)
			: repalloc(arrays->places, size);
		memset(&arrays->places[arrays->n], 0, (n - arrays->n) * sizeof(Place));
		arrays->n = n;
	}
	place = &arrays->places[n - 1];
	seek(arrays, &arrays->end);
	BufFileWrite(arrays->file, array, VARSIZE(array));
	*place = arrays->end;
	place->size = VARSIZE(array);
	BufFileTell(arrays->file, &arrays->end.fileno, &arrays->end.offset);
	PG_RETURN_INT32(n);
}

PG_FUNCTION_INFO_V1(iblt_repair_get);

/* iblt_repair_get(list, n, anyarray) -> anyarray, an error if it is not there */
Datum
iblt_repair_get(PG_FUNCTION_ARGS)
{
	Arrays	   *arrays = PG_ARGISNULL(0) ? NULL : find(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	int32		n = PG_ARGISNULL(1) ? 0 : PG_GETARG_INT32(1);
	Place	   *place;
	ArrayType  *array;

	if (arrays == NULL || n < 1 || n > arrays->n || arrays->places[n - 1].size == 0 ||
		arrays->element_type != get_element_type(get_fn_expr_argtype(fcinfo->flinfo, 2)))
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
						errmsg("an array of the repair is not kept in this transaction")));
	place = &arrays->places[n - 1];
	array = palloc(place->size);
	seek(arrays, place);
	if (BufFileRead(arrays->file, array, place->size) != place->size)
		ereport(ERROR, (errcode_for_file_access(),
						errmsg("could not read from a temporary file")));
	PG_RETURN_ARRAYTYPE_P(array);
}

PG_FUNCTION_INFO_V1(iblt_repair_drop);

/* iblt_repair_drop(list): with those whose names go on with a slash */
Datum
iblt_repair_drop(PG_FUNCTION_ARGS)
{
	char	   *name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &lists)
	{
		Arrays	   *arrays = dlist_container(Arrays, node, iter.cur);

		if (strcspn(arrays->name, "/") == strlen(name) &&
			strncmp(arrays->name, name, strlen(name)) == 0)
			MemoryContextDelete(arrays->context);
	}
	PG_RETURN_VOID();
}

/* The statement under way, which has rows, is in the context of a lock wait or a trigger's message. */
static void
hide_context(void *arg)
{
	(void) arg;
	errhidecontext(true);
}

PG_FUNCTION_INFO_V1(iblt_repair_execute);

/*
 * iblt_repair_execute(statement) -> bigint: executes a statement, and returns how many rows
 * it changed.  Triggers, defaults and checks run as for any other statement, but the log does
 * not show the context of their messages.
 */
Datum
iblt_repair_execute(PG_FUNCTION_ARGS)
{
	ErrorContextCallback hidden = {.previous = error_context_stack,.callback = hide_context};
	int			guard;
	int			result;
	int64		changed;

	if (PG_ARGISNULL(0))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						errmsg("there is no statement to execute")));
	SPI_connect();
	guard = iblt_guard_open();
	error_context_stack = &hidden;
	result = SPI_execute(text_to_cstring(PG_GETARG_TEXT_PP(0)), false, 0);
	error_context_stack = hidden.previous;
	AtEOXact_GUC(true, guard);
	if (result < 0)
		elog(ERROR, "SPI_execute failed: %s", SPI_result_code_string(result));
	changed = SPI_processed;
	SPI_finish();
	PG_RETURN_INT64(changed);
}
