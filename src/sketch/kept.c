/*
 * kept.c
 *	  Sketches that a session keeps under a name.
 *
 * A kept sketch lives until it is dropped or replaced, or the session ends.
 * It does not belong to a transaction.  Temporary tables cannot take its
 * place, because a hot standby does not have them.  Large sketches should not
 * be sent to the client.
 *
 * A sketch belongs to the role that has kept it.  It has the keys of rows that
 * the session's next role may not be allowed to read.
 *
 * A comparison puts a tab and something of its own behind a name.  One sketch is
 * kept under what is before the tab, and found under the whole name only.  Behind a
 * pooler that shares sessions, a comparison does not find another one's.
 */
#include "sketch/iblt.h"

#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

/* One kept sketch, in a memory context of its own. */
typedef struct Kept
{
	MemoryContext context;
	char	   *name;
	Oid			role;
	struct varlena *value;
} Kept;

static List *kept_list = NIL;

/*
 * The sketch that the current role keeps under a name, or NULL.  Of the name of
 * a comparison, the part before the tab counts.
 */
static Kept *
kept_find(const char *name)
{
	size_t		length = strcspn(name, "\t");
	ListCell   *lc;

	foreach(lc, kept_list)
	{
		Kept	   *kept = lfirst(lc);

		if (kept->role == GetUserId() &&
			strcspn(kept->name, "\t") == length &&
			strncmp(kept->name, name, length) == 0)
			return kept;
	}
	return NULL;
}

static void
kept_drop(Kept *kept)
{
	kept_list = list_delete_ptr(kept_list, kept);
	MemoryContextDelete(kept->context);
}

bool
iblt_kept_drop(const char *name)
{
	Kept	   *kept = kept_find(name);

	if (kept != NULL)
		kept_drop(kept);
	return kept != NULL;
}

/* The name, which is the first argument. */
static char *
name_arg(FunctionCallInfo fcinfo)
{
	iblt_require_arg(fcinfo, 0, "name of a kept sketch", NULL);
	return text_to_cstring(PG_GETARG_TEXT_PP(0));
}

/* Keeps a copy of the second argument, which is opened, under the name. */
static void
keep(FunctionCallInfo fcinfo, IbltSketch *sketch)
{
	char	   *name = name_arg(fcinfo);
	Kept	   *before = kept_find(name);
	Kept	   *kept;
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "iblt sketch",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old;

	iblt_value_open_arg(&iblt_type, sketch, fcinfo, 1);
	old = MemoryContextSwitchTo(context);
	kept = palloc(sizeof(Kept));
	kept->context = context;
	kept->name = pstrdup(name);
	kept->role = GetUserId();
	/* an error up to here leaves what was kept before */
	kept->value = iblt_value_copy(sketch->bytes, sketch->size);
	if (before != NULL)
		kept_drop(before);
	MemoryContextSwitchTo(TopMemoryContext);
	kept_list = lappend(kept_list, kept);
	MemoryContextSetParent(context, TopMemoryContext);
	MemoryContextSwitchTo(old);
}

PG_FUNCTION_INFO_V1(iblt_session_keep);

/* iblt_session_keep(name, iblt) -> iblt: keeps a copy, and returns the sketch */
Datum
iblt_session_keep(PG_FUNCTION_ARGS)
{
	IbltSketch	sketch;

	keep(fcinfo, &sketch);
	PG_RETURN_DATUM(PG_GETARG_DATUM(1));
}

PG_FUNCTION_INFO_V1(iblt_compare_keep);

/*
 * iblt_compare_keep(name, iblt) -> iblt: keeps a copy, and returns a small fold.
 * The fold carries the meter.  Its subtables have eight cells: most sizes of larger ones are
 * multiples of that.
 */
Datum
iblt_compare_keep(PG_FUNCTION_ARGS)
{
	IbltSketch	sketch;
	IbltSketch	fold;

	keep(fcinfo, &sketch);
	PG_RETURN_POINTER(iblt_make_fold(&fold, &sketch, iblt_params_fold_cells(&sketch.params, 9, 0.1),
									 sketch.params.subtables));
}

PG_FUNCTION_INFO_V1(iblt_session_get);

/* iblt_session_get(name) -> iblt: a copy, because the kept one may be replaced */
Datum
iblt_session_get(PG_FUNCTION_ARGS)
{
	char	   *name = name_arg(fcinfo);
	Kept	   *kept = kept_find(name);

	if (kept == NULL || strcmp(kept->name, name) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("kept sketch \"%.*s\" does not exist in this session",
						(int) strcspn(name, "\t"), name),
				 errhint("Call iblt_session_keep in the same session first. Behind a connection pooler the next query may run in another session.")));
	PG_RETURN_POINTER(iblt_value_copy(VARDATA(kept->value), VARSIZE(kept->value) - VARHDRSZ));
}

/* iblt_session_drop(name) -> boolean: did the sketch exist? */
IBLT_FUNCTION(iblt_session_drop, BoolGetDatum(iblt_kept_drop(name_arg(fcinfo))))
