/*
 * question.c
 *	  Questions to places, which are this database and other servers: the settings that
 *	  go before a question to a server, and what several places answer.
 */
#include "sketch/iblt.h"

#include "peer/connection.h"

#include "codec/version.h"
#include "relation/relation.h"

#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "nodes/makefuncs.h"
#include "parser/parse_func.h"
#include "parser/parse_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

/* --- functions in SQL ------------------------------------------------------------ */

/* Calls a function of iblt's.  An argument that is 0 is null. */
static Datum
call(const char *name, int nargs, const Oid *types, const Datum *args, bool *isnull)
{
	LOCAL_FCINFO(fcinfo, FUNC_MAX_ARGS);
	FmgrInfo	function;
	Datum		result;

	fmgr_info(LookupFuncName(list_make2(makeString("iblt_internal"), makeString(pstrdup(name))),
							 nargs, types, false), &function);
	InitFunctionCallInfoData(*fcinfo, &function, nargs, DEFAULT_COLLATION_OID, NULL, NULL);
	for (int i = 0; i < nargs; i++)
	{
		fcinfo->args[i].value = args[i];
		fcinfo->args[i].isnull = args[i] == 0;
	}
	result = FunctionCallInvoke(fcinfo);
	*isnull = fcinfo->isnull;
	return result;
}

/* A type of iblt's. */
static Oid
type_of(const char *name)
{
	return typenameTypeId(NULL, makeTypeNameFromNameList(list_make2(makeString("iblt_internal"),
																	  makeString(pstrdup(name)))));
}

/* --- is it asked by plain queries? ------------------------------------------------- */

static bool
is_bare(const char *place)
{
	const char *known = GetConfigOption("iblt.peers", true, false);
	JsonbValue *names;
	JsonbValue	name = {.type = jbvString};
	Jsonb	   *all;

	if (known == NULL || *known == '\0' || place == NULL)
		return false;
	all = DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(known)));
	names = !JB_ROOT_IS_OBJECT(all) ? NULL : getKeyJsonValueFromContainer(&all->root, "bare", 4, NULL);
	name.val.string.val = unconstify(char *, place);
	name.val.string.len = (int) strlen(place);
	return names != NULL && names->type == jbvBinary &&
		findJsonbValueFromContainer(names->val.binary.data, JB_FARRAY, &name) != NULL;
}

/* iblt_peer_is_bare(place) -> boolean */
IBLT_FUNCTION(iblt_peer_is_bare, BoolGetDatum(is_bare(iblt_text_arg(fcinfo, 0, NULL))))

/* --- the statements before a question ------------------------------------------------ */

/* A literal, or NULL. */
static const char *
literal(const char *text)
{
	return text == NULL ? "NULL" : quote_literal_cstr(text);
}

/*
 * Two statements that end in an error unless a superuser owns the schema iblt_internal of the peer.
 * Where iblt is not, anybody may make a schema of that name, and rename it away and back between two
 * statements.  Its functions would run as the role that asks.  What follows is not even analyzed
 * before these have run.  A superuser has the rights of all roles, of OID 10 too.  Without PL/pgSQL,
 * a schema that is not there makes the error: nobody can make one whose name begins with pg_.  A view
 * of iblt is locked, so that the role that has installed it does not drop it before the message ends.
 */
#define TRUST "LOCK iblt_internal.installed IN ACCESS SHARE MODE; " \
	"SELECT WHERE CASE WHEN (SELECT pg_catalog.pg_has_role(nspowner, 10, 'USAGE') " \
	"FROM pg_catalog.pg_namespace WHERE nspname OPERATOR(pg_catalog.=) 'iblt_internal') THEN NULL " \
	"ELSE '\"pg_no superuser owns the schema iblt_internal\"' END" \
	"::pg_catalog.text::pg_catalog.regnamespace IS NOT NULL; "

/*
 * Behind a pooler the next question may meet another session, so the settings go with each and end
 * with it.  A condition is read as it is here, also a date such as 01/02/2024.  In READ COMMITTED
 * the question has a snapshot of its own, taken under its locks.  The first statement of a message
 * would take it in any other isolation level.
 */
static void
append_settings(StringInfo to, const char *label, const char *shown)
{
	appendStringInfoString(to, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; " TRUST);
	if (shown != NULL)
		appendStringInfo(to, "SELECT WHERE iblt_internal.iblt_peer_show(%s) IS NULL; ", literal(shown));
	appendStringInfo(to, "SELECT WHERE iblt_internal.iblt_peer_settings(%s, %s, %s, %s) IS NULL; ",
					 literal(GetConfigOption("DateStyle", false, false)),
					 literal(GetConfigOption("IntervalStyle", false, false)),
					 literal(GetConfigOption("timezone_abbreviations", false, false)),
					 literal(label == NULL ? NULL
							 : pnstrdup(label, pg_mbcharcliplen(label, (int) strlen(label), 63))));
}

/* iblt_peer_trust_sql() -> text */
IBLT_FUNCTION(iblt_peer_trust_sql, ((void) fcinfo, CStringGetTextDatum(TRUST)))

PG_FUNCTION_INFO_V1(iblt_peer_settings_sql);

/* iblt_peer_settings_sql(label, shown) -> text */
Datum
iblt_peer_settings_sql(PG_FUNCTION_ARGS)
{
	StringInfoData sql;

	initStringInfo(&sql);
	append_settings(&sql, iblt_text_arg(fcinfo, 0, NULL), iblt_text_arg(fcinfo, 1, NULL));
	return CStringGetTextDatum(sql.data);
}

/* --- what several places answer --------------------------------------------------------- */

/* A question to each of some places, and how they answer it. */
typedef struct Asking
{
	int			n;
	char	  **places;			/* NULL: this database */
	char	  **queries;
	bool		at_once;		/* one place answers all of them in one statement */
	const char *label;
	Oid			form;			/* of one answer */
	TupleDesc	columns;		/* of the form, if it is composite; NULL for one value */
	const char *reader;			/* NULL: no function of read.sql */
	Datum		keys;			/* arguments of the reader; 0 for null */
	Datum		lo;
	Datum		hi;
	Datum		described;
	Oid			described_type;
} Asking;

/* The columns of an answer, as a function that returns a record is told them. */
static const char *
columns_sql(const Asking *a)
{
	StringInfoData sql;

	initStringInfo(&sql);
	if (a->at_once)
		appendStringInfo(&sql, "answer %s[]", a->columns == NULL ? "text" : format_type_be(a->form));
	else if (a->columns == NULL)
		appendStringInfoString(&sql, "value text");
	for (int i = 0; !a->at_once && a->columns != NULL && i < a->columns->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(a->columns, i);

		appendStringInfo(&sql, "%s%s %s", i > 0 ? ", " : "", quote_identifier(NameStr(column->attname)),
						 format_type_be(column->atttypid));
	}
	return sql.data;
}

/*
 * Questions to one place become one statement, so the answers are of one snapshot.  Two would
 * show what was written in between as a difference.
 */
static void
join_questions(Asking *a)
{
	StringInfoData answers;
	StringInfoData items;

	for (int i = 1; i < a->n; i++)
		if ((a->places[i] == NULL) != (a->places[0] == NULL) ||
			(a->places[0] != NULL && strcmp(a->places[i], a->places[0]) != 0))
			return;
	if (a->n < 2)
		return;
	initStringInfo(&answers);
	initStringInfo(&items);
	for (int i = 1; i <= a->n; i++)
	{
		if (a->columns == NULL)
			appendStringInfo(&answers, "%sq%d.value::text", i > 1 ? ", " : "", i);
		else
			appendStringInfo(&answers, "%sROW(q%d.*)::%s", i > 1 ? ", " : "", i, format_type_be(a->form));
		appendStringInfo(&items, "%s(%s OFFSET 0) AS q%d%s", i > 1 ? ", " : "", a->queries[i - 1], i,
						 a->columns == NULL ? "(value)" : "");
	}
	a->queries[0] = psprintf("SELECT ARRAY[%s] AS answer FROM %s", answers.data, items.data);
	a->at_once = true;
	a->n = 1;
}

/* What the reader is told of the sides at a place; 0 if it is told nothing. */
static Datum
described_at(const Asking *a, const char *place)
{
	int			n;
	Datum	   *rows = iblt_rows_of(a->described, &n);
	int			kept = 0;

	for (int i = 0; i < n; i++)
	{
		const char *at = rows[i] == 0 ? NULL : iblt_text_field(rows[i], "place", NULL);

		if (rows[i] != 0 && (at == NULL) == (place == NULL) && (at == NULL || strcmp(at, place) == 0))
			rows[kept++] = rows[i];
	}
	return a->described == 0 ? 0 : iblt_array_of(rows, kept, get_element_type(a->described_type));
}

/* A literal of an array, or NULL. */
static const char *
array_literal(Datum array, Oid type)
{
	Oid			output;
	bool		is_varlena;

	if (array == 0)
		return "NULL";
	getTypeOutputInfo(type, &output, &is_varlena);
	return literal(OidOutputFunctionCall(output, array));
}

/*
 * Sends a question to another server.  An error names the statements under way, and the log shows
 * them with it, also those of parallel workers.  So keys and bounds are not part of a question: it
 * has them as its parameters.  Another server gets them in a message that it does not show.
 */
static void
send_to(const Asking *a, int i)
{
	const char *place = a->places[i];
	Datum		described = described_at(a, place);
	StringInfoData message;
	bool		isnull;

	initStringInfo(&message);
	if (is_bare(place))
	{
		Oid			types[] = {TEXTOID, TEXTOID, a->described_type, BOOLOID, BOOLOID};
		Datum		args[] = {a->label == NULL ? 0 : CStringGetTextDatum(a->label),
			a->reader == NULL ? 0 : CStringGetTextDatum(a->reader),
		described == 0 || ARR_NDIM(DatumGetArrayTypeP(described)) == 0 ? 0 : described, 0, BoolGetDatum(true)};
		Datum		settings = call("plain_settings", 5, types, args, &isnull);

		appendStringInfo(&message, "%s%s", TextDatumGetCString(settings), a->queries[i]);
	}
	else
	{
		append_settings(&message, a->label, a->keys == 0 && a->lo == 0 && a->hi == 0 ? NULL : a->queries[i]);
		if (a->reader == NULL)
			appendStringInfoString(&message, a->queries[i]);
		else
			appendStringInfo(&message, "SELECT * FROM iblt_internal.%s(%s, %s, %s, %s, %s) AS iblt_r(%s)",
							 quote_identifier(a->reader), literal(a->queries[i]), array_literal(a->keys, TEXTARRAYOID),
							 array_literal(a->lo, TEXTARRAYOID), array_literal(a->hi, TEXTARRAYOID),
							 array_literal(described, a->described_type), columns_sql(a));
	}
	if (!iblt_question_send(place, message.data))
	{
		Oid			types[] = {TEXTOID};
		Datum		args[] = {CStringGetTextDatum(place)};

		(void) call("peer_unsent", 1, types, args, &isnull);
	}
}

/* A value as one of another type, which its text is that of, in this memory context. */
static Datum
converted(Datum value, Oid type, Oid wanted)
{
	Oid			function;
	Oid			param;
	bool		is_varlena;
	char	   *text;
	Datum		made;

	if (type == wanted)
		return get_typlen(type) == -1 ? PointerGetDatum(PG_DETOAST_DATUM_COPY(value))
			: datumCopy(value, get_typbyval(type), get_typlen(type));
	getTypeOutputInfo(type, &function, &is_varlena);
	text = OidOutputFunctionCall(function, value);
	getTypeInputInfo(wanted, &function, &param);
	made = OidInputFunctionCall(function, text, param, -1);
	pfree(text);
	return made;
}

/* A row that this database answers with, as a value of that type. */
static Datum
local_value(const Asking *a, HeapTuple row, TupleDesc desc, Oid wanted, bool *isnull)
{
	bool		one = a->columns == NULL || a->at_once;
	int			columns = one ? 1 : a->columns->natts;
	Datum	   *values = palloc(sizeof(Datum) * desc->natts);
	bool	   *nulls = palloc(sizeof(bool) * desc->natts);

	if (desc->natts != columns)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("a question has %d columns instead of %d", desc->natts, columns)));
	heap_deform_tuple(row, desc, values, nulls);
	for (int i = 0; i < columns; i++)
		if (!nulls[i])
			values[i] = converted(values[i], TupleDescAttr(desc, i)->atttypid,
								  one ? wanted : TupleDescAttr(a->columns, i)->atttypid);
	*isnull = one && nulls[0];
	return one ? values[0] : HeapTupleGetDatum(heap_form_tuple(a->columns, values, nulls));
}

/* What this database answers with a reader.  As a function in FROM it would write a large row to a file. */
static Datum
read_here(const Asking *a, int i, Oid wanted, bool *isnull)
{
	Oid			types[] = {TEXTOID, TEXTARRAYOID, TEXTARRAYOID, TEXTARRAYOID, a->described_type};
	Datum		args[] = {CStringGetTextDatum(a->queries[i]), a->keys, a->lo, a->hi, described_at(a, NULL)};
	Datum		answer = call(a->reader, 5, types, args, isnull);
	HeapTupleHeader row;
	HeapTupleData tuple = {0};

	if (*isnull)
		return 0;
	row = DatumGetHeapTupleHeader(answer);
	tuple.t_len = HeapTupleHeaderGetDatumLength(row);
	tuple.t_data = row;
	return local_value(a, &tuple, lookup_rowtype_tupdesc_copy(HeapTupleHeaderGetTypeId(row),
															  HeapTupleHeaderGetTypMod(row)), wanted, isnull);
}

/* The same without one. */
static Datum
ask_here(const Asking *a, int i, Oid wanted, bool *isnull)
{
	MemoryContext caller = CurrentMemoryContext;
	Datum		value = 0;
	int			result;

	SPI_connect();
	result = SPI_execute(a->queries[i], false, 0);
	if (result < 0)
		elog(ERROR, "SPI_execute failed: %s", SPI_result_code_string(result));
	*isnull = true;
	MemoryContextSwitchTo(caller);
	if (SPI_processed > 0 && SPI_tuptable != NULL)
		value = local_value(a, SPI_tuptable->vals[0], SPI_tuptable->tupdesc, wanted, isnull);
	SPI_finish();
	return value;
}

/* What another server answers; its error is raised here, and says so. */
static Datum
receive_from(const char *place, Oid wanted, bool *isnull)
{
	Oid			types[] = {TEXTOID, type_of("failure")};
	Datum		args[2];
	Datum		value = iblt_question_answer(place, DT_NOEND, wanted, isnull,
											 lookup_rowtype_tupdesc_copy(types[1], -1), &args[1]);

	if (args[1] != 0)
	{
		args[0] = CStringGetTextDatum(place);
		(void) call("peer_refuse", 2, types, args, isnull);
	}
	return value;
}

/* The arguments of iblt_ask_values. */
static void
take_arguments(FunctionCallInfo fcinfo, Asking *a)
{
	static const char *const names[] = {"keys", "lo", "hi", "described"};
	Datum	   *const fields[] = {&a->keys, &a->lo, &a->hi, &a->described};
	int			queries;

	a->places = iblt_texts_of(fcinfo, 0, &a->n);
	a->queries = iblt_texts_of(fcinfo, 1, &queries);
	for (int i = 0; i < a->n; i++)
		if (i >= queries || a->queries[i] == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("a question must not be null")));
	a->label = iblt_text_arg(fcinfo, 2, NULL);
	a->described_type = get_array_type(type_of("described"));
	for (int i = 0; i < (int) lengthof(names) && !PG_ARGISNULL(3); i++)
		*fields[i] = iblt_field_of(PG_GETARG_DATUM(3), names[i]);
	a->reader = PG_ARGISNULL(3) ? NULL : iblt_text_field(PG_GETARG_DATUM(3), "reader", NULL);
	a->form = get_fn_expr_argtype(fcinfo->flinfo, 4);
	if (!OidIsValid(a->form))
		elog(ERROR, "could not determine the type of an answer");
	a->columns = type_is_rowtype(a->form) ? lookup_rowtype_tupdesc_copy(a->form, -1) : NULL;
	join_questions(a);
}

PG_FUNCTION_INFO_V1(iblt_ask_values);

/* iblt_ask_values(places, queries, label, reading, form) -> anyarray: what each place answers */
Datum
iblt_ask_values(PG_FUNCTION_ARGS)
{
	Asking		a = {0};
	Oid			wanted;
	Datum	   *answers;
	bool	   *nulls;
	Datum		result;
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext work = AllocSetContextCreate(caller, "iblt answers", ALLOCSET_DEFAULT_SIZES);

	/* a sketch of many keys is in it several times */
	MemoryContextSwitchTo(work);
	take_arguments(fcinfo, &a);
	wanted = a.at_once ? get_array_type(a.form) : a.form;
	answers = palloc0(sizeof(Datum) * a.n);
	nulls = palloc0(sizeof(bool) * a.n);
	/* the questions to other servers first, so that all answer at the same time */
	for (int i = 0; i < a.n; i++)
		if (a.places[i] != NULL)
			send_to(&a, i);
	for (int i = 0; i < a.n; i++)
		if (a.places[i] == NULL)
			answers[i] = a.reader == NULL ? ask_here(&a, i, wanted, &nulls[i]) : read_here(&a, i, wanted, &nulls[i]);
	for (int i = 0; i < a.n; i++)
		if (a.places[i] != NULL)
			answers[i] = receive_from(a.places[i], wanted, &nulls[i]);
	MemoryContextSwitchTo(caller);
	if (a.n == 0 || (a.at_once && nulls[0]))
		PG_RETURN_NULL();
	result = a.at_once ? PointerGetDatum(PG_DETOAST_DATUM_COPY(answers[0]))
		: iblt_array_make(answers, nulls, a.n, a.form);
	MemoryContextDelete(work);
	return result;
}
