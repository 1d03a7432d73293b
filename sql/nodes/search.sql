-- Finding the keys on which nodes disagree ----------------------------------------------
--
-- All nodes are scanned at the same time, each once, into sketches of one template.  Here
-- are folds of them, all of one size.  One node is the base, and its fold less that of each
-- other node is decoded.  Rows that are the same on all nodes are in none of these
-- differences, and a key on which any two nodes disagree is in one of them at least: of the
-- two, one differs from the base.

-- The base, what of each node differs from it, and the list of all these keys, each once;
-- "complete" is false if more differ than sketches of that capacity can tell, and then "number"
-- is an estimate of the keys of one node.  "small" are small folds of what the nodes have.  An
-- error if a relation was altered.
CREATE FUNCTION nodes_exchange(nodes node_set, capacity integer, OUT complete boolean,
	OUT number bigint, OUT base integer, OUT said node_keys[], OUT list bytea,
	OUT sample @extschema@.iblt, OUT small @extschema@.iblt[]) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	digests boolean := coalesce((nodes.plan).from_digests, false);
	whole declared.sketch%TYPE;
	scanned scanned[];
	s side;
	mine declared.sketch%TYPE;
	folds declared.sketches%TYPE;
	sums numeric[];
	waiting integer[];
	still integer[];
	part integer[];
	cells integer;
	wires text[];
	one node_keys;
	difference declared.sketch%TYPE;
	status record;
BEGIN
	nodes.plan.kept := substr(replace(gen_random_uuid()::text, '-', ''), 1, 12);
	whole := empty_sketch(nodes.plan, capacity);
	scanned := ask_values(ARRAY(SELECT u.place FROM unnest(nodes.sides) AS u),
		ARRAY(SELECT CASE WHEN digests THEN live_sql(nodes.plan, u, false)
			ELSE scan_sql(nodes.plan, u, capacity) END FROM unnest(nodes.sides) AS u),
		CASE WHEN digests THEN 0.001 ELSE 0.02 END, NULL,
		reading_of(nodes.plan, sides => nodes.sides))::scanned[];
	FOR n IN 1 .. cardinality(scanned) LOOP
		s := nodes.sides[n];
		PERFORM require_side_described(s, scanned[n].fingerprint);
		folds[n] := sketch_of(scanned[n]);
		PERFORM progress((nodes.plan).progress, format('"%s": %s rows', s.side,
			(iblt_header(folds[n])).rows));
		IF s.place IS NULL THEN
			mine := folds[n];
			folds[n] := iblt_fold(mine, 9, 0.1);
		END IF;
	END LOOP;
	small := folds;
	-- The base is the node from which the others differ least.  Any would do, but if it were the
	-- one that deviates, all folds would have to be as large as its differences take.
	sums := array_fill(0, ARRAY[cardinality(folds)]);
	FOR a IN 1 .. cardinality(folds) LOOP
		FOR b IN a + 1 .. cardinality(folds) LOOP
			status := iblt_compare_decode(iblt_subtract(folds[a], folds[b]));
			sums[a] := sums[a] + status.estimated;
			sums[b] := sums[b] + status.estimated;
		END LOOP;
	END LOOP;
	base := (SELECT n FROM unnest(sums) WITH ORDINALITY AS u(sum, n) ORDER BY sum, n LIMIT 1);
	waiting := array_remove(ARRAY(SELECT generate_subscripts(folds, 1)), base);
	said := array_fill(NULL::node_keys, ARRAY[cardinality(folds)]);
	LOOP
		still := '{}';
		number := 0;
		FOR i IN 1 .. cardinality(waiting) LOOP
			difference := iblt_subtract(folds[base], folds[waiting[i]]);
			status := iblt_compare_decode(difference);
			IF status.complete THEN
				-- a difference without rows has no type of key
				IF status.recovered > 0 THEN
					sample := iblt_fold(difference, 9, 0.1);
					list := CASE WHEN list IS NULL THEN status.keys
						ELSE iblt_compare_join(sample, list, status.keys) END;
					SELECT k.keys, k.sides, k.weights INTO one FROM iblt_compare_keys(sample,
						status.keys, 0, status.recovered::integer) AS k;
					said[waiting[i]] := one;
				END IF;
			ELSE
				still := still || waiting[i];
				number := greatest(number, status.estimated);
			END IF;
		END LOOP;
		waiting := still;
		complete := waiting = '{}';
		EXIT WHEN complete OR (iblt_header(folds[base])).cells = (iblt_header(whole)).cells
			OR surely_more(nodes.plan, number, (iblt_header(whole)).capacity);
		-- larger folds of the base and of those that are still waiting
		part := base || waiting;
		cells := larger_fold(whole, folds[base], number);
		wires := ask_values(ARRAY(SELECT (nodes.sides[n]).place
				FROM unnest(part) WITH ORDINALITY AS u(n, i) ORDER BY u.i),
			ARRAY(SELECT CASE WHEN (nodes.sides[n]).place IS NULL THEN 'SELECT NULL' ELSE
					format('SELECT iblt_compare_fold(iblt_session_get(%L), %s)::text',
						kept_name(nodes.plan, nodes.sides[n]), cells) END
				FROM unnest(part) WITH ORDINALITY AS u(n, i) ORDER BY u.i), 0);
		FOR i IN 1 .. cardinality(part) LOOP
			s := nodes.sides[part[i]];
			folds[part[i]] := CASE WHEN s.place IS NULL THEN iblt_compare_fold(mine, cells)
				ELSE fold_of(wires[i], cells, s.place) END;
		END LOOP;
	END LOOP;
END
$$;

-- As nodes_exchange, with sketches that are large enough.
-- As in search (sketch.sql), without parts of the keys.
CREATE FUNCTION nodes_search(nodes node_set) RETURNS node_found
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	most bigint := (nodes.plan).max_differences;
	capacity integer := first_capacity(nodes.plan);
	e record;
	found node_found;
BEGIN
	FOR attempt IN CASE WHEN (nodes.plan).from_digests THEN 0 ELSE 1 END .. 3 LOOP
		e := nodes_exchange(nodes, capacity);
		IF found.small IS NULL THEN
			found.small := e.small;
			found.small_plan := nodes.plan;
		END IF;
		EXIT WHEN e.complete;
		IF (nodes.plan).from_digests AND (nodes.plan).live = 'auto'
				AND NOT surely_more(nodes.plan, e.number, most) THEN
			nodes.plan := live_give_up(nodes.plan,
				'more keys differ than digests of their capacity can tell');
			PERFORM live_notice(nodes.plan);
			nodes.plan.seed := random_seed();
			found.small := NULL;
			CONTINUE;
		END IF;
		EXIT WHEN attempt = 3 OR (nodes.plan).from_digests
			OR capacity >= most AND e.number > 1.2 * most
			OR surely_more(nodes.plan, e.number, most);
		PERFORM progress((nodes.plan).progress,
			'the sketches were too small, the nodes are scanned again');
		capacity := greatest(capacity, least(2 * most, part_capacity(),
			greatest(16::bigint * capacity, 4 * e.number)));
		nodes.plan.seed := random_seed();
	END LOOP;
	found.nodes := nodes;
	found.exact := e.complete;
	-- of no keys there is no list
	found.number := CASE WHEN e.complete THEN coalesce(cardinality(
		(iblt_compare_keys(e.sample, e.list, 0, 2147483647)).keys), 0) ELSE e.number END;
	found.many := NOT e.complete OR found.number > most;
	found.base := e.base;
	found.said := e.said;
	found.list := e.list;
	found.sample := e.sample;
	RETURN found;
END
$$;
