-- Types of questions -----------------------------------------------------------------------

-- How a place answers a question: by a function of read.sql, with these parameters.
CREATE TYPE reading AS (
	reader text,			-- NULL: a statement that reads no relation
	keys text[],
	lo text[],
	hi text[],
	described described[]	-- of all places
);
