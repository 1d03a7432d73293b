/*
 * digest.h
 *	  How a table is tracked, and its digest in one snapshot: its base and the
 *	  changes since.
 */
#ifndef IBLT_DIGEST_DIGEST_H
#define IBLT_DIGEST_DIGEST_H

#include "sketch/iblt.h"

#include "access/attnum.h"
#include "utils/rel.h"
#include "utils/snapshot.h"
#include "utils/timestamp.h"

/* config.c: how a table is tracked, which is its row in iblt_internal.tracked */

/* Changes when what is stored can no longer be read as before. */
#define IBLT_TRACK_VERSION	1

/* What a digest relies on beside rows, as hashes. */
typedef struct IbltShape
{
	uint64		columns;		/* and partitions, each with its columns */
	uint64		triggers;
	uint64		files;			/* where the rows are */
} IbltShape;

typedef struct IbltTrackConfig
{
	Oid			relid;
	int64		generation;		/* random, new with each first scan */
	int32		version;
	int64		system;			/* identifier of the server */
	Oid			database;
	Oid			store;			/* of changes; names can be exchanged */
	int			nkeys;			/* the first columns are keys */
	int2vector *columns;		/* of the tracked table, not of a partition */
	oidvector  *types;			/* of these */
	oidvector  *parts;			/* the table and its partitions, in order */
	Oid			trigger;		/* the row trigger that records changes */
	bool		all_columns;	/* the columns were not asked for by name */
	bool		by_hash;		/* keys are in the sketch as hashes */
	bool		from_peer;
	int32		capacity;
	struct varlena *template;	/* an untyped sketch with the seed */
	IbltShape	shape;
} IbltTrackConfig;

/*
 * Reads a table's configuration into CurrentMemoryContext.  False if it is not
 * tracked in this snapshot, where NULL means one of this moment.
 */
extern bool iblt_config_read(IbltTrackConfig *config, Oid relid,
							 Snapshot snapshot);

/* The OIDs of the tracked tables, or of those that have their changes in a store. */
extern List *iblt_config_tables(Oid store);

/*
 * The parameters of the digest: those of the template, typed.  They and the coder
 * of its keys, which is returned, live in CurrentMemoryContext.  ERROR if the types
 * of the keys do not exist.
 */
extern IbltKeyCoder *iblt_config_params(const IbltTrackConfig *config,
										IbltParams *params);

/* Does a sketch have exactly these?  A template does not. */
extern bool iblt_config_fits(const IbltTrackConfig *config,
							 const IbltParams *params);

/* ERROR, naming both, unless it does. */
extern void iblt_config_require_fit(const IbltTrackConfig *config,
									const IbltParams *params);

/* ERROR unless the caller owns the table. */
extern void iblt_config_require_owner(Oid relid);

/*
 * shape.c: what a digest relies on beside rows is read as of now, under a lock on the table, and not as of
 * a snapshot.
 */

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

/* digest.c */

/* A digest that is not trustworthy.  Class IB belongs to this extension. */
#define ERRCODE_IBLT_NOT_TRUSTWORTHY MAKE_SQLSTATE('I', 'B', '0', '0', '8')

/* The base in one snapshot. */
typedef struct IbltBase
{
	int64		generation;
	Size		bytes;
	TimestampTz verified;		/* 0 if never */
	bool		fits;			/* a sketch as it is configured */
	struct varlena *value;		/* a copy, or NULL if it was not asked for */
	IbltSketch	sketch;			/* if it fits: of value, or its parameters and
								 * rows alone */
} IbltBase;

/* The changes in one snapshot. */
typedef struct IbltChanges
{
	bool		started;		/* the row with which tracking began is there */
	bool		added;			/* the sketch is not what it was */
	int64		number;
	int64		rows;			/* inserted less deleted, unless a sketch has them */
	Size		bytes;
	TimestampTz verified;		/* 0 if not since the base was made */
	const char *broken;			/* why the digest is not trustworthy, or NULL */
	ItemPointerData *merged;	/* the rows that a merge replaces */
	uint64		nmerged;
} IbltChanges;

/* The kinds of rows of a store of changes that a merge replaces. */
#define IBLT_CHANGES_MERGED \
	((char[]) {IBLT_CHANGES_PACKED, IBLT_CHANGES_SKETCH, IBLT_CHANGES_VERIFIED, '\0'})

/* A base has a fold of so many cells beside it, which is enough for few differences. */
#define IBLT_BASE_FOLD_CELLS 720

/* What of a base is read. */
typedef enum IbltBasePart
{
	IBLT_BASE_HEADER, IBLT_BASE_FOLD, IBLT_BASE_WHOLE
} IbltBasePart;

/* The cells of a subtable of the fold of such a digest, or 0 if it has none. */
extern uint32 iblt_base_fold_cells(uint32 subtable_cells);

/* Reads the base, which is all zero if there is none. */
extern void iblt_base_read(IbltBase *base, const IbltTrackConfig *config,
						   Snapshot snapshot, IbltBasePart part);

/*
 * Reads the changes, which a serializable transaction does as if it read the
 * relation (store.h).  In others it can be NULL.  Adds the changes to a sketch
 * unless that is NULL.  The sketch may have fewer cells than the digest.
 */
extern void iblt_changes_read(IbltChanges *changes, Relation relation,
							  const IbltTrackConfig *config, unsigned limbs,
							  Snapshot snapshot, IbltSketch *sketch);

/* Why changes do not give a digest, or NULL. */
extern const char *iblt_changes_problem(const IbltChanges *changes);

#endif							/* IBLT_DIGEST_DIGEST_H */
