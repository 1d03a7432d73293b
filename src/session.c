/*-------------------------------------------------------------------------
 *
 * session.c
 *	  What the live drivers need of C: sketches kept by a backend under a
 *	  name, a template with many sizes to fold to, errors that do not show the
 *	  statement which caused them, and messages that no log shows.
 *
 * A kept sketch lives until it is dropped or replaced, or the session ends.  It
 * is no part of any transaction, and exists because a hot standby has no
 * temporary tables and a large sketch is better not sent to the client.
 *
 *-------------------------------------------------------------------------
 */
#include "iblt.h"

#include "mb/pg_wchar.h"
#include "nodes/pg_list.h"
#include "pgstat.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "core/fold.h"
#include "core/sizing.h"

/* The hashes of the template, and the smallest of its subtables. */
#define TEMPLATE_HASHES		4
#define TEMPLATE_CELLS		630 /* 2 * 3^2 * 5 * 7: times 2^n it divides most */

/* One sketch that is kept. */
typedef struct Kept
{
	char	   *name;
	struct varlena *value;
} Kept;

/* All of them, in kept_context. */
static List *kept_list = NIL;
static MemoryContext kept_context = NULL;

static Kept *
kept_find(const char *name)
{
	ListCell   *lc;

	foreach(lc, kept_list)
	{
		Kept	   *kept = lfirst(lc);

		if (strcmp(kept->name, name) == 0)
			return kept;
	}
	return NULL;
}

/* The name in the first argument. */
static char *
name_arg(FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(0))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						errmsg("name of a kept sketch must not be null")));
	return text_to_cstring(PG_GETARG_TEXT_PP(0));
}

/* An entry of that name without a value. */
static Kept *
kept_add(const char *name)
{
	MemoryContext old;
	Kept	   *kept;

	if (kept_context == NULL)
		kept_context = AllocSetContextCreate(TopMemoryContext, "iblt sketches",
											 ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(kept_context);
	kept = palloc(sizeof(Kept));
	kept->name = pstrdup(name);
	kept->value = NULL;
	kept_list = lappend(kept_list, kept);
	MemoryContextSwitchTo(old);
	return kept;
}

/* A copy in kept_context.  Nobody else frees it if the query is cancelled. */
static struct varlena *
copy_to_keep(const IbltSketch *sketch)
{
	MemoryContext old = MemoryContextSwitchTo(kept_context);
	struct varlena *value = iblt_value_alloc(sketch->size);

	MemoryContextSwitchTo(old);
	PG_TRY();
	{
		iblt_value_copy_bytes(VARDATA(value), sketch->bytes, sketch->size);
	}
	PG_CATCH();
	{
		pfree(value);
		PG_RE_THROW();
	}
	PG_END_TRY();
	return value;
}

PG_FUNCTION_INFO_V1(iblt_session_keep);

/* iblt_session_keep(name, iblt) -> iblt: the sketch, of which a copy is kept */
Datum
iblt_session_keep(PG_FUNCTION_ARGS)
{
	char	   *name = name_arg(fcinfo);
	IbltSketch	sketch;
	Kept	   *kept;
	struct varlena *value;

	iblt_open_arg(&sketch, fcinfo, 1);
	kept = kept_find(name);
	if (kept == NULL)
		kept = kept_add(name);
	/* an error from here on leaves what was kept before */
	value = copy_to_keep(&sketch);
	if (kept->value != NULL)
		pfree(kept->value);
	kept->value = value;
	PG_RETURN_DATUM(PG_GETARG_DATUM(1));
}

/* The kept sketch of the first argument's name; ERROR if there is none. */
static Kept *
kept_arg(FunctionCallInfo fcinfo)
{
	char	   *name = name_arg(fcinfo);
	Kept	   *kept = kept_find(name);

	if (kept == NULL || kept->value == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("this session keeps no sketch named \"%s\"", name),
				 errhint("A sketch is kept by iblt_session_keep until the session ends. Behind a pooler that shares sessions, the next query may meet another one.")));
	return kept;
}

PG_FUNCTION_INFO_V1(iblt_session_get);

/* iblt_session_get(name) -> iblt */
Datum
iblt_session_get(PG_FUNCTION_ARGS)
{
	Kept	   *kept = kept_arg(fcinfo);
	struct varlena *copy;
	size_t		size;

	/* a copy: the kept one may be replaced while the result is in use */
	size = VARSIZE_ANY_EXHDR(kept->value);
	copy = iblt_value_alloc(size);
	iblt_value_copy_bytes(VARDATA(copy), VARDATA_ANY(kept->value), size);
	PG_RETURN_POINTER(copy);
}

/* Folds a sketch, if its subtables can have so many cells. */
static void
fold_to(IbltSketch *to, const IbltSketch *from, int32 subtable_cells)
{
	IbltParams	params = from->params;

	if (subtable_cells < 1 || params.subtable_cells % subtable_cells != 0 ||
		!iblt_core_ladder_has((uint32) subtable_cells))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("subtables of %u cells cannot be folded to %d",
						params.subtable_cells, subtable_cells)));
	params.subtable_cells = (uint32) subtable_cells;
	iblt_make(to, &params);
	iblt_core_fold(to, from);
}

PG_FUNCTION_INFO_V1(iblt_session_evens);

/*
 * iblt_session_evens(name, subtable_cells) -> iblt: the even cells of the kept
 * sketch folded to so many cells a subtable, for iblt_compare_refine.
 */
Datum
iblt_session_evens(PG_FUNCTION_ARGS)
{
	Kept	   *kept = kept_arg(fcinfo);
	IbltSketch	sketch;
	IbltSketch	folded;
	IbltSketch	evens;
	IbltParams	params;
	struct varlena *value;

	if (PG_ARGISNULL(1) || PG_GETARG_INT32(1) % 2 != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("subtable_cells must be an even number")));
	iblt_open(&sketch, PointerGetDatum(kept->value));
	fold_to(&folded, &sketch, PG_GETARG_INT32(1));
	params = folded.params;
	params.subtable_cells /= 2;
	value = iblt_make(&evens, &params);
	iblt_core_evens(&evens, &folded);
	iblt_core_seal(&evens);
	PG_RETURN_POINTER(value);
}

PG_FUNCTION_INFO_V1(iblt_compare_refine);

/* iblt_compare_refine(iblt, evens iblt) -> iblt: the sketch of twice the cells */
Datum
iblt_compare_refine(PG_FUNCTION_ARGS)
{
	IbltSketch	coarse;
	IbltSketch	evens;
	IbltSketch	fine;
	IbltParams	params;
	struct varlena *value;

	iblt_open_arg(&coarse, fcinfo, 0);
	iblt_open_arg(&evens, fcinfo, 1);
	iblt_params_check_match(&coarse.params, &evens.params);
	/* a template goes with a sketch, but has no cells to be read */
	if (coarse.params.kind != evens.params.kind)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a sketch and an empty template are no halves of one sketch")));
	params = coarse.params;
	params.subtable_cells *= 2;
	iblt_check_params(&params);
	value = iblt_make(&fine, &params);
	iblt_core_refine(&fine, &coarse, &evens);
	iblt_core_seal(&fine);
	PG_RETURN_POINTER(value);
}

PG_FUNCTION_INFO_V1(iblt_session_drop);

/* iblt_session_drop(name) -> boolean: was there one? */
Datum
iblt_session_drop(PG_FUNCTION_ARGS)
{
	char	   *name = name_arg(fcinfo);
	Kept	   *kept = kept_find(name);
	bool		found;

	if (kept == NULL)
		PG_RETURN_BOOL(false);
	kept_list = list_delete_ptr(kept_list, kept);
	found = kept->value != NULL;
	if (found)
		pfree(kept->value);
	pfree(kept->name);
	pfree(kept);
	PG_RETURN_BOOL(found);
}

PG_FUNCTION_INFO_V1(iblt_compare_template);

/*
 * iblt_compare_template(capacity, key_size, seed) -> iblt: an empty sketch of
 * at least that capacity whose subtables have as many divisors as there can
 * be, so that it can be folded to a size near any that is asked for.
 */
Datum
iblt_compare_template(PG_FUNCTION_ARGS)
{
	IbltSketch	sketch;
	IbltParams	params;
	struct varlena *value;
	int			i;
	uint32		cells = TEMPLATE_CELLS;

	for (i = 0; i < 3; i++)
		if (PG_ARGISNULL(i))
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("capacity, key_size and seed must not be null")));
	/* refuses what is out of range */
	iblt_params_make(&params, PG_GETARG_INT32(0), TEMPLATE_HASHES,
					 PG_GETARG_INT32(1), false, (uint64) PG_GETARG_INT64(2));
	while (cells < params.subtable_cells)
		cells *= 2;
	if (iblt_core_ladder_has(cells))
		params.subtable_cells = cells;
	value = iblt_make(&sketch, &params);
	iblt_core_seal(&sketch);
	PG_RETURN_POINTER(value);
}

PG_FUNCTION_INFO_V1(iblt_peer_raise);
PG_FUNCTION_INFO_V1(iblt_peer_show);
PG_FUNCTION_INFO_V1(iblt_repair_raise);

/* Argument n as a C string, or NULL. */
static char *
text_arg(FunctionCallInfo fcinfo, int n)
{
	if (PG_ARGISNULL(n))
		return NULL;
	return text_to_cstring(PG_GETARG_TEXT_PP(n));
}

static int
sqlstate_code(const char *sqlstate)
{
	if (sqlstate == NULL || strlen(sqlstate) != 5)
		return ERRCODE_INTERNAL_ERROR;
	return MAKE_SQLSTATE(sqlstate[0], sqlstate[1], sqlstate[2],
						 sqlstate[3], sqlstate[4]);
}

/*
 * iblt_peer_raise(sqlstate, message, detail, hint): an ERROR which the
 * server's log shows without the statement and its context.  The statement may
 * hold a connection string with a password.
 */
Datum
iblt_peer_raise(PG_FUNCTION_ARGS)
{
	char	   *sqlstate = text_arg(fcinfo, 0);
	char	   *message = text_arg(fcinfo, 1);
	char	   *detail = text_arg(fcinfo, 2);
	char	   *hint = text_arg(fcinfo, 3);

	ereport(ERROR,
			(errcode(sqlstate_code(sqlstate)),
			 errmsg_internal("%s", message == NULL ? "unknown error" : message),
			 detail == NULL || *detail == '\0' ? 0
			 : errdetail_internal("%s", detail),
			 hint == NULL || *hint == '\0' ? 0 : errhint("%s", hint),
			 errhidestmt(true), errhidecontext(true)));
	PG_RETURN_VOID();
}

/*
 * iblt_peer_show(label): until the message under way ends, the log and
 * pg_stat_activity show "iblt: label" as its statement.  The message itself may
 * hold rows of a table, and an error, a lock wait, a deadlock or the end of the
 * session would write all of it to the log.
 */
Datum
iblt_peer_show(PG_FUNCTION_ARGS)
{
	static const char prefix[] = "iblt: ";
	static char shown[1024];	/* outlives the message */
	text	   *label = PG_ARGISNULL(0) ? cstring_to_text("") : PG_GETARG_TEXT_PP(0);
	int			length = pg_mbcliplen(VARDATA_ANY(label), VARSIZE_ANY_EXHDR(label),
									  sizeof(shown) - sizeof(prefix));

	memcpy(shown, prefix, sizeof(prefix) - 1);
	memcpy(shown + sizeof(prefix) - 1, VARDATA_ANY(label), length);
	shown[sizeof(prefix) - 1 + length] = '\0';
	debug_query_string = shown;
	pgstat_report_activity(STATE_RUNNING, shown);
	PG_RETURN_VOID();
}

/* Those fields of the error under construction that are not empty. */
static int
error_fields(char **values)
{
	static const int codes[] = {PG_DIAG_SCHEMA_NAME, PG_DIAG_TABLE_NAME,
		PG_DIAG_COLUMN_NAME, PG_DIAG_DATATYPE_NAME, PG_DIAG_CONSTRAINT_NAME};

	for (int i = 0; i < (int) lengthof(codes); i++)
	{
		if (values[i] != NULL && *values[i] != '\0')
			err_generic_string(codes[i], values[i]);
	}
	return 0;
}

/*
 * iblt_repair_raise(sqlstate, message, detail, hint, schema, table, column,
 * datatype, constraint): raises an error that was caught, with another detail
 * and hint.
 */
Datum
iblt_repair_raise(PG_FUNCTION_ARGS)
{
	char	   *value[9];

	for (int i = 0; i < (int) lengthof(value); i++)
		value[i] = text_arg(fcinfo, i);
	ereport(ERROR,
			(errcode(sqlstate_code(value[0])),
			 errmsg_internal("%s", value[1] == NULL ? "unknown error" : value[1]),
			 value[2] == NULL || *value[2] == '\0' ? 0 : errdetail_internal("%s", value[2]),
			 value[3] == NULL || *value[3] == '\0' ? 0 : errhint("%s", value[3]),
			 error_fields(value + 4)));
	PG_RETURN_VOID();
}
