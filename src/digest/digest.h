/*
 * digest.h
 *	  The digest of a tracked table in one snapshot: its base and the changes
 *	  since.
 */
#ifndef IBLT_DIGEST_DIGEST_H
#define IBLT_DIGEST_DIGEST_H

#include "digest/config.h"

#include "utils/timestamp.h"

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
