-- The guard ------------------------------------------------------------------------------
--
-- Slices by key trust an index, which a scan does not.  A row that the index of one side
-- lacks looks like a difference, or a lookup by key says that the index is damaged.  A row that
-- the indexes of both sides lack is in no slice, and nobody compares it.
--
-- amcheck finds that.  It reads the whole relation in one statement.  Its fingerprints of
-- all index entries are in maintenance_work_mem: where this is too small, it may overlook
-- a row, in about 2 of 100 cases.
--
-- Without amcheck, a sample is looked up: rows of some blocks of the relation, each by all
-- indexes that slices may be read by, in one snapshot (src/run/index.c).  It finds an index
-- that lacks many rows, as one with the order of another library does, or one that was not
-- kept up for a time.  It takes milliseconds, but does not find a single row.
--
-- So after the last slice of a small table, a scan of each side counts the rows.  Where the
-- slices have read as many, they have read all, unless a writer made up for it.  Where they
-- have not, all rows are looked up.  If the indexes have them, somebody wrote meanwhile, or a
-- row stands in a partition that bounds exclude, so an equal table is compared once more, as
-- one slice.  A scan of a large table would cost as much as amcheck, and hold back vacuum.

-- The indexes by which the planner may read ranges of these columns, also of partitions; all,
-- if there is a condition too.
CREATE FUNCTION slice_indexes(relation regclass, names text[], conditional boolean)
RETURNS TABLE (index regclass, checkable boolean)
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT i.indexrelid::regclass, m.amname = 'btree'
	FROM relation_tree(relation) AS tree
	JOIN pg_index i ON i.indrelid = tree.relid AND i.indisvalid
	JOIN pg_class x ON x.oid = i.indexrelid AND x.relkind = 'i' JOIN pg_am m ON m.oid = x.relam
	WHERE conditional OR EXISTS (SELECT
		FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, n)
		JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
		WHERE a.attname = ANY (names) AND k.n <= i.indnkeyatts)
	ORDER BY i.indexrelid
$$;

-- The schema of amcheck; an error without it, or without the right to it.
CREATE FUNCTION require_amcheck() RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	schema text := (SELECT n.nspname FROM pg_extension e
		JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'amcheck');
	found regprocedure :=
		to_regprocedure(quote_ident(schema) || '.bt_index_check(regclass, boolean)');
BEGIN
	IF found IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
			MESSAGE = 'extension amcheck is not installed in this database',
			DETAIL = 'It checks the indexes by which slices are read.',
			HINT = 'Run CREATE EXTENSION amcheck on both sides.';
	ELSIF NOT has_function_privilege(found, 'execute') THEN
		RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
			MESSAGE = format('permission denied for function bt_index_check of %I', current_user),
			HINT = format('GRANT EXECUTE ON FUNCTION %s TO %I;', found, current_user);
	END IF;
	RETURN schema;
END
$$;

-- An error if amcheck, in that schema, finds that an index is damaged or lacks a row.
CREATE FUNCTION check_slice_index(schema text, index regclass) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	problem text;
BEGIN
	EXECUTE format('SELECT %I.bt_index_check(index => %L, heapallindexed => true)', schema, index);
EXCEPTION WHEN data_corrupted OR index_corrupted THEN
	GET STACKED DIAGNOSTICS problem = MESSAGE_TEXT;
	RAISE EXCEPTION USING ERRCODE = 'index_corrupted',
		MESSAGE = format('index %s is damaged', index),
		DETAIL = format('amcheck: %s.', problem), HINT = 'REINDEX it.';
END
$$;

-- A query that looks a sample of rows up by their key: their number, and how many were not
-- found; the relation has about so many blocks and rows.
-- About 300 blocks, and about 3000 rows of them.  This is for a peer without iblt, where the
-- planner chooses the index, as it does for slices there.
CREATE FUNCTION slice_sample_sql(relation text, names text[], blocks numeric,
	rows numeric) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	-- OFFSET keeps the planner from reading all keys once, by an index or not
	RETURN format('SELECT count(*) AS rows, count(*) FILTER (WHERE NOT found) AS lost FROM ('
			'SELECT EXISTS (SELECT FROM %1$s AS f WHERE %2$s OFFSET 0) AS found'
			' FROM %1$s AS t TABLESAMPLE system (%3$s) WHERE random() < %4$s) AS s', relation,
		(SELECT string_agg(format('f.%1$I = t.%1$I', name), ' AND ') FROM unnest(names) AS name),
		least(100, 100 * 300 / blocks), 3000 / rows / least(1, 300 / blocks));
END
$$;

-- An error if rows of a sample were not found by an index.
CREATE FUNCTION check_lost_rows(relation text, rows bigint, lost bigint,
	index regclass DEFAULT NULL) RETURNS void
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	IF lost > 0 THEN
		RAISE EXCEPTION USING ERRCODE = 'index_corrupted',
			MESSAGE = format('an index of %s does not find rows that the table has', relation),
			DETAIL = format('Of a sample of %s rows, %s does not find %s.', rows,
				coalesce('index ' || index, 'it'), lost),
			HINT = 'Find the index with amcheck (bt_index_check with heapallindexed), '
				'and REINDEX it.';
	END IF;
END
$$;

-- Looks some rows of some blocks up by each index with one of these columns, or by any: how
-- many, how many were not found, and an index that does not find one.
CREATE FUNCTION iblt_index_sample(relation regclass, columns text[], "any" boolean, blocks bigint,
	most integer, place float8, OUT rows bigint, OUT lost bigint, OUT index regclass) RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

-- Looks some rows, or all, up by the indexes that slices may be read by; an error if an index does
-- not find one.
CREATE FUNCTION sample_slice_index(relation regclass, names text[],
	conditional boolean, every boolean) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	part record;
	looked record;
BEGIN
	FOR part IN SELECT c.oid::regclass AS name, x.size / sum(x.size) OVER () AS share
			FROM relation_tree(relation) AS tree
			JOIN pg_class c ON c.oid = tree.relid AND c.relkind = 'r',
			LATERAL (SELECT greatest(pg_relation_size(c.oid), 1)::numeric AS size) AS x LOOP
		looked := iblt_index_sample(part.name, names, conditional,
			CASE WHEN every THEN 4294967295 ELSE ceil(300 * part.share)::bigint END,
			CASE WHEN every THEN 2147483647 ELSE 10 END, random());
		PERFORM check_lost_rows(relation::text, looked.rows, looked.lost, looked.index);
	END LOOP;
END
$$;

-- Checks the indexes of a relation that slices are read by, by a sample of rows, or thoroughly
-- with amcheck: how many indexes were checked so, and how many others there are.
CREATE FUNCTION slice_check(relation regclass, names text[], conditional boolean,
	thorough boolean) RETURNS jsonb
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	schema text;
	checked bigint := 0;
	others bigint := 0;
	x record;
BEGIN
	IF NOT thorough THEN
		PERFORM sample_slice_index(relation, names, conditional, false);
		RETURN '{}';
	END IF;
	schema := require_amcheck();
	FOR x IN SELECT * FROM slice_indexes(relation, names, conditional) LOOP
		IF x.checkable THEN
			PERFORM check_slice_index(schema, x.index);
			checked := checked + 1;
		ELSE
			others := others + 1;
		END IF;
	END LOOP;
	RETURN jsonb_build_object('checked', checked, 'others', others);
END
$$;

-- A query that checks the indexes of a side, whose relation has about so many rows.
-- Of a peer without iblt, it gives a sample alone.
CREATE FUNCTION slice_check_sql(plan plan, s side, thorough boolean, estimate bigint) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	IF peer_is_bare(s.place) THEN
		RETURN format('SELECT to_jsonb(iblt_s) FROM (%s) AS iblt_s',
			slice_sample_sql(relation_sql(s), own_names(s, plan.key),
				greatest(1, plan.bytes / 8192.0), greatest(1, estimate)));
	END IF;
	RETURN format('SELECT slice_check(%L::pg_catalog.regclass, %L, %L, %L)',
		s.relation, own_names(s, plan.key), s.condition IS NOT NULL, thorough);
END
$$;

-- An index and the answer of slice_check, for a verdict.
CREATE FUNCTION slice_note(index text, answer jsonb) RETURNS text
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
	RETURN format('%s (%s)', index, CASE
		WHEN NOT answer ? 'checked' THEN 'not checked'
		WHEN answer ->> 'checked' = '1' AND answer ->> 'others' = '0' THEN 'checked'
		ELSE format('indexes checked: %s, not checked: %s', answer ->> 'checked',
			answer ->> 'others') END);
END
$$;

-- What a verdict by slices rests on, after a check of the indexes of both sides, or a thorough
-- one with amcheck; an error if an index is damaged.
CREATE FUNCTION slice_guard(plan plan, thorough boolean, estimate bigint DEFAULT NULL)
RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	k slice_key := slice_key(plan);
	answers text[] := ask_values(places_of(plan), ARRAY[
		slice_check_sql(plan, plan.here, thorough, estimate),
		slice_check_sql(plan, plan.there, thorough, estimate)], 0.1,
		how => ROW(NULL, NULL, NULL, NULL, reads(plan.here, plan.there))::reading);
	here jsonb := answers[1];
	there jsonb := answers[2];
BEGIN
	-- samples of peers without iblt
	PERFORM check_lost_rows((plan.here).relation || ' here', (here ->> 'rows')::bigint,
			(here ->> 'lost')::bigint),
		check_lost_rows((plan.there).relation || ' on the peer', (there ->> 'rows')::bigint,
			(there ->> 'lost')::bigint);
	RETURN format('read by index %s here, %s there',
		slice_note((k.here).index, here), slice_note((k.there).index, there));
END
$$;

-- The count

-- Are both relations so small that a scan may count their rows?
CREATE FUNCTION slice_may_count(plan plan) RETURNS boolean
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
	-- 256 MB, for a heap page holds at most a row for each 28 bytes
	RETURN plan.buckets IS NULL
		AND coalesce(greatest((plan.here).most_rows, (plan.there).most_rows) <= 268435456 / 28
			AND num_nulls((plan.here).most_rows, (plan.there).most_rows) = 0, false);
END
$$;

-- How many rows scans of both sides count; if other than slices have read, an error where an
-- index does not find one.
-- Relies on: read_heap, in a later snapshot than those of the slices.
CREATE FUNCTION slice_check_count(plan plan, rows bigint[]) RETURNS bigint[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	query text := 'SELECT count(*)::text FROM %s%s';
	counted bigint[] := ask_values(places_of(plan), ARRAY[
		format(query, from_sql(plan, plan.here), condition_sql(plan, plan.here)),
		format(query, from_sql(plan, plan.there), condition_sql(plan, plan.there))], 0.01, NULL,
		reading_of(plan))::bigint[];
	s side;
BEGIN
	FOR n IN 1 .. 2 LOOP
		IF counted[n] <> rows[n] THEN
			s := CASE n WHEN 1 THEN plan.here ELSE plan.there END;
			PERFORM ask_one(s.place, format(
				'SELECT sample_slice_index(%L::pg_catalog.regclass, %L, %L, true)',
				s.relation, own_names(s, plan.key), s.condition IS NOT NULL), 0.01);
		END IF;
	END LOOP;
	RETURN counted;
END
$$;
