-- Receipts --------------------------------------------------------------------------------
--
-- A receipt is a baseline whose head has the report of an audit, and which has hashes in place of
-- sketches.  It has neither values of rows nor definitions.  A server tells later whether its
-- tables still have these hashes, and whether a transaction has ended since the audit.

-- Differences in structure without the texts of both sides, which may hold values and passwords.
CREATE FUNCTION receipt_names(differences jsonb) RETURNS jsonb
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN (SELECT jsonb_agg(d - '{here,there}'::text[] ORDER BY n)
		FROM jsonb_array_elements(differences) WITH ORDINALITY AS e(d, n));

-- The receipt of a report.  The tables of this database are read after the audit, so they get
-- hashes only if no transaction has ended since the audit began.
CREATE FUNCTION report_receipt(report report, before json, peer text, here_peer text) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	lines text := '';
	after json;
	still boolean;
	name text;
BEGIN
	FOR name IN SELECT t.raw FROM unnest(report.tables) AS t WHERE here_peer IS NULL
			AND t.status IN ('equal', 'differs') ORDER BY t.raw COLLATE "C" LOOP
		BEGIN
			lines := lines || baseline_tables(ARRAY[name::regclass], NULL, 0);
		EXCEPTION WHEN @on_error@ THEN
			NULL;		-- it has no hash then
		END;
	END LOOP;
	after := report_servers(peer, here_peer, true);
	still := report_still(before, after);
	RETURN baseline_sealed(baseline_head(NULL, true, json_build_object('verdict', report.verdict,
			'name', report.name, 'still', still, 'before', before,
			'after', after, 'tables', (SELECT coalesce(json_agg(json_build_object('relation',
					t.name, 'status', t.status, @each audit_counts: '%', t.%,@
					'detail', CASE WHEN t.status <> 'error' THEN t.detail END)
					ORDER BY t.name COLLATE "C"), '[]') FROM unnest(report.tables) AS t),
			'structure', receipt_names(report.structure),
			'accepted', coalesce(receipt_names(report.accepted), '[]')))
		|| CASE WHEN still THEN lines ELSE '' END);
END
$$;

CREATE FUNCTION @extschema@.iblt_audit_since(
	receipt text,
	@iblt_audit: peer subscription here_peer@
	OUT unchanged boolean,
	OUT detail text)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	@driver '{NULL,NULL}'; peers_secret(ARRAY[here_peer, peer])@
AS $$
DECLARE
	said json;
	now json;
	place text;
	was text;
	seen text;
BEGIN
	said := (baseline_lines(receipt))[1] -> 'receipt';
	IF said IS NULL THEN
		RAISE invalid_parameter_value USING
			MESSAGE = 'this is a baseline, and no receipt of an audit';
	END IF;
	now := report_servers(report_peer(peer, here_peer, subscription), here_peer, true);
	unchanged := false;
	detail := CASE WHEN said ->> 'verdict' IS DISTINCT FROM 'equal'
		THEN 'the audit of this receipt did not find everything equal'
		WHEN said ->> 'still' IS DISTINCT FROM 'true'
		THEN 'transactions ended during the audit of this receipt' END;
	FOREACH place IN ARRAY '{here,there}'::text[] LOOP
		EXIT WHEN detail IS NOT NULL;
		was := said #>> ARRAY['after', place, 'state'];
		seen := now #>> ARRAY[place, 'state'];
		place := CASE place WHEN 'here' THEN 'this side' ELSE 'the peer' END;
		IF seen IS NULL THEN
			unchanged := NULL;
			detail := 'no answer from ' || place;
		ELSIF regexp_replace(was, '\S+$', '')
				IS DISTINCT FROM regexp_replace(seen, '\S+$', '') THEN
			unchanged := NULL;
			detail := place || ' is another database than that of the receipt, or its server was '
				'restarted';
		ELSIF was IS DISTINCT FROM seen THEN
			detail := format('transactions have ended on %s since the audit', place);
		END IF;
	END LOOP;
	IF detail IS NOT NULL THEN
		RETURN;
	END IF;
	unchanged := true;
	detail := one_line(left(format('all was equal%s at %s, at %s here and %s there, and no '
		'transaction has ended on either server since',
		' but for accepted differences (' || nullif(json_array_length(said -> 'accepted'), 0)
			|| ')', said #>> '{after,here,time}', said #>> '{after,here,position}',
		said #>> '{after,there,position}'), 1000));
END
$$;
COMMENT ON FUNCTION @extschema@.iblt_audit_since IS
'has no transaction ended on either server since the audit of a receipt, which found all equal?';
