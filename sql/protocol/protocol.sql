-- The protocol -------------------------------------------------------------------
--
-- What iblt on another server may call here, and what this server calls there, is listed in
-- doc/internals/protocol.md.
-- A call that changes its name, its arguments or what it answers raises protocol().  All but
-- BEGIN and COMMIT have iblt_peer_settings before them.
-- doc/internals/walk.md shows the messages of a comparison.

-- The version of what servers ask of each other; both must have the same.
CREATE FUNCTION protocol() RETURNS integer
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN 1;

-- Whoever asks locks this view, so that nobody drops iblt before the message ends.
CREATE VIEW installed AS SELECT 1;
GRANT SELECT ON installed TO PUBLIC;

-- DDL in flight
--
-- Describing a relation does not lock it, so another session may alter it, or give its
-- name to another one, before it is read.  Each statement that reads a relation
-- therefore locks it first (read_begin), and returns the fingerprint of what it read as
-- well.  If that is not the fingerprint of what was described, the driver starts again.

-- The first question to a side: which protocol, and if it has the same one, what a relation is
-- (null if there is none), perhaps with its live digest, as live_digest gives it; otherwise which
-- version.  These arguments stay in all versions.
CREATE FUNCTION hello(protocol integer, relation regclass, condition text, live boolean,
	mapping jsonb, small text DEFAULT NULL, subtable_cells integer DEFAULT NULL) RETURNS jsonb
	LANGUAGE plpgsql STABLE PARALLEL UNSAFE
AS $$
BEGIN
	IF protocol IS DISTINCT FROM protocol() THEN
		RETURN jsonb_build_object('protocol', protocol(), 'version',
			(SELECT extversion FROM pg_extension WHERE extname = 'iblt'));
	END IF;
	RETURN jsonb_build_object('protocol', protocol, 'side',
		describe(relation, condition, mapping) || CASE WHEN live
			THEN jsonb_build_object('live', live_digest(relation, small IS NOT NULL, small,
				subtable_cells))
			ELSE '{}' END);
END
$$;

-- An empty sketch of at least that capacity that can be folded to the largest number of
-- sizes.
CREATE FUNCTION iblt_compare_template(capacity integer, key_size integer, seed bigint)
RETURNS @extschema@.iblt
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

-- What iblt_info says, but only what the header knows: the cells are not looked at.
CREATE FUNCTION iblt_header(s @extschema@.iblt, OUT hashes integer, OUT cells integer,
	OUT capacity integer, OUT rows bigint)
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

-- Replication
--
-- A peer without iblt is asked for the bodies of the functions in this section, and of
-- relation_sources, describe_order, audit_tables, audit_published, audit_subscribed, run_probe,
-- run_lag, repair_describe, repair_lock_tables and repair_flushed (plain_call).  So they name
-- nothing but what PostgreSQL has, and their bodies are texts.

-- Pins the settings of a query of another server until the transaction ends; a label, unless
-- NULL, is the application_name of the session.
CREATE FUNCTION iblt_peer_settings(date_style text, interval_style text,
	timezone_abbreviations text, label text) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

-- Makes the log and pg_stat_activity show a label in place of this message, which may hold
-- rows.
CREATE FUNCTION iblt_peer_show(label text) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- Keeps a sketch under a name, and answers with a small fold of it.
CREATE FUNCTION iblt_compare_keep(name text, s @extschema@.iblt) RETURNS @extschema@.iblt
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- The same as a row.
CREATE FUNCTION scan_answer(name text, s @extschema@.iblt, fingerprint text, ms numeric)
RETURNS scanned
	LANGUAGE sql VOLATILE PARALLEL RESTRICTED
	RETURN ROW(fingerprint, ms, iblt_compare_keep(name, s)::text)::scanned;
