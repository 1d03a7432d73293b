/*
 * connection.c
 *	  The connections of this session: their names, and which are kept.  Options of
 *	  foreign servers, also those of iblt's own wrapper, iblt_fdw.
 *
 * A connection that is free when its driver ends is kept for the next one of the same
 * role and peer.
 */
#include "peer/connection.h"

#include <sys/ioctl.h>

#include "access/reloptions.h"
#include "access/xact.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_type.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "relation/relation.h"
#include "sketch/iblt.h"

static List *connections = NIL;

void
iblt_connection_close(IbltConnection *connection)
{
	connections = list_delete_ptr(connections, connection);
	if (connection->pg != NULL)
	{
		PQfinish(connection->pg);
		ReleaseExternalFD();
	}
	if (connection->name != NULL)
		pfree(connection->name);
	if (connection->options != NULL)
		pfree(connection->options);
	pfree(connection->peer);
	pfree(connection);
}

/*
 * libpq keeps settings that a server tells, without a limit.  A row, which cannot be longer than
 * 1 GB, counts until it is there.  Each time, libpq reads at least 8 kB of what has arrived, and
 * of messages that are no rows at most eight times that.
 */
bool
iblt_connection_count(IbltConnection *connection)
{
	int			bytes = 0;

	if (ioctl(PQsocket(connection->pg), FIONREAD, &bytes) == 0)
		connection->arrived += Min(bytes, 8192);
	return connection->arrived < (connection->checked ? INT64CONST(2) << 30 : 1 << 20);
}

/*
 * What a driver has left when its transaction ends with an error.  Runs keep theirs when
 * they commit, between questions.
 */
static void
at_end_of_transaction(XactEvent event, void *arg)
{
	(void) arg;
	if (event != XACT_EVENT_ABORT && event != XACT_EVENT_COMMIT && event != XACT_EVENT_PREPARE)
		return;
	for (int i = list_length(connections) - 1; i >= 0; i--)
	{
		IbltConnection *connection = list_nth(connections, i);

		if (connection->name != NULL
			&& (event == XACT_EVENT_ABORT || !connection->checked
				|| PQtransactionStatus(connection->pg) != PQTRANS_IDLE))
			iblt_connection_close(connection);
	}
}

IbltConnection *
iblt_connection(const char *name)
{
	ListCell   *cell;

	foreach(cell, connections)
	{
		IbltConnection *connection = lfirst(cell);

		if (name != NULL && connection->name != NULL && strcmp(connection->name, name) == 0
			&& connection->role == GetUserId())
			return connection;
	}
	return NULL;
}

IbltConnection *
iblt_connection_take(const char *name, const char *peer)
{
	static bool registered = false;
	IbltConnection *connection = iblt_connection(name);
	MemoryContext old;

	if (connection != NULL && strcmp(connection->peer, peer) == 0)
		return connection;
	if (connection != NULL)
		iblt_connection_close(connection);
	connection = NULL;
	/* nobody else closes those that are kept for nobody */
	for (int i = list_length(connections) - 1; i >= 0; i--)
	{
		IbltConnection *kept = list_nth(connections, i);

		if (kept->name != NULL)
			continue;
		if (TimestampDifferenceExceeds(kept->kept, GetCurrentTimestamp(), IBLT_KEPT_MS))
			iblt_connection_close(kept);
		else if (connection == NULL && kept->role == GetUserId() && strcmp(kept->peer, peer) == 0)
			connection = kept;
	}
	if (!registered)
		RegisterXactCallback(at_end_of_transaction, NULL);
	registered = true;
	old = MemoryContextSwitchTo(TopMemoryContext);
	if (connection == NULL)
	{
		connection = palloc0(sizeof(*connection));
		connection->peer = pstrdup(peer);
		connection->role = GetUserId();
		connections = lappend(connections, connection);
	}
	connection->name = pstrdup(name);
	MemoryContextSwitchTo(old);
	return connection;
}

bool
iblt_is_secret(const PQconninfoOption *option)
{
	return strchr(option->dispchar, '*') != NULL || strstr(option->keyword, "secret") != NULL
		|| strncmp(option->keyword, "scram_", 6) == 0;
}

bool
iblt_belongs_to(const PQconninfoOption *option, bool mapping)
{
	return strchr(option->dispchar, 'D') == NULL && strcmp(option->keyword, "client_encoding") != 0
		&& mapping == (iblt_is_secret(option) || strcmp(option->keyword, "user") == 0);
}

PG_FUNCTION_INFO_V1(iblt_fdw_validator);

/*
 * iblt_fdw_validator(options, catalog) -> void: a foreign server has options of libpq but
 * those of a user mapping, which are the user and its secrets
 */
Datum
iblt_fdw_validator(PG_FUNCTION_ARGS)
{
	List	   *options = untransformRelOptions(PG_GETARG_DATUM(0));
	Oid			catalog = PG_GETARG_OID(1);
	PQconninfoOption *known = PQconndefaults();
	const char *wrong = NULL;
	ListCell   *cell;

	foreach(cell, options)
	{
		DefElem    *def = lfirst(cell);
		bool		found = false;

		for (PQconninfoOption *o = known; o != NULL && o->keyword != NULL; o++)
			found = found || (strcmp(o->keyword, def->defname) == 0
							  && ((catalog == ForeignServerRelationId && iblt_belongs_to(o, false))
								  || (catalog == UserMappingRelationId && iblt_belongs_to(o, true))));
		if (!found)
			wrong = def->defname;
	}
	PQconninfoFree(known);
	if (wrong != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
				 errmsg("invalid option \"%s\"", wrong),
				 errhint("A server has the options of a connection string, and a user mapping has user and password.")));
	PG_RETURN_VOID();
}

bool
iblt_looks_like_string(const char *peer)
{
	return strchr(peer, '=') != NULL || strstr(peer, "://") != NULL;
}

/* Another role may have given a server the name of a connection string, which leads elsewhere. */
bool
iblt_is_foreign_server(const char *peer)
{
	return !iblt_looks_like_string(peer) && strlen(peer) < NAMEDATALEN
		&& OidIsValid(get_foreign_server_oid(peer, true));
}

/* iblt_peer_is_string(peer) -> boolean: is there no foreign server of this name? */
IBLT_FUNCTION(iblt_peer_is_string, BoolGetDatum(!iblt_is_foreign_server(text_to_cstring(PG_GETARG_TEXT_PP(0)))))

PG_FUNCTION_INFO_V1(iblt_peers_secret);

/* iblt_peers_secret(peers) -> boolean: is one of them no foreign server, or is there none? */
Datum
iblt_peers_secret(PG_FUNCTION_ARGS)
{
	int			n;
	char	  **peers = iblt_texts_of(fcinfo, 0, &n);
	bool		secret = true;

	for (int i = 0; i < n; i++)
	{
		if (peers[i] == NULL)
			continue;
		secret = !iblt_is_foreign_server(peers[i]);
		if (secret)
			break;
	}
	PG_RETURN_BOOL(secret);
}

PG_FUNCTION_INFO_V1(iblt_peer_is_open);

/* iblt_peer_is_open(conn) -> boolean */
Datum
iblt_peer_is_open(PG_FUNCTION_ARGS)
{
	IbltConnection *c = iblt_connection(iblt_text_arg(fcinfo, 0, NULL));

	PG_RETURN_BOOL(c != NULL && c->checked && PQstatus(c->pg) == CONNECTION_OK);
}

PG_FUNCTION_INFO_V1(iblt_peer_address);

/*
 * iblt_peer_address(conn) -> text: host and port of an open connection, as this side calls them; null
 * if they may show a secret
 */
Datum
iblt_peer_address(PG_FUNCTION_ARGS)
{
	IbltConnection *c = iblt_connection(iblt_text_arg(fcinfo, 0, NULL));

	if (c == NULL || !c->checked || !c->tells || PQstatus(c->pg) != CONNECTION_OK)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("%s:%s", PQhost(c->pg), PQport(c->pg))));
}

PG_FUNCTION_INFO_V1(iblt_peer_conns);

/*
 * iblt_peer_conns(peers) -> text[]: new names for connections to peers, null for null.
 * Both sides may be relations of one peer, over one connection.
 */
Datum
iblt_peer_conns(PG_FUNCTION_ARGS)
{
	static int	last = 0;
	int			n;
	char	  **peers = iblt_texts_of(fcinfo, 0, &n);
	Datum	   *conns = palloc0(sizeof(Datum) * Max(n, 1));

	for (int i = 0; i < n; i++)
		if (i == 1 && peers[0] != NULL && peers[1] != NULL && strcmp(peers[0], peers[1]) == 0)
			conns[1] = conns[0];
		else if (peers[i] != NULL)
			conns[i] = CStringGetTextDatum(psprintf("iblt_%d", ++last));
	return iblt_array_of(conns, n, TEXTOID);
}

PG_FUNCTION_INFO_V1(iblt_peers_close);

/*
 * iblt_peers_close(conns, keep) -> void: a driver has ended.  Connections may be kept if
 * they are free, and have not failed.  If something is under way there, its server ends that soon
 * after it is closed (client_connection_check_interval).
 */
Datum
iblt_peers_close(PG_FUNCTION_ARGS)
{
	int			n;
	char	  **conns = iblt_texts_of(fcinfo, 0, &n);

	(void) iblt_kept_drop("iblt here");
	(void) iblt_kept_drop("iblt there");
	for (int i = 0; i < n; i++)
	{
		IbltConnection *c = conns[i] == NULL ? NULL : iblt_connection(conns[i]);

		if (c == NULL)
			continue;
		if (!c->checked || c->large || c->failed || PG_ARGISNULL(1) || !PG_GETARG_BOOL(1)
			|| PQtransactionStatus(c->pg) != PQTRANS_IDLE)
		{
			iblt_connection_close(c);
			continue;
		}
		c->kept = GetCurrentTimestamp();
		pfree(c->name);
		c->name = NULL;
	}
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(iblt_disconnect);

/* iblt_disconnect() -> integer: closes the caller's connections that are kept, and counts them */
Datum
iblt_disconnect(PG_FUNCTION_ARGS)
{
	int			closed = 0;

	(void) fcinfo;
	for (int i = list_length(connections) - 1; i >= 0; i--)
	{
		IbltConnection *connection = list_nth(connections, i);

		if (connection->name == NULL && connection->role == GetUserId())
		{
			iblt_connection_close(connection);
			closed++;
		}
	}
	PG_RETURN_INT32(closed);
}
