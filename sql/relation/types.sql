-- Types of comparisons -----------------------------------------------------------
--
-- iblt_compare, iblt_audit and iblt_repair share these.  "here" is the first side and "there"
-- the second one.  Each is a relation of this database or of another one.

-- The types of sketches, for variables: declared.sketch%TYPE.  The type itself is in the schema
-- that users call, which somebody may rename and put a type of his own in its place.
CREATE TYPE declared AS (
	sketch @extschema@.iblt,
	sketches @extschema@.iblt[]
);

-- A relation that a statement reads, as it was described.
CREATE TYPE described AS (
	place text,				-- as in side
	side text,
	relation text,
	server text,			-- when it was started
	fingerprint text,		-- the first 128 bits
	views boolean			-- is it a view or a foreign table, or has rows of foreign tables?
);

-- What the caller of iblt_compare, or another driver, asks for: @arguments options@ makes it of
-- the arguments with these names.
CREATE TYPE options AS (
	relation_name text,		-- when the driver began
	columns text[],
	exclude text[],
	key_columns text[],
	condition text,
	peer_condition text,
	mapping jsonb,			-- of columns here, as map_columns takes it, or NULL
	peer_mapping jsonb,
	max_differences bigint,
	content text,			-- of differences: 'none', 'columns', 'changed' or 'rows' (content_of),
							-- 'texts', 'stamp', 'lists' or 'key lists' (for a repair)
	cast_types boolean,
	extra_columns text,
	recheck integer,		-- NULL: as replication between the sides asks for
	timeout interval,
	seed bigint,
	progress boolean,
	label text,				-- the application_name of the peer's session
	live text,				-- 'off', 'auto' or 'require'
	live_problem text,		-- why an attempt before this one could not use digests
	method text,			-- 'sketch', 'plain' or 'auto'
	by_index boolean,		-- may scans trust indexes and the bounds of partitions?
	own_rows text,			-- of tables that others inherit from: 'always' their own rows alone,
							-- which are published, or 'of two' if both are such tables; NULL: never
	trust_filters boolean,	-- may a row filter that the peer tells an audit run here?
	mappings jsonb			-- those of an audit, by names of tables here as audit_name gives them
);

-- A column of a relation, as describe gives it.
CREATE TYPE side_column AS (
	name text,
	type text,
	base bigint,			-- OID of the type below all domains
	textual text[],			-- types in it that have no send function
	not_null boolean,
	parts text,				-- what the type is made of, NULL for a built-in type
	source text,			-- what the relation calls it, NULL for the same name
	expression text			-- that is compared in place of a column, or NULL
);

-- The columns of a unique index that tells rows apart.
CREATE TYPE unique_key AS (
	columns text[],
	index text,				-- its name, quoted
	collations text[],		-- of columns, quoted, where it is not that of the database
	orders text[],			-- by which order each column is sorted, '' if there is only one
	unordered text			-- why a range of it cannot be read, or NULL
);

-- A subscription that feeds a relation.
CREATE TYPE subscribed AS (name text, slot text, ready boolean);

-- The live digest of a relation, as live_digest() gives it.
CREATE TYPE live_digest AS (
	reason text,			-- why it is not trustworthy, or NULL
	generation bigint,		-- NULL if the relation is not tracked, or if the role may not know
	key_columns text[],
	columns text[],
	by_hash boolean,
	key_size integer,
	hashes integer,
	subtable_cells integer,
	seed_hash text,			-- the seed is a secret
	verified_at timestamptz,
	fingerprint text,		-- of the relation, if the digest was read as well,
	fold text,				-- what another server sends of it,
	ms numeric				-- and how long that took
);

-- One of the two relations, as describe gives it.
CREATE TYPE side AS (
	side text,				-- 'here' or 'there'
	place text,				-- where it is: a connection, or NULL for this database
	relation text,			-- schema.name, quoted
	condition text,			-- on its rows, or NULL
	mapped boolean,			-- are there columns with another name, or expressions?
	system text,			-- identifier of the server, NULL without the right to read it
	bare boolean,			-- is it asked by plain queries, as a place without iblt?
	recovery boolean,		-- is the server a standby?
	identity text,			-- the same for this relation of this server alone
	fingerprint text,
	kind text,				-- pg_class.relkind
	ordinary boolean,		-- an ordinary or partitioned table, whose unique indexes are of all
							-- its rows
	own_rows boolean,		-- are only these read, without those of children? (with_own_rows)
	versions boolean,		-- rows have versions that can be compared
	version_rights boolean,	-- and this role may read them
	most_rows bigint,		-- an upper bound, or NULL
	remote boolean,			-- rows of foreign tables are among its rows
	shards text[],			-- partitions that are summed up one by one, see shards()
	distributed boolean,	-- a table of Citus
	columns side_column[],
	keys unique_key[],	-- the best first
	collations text[],		-- that the condition depends on, and orders of enums
	slots text[],
	subscriptions subscribed[],
	live live_digest	-- NULL unless it was asked for
);

-- A column that is compared.
CREATE TYPE plan_column AS (
	name text,
	cast_to text,			-- type of pg_catalog to compare values in, '' for their own
	base bigint,
	base_there bigint,
	type_here text,
	type_there text,
	same_textual boolean,	-- both have the same types without a send function
	not_null boolean,		-- on both sides
	read_as text			-- the built-in type that plain queries read its text as
);

-- Replication from one side to the other.
CREATE TYPE link AS (
	source text,			-- the side from which changes flow
	follower text,			-- the side that they flow to
	slot text,				-- of logical replication, NULL for a physical standby
	ready boolean,			-- can iblt_compare wait until changes have passed?
	source_place text,		-- where the sides are
	follower_place text,
	relation text			-- of the source
);

-- What a scan gives, or a live digest.
CREATE TYPE scanned AS (
	fingerprint text,
	ms numeric,				-- how long it took
	fold text				-- of the sketch that the session of the side keeps
);

-- What a comparison does, as make_plan decides it once.
CREATE TYPE plan AS (
	here side,
	there side,
	columns plan_column[],
	key plan_column[],	-- all columns, where a whole row is the key
	whole_row boolean,
	is_unique boolean,		-- unique indexes of both sides are on the key
	by_hash boolean,		-- keys go into the sketch as hashes (see finder)
	key_size integer,		-- bytes for a key in the sketch
	columns_left_out text[],	-- that one side only has
	links link[],
	recheck integer,		-- rounds
	noted boolean,			-- do notes of an audit take the place of warnings?
	versions boolean,		-- row versions are read
	content text,			-- as in options
	max_differences bigint,
	timeout interval,
	seed bigint,
	progress boolean,
	lo text[],				-- only rows with lo < key <= hi, NULL: without that bound
	hi text[],				-- (values of the columns of slice_key(), as texts)
	parts bigint,			-- a scan is of one of so many parts of the keys, NULL: of all
	part bigint,			-- which one, from 0 on
	sample boolean,			-- is a sample the answer to too many differences?
	live text,				-- as in options
	from_digests boolean,	-- are live digests read in place of scans?
	live_cells integer,		-- of a subtable, to which both digests are folded
	live_problem text,		-- why the relations are scanned all the same
	found scanned[],		-- digests that were read with the descriptions, as exchange takes them
	buckets integer,		-- of plain queries, NULL for sketches
	bytes bigint,			-- about the size of the larger relation, for plain queries
	by_index boolean,		-- as in options, where there are indexes to trust
	kept text,				-- by which name sketches are kept, here and on other servers
	stamp text,				-- what tells which row is newer, as SQL (repair/winner.sql), or NULL
	stamp_columns text[],	-- system columns that it reads
	stuck text,				-- where replication was when another table waited for it in vain
	sides side[],			-- of several nodes: all of them, of which here and there are two
	named integer			-- how many nodes the caller gave, those that are left out too
);

-- A field of each row of a composite type: texts, as a rule the names of columns.
CREATE FUNCTION iblt_field(rows anyarray, field text DEFAULT 'name') RETURNS text[]
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

-- The rows of these names, in their order; NULL for a name that none has.
CREATE FUNCTION iblt_rows_named(rows anyarray, names text[]) RETURNS anyarray
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

-- The columns that slices are ranges of.
CREATE TYPE slice_key AS (
	columns plan_column[],	-- in the order of the indexes
	here unique_key,
	there unique_key,
	problem text			-- why the relations cannot be compared in slices, or NULL
);

-- The rows of given keys on one side.
-- One line a key.  Where lines are the keys that were asked for, in their order, id,
-- key, n and rows_checksum are NULL; otherwise checksum is NULL.  One large value is made
-- while the other side makes its own, and is parsed at once.
CREATE TYPE found_rows AS (
	id text[],				-- hash and key in one word
	key jsonb[],
	n bigint[],				-- rows with this key
	rows_checksum text[],	-- of all rows with this key
	checksum bigint[],		-- of the one row
	mark text[],			-- of their row versions
	content jsonb[],
	columns text[],			-- checksums of the columns outside of the key, if a key has one row,
							-- or lists of texts (lookup_by_key_sql)
	fingerprint text		-- of the relation that they are of
);
