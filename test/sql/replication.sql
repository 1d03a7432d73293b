-- What a side tells of its replication, and what a comparison makes of both sides: the
-- links between them, and whether differences wait for them.  Subscriptions are made
-- without a publisher, and undone before a worker could start.
\i test/sql/common.psql
SET client_min_messages = error;
CREATE SCHEMA replication;
SET search_path = replication, public, iblt_internal;

CREATE TABLE alone (id int PRIMARY KEY);
CREATE TABLE whole (id int PRIMARY KEY) PARTITION BY LIST (id);
CREATE TABLE half PARTITION OF whole FOR VALUES IN (1, 2) PARTITION BY LIST (id);
CREATE TABLE part PARTITION OF half FOR VALUES IN (1);
CREATE TABLE sibling PARTITION OF half FOR VALUES IN (2);

-- the subscriptions of a relation, of the partitioned tables above it, and of its parts
BEGIN;
CREATE SUBSCRIPTION iblt_sub CONNECTION 'dbname=nowhere' PUBLICATION p WITH (connect = false, slot_name = 'the_slot');
CREATE SUBSCRIPTION iblt_no_slot CONNECTION 'dbname=nowhere' PUBLICATION p WITH (connect = false, slot_name = NONE);
CREATE FUNCTION subscribe(name text, relation regclass, state "char" DEFAULT 'r') RETURNS void LANGUAGE sql AS $$
	INSERT INTO pg_subscription_rel SELECT oid, relation, state, NULL FROM pg_subscription WHERE subname = name
$$;
CREATE FUNCTION subscribed() RETURNS TABLE (relation text, subscriptions jsonb) LANGUAGE sql AS $$
	SELECT r, iblt_internal.describe_replication(r::regclass) -> 'subscriptions' FROM unnest('{alone,whole,half,part,sibling}'::text[]) AS r
$$;
UPDATE pg_subscription SET subenabled = true WHERE subconninfo = 'dbname=nowhere';
SAVEPOINT nothing;
SELECT subscribe('iblt_sub', 'half');
SELECT * FROM subscribed();
ROLLBACK TO nothing;
SELECT subscribe('iblt_sub', 'part'), subscribe('iblt_sub', 'alone', 'd');
SELECT * FROM subscribed();
ROLLBACK TO nothing;
UPDATE pg_subscription SET subenabled = false WHERE subconninfo = 'dbname=nowhere';
SELECT subscribe('iblt_sub', 'alone'), subscribe('iblt_no_slot', 'alone'), subscribe('iblt_no_slot', 'part');
SELECT * FROM subscribed();
-- what an audit asks of published tables: what feeds each of them, and its generated columns
CREATE TABLE computed (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (2 * id) STORED);
SELECT subscribe('iblt_sub', 'computed');
SELECT name, audit_subscribed(name::regclass) FROM unnest('{alone,sibling,computed}'::text[]) AS name;
UPDATE pg_subscription SET subdbid = (SELECT oid FROM pg_database WHERE datname = 'template1')
	WHERE subconninfo = 'dbname=nowhere';
SELECT count(*) AS of_this_database FROM subscribed() WHERE subscriptions <> '[]';
ROLLBACK;

-- the links between two sides
CREATE FUNCTION made(here jsonb, there jsonb) RETURNS iblt_internal.plan LANGUAGE sql AS $$
	SELECT iblt_internal.make_plan(iblt_internal.described(plain || here, 'here'), iblt_internal.described(plain || there, 'there'),
		jsonb_populate_record(NULL::iblt_internal.options, '{"content": "none", "cast_types": false, "method": "sketch", "seed": 1}'))
	FROM (SELECT iblt_internal.describe('alone') || '{"system": "1", "recovery": false, "slots": [], "subscriptions": []}') AS x(plain)
$$;
SELECT title, made(here, there) AS plan INTO TEMP plans FROM (VALUES
	(1, 'none', '{}'::jsonb, '{}'::jsonb),
	(2, 'publisher here', '{"slots": ["s", "t"]}', '{"system": "2", "subscriptions": [{"slot": "s", "ready": true}]}'),
	(3, 'publisher there', '{"subscriptions": [{"slot": "s", "ready": true}]}', '{"system": "2", "slots": ["s"]}'),
	(4, 'not ready', '{"slots": ["s"]}', '{"system": "2", "subscriptions": [{"slot": "s", "ready": false}]}'),
	(5, 'both ways', '{"slots": ["s"], "subscriptions": [{"slot": "t", "ready": true}]}', '{"system": "2", "slots": ["t"], "subscriptions": [{"slot": "s", "ready": true}]}'),
	(6, 'publisher elsewhere', '{"slots": ["t"]}', '{"system": "2", "subscriptions": [{"slot": "s", "ready": true}]}'),
	(7, 'standby', '{}', '{"recovery": true}'),
	(8, 'two standbys', '{"recovery": true}', '{"recovery": true}'),
	(9, 'standby of another', '{}', '{"system": "2", "recovery": true}'),
	(10, 'standby of a publisher', '{"recovery": true}', '{"system": "2", "subscriptions": [{"slot": "s", "ready": true}]}'),
	(11, 'standby of a publisher, system unknown', '{"recovery": true, "system": null}', '{"system": "2", "subscriptions": [{"slot": "s", "ready": true}]}'),
	(12, 'standby of a subscriber', '{"slots": ["s"]}', '{"system": "2", "recovery": true, "subscriptions": [{"slot": "s", "ready": true}]}'),
	(13, 'perhaps a standby, system unknown', '{}', '{"recovery": true, "system": null}'),
	(14, 'perhaps its primary, system unknown', '{"recovery": true}', '{"system": null}'),
	(15, 'three that replicate to each other', '{"slots": ["s"], "subscriptions": [{"name": "b", "slot": "t", "ready": true}, {"name": "c", "slot": "c", "ready": true}]}',
		'{"system": "2", "slots": ["t"], "subscriptions": [{"name": "a", "slot": "s", "ready": true}, {"name": "c", "slot": "d", "ready": true}]}'),
	(16, 'with slots of one name', '{"slots": ["s"], "subscriptions": [{"name": "b", "slot": "t", "ready": true}, {"name": "c", "slot": "t", "ready": true}]}',
		'{"system": "2", "slots": ["t"], "subscriptions": [{"name": "a", "slot": "s", "ready": true}, {"name": "c", "slot": "s", "ready": true}]}'),
	(17, 'a third replicates to one', '{"slots": ["s"], "subscriptions": [{"name": "b", "slot": "t", "ready": true}, {"name": "c", "slot": "t", "ready": true}]}',
		'{"system": "2", "slots": ["t"], "subscriptions": [{"name": "a", "slot": "s", "ready": true}, {"name": "a", "slot": "s", "ready": false}]}'),
	(18, 'two subscriptions each', '{"slots": ["s", "u"], "subscriptions": [{"name": "b", "slot": "t", "ready": true}, {"name": "c", "slot": "v", "ready": true}]}',
		'{"system": "2", "slots": ["t", "v"], "subscriptions": [{"name": "a", "slot": "s", "ready": true}, {"name": "d", "slot": "u", "ready": true}]}'),
	(19, 'a standby of what others replicate to', '{"subscriptions": [{"name": "c", "slot": "c", "ready": true}]}', '{"recovery": true, "subscriptions": [{"name": "c", "slot": "c", "ready": true}]}'),
	(20, 'two subscribers of one publisher', '{"subscriptions": [{"name": "c", "slot": "c", "ready": true}]}', '{"system": "2", "subscriptions": [{"name": "c", "slot": "d", "ready": true}]}')
	) AS x(n, title, here, there) ORDER BY n;
SELECT title, (SELECT string_agg(concat_ws(' ', l.source, '->', l.follower, l.slot, CASE WHEN NOT l.ready THEN 'not ready' END), '; ' ORDER BY l) FROM unnest((plan).links) AS l) AS links,
	(plan).recheck, (plan).versions, iblt_internal.unready(plan) IS NOT NULL AS unready
FROM plans;
-- row versions are read where both sides have them
SELECT (made(here, '{"recovery": true}' || there)).versions, here, there FROM (VALUES
	('{}'::jsonb, '{}'::jsonb), ('{"versions": false}', '{}'), ('{}', '{"versions": false}')) AS x(here, there);

-- a transaction that looks for writers is not one of them
BEGIN;
INSERT INTO alone VALUES (1);
SELECT iblt_internal.writers('alone'), iblt_internal.committing('alone');
COMMIT;
-- nor is one that only reads, or writes elsewhere
SELECT iblt_internal.writers('part');

-- the position before the header of a page, or of the first page of a segment, after which the next record will begin
CREATE FUNCTION before_header(header int) RETURNS TABLE (by_sql numeric, by_c numeric, flushed boolean) LANGUAGE plpgsql AS $$
DECLARE
	block int := current_setting('wal_block_size');
	at pg_lsn;
	room int;
BEGIN
	-- others may write WAL, too
	FOR i IN 1 .. 100 LOOP
		IF header = 40 THEN
			PERFORM pg_switch_wal();
		ELSE
			at := pg_current_wal_insert_lsn();
			PERFORM pg_logical_emit_message(false, '', repeat('x', 400));
			room := block - (at - '0/0') % block - 2 * (pg_current_wal_insert_lsn() - at);
			CONTINUE WHEN room < 0;	-- or the message has crossed a page
			PERFORM pg_logical_emit_message(false, '', repeat('x', 400 + room));
		END IF;
		at := pg_current_wal_insert_lsn();
		by_sql := (at - '0/0') - iblt_internal.wal_position(false);
		by_c := at - iblt_internal.iblt_wal_position();
		flushed := iblt_internal.wal_position(true) >= (at - '0/0') - header;
		EXIT WHEN (at - '0/0') % block = header AND at = pg_current_wal_insert_lsn();
	END LOOP;
	RETURN NEXT;
END $$;
SELECT header, b.* FROM unnest('{24,40}'::int[]) AS header, before_header(header) AS b;

DROP SCHEMA replication CASCADE;
