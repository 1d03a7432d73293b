-- Types of a repair ----------------------------------------------------------------
--
-- A repair compares as iblt_compare does.  The content of its differences is 'texts':
-- [[count, [text, ...], checksum], ...], the rows of a key as arrays of their values' texts, or
-- what stands for a long one (is_long).  The texts of keys that an index finds come when the rows
-- are claimed, in lists (lookup_by_key_sql).  The target is the relation to be changed, and the
-- source is the other one.

-- What the caller of iblt_repair asks for, in addition to the options of a comparison.
CREATE TYPE repair_options AS (
	target_side text,		-- 'here' to pull, 'there' to push
	inserts boolean,
	updates boolean,
	deletes boolean,
	"cascade" boolean,
	apply boolean,
	apply_search_path text,	-- for the statements, or NULL
	as_replica boolean,		-- asked for, or what the target's session does anyway
	origin text,			-- replication origin of the changes, or NULL
	winner text,			-- which row wins: 'source' or 'newest' (winner.sql)
	newest_by text			-- a column, or NULL for the commit time
);

-- A foreign key that refers to the target.
CREATE TYPE repair_foreign_key AS (
	name text,				-- quoted
	relation text,			-- that refers to the target: schema.name, quoted
	self boolean,			-- the target refers to itself
	readable boolean,		-- this role may read that relation
	on_delete text,
	on_update text,
	referenced text[],		-- columns
	matches text			-- condition that row r refers to iblt_d, as SQL
);

-- A column of the target.
CREATE TYPE repair_column AS (
	-- as repair_describe gives it:
	name text,
	type text,				-- with its schema, and without a modifier
	equal text,				-- operator by which an index finds a value, as SQL, or NULL
	list text,				-- type of an array of texts of values, as SQL, or NULL
	generated boolean,
	always boolean,			-- GENERATED ALWAYS AS IDENTITY
	-- as statements write it if it is compared:
	i integer,				-- place of its text in a row, from 0
	identifier text,		-- the name, quoted
	suffix text,			-- that gives a literal the column's type
	key boolean
);

-- The target, as repair_describe gives it.  repair_describe_sides compares all of it with what is
-- there before COMMIT, so a field that nothing else reads, such as partitions, counts, too.
CREATE TYPE repair_description AS (
	naming text,			-- what its name means (repair_naming)
	partitions oid[],		-- with the relation itself, if it is partitioned
	kind text,				-- what sort of relation it is, in words
	foreign_keys repair_foreign_key[],
	deferrable_constraints text[],	-- unique and exclusion constraints, quoted
	replica boolean,		-- the session has session_replication_role = replica
	read_only boolean,		-- its transactions only read, unless they ask for more
	distributed boolean,	-- a table of Citus
	rules boolean,			-- it may have some
	columns repair_column[],
	triggers jsonb			-- that are not disabled: name (quoted), enabled (as in pg_trigger:
							-- 'O', 'A' for always, 'R' for replica), and events (INSERT, ...)
);

-- What is compared, and how the target is written.
CREATE TYPE repair_plan AS (
	compared plan,
	asked repair_options,
	place integer,			-- of the target among the sides, 1 or 2; the source has the other one
	target side,			-- the one to be changed
	source side,			-- the other one
	described repair_description,	-- the target
	source_naming text,		-- what the name of the source means (repair_naming)
	columns repair_column[],	-- those compared
	indexed boolean,		-- an index finds the rows of a key.  Then all steps of a batch have one
							-- action, and get their texts when their rows are claimed or shown
	links link[],			-- what replicates from any side but the target: from the source, and
							-- from other nodes, which have a vote
	secret text				-- random: the name of the list of its steps
);

-- A step of a repair, or why there is none.
CREATE TYPE repair_step AS (
	id text,
	key jsonb,
	action text,
	detail text,
	n bigint,				-- rows that the statement must change
	columns text[],			-- that an update sets
	texts text[],			-- of the columns of the row, on the target for a delete
	long text,				-- the checksum of that row, if some texts are too long (is_long)
	source_checksum text,	-- of the rows of the key when they were compared
	target_checksum text,
	weight bigint			-- of the key in the difference, if they were not looked up then
);

-- A statement of a repair.
CREATE TYPE repair_statement AS (
	sql text,
	n bigint,				-- rows that it must change,
	at_most boolean,		-- or at most
	key text,				-- of its row, NULL if there are several
	id text,				-- the same
	list text				-- of the steps of its repair
);

-- How far a repair has come.  Its steps are in a temporary file, in batches.
CREATE TYPE repair_work AS (
	plan repair_plan,	-- with the seed of the comparison
	figures figures,
	parts text[],			-- of each batch: its one action, or '' for several
	keys bigint,			-- whose rows are to be changed
	differ text[],			-- ids that differ again, for the source has changed since, or NULL
	-- of differences of one seed that a run found:
	table_number integer,
	item audit_item,
	gone text				-- as in run_table
);
