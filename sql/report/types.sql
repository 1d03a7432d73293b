-- Types of reports ------------------------------------------------------------------------

-- What a report has of a table.
CREATE TYPE report_table AS (
	table_number integer,	-- of a run
	name text,				-- here, or else on the peer, on one line
	raw text,				-- as it is
	status text,
	detail text,
	@each audit_counts: % bigint,@
	differences jsonb		-- the first ones of an audit with rows
);

-- What a report is made of.
CREATE TYPE report AS (
	run bigint,				-- NULL for an audit
	name text,				-- that the caller gives the audit, on one line
	verdict text,			-- 'equal', 'differs' or 'unknown'
	tables report_table[],	-- those that differ first, and equal ones last
	structure jsonb,		-- rows of iblt_audit_structure, NULL if it was not compared
	accepted jsonb,			-- rows of the structure, or of "rows", that are meant to be
	unused jsonb,			-- lines of the list of these that are of no use
	here jsonb,				-- what the sides say of themselves (report_side), if it is known
	there jsonb,			-- which they are
	still boolean,			-- was nothing committed on them during the audit?
	state text,				-- of the subscription, unless all is equal
	made timestamptz,
	ended timestamptz		-- when the audit did; NULL for a run that has not
);
