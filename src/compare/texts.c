/*-------------------------------------------------------------------------
 *
 * texts.c
 *	  Large texts that a repair keeps until its transaction ends.
 *
 * The statements of a repair go through many functions as arrays.  Each of
 * them would copy a large value several times.  So large values and the
 * statements that have them are kept here, and the functions have their names.
 *
 * A name begins with random characters, so that only the repair knows it.  The
 * texts of a subtransaction that is rolled back go with it.
 *
 * Values come as they are, and get their quotes here, as the peer is not to
 * write a part of a statement.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/ilist.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#include "compare/guard.h"

/* Bytes of a part, which is what one message to the peer has of a text. */
#define PART_SIZE		(4 * 1024 * 1024)

/* One text, in a memory context of its own. */
typedef struct Kept
{
	dlist_node	node;
	MemoryContext context;
	MemoryContextCallback callback;
	char	   *name;
	uint32		hash;			/* of the name */
	int			parts;
	int			running;		/* calls of iblt_repair_execute */
	StringInfoData text;
} Kept;

/*
 * All of them, in lists by hash.  To take one out takes no longer where there are
 * many: when a transaction ends, nothing can be cancelled.
 */
#define LISTS			1024

static dlist_head texts[LISTS];

static Kept *
find(const char *name)
{
	uint32		hash = string_hash(name, SIZE_MAX);
	dlist_iter	iter;

	dlist_foreach(iter, &texts[hash % LISTS])
	{
		Kept	   *kept = dlist_container(Kept, node, iter.cur);

		if (kept->hash == hash && strcmp(kept->name, name) == 0)
			return kept;
	}
	return NULL;
}

/* The text of a name; an error if there is none. */
static Kept *
required(const char *name)
{
	Kept	   *kept = find(name);

	if (kept == NULL)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
						errmsg("a text of the repair is not kept in this transaction")));
	return kept;
}

/* Called when the memory of a text is about to be freed. */
static void
forget(void *arg)
{
	dlist_delete(&((Kept *) arg)->node);
}

static Kept *
add(const char *name)
{
	MemoryContext context = AllocSetContextCreate(CurTransactionContext, "iblt text",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	Kept	   *kept = palloc0(sizeof(Kept));

	kept->context = context;
	kept->name = pstrdup(name);
	kept->hash = string_hash(name, SIZE_MAX);
	initStringInfo(&kept->text);
	MemoryContextSwitchTo(old);
	dlist_push_head(&texts[kept->hash % LISTS], &kept->node);
	kept->callback.func = forget;
	kept->callback.arg = kept;
	MemoryContextRegisterResetCallback(context, &kept->callback);
	return kept;
}

/* The text that part n is to be appended to, or NULL if it has that part. */
static Kept *
expecting(const char *name, int64 n)
{
	Kept	   *kept = find(name);

	if (kept == NULL)
		kept = add(name);
	return n == kept->parts + 1 && kept->running == 0 ? kept : NULL;
}

PG_FUNCTION_INFO_V1(iblt_repair_keep);

/*
 * iblt_repair_keep(name, n, part): appends part n to the text of that name.
 * A part that it has is passed over, so that a value may come twice.
 */
Datum
iblt_repair_keep(PG_FUNCTION_ARGS)
{
	text	   *part = PG_GETARG_TEXT_PP(2);
	Kept	   *kept = expecting(text_to_cstring(PG_GETARG_TEXT_PP(0)),
								 PG_GETARG_INT64(1));

	if (kept != NULL)
	{
		appendBinaryStringInfo(&kept->text, VARDATA_ANY(part), VARSIZE_ANY_EXHDR(part));
		kept->parts++;
	}
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(iblt_repair_quote);

/*
 * iblt_repair_quote(name, n, value): appends the text of the name "value" as a
 * literal, which is part n; an error if there is no such text.
 *
 * No byte of a character in an encoding of a server is a quote or a backslash,
 * unless it is the character.
 */
Datum
iblt_repair_quote(PG_FUNCTION_ARGS)
{
	Kept	   *value = required(text_to_cstring(PG_GETARG_TEXT_PP(2)));
	Kept	   *kept = expecting(text_to_cstring(PG_GETARG_TEXT_PP(0)),
								 PG_GETARG_INT64(1));
	int			length = value->text.len;	/* they may be the same text */

	if (kept == NULL)
		PG_RETURN_VOID();
	if (memchr(value->text.data, '\\', length) != NULL)
		appendStringInfoChar(&kept->text, ESCAPE_STRING_SYNTAX);
	appendStringInfoChar(&kept->text, '\'');
	for (int i = 0; i < length; i++)
	{
		char		c = value->text.data[i];

		if (SQL_STR_DOUBLE(c, true))
			appendStringInfoCharMacro(&kept->text, c);
		appendStringInfoCharMacro(&kept->text, c);
	}
	appendStringInfoChar(&kept->text, '\'');
	kept->parts++;
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(iblt_repair_kept);

/* iblt_repair_kept(name): a copy of the text of that name, or NULL */
Datum
iblt_repair_kept(PG_FUNCTION_ARGS)
{
	Kept	   *kept = find(text_to_cstring(PG_GETARG_TEXT_PP(0)));

	if (kept == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text_with_len(kept->text.data, kept->text.len));
}

/* Triggers, defaults and checks run as for any other statement. */
static int64
execute(const char *statement)
{
	int			guard;
	int			result;
	int64		changed;

	SPI_connect();
	guard = iblt_guard_open();
	result = SPI_execute(statement, false, 0);
	iblt_guard_shut(guard);
	if (result < 0)
		elog(ERROR, "SPI_execute failed: %s", SPI_result_code_string(result));
	changed = SPI_processed;
	SPI_finish();
	return changed;
}

PG_FUNCTION_INFO_V1(iblt_repair_execute);

/*
 * iblt_repair_execute(statement, name) -> bigint: executes a statement, or if it is NULL
 * the one of that name, and returns how many rows it changed.  PL/pgSQL would copy a
 * kept statement twice.
 */
Datum
iblt_repair_execute(PG_FUNCTION_ARGS)
{
	Kept	   *kept;
	volatile int64 changed = 0;

	if (!PG_ARGISNULL(0))
		PG_RETURN_INT64(execute(text_to_cstring(PG_GETARG_TEXT_PP(0))));
	if (PG_ARGISNULL(1))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						errmsg("there is no statement to execute")));
	kept = required(text_to_cstring(PG_GETARG_TEXT_PP(1)));
	kept->running++;
	PG_TRY();
	{
		changed = execute(kept->text.data);
	}
	PG_FINALLY();
	{
		kept->running--;
	}
	PG_END_TRY();
	PG_RETURN_INT64(changed);
}

static void
forget_in(dlist_head *list, const char *prefix)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, list)
	{
		Kept	   *kept = dlist_container(Kept, node, iter.cur);

		CHECK_FOR_INTERRUPTS();
		if (kept->running == 0 && strncmp(kept->name, prefix, strlen(prefix)) == 0)
			MemoryContextDelete(kept->context);
	}
}

PG_FUNCTION_INFO_V1(iblt_repair_forget);

/* iblt_repair_forget(prefix): frees the texts whose names begin so. */
Datum
iblt_repair_forget(PG_FUNCTION_ARGS)
{
	char	   *prefix = text_to_cstring(PG_GETARG_TEXT_PP(0));

	for (int i = 0; i < LISTS; i++)
		forget_in(&texts[i], prefix);
	PG_RETURN_VOID();
}

/* A text that is given in parts. */
typedef struct Parts
{
	text	   *whole;
	size_t		done;			/* bytes */
} Parts;

PG_FUNCTION_INFO_V1(iblt_repair_parts);

/* iblt_repair_parts(text) -> setof text: a text in parts of whole characters */
Datum
iblt_repair_parts(PG_FUNCTION_ARGS)
{
	FuncCallContext *funcctx;
	Parts	   *parts;
	const char *rest;
	int			length;

	if (SRF_IS_FIRSTCALL())
	{
		MemoryContext old;

		funcctx = SRF_FIRSTCALL_INIT();
		old = MemoryContextSwitchTo(funcctx->multi_call_memory_ctx);
		parts = palloc0(sizeof(Parts));
		parts->whole = PG_GETARG_TEXT_PP(0);
		funcctx->user_fctx = parts;
		MemoryContextSwitchTo(old);
	}
	funcctx = SRF_PERCALL_SETUP();
	parts = funcctx->user_fctx;
	if (parts->done >= VARSIZE_ANY_EXHDR(parts->whole))
		SRF_RETURN_DONE(funcctx);
	rest = VARDATA_ANY(parts->whole) + parts->done;
	length = VARSIZE_ANY_EXHDR(parts->whole) - parts->done;
	if (length > PART_SIZE)
		length = pg_mbcliplen(rest, length, PART_SIZE);
	parts->done += length;
	SRF_RETURN_NEXT(funcctx, PointerGetDatum(cstring_to_text_with_len(rest, length)));
}
