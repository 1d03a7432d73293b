/*-------------------------------------------------------------------------
 *
 * settings.c
 *	  The settings of a query on a peer.
 *
 * Every value has the same form on both sides, no policy hides a row, and no
 * index gives only some of the rows.  Behind a pooler the next query may meet
 * another session, and the next client this session.  So the settings are
 * pinned in each query's message and end with its transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"

PG_FUNCTION_INFO_V1(iblt_peer_settings);

/* The drivers' SET clauses pin the same (test/sql/settings.sql). */
static const char *const pinned[][2] = {
	{"search_path", "pg_catalog, pg_temp"},
	{"row_security", "off"},
	{"enable_indexonlyscan", "off"},
	{"constraint_exclusion", "off"},
	{"array_nulls", "on"},
	{"quote_all_identifiers", "off"},
	{"jit", "off"},
	{"TimeZone", "UTC"},
	{"extra_float_digits", "1"},
	{"bytea_output", "hex"},
	{"xmlbinary", "base64"},
	{"xmloption", "content"},
	{"lc_monetary", "C"},
	{"lc_numeric", "C"},
	{"lc_time", "C"},
	{"transform_null_equals", "off"},
	{"gin_fuzzy_search_limit", "0"}
};

static void
set(const char *name, const char *value, GucAction action)
{
	(void) set_config_option(name, value,
							 superuser() ? PGC_SUSET : PGC_USERSET,
							 PGC_S_SESSION, action, true, 0, false);
}

/* Sets it until the transaction ends.  Setting some of them takes a while. */
static void
pin(const char *name, const char *value)
{
	const char *current = GetConfigOption(name, false, false);

	if (current == NULL || strcmp(current, value) != 0)
		set(name, value, GUC_ACTION_LOCAL);
}

/*
 * What shows the comparison in pg_stat_activity, and lets a query end soon
 * after the other side has gone.  The next client of a pooler is not harmed by
 * either.
 */
static void
greet(const char *label)
{
	set("application_name", label, GUC_ACTION_SET);
#if PG_VERSION_NUM >= 140000 && defined(__linux__)
	set("client_connection_check_interval", "2s", GUC_ACTION_SET);
#endif
}

/*
 * iblt_peer_settings(datestyle, intervalstyle, timezone_abbreviations, label):
 * pins the settings for the rest of the message.  Only iblt_repair writes: it
 * sets iblt.writing in its transaction.  A label, if there is one, is for the
 * session.
 */
Datum
iblt_peer_settings(PG_FUNCTION_ARGS)
{
	static const char *const given[] = {"DateStyle", "IntervalStyle",
		"timezone_abbreviations"};
	const char *writing = GetConfigOption("iblt.writing", true, false);

	for (int i = 0; i < (int) lengthof(pinned); i++)
		pin(pinned[i][0], pinned[i][1]);
	for (int i = 0; i < (int) lengthof(given); i++)
		if (!PG_ARGISNULL(i))
			pin(given[i], text_to_cstring(PG_GETARG_TEXT_PP(i)));
	pin("transaction_read_only",
		writing != NULL && strcmp(writing, "on") == 0 ? "off" : "on");
	if (!PG_ARGISNULL(3))
		greet(text_to_cstring(PG_GETARG_TEXT_PP(3)));
	PG_RETURN_VOID();
}
