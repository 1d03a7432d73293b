-- The protocol -------------------------------------------------------------------
--
-- What iblt on another server may call here, and what this server calls there: everything in
-- this file, and audit_answers, audit_feeds, audit_generated, audit_parents, audit_published,
-- audit_subscription, audit_tables, live_answer, live_read, made_columns,
-- plain_expression_columns, repair_check_origin, repair_check_session,
-- repair_describe, repair_execute_statements, repair_flushed, repair_lock_tables, repair_open,
-- run_lag, run_probe, slice_bound and slice_check.  Queries also name
-- iblt_live_options, iblt_peer_show, iblt_repair_put, iblt_row_time, ms,
-- read_heap, read_planned, read_slice, scan_answer, track_offer, track_restart, track_scan,
-- track_start, track_state, track_stop, iblt_agg, iblt_agg_bigint, iblt_checksum_seeded,
-- iblt_fold, iblt_info, iblt_session_get, iblt_sum, and
-- what shards.sql makes statements of.
-- A call that changes its name, its arguments or what it answers raises protocol().  All but
-- BEGIN, COMMIT and session_forget have iblt_peer_settings before them.
-- doc/internals/walk.md shows the messages of a comparison.

-- The version of what servers ask of each other; both must have the same.
CREATE FUNCTION protocol() RETURNS integer
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT 1
$$;

-- Forgets the sketches that this session keeps under the name of a connection (kept_name).
-- At the end, on a connection that a caller has opened.
CREATE FUNCTION session_forget(name text) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL RESTRICTED
	SET search_path = iblt_internal, pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM iblt_session_drop(name || ' there');
	RETURN iblt_session_drop(name);
END
$$;

-- What describes a relation is written in PL/pgSQL, which plans it once for all tables
-- of an audit.

-- A function of another user that a value of the type would run on its way to json or text.
-- to_jsonb looks for casts to json of elements and fields too, and a cast to text for
-- one of the column's type.  A superuser's functions are trusted, and one's own.
CREATE FUNCTION describe_cast_code(type oid, target regtype) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	RETURN (WITH RECURSIVE part(oid) AS (
			SELECT type
			UNION
			SELECT x.oid FROM part JOIN pg_type t ON t.oid = part.oid, LATERAL (
				SELECT t.typbasetype WHERE t.typtype = 'd'
				UNION ALL
				SELECT t.typelem WHERE target = 'json'::regtype
				UNION ALL
				SELECT a.atttypid FROM pg_attribute a
					WHERE target = 'json'::regtype AND a.attrelid = t.typrelid) AS x(oid)
			WHERE x.oid >= 16384
		)
		SELECT min(p.oid::regprocedure::text)
		FROM part JOIN pg_cast c ON c.castsource = part.oid AND c.casttarget = target
		JOIN pg_proc p ON p.oid = c.castfunc JOIN pg_roles r ON r.oid = p.proowner
		WHERE NOT r.rolsuper AND r.rolname <> current_user);
END
$$;

-- A relation, its partitions and all others that inherit from it.
CREATE FUNCTION relation_tree(relation regclass) RETURNS TABLE (relid oid)
	LANGUAGE plpgsql STABLE PARALLEL SAFE ROWS 1
AS $$
BEGIN
	RETURN QUERY WITH RECURSIVE tree AS (
		SELECT relation::oid AS member
		UNION
		SELECT i.inhrelid FROM tree JOIN pg_inherits i ON i.inhparent = tree.member
	)
	SELECT member FROM tree;
END
$$;

-- Relations and all that their rows may come from, in the order of their OIDs: partitions,
-- children, and what a view reads.
-- A peer without iblt is asked for its body (plain_call).
CREATE FUNCTION relation_sources(relations regclass[]) RETURNS oid[]
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	WITH RECURSIVE source AS (
		SELECT unnest(relations)::oid AS member
		UNION
		SELECT x.member FROM source, LATERAL (
			SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = source.member
			UNION ALL
			SELECT d.refobjid FROM pg_class v JOIN pg_rewrite r ON r.ev_class = v.oid
				JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
					AND d.refclassid = 'pg_class'::regclass
				WHERE v.oid = source.member AND v.relkind = 'v') AS x(member)
	)
	SELECT ARRAY(SELECT member FROM source ORDER BY 1)
$$;

-- Slots of this database, and the subscriptions that feed a relation or a part of it.
CREATE FUNCTION describe_replication(relation regclass) RETURNS jsonb
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED
AS $$
BEGIN
	-- the views below take long to plan, and most servers have nothing in them
	IF NOT EXISTS (SELECT FROM pg_get_replication_slots())
			AND NOT EXISTS (SELECT FROM pg_subscription_rel) THEN
		RETURN '{"slots": [], "subscriptions": []}';
	END IF;
	RETURN (SELECT jsonb_build_object(
			-- a standby's copies of its primary's slots (from 17 on) say nothing of itself
			'slots', (SELECT coalesce(jsonb_agg(s.slot_name), '[]') FROM pg_replication_slots s
				WHERE s.slot_type = 'logical' AND s.database = current_database()
				AND NOT (pg_is_in_recovery()
					AND coalesce((to_jsonb(s) ->> 'synced')::boolean, false))),
			'subscriptions', (SELECT coalesce(jsonb_agg(DISTINCT jsonb_build_object(
					'name', s.subname, 'slot', s.subslotname,
					'ready', r.srsubstate = 'r' AND s.subenabled)), '[]')
				FROM pg_subscription_rel r
				JOIN pg_stat_subscription st ON st.subid = r.srsubid
				JOIN pg_subscription s ON s.subname = st.subname AND s.subslotname IS NOT NULL
					AND s.subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())
				WHERE r.srrelid IN (SELECT relid FROM relation_tree(relation)
					UNION ALL SELECT relid FROM pg_partition_ancestors(relation)))));
END
$$;

-- DDL in flight
--
-- Describing a relation does not lock it, so another session may alter it, or give its
-- name to another one, before it is read.  Each statement that reads a relation
-- therefore locks it first (read_begin), and returns the fingerprint of what it read as
-- well.  If that is not the fingerprint of what was described, the driver starts again.

-- Gives iblt_compare_fingerprint its second argument.
CREATE FUNCTION iblt_compare_fingerprint_support(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

-- A hash of the identity of a relation and of its columns, as the statement that calls it
-- reads them.  The planner gives what it reads with the relation.
CREATE FUNCTION iblt_compare_fingerprint(relation regclass, planned text DEFAULT NULL) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL SAFE
	SUPPORT iblt_compare_fingerprint_support;

-- Conditions

-- The type of an expression on the rows of a relation, the collations that it depends on, 0 for
-- the encoding, its columns, and the enums whose order it depends on; an error unless it depends on
-- the row alone, or is a condition and not true or false.  If portable, an error also unless it
-- means the same on any server whose columns have the same types.
CREATE FUNCTION iblt_compare_check_expression(relation regclass, expression text,
	is_condition boolean, portable boolean DEFAULT false, OUT type oid, OUT base oid,
	OUT typmod integer, OUT collations oid[], OUT columns text[], OUT enums oid[]) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL RESTRICTED
	SET search_path = iblt_internal, pg_catalog, pg_temp;

-- The version of the collation of this database, given as its row of pg_database.
CREATE FUNCTION describe_own_collation(own jsonb) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	IF current_setting('server_version_num')::integer >= 150000 THEN
		RETURN pg_database_collation_actual_version((own ->> 'oid')::oid);
	END IF;
	RETURN (SELECT max(pg_collation_actual_version(c.oid)) FROM pg_collation c
		WHERE c.collprovider = 'c' AND c.collcollate = own ->> 'datcollate');
END
$$;

-- Provider, locale, version and rules of collations, as an array.  OID 0 stands for the encoding.
-- The database's own collation has OID 100.  "C" and "POSIX" order by bytes everywhere, which
-- in UTF-8 and LATIN1 is the order of characters in Unicode.
-- Some columns have other names, or are not there, in other releases.
CREATE FUNCTION describe_collations(collations oid[]) RETURNS jsonb
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	own jsonb := (SELECT to_jsonb(d) FROM pg_database d WHERE d.datname = current_database());
	encoding text := getdatabaseencoding();
BEGIN
	IF collations = '{}' THEN
		RETURN '[]';
	END IF;
	RETURN CASE WHEN 0 = ANY(collations) THEN jsonb_build_array('encoding ' || encoding)
		ELSE '[]' END || (SELECT coalesce(jsonb_agg(DISTINCT CASE
			WHEN sorts IN ('C', 'POSIX') AND folds IN ('C', 'POSIX')
				THEN concat_ws(' ', 'C', nullif(nullif(encoding, 'UTF8'), 'LATIN1'))
			ELSE regexp_replace(concat_ws(' ', provider, sorts, nullif(folds, sorts), version,
					j ->> 'daticurules', j ->> 'collicurules',
					CASE j ->> 'collisdeterministic' WHEN 'false' THEN 'nondeterministic' END),
				'utf-?8', 'UTF-8', 'gi') END), '[]')
		FROM unnest(collations) AS o(id) JOIN pg_collation c ON c.oid = o.id,
		LATERAL (SELECT CASE o.id WHEN 100 THEN own ELSE to_jsonb(c) END) AS r(j),
		LATERAL (SELECT coalesce(j ->> 'datlocprovider', j ->> 'collprovider', 'c'),
			coalesce(j ->> 'datlocale', j ->> 'daticulocale', j ->> 'colllocale',
				j ->> 'colliculocale'),
			CASE o.id WHEN 100 THEN describe_own_collation(own)
				ELSE pg_collation_actual_version(o.id) END) AS x(provider, locale, version),
		LATERAL (SELECT coalesce(locale, j ->> 'datcollate', j ->> 'collcollate'),
			coalesce(locale, j ->> 'datctype', j ->> 'collctype')) AS y(sorts, folds));
END
$$;

-- The whole description

-- What the catalogs say of a relation; NULL if it does not exist.  If "more" is true, describe_more
-- has more to say.
CREATE FUNCTION iblt_describe(relation regclass, ordered_types oid[]) RETURNS jsonb
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL RESTRICTED;

-- A relation as a comparison wants to know it, in the form of type side; an error for a
-- condition or an expression that looks beyond the row.
-- Relies on: catalogs.  The fingerprint of each later statement has to be this one.
CREATE FUNCTION describe(relation regclass, condition text DEFAULT NULL,
	mapping jsonb DEFAULT NULL) RETURNS jsonb
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED
AS $$
DECLARE
	d jsonb := iblt_describe(relation, ordered_types()) || jsonb_build_object(
		'condition', condition, 'collations', '{}'::text[]);
BEGIN
	RETURN CASE WHEN (d ->> 'more')::boolean OR num_nonnulls(condition, mapping) > 0
		THEN describe_more(d, relation, condition, mapping) ELSE d END;
END
$$;

-- A described relation, with what iblt_describe leaves out: what types of users are made of, orders
-- of keys that it leaves open, and what conditions depend on.
CREATE FUNCTION describe_more(d jsonb, relation regclass, condition text, mapping jsonb)
RETURNS jsonb
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED
AS $$
DECLARE
	made jsonb;
	value record;
	collations oid[] := '{}';
	enums oid[] := '{}';
BEGIN
	IF mapping IS NOT NULL AND d IS NOT NULL THEN
		made := made_columns(relation, mapping);
		d := map_columns(d, mapping, made);
		collations := ARRAY(SELECT jsonb_array_elements_text(made -> 'collations'));
		enums := ARRAY(SELECT jsonb_array_elements_text(made -> 'enums'));
	END IF;
	IF d @? '$.columns[*].own' THEN
		d := jsonb_set(d, '{columns}', (SELECT jsonb_agg(c - 'own'
				|| CASE WHEN type IS NULL THEN '{}' ELSE jsonb_build_object(
					'textual', describe_textual(type),
					'to_json', describe_cast_code(type, 'json'),
					'to_text', describe_cast_code(type, 'text'),
					'parts', describe_parts(type)) END ORDER BY n)
			FROM jsonb_array_elements(d -> 'columns') WITH ORDINALITY AS x(c, n),
			LATERAL (SELECT (c ->> 'own')::oid) AS own(type)));
	END IF;
	IF d @? '$.keys[*].own' THEN
		d := jsonb_set(d, '{keys}', (SELECT jsonb_agg(CASE WHEN k ? 'own'
				THEN k - 'own' || describe_order((k ->> 'own')::oid) ELSE k END ORDER BY n)
			FROM jsonb_array_elements(d -> 'keys') WITH ORDINALITY AS x(k, n)));
	END IF;
	IF condition IS NOT NULL THEN
		value := iblt_compare_check_expression(relation, condition, true);
		collations := collations || value.collations;
		enums := enums || value.enums;
	END IF;
	-- an operator on '{}' would be looked for among all of its name
	IF cardinality(collations) > 0 OR cardinality(enums) > 0 THEN
		d := jsonb_set(d, '{collations}', describe_collations(collations)
			|| (SELECT coalesce(jsonb_agg(DISTINCT o.labels), '[]')
			FROM (SELECT format('enum (%s)', string_agg(enumlabel, ', ' ORDER BY enumsortorder))
				FROM pg_enum WHERE enumtypid = ANY (enums) GROUP BY enumtypid) AS o(labels)));
	END IF;
	RETURN d || describe_shards(relation, d ->> 'kind' = 'r' AND (d ->> 'ordinary')::boolean)
		|| describe_replication(relation) || '{"more": true}';
END
$$;

-- The first question to a side: which protocol, and if it has the same one, what a relation is
-- (null if there is none), perhaps with its live digest; otherwise which version.
CREATE FUNCTION hello(protocol integer, relation regclass, condition text, live boolean,
	mapping jsonb DEFAULT NULL) RETURNS jsonb
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED
AS $$
BEGIN
	IF protocol IS DISTINCT FROM protocol() THEN
		RETURN jsonb_build_object('protocol', protocol(), 'version',
			(SELECT extversion FROM pg_extension WHERE extname = 'iblt'));
	END IF;
	RETURN jsonb_build_object('protocol', protocol, 'side',
		describe(relation, condition, mapping) || CASE WHEN live
			THEN jsonb_build_object('live', live_digest(relation)) ELSE '{}' END);
END
$$;

-- The same with the live digest, and if that of the asker is of the same kind, a fold that is
-- large enough to tell how they differ; "small" is a fold of the asker's.
-- What cannot be answered is left out, and the asker reads the digests later or scans.
-- Relies on: the stores of the digest, in the snapshot of the statement that calls it.
CREATE FUNCTION hello_live(protocol integer, relation regclass, condition text, small text,
	subtable_cells integer) RETURNS jsonb
	LANGUAGE plpgsql STABLE PARALLEL UNSAFE
AS $$
DECLARE
	answer jsonb := hello(protocol, relation, condition, true);
	digest live_digest := jsonb_populate_record(NULL::live_digest, answer #> '{side,live}');
	own declared.sketch%TYPE;
	asked declared.sketch%TYPE;
BEGIN
	IF digest.reason IS NULL AND gcd(subtable_cells, digest.subtable_cells) >= 70 THEN
		own := iblt_live(relation);
		digest.fingerprint := iblt_compare_fingerprint(relation);
		IF subtable_cells <> digest.subtable_cells THEN
			own := iblt_compare_fold(own, gcd(subtable_cells, digest.subtable_cells));
		END IF;
		asked := small;
		digest.fold := live_fold(own, asked)::text;
		answer := jsonb_set(answer, '{side,live}', to_jsonb(digest));
	END IF;
	RETURN answer;
EXCEPTION WHEN @on_error@ THEN
	-- digests of different kinds, or one that has just become untrustworthy
	RETURN hello(protocol, relation, condition, true);
END
$$;

-- Sketches

-- An empty sketch of at least that capacity that can be folded to the largest number of
-- sizes.
CREATE FUNCTION iblt_compare_template(capacity integer, key_size integer, seed bigint)
RETURNS @extschema@.iblt
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

-- What iblt_info says, but only what the header knows: the cells are not looked at.
CREATE FUNCTION iblt_header(s @extschema@.iblt, OUT hashes integer, OUT cells integer,
	OUT capacity integer, OUT rows bigint) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

-- Replication
--
-- A peer without iblt is asked for the bodies of the functions in this section, and of
-- relation_sources, audit_tables, audit_published, audit_feeds, audit_generated, run_probe,
-- run_lag, repair_describe, repair_check_origin, repair_check_session, repair_lock_tables and
-- repair_flushed (plain_call).  So they name nothing but what PostgreSQL has.

-- A position in this server's WAL behind all that is visible now, which is flushed, so a crash
-- does not lose it.
CREATE FUNCTION iblt_wal_position() RETURNS pg_lsn
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

-- The same of a peer without iblt, perhaps not flushed, or behind what is flushed.
-- A number, because arithmetic on pg_lsn is not in all releases.  Where the next
-- record would begin behind a page header, the last one ended before it.  A
-- standby shows a commit shortly before it counts as replayed.
CREATE FUNCTION wal_position(flushed boolean) RETURNS numeric
	LANGUAGE sql VOLATILE PARALLEL RESTRICTED
AS $$
	SELECT p - CASE WHEN p % current_setting('wal_block_size')::numeric IN (24, 40)
		THEN p % current_setting('wal_block_size')::numeric ELSE 0 END
	FROM (SELECT CASE
		WHEN pg_is_in_recovery() THEN greatest(pg_last_wal_replay_lsn(), pg_last_wal_receive_lsn())
		WHEN flushed THEN pg_current_wal_flush_lsn()
		ELSE pg_current_wal_insert_lsn() END - '0/0'::pg_lsn) AS w(p)
$$;

-- Has this standby passed a position?
CREATE FUNCTION wal_replayed("position" numeric) RETURNS boolean
	LANGUAGE sql VOLATILE PARALLEL RESTRICTED
AS $$
	SELECT NOT pg_is_in_recovery()
		OR pg_last_wal_replay_lsn() - '0/0'::pg_lsn >= wal_replayed."position"
$$;

-- The position up to which a slot's subscriber has applied everything.
CREATE FUNCTION slot_applied(slot text) RETURNS numeric
	LANGUAGE sql VOLATILE PARALLEL RESTRICTED
AS $$
	SELECT s.confirmed_flush_lsn - '0/0'::pg_lsn FROM pg_replication_slots s
	WHERE s.slot_name = slot AND s.database = current_database()
$$;

-- The positions that subscriptions of a slot have received.
-- Several subscriptions may have slots of one name, on different publishers.
CREATE FUNCTION slot_received(slot text) RETURNS numeric[]
	LANGUAGE sql VOLATILE PARALLEL RESTRICTED
AS $$
	SELECT coalesce(array_agg(st.received_lsn - '0/0'::pg_lsn), '{}')
	FROM pg_subscription s JOIN pg_stat_subscription st ON st.subname = s.subname
	WHERE s.subslotname = slot
	AND s.subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())
	AND st.subid IN (SELECT srsubid FROM pg_subscription_rel)
	AND st.relid IS NULL AND st.received_lsn IS NOT NULL
$$;

-- How a slot is behind, for people.
CREATE FUNCTION slot_said(slot text) RETURNS text
	LANGUAGE sql VOLATILE PARALLEL RESTRICTED
AS $$
	SELECT concat(CASE WHEN NOT s.active THEN 'nothing is connected to the slot, which is '
			ELSE 'the slot is ' END,
		pg_size_pretty(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
			ELSE pg_current_wal_lsn() END - s.confirmed_flush_lsn), ' behind')
	FROM pg_replication_slots s WHERE s.slot_name = slot AND s.database = current_database()
$$;

-- How the subscription of a slot does, for people.
CREATE FUNCTION subscription_said(slot text) RETURNS text
	LANGUAGE sql VOLATILE PARALLEL RESTRICTED
AS $$
	SELECT string_agg(format(CASE WHEN NOT s.subenabled THEN 'subscription "%s" is disabled'
			WHEN NOT EXISTS (SELECT FROM pg_stat_subscription st WHERE st.subid = s.oid
				AND st.relid IS NULL AND st.pid IS NOT NULL)
			THEN 'subscription "%s" has no apply worker, and the log of its server says why'
			ELSE 'subscription "%s" has an apply worker' END, s.subname), ', ')
	FROM pg_subscription s WHERE s.subslotname = slot
	AND s.subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())
$$;

-- How this standby does, for people.
CREATE FUNCTION standby_said() RETURNS text
	LANGUAGE sql VOLATILE PARALLEL RESTRICTED
AS $$
	SELECT CASE WHEN NOT pg_is_in_recovery() THEN NULL
		WHEN pg_is_wal_replay_paused() THEN 'replay on the standby is paused'
		ELSE format('the standby has still to replay %s of what it has received',
			pg_size_pretty(pg_last_wal_receive_lsn() - pg_last_wal_replay_lsn())) END
$$;

-- The transactions under way that may have written to a relation of this primary; for a view,
-- all that have written anything.
-- A transaction keeps its locks until it is visible, long after its WAL was sent if
-- it waits for a synchronous standby.  A snapshot would not do: it does not name the
-- latest transactions.  A partition attached in the same transaction is not in the
-- tree yet; its parent is locked in a weaker mode.
CREATE FUNCTION writers(target regclass) RETURNS text[]
	LANGUAGE sql VOLATILE PARALLEL RESTRICTED
AS $$
	WITH RECURSIVE tree AS (
		SELECT c.oid, c.relkind FROM pg_class c WHERE c.oid = target
		UNION
		SELECT c.oid, c.relkind FROM tree
		JOIN pg_inherits i ON i.inhparent = tree.oid JOIN pg_class c ON c.oid = i.inhrelid
	)
	SELECT coalesce(array_agg(DISTINCT l.virtualtransaction), '{}')
	FROM pg_locks l LEFT JOIN tree ON tree.oid = l.relation
		AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
	WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() AND NOT pg_is_in_recovery()
	AND CASE WHEN EXISTS (SELECT FROM tree WHERE relkind NOT IN ('r', 'p', 'm'))
		THEN l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock'
		ELSE l.locktype = 'relation' AND (tree.relkind = 'p' AND l.mode = 'ShareUpdateExclusiveLock'
			OR tree.oid IS NOT NULL AND l.mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock',
				'ExclusiveLock', 'AccessExclusiveLock')) END
$$;

-- Those of running transactions that may have inserted their commit records before the call.
-- Followers may show their rows, and this server does not.
CREATE FUNCTION iblt_committing(xids xid[]) RETURNS xid[]
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

-- Those that may have written to a relation of this primary.
-- A transaction without an ID has not inserted a commit record.  It is asked for its ID after
-- its lock was seen, so a transaction that has none by then was visible or had not committed.
CREATE FUNCTION committing(target regclass) RETURNS xid[]
	LANGUAGE plpgsql VOLATILE PARALLEL RESTRICTED
AS $$
DECLARE
	writers text[] := writers(target);
BEGIN
	RETURN iblt_committing(ARRAY(SELECT l.transactionid FROM pg_locks l
		WHERE l.granted AND l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock'
		AND l.virtualtransaction = ANY (writers)));
END
$$;
