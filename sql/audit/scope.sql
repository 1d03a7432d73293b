-- The scope of a published table -------------------------------------------------------
--
-- Which of its columns and rows an audit compares.

-- The place of the subscriber of a published table.
CREATE FUNCTION audit_subscriber(conns text[], item audit_item) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT CASE item.subscriber WHEN 'there' THEN conns[2] ELSE conns[1] END
$$;

-- An item without the columns that are not replicated.
-- A subscriber computes a generated column that is not published, if it has one too.
CREATE FUNCTION audit_scope_columns(conns text[], item audit_item) RETURNS audit_item
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	unpublished unpublished_column[] := (item.published).unpublished;
	computed text[] := '{}';
	excluded text[];
BEGIN
	IF EXISTS (SELECT FROM unnest(unpublished) AS u WHERE u.generated) THEN
		computed := coalesce(item.generated, audit_ask_names(ARRAY[audit_subscriber(conns, item)],
			format('audit_generated(pg_catalog.to_regclass(%L))', audit_name(item))));
	END IF;
	excluded := ARRAY(SELECT u.name FROM unnest(unpublished) AS u
		WHERE NOT (u.generated AND u.name = ANY (computed)));
	IF excluded <> '{}' THEN
		item.exclude := excluded;
		item.notes := item.notes
			|| ('columns not published: ' || quoted(excluded));
	END IF;
	RETURN item;
END
$$;

-- Do all rows of a table come through the publications that are audited?
-- If the subscriber's rows come from these publications alone, it holds rows of the
-- filter only, and any other row of it is extra.
CREATE FUNCTION audit_only_source(feeds feed[], published published_table) RETURNS boolean
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT cardinality(feeds) = 1
		AND (feeds[1]).publications && published.publications
		AND NOT (feeds[1]).publications && coalesce(published.others, '{}')
$$;

-- An error for a condition of another server's that must not run on the subscriber.
-- Another server can send any SQL.  The filters of this server hold operators and functions of
-- PostgreSQL alone.
CREATE FUNCTION audit_require_trusted(subscriber text, filter text, trusted boolean) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
	IF NOT trusted THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = CASE subscriber
				WHEN 'here' THEN 'refusing to run the peer''s row filter here'
				ELSE 'refusing to run the row filter of here on the peer' END,
			DETAIL = CASE subscriber WHEN 'here' THEN 'Rows here' ELSE 'Rows of the peer' END
				|| ' may come from elsewhere, so the filter must select them. '
				'Set trust_filters => true to run this condition: ' || filter;
	END IF;
END
$$;

-- An item with the conditions for the rows that are published.
CREATE FUNCTION audit_scope_rows(conns text[], item audit_item,
	trust_filters boolean) RETURNS audit_item
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	feeds feed[] := coalesce(item.feeds, ARRAY(SELECT f FROM jsonb_populate_recordset(NULL::feed,
		ask_call(audit_subscriber(conns, item), format(
			'audit_feeds(pg_catalog.to_regclass(%L))', audit_name(item)))::jsonb) AS f));
	alone boolean := audit_only_source(feeds, item.published);
	filter text := (item.published).filter;
BEGIN
	IF filter IS NOT NULL THEN
		PERFORM audit_require_trusted(item.subscriber, filter,
			alone OR trust_filters OR item.subscriber = 'there' AND conns[1] IS NULL);
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
	answers := audit_ask_each(audit_subscriber(conns, item), items,
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

-- An item with the columns and rows that are compared.
CREATE FUNCTION audit_scope(conns text[], item audit_item, trust_filters boolean)
RETURNS audit_item
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	IF item.published IS NULL THEN
		RETURN item;
	END IF;
	RETURN audit_scope_rows(conns, audit_scope_columns(conns, item), trust_filters);
END
$$;
