-- HTML --------------------------------------------------------------------------------
--
-- What comes from a database goes through html(), and nothing else does.  The page has no
-- script, and its Content-Security-Policy lets none run.

-- A text in a page, cut behind that many characters with a note.
-- Characters that no page may have, and those that would turn a line around, show as a dot.
CREATE FUNCTION html(said text, most integer DEFAULT 300) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT regexp_replace(replace(replace(replace(replace(replace(left(said, most),
			'&', '&amp;'), '<', '&lt;'), '>', '&gt;'), '"', '&quot;'), '''', '&#39;'),
			'[\x01-\x08\x0b-\x1f\x7f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]', '&middot;', 'g')
		|| CASE WHEN length(said) > most THEN format(' <i>&hellip; %s more characters</i>',
			grouped(length(said) - most)) ELSE '' END
$$;

-- A table with these rows.
CREATE FUNCTION html_table(heads text[], body text, class text DEFAULT 'list') RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN concat('<div class="wide"><table class="', class, '"><thead><tr>', (
		SELECT string_agg(format('<th scope="col">%s</th>', h), '' ORDER BY n)
		FROM unnest(heads) WITH ORDINALITY AS u(h, n)), '</tr></thead>', chr(10), body,
		'</table></div>', chr(10));

-- A table whose rows are lists of cells in HTML, without the columns that are empty; a column
-- whose name begins with # has numbers.
CREATE FUNCTION html_filled(heads text[], lines jsonb) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN (WITH used AS (
		SELECT n::integer - 1 AS place, ltrim(h, '#') AS head,
			CASE WHEN starts_with(h, '#') THEN ' class="n"' ELSE '' END AS class
		FROM unnest(heads) WITH ORDINALITY AS u(h, n)
		WHERE EXISTS (SELECT FROM jsonb_array_elements(lines) AS l
			WHERE l ->> (n::integer - 1) <> '')
	)
	SELECT html_table(array_agg(u.head ORDER BY u.place), (
		SELECT string_agg(concat('<tr>', (
				SELECT string_agg(format('<td%s>%s</td>', c.class, l.line ->> c.place), ''
					ORDER BY c.place) FROM used c), '</tr>', chr(10)), '' ORDER BY l.n)
		FROM jsonb_array_elements(lines) WITH ORDINALITY AS l(line, n)))
	FROM used u HAVING count(*) > 0);

-- A section with a heading, or nothing if it is empty.
CREATE FUNCTION html_section(heading text, body text) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN CASE WHEN body <> ''
		THEN concat('<section><h2>', heading, '</h2>', chr(10), body, '</section>', chr(10)) END;

-- How many of something a page shows, if it does not show all.
CREATE FUNCTION html_left_out(shown bigint, n bigint, what text) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN CASE WHEN shown < n THEN format('<p class="note">The page shows %s of %s %s.</p>%s',
		grouped(shown), grouped(n), what, chr(10)) END;

-- Light and dark, as the reader's system is.  A value that changed is also bold and
-- underlined, for readers who do not see its colour.
CREATE FUNCTION html_style() RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN ':root{color-scheme:light dark;--fg:#1d2430;--bg:#fff;--soft:#5b6675;--line:#d5dae1;'
		'--equal:#12733c;--differs:#b3261e;--unknown:#8a5a00;--mark:#ffe08a;'
		'--missing:#2660a4;--extra:#8e44ad;--changed:#c0561f}' || chr(10)
		|| '@media(prefers-color-scheme:dark){:root{--fg:#e4e8ee;--bg:#14181f;--soft:#9aa6b5;'
		'--line:#343c48;--equal:#5dd28f;--differs:#ff8a80;--unknown:#f0bd5b;--mark:#6b4e00;'
		'--missing:#7db4f0;--extra:#d29be8;--changed:#f2a071}}' || chr(10)
		|| '*{box-sizing:border-box}body{font:15px/1.5 system-ui,sans-serif;color:var(--fg);'
		'background:var(--bg);max-width:75rem;margin:2rem auto;padding:0 1rem}'
		'header{border-left:.6rem solid;padding:.2rem 0 .2rem 1rem}header p{margin:.2rem 0}'
		'h1{margin:0 0 .4rem;font-size:1.6rem;line-height:1.25}h2{margin:2.2rem 0 .5rem;'
		'font-size:1.25rem}h3{margin:1.5rem 0 .3rem;font-size:1rem}.equal{color:var(--equal)}'
		'.differs,.danger{color:var(--differs)}.unknown{color:var(--unknown)}'
		'.note,figcaption{color:var(--soft);font-size:.9em}.kind{color:var(--soft)}'
		'summary{cursor:pointer;font-weight:bold;margin:.6rem 0 .2rem}'
		'.wide{overflow-x:auto}table{border-collapse:collapse;margin:.5rem 0}'
		'.list td:nth-child(2){white-space:nowrap}'
		'th,td{border-bottom:1px solid var(--line);padding:.25rem .9rem .25rem 0;'
		'text-align:left;vertical-align:top}thead th{color:var(--soft);font-weight:normal;'
		'border-bottom:2px solid var(--line)}td.n{text-align:right;'
		'font-variant-numeric:tabular-nums}'
		'code,.rows td{font-family:ui-monospace,monospace;font-size:.85rem;'
		'white-space:pre-wrap;overflow-wrap:anywhere}'
		'.rows th{font-size:.85rem}.rows td{min-width:4rem;max-width:26rem}'
		'.rows tbody{border-bottom:2px solid var(--line)}.key-column{text-decoration:underline}'
		'mark{background:var(--mark);color:inherit;font-weight:bold;text-decoration:underline}'
		'svg .missing,.key .missing{fill:var(--missing);color:var(--missing)}'
		'svg .extra,.key .extra{fill:var(--extra);color:var(--extra)}'
		'svg .changed,.key .changed{fill:var(--changed);color:var(--changed)}'
		'svg line{stroke:var(--line)}figure{margin:.5rem 0}'
		'@media print{@page{margin:15mm}body{max-width:none;margin:0;padding:0;font-size:11px}'
		'code,.rows td,.rows th{font-size:9px}.wide{overflow:visible}svg{max-width:100%;'
		'height:auto}tr,figure{break-inside:avoid}h2,h3,summary{break-after:avoid}}';
