-- The planner's immutable twin of a checksum: which arguments it is for.
\i test/sql/common.psql
CREATE SCHEMA immutable_test;
SET search_path = immutable_test, public;

CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TYPE pair AS (a int, b text);
CREATE TYPE moods AS RANGE (SUBTYPE = mood);
CREATE TYPE texts AS RANGE (SUBTYPE = text);
CREATE DOMAIN my_mood AS mood;
CREATE DOMAIN my_text AS text CHECK (VALUE <> '');
CREATE DOMAIN my_texts AS my_text[];
CREATE TABLE t (id int PRIMARY KEY, v text);

-- Is a call planned as one of the twin?
CREATE FUNCTION twin(call text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) SELECT ' || call LOOP
		IF line ~ 'iblt_internal\.iblt_checksum(_seeded)?_immutable\(' THEN
			RETURN true;
		ELSIF line ~ 'iblt_checksum' THEN
			RETURN false;
		END IF;
	END LOOP;
END
$$;

SELECT type, twin(format('iblt_checksum(x), iblt_checksum(1, x) FROM (SELECT NULL::%s OFFSET 0) AS s(x)', type)) AS twin
FROM unnest('{bool,"\"char\"",int2,int4,int8,oid,xid8,float4,float8,numeric,money,text,varchar(3),char(3),name,json,jsonb,
	jsonpath,xml,bytea,bit(3),varbit,date,time,timetz,timestamp,timestamptz,interval,uuid,inet,cidr,macaddr,macaddr8,point,
	polygon,tsvector,tsquery,pg_lsn,int4[],text[],int2vector,oidvector,int4range,tstzrange,int4range[],my_text,my_texts,my_texts[],texts,
	regclass,regtype,regrole,regconfig,regclass[],aclitem,mood,my_mood,mood[],moods,pair,pair[]}'::text[]) WITH ORDINALITY AS u(type, n)
ORDER BY n;

-- types whose send functions are immutable, may change, and may change as that of text does
SET client_min_messages = warning;
DO $$
BEGIN
	FOR i IN 1 .. 3 LOOP
		EXECUTE format('CREATE TYPE own%1$s; CREATE FUNCTION own%1$s_in(cstring) RETURNS own%1$s LANGUAGE internal IMMUTABLE STRICT AS ''textin'';
			CREATE FUNCTION own%1$s_out(own%1$s) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS ''textout'';
			CREATE FUNCTION own%1$s_send(own%1$s) RETURNS bytea LANGUAGE internal %2$s STRICT AS %3$L;
			CREATE TYPE own%1$s (INPUT = own%1$s_in, OUTPUT = own%1$s_out, SEND = own%1$s_send, LIKE = text)', i, (ARRAY['IMMUTABLE', 'STABLE', 'STABLE'])[i], (ARRAY['jsonb_send', 'jsonb_send', 'textsend'])[i]);
	END LOOP;
END $$;
RESET client_min_messages;
SELECT type, twin(format('iblt_checksum(x), iblt_checksum(1, x) FROM (SELECT NULL::%s OFFSET 0) AS s(x)', type)) AS twin FROM unnest('{own1,own2,own3,own2[]}'::text[]) AS type;
-- and they are not taken for another type because of that
SELECT count(DISTINCT iblt_checksum(x::own3)) AS of_four FROM unnest('{a,b,aaaaaaaa,aaaaaaab}'::text[]) AS x;
SET client_min_messages = warning;
CREATE TYPE short;
CREATE FUNCTION short_in(cstring) RETURNS short LANGUAGE internal IMMUTABLE STRICT AS 'int2in';
CREATE FUNCTION short_out(short) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'int2out';
CREATE FUNCTION short_send(short) RETURNS bytea LANGUAGE internal IMMUTABLE STRICT AS 'int2send';
CREATE FUNCTION short_recv(internal) RETURNS short LANGUAGE internal IMMUTABLE STRICT AS 'int2recv';
CREATE TYPE short (INPUT = short_in, OUTPUT = short_out, SEND = short_send, RECEIVE = short_recv, LIKE = int2);
RESET client_min_messages;
SELECT key FROM (SELECT iblt_agg('7'::short, 1::bigint, iblt_new(capacity => 10, seed => 1)) AS s) AS x, iblt_decode(s);

-- ways to write the arguments
SELECT call, twin(call || ' FROM t') AS twin FROM unnest(ARRAY['iblt_checksum(t.*)', 'iblt_checksum_seeded(7, t.*)', 'iblt_checksum_seeded(t.id, t.v)',
	'iblt_checksum(ROW(t.id))', 'iblt_checksum(ROW(t.id, t.v))', 'iblt_checksum(''x'', NULL)', 'iblt_checksum(1, t.*)', 'iblt_checksum(1, ROW(t.id))',
	'iblt_checksum(VARIADIC ARRAY[t.id])', 'iblt_checksum(t.id, ''t''::regclass)']) WITH ORDINALITY AS u(call, n) ORDER BY n;

-- the result is the same
INSERT INTO t VALUES (1, 'a'), (2, NULL);
SELECT id, iblt_checksum(t.*) = iblt_checksum(id, v) AS same,
	iblt_checksum(id, v) = (SELECT iblt_checksum(r.*) FROM (SELECT id, v) AS r LEFT JOIN (SELECT 1) AS other ON true) AS joined,
	iblt_checksum(v) = iblt_checksum(VARIADIC ARRAY[v]) AS sole,
	iblt_checksum_seeded(-5, id, id) = iblt_checksum_seeded(-5, VARIADIC ARRAY[id, id]) AS seeded
FROM t ORDER BY id;

-- an index keeps the function that it names, which is stable
DO $$ BEGIN
	CREATE INDEX ON t (iblt_checksum(id, v));
EXCEPTION WHEN OTHERS THEN RAISE NOTICE '%: %', SQLSTATE, SQLERRM; END $$;

-- what is ambiguous is refused as before
CREATE TABLE status (id int, status text);
SELECT iblt_checksum(status) FROM status;

SET client_min_messages = warning;
DROP SCHEMA immutable_test CASCADE;
RESET client_min_messages;
