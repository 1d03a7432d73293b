-- The steps of an audit of structures that need no peer: texts, severities, and where a
-- sequence goes.  Peers are tested in test/t.
\i test/sql/common.psql
SET search_path = public, iblt_internal;

-- names of a schema become those of another one, in texts only where they are names
SELECT structure_renamed(text, qualifier, other) = expected AS renamed, text
FROM (VALUES ('old.t', 'old', 'new.', 'new.t'), ('SELECT old.f(x.old.y, cold.z, old)', 'old', 'new.', 'SELECT new.f(x.old.y, cold.z, old)'),
	('''old.x''::text', 'old', 'new.', '''old.x''::text'), ('nextval(''old.q''::regclass)', 'old', 'new.', 'nextval(''new.q''::regclass)'),
	('''it''''s old.x'' || old.y', 'old', 'new.', '''it''''s old.x'' || new.y'), ('"Ol.d".t + "x""Ol.d".t', '"Ol.d"', '"n\e\1w".', '"n\e\1w".t + "x""Ol.d".t'),
	('t.a = ''t.b'' AND t.b', 't', '', 'a = ''t.b'' AND b'), ('', 'old', 'new.', ''), ('it''s old.x', 'old', 'new.', 'it''s new.x'), ('a$old.x old.y', 'old', 'new.', 'a$old.x new.y'))
	AS v(text, qualifier, other, expected);
SELECT structure_renamed(NULL, 'a', 'b.') IS NULL AS null_stays;

-- views as PostgreSQL 15 and 16 print them, and others
SELECT structure_same(a, b, true) = expected AS as_expected, b
FROM (VALUES (' SELECT o.id, o."a b" FROM s.orders o WHERE (o.id > 1);', ' SELECT id, "a b" FROM s.orders o WHERE (id > 1);', true),
	(' SELECT id FROM s.orders o WHERE (id > 1);', ' SELECT o.id FROM s.orders o WHERE (o.id > 1);', true),
	(' SELECT "O o".id FROM s.orders "O o";', ' SELECT id FROM s.orders "O o";', true),
	(' SELECT o.id FROM s.orders o WHERE (o.id > 1);', ' SELECT id FROM s.orders o WHERE (id > 2);', false),
	(' SELECT o.id, ''o.x''::text FROM s.orders o;', ' SELECT id, ''x''::text FROM s.orders o;', false),
	(' SELECT o.id FROM s.orders o WHERE (EXISTS (SELECT FROM s.c c WHERE (c.id = o.id)));', ' SELECT id FROM s.orders o WHERE (EXISTS (SELECT FROM s.c c WHERE (c.id = o.id)));', true),
	(' SELECT o.id FROM s.orders o WHERE (EXISTS (SELECT FROM s.c c WHERE (c.id = o.id)));', ' SELECT id FROM s.orders o WHERE (EXISTS (SELECT FROM s.c c WHERE (o.id = c.id)));', false),
	(' SELECT a.id, b.id FROM s.a a, s.b b;', ' SELECT b.id, a.id FROM s.a a, s.b b;', false),
	(' SELECT 1;', ' SELECT 2;', false)) AS v(a, b, expected);

-- expressions before and after a dump and a restore, and others
SELECT structure_same(a, b, false) = expected AS as_expected, a, b
FROM (VALUES ('(((x >= 1) AND (x <= 2)) AND (y > 0))', '((x >= 1) AND (x <= 2) AND (y > 0))', true),
	('((y > 0) AND ((x >= 1) AND (x <= 2)))', '((y > 0) AND (x >= 1) AND (x <= 2))', true),
	('(((x) OR (y)) AND (z))', '((x) OR (y) AND (z))', false), ('((x) AND ((y) OR (z)))', '((x) AND (y) OR (z))', false),
	('((x AND y OR z) AND w)', '(x AND y OR z AND w)', false), ('((x OR y AND z) OR w)', '(x OR y AND z OR w)', false),
	('(NOT ((x) AND (y)) AND (z))', '(NOT (x) AND (y) AND (z))', false), ('(x = (y AND z) AND w)', '(x = y AND z AND w)', false),
	('((''a) AND (b'' = x))', '(''a AND b'' = x)', false), ('(("AND" = 1) OR (x))', '("AND" = 1 OR (x))', false),
	('((s)::text = ANY ((ARRAY[''a''::character varying, ''b, c]''::character varying])::text[]))', '((s)::text = ANY (ARRAY[(''a''::character varying)::text, (''b, c]''::character varying)::text]))', true),
	('((s)::text = ANY ((ARRAY[''a''::character varying])::text[]))', '((s)::text = ANY (ARRAY[(''b''::character varying)::text]))', false),
	('''a  b''', '''a b''', false), ('a  + b', 'a + b', true), ('f(a, b)', 'f(ab)', false), ('("a b".c)', '("a b" .c)', false), ('1', NULL, false), (NULL, '1', false))
	AS v(a, b, expected);
-- no two expressions of other truth are the same, and all forms of one chain are
CREATE TEMP TABLE expression AS SELECT DISTINCT format(shape, o1, o2, o3) AS text, o1 = o2 AND o2 = o3 AS chain, o1, shape
FROM unnest(ARRAY['((a %1$s b) %2$s (c %3$s d))', '(((a %1$s b) %2$s c) %3$s d)', '(a %1$s (b %2$s (c %3$s d)))', '((a %1$s (b %2$s c)) %3$s d)',
	'((NOT (a %1$s b)) %2$s (c %3$s d))', '(a %1$s ((b %2$s c) = (c %3$s d)))']) AS shape, unnest('{AND,OR}'::text[]) AS o1, unnest('{AND,OR}'::text[]) AS o2, unnest('{AND,OR}'::text[]) AS o3;
ALTER TABLE expression ADD truth text;
DO $$ DECLARE e record; BEGIN
	FOR e IN SELECT * FROM pg_temp.expression LOOP
		EXECUTE format('UPDATE pg_temp.expression SET truth = (SELECT string_agg((%s)::text, '','' ORDER BY a, b, c, d) FROM unnest(''{t,f}''::bool[]) a,
			unnest(''{t,f}''::bool[]) b, unnest(''{t,f}''::bool[]) c, unnest(''{t,f}''::bool[]) d) WHERE text = %L', e.text, e.text);
	END LOOP;
END $$;
SELECT count(*) FILTER (WHERE x.truth <> y.truth) AS wrong, count(*) FILTER (WHERE x.text <> y.text) > 0 AS some
FROM expression x JOIN expression y ON structure_same(x.text, y.text, false);
SELECT o1, count(DISTINCT structure_restored(text)) AS forms, count(*) AS texts FROM expression WHERE chain AND shape !~ 'NOT|=' GROUP BY o1 ORDER BY o1;

-- 17 quotes its new keywords, also in names of objects; a string or another name is not one
SELECT structure_same(a, b, false) = expected AS as_expected, a, b
FROM (VALUES ('(json_value = t.json)', '("json_value" = t."json")', true), ('(json = 1)', '("jsonb" = 1)', false), ('''"json"''', '''json''', false),
	('"a ""json"" b"', '"a json b"', false), ('"a ""json"" b"', '"a ""json"" b"', true)) AS v(a, b, expected);
SELECT d.kind, d.object, d.property FROM structure_differences(ROW(
	ARRAY[ROW('table', 's."json"', NULL, 'danger', '{"exists": true, "inherits": "s.\"system_user\""}'), ROW('index', '"json" on s."json"', 's."json"', 'danger', '{"exists": true, "unique": true}'), ROW('column', 's."json".a', 's."json"', 'danger', '{"exists": true}')]::structure_object[],
	ARRAY[ROW('table', 's.json', NULL, 'danger', '{"exists": true, "inherits": "s.system_user"}'), ROW('index', 'json on s.json', 's.json', 'danger', '{"exists": true}'), ROW('column', 's.json.b', 's.json', 'danger', '{"exists": true}')]::structure_object[],
	170000, 150000, false)::structure) AS d ORDER BY 1, 2, 3;

-- how bad it is
SELECT structure_severity(property, a::jsonb, b::jsonb, absence, falling, cycle) AS severity, property, a, b
FROM (VALUES ('type', '"a"', '"b"', 'danger', false, false), ('type', '"a"', '"b"', 'change', false, false), ('owner', '"a"', '"b"', 'danger', false, false),
	('view options', '"a"', NULL, 'change', false, false), ('owner', '{"unknown": "x"}', '"b"', 'danger', false, false), ('type', '"a"', '{"unknown": "x"}', 'change', false, false),
	('next value', '9', '10', 'danger', false, false), ('next value', '10', '9', 'danger', false, false), ('next value', '9', '10', 'danger', true, false),
	('next value', '10', '9', 'danger', true, false), ('next value', '9', '10', 'danger', false, true), ('next value', '10', '9', 'danger', true, true))
	AS v(property, a, b, absence, falling, cycle);
SELECT structure_said('', '"x"'), structure_said('', '7'), structure_said('', 'true'), structure_said('', '["a", "B b"]'), structure_said('', '{"unknown": "no right"}'), structure_said('', NULL) IS NULL AS nothing;
SELECT structure_said('setting app.api_key', '"x"'), structure_said('settings', '"app.secret=s3"'), structure_said('definition', '"SELECT * FROM dblink(''host=x password=p'')"');
-- of a view over several relations, 15 and 16 print the same qualifiers, and a schema is never left out
SELECT structure_same('SELECT public.lower(a.x), b.y FROM s.a JOIN s.b', 'SELECT lower(a.x), b.y FROM s.a JOIN s.b', true) AS schema, structure_same('SELECT a.x FROM s.a', 'SELECT x FROM s.a', true) AS relation, structure_same('SELECT q.x FROM s.a q', 'SELECT x FROM s.a q', true) AS alias;

-- behind its column: the next value is not past it
SELECT (structure_objects(jsonb_build_object('objects', jsonb_build_array(jsonb_build_object('kind', 'sequence', 'facts', facts::jsonb))), NULL, NULL))[1].facts -> 'behind its column' AS behind, facts
FROM unnest(ARRAY['{"increment": 1, "next value": 5, "reached": 4, "numbers": "t.id"}', '{"increment": 1, "next value": 5, "reached": 5, "numbers": "t.id"}',
	'{"increment": -1, "next value": 5, "reached": 6, "numbers": "t.id"}', '{"increment": -1, "next value": 5, "reached": 5, "numbers": "t.id"}',
	'{"increment": 1, "next value": 5, "reached": 9, "numbers": "t.id", "cycle": true}', '{"increment": 1, "next value": 5}',
	'{"increment": 1, "next value": 5, "reached": {"unknown": "x"}}', '{"increment": 1, "next value": {"unknown": "x"}, "reached": 5}',
	'{"increment": 1, "next value": 9223372036854775808, "reached": 9223372036854775807}']) WITH ORDINALITY AS f(facts, n) ORDER BY n;

-- where a sequence goes: against a search for the nearest value of its own that is far enough
CREATE FUNCTION pg_temp.nearest(here int, there int, reached int, increment int) RETURNS int LANGUAGE sql AS $$
	SELECT v FROM generate_series(here, here + 100 * increment, increment) AS v
	WHERE coalesce(sign(increment) * (v - there) >= 0, true) AND coalesce(sign(increment) * (v - reached) > 0, true)
	ORDER BY sign(increment) * v LIMIT 1 $$;
SELECT count(*) AS tried, bool_and(coalesce(sequence_target(ROW('s.q', here, there, reached, NULL, increment, NULL, NULL, NULL)::sequence_step), here)
	= pg_temp.nearest(here, there, reached, increment)) AS nearest
FROM unnest('{-3,0,4}'::int[]) AS here, unnest('{-9,-4,-3,0,1,4,5,17,NULL}'::int[]) AS there, unnest('{-9,-4,-3,0,1,4,5,17,NULL}'::int[]) AS reached,
	unnest('{-7,-2,-1,1,3,5}'::int[]) AS increment;
SELECT p.target, p.status, p.detail FROM (VALUES
	('{"increment": 1, "minimum": 1, "maximum": 100, "next value": 5}', '{"increment": 1, "next value": 101}'),
	('{"increment": 1, "minimum": 1, "maximum": 100, "next value": 5}', '{"increment": 1, "next value": 102}'),
	('{"increment": -1, "minimum": -100, "maximum": -1, "next value": -5}', '{"increment": -1, "next value": -102}'),
	('{"increment": 1, "minimum": 1, "maximum": 100, "next value": 5}', '{"increment": 1, "next value": 5}'),
	('{"increment": 1, "minimum": 1, "maximum": 100, "next value": 5}', '{"increment": -1, "next value": 9}'),
	('{"increment": 1, "minimum": 1, "maximum": 100, "next value": 5}', '{"increment": 1, "next value": 9, "cycle": true}'),
	('{"increment": 1, "minimum": 1, "maximum": 100, "next value": 5, "cycle": true}', '{"increment": 1, "next value": 5}'),
	('{"increment": 1, "minimum": 1, "maximum": 100, "next value": 5, "reached": 7}', NULL),
	(NULL, '{"increment": 1, "next value": 9}'),
	('{"increment": 1, "next value": {"unknown": "a"}}', '{"increment": 1, "next value": 9}'),
	('{"increment": 1, "next value": 5, "reached": {"unknown": "b"}}', '{"increment": 1, "next value": 9}'),
	('{"increment": 1, "next value": 5}', '{"increment": 1, "next value": {"unknown": "c"}}')) AS v(mine, theirs),
	LATERAL sequence_plan('s.q', mine::jsonb, theirs::jsonb) AS p;

-- the parts of a relation that one side lacks are not named, but those of one that both have
SELECT d.kind, d.object, d.property, d.here, d.there, d.severity FROM structure_differences(ROW(
	ARRAY[ROW('table', 't', NULL, 'danger', '{"exists": true}'), ROW('column', 't.a', 't', 'danger', '{"exists": true}'), ROW('column', 'u.a', 'u', 'danger', '{"exists": true}'),
		ROW('table', 'u', NULL, 'danger', '{"exists": true, "column order": ["a", "b", "c"]}'), ROW('index', 'i', 'u', 'danger', '{"exists": true, "unique": true}')]::structure_object[],
	ARRAY[ROW('view', 'u', NULL, 'change', '{"exists": true}'), ROW('column', 'u.b', 'u', 'danger', '{"exists": true}'), ROW('index', 'i', 'u', 'change', '{"exists": true}')]::structure_object[],
	150000, 150000, false)::structure) AS d ORDER BY 1, 2, 3;
-- a text of a view is compared under other rules only across PostgreSQL 16
SELECT v.here, v.there, count(d.kind) AS differences FROM (VALUES (150000, 170000), (170000, 150000), (150000, 140000), (160000, 170000)) AS v(here, there)
LEFT JOIN LATERAL structure_differences(ROW(ARRAY[ROW('view', 'v', NULL, 'change', '{"definition": "SELECT t.a FROM t"}')]::structure_object[],
	ARRAY[ROW('view', 'v', NULL, 'change', '{"definition": "SELECT a FROM t"}')]::structure_object[], v.here, v.there, false)::structure) AS d ON true GROUP BY 1, 2 ORDER BY 1, 2;

-- all queries name only what every release has, with and without rights
SELECT r AS rights, (structure_here(structure_sql(NULL, r, NULL))::jsonb -> 'version')::int = current_setting('server_version_num')::int AS answers FROM unnest('{false,true}'::boolean[]) AS r;
SELECT count(*) AS left_over FROM unnest('{false,true}'::boolean[]) AS r WHERE structure_sql(NULL, r, NULL) ~ '\{(owned|granted)';
