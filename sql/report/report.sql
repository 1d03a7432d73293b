-- Reports ------------------------------------------------------------------------------
--
-- A report says what an audit found, in one of several forms: for people (text.sql), for
-- monitoring (metrics.sql), or as a page (page.sql).  It is made of the rows of iblt_audit,
-- or of a run, and changes nothing.  bin/iblt-audit writes these forms.

-- What a server answers to a plain query, or this database without one, and its address; NULL
-- after an error there, or 5 seconds without an answer, because a report does without it.
CREATE FUNCTION report_ask(peer text, query text, OUT answer text, OUT address text)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	conn text := CASE WHEN peer IS NOT NULL THEN 'iblt_' || gen_random_uuid() END;
BEGIN
	IF conn IS NULL THEN
		answer := ask_one(NULL, query);
		RETURN;
	END IF;
	conn := (connect(ARRAY[peer], ARRAY[conn], '5 s'))[1];
	address := iblt_peer_address(conn);
	PERFORM peer_send(conn, plain_settings('iblt_audit_report', asks => true) || query);
	answer := peer_value(conn, clock_timestamp() + interval '5 s');
	PERFORM peers_close(ARRAY[conn]);
EXCEPTION WHEN @on_any_error@ THEN
	PERFORM peers_close(ARRAY[conn], false);
	IF SQLSTATE = '57014' THEN
		RAISE;
	END IF;
END
$$;

-- Which server a side is, and how far; {} if it does not say.  No transaction ended there between
-- two answers that have the same "state": a database of a server that was not restarted, also not
-- after a crash, which resets statistics, and a hash of its snapshot and sequences.  A standby
-- shows commits before it has replayed them, and a transaction with one snapshot sees none.
-- Reading all sequences locks them, so the state is there only if it is asked for.
CREATE FUNCTION report_side(peer text, state boolean) RETURNS jsonb
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	said record;
	facts text[];
	server text := CASE WHEN NOT iblt_peer_is_string(peer) THEN peer END;
BEGIN
	said := report_ask(peer, format($q$
		SELECT ARRAY[concat_ws(':', coalesce(host(inet_server_addr()), 'socket'),
			current_setting('port')), current_database(),
			substring(current_setting('server_version') FROM '\S+'),
			CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()::text
				ELSE pg_current_wal_lsn()::text END,
			to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
			CASE WHEN %L AND NOT pg_is_in_recovery()
					AND current_setting('transaction_isolation') = 'read committed' THEN
				concat_ws(' ', extract(epoch FROM pg_postmaster_start_time()),
					(SELECT extract(epoch FROM stats_reset) FROM pg_stat_bgwriter),
					(SELECT oid FROM pg_database WHERE datname = current_database()),
					encode(sha256(convert_to(concat(pg_current_snapshot(),
						(SELECT string_agg(concat_ws(' ', schemaname, sequencename, last_value), ','
							ORDER BY schemaname, sequencename) FROM pg_sequences),
						-- setval ends no transaction of an unlogged one
						(SELECT string_agg(query_to_xml(concat('SELECT last_value, is_called FROM ',
								c.oid::regclass), false, false, '')::text, '' ORDER BY c.oid)
							FROM pg_class c
							WHERE CASE WHEN c.relkind = 'S' AND c.relpersistence = 'u'
								AND has_schema_privilege(c.relnamespace, 'USAGE')
								THEN has_sequence_privilege(c.oid, 'SELECT') END)),
						'UTF8')), 'hex'))
				END]::text$q$, state));
	BEGIN
		facts := left(said.answer, 2000);
	EXCEPTION WHEN @on_any_error@ THEN
		NULL;		-- no such answer
	END;
	FOR n IN 1 .. 6 LOOP
		facts[n] := one_line(left(facts[n], 200));
	END LOOP;
	RETURN jsonb_strip_nulls(jsonb_build_object('server', server, 'address',
		coalesce(said.address, facts[1]), 'database', facts[2], 'version', facts[3],
		'position', facts[4], 'time', facts[5], 'state', facts[6]));
END
$$;

-- What both sides say of themselves now.
CREATE FUNCTION report_servers(peer text, here_peer text, state boolean) RETURNS json
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	RETURN CASE WHEN num_nonnulls(peer, here_peer) > 0 THEN json_strip_nulls(json_build_object(
		'here', report_side(here_peer, state),
		'there', CASE WHEN peer IS NOT NULL THEN report_side(peer, state) END)) END;

-- Did no transaction end on these servers between two answers?  NULL if they do not say.
CREATE FUNCTION report_still(before json, after json) RETURNS boolean
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN (before #>> '{here,state}', before #>> '{there,state}')
		= (after #>> '{here,state}', after #>> '{there,state}');

-- The peer of an audit: as given, or the publisher of its subscription, if this role may know it.
CREATE FUNCTION report_peer(peer text, here_peer text, subscription text) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	IF num_nonnulls(peer, here_peer) = 0 AND subscription IS NOT NULL THEN
		peer := audit_peer(subscription, NULL);
	END IF;
	RETURN peer;
EXCEPTION WHEN insufficient_privilege OR undefined_object THEN
	RETURN NULL;		-- the publisher is left out
END
$$;

-- The state of a subscription of this side, and of its slot if the publisher says it, for people.
-- A standby applies nothing, so it has nothing to say.
CREATE FUNCTION subscription_state(subscription text, peer text, here_peer text) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	said text[] := (report_ask(here_peer, format('SELECT ARRAY[u.subslotname::text,'
			' coalesce((%s), %L)]::text FROM pg_subscription AS u WHERE u.subname = %L'
			' AND u.subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())'
			' AND NOT pg_is_in_recovery()', plain_call('follower_said(u.subslotname::text)'),
		format('subscription "%s" has no slot', subscription), subscription))).answer;
BEGIN
	RETURN said[2] || coalesce(', ' || CASE WHEN num_nonnulls(said[2], peer) = 2
		THEN (report_ask(peer, plain_call(format('slot_said(%L)', said[1])))).answer END, '');
END
$$;

-- The rows as COPY writes them.
CREATE FUNCTION report_tsv(tables json) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN (SELECT concat_ws(chr(10), min(l.header), string_agg(l.line, chr(10) ORDER BY l.n))
	FROM (SELECT t.n, string_agg(f.name, chr(9) ORDER BY f.position) AS header,
			string_agg(coalesce(replace(replace(replace(replace(f.value, b.slash,
				b.slash || b.slash), chr(9), b.slash || 't'), chr(10), b.slash || 'n'), chr(13),
				b.slash || 'r'), b.slash || 'N'), chr(9) ORDER BY f.position) AS line
		FROM json_array_elements(tables) WITH ORDINALITY AS t(line, n),
		json_each_text(t.line) WITH ORDINALITY AS f(name, value, position),
		(SELECT chr(92)) AS b(slash)
		GROUP BY t.n) AS l);

-- One line, whose figures are behind a bar, so a name may not have one.
CREATE FUNCTION report_nagios(report report) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN (SELECT format('IBLT %s - %s | tables=%s differs=%s not_compared=%s missing=%s '
		'extra=%s changed=%s unconfirmed=%s',
		CASE report.verdict WHEN 'equal' THEN 'OK' WHEN 'differs' THEN 'CRITICAL'
			ELSE 'UNKNOWN' END,
		replace(concat_ws('; ', report_title(report), one_line(report.state))
			|| coalesce(': ' || (SELECT
				string_agg(format('%s %s', c.name, c.status), ', ' ORDER BY c.n)
					FILTER (WHERE c.n <= 5)
				|| CASE WHEN count(*) > 5 THEN format(' and %s more', count(*) - 5)
					ELSE '' END
			FROM report_concerned(report) AS c), ''), '|', '/'),
		count(*), count(*) FILTER (WHERE t.status = 'differs'),
		count(*) FILTER (WHERE t.status NOT IN ('equal', 'differs')),
		coalesce(sum(t.missing), 0), coalesce(sum(t.extra), 0),
		coalesce(sum(t.changed), 0), coalesce(sum(t.unconfirmed), 0))
	FROM unnest(report.tables) AS t);

-- It says equal only if there are tables, each of them is equal, and so is the structure.
CREATE FUNCTION @extschema@.iblt_audit_report(
	tables json DEFAULT NULL,
	form text DEFAULT 'text',
	name text DEFAULT NULL,
	@iblt_audit: subscription peer@
	run bigint DEFAULT NULL,
	structure json DEFAULT NULL,
	here_peer text DEFAULT NULL,
	accepted text DEFAULT NULL,
	servers json DEFAULT NULL,
	still boolean DEFAULT false)
RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	@driver '{NULL,NULL}'; peers_secret(ARRAY[here_peer, peer])@
AS $$
DECLARE
	head run_head;
	report report;
BEGIN
	IF form = 'servers' THEN
		RETURN coalesce(report_servers(report_peer(peer, here_peer, subscription), here_peer,
			still), '{}');
	END IF;
	IF tables IS NULL AND run IS NOT NULL THEN
		tables := (SELECT json_agg(row_to_json(t) ORDER BY t.table_number)
			FROM iblt_audit_table_stats t WHERE t.run = iblt_audit_report.run);
		IF tables IS NULL THEN
			RAISE undefined_object USING
				MESSAGE = format('there is no run %s, or it is not yours', run);
		END IF;
	END IF;
	report.tables := (SELECT array_agg(ROW((t.line ->> 'table_number')::integer,
			one_line(coalesce(r.relation, r.peer_relation, '?')), coalesce(r.relation,
				r.peer_relation),
			-- of an unfinished run, too
			CASE WHEN r.status = 'under way' AND r.missing + r.extra + r.changed > r.unconfirmed
				THEN 'differs' ELSE coalesce(r.status, 'unknown') END,
			one_line(left(concat_ws('; ', CASE r.status WHEN 'under way' THEN 'not finished' END,
				nullif(r.detail, '')), 2000)),
			@each audit_counts: r.%,@ r.differences)::report_table
			ORDER BY CASE r.status WHEN 'differs' THEN 1 WHEN 'equal' THEN 3 ELSE 2 END, t.n)
		FROM json_array_elements(tables) WITH ORDINALITY AS t(line, n),
		json_populate_record(NULL::audit_row, t.line) AS r);
	report.structure := structure;
	report.still := report_still(servers -> 'before', servers -> 'after');
	IF accepted IS NOT NULL THEN
		report := report_accept(report, accepted);
	END IF;
	report.verdict := (SELECT CASE
			WHEN bool_or(t.status = 'differs') OR EXISTS (SELECT
				FROM jsonb_array_elements(report.structure) AS s
				WHERE s ->> 'severity' IS DISTINCT FROM 'unknown') THEN 'differs'
			WHEN bool_and(t.status IS NOT DISTINCT FROM 'equal')
				AND coalesce(jsonb_array_length(report.structure) = 0, true)
				AND (NOT still OR report.still) THEN 'equal'
			ELSE 'unknown' END
		FROM unnest(report.tables) AS t);
	report.made := clock_timestamp();
	report.ended := CASE WHEN run IS NULL THEN report.made ELSE (
		SELECT max((t ->> 'finished_at')::timestamptz) FROM json_array_elements(tables) AS t
		HAVING count(*) = count(t ->> 'finished_at')) END;
	report.run := run;
	report.name := one_line(name);
	IF run IS NOT NULL THEN
		head := (SELECT h FROM iblt_run_rows(NULL::run_head, run, own => false) AS h);
		report.name := one_line(coalesce(name, head.target));
		-- a run keeps no string, unless its role has forged it for others to connect by
		peer := coalesce(peer,
			CASE WHEN NOT iblt_peer_is_string(head.peers[2]) THEN head.peers[2] END);
		here_peer := coalesce(here_peer,
			CASE WHEN NOT iblt_peer_is_string(head.peers[1]) THEN head.peers[1] END);
		subscription := (SELECT max(t.item ->> 'subscription')
			FROM iblt_run_rows(NULL::run_table, run, own => false) AS t
			-- not that of this database in place of another one
			WHERE head.identities[1] IS NULL OR here_peer IS NOT NULL);
	END IF;
	peer := report_peer(peer, here_peer, subscription);
	IF servers IS NULL AND form IN ('text', 'summary', 'json', 'html') THEN
		servers := json_build_object('after', report_servers(peer, here_peer, false));
	END IF;
	report.here := servers #> '{after,here}';
	report.there := servers #> '{after,there}';
	IF run IS NOT NULL THEN
		-- those of now may be far from the run's
		report.here := report.here - '{position,time,state}'::text[];
		report.there := report.there - '{position,time,state}'::text[];
	END IF;
	IF report.verdict <> 'equal' AND subscription IS NOT NULL THEN
		report.state := subscription_state(subscription, peer, here_peer);
	END IF;
	IF still THEN
		report.state := concat_ws('; ', report.state, CASE report.still
			WHEN true THEN 'no transaction ended on either server during the audit'
			WHEN false THEN 'transactions ended during the audit'
			ELSE 'a server did not say whether transactions ended during the audit' END);
	END IF;
	CASE form
		WHEN 'text' THEN RETURN report_text(report);
		WHEN 'summary' THEN RETURN (
			SELECT concat_ws(chr(10), report_title(report), report_sides(report),
				string_agg(format('  %s %s%s', c.name, c.status, ': ' || nullif(c.said, '')),
					chr(10) ORDER BY c.n) FILTER (WHERE c.n <= 20),
				CASE WHEN count(*) > 20 THEN format('  and %s more', count(*) - 20) END,
				report_structure(report, 20), report_accepted(report), one_line(report.state))
			FROM report_concerned(report) AS c);
		WHEN 'verdict' THEN RETURN report.verdict;
		-- each row as it came
		WHEN 'json' THEN RETURN (
			SELECT concat('{"verdict": ', to_json(report.verdict), ',',
				' "run": ' || run || ',', ' "tables": [', chr(10),
				string_agg(t.line::text, ',' || chr(10) ORDER BY t.n), chr(10), '], ',
				'"structure": ' || report.structure::text || ', ',
				'"accepted": ' || report.accepted::text || ', ',
				'"here": ' || report.here::text || ', ', '"there": ' || report.there::text || ', ',
				'"still": ' || report.still::text || ', ',
				'"finished": ', to_json(to_char(coalesce(report.ended, report.made),
				'YYYY-MM-DD"T"HH24:MI:SS"Z"')), '}')
			FROM json_array_elements(tables) WITH ORDINALITY AS t(line, n));
		WHEN 'tsv' THEN RETURN report_tsv(tables);
		WHEN 'nagios' THEN RETURN report_nagios(report);
		WHEN 'prometheus' THEN RETURN report_prometheus(report);
		WHEN 'html' THEN RETURN report_page(report);
		WHEN 'receipt' THEN RETURN report_receipt(report, servers -> 'before', peer,
			here_peer);
		ELSE RAISE invalid_parameter_value USING MESSAGE =
			'form must be text, summary, verdict, json, tsv, html, nagios, prometheus, '
				'receipt or servers';
	END CASE;
END
$$;
COMMENT ON FUNCTION @extschema@.iblt_audit_report IS
'a report of the rows of iblt_audit, or of a run of iblt_audit_run, for people or for monitoring';
