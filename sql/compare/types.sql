-- Types of comparisons -----------------------------------------------------------------------

-- The figures of a comparison, as iblt_compare_stats gives them.
CREATE TYPE figures AS (
	relation text,
	peer_relation text,
	rows_here bigint,
	rows_there bigint,
	differences bigint,
	unconfirmed bigint,
	settled bigint,
	key_columns text[],
	columns text[],
	columns_left_out text[],
	messages bigint,
	bytes_sent bigint,
	bytes_received bigint,
	sketch_bytes bigint,
	scan_here_ms numeric,
	scan_there_ms numeric,
	scan_ms numeric,
	lookup_ms numeric,
	recheck_ms numeric,
	total_ms numeric,
	finished_at timestamptz,
	complete boolean,		-- are these all differences? Otherwise they are a sample:
	parts bigint,			-- those in one of so many parts of the keys
	estimated bigint,		-- about how many there are in all
	live boolean,				-- from live digests, and these are when a scan last
	verified_here timestamptz,	-- gave the same digest
	verified_there timestamptz,
	method text,			-- 'sketch' or 'plain'
	by_index boolean		-- see by_index_note
);

-- Keys of a difference, the sides that have them ('here' is the base), and their weights.
CREATE TYPE key_sides AS (keys text[], sides text[], weights bigint[]);

-- The keys that differ, as find_keys gives them.
CREATE TYPE found_keys AS (
	plan plan,				-- with the seed of the last scan
	figures figures,
	number bigint,			-- an estimate if sketches could not tell all
	exact boolean,
	keys bytea,				-- NULL if there are too many
	sample @extschema@.iblt,	-- a small fold of the difference
	base integer,			-- the side from which the others differ
	said key_sides[],		-- how each of several nodes differs from the base, NULL for two
	small @extschema@.iblt[],	-- small folds of what each of several nodes had at first
	buckets text[],			-- of plain queries, in place of keys: those in which rows differ,
	first numeric[],		-- the sums of the first side,
	sums text[],			-- by how much on each side,
	sums_before text[]		-- and by how much before a wait for replication
);

-- A key whose rows differ.
CREATE TYPE difference AS (
	id text,				-- the key in one word
	key jsonb,
	side text,				-- 'here', 'there' or 'both'
	here jsonb,
	there jsonb,
	here_count bigint,
	there_count bigint,
	mark text,				-- of the contents and row versions of both sides
	confirmed boolean,
	here_checksum text,		-- of the rows of a side, NULL if it has none
	there_checksum text,
	differs text[],			-- columns, NULL unless asked for, and each side has one row
	checksums text[],		-- of the rows of each of several nodes, NULL where it has none
	contents jsonb[]		-- these rows, if they are asked for
);

-- How a wait for replication ended.
CREATE TYPE waited AS (
	problem text,			-- why differences are not confirmed, NULL if replication has passed
	stuck text				-- where its slots were then, unless that was known
);

-- Differences as they are found, or all of a comparison.
CREATE TYPE batch AS (
	differences difference[],
	waited waited,			-- for those that are not confirmed
	figures figures,		-- behind the last ones
	plan plan				-- beside these, with the seed of the last scan
);

-- What is kept of a batch of differences between two looks at them.  Of many, this is
-- all that is in memory.
CREATE TYPE held AS (
	ids text[],
	marks bigint[],			-- hashes of the marks, NULL for rows that did not stand still
	waits integer[],		-- that the mark has been the same for
	differences difference[]	-- as they were seen last, if there is one batch only
);

-- How the rows of keys are found on a side, as SQL.  finder() makes the choice.
CREATE TYPE finder AS (
	keys text,				-- the keys in $1 as a table iblt_k, an item of FROM
	matches text,			-- condition that a row t has the key of iblt_k
	lookup text				-- query for the rows of the keys in $1, as one found_rows
);

-- An attempt of a driver (attempt.sql).
CREATE TYPE attempt AS (
	number integer,			-- of three
	peers text[],			-- of both sides, or of all nodes; NULL for this database
	conns text[],			-- names of the connections to them
	secret boolean,			-- was a node with a connection string left out?
	options options,
	method text,			-- that was asked for
	without text,			-- what iblt does without nodes that fail, NULL for two sides
	names text[],			-- of the nodes
	named integer			-- how many peers the caller has named
);
