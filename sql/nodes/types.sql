-- Types of comparisons of several nodes ------------------------------------------------
--
-- iblt_compare_nodes compares a relation of up to 16 nodes: databases of foreign servers
-- or connection strings, and this one.  One of them is the base, and all others are
-- compared with it: describe.sql makes the plan, search.sql finds the keys, and look.sql
-- looks their rows up on all nodes.  doc/internals/mathematics.md says why not in one sum.

-- The nodes of a comparison.
CREATE TYPE node_set AS (
	names text[],			-- as in answers and messages
	named integer,			-- how many nodes the caller gave, also those left out
	sides side[],
	plan plan				-- of any two of them
);

-- The keys in which a node differs from the base, and the side that has them: the base is
-- "here".
CREATE TYPE node_keys AS (keys text[], sides text[], weights bigint[]);

-- What sketches say of the nodes.
CREATE TYPE node_found AS (
	nodes node_set,			-- with the seed of the last scan
	many boolean,			-- are there more than max_differences?
	number bigint,			-- of keys, an estimate unless "exact"
	exact boolean,
	base integer,
	said node_keys[],
	list bytea,				-- all keys, each once
	sample @extschema@.iblt,
	small @extschema@.iblt[],	-- folds of what the nodes had at first
	small_plan plan			-- with the seed of these
);

-- A key whose rows are not the same on all nodes.
CREATE TYPE node_difference AS (
	id text,				-- the key in one word
	key jsonb,
	checksums text[],		-- of the rows of each node, NULL where it has none
	contents jsonb[],		-- the rows, if they are asked for
	mark bigint,			-- a hash of the contents and row versions of all nodes
	waits integer,			-- that the mark has been the same for
	confirmed boolean
);

-- What iblt_audit_nodes says of one table.
CREATE TYPE node_audit_row AS (
	relation text,
	status text,
	differences bigint,		-- keys on which nodes disagree
	ties bigint,			-- those of them without a majority
	missing jsonb,			-- rows that the majority has, and a node has not: by its name
	extra jsonb,			-- rows that a node has, and the majority has not
	changed jsonb,			-- rows that a node has otherwise
	unconfirmed bigint,
	sqlstate text,
	total_ms numeric,
	detail text
);

-- What iblt_repair_nodes says of a key on a node.
CREATE TYPE node_repair_row AS (
	node text,				-- NULL: no node is to be changed
	key jsonb,
	action text,
	sql text,
	status text,			-- 'preview', 'applied', 'skipped', 'failed' or 'unknown'
	detail text
);

-- Keys that are to become on a node, by its place in the list, as they are on another one.
CREATE TYPE node_pair AS (target integer, source integer, ids text[], keys jsonb[]);
