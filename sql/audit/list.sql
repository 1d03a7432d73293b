-- The list of an audit ---------------------------------------------------------------
--
-- What is audited becomes a list of items, one a table, before the first is compared.

-- The name of an item's table, here or there, quoted.
CREATE FUNCTION audit_name(item audit_item, there boolean DEFAULT false) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN coalesce(quote_ident(coalesce(CASE WHEN there THEN item.peer_schema END, item.schema))
		|| '.', '') || quote_ident(item.name);

-- What a call of a function answers of the table of each item, c, at a place; without a call, its
-- OID.
CREATE FUNCTION audit_ask_each(place text, items audit_item[], call text DEFAULT NULL)
RETURNS text[]
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
	RETURN ask_one(place, format('SELECT ARRAY(SELECT %s'
			' FROM unnest(%L::text[], %L::text[]) WITH ORDINALITY AS u(schema, name, n)'
			' LEFT JOIN pg_namespace AS s ON s.nspname = u.schema'
			' LEFT JOIN pg_class AS c ON c.relnamespace = s.oid AND c.relname = u.name'
			' ORDER BY u.n)::text', CASE WHEN call IS NULL THEN 'c.oid' WHEN peer_is_bare(place)
			THEN '(' || plain_call(call) || ')' ELSE 'iblt_internal.' || call END,
		iblt_field(items, 'schema'), iblt_field(items)))::text[];

-- The items of an audit of a publication of either side, or of a subscription of this side, which
-- are the tables that are subscribed here or published there; NULL for none.
-- Both sides may have a publication of the name, if they publish to each other or if it
-- came with a dump.  Then no table of either may be passed over.
CREATE FUNCTION audit_list_published(conns text[], target audit_target) RETURNS audit_item[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	call text := 'audit_published(%L::pg_catalog.text[])';
	subscription text := CASE target.kind WHEN 'subscription' THEN target.name END;
	mine jsonb := ask_call(conns[1], CASE WHEN subscription IS NULL
		THEN format(call, ARRAY[target.name])
		ELSE format('audit_subscription(%L)', subscription) END);
	asked text[] := CASE WHEN subscription IS NULL THEN ARRAY[target.name]
		ELSE ARRAY(SELECT jsonb_array_elements_text(mine -> 'publications')) END;
	theirs jsonb;
	twofold boolean;
	notes text[];
	subscriber text;
	items audit_item[];
	answers text[];
BEGIN
	IF mine IS NULL THEN
		RAISE undefined_object USING
			MESSAGE = format('subscription "%s" does not exist in %s', subscription,
				CASE WHEN conns[1] IS NULL THEN 'this database'
					ELSE 'the database of ' || peer_title(conns[1]) END);
	END IF;
	theirs := ask_call(conns[2], format(call, asked));
	twofold := mine -> 'publications' <> '[]' AND theirs -> 'publications' <> '[]';
	IF subscription IS NULL AND mine -> 'publications' = '[]' AND theirs -> 'publications' = '[]'
	THEN
		RAISE undefined_object USING
			MESSAGE = format('publication "%s" exists neither here nor on the peer', target.name);
	END IF;
	notes := CASE WHEN subscription IS NOT NULL THEN
		CASE WHEN mine @> '{"enabled": true}' THEN '{}'
			ELSE ARRAY['the subscription is disabled'] END
		|| ARRAY(SELECT format('publication "%s" does not exist on the peer', name)
			FROM unnest(asked) AS name WHERE NOT theirs -> 'publications' ? name) END;
	subscriber := CASE WHEN subscription IS NULL AND mine -> 'publications' <> '[]' THEN 'there'
		ELSE 'here' END;
	items := (SELECT array_agg(ROW(NULL, CASE WHEN h.name IS NOT NULL THEN false END, schema, name,
			CASE WHEN subscription IS NOT NULL THEN CASE
				WHEN h.name IS NULL THEN format('published, but not subscribed: '
					'ALTER SUBSCRIPTION %I REFRESH PUBLICATION', subscription)
				WHEN p.name IS NULL THEN format('subscribed, but not published by the peer '
					'(any more): ALTER SUBSCRIPTION %I REFRESH PUBLICATION', subscription)
				WHEN (h.t).state <> 'r' THEN format(
					'the subscription is not ready for this table: state "%s", %s', (h.t).state,
					CASE (h.t).state WHEN 'i' THEN 'not copied yet'
						WHEN 'd' THEN 'it is being copied' WHEN 'f' THEN 'it has been copied'
						ELSE 'it has been copied and catches up' END) END
				WHEN NOT twofold THEN NULL
				WHEN h.name IS NULL THEN
					'only the publication of this name on the peer has this table, not the one here'
				WHEN p.name IS NULL THEN
					'only the publication of this name here has this table, not the one on the peer'
				WHEN (h.t).filter IS DISTINCT FROM (p.t).filter
						OR (h.t).unpublished IS DISTINCT FROM (p.t).unpublished
					THEN 'the publications of this name here and on the peer differ in the rows or '
						'columns of this table' END,
			array_remove(ARRAY['not published: ' || nullif((u.t).operations_left_out, '')], NULL)
				|| notes, true, u.t, subscriber, NULL, NULL, subscription, NULL, NULL)::audit_item
			ORDER BY schema COLLATE "C", name COLLATE "C")
		FROM (SELECT t.schema, t.name, t
			FROM jsonb_populate_recordset(NULL::published_table, mine -> 'tables') AS t) AS h
		FULL JOIN (SELECT t.schema, t.name, t
			FROM jsonb_populate_recordset(NULL::published_table, theirs -> 'tables') AS t) AS p
			USING (schema, name),
		LATERAL (SELECT CASE WHEN subscription IS NULL THEN coalesce(h.t, p.t) ELSE p.t END)
			AS u(t)
		-- otherwise its root is published by another of the publications
		WHERE subscription IS NULL OR h.name IS NOT NULL OR NOT (p.t).covered);
	answers := audit_ask_each(conns[CASE subscriber WHEN 'there' THEN 2 ELSE 1 END], items,
		'audit_subscribed(c.oid::regclass)');
	FOR n IN 1 .. coalesce(cardinality(items), 0) LOOP
		-- no other field, which a subscriber could lead an audit astray by
		items[n].feeds := ARRAY(SELECT f
			FROM jsonb_populate_recordset(NULL::feed, answers[n]::jsonb -> 'feeds') AS f);
		items[n].generated := ARRAY(SELECT jsonb_array_elements_text(
			answers[n]::jsonb -> 'generated'));
	END LOOP;
	RETURN items;
END
$$;

-- The items of an audit; an error if there are none, or for a mapping of another table.
-- Except for tables that were given, and those of nodes, they know whether their table is here, and
-- which it is in this database.  What has the name of a table there may be anything here: a
-- partition, or a view.
CREATE FUNCTION audit_list(conns text[], target audit_target, mappings jsonb DEFAULT NULL,
	of_nodes boolean DEFAULT false) RETURNS audit_item[]
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	items audit_item[];
	other text;				-- the schema there
	answers text[];
	unlisted text;
BEGIN
	CASE target.kind
		WHEN 'tables' THEN items := (
			SELECT array_agg(ROW(t.relid, false, t.parts[1], t.parts[2], NULL, '{}', false, NULL,
				NULL, NULL, NULL, NULL, NULL, NULL)::audit_item ORDER BY t.n)
			FROM (SELECT u.relid, ARRAY[s.nspname::text, coalesce(c.relname, u.relid::text)],
					min(u.n)
				FROM unnest(target.tables) WITH ORDINALITY AS u(relid, n)
				LEFT JOIN pg_class c ON c.oid = u.relid
				LEFT JOIN pg_namespace s ON s.oid = c.relnamespace GROUP BY 1, 2
				UNION ALL
				SELECT NULL, parse_ident(nodes_relation(u.name, CASE WHEN of_nodes THEN 'tables'
					ELSE 'here_tables' END)), min(u.n)
				FROM unnest(target.here_tables) WITH ORDINALITY AS u(name, n) GROUP BY 2)
				AS t(relid, parts, n));
		WHEN 'schema', 'database' THEN
			-- the tables of any side
			other := coalesce(target.peer_schema, target.name);
			answers := ask_calls(conns, VARIADIC format('audit_tables(%L)', target.name)
				|| array_fill(format('audit_tables(%L)', other), ARRAY[cardinality(conns) - 1]));
			IF num_nonnulls(VARIADIC answers) = 0 THEN
				RAISE invalid_schema_name USING
					MESSAGE = format(CASE WHEN of_nodes THEN 'schema "%s" exists on no node'
						WHEN cardinality(conns) = 1 THEN 'schema "%s" does not exist'
						WHEN target.name = other
						THEN 'schema "%s" exists neither here nor on the peer'
						ELSE 'schema "%s" does not exist here, nor "%s" on the peer' END,
						target.name, other),
					HINT = 'Names are case-sensitive.';
			END IF;
			items := (SELECT array_agg(ROW(NULL, CASE WHEN t.here THEN false END, t.schema, t.name,
						NULL, '{}', true, NULL, NULL, NULL, NULL, NULL, NULL,
						nullif(target.peer_schema, t.schema))::audit_item
					ORDER BY t.schema COLLATE "C", t.name COLLATE "C")
				FROM (SELECT coalesce(target.name, e ->> 0), e ->> 1, bool_or(n = 1)
					FROM unnest(answers) WITH ORDINALITY AS u(answer, n),
					jsonb_array_elements(answer::jsonb) AS e GROUP BY 1, 2)
					AS t(schema, name, here));
		ELSE items := audit_list_published(conns, target);
	END CASE;
	IF items IS NULL THEN
		RAISE no_data_found USING MESSAGE = 'there are no tables to audit'
				|| coalesce(format(' in %s "', target.kind) || target.name || '"', ''),
			DETAIL = 'An answer without tables would read as if all were equal.';
	END IF;
	unlisted := (SELECT string_agg(name, ', ') FROM jsonb_object_keys(mappings) AS name
		WHERE name NOT IN (SELECT audit_name(i) FROM unnest(items) AS i));
	IF unlisted IS NOT NULL THEN
		RAISE undefined_table USING
			MESSAGE = 'mappings names tables that are not compared: ' || unlisted,
			HINT = 'Give the names of tables of this side with their schemas.';
	ELSIF of_nodes OR target.kind = 'tables' THEN
		RETURN items;
	END IF;
	IF conns[1] IS NULL OR array_position(ARRAY(SELECT i.absent FROM unnest(items) AS i), NULL) > 0
	THEN
		answers := audit_ask_each(conns[1], items);
		FOR n IN 1 .. cardinality(items) LOOP
			items[n].absent := answers[n] IS NULL;
			items[n].relid := CASE WHEN conns[1] IS NULL THEN answers[n]::oid END;
		END LOOP;
	END IF;
	RETURN items;
END
$$;
