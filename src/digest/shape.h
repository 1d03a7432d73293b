/*-------------------------------------------------------------------------
 *
 * shape.h
 *	  What a live digest relies on beside rows: columns, types, partitions,
 *	  triggers, and the files that hold the rows.
 *
 * All is read as of now, under a lock on the table, and not as of a snapshot.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_DIGEST_SHAPE_H
#define IBLT_DIGEST_SHAPE_H

#include "digest/config.h"

#include "nodes/pg_list.h"
#include "utils/rel.h"

/* The table and its partitions, locked, in the order of their OIDs. */
extern List *iblt_shape_tree(Relation relation);

/* Is it a table or a partitioned table? */
extern bool iblt_shape_is_table(Relation relation);

/*
 * Its row trigger that records changes, which is not a partition's copy of
 * another table's.  InvalidOid if there is none.
 */
extern Oid	iblt_shape_own_trigger(Relation relation);

/*
 * The trigger that a partition's trigger is a copy of, or that trigger itself,
 * and its table.  InvalidOid if it does not exist.
 */
extern Oid	iblt_shape_root_trigger(Oid trigger, Oid *relid);

/*
 * Sets all hashes.  The columns of config must exist.  Returns the reason why
 * such a table cannot be tracked, or NULL.
 */
extern const char *iblt_shape_take(Relation relation,
								   const IbltTrackConfig *config,
								   IbltShape *shape);

/* Why a table is not as it was when config was written, or NULL. */
extern const char *iblt_shape_problem(Relation relation,
									  const IbltTrackConfig *config);

#endif							/* IBLT_DIGEST_SHAPE_H */
