-- iblt_checksum: the bytes of every class of type, what must differ, what must
-- be equal, and that the planner's shortcut never changes a result.  No value
-- here is other than ASCII: encodings are the matter of test/t.
\i test/sql/common.psql
SET extra_float_digits = 0;

CREATE SCHEMA checksum_test;
SET search_path = checksum_test, public;
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN small AS int CHECK (value < 100);
CREATE DOMAIN smalls AS small[];
CREATE DOMAIN named_pair AS pair;
CREATE TYPE floatrange AS RANGE (subtype = float8);

--
-- An item's bytes do not tell its type, so a value's checksum must be that of
-- the bytea that its send function makes.  Violations are listed: none.
--
CREATE TEMP TABLE sent (type text, mine bigint, theirs bigint);
DO $do$
DECLARE
	name text;
	elements text;
BEGIN
	FOR name, elements IN VALUES ('bool', '{t,f}'), ('"char"', '{a,"",z}'), ('int2', '{0,1,-2,32767,-32768}'), ('int4', '{0,1,-2,2147483647,-2147483648}'),
		('int8', '{0,1,-2,9223372036854775807,-9223372036854775808}'), ('oid', '{0,4294967295}'), ('xid', '{3,4294967295}'), ('cid', '{3,4294967295}'),
		('xid8', '{3,18446744073709551615}'), ('float4', '{0,-0,1.1,-1e-40,infinity,-infinity,nan}'), ('float8', '{0,-0,1.1,-1e-310,infinity,-infinity,nan}'),
		('numeric', '{0,-0.00,1,1.0,1.00,-1,10000,0.0001,1e-20,-1e-63,1e-64,1e252,1e256,1e1000,1e-1000,123456789.987654321,-99999999999999999999999999999999.5,nan}'),
		('numeric', (SELECT array_agg((i - 1000)::numeric ^ 7 / 10::numeric ^ (i % 80))::text FROM generate_series(1, 2000) i)),
		('money', ARRAY[1.23::numeric::money, (-5)::numeric::money]::text), ('date', '{2000-01-01,1999-12-31,0044-03-15 BC,infinity,-infinity}'),
		('time', '{00:00,24:00,12:34:56.789012}'), ('timetz', '{00:00+01,24:00-03,12:34:56.789012+05:30}'),
		('timestamp', '{2000-01-01 00:00,1970-01-01 12:34:56.789012,infinity,-infinity}'),
		('timestamptz', '{2000-01-01 00:00+00,1970-01-01 12:34:56.789012-07,infinity,-infinity}'), ('interval', '{1 month -2 days 03:00,-1 year,00:00:00.000001}'),
		('uuid', '{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}'), ('pg_lsn', '{0/0,16/B374D848,FFFFFFFF/FFFFFFFF}'), ('macaddr', '{08:00:2b:01:02:03}'),
		('macaddr8', '{08:00:2b:01:02:03:04:05}'), ('inet', '{10.1.2.3/24,::1}'), ('cidr', '{10.1.0.0/16}'), ('tid', '{"(1,2)"}'), ('bytea', '{"","\\x00ff"}'),
		('text', ARRAY['', 'a', repeat('x', 126), repeat('x', 127), repeat('x', 16383), repeat('x', 100000)]::text), ('varchar', '{"","a "}'), ('char(3)', '{"","a  "}'),
		('name', '{"","a "}'), ('json', '{"[ 1 ]"}'), ('jsonb', ARRAY['{"bb": [1.50, null], "a": {"x": "y"}}', '"scalar"', '{}']::text), ('jsonpath', '{"$.a[*]"}'),
		('bit(5)', '{10101,00000}'), ('bit', '{0}'), ('varbit', '{10101,""}'), ('point', '{"(1.5,-0)","(1,nan)"}'), ('lseg', '{"[(0,0),(1,1)]"}'), ('box', '{(0,0),(1,1)}'),
		('line', '{"{1,2,3}"}'), ('path', '{"[(0,0),(1,1)]","((0,0),(1,1))"}'), ('polygon', '{"((0,0),(1,1),(2,0))"}'), ('circle', '{"<(0,0),1>"}'),
		('tsvector', '{"a fat cat:2A,3"}'), ('tsquery', '{"fat & (rat | !cat:*A)"}'), ('pg_snapshot', '{100:200:150}') LOOP
		EXECUTE format('INSERT INTO sent SELECT %L, iblt_checksum(x), iblt_checksum(%s(x)) FROM unnest(%L::%s[]) x', name, (SELECT typsend FROM pg_type WHERE oid = name::regtype), elements, name);
	END LOOP;
END $do$;
SELECT count(DISTINCT type) AS types, count(*) > 2100 AS enough FROM sent;
SELECT type, mine, theirs FROM sent WHERE mine IS DISTINCT FROM theirs ORDER BY 1;

-- The lists below have calls of iblt_checksum by their arguments, with "|" between them and the ends of lines or ";" behind them.
CREATE FUNCTION sum_of_call(arguments text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE sum bigint; BEGIN
	EXECUTE format(CASE WHEN arguments LIKE 'seed %' THEN 'SELECT iblt_checksum_seeded(%s)' ELSE 'SELECT iblt_checksum(%s)' END, regexp_replace(arguments, '^seed ', '')) INTO sum;
	RETURN sum;
END $$;
CREATE FUNCTION calls(list text) RETURNS TABLE (n bigint, call text, a bigint, b bigint) LANGUAGE sql AS $$
	SELECT n, btrim(c, E' \n'), sum_of_call(split_part(btrim(c, E' \n'), ' | ', 1)), CASE WHEN c LIKE '% | %' THEN sum_of_call(split_part(btrim(c, E' \n'), ' | ', 2)) END
	FROM regexp_split_to_table(rtrim(list, E'; \n'), E'; |;?\n') WITH ORDINALITY AS u(c, n) $$;

--
-- Containers and what has no send function, byte by byte.
--
CREATE TEMP TABLE spelled AS SELECT * FROM calls($$'{1,NULL}'::int[] | '\x010000000200000001050000000100'::bytea; '{}'::int[] | '\x00'::bytea
'[2:3][0:0]={{a},{b}}'::text[] | '\x020000000200000002000000010000000002610262'::bytea; '1 2'::int2vector | '\x010000000200000000030001030002'::bytea
'{nan}'::float8[] | '\x010000000100000001097ff8000000000000'::bytea; 'happy'::mood | 'happy'::bytea; '{ok}'::mood[] | '\x010000000100000001036f6b'::bytea
7::small | '\x00000007'::bytea; '{7}'::smalls | '\x0100000001000000010500000007'::bytea; ROW(ROW(1, NULL::int)) | '\x050000000100'::bytea
ROW(ROW(1, 'b')::pair) | '\x05000000010262'::bytea; ARRAY[ROW(1, 'b')::pair] | '\x0100000001000000010805000000010262'::bytea
'[1,5]'::int4range | '\x0205000000010500000006'::bytea; '(,5]'::numrange | '\x0c0b00010000000000000005'::bytea; 'empty'::int4range | '\x01'::bytea
'[1,nan)'::floatrange | '\x02093ff0000000000000097ff8000000000000'::bytea; 'pg_class'::regclass | 'pg_class'::bytea; 0::regclass | '-'::bytea
'checksum_test.pair'::regclass | 'checksum_test.pair'::bytea; 'int4'::regtype | 'integer'::bytea; 'pg_backend_pid'::regproc | 'pg_backend_pid()'::bytea
'abs(int4)'::regprocedure | 'abs(integer)'::bytea; '||/'::regoper | '||/(NONE,double precision)'::bytea; '+(int4,int4)'::regoperator | '+(integer,integer)'::bytea
'checksum_test'::regnamespace | 'checksum_test'::bytea; 'simple'::regconfig | 'simple'::bytea; 'simple'::regdictionary | 'simple'::bytea
'"C"'::regcollation | '"C"'::bytea; 'pg_monitor=r/pg_monitor'::aclitem | 'pg_monitor=r/pg_monitor'::bytea$$);
SELECT count(*) AS spelled FROM spelled;
SELECT call FROM spelled WHERE a IS DISTINCT FROM b ORDER BY 1;

--
-- Golden values: every version and platform must give these.
--
SELECT call, a AS checksum FROM calls($$true; 1::int2; 1; 1::int8; 1.5::float4; -0.0::float8; 1.10; 'nan'::numeric; 'The quick brown fox jumps over the lazy dog'::text
repeat('0123456789', 1000); 'a'; 'a'::name; 'a'::char(3); '\x00ff'::bytea; '2024-02-29'::date; '2024-02-29 12:34:56.789+00'::timestamptz
'12:34:56-08'::timetz; '1 year 2 days 3 seconds'::interval; 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid; '192.168.0.1/24'::inet
'{"bb": 1, "a": [true, null, 1.50]}'::jsonb; 'fat:2A cat:1'::tsvector; '{{1,2},{3,NULL}}'::int[]; 'ok'::mood; '[2024-01-01,2024-02-01)'::daterange
ROW(1, ROW('x'::text, NULL::int)); NULL::int, NULL::text; NULL::pair; 1::int8, 2, 'three'::text, 4.0, NULL::date
seed 42, 1::int8, 2, 'three'::text, 4.0, NULL::date; seed -1, 'x'::text$$) ORDER BY n;

--
-- Pairs that must differ: violations are listed.
--
CREATE TEMP TABLE different AS SELECT * FROM calls($$1, 11 | 11, 1; 'a', 'bc' | 'ab', 'c'; 'a', '' | '', 'a'; NULL::text | ''::text; NULL::int | NULL::int, NULL::int
NULL::pair | ROW(NULL::int); NULL::pair | ROW(NULL, NULL)::pair; NULL::pair | repeat(E'\x01', 127); NULL | NULL::text; 1, NULL::pair | 1, ROW(NULL, NULL)::pair
ROW(1, 2) | ROW(ROW(1, 2)); ROW(1, NULL::int) | ROW(1); 1.0 | 1.00; '{}'::int[] | NULL::int[]; '{}'::int[] | '{NULL}'::int[]; '{1,2}'::int[] | '[0:1]={1,2}'::int[]
'{{1,2},{3,4}}'::int[] | '{1,2,3,4}'::int[]; '{{1,2,3},{4,5,6}}'::int[] | '{{1,2},{3,4},{5,6}}'::int[]; '{NULL}'::text[] | '{""}'::text[]
'{a,bc}'::text[] | '{ab,c}'::text[]; 1 | 1::int8; 1 | '1'; '-0'::float8 | '0'::float8; '-0'::float4 | '0'::float4; 'nan'::float8 | 'infinity'::float8; 'a' | 'a '
'a'::char(2) | 'a'::char(3); 'a' | 'A'; '12:00+00'::timetz | '13:00+01'::timetz; '1 day'::interval | '24:00'::interval; '[1,2]'::numrange | '[1,2)'::numrange
'empty'::numrange | '(,)'::numrange; 'empty'::numrange | NULL::numrange; 'null'::jsonb | NULL::jsonb; '[1]'::json | '[ 1]'::json; '1.0'::jsonb | '1'::jsonb
b'10' | b'100'; 'sad'::mood | 'ok'::mood; 'abs(int4)'::regprocedure::regproc | 'abs(int8)'::regprocedure::regproc; repeat('x', 126) | repeat('x', 127)
'+(int4,int4)'::regoperator::regoper | '+(int8,int8)'::regoperator::regoper; seed 1, 'x' | seed 2, 'x'; seed 1, 'x' | 1::int8, 'x'; 1, 2 | 2, 1$$);
SELECT count(*) AS pairs FROM different;
SELECT call FROM different WHERE a IS NOT DISTINCT FROM b ORDER BY 1;

-- No two of many short rows may be equal: exhaustive over four values each.
WITH v(x) AS (VALUES (NULL), (''), ('a'), ('aa')),
	rows AS (SELECT iblt_checksum(a.x, b.x, c.x) AS sum FROM v a, v b, v c
		UNION ALL SELECT iblt_checksum(a.x, b.x) FROM v a, v b
		UNION ALL SELECT iblt_checksum(x) FROM v)
SELECT count(*) AS rows, count(DISTINCT sum) AS sums FROM rows;

--
-- Pairs that must be equal.
--
CREATE TEMP TABLE stored (kind text, plain text, extended text, external text, main text, short text);
ALTER TABLE stored ALTER plain SET STORAGE plain, ALTER extended SET STORAGE extended,
	ALTER external SET STORAGE external, ALTER main SET STORAGE main;
INSERT INTO stored SELECT 'long', x, x || repeat('y', 10000), x || repeat('y', 10000), x || repeat('y', 10000), 'short'
FROM (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 100) i) s(x);
CREATE TEMP TABLE equal AS
	SELECT call AS what, a, b FROM calls($$'nan'::float8 | -'nan'::float8; 'nan'::float4 | -'nan'::float4; ARRAY['nan'::float8] | ARRAY[-'nan'::float8]
point('nan', 1) | point(-'nan'::float8, 1); floatrange(1, 'nan') | floatrange(1, -'nan'::float8); 'a'::varchar | 'a'::text; 'a'::name | 'a'::text; 'a' | 'a'::text
7::small | 7; ROW(1, 'x')::named_pair | 1, 'x'; ROW(1, 'x')::pair | 1, 'x'::text; ROW(1, 'x') | 1, 'x'::text; VARIADIC ARRAY[1, NULL, 3] | 1, NULL::int, 3
VARIADIC ARRAY[ROW(1, 'x')::pair] | 1, 'x'; VARIADIC ARRAY[ROW(1, 'x')::pair, NULL] | ROW(1, 'x')::pair, NULL::pair; 1, 'x' | seed 0, 1, 'x'
'[1,5]'::int4range | '[1,6)'::int4range; '{"b":1,"a":2}'::jsonb | '{"a":2,  "b":1}'::jsonb$$)
	UNION ALL SELECT 'plain', iblt_checksum(plain), iblt_checksum(plain || '') FROM stored
	UNION ALL SELECT 'compressed', iblt_checksum(extended), iblt_checksum(extended || '') FROM stored
	UNION ALL SELECT 'external', iblt_checksum(external), iblt_checksum(extended) FROM stored
	UNION ALL SELECT 'main', iblt_checksum(main), iblt_checksum(external) FROM stored
	UNION ALL SELECT 'short header', iblt_checksum(short), iblt_checksum('short'::text) FROM stored
	UNION ALL SELECT 'toasted in a row', iblt_checksum(stored.*), iblt_checksum(kind, plain || '', extended || '', external || '', main || '', short) FROM stored
	UNION ALL SELECT 'toasted in an array', iblt_checksum(ARRAY[extended]), iblt_checksum(ARRAY[external || '']) FROM stored;
SELECT count(*) AS pairs FROM equal;
SELECT what FROM equal WHERE a IS DISTINCT FROM b ORDER BY 1;
SELECT pg_column_size(extended) < 9000 AS compressed, pg_column_size(external) > 9000 AS external FROM stored;

-- Bytes of every length around those of short headers, stored and made in the
-- query (where headers are long); alone, among others, and where the buffer grows.
CREATE TEMP TABLE lengths AS SELECT n, left(x, n) AS t, convert_to(left(x, n), 'UTF8') AS b
	FROM generate_series(0, 300) n, (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 10) i) s(x);
SELECT count(*) AS lengths, count(*) FILTER (WHERE pg_column_size(t) = n + 1) AS short,
	count(DISTINCT iblt_checksum(t)) AS sums,
	count(*) FILTER (WHERE iblt_checksum(t) = iblt_checksum(t || '')) AS alone,
	count(*) FILTER (WHERE iblt_checksum(b) = iblt_checksum(b || '')) AS bytea,
	count(*) FILTER (WHERE iblt_checksum(n, t, NULL::int, t, b) = iblt_checksum(n, t || '', NULL::int, t || '', b || '')) AS among,
	count(*) FILTER (WHERE iblt_checksum(t, b, t, b, t, b, t, b, t, b, t, b, t, b, t, b)
		= iblt_checksum(t || '', b || '', t || '', b || '', t || '', b || '', t || '', b || '',
			t || '', b || '', t || '', b || '', t || '', b || '', t || '', b || '')) AS grown
FROM lengths;

--
-- Settings have no say.
--
CREATE TEMP TABLE settings AS SELECT 1.1::float8 AS f, '2024-02-29 12:34+00'::timestamptz AS t,
	'1 mon -2 days'::interval AS i, '\xff'::bytea AS b, 'pg_class'::regclass AS c,
	'checksum_test.pair'::regclass AS d, '<a/>'::text AS x, 'int8'::regtype AS y;
CREATE TEMP TABLE before AS SELECT iblt_checksum(settings.*) AS sum FROM settings;
SELECT count(set_config(name, value, false)) AS set FROM (VALUES ('DateStyle', 'German, DMY'), ('IntervalStyle', 'sql_standard'), ('TimeZone', 'Asia/Kathmandu'), ('extra_float_digits', '-15'),
	('bytea_output', 'escape'), ('quote_all_identifiers', 'on'), ('search_path', 'pg_temp, checksum_test, public')) AS v(name, value);
SELECT iblt_checksum(settings.*) = sum AS same FROM settings, before;
CREATE TEMP TABLE pg_class (x int);
SELECT iblt_checksum(settings.*) = sum AS same FROM settings, before;
DROP TABLE pg_temp.pg_class;
SELECT iblt_checksum('pg_monitor=r/pg_monitor'::aclitem) = iblt_checksum('pg_monitor=r/pg_monitor'::text) AS same;
SELECT current_setting('TimeZone') = 'Asia/Kathmandu' AND current_setting('bytea_output') = 'escape' AND
	current_setting('search_path') LIKE '%checksum_test%' AS kept;
RESET ALL;
SET search_path = checksum_test, public;

--
-- A whole row is its columns, whichever way the planner takes.  as_row gets a
-- row made at run time, which the planner cannot take apart.
--
CREATE TABLE t (dropped int, id int PRIMARY KEY, a text, also_dropped text, b numeric);
ALTER TABLE t DROP dropped, DROP also_dropped, ADD c text DEFAULT 'new';
INSERT INTO t VALUES (1, 'x', 1.0), (2, NULL, NULL), (3, 'y', 2.00);
ALTER TABLE t ADD d text DEFAULT 'fast default';
CREATE TABLE child (e int) INHERITS (t);
INSERT INTO child VALUES (4, 'child', 1, 'c', 'd', 5);
CREATE TABLE u (t_id int, note text);
INSERT INTO u VALUES (1, 'one'), (1, 'again'), (9, 'none');
CREATE TABLE parts (id int, v text) PARTITION BY RANGE (id);
CREATE TABLE part1 (v text, dropped int, id int);
ALTER TABLE part1 DROP dropped;
ALTER TABLE parts ATTACH PARTITION part1 FOR VALUES FROM (0) TO (10);
INSERT INTO parts VALUES (1, 'p'), (2, NULL);
CREATE TABLE single (p pair);
INSERT INTO single VALUES (ROW(1, 'x')), (ROW(NULL, NULL)), (NULL);
CREATE VIEW v AS SELECT b, a, id FROM t;
CREATE VIEW barrier WITH (security_barrier) AS SELECT b, a, id FROM t WHERE id < 3;
CREATE FUNCTION as_row(anyelement) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN iblt_checksum($1); END';
CREATE TEMP TABLE whole AS
	SELECT 'plain' AS what, iblt_checksum(t.*) AS a, as_row(t) AS b FROM t
	UNION ALL SELECT 'columns', iblt_checksum(t.*), iblt_checksum(id, t.a, t.b, c, d) FROM t
	UNION ALL SELECT 'only', iblt_checksum(t.*), as_row(t) FROM ONLY t
	UNION ALL SELECT 'star', iblt_checksum(t.*), as_row(t) FROM t
	UNION ALL SELECT 'seeded', iblt_checksum_seeded(5, t.*), iblt_checksum_seeded(5, id, t.a, t.b, c, d) FROM t
	UNION ALL SELECT 'inner join', iblt_checksum(t.*), as_row(t) FROM t JOIN u ON id = t_id
	UNION ALL SELECT 'join using', iblt_checksum(x), as_row(x) FROM t x JOIN t y USING (id)
	UNION ALL SELECT 'left join', iblt_checksum(t.*), CASE WHEN id IS NULL THEN iblt_checksum(NULL) ELSE as_row(t) END FROM u LEFT JOIN t ON id = t_id
	UNION ALL SELECT 'right join', iblt_checksum(t.*), CASE WHEN id IS NULL THEN iblt_checksum(NULL) ELSE as_row(t) END FROM t RIGHT JOIN u ON id = t_id
	UNION ALL SELECT 'full join', iblt_checksum(t.*), CASE WHEN id IS NULL THEN iblt_checksum(NULL) ELSE as_row(t) END FROM t FULL JOIN u ON id = t_id
	UNION ALL SELECT 'subquery above a left join', iblt_checksum(s.r), CASE WHEN s.id IS NULL THEN iblt_checksum(NULL) ELSE as_row(s.r) END FROM (SELECT t AS r, id FROM u LEFT JOIN t ON id = t_id) s
	UNION ALL SELECT 'subquery below a left join', s.sum, CASE WHEN s.sum IS NULL THEN NULL ELSE as_row(t) END FROM u LEFT JOIN (SELECT id, iblt_checksum(t.*) AS sum FROM t) s ON s.id = t_id LEFT JOIN t ON t.id = t_id
	UNION ALL SELECT 'row of a nullable subquery', iblt_checksum(s.*), CASE WHEN s.id IS NULL THEN iblt_checksum(NULL) ELSE iblt_checksum(s.id, s.a) END FROM u LEFT JOIN (SELECT id, t.a FROM t) s ON s.id = t_id
	UNION ALL SELECT 'lateral function', f, CASE WHEN id IS NULL THEN iblt_checksum(NULL) ELSE as_row(t) END FROM u LEFT JOIN t ON id = t_id, LATERAL generate_series(iblt_checksum(t.*), iblt_checksum(t.*)) f
	UNION ALL SELECT 'sublink', (SELECT iblt_checksum(t.*)), as_row(t) FROM t
	UNION ALL SELECT 'exists', as_row(t), iblt_checksum(t.*) FROM t WHERE EXISTS (SELECT FROM t t2 WHERE iblt_checksum(t2.*) = as_row(t))
	UNION ALL SELECT 'group by row', iblt_checksum(t.*), as_row(t) FROM t GROUP BY t
	UNION ALL SELECT 'group by key', iblt_checksum(t.*), as_row(t) FROM t GROUP BY id
	UNION ALL SELECT 'group by checksum', iblt_checksum(t.*), min(as_row(t)) FROM t GROUP BY iblt_checksum(t.*)
	UNION ALL SELECT 'having', iblt_checksum(t.*), as_row(t) FROM t GROUP BY t HAVING iblt_checksum(t.*) <> 0
	UNION ALL SELECT 'grouping sets', iblt_checksum(t.*), CASE WHEN grouping(t) = 1 THEN iblt_checksum(NULL) ELSE as_row(t) END FROM t GROUP BY GROUPING SETS ((t), ())
	UNION ALL SELECT 'grouping sets of a row', iblt_checksum(ROW(t.a, t.b)), CASE WHEN grouping(ROW(t.a, t.b)) = 1 THEN iblt_checksum(NULL) ELSE min(iblt_checksum(t.a, t.b)) END FROM t GROUP BY GROUPING SETS ((ROW(t.a, t.b)), ())
	UNION ALL SELECT 'window', iblt_checksum(t.*), as_row(lag(t, 0) OVER (ORDER BY id)) FROM t
	UNION ALL SELECT 'distinct on', * FROM (SELECT DISTINCT ON (t) iblt_checksum(t.*), as_row(t) FROM t) s
	UNION ALL SELECT 'aggregate', sum(iblt_checksum(t.*)), sum(as_row(t)) FROM t GROUP BY id % 2
	UNION ALL SELECT 'view', iblt_checksum(v.*), as_row(v) FROM v
	UNION ALL SELECT 'view columns', iblt_checksum(v.*), iblt_checksum(b, v.a, id) FROM v
	UNION ALL SELECT 'barrier', iblt_checksum(barrier.*), as_row(barrier) FROM barrier
	UNION ALL SELECT 'optimisation barrier', iblt_checksum(s.*), iblt_checksum(id, s.a, s.b, c, d) FROM (SELECT * FROM t OFFSET 0) s
	UNION ALL SELECT 'with', iblt_checksum(s.*), iblt_checksum(id, s.a, s.b, c, d) FROM (WITH w AS MATERIALIZED (SELECT * FROM t) SELECT * FROM w) s
	UNION ALL SELECT 'union all', iblt_checksum(s.*), iblt_checksum(id, s.a) FROM (SELECT id, t.a FROM t UNION ALL SELECT t_id, note FROM u) s
	UNION ALL SELECT 'partitioned', iblt_checksum(parts.*), iblt_checksum(id, parts.v) FROM parts
	UNION ALL SELECT 'partition', iblt_checksum(part1.*), iblt_checksum(part1.v, id) FROM part1
	UNION ALL SELECT 'one column that is a row', iblt_checksum(single.*), as_row(single) FROM single
	UNION ALL SELECT 'row of a row', iblt_checksum(ROW(p)), as_row(single) FROM single
	UNION ALL SELECT 'row of a literal', iblt_checksum(ROW('x')), iblt_checksum('x'::text)
	UNION ALL SELECT 'row of a null', iblt_checksum(ROW(NULL)), iblt_checksum(NULL::text)
	UNION ALL SELECT 'named row constructor', iblt_checksum(ROW(id, t.a)::pair), iblt_checksum(id, t.a) FROM t
	UNION ALL SELECT 'values', iblt_checksum(s.*), iblt_checksum(s.x, s.y) FROM (VALUES (1, 'a'), (2, NULL)) s(x, y);
WITH updated AS (UPDATE t SET c = 'updated' WHERE id = 2 RETURNING iblt_checksum(t.*) AS a, as_row(t) AS b),
	inserted AS (INSERT INTO t VALUES (1, 'z', 9) ON CONFLICT (id) DO UPDATE SET c = iblt_checksum(excluded.*)::text
		WHERE iblt_checksum(t.*) <> iblt_checksum(excluded.*) RETURNING iblt_checksum(t.*) AS a, as_row(t) AS b, c)
INSERT INTO whole SELECT 'update', a, b FROM updated UNION ALL SELECT 'upsert', a, b FROM inserted
	UNION ALL SELECT 'excluded', iblt_checksum(1, 'z'::text, 9::numeric, 'new'::text, 'fast default'::text), c::bigint FROM inserted;
SELECT count(DISTINCT what) AS cases, count(*) AS rows FROM whole;
SELECT what, a, b FROM whole WHERE a IS DISTINCT FROM b ORDER BY 1, 2, 3;

-- Constraints are simplified while their variables still have another number.
ALTER TABLE u ADD CONSTRAINT whole CHECK (iblt_checksum(u.*) <> 0);
SET constraint_exclusion = on;
SELECT count(*) FROM t, u WHERE id = t_id;
RESET constraint_exclusion;

-- A table wider than a call can have arguments.
DO $$
BEGIN
	EXECUTE 'CREATE TABLE wide AS SELECT ' || (SELECT string_agg(i || ' AS c' || i, ',') FROM generate_series(1, 1600) i);
	EXECUTE 'CREATE TABLE full_call AS SELECT ' || (SELECT string_agg(i || ' AS c' || i, ',') FROM generate_series(1, 100) i);
END
$$;
SELECT iblt_checksum(wide.*) = iblt_checksum(VARIADIC (SELECT array_agg(i) FROM generate_series(1, 1600) i)) AS wide FROM wide;
SELECT iblt_checksum(f.*) = iblt_checksum(VARIADIC (SELECT array_agg(i) FROM generate_series(1, 100) i)) AS full,
	iblt_checksum_seeded(7, f.*) = iblt_checksum_seeded(7, VARIADIC (SELECT array_agg(i) FROM generate_series(1, 100) i)) AS seeded
FROM full_call f;

-- A row type that changes while a session has looked it up.
CREATE FUNCTION sum_of(t) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN as_row($1); END';
SELECT count(DISTINCT sum_of(t)) FROM t;
ALTER TABLE t DROP c;
SELECT count(*) FROM t WHERE sum_of(t) <> iblt_checksum(id, a, b, d);
-- a plan that is kept, of a row constructor of a type that changes
CREATE TYPE three AS (a int, b int, c int);
CREATE TABLE src AS SELECT 1 AS a, 2 AS b, 3 AS c;
CREATE VIEW src_view AS SELECT a, b, c FROM src;
SET plan_cache_mode = force_generic_plan;
PREPARE of_three AS SELECT iblt_checksum(ROW(a, b, c)::three) = iblt_checksum(1, 2, 3) AS three,
	iblt_checksum(ROW(a, b, c)::three) = iblt_checksum(1, 3) AS two,
	iblt_checksum_seeded(7, ROW(a, b, c)::three) = iblt_checksum_seeded(7, 1, 3) AS seeded FROM src;
PREPARE of_view AS SELECT iblt_checksum(v.*) = iblt_checksum(1, 2, 3) AS three, iblt_checksum(v.*) = iblt_checksum(1, 2, 3, 4) AS four FROM src_view v;
EXECUTE of_three;
EXECUTE of_view;
ALTER TYPE three DROP ATTRIBUTE b;
CREATE OR REPLACE VIEW src_view AS SELECT a, b, c, 4 AS d FROM src;
EXECUTE of_three;
EXECUTE of_view;
DEALLOCATE of_three;
DEALLOCATE of_view;
RESET plan_cache_mode;
ALTER TYPE mood RENAME VALUE 'ok' TO 'fine';
SELECT iblt_checksum('fine'::mood) = iblt_checksum('fine'::text) AS renamed;
-- records of different types one after the other
SELECT count(*) AS violations FROM (VALUES (1, ROW(1, 'a'::text)), (2, ROW(2)), (3, ROW(1, 'a'::text))) s(i, r)
WHERE iblt_checksum(i, r) <> CASE i WHEN 2 THEN iblt_checksum(2, '\x0500000002'::bytea)
	ELSE iblt_checksum(i, '\x05000000010261'::bytea) END;

-- Expanded values, which PL/pgSQL makes.
DO $$
DECLARE
	a int[] := '{1,2}';
	r t;
BEGIN
	a[5] := 3;
	SELECT * INTO r FROM t WHERE id = 3;
	r.b := 7.50;
	ASSERT iblt_checksum(a) = iblt_checksum('{1,2,NULL,NULL,3}'::int[]);
	ASSERT iblt_checksum(r) = iblt_checksum(3, 'y'::text, 7.50, 'fast default'::text);
END
$$;

-- A huge row, and then small ones from the same call.
SELECT count(DISTINCT iblt_checksum(repeat('x', n), n)) FROM (VALUES (3000000), (1), (2)) s(n);

-- Many elements, most through functions that leave garbage behind.
SELECT iblt_checksum(array_agg(ROW(i, '10.0.0.1'::inet))) IS NOT NULL AS many FROM generate_series(1, 200000) i;

--
-- In expressions of a table, which no query plans.
--
CREATE TYPE checked_pair AS (a int, b text);
CREATE TABLE checked (a int, b text, CHECK (iblt_checksum(ROW(a, b)::checked_pair) <> 0 AND iblt_checksum(ROW(a, b)) <> 0));
INSERT INTO checked VALUES (1, 'x') RETURNING iblt_checksum(ROW(a, b)::checked_pair) = iblt_checksum(a, b) AS same;

--
-- What has no checksum.
--
-- the rest of the message is not the same in all releases
\set VERBOSITY terse
SELECT iblt_checksum();
\set VERBOSITY default
SELECT * FROM pg_temp.refusals('%s', $$iblt_checksum(VARIADIC '{}'::int[])$$, 'iblt_checksum(VARIADIC NULL::int[])', 'iblt_checksum_seeded(NULL, 1)',
	$$iblt_checksum('x'::cstring)$$, $$iblt_checksum(pg_notify('x', ''))$$);

SELECT provolatile, proparallel, proisstrict, procost FROM pg_proc WHERE proname IN ('iblt_checksum', 'iblt_checksum_seeded') ORDER BY proname;

SET client_min_messages = warning;
DROP SCHEMA checksum_test CASCADE;
RESET client_min_messages;
