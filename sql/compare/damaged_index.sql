-- Damaged indexes ----------------------------------------------------------------------
--
-- If the scans found a difference that the index lookup does not, either the row was in
-- flight or the index lacks an entry.  So a scan looks its rows up too.  A row that is
-- there before and after the index was asked, in the same version, and that the index did
-- not find, proves the damage.

-- Those of the keys whose rows on the base or another side, which an index found, are not the ones
-- of the difference of the two.
-- Either they have changed since, or an index hides a row.  Checksums of digests have another seed,
-- so after digests only the sides can tell.  If the rows were found twice, only those count that
-- have stood still.
CREATE FUNCTION doubtful(plan plan, base integer, said key_sides[], named key_sides,
	rows found_rows[], again found_rows[] DEFAULT NULL) RETURNS text[]
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	one key_sides := named;
	result text[] := '{}';
BEGIN
	FOR n IN 1 .. cardinality(rows) LOOP
		CONTINUE WHEN plan.by_hash OR n = base;
		IF said IS NOT NULL THEN
			-- a key without a difference has no side and weighs nothing
			SELECT named.keys, array_agg(d.side ORDER BY k.place),
				array_agg(coalesce(d.weight, 0) ORDER BY k.place) INTO one
			FROM unnest(named.keys) WITH ORDINALITY AS k(id, place)
			LEFT JOIN unnest((said[n]).keys, (said[n]).sides, (said[n]).weights)
				AS d(id, side, weight) USING (id);
		END IF;
		IF plan.from_digests THEN
			again := coalesce(again, rows);
			result := result || ARRAY(SELECT k.id FROM unnest(one.keys, one.sides,
					(rows[base]).checksum, (rows[base]).mark, (rows[n]).checksum, (rows[n]).mark,
					(again[base]).checksum, (again[base]).mark, (again[n]).checksum,
					(again[n]).mark) AS k(id, side, h, hm, t, tm, h2, hm2, t2, tm2)
				WHERE ROW(h, hm, t, tm) IS NOT DISTINCT FROM ROW(h2, hm2, t2, tm2)
					AND k.side IS DISTINCT FROM CASE WHEN h IS NOT DISTINCT FROM t THEN NULL
					WHEN t IS NULL THEN 'here' WHEN h IS NULL THEN 'there' ELSE 'both' END);
		ELSE
			result := result || ARRAY(SELECT named.keys[i] FROM unnest(iblt_compare_changed(
				plan.seed, one.weights, (rows[base]).checksum, (rows[n]).checksum)) AS i);
		END IF;
	END LOOP;
	RETURN result;
END
$$;

-- The hashes of keys that a plan looks up by themselves.
CREATE FUNCTION hashes_of_keys(plan plan, keys text[]) RETURNS text[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	hashes text[];
BEGIN
	plan.by_hash := true;
	EXECUTE format('SELECT ARRAY(SELECT %s::text FROM (SELECT %s FROM unnest($1) AS u(id)) AS t)',
		key_sql(plan),
		(SELECT string_agg(format('%s AS %I', value, name), ', ' ORDER BY position)
			FROM key_parts(plan.key)))
	INTO hashes USING keys;
	RETURN hashes;
END
$$;

-- A plan that looks rows up without their contents, and with their versions where it may.
CREATE FUNCTION index_plan(plan plan) RETURNS plan
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
	plan.content := 'none';
	plan.versions := NOT EXISTS (SELECT FROM unnest(sides_of(plan)) AS s
		WHERE (s.versions AND s.version_rights) IS NOT TRUE);
	RETURN plan;
END
$$;

-- Ids of rows that two scans find in the same version, and that an index which was asked in between
-- does not find.
-- The index's answers are in the order of the hashes, and are of one row each.  Where
-- row versions cannot be read, there are no marks.
CREATE FUNCTION unfound(before found_rows, indexed found_rows, after found_rows, hashes text[])
RETURNS text[]
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN ARRAY(SELECT b.id
		FROM unnest(before.id, before.n, before.rows_checksum, before.mark)
			AS b(id, n, checksum, mark)
		JOIN unnest(after.id, after.rows_checksum, after.mark) AS a(id, checksum, mark)
			ON a.id = b.id AND a.checksum = b.checksum AND a.mark IS NOT DISTINCT FROM b.mark
		JOIN unnest(hashes, indexed.checksum, indexed.mark) AS i(hash, checksum, mark)
			ON i.hash = split_part(b.id, ' ', 1)
		WHERE i.checksum IS NULL OR b.n > 1 OR i.mark <> b.mark);

-- An error if a side's index does not find rows of these doubtful keys that the table has.
-- Each call scans all relations, so it is for the keys of many lookups.
-- Another error for several rows of a unique key that it does find: a lookup takes the first row
-- only, because the planner trusts a unique index.
-- Relies on: read_heap before and after the index, three snapshots of each side.
CREATE FUNCTION check_index(plan plan, keys text[]) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	sides side[] := sides_of(plan);
	by_index plan := index_plan(plan);
	by_scan plan := by_index;
	size integer;
	part text[];
	hashes text[];
	before found_rows[];
	indexed found_rows[];
	after found_rows[];
	ids text[];
BEGIN
	by_scan.by_hash := true;
	by_scan.by_index := false;
	size := batch_size(by_scan);
	FOR i IN 1 .. cardinality(keys) BY size LOOP
		part := keys[i : i + size - 1];
		hashes := hashes_of_keys(plan, part);
		before := find_sides(by_scan, hashes);
		indexed := find_sides(by_index, part);
		ids := '{}';
		FOR n IN 1 .. cardinality(sides) LOOP
			ids := ids || unfound(before[n], indexed[n], before[n], hashes);
		END LOOP;
		CONTINUE WHEN ids = '{}';
		after := find_sides(by_scan, keys_of_ids(by_scan, ids));
		FOR n IN 1 .. cardinality(sides) LOOP
			ids := unfound(before[n], indexed[n], after[n], hashes);
			CONTINUE WHEN ids = '{}';
			IF 1 <> ALL (ARRAY(SELECT f.n FROM unnest(before[n].id, before[n].n) AS f(id, n)
					WHERE f.id = ANY (ids))) THEN
				PERFORM check_several(by_index, sides[n], ARRAY(SELECT k.key
					FROM unnest(part, hashes) AS k(key, hash)
					WHERE k.hash IN (SELECT split_part(id, ' ', 1) FROM unnest(ids) AS id)), false);
			END IF;
			RAISE index_corrupted USING
				MESSAGE = format('an index of %s does not find rows that the table has (%s)',
					sides[n].relation, sides[n].side),
				DETAIL = format('One has the key %s, of %s.',
					(SELECT min(substr(id, strpos(id, ' ') + 1)) FROM unnest(ids) AS id),
					cardinality(ids)),
				HINT = 'Find the index with amcheck (bt_index_check with heapallindexed), '
					'and REINDEX it. A row may also be in the wrong partition.';
		END LOOP;
	END LOOP;
END
$$;
