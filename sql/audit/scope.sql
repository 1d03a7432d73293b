-- The scope of a published table -------------------------------------------------------
--
-- Which of its columns and rows an audit compares.

-- The place of the subscriber of a published table.
CREATE FUNCTION audit_subscriber(conn text, item audit_item) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
	SELECT CASE item.subscriber WHEN 'there' THEN conn END
$$;

-- An item without the columns that are not replicated.
-- A subscriber computes a generated column that is not published, if it has one too.
CREATE FUNCTION audit_scope_columns(conn text, item audit_item) RETURNS audit_item
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	unpublished unpublished_column[] := (item.published).unpublished;
	computed text[] := '{}';
	excluded text[];
BEGIN
	IF EXISTS (SELECT FROM unnest(unpublished) AS u WHERE u.generated) THEN
		computed := audit_ask_names(ARRAY[audit_subscriber(conn, item)], format(
			'audit_generated(pg_catalog.to_regclass(%L))', audit_name(item)));
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

-- An error for a condition of the peer's that must not run here.
-- A peer can send any SQL.  The filters of this server hold operators and functions of
-- PostgreSQL alone.
CREATE FUNCTION audit_check_filter(filter text, trusted boolean) RETURNS void
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
	IF NOT trusted THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = 'refusing to run the peer''s row filter here',
			DETAIL = 'Rows here may come from elsewhere, so the filter must select them. '
				'Set trust_filters => true to run this condition: ' || filter;
	END IF;
END
$$;

-- An item with the conditions for the rows that are published.
CREATE FUNCTION audit_scope_rows(conn text, item audit_item,
	trust_filters boolean) RETURNS audit_item
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	feeds feed[] := audit_ask_feeds(audit_subscriber(conn, item), audit_name(item));
	alone boolean := audit_only_source(feeds, item.published);
	filter text := (item.published).filter;
BEGIN
	IF filter IS NOT NULL THEN
		PERFORM audit_check_filter(filter,
			alone OR item.subscriber = 'there' OR trust_filters);
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

-- An item with the columns and rows that are compared.
CREATE FUNCTION audit_scope(conn text, item audit_item, trust_filters boolean) RETURNS audit_item
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	IF item.published IS NULL THEN
		RETURN item;
	END IF;
	RETURN audit_scope_rows(conn, audit_scope_columns(conn, item), trust_filters);
END
$$;
