-- Live digests that are compared with those of a peer -------------------------------------
--
-- iblt_track takes columns, key and template from the digest of a peer's table.
-- iblt_track_all tracks the tables that iblt_audit would compare, on the peer first.  As in
-- iblt_track, each table is locked in one transaction and scanned in the next one, so an error is
-- caught in each step.

-- An error for a place without the extension that keeps digests.
CREATE FUNCTION track_require(conn text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	IF NOT ask_one(conn, $q$SELECT to_regproc('iblt_internal.track_offer') IS NOT NULL$q$)::boolean
	THEN
		RAISE object_not_in_prerequisite_state USING
			MESSAGE = 'extension iblt_live is not installed '
				|| CASE WHEN conn IS NULL THEN 'here' ELSE 'on ' || peer_title(conn) END,
			HINT = 'Run CREATE EXTENSION iblt_live there.';
	END IF;
END
$$;

-- The value of a query that writes on the peer, in a transaction of its own.
CREATE FUNCTION track_run(conn text, query text) RETURNS text
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	RETURN CASE WHEN peer_send(conn, peer_trust_sql() || query) THEN peer_value(conn) END;

-- The first transaction of iblt_track with a peer, or of a table of iblt_track_all, which makes a
-- digest there if there is none that is live.  Then one that was made for nothing goes again, and
-- there is no generation if the digest here need not be made.
CREATE FUNCTION track_start_as(relation regclass, peer text, peer_relation text,
	capacity integer, makes boolean DEFAULT false) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = iblt_internal, pg_catalog, pg_temp
AS $$
DECLARE
	conn text := CASE WHEN peer IS NOT NULL THEN 'iblt_' || gen_random_uuid() END;
	name text := peer_name(relation_name(relation), peer_relation);
	state text := 'live';
	begun text;				-- the generation there
	offer jsonb;
	wanted tracking;
	seen tracking;
	e failure;
BEGIN
	conn := (connect(ARRAY[peer], ARRAY[conn]))[1];
	IF makes THEN
		state := ask_one(conn, format('SELECT track_state(%L)', name), 'iblt_track');
	ELSE
		PERFORM track_require(place) FROM unnest(ARRAY[NULL, conn]) AS place;
	END IF;
	IF state IS DISTINCT FROM 'live' THEN
		-- ends what runs there if this side ends
		PERFORM track_run(conn, $q$SELECT pg_catalog.set_config('client_connection_check_interval',
			'1000', false) WHERE pg_catalog.version() LIKE '%linux%'$q$);
		begun := track_run(conn, format(CASE WHEN state IS NULL
			THEN 'SELECT iblt_internal.track_start(%L, NULL, NULL, %L, NULL)'
			ELSE 'SELECT iblt_internal.track_restart(%L)' END, name, capacity));
		PERFORM track_run(conn, format('SELECT iblt_internal.track_scan(%L, %L)', name, begun));
	END IF;
	BEGIN
		offer := coalesce(ask_one(conn, format('SELECT track_offer(%L)', name), 'iblt_track'),
			'null');
		IF makes THEN
			wanted := track_accept(relation, offer);
			seen := iblt_live_options(relation);
			capacity := NULL;
		END IF;
		IF (seen.template::bytea = wanted.template::bytea AND seen.columns = wanted.columns
				AND seen.key_columns = wanted.key_columns
				AND track_state(relation::text) = 'live') IS NOT TRUE THEN
			begun := track_start(relation, NULL, NULL, capacity, offer);
		ELSE
			begun := NULL;
		END IF;
	EXCEPTION WHEN @on_error@ THEN
		IF state IS NULL THEN
			PERFORM track_run(conn, format('SELECT iblt_internal.track_stop(%L)', name));
		END IF;
		RAISE;
	END;
	PERFORM peers_close(ARRAY[conn], false);
	RETURN begun;
EXCEPTION WHEN @on_any_error@ THEN
	@take_failure@;
	PERFORM iblt_raise(peers_fail(ARRAY[conn], peers_secret(ARRAY[peer]), e), 3);
	RAISE;
END
$$;

CREATE PROCEDURE @extschema@.iblt_track(
	relation regclass,
	peer text,
	peer_relation text DEFAULT NULL,
	capacity integer DEFAULT NULL,
	progress boolean DEFAULT false)
	LANGUAGE plpgsql
AS $$
DECLARE
	generation pg_catalog.int8;
BEGIN
	PERFORM iblt_internal.iblt_require_no_block('iblt_track');
	generation := iblt_internal.track_start_as(relation, peer, peer_relation, capacity);
	COMMIT;
	PERFORM iblt_internal.track_scan(relation, generation, progress);
END
$$;
COMMENT ON PROCEDURE @extschema@.iblt_track(regclass, text, text, integer, boolean) IS
'starts to keep a digest of a table, with the options of a peer''s digest';

-- The peer, which is the publisher if a subscription is named alone, and the tables that an
-- audit would compare.
CREATE FUNCTION track_list(INOUT peer text, target audit_target, schema text,
	OUT items audit_item[])
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = iblt_internal, pg_catalog, pg_temp
AS $$
DECLARE
	conn text := 'iblt_' || gen_random_uuid();
	recheck integer := 0;
	content text := 'none';
	e failure;
BEGIN
	-- nobody tracks a whole database by leaving something out
	IF target.kind = 'database' AND schema IS NULL THEN
		RAISE invalid_parameter_value USING
			MESSAGE = 'exactly one of tables, schema, publication and subscription must be given';
	END IF;
	PERFORM audit_check(false, false, target, @arguments options@);
	IF target.kind = 'subscription' THEN
		peer := audit_peer(target.name, peer);
	END IF;
	conn := (connect(ARRAY[peer], ARRAY[CASE WHEN peer IS NOT NULL THEN conn END]))[1];
	PERFORM track_require(place) FROM unnest(ARRAY[NULL, conn]) AS place;
	IF conn IS NOT NULL THEN
		PERFORM audit_check_peers(ARRAY[NULL, conn]);
	END IF;
	items := audit_list(ARRAY[NULL, conn], target);
	PERFORM peers_close(ARRAY[conn]);
EXCEPTION WHEN @on_any_error@ THEN
	@take_failure@;
	PERFORM iblt_raise(peers_fail(ARRAY[conn], peers_secret(ARRAY[peer]), e), 3);
	RAISE;
END
$$;

-- The first transaction of a table: no generation if it need not be scanned, or a problem if it
-- cannot be tracked.
CREATE FUNCTION track_first(peer text, item audit_item, capacity integer, OUT generation bigint,
	OUT problem text)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = iblt_internal, pg_catalog, pg_temp
AS $$
BEGIN
	IF item.relid IS NULL THEN
		problem := 'it does not exist here';
	ELSIF peer IS NULL THEN
		generation := track_start(item.relid, NULL, NULL, capacity, NULL);
	ELSE
		generation := track_start_as(item.relid, peer, NULL, capacity, true);
	END IF;
EXCEPTION WHEN @on_error@ THEN
	problem := SQLERRM;
END
$$;

-- The second one: the scan here; says how the table is, and whether it is tracked.
CREATE FUNCTION track_second(item audit_item, generation bigint, problem text) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = iblt_internal, pg_catalog, pg_temp
AS $$
BEGIN
	IF problem IS NULL AND generation IS NOT NULL THEN
		BEGIN
			PERFORM track_scan(item.relid, generation);
		EXCEPTION WHEN @on_error@ THEN
			problem := SQLERRM;
		END;
	END IF;
	IF problem IS NOT NULL THEN
		PERFORM iblt_tell('warning',
			format('table %s is not tracked: %s', audit_name(item), problem),
			hint => CASE WHEN problem ~ 'permission denied|must be owner' THEN
				'A role can track the tables that it owns, here and on the peer.' END);
		RETURN false;
	END IF;
	PERFORM iblt_tell('notice', format('table %s is tracked%s', audit_name(item),
		CASE WHEN generation IS NULL THEN ' already' ELSE '' END));
	RETURN true;
END
$$;

-- Without operators, because a procedure that commits has no search_path of its own.
CREATE PROCEDURE @extschema@.iblt_track_all(
	@iblt_audit: peer tables schema publication subscription@
	capacity integer DEFAULT NULL,
	INOUT tracked bigint DEFAULT 0,
	INOUT not_tracked bigint DEFAULT 0)
	LANGUAGE plpgsql
AS $$
DECLARE
	target iblt_internal.audit_target;
	found record;
	item iblt_internal.audit_item;
	first record;
BEGIN
	PERFORM iblt_internal.iblt_require_no_block('iblt_track_all');
	target := iblt_internal.audit_make_target(tables, schema, publication, subscription);
	found := iblt_internal.track_list(peer, target, schema);
	FOREACH item IN ARRAY found.items LOOP
		first := iblt_internal.track_first(found.peer, item, capacity);
		COMMIT;
		IF iblt_internal.track_second(item, first.generation, first.problem) THEN
			tracked := pg_catalog.int8inc(tracked);
		ELSE
			not_tracked := pg_catalog.int8inc(not_tracked);
		END IF;
		COMMIT;
	END LOOP;
END
$$;
COMMENT ON PROCEDURE @extschema@.iblt_track_all IS
'starts to keep digests of the tables that iblt_audit would compare, on a peer and here';
