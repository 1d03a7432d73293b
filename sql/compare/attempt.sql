-- Attempts -----------------------------------------------------------------------------
--
-- A driver makes up to three attempts.  It begins again if a relation was altered meanwhile, if
-- live digests contradict the rows, or without a node that has failed.
--
-- An attempt has the peers, which may be connection strings.  So it is handed on in assignments
-- alone (iblt_peer_is_string).

-- The first attempt to compare two sides, or with "without" the nodes, which are all peers.
CREATE FUNCTION first_attempt(peers text[], options options, without text DEFAULT NULL)
RETURNS attempt
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
	RETURN ROW(1, peers, NULL, NULL, options, options.method, without, NULL, cardinality(peers)
		)::attempt;
END
$$;

-- An attempt that is connected, and knows how peers are asked.  The arguments of the first one are
-- checked, and get a label for what a driver does, which is that of its sessions, the name of the
-- relation, the condition there, and a random seed.  A relation elsewhere, or of nodes, is named by
-- here_relation.
-- The drivers give names to connections and nodes (peer_conns, nodes_names), and call this, in the
-- block with their handler.  The handler closes connections, leaves out a node that could not be
-- reached, and keeps the statement, and passwords in it, out of the log.
CREATE FUNCTION begin_attempt(a attempt, does text, relation regclass DEFAULT NULL,
	here_relation text DEFAULT NULL) RETURNS attempt
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	nodes boolean := a.without IS NOT NULL;
BEGIN
	IF (a.options).label IS NULL THEN
		IF nodes OR a.conns[1] IS NOT NULL THEN
			IF NOT nodes AND (relation IS NOT NULL OR here_relation IS NULL) THEN
				RAISE invalid_parameter_value USING
					MESSAGE = 'with here_peer, here_relation names the relation, and not relation',
					HINT = 'Give here_relation => ''shop.items''. It need not exist in this '
						'database.';
			END IF;
			a.options.relation_name := nodes_relation(here_relation,
				CASE WHEN nodes THEN 'relation' ELSE 'here_relation' END);
			relation := 'pg_catalog.pg_class';
		ELSIF here_relation IS NOT NULL THEN
			RAISE invalid_parameter_value USING MESSAGE = 'here_relation needs here_peer',
				HINT = 'Give here_peer too, or name a relation of this database in relation.';
		ELSE
			a.options.relation_name := relation_name(relation);
		END IF;
		PERFORM check_options(relation, a.options, nodes);
		a.options.peer_condition := coalesce((a.options).peer_condition, (a.options).condition);
		a.options.seed := coalesce((a.options).seed, random_seed());
		a.options.label := does || ' ' || (a.options).relation_name;
	END IF;
	a.conns := connect(a.peers, a.conns, (a.options).timeout, a.names);
	IF a.method <> 'sketch' THEN
		a.options.method := plain_method(a.conns, a.method, a.names);
	END IF;
	RETURN a;
END
$$;

-- After an error of an attempt: is a relation altered, or is there another reason to begin again?
-- After three attempts, an error that says so.
-- A statement may also fail because a column is gone, or is of another type.
CREATE FUNCTION restarts(conns text[], peers text[], plan plan,
	attempt integer, e failure) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	seen text[];
	altered side;
BEGIN
	IF e.state = 'IB004' OR e.state = 'IB008' AND plan.from_digests AND plan.live = 'auto' THEN
		PERFORM peers_close(conns);
		RETURN attempt < 3;
	ELSIF plan IS NULL OR left(e.state, 2) NOT IN ('0A', '22', '3F', '42', 'XX') THEN
		RETURN false;
	END IF;
	PERFORM peers_close(conns);
	BEGIN
		conns := connect(peers, conns, names => iblt_field(plan.sides, 'side'));
		PERFORM peers_bare(ARRAY(SELECT CASE WHEN s.bare THEN s.place END
			FROM unnest(sides_of(plan)) AS s));
		seen := ask_values(places_of(plan), ARRAY(SELECT 'SELECT ' || read_fingerprint_sql(s,
				format('pg_catalog.to_regclass(%L)', s.relation))
			FROM unnest(sides_of(plan)) AS s));
		FOR n IN REVERSE cardinality(seen) .. 1 LOOP
			IF seen[n] IS DISTINCT FROM ((sides_of(plan))[n]).fingerprint THEN
				altered := (sides_of(plan))[n];
			END IF;
		END LOOP;
	EXCEPTION WHEN @on_error@ THEN
		NULL;	-- the driver raises the error before this one
	END;
	PERFORM peers_close(conns);
	IF altered.side IS NOT NULL AND attempt = 3 THEN
		PERFORM refuse_altered(altered.relation, altered.side, e.message);
	END IF;
	RETURN altered.side IS NOT NULL;
END
$$;

-- After an error: the attempt to begin next, or one without a number if the error is to be told.
-- The next one scans if digests do not do.  A driver tells that what it does starts again.  An
-- audit does not.  "failed" is the name of the node that is left out from this attempt on.
-- A node that is left out does not count as an attempt.  A digest that is not trustworthy any
-- more does not fail a node, nor does a relation that was altered, before the third attempt.
CREATE FUNCTION next_attempt(INOUT a attempt, plan plan, INOUT e failure,
	does text DEFAULT NULL, OUT failed text)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	n integer := CASE WHEN e.state <> 'IB008' AND a.without = 'skip' AND cardinality(a.names) > 2
		THEN nodes_failed(a.names, e.message) END;
	again boolean;
BEGIN
	BEGIN
		again := restarts(a.conns, a.peers, plan, a.number, e);
	EXCEPTION WHEN SQLSTATE 'IB004' THEN
		again := false;
		IF n IS NULL THEN
			@take_failure@;
		END IF;
	END;
	IF again THEN
		a.number := a.number + 1;
		IF e.state = 'IB008' THEN
			a.options.live_problem := regexp_replace(e.message,
				'^live digests cannot be used: ', '');
		END IF;
		PERFORM progress(does IS NOT NULL AND (a.options).progress, format(
			'%s, the %s starts again', CASE e.state WHEN 'IB008' THEN 'digests cannot be used'
				ELSE 'a relation was altered' END, does));
	ELSIF n IS NOT NULL THEN
		PERFORM peers_close(a.conns);
		a.secret := a.secret OR peers_secret(a.peers);
		failed := a.names[n];
		a.peers := a.peers[: n - 1] || a.peers[n + 1 :];
		a.names := a.names[: n - 1] || a.names[n + 1 :];
		a.conns := a.conns[: n - 1] || a.conns[n + 1 :];
	ELSE
		a.number := NULL;
	END IF;
END
$$;

-- For the handler of a driver: the attempt to begin next.  If there is none, the connections are
-- closed and the error is raised, or the driver is to raise it as it is: then the attempt has no
-- number.
CREATE FUNCTION begin_again(a attempt, plan plan, e failure) RETURNS attempt
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	-- no query may have the peers among its values
	secret boolean := a.secret OR peers_secret(a.peers);
	next record;
BEGIN
	BEGIN
		next := next_attempt(a, plan, e, CASE WHEN starts_with((a.options).label, 'iblt_repair')
			THEN 'repair' ELSE 'comparison' END);
	EXCEPTION WHEN @on_any_error@ THEN
		@take_failure@;
		PERFORM iblt_raise(peers_fail(a.conns, true, e), 3);
	END;
	IF (next.a).number IS NULL THEN
		PERFORM iblt_raise(peers_fail(a.conns, secret OR next.e IS DISTINCT FROM e, next.e), 3);
	END IF;
	PERFORM iblt_tell('warning', 'node "' || next.failed || '" is left out',
		concat_ws(' ', e.message || '.', nullif(e.detail, '')));
	RETURN next.a;
END
$$;
