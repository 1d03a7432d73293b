-- Types of comparisons of several nodes ------------------------------------------------
--
-- iblt_compare_nodes compares a relation of up to 16 nodes: databases of foreign servers
-- or connection strings, and this one.  nodes_plan makes the plan, which has all nodes as its
-- sides, and the comparison is that of two (sql/compare): one node is the base, and all others are
-- compared with it.  doc/internals/mathematics.md says why not in one sum.

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
