-- The page of an audit -------------------------------------------------------------------
--
-- One file that needs no other.  It is bounded, whatever the audit found, and each part says
-- what it leaves out.  An audit keeps the first rows that differ if it is asked for rows.  In how
-- many rows each column differs, and where, is kept by runs alone.

-- The cells of one side of a difference; "content" is the row, or NULL if it is not kept.
CREATE FUNCTION page_side(d run_difference, content jsonb, columns text[])
RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN CASE WHEN jsonb_typeof(content) = 'array' THEN format('<td colspan="%s">%s</td>',
			cardinality(columns), html(content::text, 2000))
		ELSE (SELECT string_agg(format(CASE WHEN c.name = ANY (d.differs)
				THEN '<td><mark>%s</mark></td>' ELSE '<td>%s</td>' END, v.value), '' ORDER BY c.n)
			FROM unnest(columns) WITH ORDINALITY AS c(name, n),
			LATERAL (SELECT CASE WHEN u IS NULL THEN '' WHEN u = 'null' THEN '<i>NULL</i>'
					WHEN u = '""' THEN '<i>empty</i>' ELSE html(u #>> '{}') END
				FROM coalesce(content -> c.name, d.key -> c.name) AS u) AS v(value)) END;

-- Differences of a table, side by side: the columns of the key first, then those that differ most.
CREATE FUNCTION page_rows(relation text, kept run_difference[], most integer DEFAULT 12)
RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT html_table('{"",""}' || ARRAY(SELECT format(CASE WHEN k THEN
				'<span class="key-column">%s</span>' ELSE '%s' END, html(c, 100))
			FROM unnest(s.shown, s.keys) WITH ORDINALITY AS u(c, k, n) ORDER BY n), (
			SELECT string_agg(format('<tbody><tr><th rowspan="%s" scope="rowgroup">%s</th>'
				'%s</tr></tbody>',
				CASE WHEN 0 IN (d.here_count, d.there_count) THEN 1 ELSE 2 END,
				concat_ws('<br>', CASE d.side WHEN 'there' THEN 'missing' WHEN 'here' THEN 'extra'
						ELSE 'changed' END,
					CASE WHEN greatest(d.here_count, d.there_count) > 1
						THEN format('rows: %s here, %s there', d.here_count, d.there_count) END,
					CASE WHEN d.confirmed IS FALSE THEN 'unconfirmed' END,
					CASE WHEN d.here IS NULL AND d.there IS NULL
						THEN html(array_to_string(d.differs, ', '), 1000) END),
				(SELECT string_agg(format('<th scope="row">%s</th>%s', v.side,
						page_side(d, v.content, s.shown)), '</tr><tr>' ORDER BY v.side)
					FROM (VALUES ('here', d.here, d.here_count), ('there', d.there,
						d.there_count)) AS v(side, content, n) WHERE v.n > 0)),
				chr(10) ORDER BY d.number)
			FROM unnest(kept) AS d), 'rows')
		|| coalesce(html_left_out(most, s.n, 'columns'), '')
	FROM (SELECT (array_agg(c.name ORDER BY c.in_key DESC, c.differing DESC, c.position, c.name))
				[1:most], (array_agg(c.in_key ORDER BY c.in_key DESC, c.differing DESC, c.position,
				c.name))[1:most], count(*)
		FROM (SELECT n.name, bool_or(n.in_key) AS in_key,
				count(*) FILTER (WHERE n.name = ANY (f.differs)) AS differing,
				(SELECT a.attnum FROM pg_attribute a WHERE a.attrelid = to_regclass(relation)
					AND a.attname = n.name) AS position
			FROM unnest(kept) AS f, LATERAL (
				SELECT k, true FROM jsonb_object_keys(f.key) AS k
				UNION SELECT k, false FROM unnest(ARRAY[f.here, f.there]) AS r,
					jsonb_object_keys(CASE jsonb_typeof(r) WHEN 'object' THEN r ELSE '{}' END) AS k
				) AS n(name, in_key)
			GROUP BY n.name) AS c) AS s(shown, keys, n)
$$;

-- A range of the key in words.
CREATE FUNCTION page_range(after jsonb, up_to jsonb) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN format('%s to %s', coalesce('above ' || html(after::text, 100), 'first key'),
		coalesce(html(up_to::text, 100), 'last key'));

-- A picture of the slices of a table with differences, in the order of the key; neighbours
-- share one of 60 bars.  A part of a bar is high enough to be seen.
CREATE FUNCTION page_picture(run bigint, table_number integer) RETURNS text
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
AS $$
	WITH slice AS (
		SELECT r.*, ntile(60) OVER (ORDER BY r.number) AS bar
		FROM iblt_run_rows(NULL::run_range, run, table_number, own => false) AS r
	), bar AS (
		SELECT s.bar, sum(s.missing)::bigint AS missing, sum(s.extra)::bigint AS extra,
			sum(s.changed)::bigint AS changed, sum(s.missing + s.extra + s.changed)::bigint AS n,
			(array_agg(s.after ORDER BY s.number))[1] AS after,
			(array_agg(s.up_to ORDER BY s.number DESC))[1] AS up_to
		FROM slice s GROUP BY s.bar
	), whole AS (
		SELECT max(b.n) AS most, count(*) AS bars, (array_agg(b.after ORDER BY b.bar))[1] AS after,
			(array_agg(b.up_to ORDER BY b.bar DESC))[1] AS up_to,
			greatest(12, least(48, 720 / greatest(count(*), 1))) AS width
		FROM bar b
	), picture AS (
		SELECT string_agg(concat('<g><title>', page_range(b.after, b.up_to), ': ',
			report_counts(b.missing, b.extra, b.changed, 0), '</title>', (
				SELECT string_agg(format('<rect class="%s" x="%s" y="%s" width="%s" height="%s"/>',
					u.kind, (b.bar - 1) * w.width, 111 - u.top, w.width - 2, u.height), ''
					ORDER BY u.place)
				FROM (SELECT h.*, sum(h.height) OVER (ORDER BY h.place) AS top
					FROM (SELECT k.place, k.kind, greatest(2, round(100.0 * k.n / w.most, 1))
						FROM (VALUES (1, 'missing', b.missing), (2, 'extra', b.extra),
							(3, 'changed', b.changed)) AS k(place, kind, n)
						WHERE k.n > 0) AS h(place, kind, height)) AS u), '</g>'), ''
			ORDER BY b.bar) AS bars
		FROM bar b, whole w
	)
	SELECT format('<figure><svg role="img" aria-label="differences by ranges of the key" '
		'viewBox="0 0 %1$s 112" width="%1$s" height="112">%2$s<line x1="0" y1="111.5" x2="%1$s" '
		'y2="111.5"/></svg><figcaption class="key"><span class="missing">&#9632; missing</span> '
		'<span class="extra">&#9632; extra</span> <span class="changed">&#9632; changed</span>. '
		'Where in the key: %3$s. Each bar is a range, and the highest has %4$s. Ranges without '
		'differences are not shown.</figcaption></figure>', w.bars * w.width, p.bars,
		page_range(w.after, w.up_to), grouped(w.most)) || chr(10)
	FROM whole w, picture p WHERE w.most > 0
$$;

-- The tables with a status, with their counts; the first ones of many.
CREATE FUNCTION page_list(report report, heading text, status text[], most integer) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN (SELECT html_section(format('%s (%s)', heading, grouped(count(*))),
		html_filled('{table,status,#rows here,#rows there,#missing,#extra,#changed,'
				'#unconfirmed,detail}', jsonb_agg(jsonb_build_array(html(t.name),
				CASE WHEN page_list.status <@ '{differs,equal}' THEN '' ELSE html(t.status) END,
				grouped(t.rows_here),
				grouped(t.rows_there), grouped(t.missing), grouped(t.extra), grouped(t.changed),
				grouped(nullif(t.unconfirmed, 0)), html(t.detail, 1000)) ORDER BY t.place)
				FILTER (WHERE t.place <= most))
		|| coalesce(html_left_out(most, count(*), 'tables'), ''))
	FROM (SELECT u.*, row_number() OVER (ORDER BY u.ordinality) AS place
		FROM unnest(report.tables) WITH ORDINALITY AS u
		WHERE u.status = ANY (page_list.status)) AS t
	HAVING count(*) > 0);

-- The differences in structure, the dangerous ones first; the first ones of many.
-- An object that one side lacks has a word for that in place of values.
CREATE FUNCTION page_structure(report report, most integer DEFAULT 300) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN (WITH line AS (
		SELECT n, s ->> 'severity' AS severity, s ->> 'property' = 'exists' AS lacks,
			s ->> 'here' AS here, s ->> 'there' AS there, s ->> 'property' AS property,
			concat_ws(' ', '<b>' || html(s ->> 'object') || '</b>', '<span class="kind">'
				|| html(s ->> 'kind') || '</span>') AS object
		FROM jsonb_array_elements(report.structure) WITH ORDINALITY AS e(s, n) WHERE n <= most
	), shown AS (
		SELECT coalesce(severity, 'danger') AS severity, count(*) AS number,
			jsonb_agg(jsonb_build_array(object,
				CASE WHEN NOT lacks THEN html(property) WHEN here IS NULL THEN 'only there'
					ELSE 'only here' END,
				CASE WHEN lacks THEN '' ELSE coalesce('<code>' || html(from_difference(here,
					there, 280)) || '</code>', '<i>nothing</i>') END,
				CASE WHEN lacks THEN '' ELSE coalesce('<code>' || html(from_difference(there,
					here, 280)) || '</code>', '<i>nothing</i>') END) ORDER BY n) AS lines
		FROM line GROUP BY 1
	)
	SELECT html_section(format('Structure and sequences (%s)', grouped(
			jsonb_array_length(report.structure))),
		CASE jsonb_array_length(report.structure) WHEN 0 THEN '<p>No difference.</p>' || chr(10)
		ELSE (SELECT string_agg(format('<details%s><summary class="%s">%s (%s)</summary>%s'
					'</details>%s', CASE WHEN g.severity <> 'change' OR g.number <= 20
						THEN ' open="open"' END, html(g.severity), CASE g.severity
					WHEN 'danger' THEN 'Dangerous to data' WHEN 'change'
					THEN 'Without danger to data' ELSE 'Not known' END, grouped(g.number),
				html_filled('{object,property,here,there}', g.lines), chr(10)), ''
				ORDER BY array_position(structure_severities(), g.severity)) FROM shown g)
			|| coalesce(html_left_out(most, jsonb_array_length(report.structure),
				'differences in structure'), '') END)
	WHERE report.structure IS NOT NULL);

-- The differences that are accepted, and the lines of the list that are of no use.
CREATE FUNCTION page_accepted(report report, most integer DEFAULT 300) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN (SELECT html_section(format('Accepted (%s)', grouped(count(a))),
		coalesce(html_filled('{object,property,reason}', jsonb_agg(jsonb_build_array(
				concat_ws(' ', '<b>' || html(a ->> 'object') || '</b>', '<span class="kind">'
					|| html(a ->> 'kind') || '</span>'), html(a ->> 'property'),
				html(a ->> 'reason')) ORDER BY n) FILTER (WHERE n <= most)), '')
		|| coalesce(html_left_out(most, count(a), 'differences that are accepted'), '')
		|| coalesce('<p class="note">Lines of the list that fit no difference, or have '
			'expired:</p><code>' || html(report_unused(report), 3000) || '</code>' || chr(10), ''))
	FROM (SELECT) AS one LEFT JOIN jsonb_array_elements(report.accepted) WITH ORDINALITY AS e(a, n)
		ON true);

-- The details of the tables that differ, of a run, or of an audit that kept the first rows.
CREATE FUNCTION page_details(report report) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	run bigint := report.run;
	most_tables constant integer := 20;
	most constant integer := 25;
	listed report_table[] := ARRAY(SELECT u FROM unnest(report.tables) AS u
		WHERE u.status = 'differs' AND (run IS NOT NULL OR u.differences IS NOT NULL));
	result text := '';
	t report_table;
	kept run_difference[];
BEGIN
	FOREACH t IN ARRAY listed[: most_tables] LOOP
		result := concat(result, '<h3>', html(t.name), '</h3>', chr(10));
		IF run IS NULL THEN
			kept := ARRAY(SELECT d FROM jsonb_array_elements(t.differences)
				WITH ORDINALITY AS e(value, n), jsonb_populate_record(NULL::run_difference,
					e.value || jsonb_build_object('number', e.n)) AS d ORDER BY e.n LIMIT most);
		ELSE
			kept := ARRAY(SELECT d
				FROM iblt_run_rows(NULL::run_difference, run, t.table_number, own => false) AS d
				ORDER BY d.number LIMIT most);
			result := concat(result, (
				SELECT format('<p>Columns that differ: %s%s.</p>%s', string_agg(format(
						'<b>%s</b> %s', html(c.name, 100), grouped(c.n)), ', ' ORDER BY c.place)
						FILTER (WHERE c.place <= 30),
					CASE WHEN count(*) > 30 THEN format(', and %s more columns', count(*) - 30) END,
					chr(10))
				FROM (SELECT u.name, count(*) AS n,
						row_number() OVER (ORDER BY count(*) DESC, u.name) AS place
					FROM iblt_run_rows(NULL::run_difference, run, t.table_number,
						own => false) AS d, unnest(d.differs) AS u(name) GROUP BY u.name) AS c
				HAVING count(*) > 0), page_picture(run, t.table_number));
		END IF;
		result := concat(result,
			CASE WHEN kept <> '{}' THEN page_rows(t.name, kept) END,
			html_left_out(cardinality(kept), t.missing + t.extra + t.changed, 'differences'),
			CASE WHEN run IS NOT NULL AND kept <> '{}' AND NOT EXISTS (SELECT
					FROM unnest(kept) AS d WHERE d.here IS NOT NULL OR d.there IS NOT NULL)
				THEN '<p class="note">The run kept keys and no rows (see its argument rows).</p>'
				END);
	END LOOP;
	RETURN html_section('What differs', '<p class="note">Columns of the key are underlined, and '
		'values that differ are marked.</p>' || nullif(result, '')
		|| coalesce(html_left_out(most_tables, cardinality(listed),
			'tables that differ in detail'), ''));
END
$$;

-- A report as one HTML document.
CREATE FUNCTION report_page(report report) RETURNS text
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	RETURN (SELECT concat('<!DOCTYPE html>', chr(10),
		'<html lang="en"><head><meta charset="utf-8">',
		'<meta http-equiv="Content-Security-Policy" content="default-src ''none''; style-src ',
		'''unsafe-inline''"><meta name="viewport" content="width=device-width">',
		'<meta name="referrer" content="no-referrer"><title>', title, '</title><style>',
		html_style(), '</style></head><body>', chr(10), '<header class="', report.verdict,
		'"><h1 class="', report.verdict, '">',
		title, '</h1><p class="note">',
		concat_ws(', ', html(report.name), 'run ' || report.run || coalesce(', which ended at '
			|| to_char(report.ended, 'YYYY-MM-DD HH24:MI:SS "UTC"'), ''),
			CASE WHEN report.here IS NULL THEN 'database ' || html(current_database()) END,
			'made at ' || to_char(report.made, 'YYYY-MM-DD HH24:MI:SS "UTC"'), html(report.state)),
		'</p><p class="note">' || replace(html(report_sides(report), 2000), chr(10), '<br>'),
		'</p></header>', chr(10),
		page_list(report, 'Tables that differ', '{differs}', 200),
		page_list(report, 'Not compared, and why', ARRAY(SELECT DISTINCT t.status
			FROM unnest(report.tables) AS t WHERE t.status NOT IN ('equal', 'differs')), 200),
		page_structure(report),
		page_accepted(report),
		page_details(report),
		page_list(report, 'Equal', '{equal}', 500),
		html_section('What this page leaves out', '<ul>' || CASE WHEN report.run IS NULL
				THEN CASE WHEN EXISTS (SELECT FROM unnest(report.tables) AS t
					WHERE t.differences IS NOT NULL)
					THEN '<li>All but the first rows that differ, and where they are. '
					ELSE '<li>Which columns and rows differ, and where. ' END
					|| 'A run keeps them (iblt_audit_run with rows).</li>'
				ELSE '<li>Differences that the run did not keep (its argument max_differences), '
					'and what changed after the run had read it.</li>' END
			|| CASE WHEN report.structure IS NULL THEN '<li>Views, indexes, constraints, rights '
				'and sequences. The page is about rows of tables.</li>' ELSE '' END
			|| '<li>Large objects, and rows of materialized views and of foreign tables, unless '
			'the page lists them.</li>'
			|| '<li>What the details of tables say was not compared, such as columns of one '
			'side.</li></ul>' || chr(10)), '</body></html>')
		FROM html(report_headline(report)) AS title);
