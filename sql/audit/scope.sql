-- The scope of a published table -------------------------------------------------------
--
-- Which of its columns and rows an audit compares.

-- What calls of functions answer of the table of each item, c, at a place, each time as an array of
-- jsonb; without calls, its OID.
CREATE FUNCTION audit_ask_each(place text, items audit_item[], calls text[] DEFAULT '{}')
RETURNS text[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	asked text := CASE WHEN calls = '{}' THEN 'c.oid' ELSE format('jsonb_build_array(%s)',
		(SELECT string_agg(format('(%s)', CASE WHEN peer_is_bare(place) THEN plain_call(call)
			ELSE 'SELECT iblt_internal.' || call END), ', ' ORDER BY n)
		FROM unnest(calls) WITH ORDINALITY AS u(call, n))) END;
BEGIN
	RETURN ask_one(place, format('SELECT ARRAY(SELECT %s'
			' FROM unnest(%L::text[], %L::text[]) WITH ORDINALITY AS u(schema, name, n)'
			' LEFT JOIN pg_namespace AS s ON s.nspname = u.schema'
			' LEFT JOIN pg_class AS c ON c.relnamespace = s.oid AND c.relname = u.name'
			' ORDER BY u.n)::text', asked,
		ARRAY(SELECT i.schema FROM unnest(items) WITH ORDINALITY AS i ORDER BY i.ordinality),
		ARRAY(SELECT i.name FROM unnest(items) WITH ORDINALITY AS i ORDER BY i.ordinality)));
END
$$;

-- Items that know what their scope takes, which the subscriber is asked for in one question.
CREATE FUNCTION audit_ask_scopes(conns text[], items audit_item[]) RETURNS audit_item[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	item audit_item := items[1];
	answers text[];
BEGIN
	-- all items of a list are published by one side, or none is
	IF item.published IS NULL THEN
		RETURN items;
	END IF;
	answers := audit_ask_each(conns[CASE item.subscriber WHEN 'there' THEN 2 ELSE 1 END], items,
		'{audit_feeds(c.oid::regclass),audit_generated(c.oid::regclass)}');
	FOR n IN 1 .. cardinality(items) LOOP
		item := items[n];
		item.feeds := ARRAY(SELECT f
			FROM jsonb_populate_recordset(NULL::feed, answers[n]::jsonb -> 0) AS f);
		item.generated := ARRAY(SELECT jsonb_array_elements_text(answers[n]::jsonb -> 1));
		items[n] := item;
	END LOOP;
	RETURN items;
END
$$;

-- An item with the columns and rows that are compared: those that are published.
-- A subscriber computes a generated column that is not published, if it has one too.
CREATE FUNCTION audit_scope(conns text[], item audit_item, trust_filters boolean)
RETURNS audit_item
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	published published_table := item.published;
	filter text := published.filter;
	excluded text[];
	feeds feed[];
	alone boolean;			-- do all rows come through the publications that are audited?
BEGIN
	IF item.feeds IS NULL THEN
		item := (audit_ask_scopes(conns, ARRAY[item]))[1];
	END IF;
	feeds := item.feeds;
	excluded := ARRAY(SELECT u.name
		FROM jsonb_to_recordset(published.unpublished) AS u(name text, generated boolean)
		WHERE NOT (u.generated AND u.name = ANY (item.generated)));
	IF excluded <> '{}' THEN
		item.exclude := excluded;
		item.notes := item.notes || ('columns not published: ' || quoted(excluded));
	END IF;
	-- then the subscriber holds rows of the filter only, and any other row of it is extra
	alone := cardinality(feeds) = 1 AND (feeds[1]).publications && published.publications
		AND NOT (feeds[1]).publications && coalesce(published.others, '{}');
	IF filter IS NOT NULL THEN
		-- Another server can send any SQL.  The filters of this server hold operators and
		-- functions of PostgreSQL alone.
		IF (alone OR trust_filters OR item.subscriber = 'there' AND conns[1] IS NULL) IS NOT TRUE
		THEN
			RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
				MESSAGE = CASE item.subscriber
					WHEN 'here' THEN 'refusing to run the peer''s row filter here'
					ELSE 'refusing to run the row filter of here on the peer' END,
				DETAIL = CASE item.subscriber WHEN 'here' THEN 'Rows here'
					ELSE 'Rows of the peer' END || ' may come from elsewhere, so the filter must '
					'select them. Set trust_filters => true to run this condition: ' || filter;
		END IF;
		item.condition := CASE WHEN item.subscriber = 'there' OR NOT alone THEN filter END;
		item.peer_condition := CASE WHEN item.subscriber = 'here' OR NOT alone THEN filter END;
		item.notes := item.notes || concat('row filter ', filter, CASE WHEN NOT alone
			THEN ' on both sides, since rows of the subscriber may be from elsewhere' END);
	END IF;
	IF cardinality(feeds) > 1 THEN
		item.notes := item.notes || ('fed by subscriptions '
			|| quoted(ARRAY(SELECT f.subscription FROM unnest(feeds) AS f)));
	END IF;
	RETURN item;
END
$$;
