-- Reports for monitoring -----------------------------------------------------------------
--
-- doc/program.md describes these forms, and doc/examples/grafana.json reads the series.

-- A report in the text format of Prometheus; the label "audit" is the name of the report.  Labels
-- are on one line, so JSON quotes them in the same way.
-- A table that is equal has no samples of its own, and neither has one behind the first
-- thousand others, so that a large schema does not make a hundred thousand series.
CREATE FUNCTION report_prometheus(report report) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN (WITH concerned AS (
		SELECT * FROM unnest(report.tables) WITH ORDINALITY AS t WHERE t.status <> 'equal'
	)
	SELECT string_agg(concat_ws(chr(10), format('# HELP iblt_audit_%s %s', h.series, h.help),
			format('# TYPE iblt_audit_%s gauge', h.series), (
				SELECT string_agg(format('iblt_audit_%s{%s} %s', h.series, concat_ws(',', 'audit='
					|| to_json(coalesce(report.name, '')), nullif(s.key, '')), s.value),
					chr(10) ORDER BY s.key COLLATE "C")
				FROM jsonb_each_text(h.samples) AS s)), chr(10) ORDER BY h.n)
	-- samples by their other labels
	FROM (VALUES (1, 'verdict',
			'Verdict of the last audit: 1 for the one that holds, 0 for the others.', (
			SELECT jsonb_object_agg(format('verdict="%s"', v), (report.verdict = v)::integer)
			FROM unnest('{equal,differs,unknown}'::text[]) AS v)),
		(2, 'finished_timestamp_seconds', 'When the last audit ended.', jsonb_build_object('',
			round(extract(epoch FROM coalesce(report.ended, report.made))::numeric))),
		(3, 'tables', 'Tables of the last audit by status.', (
			SELECT jsonb_object_agg(format('status="%s"', s), (
				SELECT count(*) FROM unnest(report.tables) AS t WHERE s = CASE
					WHEN t.status IN ('equal', 'differs') THEN t.status ELSE 'not compared' END))
			FROM unnest('{equal,differs,not compared}'::text[]) AS s)),
		(4, 'rows', 'Rows that were read, by side.', (
			SELECT jsonb_build_object('side="here"', coalesce(sum(t.rows_here), 0),
				'side="there"', coalesce(sum(t.rows_there), 0)) FROM unnest(report.tables) AS t)),
		(5, 'table_not_equal', '1 for each table that is not equal.', (
			SELECT jsonb_object_agg(format('relation=%s,status=%s', to_json(c.name),
				to_json(c.status)), 1) FROM concerned c WHERE c.ordinality <= 1000)),
		(6, 'table_differences', 'Keys that differ in a table that is not equal, by kind.', (
			SELECT jsonb_object_agg(format('relation=%s,kind="%s"', to_json(c.name), k.kind),
				k.n)
			FROM concerned c, LATERAL (VALUES ('missing', c.missing), ('extra', c.extra),
				('changed', c.changed), ('unconfirmed', c.unconfirmed)) AS k(kind, n)
			WHERE c.ordinality <= 1000 AND k.n IS NOT NULL)),
		(7, 'structure_differences', 'Properties of the structure that differ, by severity.', (
			SELECT jsonb_object_agg(format('severity="%s"', v), (SELECT count(*)
				FROM jsonb_array_elements(report.structure) AS s WHERE s ->> 'severity' = v))
			FROM unnest(structure_severities()) AS v WHERE report.structure IS NOT NULL)),
		-- the last one: bin/iblt-audit takes its sample for the end of the file
		(8, 'tables_left_out', 'Tables that are not equal and have no samples of their own.', (
			SELECT jsonb_build_object('', count(*)) FROM concerned c WHERE c.ordinality > 1000))
		) AS h(n, series, help, samples));
