-- The scope of a published table -------------------------------------------------------
--
-- Which of its columns and rows an audit compares.

-- An item with the columns and rows that are compared: those that are published.
-- A subscriber computes a generated column that is not published, if it has one too.
CREATE FUNCTION audit_scope(conns text[], item audit_item, trust_filters boolean)
RETURNS audit_item
	LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	published published_table := item.published;
	filter text := published.filter;
	excluded text[];
	feeds feed[] := item.feeds;
	alone boolean;			-- do all rows come through the publications that are audited?
BEGIN
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
