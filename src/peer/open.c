/*
 * open.c
 *	  Opens connections to other servers, all at the same time.
 *
 * The rules are those of dblink and postgres_fdw, or stricter.  A role needs USAGE on a foreign
 * server and a user mapping, and one that is no superuser must give a password for
 * which the other server asks, or have delegated its GSSAPI credentials, by which the
 * other server must authenticate it.  Otherwise it could use what the server's operating
 * system user may do.  (postgres_fdw also lets a delegating role use that user's passwords.)
 *
 * No error shows a connection string.
 */
#include "peer/connection.h"

#include "relation/relation.h"

#include "codec/version.h"

#include "catalog/pg_foreign_server.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "foreign/foreign.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/fd.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

/* A connection that is being opened. */
typedef struct Opening
{
	MemoryContextCallback callback;
	const char *peer;
	IbltConnection *connection; /* NULL: not begun */
	const char **keywords;
	const char **values;
	const char *options;		/* all of these as text */
	PQconninfoOption *given;	/* what the peer gives, as libpq reads it; values NULL where not */
	bool		needs_password; /* because the role is no superuser */
	bool		tells;			/* may libpq's messages be shown? */
	const char *failure[IBLT_FAILURE_TEXTS];	/* no state: none */
	PostgresPollingStatusType poll;
	TimestampTz until;
} Opening;

static void
refuse(Opening *o, const char *state, const char *detail)
{
	o->failure[IBLT_FAILURE_STATE] = state;
	o->failure[IBLT_FAILURE_DETAIL] = detail;
	o->poll = PGRES_POLLING_FAILED;
}

static void
free_given(void *arg)
{
	PQconninfoFree(((Opening *) arg)->given);
}

static PQconninfoOption *
option_of(Opening *o, const char *keyword)
{
	for (PQconninfoOption *option = o->given; option != NULL && option->keyword != NULL; option++)
		if (strcmp(option->keyword, keyword) == 0)
			return option;
	return NULL;
}

static const char *
value_of(Opening *o, const char *keyword)
{
	PQconninfoOption *option = option_of(o, keyword);

	return option == NULL || option->val == NULL ? "" : option->val;
}

/* Takes options of a foreign server or its wrapper, or of a user mapping, which alone has secrets. */
static void
take_options(Opening *o, List *options, bool mapping)
{
	ListCell   *cell;

	foreach(cell, options)
	{
		DefElem    *def = lfirst(cell);
		PQconninfoOption *option = option_of(o, def->defname);

		if (option == NULL || !(iblt_belongs_to(option, false)
								|| (mapping && iblt_belongs_to(option, true))))
			continue;
		if (option->val != NULL)
			free(option->val);
		option->val = strdup(defGetString(def));
	}
}

/* The options of a foreign server. */
static void
read_server(Opening *o)
{
	ForeignServer *server = GetForeignServerByName(o->peer, false);
	ForeignDataWrapper *wrapper = GetForeignDataWrapper(server->fdwid);
	UserMapping *mapping;
	ListCell   *cell;

	if (iblt_server_aclcheck(server->serverid) != ACLCHECK_OK)
	{
		refuse(o, "42501", "You lack the USAGE privilege on the foreign server.");
		return;
	}
	if (!SearchSysCacheExists2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(GetUserId()),
							   ObjectIdGetDatum(server->serverid)) &&
		!SearchSysCacheExists2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(InvalidOid),
							   ObjectIdGetDatum(server->serverid)))
	{
		refuse(o, "42704", psprintf("The foreign server has no user mapping for %s.",
									quote_identifier(GetUserNameFromId(GetUserId(), false))));
		return;
	}
	mapping = GetUserMapping(GetUserId(), server->serverid);
	o->given = PQconninfoParse("", NULL);
	take_options(o, wrapper->options, false);
	take_options(o, server->options, false);
	take_options(o, mapping->options, true);
	/* an option of postgres_fdw's, which superusers alone set to false */
	foreach(cell, strcmp(wrapper->fdwname, "postgres_fdw") == 0 ? mapping->options : NIL)
		if (strcmp(((DefElem *) lfirst(cell))->defname, "password_required") == 0)
			o->needs_password = o->needs_password && defGetBoolean(lfirst(cell));
	o->tells = true;
}

/*
 * May messages about this connection string be shown?  libpq's messages are in the
 * language of lc_messages, so their text tells nothing.  A part of a password may be
 * taken for another option: in a URI, one with an @, a / or a ? ends elsewhere than
 * its author thinks, so there may be one @, before all of these.  A value that looks
 * like a connection string may hold a password.
 */
static bool
string_tells(Opening *o)
{
	const char *peer = o->peer;

	if (strncmp(peer, "postgresql://", 13) == 0 || strncmp(peer, "postgres://", 11) == 0)
	{
		const char *rest = strstr(peer, "://") + 3;
		const char *at = strchr(rest, '@');

		if (at != NULL && (strchr(at + 1, '@') != NULL || rest + strcspn(rest, "/?") < at))
			return false;
	}
	for (PQconninfoOption *option = o->given; option->keyword != NULL; option++)
		if (option->val != NULL && !iblt_is_secret(option)
			&& (strstr(option->val, "://") != NULL
				|| (strchr(option->val, '=') != NULL && strcmp(option->keyword, "options") != 0)))
			return false;
	return true;
}

/* What libpq says of a failure, if it shows nothing secret. */
static const char *
failure_of(Opening *o)
{
	char	   *message = pchomp(PQerrorMessage(o->connection->pg));

	if (!o->tells || !pg_verifymbstr(message, (int) strlen(message), true))
		return NULL;
	for (PQconninfoOption *option = o->given; option->keyword != NULL; option++)
		if (option->val != NULL && *option->val != '\0' && iblt_is_secret(option)
			&& strstr(message, option->val) != NULL)
			return NULL;
	return message;
}

/*
 * How long a connection may take to be made, in milliseconds, for a caller who has so
 * many.  libpq leaves that to who polls.  Of several hosts the first one may take all of it.
 */
static int64
patience(Opening *o, double caller_ms)
{
	int			seconds = atoi(value_of(o, "connect_timeout"));
	int64		ms = 10 * 1000;

	if (seconds > 0)
		return Max(seconds, 2) * (int64) 1000;
	for (const char *host = *value_of(o, "hostaddr") ? value_of(o, "hostaddr") : value_of(o, "host"); *host; host++)
		ms += *host == ',' ? 10 * 1000 : 0;
	if (StatementTimeout > 0)
		ms = Min(ms, StatementTimeout);
	if (caller_ms < ms)
		ms = (int64) Max(caller_ms, 0);
	return Max(ms, 2000);
}

/*
 * A file that libpq writes or takes options from; or who issues a token: libpq asks that server,
 * before the other one could ask for a password, and says on stderr, which is the log, what to do.
 */
static bool
needs_superuser(const PQconninfoOption *option)
{
	return strcmp(option->keyword, "sslkeylogfile") == 0 || strcmp(option->keyword, "servicefile") == 0
		|| strncmp(option->keyword, "oauth_", 6) == 0;
}

static int
add_option(Opening *o, int n, const char *keyword, const char *value)
{
	o->keywords[n] = keyword;
	o->values[n] = value;
	return n + 1;
}

/* Reads what the peer gives, and checks the rights of the role. */
static void
read_peer(Opening *o)
{
	/* of an option that is given, too, the last value counts */
	static const char *const defaults[][2] = {
		{"fallback_application_name", "iblt"}, {"keepalives_idle", "60"}, {"keepalives_interval", "15"},
		{"keepalives_count", "4"}, {"tcp_user_timeout", "120000"}
	};
	StringInfoData options;
	int			n = 0;

	o->needs_password = !superuser();
	if (iblt_is_foreign_server(o->peer))
		read_server(o);
	else if (!iblt_looks_like_string(o->peer))
	{
		refuse(o, "42704", NULL);
		o->failure[IBLT_FAILURE_MESSAGE] = "is neither a foreign server nor a connection string";
	}
	else
	{
		debug_query_string = "iblt: a statement with a connection string";
		o->given = PQconninfoParse(o->peer, NULL);
		o->tells = o->given != NULL && string_tells(o);
	}
	if (o->failure[IBLT_FAILURE_STATE] == NULL && o->given == NULL)
		refuse(o, "08001", NULL);
	else if (o->failure[IBLT_FAILURE_STATE] == NULL && o->needs_password && *value_of(o, "password") == '\0'
			 /* not the session's, in a function of another role's */
			 && !(iblt_gss_is_delegated() && GetUserId() == GetSessionUserId()))
		refuse(o, "2F003", "Non-superusers must give a password in the user mapping or the connection string.");
	if (o->failure[IBLT_FAILURE_STATE] != NULL)
		return;
	for (PQconninfoOption *option = o->given; option->keyword != NULL; option++, n++)
		if (o->needs_password && option->val != NULL && needs_superuser(option))
		{
			refuse(o, "42501", psprintf("Only superusers may give the option %s.", option->keyword));
			return;
		}
	o->keywords = palloc0(sizeof(char *) * (n + lengthof(defaults) + 4));
	o->values = palloc0(sizeof(char *) * (n + lengthof(defaults) + 4));
	for (n = 0; n < (int) lengthof(defaults);)
		n = add_option(o, n, defaults[n][0], defaults[n][1]);
	initStringInfo(&options);
	for (PQconninfoOption *option = o->given; option->keyword != NULL; option++)
	{
		if (option->val == NULL)
			continue;
		n = add_option(o, n, option->keyword, option->val);
		appendStringInfo(&options, "%s=%zu:%s ", option->keyword, strlen(option->val), option->val);
	}
	n = add_option(o, n, "client_encoding", GetDatabaseEncodingName());
	if (o->needs_password && *value_of(o, "password") == '\0')
	{
		/* no password of the server's user, and libpq takes encryption by GSSAPI for authentication */
		n = add_option(o, n, "require_auth", "gss");
		n = add_option(o, n, "gssencmode", "disable");
	}
	o->options = options.data;
}

static void
ignore_notice(void *arg, const PGresult *result)
{
	(void) arg;
	(void) result;
}

/* Is an open connection still good?  A driver's own is, unless it is lost. */
static bool
is_good(IbltConnection *c, const char *options)
{
	if (!c->checked || strcmp(c->options, options) != 0 || PQstatus(c->pg) != CONNECTION_OK)
		return false;
	if (c->kept == 0)
		return true;
	return PQtransactionStatus(c->pg) == PQTRANS_IDLE
		/* what says something unasked has ended, or is not what it seems */
		&& !(WaitLatchOrSocket(NULL, WL_SOCKET_READABLE | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
							   PQsocket(c->pg), 0, PG_WAIT_EXTENSION) & WL_SOCKET_READABLE);
}

/* A connection of this name to the peer, open or begun. */
static void
begin(Opening *o, const char *name, double caller_ms)
{
	IbltConnection *c = iblt_connection_take(name, o->peer);

	/* several may have been kept */
	while (c->pg != NULL && !is_good(c, o->options))
	{
		iblt_connection_close(c);
		c = iblt_connection_take(name, o->peer);
	}
	o->connection = c;
	c->kept = 0;
	c->tells = o->tells;
	if (c->pg != NULL)
	{
		o->poll = PGRES_POLLING_OK;
		return;
	}
	o->until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), patience(o, caller_ms));
	c->options = MemoryContextStrdup(TopMemoryContext, o->options);
	if (!AcquireExternalFD())
	{
		refuse(o, "53000", "There are too many open files.");
		return;
	}
	c->pg = PQconnectStartParams(o->keywords, o->values, false);
	if (c->pg == NULL)
	{
		ReleaseExternalFD();
		refuse(o, "53200", NULL);
		return;
	}
	PQsetNoticeReceiver(c->pg, ignore_notice, NULL);
	o->poll = PQstatus(c->pg) == CONNECTION_BAD ? PGRES_POLLING_FAILED : PGRES_POLLING_WRITING;
}

/* One turn for all that are being opened. */
static void
poll_all(Opening *o, int n)
{
	WaitEventSet *set = iblt_wait_event_set(n + 2);
	WaitEvent  *events = palloc(sizeof(WaitEvent) * (n + 2));
	TimestampTz now = GetCurrentTimestamp();
	long		longest = INT_MAX;
	int			happened;

	AddWaitEventToSet(set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	for (int i = 0; i < n; i++)
		if ((o[i].poll == PGRES_POLLING_READING || o[i].poll == PGRES_POLLING_WRITING)
			&& PQsocket(o[i].connection->pg) < 0)
			o[i].poll = PGRES_POLLING_FAILED;
		else if (o[i].poll == PGRES_POLLING_READING || o[i].poll == PGRES_POLLING_WRITING)
		{
			AddWaitEventToSet(set, o[i].poll == PGRES_POLLING_READING ? WL_SOCKET_READABLE
							  : WL_SOCKET_WRITEABLE, PQsocket(o[i].connection->pg), NULL, &o[i]);
			longest = Min(longest, TimestampDifferenceMilliseconds(now, o[i].until));
		}
	happened = WaitEventSetWait(set, longest, events, n + 2, PG_WAIT_EXTENSION);
	FreeWaitEventSet(set);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	for (int i = 0; i < happened; i++)
	{
		Opening    *ready = events[i].user_data;

		if (ready != NULL && !iblt_connection_count(ready->connection))
			refuse(ready, "08001", "It sends more than a server does before it is connected.");
		else if (ready != NULL)
			ready->poll = PQconnectPoll(ready->connection->pg);
	}
	pfree(events);
	now = GetCurrentTimestamp();
	for (int i = 0; i < n; i++)
		if ((o[i].poll == PGRES_POLLING_READING || o[i].poll == PGRES_POLLING_WRITING)
			&& now >= o[i].until)
			refuse(&o[i], "08001", "connection to server failed: timeout expired");
}

/* What has come of it. */
static void
finish(Opening *o)
{
	IbltConnection *c = o->connection;

	if (o->poll == PGRES_POLLING_FAILED && o->failure[IBLT_FAILURE_STATE] == NULL)
		refuse(o, "08001", failure_of(o));
	else if (o->poll == PGRES_POLLING_OK && o->needs_password
			 && *value_of(o, "password") != '\0' && !PQconnectionUsedPassword(c->pg))
		refuse(o, "2F003", "Non-superusers cannot connect if the server does not ask for the password.");
	if (o->failure[IBLT_FAILURE_STATE] == NULL)
		c->checked = PQsetnonblocking(c->pg, 1) == 0;
	else if (c != NULL)
		iblt_connection_close(c);
}

PG_FUNCTION_INFO_V1(iblt_peers_open);

/* iblt_peers_open(conns, peers, timeout in seconds) -> failure[], with null for what has not failed; or null */
Datum
iblt_peers_open(PG_FUNCTION_ARGS)
{
	Oid			type = iblt_row_type(fcinfo);
	TupleDesc	desc = lookup_rowtype_tupdesc_copy(type, -1);
	double		caller_ms = PG_GETARG_FLOAT8(2) * 1000;
	int			n;
	int			m;
	char	  **names = iblt_texts_of(fcinfo, 0, &n);
	char	  **peers = iblt_texts_of(fcinfo, 1, &m);
	Datum	   *failures = palloc0(sizeof(Datum) * Max(n, 1));
	bool		waits;
	bool		failed = false;
	Opening    *o = palloc0(sizeof(Opening) * Max(n, 1));

	if (n != m)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("each connection must have a peer"),
				 errhidestmt(true), errhidecontext(true)));
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		o[i].poll = PGRES_POLLING_OK;
		/* two sides may be relations of one peer, over one connection */
		for (int j = 0; j < i && names[i] != NULL; j++)
			if (names[j] != NULL && strcmp(names[i], names[j]) == 0)
				names[i] = NULL;
		if (names[i] == NULL || peers[i] == NULL)
			continue;
		o[i].peer = peers[i];
		o[i].callback.func = free_given;
		o[i].callback.arg = &o[i];
		MemoryContextRegisterResetCallback(CurrentMemoryContext, &o[i].callback);
		read_peer(&o[i]);
		if (o[i].failure[IBLT_FAILURE_STATE] == NULL)
			begin(&o[i], names[i], caller_ms);
	}
	do
	{
		waits = false;
		for (int i = 0; i < n; i++)
			waits = waits || o[i].poll == PGRES_POLLING_READING || o[i].poll == PGRES_POLLING_WRITING;
		if (waits)
			poll_all(o, n);
	} while (waits);
	for (int i = 0; i < n; i++)
	{
		if (o[i].peer != NULL)
			finish(&o[i]);
		if (o[i].failure[IBLT_FAILURE_STATE] == NULL)
			continue;
		failures[i] = iblt_failure(desc, o[i].failure, false);
		failed = true;
	}
	if (!failed)
		PG_RETURN_NULL();
	return iblt_array_of(failures, n, type);
}
