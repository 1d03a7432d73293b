-- Damaged indexes ----------------------------------------------------------------------
--
-- If the scans found a difference that the index lookup does not, either the row was in
-- flight or the index lacks an entry.  So a scan looks its rows up too.  A row that is
-- there before and after the index was asked, in the same version, and that the index did
-- not find, proves the damage.

-- Keys whose rows an index found on other sides than the scans did.
-- Differences are in the order of the keys.
CREATE FUNCTION doubtful(keys text[], sides text[], differences difference[]) RETURNS text[]
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	-- nearly always, and quick to see
	IF sides = iblt_field(differences, 'side') AND keys = iblt_field(differences, 'id') THEN
		RETURN '{}';
	END IF;
	RETURN ARRAY(SELECT k.id FROM unnest(keys, sides) AS k(id, side)
		LEFT JOIN unnest(differences) AS d ON d.id = k.id WHERE d.side IS DISTINCT FROM k.side);
END
$$;

-- Those of the keys whose rows, which have these checksums, are not the rows that the scans have
-- put into a difference.
-- Either they have changed since, or an index hides a second row of a key.  If both sides have as
-- many hidden rows, the sides of the key do not tell.
CREATE FUNCTION other_rows(seed bigint, keys text[], weights bigint[], here bigint[],
	there bigint[]) RETURNS text[]
	LANGUAGE sql STABLE PARALLEL SAFE
AS $$
	SELECT ARRAY(SELECT keys[n] FROM unnest(iblt_compare_changed(seed, weights, here, there)) AS n)
$$;

-- Keys with these ids that do not differ, and whose rows an index does not find on a side.
-- An index that lost an entry looks like a row that was deleted, so a scan has to look for
-- the rows of these keys.
CREATE FUNCTION doubtfully_equal(plan plan, ids text[],
	differences difference[]) RETURNS text[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	gone text[] := ARRAY(SELECT unnest(ids) EXCEPT SELECT d.id FROM unnest(differences) AS d);
	keys text[] := keys_of_ids(plan, gone);
	found record;
BEGIN
	IF plan.by_hash OR plan.buckets IS NOT NULL OR keys = '{}' THEN
		RETURN '{}';
	END IF;
	found := find_both(index_plan(plan), keys);
	RETURN ARRAY(SELECT u.key
		FROM unnest(keys, (found.here).checksum, (found.there).checksum) AS u(key, here, there)
		WHERE u.here IS NULL OR u.there IS NULL);
END
$$;

-- The hashes of keys that a plan looks up by themselves.
CREATE FUNCTION hashes_of_keys(plan plan, keys text[]) RETURNS text[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	hashes text[];
BEGIN
	EXECUTE format('SELECT ARRAY(SELECT %s::text FROM (SELECT %s FROM unnest($1) AS u(id)) AS t)',
		key_hash_sql(plan),
		(SELECT string_agg(format('%s AS %I', value, name), ', ' ORDER BY position)
			FROM key_parts(plan.key)))
	INTO hashes USING keys;
	RETURN hashes;
END
$$;

-- Ids of rows that a scan finds, and an index does not.
-- The index's answers are in the order of the hashes, and are of one row each.  Where
-- row versions cannot be read, there are no marks.
CREATE FUNCTION unfound(scanned found_rows, indexed found_rows, hashes text[]) RETURNS text[]
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
	RETURN ARRAY(SELECT s.id FROM unnest(scanned.id, scanned.n, scanned.mark) AS s(id, n, mark)
		JOIN unnest(hashes, indexed.checksum, indexed.mark) AS i(hash, checksum, mark)
			ON i.hash = split_part(s.id, ' ', 1)
		WHERE i.checksum IS NULL OR s.n > 1 OR i.mark <> s.mark);
END
$$;

-- Those of the ids whose rows are the same in two scans.
CREATE FUNCTION unchanged(ids text[], before found_rows, after found_rows) RETURNS text[]
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
	RETURN ARRAY(SELECT b.id
		FROM unnest(before.id, before.rows_checksum, before.mark) AS b(id, checksum, mark)
		JOIN unnest(after.id, after.rows_checksum, after.mark) AS a(id, checksum, mark)
			ON a.id = b.id AND a.checksum = b.checksum AND a.mark IS NOT DISTINCT FROM b.mark
		WHERE b.id = ANY (ids));
END
$$;

-- One of the keys with these ids that a scan and an index found several rows of, as JSON; NULL if
-- there is none, or if an id is of a single row.
-- A lookup takes the first row only, because the planner trusts a unique index.
CREATE FUNCTION scanned_several(plan plan, s side, ids text[], scanned found_rows, keys text[],
	hashes text[]) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	IF ids = '{}' OR EXISTS (SELECT FROM unnest(scanned.id, scanned.n) AS f(id, n)
			WHERE f.n = 1 AND f.id = ANY (ids)) THEN
		RETURN NULL;
	END IF;
	RETURN key_of_several(plan, s, ARRAY(SELECT k.key FROM unnest(keys, hashes) AS k(key, hash)
		WHERE k.hash IN (SELECT split_part(id, ' ', 1) FROM unnest(ids) AS id)));
END
$$;

-- The error for rows that an index does not find, if there are any, or for several rows of a unique
-- key that it does find.
CREATE FUNCTION check_unfound(s side, ids text[], several text) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
	IF several IS NOT NULL THEN
		PERFORM refuse_several(s.side, several);
	ELSIF ids <> '{}' THEN
		RAISE EXCEPTION USING ERRCODE = 'index_corrupted',
			MESSAGE = format('an index of %s does not find rows that the table has (%s)',
				s.relation, s.side),
			DETAIL = format('One has the key %s, of %s.',
				(SELECT min(substr(id, strpos(id, ' ') + 1)) FROM unnest(ids) AS id),
				cardinality(ids)),
			HINT = 'Find the index with amcheck (bt_index_check with heapallindexed), '
				'and REINDEX it. A row may also be in the wrong partition.';
	END IF;
END
$$;

-- A plan that looks rows up without their contents, and with their versions where it may.
CREATE FUNCTION index_plan(plan plan) RETURNS plan
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
	plan.content := 'none';
	plan.versions := (plan.here).versions AND (plan.here).version_rights
		AND (plan.there).versions AND (plan.there).version_rights;
	RETURN plan;
END
$$;

-- An error if a side's index does not find rows of these keys that the table has.
-- Relies on: read_heap before and after the index, three snapshots of each side.
CREATE FUNCTION check_keys(plan plan, keys text[]) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	by_index plan := index_plan(plan);
	by_scan plan := by_index;
	hashes text[];
	scanned record;
	indexed record;
	again record;
	here text[];
	there text[];
BEGIN
	by_scan.by_hash := true;
	by_scan.by_index := false;
	hashes := hashes_of_keys(plan, keys);
	scanned := find_both(by_scan, hashes);
	indexed := find_both(by_index, keys);
	here := unfound(scanned.here, indexed.here, hashes);
	there := unfound(scanned.there, indexed.there, hashes);
	IF here || there = '{}' THEN
		RETURN;
	END IF;
	again := find_both(by_scan, keys_of_ids(by_scan, here || there));
	here := unchanged(here, scanned.here, again.here);
	there := unchanged(there, scanned.there, again.there);
	PERFORM check_unfound(plan.here, here,
			scanned_several(by_index, plan.here, here, scanned.here, keys, hashes)),
		check_unfound(plan.there, there,
			scanned_several(by_index, plan.there, there, scanned.there, keys, hashes));
END
$$;

-- An error if a side's index does not find rows of these doubtful keys that the table has.
-- Each call scans both relations, so it is for the keys of many lookups.
CREATE FUNCTION check_index(plan plan, keys text[]) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	by_scan plan := plan;
	size integer;
BEGIN
	IF keys = '{}' THEN
		RETURN;
	END IF;
	by_scan.by_hash := true;
	size := batch_size(by_scan);
	FOR i IN 1 .. cardinality(keys) BY size LOOP
		PERFORM check_keys(plan, keys[i : i + size - 1]);
	END LOOP;
END
$$;
