-- Comparing by plain queries ---------------------------------------------------------
--
-- A hash of the key puts each row into one of some thousand buckets, and both sides sum
-- the hashes of their rows up in each bucket.  The rows of buckets whose sums differ are
-- read on both sides, become values of this side's types, and are compared here as
-- iblt_compare does it.  What is hashed are the texts of its columns under pinned settings,
-- which are unambiguous; so a release that prints a value differently makes more rows travel, and
-- never makes different rows equal.

-- The plan

CREATE FUNCTION iblt_internal.plain_refuse(problem text, hint text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF problem IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = 'cannot compare by plain queries: ' || problem, HINT = hint;
	END IF;
END
$$;
COMMENT ON FUNCTION iblt_internal.plain_refuse(text, text) IS
'an error if there is a problem';

CREATE FUNCTION iblt_internal.plain_check_options(conn text, options iblt_internal.options)
RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM iblt_internal.plain_refuse(CASE
		WHEN conn IS NULL THEN 'there is no peer'
		-- it may be in a transaction
		WHEN iblt_internal.peer_is_lent(conn) THEN 'the peer is a connection that is open'
		WHEN options.condition IS NOT NULL OR options.peer_condition IS NOT NULL
			THEN 'a condition cannot be checked on the peer'
		WHEN options.recheck > 0 THEN 'differences cannot be rechecked'
		WHEN options.live = 'require' THEN 'live digests are not read'
		WHEN options.lo IS NOT NULL OR options.hi IS NOT NULL THEN 'slices are not supported' END,
		'Leave the option out, or use method => ''sketch'' with iblt on both sides.');
END
$$;
COMMENT ON FUNCTION iblt_internal.plain_check_options(text, iblt_internal.options) IS
'an error for options that plain queries cannot follow';

CREATE FUNCTION iblt_internal.plain_check_sides(here iblt_internal.side, mine jsonb, theirs jsonb)
RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM iblt_internal.plain_refuse(CASE
		WHEN least((mine ->> 'version')::integer, (theirs ->> 'version')::integer) < 140000
			THEN 'both servers must have PostgreSQL 14 or later'
		-- the same bytes may be other characters
		WHEN mine -> 'encoding' <> theirs -> 'encoding'
			THEN format('the encoding is %s here and %s on the peer', mine ->> 'encoding',
				theirs ->> 'encoding')
		WHEN here.remote OR here.distributed
			THEN 'rows of the relation here are on other servers' END,
		'Install iblt on the peer, and use method => ''sketch''.');
END
$$;
COMMENT ON FUNCTION iblt_internal.plain_check_sides(iblt_internal.side, jsonb, jsonb) IS
'an error for sides that plain queries cannot compare, as plain_describe_sql described both';

CREATE FUNCTION iblt_internal.plain_check_types(plan iblt_internal.plan, mine jsonb, theirs jsonb)
RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	problems text := (SELECT string_agg(CASE
			WHEN c.type_here = c.type_there THEN format('"%s" is %s', c.name, c.type_here)
			ELSE format('"%s" is %s here and %s on the peer', c.name, c.type_here, c.type_there)
			END, ', ')
		FROM unnest(plan.columns) AS c
		LEFT JOIN jsonb_to_recordset(mine -> 'columns') AS h(name text, text text) USING (name)
		LEFT JOIN jsonb_to_recordset(theirs -> 'columns') AS t(name text, text text) USING (name)
		WHERE c.cast_to <> '' OR (h.text = t.text) IS NOT TRUE);
BEGIN
	PERFORM iblt_internal.plain_refuse(CASE WHEN plan.columns = '{}' THEN 'there are no columns'
		ELSE 'their text does not tell all values of some columns apart: ' || problems END,
		'Exclude these columns, or use method => ''sketch'' with iblt on both sides.');
END
$$;
COMMENT ON FUNCTION iblt_internal.plain_check_types(iblt_internal.plan, jsonb, jsonb) IS
'an error that names the columns whose values texts do not compare safely';

-- Sums of more buckets are more to send, and of fewer buckets more rows.
CREATE FUNCTION iblt_internal.plain_buckets(row_number bigint) RETURNS integer
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT greatest(16, least(row_number / 80, 65536), least(row_number / 1500, 131072))::integer
$$;
COMMENT ON FUNCTION iblt_internal.plain_buckets(bigint) IS
'into how many buckets the rows are put, of which there are about so many';

CREATE FUNCTION iblt_internal.plain_prepare(conn text, relation regclass, peer_relation text,
	options iblt_internal.options) RETURNS iblt_internal.plan
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	name text := iblt_internal.peer_name(relation, peer_relation);
	here iblt_internal.side := iblt_internal.described(iblt_internal.describe(relation), 'here');
	mine jsonb;
	theirs jsonb;
	plan iblt_internal.plan;
BEGIN
	PERFORM iblt_internal.plain_check_options(conn, options);
	IF here.relation IS DISTINCT FROM options.relation THEN
		PERFORM iblt_internal.refuse_altered(options.relation, 'here');
	END IF;
	PERFORM iblt_internal.plain_ask(conn, iblt_internal.plain_describe_sql(name), options.label);
	EXECUTE iblt_internal.plain_describe_sql(iblt_internal.peer_name(relation, NULL)) INTO mine;
	theirs := iblt_internal.peer_value(conn, 0.001, 2);
	IF theirs = 'null' THEN
		PERFORM iblt_internal.refuse_no_relation(name);
	END IF;
	PERFORM iblt_internal.plain_check_sides(here, mine, theirs);
	options.recheck := 0;
	options.live := 'off';
	plan := iblt_internal.plan_of(here, iblt_internal.described(theirs, 'there'), options, false);
	PERFORM iblt_internal.plain_check_types(plan, mine, theirs);
	plan.links := '{}';
	plan.buckets := iblt_internal.plain_buckets(greatest((mine -> 'size' ->> 'rows')::bigint,
		(theirs -> 'size' ->> 'rows')::bigint, 0));
	plan.bytes := greatest((mine -> 'size' ->> 'bytes')::bigint,
		(theirs -> 'size' ->> 'bytes')::bigint, 0);
	RETURN plan;
END
$$;
COMMENT ON FUNCTION iblt_internal.plain_prepare(text, regclass, text, iblt_internal.options) IS
'describes both relations without anything of iblt on the peer, and makes the plan';

CREATE FUNCTION iblt_internal.plain_wanted(conn text, method text) RETURNS boolean
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	missing boolean := method = 'plain';
BEGIN
	IF method = 'auto' AND NOT iblt_internal.peer_is_lent(conn) THEN
		PERFORM iblt_internal.plain_ask(conn, 'SELECT NOT EXISTS (SELECT FROM pg_extension'
			' WHERE extname = ''iblt'')');
		missing := iblt_internal.peer_value(conn, 0.001, 2);
		IF missing THEN
			RAISE NOTICE USING
				MESSAGE = 'the peer has no extension iblt, and is compared by plain queries',
				DETAIL = 'Differences are not rechecked: they may be rows in flight.';
		END IF;
	END IF;
	RETURN missing;
END
$$;
COMMENT ON FUNCTION iblt_internal.plain_wanted(text, text) IS
'does a method mean plain queries to this peer? With auto, a notice says so';

-- Statements

CREATE FUNCTION iblt_internal.plain_names_sql(columns iblt_internal.plan_column[]) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT string_agg(format('t.%I', (columns[i]).name), ', ' ORDER BY i)
	FROM generate_subscripts(columns, 1) AS i
$$;
COMMENT ON FUNCTION iblt_internal.plain_names_sql(iblt_internal.plan_column[]) IS
'columns of t with commas between them';

-- A cast to text is faster than format, which always uses the type's output.  It loses the
-- blanks of a character(n), and that of an enum may be a function of its owner's.
CREATE FUNCTION iblt_internal.plain_text_sql(c iblt_internal.plan_column) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format(CASE WHEN c.base < 16384 AND c.base NOT IN (650, 869, 1042) THEN '%s::text'
		ELSE 'CASE WHEN %1$s IS NOT NULL THEN format(''%%s'', %1$s) END' END,
		format('t.%I', c.name))
$$;
COMMENT ON FUNCTION iblt_internal.plain_text_sql(iblt_internal.plan_column) IS
'the expression of the text of a column';

-- The hash of each column is the seed of the next one.  Hashes of columns must not be added
-- up, for two rows of a bucket could then exchange values.  COLLATE "C", because the hash of
-- a text follows its collation.
CREATE FUNCTION iblt_internal.plain_hash_sql(columns iblt_internal.plan_column[], seed bigint)
RETURNS text
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	hash text := format('%L::int8', seed);
	c iblt_internal.plan_column;
BEGIN
	IF cardinality(columns) > 100 THEN
		-- it would be nested too deep
		RETURN format('hashtextextended(ROW(%s)::text COLLATE "C", %s)',
			iblt_internal.plain_names_sql(columns), hash);
	END IF;
	FOREACH c IN ARRAY columns LOOP
		hash := format('hashtextextended(coalesce(%s, '''') COLLATE "C",'
			' %s # (t.%I IS NULL)::int4::int8)', iblt_internal.plain_text_sql(c), hash, c.name);
	END LOOP;
	RETURN hash;
END
$$;
COMMENT ON FUNCTION iblt_internal.plain_hash_sql(iblt_internal.plan_column[], bigint) IS
'the expression of a hash of the texts of columns';

CREATE FUNCTION iblt_internal.plain_bucket_sql(plan iblt_internal.plan) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format('(%s & 9223372036854775807) %% %s',
		iblt_internal.plain_hash_sql(plan.key, plan.seed # 1), plan.buckets)
$$;
COMMENT ON FUNCTION iblt_internal.plain_bucket_sql(iblt_internal.plan) IS
'the expression of the bucket that a row is in';

CREATE FUNCTION iblt_internal.plain_read_sql(s iblt_internal.side) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE s.side WHEN 'here' THEN iblt_internal.fingerprint_sql(s)
		ELSE iblt_internal.plain_fingerprint_sql(format('%L::regclass', s.relation)) END
$$;
COMMENT ON FUNCTION iblt_internal.plain_read_sql(iblt_internal.side) IS
'the expression of the fingerprint of what a statement reads';

CREATE FUNCTION iblt_internal.plain_sums_sql(plan iblt_internal.plan, s iblt_internal.side)
RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format('SELECT concat(%s, '' '', coalesce(sum(n), 0), '' '','
			' array_agg(total ORDER BY bucket)) FROM generate_series(0, %s) AS bucket LEFT JOIN'
			' (SELECT bucket, count(*) AS n, sum(hash) AS total FROM'
			' (SELECT %s AS bucket, %s AS hash FROM %s AS t) AS iblt_h GROUP BY bucket) AS iblt_s'
			' USING (bucket)',
		iblt_internal.plain_read_sql(s), plan.buckets - 1, iblt_internal.plain_bucket_sql(plan),
		iblt_internal.plain_hash_sql(plan.columns, plan.seed), s.relation)
$$;
COMMENT ON FUNCTION iblt_internal.plain_sums_sql(iblt_internal.plan, iblt_internal.side) IS
'a query for the fingerprint, the number of rows, and the sum of hashes in each bucket';

-- A cast to text would lose the blanks of a character(n); format uses the type's output.
CREATE FUNCTION iblt_internal.plain_rows_sql(plan iblt_internal.plan, buckets integer[])
RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format('SELECT concat(%s, '' '', coalesce(array_agg(iblt_row), ''{}'')) FROM'
			' (SELECT ARRAY[%s]::text AS iblt_row FROM %s AS t WHERE %s = ANY (%L::int8[]))'
			' AS iblt_r',
		iblt_internal.plain_read_sql(plan.there), (SELECT string_agg(format(
			'CASE WHEN t.%1$I IS NOT NULL THEN format(''%%s'', t.%1$I) END',
			(plan.columns[i]).name), ', ' ORDER BY i)
			FROM generate_subscripts(plan.columns, 1) AS i),
		(plan.there).relation, iblt_internal.plain_bucket_sql(plan), buckets)
$$;
COMMENT ON FUNCTION iblt_internal.plain_rows_sql(iblt_internal.plan, integer[]) IS
'a query for the fingerprint of the peer''s relation and its rows in buckets, each an array of '
'texts';

-- Without a length: "character" and "bit" would be of one.
CREATE FUNCTION iblt_internal.plain_type(c iblt_internal.plan_column) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN (SELECT format('pg_catalog.%I', CASE WHEN t.oid < 16384 THEN t.typname
			WHEN t.typtype = 'e' THEN 'text' ELSE '_text' END)
		FROM pg_type t WHERE t.oid = c.base::oid);
END
$$;
COMMENT ON FUNCTION iblt_internal.plain_type(iblt_internal.plan_column) IS
'the built-in type that both sides'' values become: text for an enum';

-- As lookup_by_hash_sql has it: equal rows are counted, and different ones of a key are
-- digested in order.
CREATE FUNCTION iblt_internal.plain_group_sql(plan iblt_internal.plan, rows text) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN format('SELECT id, key, sum(n)::bigint AS n,'
			' encode(sha256(string_agg(concat(checksum, ''*'', n), '','''
			' ORDER BY checksum)::bytea), ''hex'') AS digest, CASE count(*)'
			' WHEN 1 THEN (array_agg(content))[1] ELSE jsonb_agg(content ORDER BY checksum) END'
			' AS content FROM (SELECT concat(hash, '' '', key) AS id, key, checksum,'
			' count(*) AS n, (array_agg(content))[1] AS content FROM (SELECT %s AS hash,'
			' %s AS key, %s AS checksum, %s AS content FROM (%s) AS t) AS iblt_a'
			' GROUP BY hash, key, checksum) AS iblt_b GROUP BY id, key',
		iblt_internal.key_hash_sql(plan, plan.here), iblt_internal.json_sql(plan.key, true),
		iblt_internal.row_checksum_sql(plan, plan.here), iblt_internal.content_sql(plan), rows);
END
$$;
COMMENT ON FUNCTION iblt_internal.plain_group_sql(iblt_internal.plan, text) IS
'a query for the keys among rows, with a digest of the rows of each';

CREATE FUNCTION iblt_internal.plain_pairs_sql(plan iblt_internal.plan, buckets integer[])
RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	mine text := (SELECT string_agg(format('t.%1$I::%2$s AS %1$I', (plan.columns[i]).name,
			iblt_internal.plain_type(plan.columns[i])), ', ' ORDER BY i)
		FROM generate_subscripts(plan.columns, 1) AS i);
	theirs text := (SELECT string_agg(format('iblt_a[%s]::%s AS %I', i,
			iblt_internal.plain_type(plan.columns[i]), (plan.columns[i]).name), ', ' ORDER BY i)
		FROM generate_subscripts(plan.columns, 1) AS i);
BEGIN
	mine := format('SELECT %s FROM %s AS t WHERE %s = ANY (%L::int8[])', mine,
		(plan.here).relation, iblt_internal.plain_bucket_sql(plan), buckets);
	theirs := format('SELECT %s FROM (SELECT iblt_row::text[] AS iblt_a'
		' FROM unnest($1) AS iblt_row OFFSET 0) AS iblt_r', theirs);
	-- another seed than that of the buckets, which the peer knows
	plan.seed := iblt_internal.random_seed();
	RETURN format('WITH h AS MATERIALIZED (%s), t AS MATERIALIZED (%s)'
			' SELECT %s AS fingerprint, coalesce(array_agg(ROW(id, coalesce(h.key, t.key),'
			' CASE WHEN t.id IS NULL THEN ''here'' WHEN h.id IS NULL THEN ''there'''
			' ELSE ''both'' END, h.content, t.content, coalesce(h.n, 0), coalesce(t.n, 0),'
			' NULL, NULL)::iblt_internal.difference), ''{}'') AS differences'
			' FROM h FULL JOIN t USING (id) WHERE h.digest IS DISTINCT FROM t.digest',
		iblt_internal.plain_group_sql(plan, mine), iblt_internal.plain_group_sql(plan, theirs),
		iblt_internal.fingerprint_sql(plan.here));
END
$$;
COMMENT ON FUNCTION iblt_internal.plain_pairs_sql(iblt_internal.plan, integer[]) IS
'a query for the differences between the rows of buckets here and the peer''s in $1';
