-- Receipts --------------------------------------------------------------------------------
--
-- A receipt is a baseline whose head has the report of an audit, and which has hashes in place of
-- sketches.  So it has no values of rows.  A server tells later whether its tables still have
-- these hashes, and whether anything was committed since the audit.

-- The receipt of a report.  The tables of another database than this one get no hashes.
-- They are read after the audit, so both sides are asked after that whether all is as it was.
CREATE FUNCTION report_receipt(report report, before json, peer text, here_peer text) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	compared regclass[] := (SELECT array_agg(c.oid::regclass ORDER BY t.raw COLLATE "C")
		FROM unnest(report.tables) AS t JOIN pg_class AS c ON c.oid = to_regclass(t.raw)
		WHERE here_peer IS NULL AND t.status IN ('equal', 'differs')
		AND c.relkind IN ('r', 'p', 'm'));
	lines text := CASE WHEN compared IS NOT NULL THEN baseline_tables(compared, NULL, 0) END;
	after json;
BEGIN
	after := report_servers(peer, here_peer);
	RETURN baseline_sealed(baseline_head(NULL, true, json_build_object('verdict', report.verdict,
			'name', report.name, 'still', report_still(before, after), 'before', before,
			'after', after, 'tables', (SELECT json_agg(json_build_object('relation', t.name,
					'status', t.status, @each audit_counts: '%', t.%,@
					'detail', CASE WHEN t.status <> 'error' THEN t.detail END)
					ORDER BY t.name COLLATE "C") FROM unnest(report.tables) AS t),
			'structure', report.structure, 'accepted', report.accepted)) || coalesce(lines, ''));
END
$$;

CREATE FUNCTION @extschema@.iblt_audit_since(
	receipt text,
	peer text DEFAULT NULL,
	subscription text DEFAULT NULL,
	here_peer text DEFAULT NULL,
	OUT unchanged boolean,
	OUT detail text)
RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	@driver '{NULL,NULL}'; peers_secret(ARRAY[here_peer, peer])@
AS $$
DECLARE
	said json;
	now json;
	place text;
	was text;
	found text;
BEGIN
	said := (baseline_lines(receipt))[1] -> 'receipt';
	IF said IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
			MESSAGE = 'this is a baseline, and no receipt of an audit';
	END IF;
	now := report_servers(report_peer(peer, here_peer, subscription), here_peer);
	unchanged := false;
	IF said ->> 'verdict' <> 'equal' THEN
		detail := 'the audit of this receipt did not find everything equal';
		RETURN;
	ELSIF (said ->> 'still')::boolean IS NOT TRUE THEN
		detail := 'transactions were committed during the audit of this receipt';
		RETURN;
	END IF;
	FOREACH place IN ARRAY '{here,there}'::text[] LOOP
		was := said #>> ARRAY['after', place, 'state'];
		found := now #>> ARRAY[place, 'state'];
		IF found IS NULL THEN
			detail := format('no answer from %s', CASE place WHEN 'here' THEN 'this side'
				ELSE 'the peer' END);
			RETURN;
		ELSIF split_part(was, ' ', 1) <> split_part(found, ' ', 1)
				OR split_part(was, ' ', 2) <> split_part(found, ' ', 2) THEN
			detail := format('%s is another database than that of the receipt, or its server was '
				'restarted', CASE place WHEN 'here' THEN 'this side' ELSE 'the peer' END);
			RETURN;
		ELSIF was IS DISTINCT FROM found THEN
			detail := format('transactions were committed on %s since the audit',
				CASE place WHEN 'here' THEN 'this side' ELSE 'the peer' END);
			RETURN;
		END IF;
	END LOOP;
	unchanged := true;
	detail := format('all was equal at %s, at %s here and %s there, and nothing was committed on '
		'either server since', said #>> '{after,here,time}', said #>> '{after,here,position}',
		said #>> '{after,there,position}');
END
$$;
COMMENT ON FUNCTION @extschema@.iblt_audit_since IS
'was nothing committed on either server since the audit of a receipt, which found all equal?';
