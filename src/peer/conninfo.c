/*-------------------------------------------------------------------------
 *
 * conninfo.c
 *	  May a message about a connection string be shown?
 *
 * libpq's messages are in the language of lc_messages, so their text tells
 * nothing.  Of a string that is not as it should be, a message may repeat any
 * part, and a part of a password may be taken for another option.  So this
 * reads the string as libpq does, and is content only with one of known options.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <ctype.h>

#include "fmgr.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(iblt_peer_may_tell);

/* Options whose value is a secret. */
static const char *const secrets[] = {
	"password", "sslpassword", "scram_client_key", "scram_server_key", "oauth_client_secret"
};

/* All others that libpq knows up to PostgreSQL 19; "ssl" is of URIs. */
static const char *const known[] = {
	"application_name", "authtype", "channel_binding", "client_encoding", "connect_timeout",
	"dbname", "fallback_application_name", "gssdelegation", "gssencmode", "gsslib", "host",
	"hostaddr", "keepalives", "keepalives_count", "keepalives_idle", "keepalives_interval",
	"krbsrvname", "load_balance_hosts", "max_protocol_version", "min_protocol_version",
	"oauth_client_id", "oauth_issuer", "oauth_scope", "options", "passfile", "port",
	"replication", "require_auth", "requirepeer", "service", "servicefile", "ssl", "sslcert",
	"sslcertmode", "sslcompression", "sslcrl", "sslcrldir", "sslkey", "sslkeylogfile",
	"ssl_max_protocol_version", "ssl_min_protocol_version", "sslmode", "sslnegotiation",
	"sslrootcert", "sslsni", "target_session_attrs", "tcp_user_timeout", "tty", "user"
};

static bool
is_in(const char *name, const char *const *list, int length)
{
	for (int i = 0; i < length; i++)
		if (strcmp(name, list[i]) == 0)
			return true;
	return false;
}

/*
 * Does the message show nothing secret of this option?  A value that looks like
 * a connection string may hold a password.
 */
static bool
is_harmless(const char *name, const char *value, const char *message)
{
	if (is_in(name, secrets, lengthof(secrets)))
		return *value == '\0' || strstr(message, value) == NULL;
	return is_in(name, known, lengthof(known)) && strstr(value, "://") == NULL &&
		(strcmp(name, "options") == 0 || strchr(value, '=') == NULL);
}

static char *
skip_spaces(char *s)
{
	while (isspace((unsigned char) *s))
		s++;
	return s;
}

/* Reads a value and ends it with a null byte: what follows it, or NULL if its quote is not closed. */
static char *
read_value(char *s)
{
	bool		quoted = *s == '\'';
	char	   *to = s;

	if (quoted)
		s++;
	for (; *s != '\0' && (quoted ? *s != '\'' : !isspace((unsigned char) *s)); s++)
	{
		if (*s == '\\' && s[1] != '\0')
			s++;
		*to++ = *s;
	}
	if (quoted && *s == '\0')
		return NULL;
	if (*s != '\0')
		s++;
	*to = '\0';
	return s;
}

/* The same of a string of words such as host=node_b. */
static bool
words_are_harmless(char *s, const char *message)
{
	while (*(s = skip_spaces(s)) != '\0')
	{
		char	   *name = s;
		char	   *value;
		char	   *end;

		while (*s != '\0' && *s != '=' && !isspace((unsigned char) *s))
			s++;
		end = s;
		s = skip_spaces(s);
		if (*s != '=')
			return false;
		value = skip_spaces(s + 1);
		*end = '\0';
		s = read_value(value);
		if (s == NULL || !is_harmless(name, value, message))
			return false;
	}
	return true;
}

static int
hex_digit(char c)
{
	return isdigit((unsigned char) c) ? c - '0' : isxdigit((unsigned char) c) ? tolower((unsigned char) c) - 'a' + 10 : -1;
}

/* As is_harmless, for a value of a URI as it stands there. */
static bool
part_is_harmless(const char *name, char *value, const char *message)
{
	char	   *to = value;

	/* the message may have it as it stands, or decoded */
	if (is_in(name, secrets, lengthof(secrets)) && *value != '\0' && strstr(message, value) != NULL)
		return false;
	for (char *s = value; *s != '\0'; s++)
	{
		if (*s == '%')
		{
			if (hex_digit(s[1]) < 0 || hex_digit(s[2]) < 0 || strncmp(s, "%00", 3) == 0)
				return false;
			*to++ = (char) (hex_digit(s[1]) * 16 + hex_digit(s[2]));
			s += 2;
		}
		else
			*to++ = *s;
	}
	*to = '\0';
	return is_harmless(name, value, message);
}

/* The parameters of a URI. */
static bool
parameters_are_harmless(char *s, const char *message)
{
	while (s != NULL && *s != '\0')
	{
		char	   *next = strchr(s, '&');
		char	   *value;

		if (next != NULL)
			*next++ = '\0';
		value = strchr(s, '=');
		if (value == NULL)
			return false;
		*value++ = '\0';
		if (strchr(value, '=') != NULL || !part_is_harmless(s, value, message))
			return false;
		s = next;
	}
	return true;
}

/*
 * The same of a URI, which begins after its "://".  A password with an @, a /
 * or a ? would end elsewhere than its author thinks, so there may be one @ only,
 * before all of these.
 */
static bool
uri_is_harmless(char *s, const char *message)
{
	char	   *at = strchr(s, '@');
	char	   *parameters;
	char	   *path;

	if (at != NULL)
	{
		char	   *password;

		*at = '\0';
		if (strpbrk(s, "/?") != NULL || strchr(at + 1, '@') != NULL)
			return false;
		password = strchr(s, ':');
		if (password != NULL)
			*password++ = '\0';
		if (!part_is_harmless("user", s, message) ||
			(password != NULL && !part_is_harmless("password", password, message)))
			return false;
		s = at + 1;
	}
	parameters = strchr(s, '?');
	if (parameters != NULL)
		*parameters++ = '\0';
	path = strchr(s, '/');
	if (path != NULL)
		*path++ = '\0';
	return part_is_harmless("host", s, message) &&
		(path == NULL || part_is_harmless("dbname", path, message)) &&
		parameters_are_harmless(parameters, message);
}

/*
 * iblt_peer_may_tell(peer, message) -> boolean: does a message about this
 * connection string show nothing of it that may be secret?
 */
Datum
iblt_peer_may_tell(PG_FUNCTION_ARGS)
{
	char	   *peer = text_to_cstring(PG_GETARG_TEXT_PP(0));
	char	   *message = text_to_cstring(PG_GETARG_TEXT_PP(1));
	static const char *const schemes[] = {"postgresql://", "postgres://"};

	for (int i = 0; i < (int) lengthof(schemes); i++)
		if (strncmp(peer, schemes[i], strlen(schemes[i])) == 0)
			PG_RETURN_BOOL(uri_is_harmless(peer + strlen(schemes[i]), message));
	PG_RETURN_BOOL(words_are_harmless(peer, message));
}
