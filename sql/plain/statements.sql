-- Statements of a plain comparison --------------------------------------------------
--
-- A hash of the key puts each row into one of some thousand buckets, and both sides sum
-- the hashes of their rows up in each bucket.  The rows of buckets whose sums differ are
-- read on both sides, become values of this side's types, and are compared here as
-- iblt_compare does it.  What is hashed are the texts of its columns under pinned settings,
-- which are unambiguous; so a release that prints a value differently makes more rows travel, and
-- never makes different rows equal.
--
-- To look at rows again, both sides are asked for those whose keys have given hashes.

-- The expression of a column's value, in the type through which it is read.
CREATE FUNCTION plain_value_sql(c plan_column) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN format('t.%I', c.name) || coalesce('::' || text_type(c), '');

-- The expressions of texts that columns are hashed as, which are never null.
-- A NULL is hashed as a random text that no value has.  IS NOT NULL would be false of a row with a
-- NULL in it.  A cast to text is faster than format, which always uses the type's output.  It loses
-- the blanks of a character(n), and that of an enum may be a function of its owner's.
CREATE FUNCTION plain_texts_sql(columns plan_column[], seed bigint) RETURNS text[]
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN (SELECT CASE WHEN count(*) > 100	-- hashes would be nested too deep
		THEN ARRAY[format('ROW(%s)::text', string_agg(c.name, ', ' ORDER BY i))]
		ELSE coalesce(array_agg(format('coalesce(%s, %L)', format(
				CASE WHEN c.base < 16384 AND c.base NOT IN (650, 869, 1042) THEN '%s::text'
				ELSE 'CASE WHEN %1$s IS DISTINCT FROM NULL THEN format(''%%s'', %1$s) END' END,
				c.name),
			left(encode(sha256(('null ' || seed)::bytea), 'hex'), 32)) ORDER BY i), '{}') END
	FROM generate_subscripts(columns, 1) AS i,
	LATERAL (SELECT plain_value_sql(columns[i]), (columns[i]).base) AS c(name, base));

-- The expression of a hash of texts, given as expressions, that goes on from another hash.
-- The hash of each text is the seed of the next one.  Hashes of columns must not be added
-- up, for two rows of a bucket could then exchange values.  COLLATE "C", because the hash of
-- a text follows its collation.
CREATE FUNCTION plain_chain_sql(texts text[], hash text) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN (SELECT concat(string_agg(format('hashtextextended(%s COLLATE "C", ', expression), ''
			ORDER BY n DESC), hash, repeat(')', count(*)::integer))
		FROM unnest(texts) WITH ORDINALITY AS u(expression, n));

-- The seed of the hashes that both sides make.
-- The peer knows this seed.  Another one, which it does not know, is that of the checksums
-- that decide here whether rows are equal.
CREATE FUNCTION plain_seed(plan plan) RETURNS bigint
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN ('x' || left(encode(sha256(('plain ' || plan.seed)::bytea), 'hex'), 16))::bit(64)
		::bigint;

-- The expression of the hash of a key.
CREATE FUNCTION plain_key_sql(plan plan) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN plain_chain_sql(plain_texts_sql(plan.key, plain_seed(plan) # 1),
		format('%L::int8', plain_seed(plan) # 1));

-- The condition that a row's key has one of the hashes, or is in one of the buckets, of an
-- array.
CREATE FUNCTION plain_matches_sql(plan plan, keys text, in_buckets boolean) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN format(CASE WHEN in_buckets THEN '(%s & 9223372036854775807) %% %s = ANY (%3$s::int8[])'
			ELSE '%s = ANY (%3$s::int8[])' END,
		plain_key_sql(plan), plan.buckets, keys);

-- The expression of the fingerprint of a side's relation, whose OID is the expression id.  The
-- expression "known", if it is given, has those of many relations without iblt.
CREATE FUNCTION read_fingerprint_sql(s side, id text, known text DEFAULT NULL) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
	RETURN on_server_sql(s, CASE WHEN s.bare THEN
			coalesce(known || format(' ->> (%s)::oid::text', id), plain_fingerprint_sql(id))
		ELSE format('iblt_internal.iblt_compare_fingerprint(%s)', id) END);

-- A query for the fingerprint, the number of rows, the sum of hashes in each bucket, and
-- milliseconds, as four words.  The last five digits of a sum are those of its number of rows.
-- The hash of a row goes on from that of its key.  With a volatile function, the subquery
-- stays one: the key is hashed once, and the planner, which would take the buckets for as
-- many as the keys, expects few of them, and lets parallel workers sum them up.
-- Relies on: read_heap, or a slice, in one snapshot under its lock.
CREATE FUNCTION plain_sums_sql(plan plan, s side, known text DEFAULT NULL) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL SAFE
AS $$
DECLARE
	texts text[] := plain_texts_sql(other_columns(plan), plain_seed(plan));
	names text[] := ARRAY(SELECT 'c' || i FROM generate_subscripts(texts, 1) AS i);
BEGIN
	RETURN format('SELECT concat_ws('' '', %s, coalesce(sum(n), 0),'
			' array_agg(total ORDER BY bucket),'
			' round(1000.0 * extract(epoch FROM clock_timestamp() - %s)::numeric, 1))'
			' FROM generate_series(0, %s) AS bucket LEFT JOIN'
			' (SELECT bucket, count(*) AS n,'
			' sum(hash) * 100000 + count(*) %% 100000 AS total FROM'
			' (SELECT (k & 9223372036854775807) %% %s AS bucket, %s AS hash'
			' FROM (SELECT %s, clock_timestamp() FROM %s) AS iblt_t(%s)) AS iblt_h'
			' GROUP BY bucket) AS iblt_s USING (bucket)',
		read_fingerprint_sql(s, format('%L::regclass', s.relation), known), begun_sql(s),
		plan.buckets - 1, plan.buckets, plain_chain_sql(names, 'k'),
		array_to_string(plain_key_sql(plan) || texts, ', '),
		rows_sql(plan, s), array_to_string('k'::text || names, ', '));
END
$$;
