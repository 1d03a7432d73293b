-- Types of audits ------------------------------------------------------------------
--
-- An audit compares many tables over one connection: it makes a list of items, one a
-- table, before it compares the first (list.sql), and a row of the answer of each
-- (table.sql).

-- What an audit compares; kind is NULL if the caller gave several things.
CREATE TYPE audit_target AS (
	kind text,				-- 'tables', 'schema', 'publication', 'subscription' or 'database'
	name text,				-- of the schema, the publication or the subscription
	tables regclass[],
	here_tables text[],		-- or their names, where this side is another database
	peer_schema text		-- of the schema there, NULL if it has the same name
);

-- A table of some publications.
CREATE TYPE published_table AS (
	schema text,
	name text,
	filter text,			-- NULL: all rows
	publications text[],	-- that were asked for
	others text[],			-- other publications that may add rows to those of the filter
	operations_left_out text,
	unpublished jsonb,		-- columns that no publication has: name, and is it generated?
	covered boolean,		-- an ancestor is published too
	state text				-- of its replication, if a subscription names it, and no more
);

-- A subscription that feeds a table.
CREATE TYPE feed AS (subscription text, publications text[]);

-- A table in the list of an audit.
CREATE TYPE audit_item AS (
	relid regclass,			-- the table here; NULL if there is none, or if here is elsewhere
	absent boolean,			-- is there none?  NULL: not known yet
	schema text,			-- of the table here
	name text,
	problem text,			-- why it is not compared, or NULL
	notes text[],			-- the detail of its row says these in any case
	listed boolean,			-- found by its name, and not given as a table
	published published_table,	-- if it is one
	subscriber text,		-- 'here' or 'there', if one side publishes it
	feeds feed[],			-- what feeds it there, and
	generated text[],		-- its generated columns, NULL unless asked with others'
	subscription text,		-- if that is audited
	exclude text[],			-- columns that are not published
	peer_schema text		-- of the table there, NULL if it is the same
);

-- What an audit or a run counts of a table.  Types, stores, views and sums have these columns by
-- @each audit_counts: ...@.
CREATE TYPE audit_counts AS (
	rows_here bigint,
	rows_there bigint,
	missing bigint,
	extra bigint,
	changed bigint,
	unconfirmed bigint
);

-- All that an audit knows of one table.
CREATE TYPE audit_row AS (
	relation text,
	peer_relation text,
	status text,
	detail text,
	sqlstate text,
	@each audit_counts: % bigint,@
	bytes bigint,
	total_ms numeric,
	differences jsonb		-- the first ones, if rows are asked for; of nodes, counts
);

-- What it shows of it: what fits on a line of a terminal, and the reasons.
CREATE TYPE audit_line AS (
	relation text,
	status text,
	@each audit_counts: % bigint,@
	detail text
);

-- A small table of an audit.
CREATE TYPE audit_small AS (
	n integer,				-- its place in the list
	item audit_item,
	compare options,
	plan plan,				-- NULL if it must be compared alone
	rows bigint				-- of each side, if these are equal
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
