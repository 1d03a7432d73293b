-- Live digests: start and end ------------------------------------------------------------

-- Key and columns as a comparison would choose them, and a template.
-- before is how it was tracked.  As long as the key's type allows it, keys go into the sketch
-- as then, because another digest may have been made to be compared with this one.
CREATE FUNCTION track_plan(relation regclass,
	key_columns text[],
	columns text[], capacity integer,
	seed bigint, before tracking DEFAULT NULL) RETURNS tracking
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	extra_columns text := 'ignore';
	max_differences bigint := 1;
	content text := 'none';
	options options := @arguments options@;
	here side := described(describe(relation), 'here');
	plan plan;
	size integer;
BEGIN
	PERFORM check_options(relation, options);
	plan := make_plan(here, here, options);
	IF plan.whole_row THEN
		RAISE object_not_in_prerequisite_state USING
			MESSAGE = format('table "%s" cannot be tracked, because it has no unique key',
				relation),
			HINT = 'Create a primary key, or name the columns in key_columns.';
	END IF;
	size := key_size(plan.key);
	IF before.by_hash THEN
		plan.by_hash := true;
		plan.key_size := (iblt_info(before.template)).key_size;
	ELSIF NOT before.by_hash AND size <= 32 THEN
		plan.by_hash := false;
		plan.key_size := size;
	END IF;
	RETURN ROW(before.generation, iblt_field(plan.key), iblt_field(plan.columns), columns IS NULL,
		plan.by_hash, false, capacity, iblt_compare_template(capacity, plan.key_size, seed));
END
$$;

-- The types of columns, and what these are made of; empty for a column that does not exist.
CREATE FUNCTION track_types(relation regclass, names text[]) RETURNS text[]
	LANGUAGE sql STABLE PARALLEL UNSAFE
	RETURN ARRAY(SELECT concat_ws(' made of ', c.type, c.parts)
		FROM unnest(names) WITH ORDINALITY AS u(name, n)
		LEFT JOIN unnest((described(describe(relation), 'here')).columns) AS c USING (name)
		ORDER BY u.n);

-- How a table is tracked here, for another server; the JSON null if it is not.
CREATE FUNCTION track_offer(relation text) RETURNS jsonb
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	RETURN (SELECT CASE WHEN o.template IS NULL THEN 'null' ELSE to_jsonb(o)
			|| jsonb_build_object('types', track_types(r.oid, o.key_columns || o.columns)) END
		FROM (SELECT to_regclass(relation)) AS r(oid), iblt_live_options(r.oid) AS o);

-- What the peer tracks, to be tracked here in the same way; an error if the offer leaves something
-- out, with which the functions in C would do nothing.
CREATE FUNCTION track_accept(relation regclass, offer jsonb) RETURNS tracking
	LANGUAGE plpgsql STABLE PARALLEL UNSAFE
AS $$
DECLARE
	options tracking := jsonb_populate_record(NULL::tracking, nullif(offer, 'null'));
	names text[] := options.key_columns || options.columns;
	mine text[] := track_types(relation, names);
	theirs text[] := ARRAY(SELECT jsonb_array_elements_text(offer -> 'types'));
BEGIN
	IF NOT options IS NOT NULL THEN
		RAISE object_not_in_prerequisite_state USING MESSAGE = 'the peer does not track its table',
			HINT = 'CALL iblt_track on the peer first.';
	ELSIF mine IS DISTINCT FROM theirs THEN
		RAISE datatype_mismatch USING
			MESSAGE = 'tracked columns do not have the same types on both sides',
			DETAIL = format('Columns %s are %s here and %s on the peer.',
				quoted(names), mine, theirs),
			HINT = 'Track columns on the peer that both sides have with the same type.';
	END IF;
	options.from_peer := true;
	options.all_columns := false;
	RETURN options;
END
$$;

-- A table's own triggers that record changes, and whether each is as it should be.
-- A constraint trigger could be deferred until after the digest is read.
CREATE FUNCTION track_triggers(relation regclass, OUT name text, OUT of_rows boolean,
	OUT usable boolean) RETURNS SETOF record
	LANGUAGE sql STABLE PARALLEL SAFE ROWS 2
AS $$
	SELECT tgname::text, of_rows, fits AND id = min(id) FILTER (WHERE fits)
			OVER (PARTITION BY of_rows)
	FROM (SELECT oid AS id, tgname,
			tgfoid = 'iblt_internal.iblt_track_row()'::regprocedure,
			tgnargs = 0 AND tgqual IS NULL AND tgattr = '' AND tgoldtable IS NULL
				AND tgnewtable IS NULL AND tgconstraint = 0 AND CASE tgfoid
				WHEN 'iblt_internal.iblt_track_row()'::regprocedure THEN tgtype = 29
				ELSE tgtype = 32 END
		FROM pg_trigger
		WHERE tgrelid = relation AND tgparentid = 0
			AND tgfoid IN ('iblt_internal.iblt_track_row()'::regprocedure,
				'iblt_internal.iblt_track_truncate()'::regprocedure)
		) AS t(id, tgname, of_rows, fits)
$$;

-- Drops the triggers that record changes, or only those that are not as they should be.
CREATE FUNCTION track_drop_triggers(relation regclass, all_of_them boolean) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	name text;
BEGIN
	FOR name IN SELECT t.name FROM track_triggers(relation) AS t WHERE all_of_them OR NOT t.usable
	LOOP
		EXECUTE format('DROP TRIGGER %I ON %s', name, relation);
	END LOOP;
END
$$;

-- Waits for the writers of a table, and holds up others until the transaction ends.
CREATE FUNCTION track_lock(relation regclass) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	kind "char" := (SELECT relkind FROM pg_class WHERE oid = relation);
BEGIN
	IF relation IS NULL THEN
		RAISE null_value_not_allowed USING MESSAGE = 'relation must not be null';
	ELSIF coalesce(kind NOT IN ('r', 'p'), true) THEN
		RAISE wrong_object_type USING
			MESSAGE = format('table "%s" cannot be tracked, because it is not a table', relation);
	END IF;
	-- waits for all transactions that have written to it
	EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', relation);
END
$$;

-- Creates the triggers and begins to record changes, also those that apply workers make.
-- Triggers that are as they should be stay, because DROP TRIGGER would wait for readers.
-- Partitions have copies of a row trigger, which come and go with them.  The name of a
-- copy must not be that of another trigger, or ATTACH PARTITION would fail.  TRUNCATE
-- triggers have no copies, but TRUNCATE of a partition shows in its files (src/digest/shape.c).
CREATE FUNCTION track_begin(relation regclass, options tracking) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	part regclass;
	name text;
BEGIN
	IF row_security_active(relation) THEN
		RAISE insufficient_privilege USING
			MESSAGE = format('table "%s" cannot be tracked, because row-level security hides rows',
				relation),
			HINT = 'Track it as a role that sees all rows.';
	END IF;
	PERFORM track_drop_triggers(relation, false);
	IF NOT EXISTS (SELECT FROM track_triggers(relation) AS t WHERE t.of_rows) THEN
		EXECUTE format('CREATE TRIGGER %I AFTER INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW'
			' EXECUTE FUNCTION iblt_track_row()',
			(SELECT 'iblt_track_row' || CASE relkind WHEN 'p'
				THEN '_' || left(gen_random_uuid()::text, 8) ELSE '' END
			FROM pg_class WHERE oid = relation), relation);
	END IF;
	IF NOT EXISTS (SELECT FROM track_triggers(relation) AS t WHERE NOT t.of_rows) THEN
		EXECUTE format('CREATE TRIGGER iblt_track_truncate AFTER TRUNCATE ON %s'
			' FOR EACH STATEMENT EXECUTE FUNCTION iblt_track_truncate()', relation);
	END IF;
	-- Lets them fire for apply workers, too.  ALTER TABLE does the same for partitions' copies.
	-- Before 14.5 it leaves out copies that differ.
	FOR part IN SELECT relation UNION ALL
		SELECT relid FROM pg_partition_tree(relation) WHERE relid <> relation
	LOOP
		FOR name IN SELECT t.tgname FROM pg_trigger t WHERE t.tgrelid = part
			AND t.tgname IN (SELECT r.name FROM track_triggers(relation) AS r)
			AND (t.tgparentid = 0) = (part = relation) AND t.tgenabled <> 'A'
		LOOP
			EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', part, name);
		END LOOP;
	END LOOP;
	RETURN iblt_track_begin(relation, options.key_columns || options.columns,
		cardinality(options.key_columns),
		options.all_columns, options.by_hash, options.from_peer, options.capacity,
		options.template);
END
$$;

-- The first transaction of iblt_track.
-- An offer is what track_offer answers for a table that the digest is to be compared with, which
-- may be one of this database.
CREATE FUNCTION track_start(relation regclass, key_columns text[], columns text[],
	capacity integer, offer jsonb, peer_relation text DEFAULT NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = iblt_internal, pg_catalog, pg_temp
	SET client_min_messages = warning
AS $$
DECLARE
	options tracking;
BEGIN
	IF peer_relation IS NOT NULL THEN
		offer := track_offer(peer_name(relation_name(relation), peer_relation));
	END IF;
	PERFORM track_lock(relation);
	IF offer IS NULL THEN
		options := track_plan(relation, key_columns, columns,
			coalesce(capacity, 10000), random_seed());
	ELSIF coalesce(key_columns, columns) IS NOT NULL THEN
		RAISE invalid_parameter_value USING
			MESSAGE = 'key_columns and columns cannot be given with a peer',
			HINT = 'Both sides track the columns that the peer tracks.';
	ELSE
		options := track_accept(relation, offer);
		-- templates are of 2520 cells doubled a number of times, so one is a fold of the other
		IF capacity IS NOT NULL THEN
			options.capacity := capacity;
			options.template := iblt_compare_template(capacity,
				(iblt_info(options.template)).key_size, (iblt_info(options.template)).seed);
		END IF;
	END IF;
	RETURN track_begin(relation, options);
END
$$;

-- The first transaction of iblt_live_rebuild.
-- The options are as they were, but the columns may have changed.
CREATE FUNCTION track_restart(relation regclass) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = iblt_internal, pg_catalog, pg_temp
	SET client_min_messages = warning
AS $$
DECLARE
	options tracking;
BEGIN
	PERFORM track_lock(relation);
	options := iblt_live_options(relation);
	IF options.template IS NULL THEN
		RAISE object_not_in_prerequisite_state USING
			MESSAGE = format('table "%s" is not tracked', relation),
			HINT = format('CALL iblt_track(%L);', relation);
	ELSIF array_position(options.columns, NULL) > 0
		AND (options.from_peer OR NOT options.all_columns) THEN
		RAISE object_not_in_prerequisite_state USING
			MESSAGE = format('a tracked column of table "%s" was dropped', relation),
			HINT = 'CALL iblt_track with the columns that it has now.';
	ELSIF NOT options.from_peer THEN
		options := track_plan(relation,
			CASE WHEN array_position(options.key_columns, NULL) IS NULL
				THEN options.key_columns END,
			CASE WHEN NOT options.all_columns THEN options.columns END, options.capacity,
			(iblt_info(options.template)).seed, options);
	END IF;
	RETURN track_begin(relation, options);
END
$$;

-- Drops the triggers of a table and all that is kept of it.
CREATE FUNCTION track_stop(relation regclass) RETURNS void
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	SET search_path = iblt_internal, pg_catalog, pg_temp
AS $$
	SELECT track_lock(relation);
	SELECT track_drop_triggers(relation, true);
	SELECT iblt_track_end(relation)
$$;
