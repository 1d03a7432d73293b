-- Reports for monitoring -----------------------------------------------------------------
--
-- doc/operations.md describes these forms, and doc/examples/grafana.json reads the series.

-- The value of a label, quoted.
CREATE FUNCTION metric_label(value text) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT '"' || replace(replace(replace(value, '\', '\\'), '"', '\"'), chr(10), '\n') || '"'
$$;

-- A report in the text format of Prometheus; the label "audit" is the name of the report.
-- A table that is equal has no samples of its own, and neither has one behind the first
-- thousand others, so that a large schema does not make a hundred thousand series.
CREATE FUNCTION report_prometheus(report report) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN (WITH concerned AS (
		SELECT t.*, row_number() OVER (ORDER BY t.status <> 'differs', t.n) AS place
		FROM unnest(report.tables) AS t WHERE t.status <> 'equal'
	), sample (series, labels, value) AS (
		SELECT 'verdict', format('verdict="%s"', v), (report.verdict = v)::integer
		FROM unnest('{equal,differs,unknown}'::text[]) AS v
		UNION ALL
		SELECT 'finished_timestamp_seconds', NULL, round(extract(epoch
			FROM coalesce(report.ended, report.made))::numeric)
		UNION ALL
		SELECT 'tables', format('status="%s"', s), (SELECT count(*) FROM unnest(report.tables) AS t
			WHERE CASE WHEN t.status IN ('equal', 'differs') THEN t.status
				ELSE 'not compared' END = s)
		FROM unnest('{equal,differs,not compared}'::text[]) AS s
		UNION ALL
		SELECT 'rows', format('side="%s"', s.side), s.rows
		FROM (SELECT coalesce(sum(t.rows_here), 0), coalesce(sum(t.rows_there), 0)
			FROM unnest(report.tables) AS t) AS sum(here, there),
		LATERAL (VALUES ('here', sum.here), ('there', sum.there)) AS s(side, rows)
		UNION ALL
		SELECT 'table_not_equal', format('relation=%s,status=%s', metric_label(c.name),
			metric_label(c.status)), 1
		FROM concerned c WHERE c.place <= 1000
		UNION ALL
		SELECT 'table_differences', format('relation=%s,kind="%s"', metric_label(c.name), k.kind),
			k.n
		FROM concerned c, LATERAL (VALUES ('missing', c.missing), ('extra', c.extra),
			('changed', c.changed), ('unconfirmed', c.unconfirmed)) AS k(kind, n)
		WHERE c.place <= 1000 AND k.n IS NOT NULL
		UNION ALL
		SELECT 'structure_differences', format('severity="%s"', v), (SELECT count(*)
			FROM jsonb_array_elements(report.structure) AS s WHERE s ->> 'severity' = v)
		FROM unnest(structure_severities()) AS v WHERE report.structure IS NOT NULL
		UNION ALL
		SELECT 'tables_left_out', NULL, count(*) FROM concerned c WHERE c.place > 1000
	)
	SELECT string_agg(format('# HELP iblt_audit_%s %s', h.series, h.help) || chr(10)
		|| format('# TYPE iblt_audit_%s gauge', h.series) || coalesce(chr(10) || (
			SELECT string_agg(format('iblt_audit_%s{%s} %s', s.series, concat_ws(',',
				'audit=' || metric_label(coalesce(report.name, '')), s.labels), s.value), chr(10)
				ORDER BY s.labels COLLATE "C")
			FROM sample AS s WHERE s.series = h.series), ''),
		chr(10) ORDER BY h.n)
	FROM (VALUES
		(1, 'verdict', 'Verdict of the last audit: 1 for the one that holds, 0 for the others.'),
		(2, 'finished_timestamp_seconds', 'When the last audit ended.'),
		(3, 'tables', 'Tables of the last audit by status.'),
		(4, 'rows', 'Rows that were read, by side.'),
		(5, 'table_not_equal', '1 for each table that is not equal.'),
		(6, 'table_differences', 'Keys that differ in a table that is not equal, by kind.'),
		(7, 'structure_differences', 'Properties of the structure that differ, by severity.'),
		-- the last one: bin/iblt-audit.sh takes its sample for the end of the file
		(8, 'tables_left_out', 'Tables that are not equal and have no samples of their own.')
		) AS h(n, series, help));
