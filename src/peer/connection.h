/*
 * connection.h
 *	  Connections of this session to other servers.
 *
 * SQL names a connection by a text that it makes up.  A connection belongs to the role
 * that opened it, and no other role can use it.
 */
#ifndef IBLT_PEER_CONNECTION_H
#define IBLT_PEER_CONNECTION_H

#include "postgres.h"

#include "access/tupdesc.h"
#include "datatype/timestamp.h"
#include "fmgr.h"
#include "libpq-fe.h"

typedef struct IbltConnection
{
	char	   *name;			/* NULL: no driver uses it */
	char	   *peer;			/* foreign server or connection string, as the caller gave it */
	Oid			role;
	PGconn	   *pg;
	bool		checked;		/* opened to the end, and by the rules: nobody may use it before */
	char	   *options;		/* with which it was opened, as text */
	bool		tells;			/* its host is no part of a password */
	TimestampTz kept;			/* since when no driver uses it */
	int64		arrived;		/* bytes that were not those of an answer */
	bool		large;			/* libpq's buffer has grown, and does not shrink */
	bool		failed;			/* the last answer was an error, or is no answer, or has not come */
} IbltConnection;

/* A connection that nobody has used for so long is closed: what is between may have forgotten it. */
#define IBLT_KEPT_MS	(60 * 1000)

/* The columns of the type failure. */
enum
{
	IBLT_FAILURE_STATE, IBLT_FAILURE_MESSAGE, IBLT_FAILURE_DETAIL, IBLT_FAILURE_HINT,
	IBLT_FAILURE_CONTEXT, IBLT_FAILURE_SCHEMA, IBLT_FAILURE_TABLE, IBLT_FAILURE_COLUMN,
	IBLT_FAILURE_DATATYPE, IBLT_FAILURE_CONSTRAINT, IBLT_FAILURE_REPORTED, IBLT_FAILURE_SECRET,
	IBLT_FAILURE_COLUMNS,
	IBLT_FAILURE_TEXTS = IBLT_FAILURE_REPORTED
};

/* How libpq and ereport call its texts. */
extern const int iblt_failure_codes[IBLT_FAILURE_TEXTS];

/* A value of the type, with these texts, NULL for none. */
extern Datum iblt_failure(TupleDesc desc, const char *const *texts, bool reported);

/* Does the text look like a connection string?  Then it is no name of a foreign server. */
extern bool iblt_looks_like_string(const char *peer);

/* Is there a foreign server of this name? */
extern bool iblt_is_foreign_server(const char *peer);

/* The caller's connection of this name, which may be unchecked; NULL if there is none, or for NULL. */
extern IbltConnection *iblt_connection(const char *name);

/* One of this name to the peer, which may be kept from before, or is still to be opened. */
extern IbltConnection *iblt_connection_take(const char *name, const char *peer);

/* Sends a query over the caller's connection of this name; false if that is lost or not free. */
extern bool iblt_question_send(const char *name, const char *query);

/*
 * The answer to it, as a value of a type: the first row of its last statement; null without a row.
 * An error that the query ended with there, or a lost connection, is a value of the type failure, else 0.
 * An error if it is not there by then, which closes the connection.
 */
extern Datum iblt_question_answer(const char *name, TimestampTz until, Oid type, bool *isnull,
								  TupleDesc failure, Datum *failed);

/* Counts what libpq is about to read; false if that is more than a server has to say. */
extern bool iblt_connection_count(IbltConnection *connection);

/* Closes a connection, which is gone then. */
extern void iblt_connection_close(IbltConnection *connection);

/* Is it a password, or does it stand for one?  libpq does not mark all of them. */
extern bool iblt_is_secret(const PQconninfoOption *option);

/* Does an option of libpq belong to a foreign server, or to a user mapping? */
extern bool iblt_belongs_to(const PQconninfoOption *option, bool mapping);

#endif							/* IBLT_PEER_CONNECTION_H */
