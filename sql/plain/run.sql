-- Carrying out a plain comparison ------------------------------------------------------

-- By how much the sums of each bucket differ, and the buckets where they do.
CREATE FUNCTION plain_sums(plan plan,
	INOUT figures figures, OUT sums numeric[], OUT buckets integer[]) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	started timestamptz := clock_timestamp();
	answers text[];
	here text[];
	there text[];
BEGIN
	PERFORM progress(plan.progress, format('summing the rows up on both sides'
		' in %s buckets', plan.buckets));
	answers := ask_values(places_of(plan), ARRAY[plain_sums_sql(plan, plan.here),
		plain_sums_sql(plan, plan.there)], 0, NULL, reading_of(plan));
	here := string_to_array(answers[1], ' ');
	there := string_to_array(answers[2], ' ');
	PERFORM require_described(plan, here[1], there[1]);
	figures.rows_here := here[2];
	figures.rows_there := there[2];
	figures.scan_here_ms := coalesce(figures.scan_here_ms, 0) + here[4]::numeric;
	figures.scan_there_ms := coalesce(figures.scan_there_ms, 0) + there[4]::numeric;
	figures.scan_ms := coalesce(figures.scan_ms, 0) + ms(started);
	-- 0.5 is that of no rows, which no sum is
	sums := ARRAY(SELECT coalesce(h, 0.5) - coalesce(t, 0.5)
		FROM unnest(here[3]::numeric[], there[3]::numeric[])
			WITH ORDINALITY AS u(h, t, n) ORDER BY n);
	buckets := ARRAY(SELECT (n - 1)::integer FROM unnest(sums) WITH ORDINALITY AS u(s, n)
		WHERE s <> 0 ORDER BY n);
END
$$;

-- How many keys differ, in words, if the number of buckets tells that these are more than
-- max_differences; or NULL.
-- If d of n buckets differ, about -n ln(1 - d/n) keys do.  If all of them differ, no more
-- is known than that they are many.
CREATE FUNCTION plain_many(plan plan, figures figures, differing integer) RETURNS text
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	n double precision := plan.buckets;
	few boolean := greatest(figures.rows_here, figures.rows_there) < 200000;
	about bigint := CASE WHEN differing < n THEN round(-n * ln(1 - differing / n)) END;
BEGIN
	IF differing > plan.max_differences OR NOT few
			AND coalesce(about, round(n * ln(n))) > plan.max_differences THEN
		RETURN coalesce('about ' || about, 'at least ' || differing);
	END IF;
	RETURN NULL;
END
$$;

-- Of how many buckets rows are read at a time.
-- The rows of a batch are in memory on both sides, as texts: about 100 MB.
CREATE FUNCTION plain_batch(plan plan, figures figures) RETURNS integer
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT greatest(1, least(plan.buckets, least(100e6 * plan.buckets / greatest(plan.bytes, 1),
		5e5 * plan.buckets / greatest(figures.rows_here, figures.rows_there, 1))))::integer
$$;

-- What the lookup query of a finder gives for rows that came as texts; an error unless it takes
-- all.
CREATE FUNCTION plain_found(query text, keys text[], rows text[], fingerprint text)
RETURNS found_rows
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	found found_rows;
BEGIN
	EXECUTE query INTO found USING keys, rows;
	PERFORM plain_check(CASE
		WHEN (SELECT coalesce(sum(n), 0) FROM unnest(found.n) AS n) <> cardinality(rows)
			THEN 'a key of the peer has another text or hash here' END,
		'Install iblt on the peer, and use method => ''sketch''.');
	found.fingerprint := fingerprint;
	RETURN found;
END
$$;

-- The rows on some sides whose keys have these hashes, or are in these buckets.
CREATE FUNCTION plain_find(plan plan, sides side[], keys text[], in_buckets boolean)
RETURNS found_rows[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	lookup text := (plain_finder(plan, in_buckets)).lookup;
	answers text[] := ask_values(ARRAY(SELECT s.place FROM unnest(sides) AS s),
		ARRAY(SELECT plain_rows_sql(plan, s, plain_find.keys, in_buckets) FROM unnest(sides) AS s),
		0, NULL, reading_all(plan, sides));
	fingerprint text;
	result found_rows[];
BEGIN
	FOR n IN 1 .. cardinality(sides) LOOP
		fingerprint := split_part(answers[n], ' ', 1);
		PERFORM require_side_described(sides[n], fingerprint);
		result[n] := plain_found(lookup, keys,
			substr(answers[n], length(fingerprint) + 2)::text[], fingerprint);
	END LOOP;
	RETURN result;
END
$$;

-- The differences of the next buckets, each side seen in one snapshot, how many there were so far,
-- and in words if too many.
CREATE FUNCTION plain_next(plan plan, buckets integer[], done integer, size integer,
	INOUT total bigint, OUT looked difference[], OUT many text) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	part text[] := buckets[done + 1 : done + size];
	rows found_rows[];
BEGIN
	PERFORM progress(plan.progress, format('reading the rows of %s buckets on both'
		' sides', cardinality(part)));
	rows := plain_find(plan, ARRAY[plan.here, plan.there], part, true);
	looked := differing(plan, rows[1], rows[2], NULL);
	total := total + cardinality(looked);
	IF total > plan.max_differences THEN
		many := CASE WHEN done + size < cardinality(buckets) THEN 'at least ' ELSE '' END || total;
	END IF;
END
$$;

-- Too many differences
--
-- As find_keys does it: they may all be rows in flight, and are not looked at one by one.
-- When replication has passed, everything is summed up once more, in the same buckets.

-- The differences in buckets, to be looked at again, and how many there are, in words if too
-- many.
-- Rows that are not rechecked are not read here: plain_differences() answers them as it
-- reads them.
CREATE FUNCTION plain_read(plan plan, INOUT figures figures, buckets integer[],
	OUT batches held[], OUT total bigint, OUT many text) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	started timestamptz := clock_timestamp();
	number integer := cardinality(buckets);
	size integer := plain_batch(plan, figures);
	next record;
BEGIN
	batches := '{}';
	total := 0;
	many := plain_many(plan, figures, number);
	IF plan.recheck = 0 OR number = 0 THEN
		RETURN;
	END IF;
	FOR done IN 0 .. number - 1 BY size LOOP
		EXIT WHEN many IS NOT NULL;
		next := plain_next(plan, buckets, done, size, total);
		total := next.total;
		many := next.many;
		batches := kept(batches, hold(next.looked), number > size);
	END LOOP;
	figures.lookup_ms := coalesce(figures.lookup_ms, 0) + ms(started);
END
$$;

-- Did most of what differs now differ before, in the same way? False, too, if buckets do not
-- tell.
-- As persist() of sketches.  A bucket with the same sum has the same rows that differ.  The
-- others may have many more keys, so it takes more than half of the buckets.
CREATE FUNCTION plain_persist(before numeric[], after numeric[]) RETURNS boolean
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT 2 * count(*) FILTER (WHERE a = b) > count(*)
	FROM unnest(before, after) AS u(b, a) WHERE a <> 0
$$;

-- The buckets that differ, and what plain_read gives of them; if too many keys differ, after
-- a wait for what is in flight, an error.
CREATE FUNCTION plain_search(INOUT plan plan, OUT figures figures, OUT buckets integer[],
	OUT batches held[], OUT total bigint) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	summed record := plain_sums(plan, NULL);
	read record := plain_read(plan, summed.figures, summed.buckets);
	before numeric[] := summed.sums;
	deadline timestamptz := clock_timestamp() + plan.timeout;
	problem text := unready_problem(plan);
BEGIN
	IF read.many IS NOT NULL AND problem IS NULL AND plan.recheck > 0 THEN
		problem := await_replication(plan, deadline);
		IF problem IS NULL THEN
			plan.timeout := greatest(deadline - clock_timestamp(), '0 s');
			summed := plain_sums(plan, read.figures);
			read := plain_read(plan, summed.figures, summed.buckets);
			problem := CASE WHEN NOT plain_persist(before, summed.sums)
				THEN 'Perhaps most of them did not differ before replication passed.' END;
		END IF;
	END IF;
	IF read.many IS NOT NULL THEN
		PERFORM plain_refuse_many(plan, read.many, problem, read.figures);
	END IF;
	figures := read.figures;
	buckets := summed.buckets;
	batches := read.batches;
	total := read.total;
END
$$;

-- The error for so many differences, in words, as refuse_too_many() raises it.
CREATE FUNCTION plain_refuse_many(plan plan, many text, problem text,
	figures figures DEFAULT NULL) RETURNS void
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	PERFORM raise_too_many(plan,
		format('%s keys differ, and max_differences is %s', many, plan.max_differences),
		CASE WHEN many LIKE 'about%' THEN 'The number is an estimate.' END,
		'Raise max_differences, compare a part of the rows by a condition, '
			'or install iblt on the peer.', problem, figures);
END
$$;

-- Compares as a plan of plain_prepare says; at the end, the figures are kept.
CREATE FUNCTION plain_differences(plan plan) RETURNS SETOF difference[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	search record := plain_search(plan);
	figures figures := search.figures;
	started timestamptz := clock_timestamp();
	size integer := plain_batch(plan, figures);
	next record;
	batch difference[];
	total bigint := search.total;
	differences bigint := 0;
	unconfirmed bigint := 0;
BEGIN
	IF plan.recheck = 0 THEN
		FOR done IN 0 .. cardinality(search.buckets) - 1 BY size LOOP
			next := plain_next(plan, search.buckets, done, size, total);
			total := next.total;
			IF next.many IS NOT NULL THEN
				PERFORM plain_refuse_many(plan, next.many, unready_problem(plan), figures);
			END IF;
			RETURN NEXT next.looked;
		END LOOP;
		figures.lookup_ms := CASE WHEN search.buckets <> '{}' THEN ms(started) END;
	END IF;
	FOR batch IN SELECT * FROM recheck_batches(search.plan, search.batches) LOOP
		differences := differences + cardinality(batch);
		unconfirmed := unconfirmed + number_unconfirmed(batch);
		RETURN NEXT batch;
	END LOOP;
	figures.recheck_ms := CASE WHEN search.batches <> '{}' THEN ms(started) END;
	PERFORM keep_figures(all_figures(plan, figures, total,
		CASE WHEN plan.recheck > 0 THEN differences ELSE total END, unconfirmed));
END
$$;
