-- Types of runs ------------------------------------------------------------------------

-- What the caller asks of a run.
CREATE TYPE run_options AS (
	compare options,
	slice_ms integer,
	check_indexes boolean,
	most_kept bigint,		-- differences of a table
	max_load double precision,
	max_rate bigint,
	max_lag text,
	rows text				-- as the caller of iblt_audit_run gives it
);

-- What a session that works on a run knows.
CREATE TYPE run_worker AS (
	run bigint,
	peers text[],			-- of both sides, NULL for this database
	conns text[],			-- to them
	said text,				-- how they are asked, and what they are called (peers_known)
	identities text[],		-- of the databases of both sides, NULL for this one
	target audit_target,	-- of a run that begins
	options run_options,
	progress boolean,
	act text,				-- next: 'begin', 'resume', 'claim', 'work', 'pause' or NULL
	deadline timestamptz,	-- when max_time is over
	tried integer,			-- the last table that it compared together with others
	table_number integer,	-- the table of its slice
	number bigint,			-- its slice
	item audit_item,
	plan plan,
	planned timestamptz,	-- when the plan was made; NULL if it does not hold any more
	shape text[],			-- of the table when the plan was made (run_see)
	uneven boolean,			-- a slice of the table had far more rows than it was cut for
	began timestamptz,		-- when it claimed the slice
	until timestamptz,		-- when its pause ends
	last timestamptz,		-- up to when its time is counted, with pauses
	told timestamptz,		-- when it last said how far it is
	paused text,			-- the reason of its pause, as the views show it
	failures integer,		-- since a slice succeeded
	stuck text				-- where replication was that a slice waited for in vain
);
