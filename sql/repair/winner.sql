-- Which row wins -------------------------------------------------------------------------
--
-- As a rule, the source's rows win.  If the newest row wins, a key that both sides have is repaired
-- only if the source's row is newer.  The repair in the other direction does the rest,
-- in a transaction of its own.
--
-- Rows are looked up with a number that tells which is newer: their "stamp", the last of the
-- texts of a row.  It is read in the statement that reads the row.  The claim skips a row
-- whose content or stamp is not what it was when the winner was found, so the winner is the
-- one of the rows that the claim has locked.

-- The number that tells how new a row is, as SQL, by a column or by its commit time; an error if
-- that is no time or exact number, if the rows of a side have no commit time, or if this role may
-- not read it, and a warning if a server does not keep it.
CREATE FUNCTION repair_stamp(plan plan, newest_by text) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	c plan_column := (SELECT u FROM unnest(plan.columns) AS u WHERE u.name = newest_by);
	-- in which both sides are compared
	type regtype := CASE c.cast_to WHEN '' THEN c.base::oid ELSE c.cast_to::regtype END;
	query text := 'SELECT pg_catalog.current_setting(''track_commit_timestamp'')';
	tracked text[];
	s side;
BEGIN
	IF NOT plan.is_unique THEN
		RAISE feature_not_supported USING
			MESSAGE = 'winner => ''newest'' needs a unique key on both sides',
			HINT = 'Create a unique index on columns that are not null on both sides, or let the '
				'source win.';
	ELSIF newest_by IS NOT NULL AND c.name IS NULL THEN
		RAISE undefined_column USING
			MESSAGE = format('newest_by is not a compared column: "%s"', newest_by),
			DETAIL = 'If the column were left out, a row would win without its time.',
			HINT = 'Names are case-sensitive.';
	ELSIF type = ANY ('{date,timestamp,timestamptz}'::regtype[]) THEN
		RETURN format('extract(epoch FROM %s)', values_sql(c));
	ELSIF type = ANY ('{int2,int4,int8,numeric}'::regtype[]) THEN
		RETURN format('%s::numeric', values_sql(c));
	ELSIF newest_by IS NOT NULL THEN
		RAISE datatype_mismatch USING
			MESSAGE = format('column "%s" does not tell which row is newer', newest_by),
			DETAIL = 'Its type is not date, timestamp, timestamptz, an integer or numeric, the '
				'same on both sides.';
	END IF;
	FOREACH s IN ARRAY ARRAY[plan.here, plan.there] LOOP
		IF plan.buckets IS NOT NULL OR s.distributed OR NOT s.versions THEN
			RAISE feature_not_supported USING
				MESSAGE = format('the commit times of the rows of %s cannot be read (%s)',
					s.relation, s.side),
				DETAIL = 'Only tables of a peer with iblt have them, and not foreign tables, '
					'views or tables of Citus.',
				HINT = 'Name a column in newest_by.';
		ELSIF NOT s.version_rights THEN
			RAISE insufficient_privilege USING
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
