-- Reports for people and programs --------------------------------------------------------

-- A text on one line, without characters that a terminal would obey, of which Unicode has more.
CREATE FUNCTION one_line(said text) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT regexp_replace(said, CASE getdatabaseencoding() WHEN 'UTF8' THEN '[\x01-\x1f\x7f-\x9f]+'
		ELSE '[\x01-\x1f\x7f]+' END, ' ', 'g')
$$;

-- What a report says first: the verdict, of how many tables, and of the structure.
CREATE FUNCTION report_headline(report report) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN (SELECT concat(
		CASE report.verdict WHEN 'unknown' THEN 'could not tell' ELSE report.verdict END,
		': ', CASE WHEN n = 0 THEN 'no tables'
			WHEN differ > 0 THEN format('%s of %s', differ, tables)
				|| CASE WHEN others > 0 THEN format(', %s not compared', others) ELSE '' END
			WHEN others > 0 THEN format('%s of %s not compared', others, tables)
			ELSE tables || CASE report.verdict WHEN 'equal' THEN '' ELSE ' equal' END END,
		CASE jsonb_array_length(report.structure) WHEN 0 THEN ', structure equal'
			ELSE ', differences in structure: ' || jsonb_array_length(report.structure) END,
		(SELECT ' (without danger to data: ' || nullif(count(*), 0) || ')'
			FROM jsonb_array_elements(report.structure) AS s WHERE s ->> 'severity' = 'change'),
		', accepted: ' || nullif(jsonb_array_length(report.accepted), 0))
	FROM (SELECT count(*) AS n, count(*) FILTER (WHERE t.status = 'differs') AS differ,
			count(*) FILTER (WHERE t.status NOT IN ('equal', 'differs')) AS others,
			count(*) || CASE count(*) WHEN 1 THEN ' table' ELSE ' tables' END AS tables
		FROM unnest(report.tables) AS t) AS c);

-- The same with the name of the audit, and when a run ended.
CREATE FUNCTION report_title(report report) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN concat_ws(', ', report_headline(report), report.name, 'ended at '
		|| to_char(CASE WHEN report.run IS NOT NULL THEN report.ended END,
			'YYYY-MM-DD HH24:MI:SS "UTC"'));

-- Which servers the sides are, a line each; NULL if it is not known.
CREATE FUNCTION report_sides(report report) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN (SELECT string_agg(s.side || ': ' || concat_ws(', ', s.facts ->> 'server',
			coalesce(s.facts ->> 'address', 'no answer'), 'database ' || (s.facts ->> 'database'),
			'PostgreSQL ' || (s.facts ->> 'version'), 'at ' || (s.facts ->> 'position'),
			s.facts ->> 'time'), chr(10))
		FROM (VALUES ('here', report.here), ('there', report.there)) AS s(side, facts)
		WHERE s.facts IS NOT NULL);

-- A text of more than one line or that many characters from where it differs from another one, with
-- what stands before that on its line.  If only white space differs, it is made visible.
CREATE FUNCTION from_difference(said text, other text, most integer) RETURNS text
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	same integer := 0;		-- so many characters are, up to "least" may be
	least integer;
	half integer;
	line text;
	place text;
BEGIN
	said := left(said, 100000);
	other := left(other, 100000);
	least := least(length(said), length(other));
	IF said IS NULL OR strpos(said || other, chr(10)) = 0 AND length(said) <= most THEN
		RETURN said;
	END IF;
	WHILE same < least LOOP
		half := (same + least + 1) / 2;
		IF left(said, half) = left(other, half) COLLATE "C" THEN
			same := half;
		ELSE
			least := half - 1;
		END IF;
	END LOOP;
	line := right(substring(left(said, same) FROM '[^' || chr(10) || ']*$'), most / 3);
	same := same - length(line);
	place := CASE WHEN same > 0 THEN format('line %s: ... ',
		cardinality(string_to_array(left(said, same), chr(10)))) END;
	line := substr(said, same + 1, most);
	IF regexp_replace(said, '[[:space:]]+', '', 'g')
			= regexp_replace(other, '[[:space:]]+', '', 'g') THEN
		line := replace(replace(replace(line, chr(13), '<CR>'), chr(10), '<LF>'), chr(9), '<TAB>');
	END IF;
	RETURN concat(place, line, CASE WHEN length(said) > same + most THEN ' ...' END);
END
$$;

-- The differences in structure, a line each, the first ones of many; or NULL.
CREATE FUNCTION report_structure(report report, most integer) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN (SELECT nullif(concat_ws(chr(10), string_agg('  ' || one_line(format(
			'%s %s: %s: %s here, %s there (%s)', s.row ->> 'kind', s.row ->> 'object',
			s.row ->> 'property',
			coalesce(from_difference(s.row ->> 'here', s.row ->> 'there', 200), 'nothing'),
			coalesce(from_difference(s.row ->> 'there', s.row ->> 'here', 200), 'nothing'),
			s.row ->> 'severity')), chr(10)
			ORDER BY s.n) FILTER (WHERE s.n <= most),
		CASE WHEN count(*) > most THEN format('  and %s more differences in structure',
			count(*) - most) END), '')
	FROM jsonb_array_elements(report.structure) WITH ORDINALITY AS s("row", n));

-- The lines of the list of what is accepted that are of no use, a line each; or NULL.
CREATE FUNCTION report_unused(report report) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN (SELECT string_agg('  ' || one_line(format('accepted, but %s: line %s: %s | %s | %s',
				CASE WHEN (u ->> 'until')::date < timezone('UTC', now())::date
				THEN 'until ' || (u ->> 'until') ELSE 'fits no difference' END,
				u ->> 'line', u ->> 'kind', u ->> 'object', u ->> 'property')), chr(10) ORDER BY n)
		FROM jsonb_array_elements(report.unused) WITH ORDINALITY AS e(u, n));

-- What is accepted, a line each, and those lines; or NULL.
CREATE FUNCTION report_accepted(report report) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN (SELECT nullif(concat_ws(chr(10), string_agg('  ' || one_line(format(
			'accepted: %s %s: %s (%s)', a ->> 'kind', a ->> 'object', a ->> 'property',
			a ->> 'reason')), chr(10) ORDER BY n), report_unused(report)), '')
		FROM jsonb_array_elements(report.accepted) WITH ORDINALITY AS e(a, n));

-- The tables that are not equal, with what there is to say of each.
CREATE FUNCTION report_concerned(report report)
RETURNS TABLE (n bigint, name text, status text, said text)
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT t.ordinality, t.name, t.status,
		CASE WHEN t.status = 'differs' AND c.counts IS NOT NULL THEN c.counts
			ELSE concat_ws('; ', c.counts, t.detail) END
	FROM unnest(report.tables) WITH ORDINALITY AS t,
	report_counts(t.missing, t.extra, t.changed, t.unconfirmed) AS c(counts)
	WHERE t.status <> 'equal'
$$;

-- A table with a line a table.
CREATE FUNCTION report_text(report report) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN (WITH line AS (
		SELECT 0::bigint AS n,
			'{status,table,here,there,missing,extra,changed}'::text[] AS cells, NULL AS detail
		UNION ALL
		SELECT t.ordinality, ARRAY[t.status, t.name, grouped(t.rows_here), grouped(t.rows_there),
				grouped(t.missing), grouped(t.extra), grouped(t.changed)],
			concat_ws('; ', grouped(nullif(t.unconfirmed, 0)) || ' unconfirmed', t.detail)
		FROM unnest(report.tables) WITH ORDINALITY AS t
	), width AS (
		SELECT c AS n, max(length(l.cells[c])) AS width
		FROM line l, generate_series(1, 7) AS c GROUP BY c
	)
	SELECT concat_ws(chr(10), report_title(report), report_sides(report), string_agg((
				SELECT rtrim(string_agg(CASE WHEN w.n < 3 THEN rpad(l.cells[w.n], w.width)
					ELSE lpad(coalesce(l.cells[w.n], ''), w.width) END, '  ' ORDER BY w.n))
				FROM width w)
			|| coalesce(chr(10) || '    ' || nullif(l.detail, ''), ''), chr(10) ORDER BY l.n),
		report_structure(report, 1000), report_accepted(report), one_line(report.state))
	FROM line l);
