-- Which row wins -------------------------------------------------------------------------
--
-- Without a winner, the source's rows win.  With one, a key that both sides have is repaired
-- only as far as the source's row wins.  The repair in the other direction does the rest,
-- in a transaction of its own.
--
-- Rows are looked up with a number that tells which is newer: their "stamp", the last of the
-- texts of a row.  It is read in the statement that reads the row.  The claim skips a row
-- whose content or stamp is not what it was when the winner was found, so the winner is the
-- one of the rows that the claim has locked.

-- When the transaction that wrote a row was committed; NULL if that is not known.
-- Relies on: the row as the statement that calls it reads it.
CREATE FUNCTION iblt_row_time(relation oid, row_version tid, xmin xid) RETURNS timestamptz
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL SAFE;

-- An error for options of a winner that make no sense.
CREATE FUNCTION repair_check_winner(asked repair_options) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
	IF coalesce(asked.winner NOT IN ('source', 'newest', 'not null'), true) THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
			MESSAGE = 'winner must be source, newest or not null';
	ELSIF asked.newest_by IS NOT NULL AND asked.winner <> 'newest' THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
			MESSAGE = 'newest_by needs winner => ''newest''';
	END IF;
END
$$;

-- The number that tells how new a row is by its column, as SQL; an error for what is not a
-- time or an exact number.
CREATE FUNCTION repair_column_stamp(plan plan, newest_by text) RETURNS text
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	c plan_column := (SELECT u FROM unnest(plan.columns) AS u WHERE u.name = newest_by);
	-- in which both sides are compared
	type regtype := CASE c.cast_to WHEN '' THEN c.base::oid ELSE c.cast_to::regtype END;
BEGIN
	IF c.name IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_column',
			MESSAGE = format('newest_by is not a compared column: "%s"', newest_by),
			DETAIL = 'If the column were left out, a row would win without its time.',
			HINT = 'Names are case-sensitive.';
	ELSIF type = ANY ('{date,timestamp,timestamptz}'::regtype[]) THEN
		RETURN format('extract(epoch FROM %s)', value_sql(c));
	ELSIF type = ANY ('{int2,int4,int8,numeric}'::regtype[]) THEN
		RETURN format('%s::numeric', value_sql(c));
	END IF;
	RAISE EXCEPTION USING ERRCODE = 'datatype_mismatch',
		MESSAGE = format('column "%s" does not tell which row is newer', newest_by),
		DETAIL = 'Its type is not date, timestamp, timestamptz, an integer or numeric, the same on '
			'both sides.';
END
$$;

-- The commit time of a row as a number, as SQL; an error if the rows of a side have none, or
-- this role may not read it, and a warning if a server does not keep it.
CREATE FUNCTION repair_commit_stamp(plan plan) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	query text := 'SELECT pg_catalog.current_setting(''track_commit_timestamp'')';
	tracked text[];
	s side;
BEGIN
	FOREACH s IN ARRAY ARRAY[plan.here, plan.there] LOOP
		IF plan.buckets IS NOT NULL OR s.distributed OR NOT s.versions THEN
			RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
				MESSAGE = format('the commit times of the rows of %s cannot be read (%s)',
					s.relation, s.side),
				DETAIL = 'Only tables of a peer with iblt have them, and not foreign tables, '
					'views or tables of Citus.',
				HINT = 'Name a column in newest_by.';
		ELSIF NOT s.version_rights THEN
			RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
				MESSAGE = format('permission denied for row versions of %s (%s)', s.relation,
					s.side),
				DETAIL = 'To find commit times, iblt reads the system columns tableoid, ctid and '
					'xmin.',
				HINT = 'Grant SELECT on the table, or on these columns too, or name a column in '
					'newest_by.';
		END IF;
	END LOOP;
	tracked := ask_values(places_of(plan), ARRAY[query, query]);
	IF 'off' = ANY (tracked) THEN
		PERFORM iblt_tell('warning', format('commit times are not tracked (%s)', concat_ws(
				' and ', CASE tracked[1] WHEN 'off' THEN 'here' END,
				CASE tracked[2] WHEN 'off' THEN 'there' END)),
			'It is not known which rows are newer, so all that differ are ties.',
			'Set track_commit_timestamp = on and restart that server, which then knows the '
				'times of later transactions, or name a column in newest_by.');
	END IF;
	RETURN 'extract(epoch FROM iblt_row_time(t.tableoid, t.ctid, t.xmin))';
END
$$;

-- The plan of a comparison, with what it takes to find the winner.
CREATE FUNCTION repair_stamped(plan plan, asked repair_options) RETURNS plan
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	IF asked.winner <> 'source' AND NOT plan.is_unique THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = format('winner => %L needs a unique key on both sides', asked.winner),
			HINT = 'Create a unique index on columns that are not null on both sides, or let the '
				'source win.';
	END IF;
	plan.stamp := CASE WHEN asked.winner <> 'newest' THEN NULL
		WHEN asked.newest_by IS NULL THEN repair_commit_stamp(plan)
		ELSE repair_column_stamp(plan, asked.newest_by) END;
	plan.stamp_columns := CASE WHEN plan.stamp IS NOT NULL AND asked.newest_by IS NULL
		THEN '{tableoid,ctid,xmin}' ELSE '{}' END;
	RETURN plan;
END
$$;

-- The texts that a row of the target is to have.
CREATE FUNCTION repair_wanted(plan repair_plan, source_texts jsonb, target_texts jsonb)
RETURNS jsonb
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
	IF (plan.asked).winner <> 'not null' OR num_nulls(source_texts, target_texts) > 0 THEN
		RETURN source_texts;
	END IF;
	RETURN (SELECT jsonb_agg(CASE WHEN c.generated OR source_texts ->> c.i IS NULL
		THEN target_texts -> c.i ELSE source_texts -> c.i END ORDER BY c.i)
		FROM unnest(plan.columns) AS c);
END
$$;

-- Why a row of the target, which has another content, is not to become like the source's; NULL
-- if it is.
-- Relies on: a row and its stamp from one statement, and the claim that looks at both again.
CREATE FUNCTION repair_tie(plan repair_plan, source_texts jsonb, target_texts jsonb) RETURNS text
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	x record;
BEGIN
	IF (plan.asked).winner = 'source' OR num_nulls(source_texts, target_texts) > 0 THEN
		RETURN NULL;
	ELSIF (plan.asked).winner = 'newest' THEN
		SELECT (source_texts ->> -1)::numeric AS source_stamp,
			(target_texts ->> -1)::numeric AS target_stamp INTO x;
		RETURN CASE WHEN num_nulls(x.source_stamp, x.target_stamp) > 0
				THEN 'a tie: it is not known which row is newer'
			WHEN x.source_stamp = x.target_stamp THEN 'a tie: no row is newer'
			WHEN x.source_stamp < x.target_stamp THEN 'the row of the target is newer' END;
	END IF;
	SELECT string_agg(c.identifier, ', ' ORDER BY c.i)
			FILTER (WHERE v.on_source IS NOT NULL AND v.on_target IS NOT NULL) AS both,
		string_agg(c.identifier, ', ' ORDER BY c.i)
			FILTER (WHERE v.on_source IS NULL) AS of_target,
		count(*) FILTER (WHERE v.on_target IS NULL) AS fills INTO x
	FROM unnest(plan.columns) AS c,
	LATERAL (SELECT source_texts ->> c.i, target_texts ->> c.i) AS v(on_source, on_target)
	WHERE NOT c.generated AND v.on_source IS DISTINCT FROM v.on_target;
	RETURN CASE WHEN x.both IS NOT NULL THEN 'a tie: neither side is null in ' || x.both
		WHEN x.fills = 0 THEN 'only the source is null in ' || x.of_target END;
END
$$;

-- The ids of the keys of a repair whose winner is "not null" that are not on the target as their
-- steps were to make them.
CREATE FUNCTION repair_not_filled(plan repair_plan, steps repair_step[]) RETURNS text[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	compared plan := plan.compared;
	ids text[] := repair_ids(plan, steps);
	found record;
	rows found_rows;
BEGIN
	compared.content := 'texts';
	ids := keys_of_ids(compared, ids);
	found := find_both(compared, ids);
	rows := repair_target_of((plan.asked).target_side, found.here, found.there);
	RETURN ARRAY(SELECT s.id FROM unnest(steps) AS s
		LEFT JOIN unnest(CASE WHEN compared.by_hash THEN rows.id ELSE ids END, rows.content)
			AS r(id, content) ON r.id = s.id
		WHERE s.status = 'due' AND EXISTS (SELECT FROM unnest(plan.columns) AS c
			WHERE NOT c.generated AND CASE WHEN s.action <> 'delete' THEN s.texts[c.i + 1] END
				IS DISTINCT FROM r.content #> '{0,1}' ->> c.i));
END
$$;
