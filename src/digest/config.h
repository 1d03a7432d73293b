/*-------------------------------------------------------------------------
 *
 * config.h
 *	  How a table is tracked: its row in iblt_internal.tracked.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_DIGEST_CONFIG_H
#define IBLT_DIGEST_CONFIG_H

#include "sketch/key.h"

#include "access/attnum.h"
#include "nodes/pg_list.h"
#include "utils/snapshot.h"

/* Changes when what is stored can no longer be read as before. */
#define IBLT_TRACK_VERSION	1

/* What a digest relies on, as hashes (shape.h). */
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
	int			nkeys;
	AttrNumber *keys;			/* of the tracked table, not of a partition */
	int			ncolumns;
	AttrNumber *columns;
	Oid		   *types;			/* of the keys, then of the columns */
	int			nparts;
	Oid		   *parts;			/* the table and its partitions, in order */
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

/* Inserts a configuration. */
extern void iblt_config_write(const IbltTrackConfig *config);

/* The store of changes that the fewest tables use.  InvalidOid if there is none. */
extern Oid iblt_config_choose_store(void);

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

#endif							/* IBLT_DIGEST_CONFIG_H */
