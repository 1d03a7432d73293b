/*
 * settings.c
 *	  The settings of a query on a peer.
 *
 * Every value has the same form on both sides, no policy hides a row, and no
 * index gives only some of the rows.  Behind a pooler the next query may meet
 * another session, and the next client this session.  So the settings are
 * pinned in each query's message and end with its transaction.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"

#include "relation/relation.h"

PG_FUNCTION_INFO_V1(iblt_peer_settings);

/* The drivers' SET clauses pin the same (test/sql/settings.sql). */
static const char *const pinned[][2] = {
	{"search_path", "iblt_internal, pg_catalog, pg_temp"},
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
 * iblt_peer_settings(datestyle, intervalstyle, timezone_abbreviations, label):
 * pins the settings for the rest of the message, and refuses code of other
 * roles (guard.c).  A message that begins its transaction cannot write, whatever
 * the role's default is.  Only iblt_repair writes, in a transaction that it has
 * begun for that.  A label, if there is one, is for the session.
 */
Datum
iblt_peer_settings(PG_FUNCTION_ARGS)
{
	static const char *const given[] = {"DateStyle", "IntervalStyle",
		"timezone_abbreviations"};

	iblt_guard_begin();
	for (int i = 0; i < (int) lengthof(pinned); i++)
		pin(pinned[i][0], pinned[i][1]);
	for (int i = 0; i < (int) lengthof(given); i++)
		if (!PG_ARGISNULL(i))
			pin(given[i], text_to_cstring(PG_GETARG_TEXT_PP(i)));
	if (GetCurrentTransactionStartTimestamp() == GetCurrentStatementStartTimestamp())
		pin("transaction_read_only", "on");
	/* a query ends soon after the other side has closed the connection */
#ifdef __linux__
	pin("client_connection_check_interval", "1000");
#endif
	/* shown in pg_stat_activity, which does not harm a pooler's next client */
	if (!PG_ARGISNULL(3))
		set("application_name", text_to_cstring(PG_GETARG_TEXT_PP(3)),
			GUC_ACTION_SET);
	PG_RETURN_VOID();
}
