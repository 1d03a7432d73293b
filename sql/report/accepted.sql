-- Differences that are meant to be ----------------------------------------------------------
--
-- A list of them has a line each: kind | object | property | until | reason.  They are counted
-- and shown, and the verdict is about everything else.

-- A line of such a list.
CREATE TYPE accepted_rule AS (
	line integer,
	kind text,				-- of iblt_audit_structure, or 'rows'; '*' in a name is any text
	object text,
	property text,			-- for rows, the status of the table
	until date,				-- the last day on which it holds
	reason text
);

-- The lines of a list; an error for one that has another form.
CREATE FUNCTION accepted_rules(list text) RETURNS SETOF accepted_rule
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	lines text[] := string_to_array(replace(list, chr(13), ''), chr(10));
	f text[];
BEGIN
	FOR n IN 1 .. cardinality(lines) LOOP
		CONTINUE WHEN ltrim(lines[n]) = '' OR ltrim(lines[n]) LIKE '#%';
		f := ARRAY(SELECT btrim(u.field, ' ' || chr(9)) FROM unnest(string_to_array(lines[n], '|'))
			WITH ORDINALITY AS u(field, place) ORDER BY u.place);
		IF cardinality(f) <> 5 OR '' IN (f[1], f[2], f[3], f[5])
				OR f[4] !~ '^(-?|[0-9]{4}-[0-9]{2}-[0-9]{2})$' THEN
			RAISE invalid_parameter_value USING
				MESSAGE = format('line %s of what is accepted does not have the form '
					'"kind | object | property | until | reason"', n),
				HINT = 'until is a date such as 2027-06-30, or empty. Each line has a reason.';
		END IF;
		RETURN NEXT ROW(n, f[1], f[2], f[3], nullif(nullif(f[4], ''), '-')::date, f[5]);
	END LOOP;
END
$$;

-- Is the name of a difference one that a line of the list means?
CREATE FUNCTION accepted_name(pattern text, name text) RETURNS boolean
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN name LIKE replace(replace(replace(replace(pattern, '!', '!!'), '%', '!%'), '_', '!_'),
		'*', '%') ESCAPE '!';

-- The first line of a list that means a difference.
CREATE FUNCTION accepted_by(rules accepted_rule[], kind text, object text, property text)
RETURNS accepted_rule
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN (SELECT r FROM unnest(rules) AS r WHERE accepted_name(r.kind, accepted_by.kind)
		AND accepted_name(r.object, accepted_by.object)
		AND accepted_name(r.property, accepted_by.property) ORDER BY r.line LIMIT 1);

-- A report whose differences do not have those that are accepted.  Lines that have expired hold no
-- longer, and are told like those that fit no difference.
CREATE FUNCTION report_accept(report report, list text) RETURNS report
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	rules accepted_rule[] := ARRAY(SELECT r FROM accepted_rules(list) AS r);
	valid accepted_rule[] := ARRAY(SELECT r FROM unnest(rules) AS r
		WHERE coalesce(r.until >= timezone('UTC', now())::date, true));
	tables jsonb;
	structure jsonb;
BEGIN
	SELECT array_agg(t.t ORDER BY t.n) FILTER (WHERE (r).line IS NULL), jsonb_agg(
			jsonb_build_object('kind', 'rows', 'object', (t.t).name, 'property', (t.t).status,
				'reason', (r).reason, 'line', (r).line) ORDER BY t.n)
			FILTER (WHERE (r).line IS NOT NULL)
		INTO report.tables, tables
		FROM (SELECT u, row_number() OVER () FROM unnest(report.tables) AS u) AS t(t, n),
		LATERAL (SELECT CASE WHEN (t.t).status <> 'equal'
			THEN accepted_by(valid, 'rows', (t.t).raw, (t.t).status) END) AS a(r);
	IF report.structure IS NOT NULL THEN
		SELECT coalesce(jsonb_agg(s.row ORDER BY s.n) FILTER (WHERE (r).line IS NULL), '[]'),
				jsonb_agg(s.row || jsonb_build_object('reason', (r).reason, 'line', (r).line)
					ORDER BY s.n) FILTER (WHERE (r).line IS NOT NULL)
			INTO report.structure, structure
			FROM jsonb_array_elements(report.structure) WITH ORDINALITY AS s("row", n),
			LATERAL (SELECT accepted_by(valid, s.row ->> 'kind', s.row ->> 'object',
				s.row ->> 'property')) AS a(r);
	END IF;
	report.accepted := coalesce(tables, '[]') || coalesce(structure, '[]');
	report.unused := (SELECT jsonb_agg(to_jsonb(r) ORDER BY r.line) FROM unnest(rules) AS r
		WHERE NOT report.accepted @> jsonb_build_array(jsonb_build_object('line', r.line)));
	RETURN report;
END
$$;
