/*-------------------------------------------------------------------------
 *
 * digest.c
 *	  The digest of a tracked table in one snapshot.
 *
 *-------------------------------------------------------------------------
 */
#include "digest/digest.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/predicate.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "sketch/slice.h"
#include "digest/collection.h"
#include "digest/packed.h"
#include "digest/store.h"

const char iblt_base_damaged[] = "its base is damaged, or not a sketch of these keys";

static const char unreadable[] = "a change in its store cannot be read";

bool
iblt_base_read(IbltBase *base, const IbltTrackConfig *config,
			   Snapshot snapshot, bool with_value)
{
	IbltStoreScan scan;
	IbltStatus	status = IBLT_BAD_SIZE;
	bool		found;

	memset(base, 0, sizeof *base);
	if (!iblt_store_begin(&scan, iblt_store_base(), config->relid, snapshot,
						  AccessShareLock))
		return false;
	found = iblt_store_next(&scan) != NULL;
	if (found)
	{
		base->generation = DatumGetInt64(scan.values[BASE_GENERATION]);
		base->verified = DatumGetTimestampTz(scan.values[BASE_VERIFIED]);
	}
	if (found && memchr(scan.nulls, true, BASE_WIDTH) == NULL)
	{
		Datum		stored = scan.values[BASE_SKETCH];

		base->bytes = toast_raw_datum_size(stored);
		if (with_value)
		{
			base->value = pg_detoast_datum_copy((struct varlena *) DatumGetPointer(stored));
			status = iblt_core_open(&base->sketch, (uint8 *) VARDATA(base->value),
									VARSIZE(base->value) - VARHDRSZ);
		}
		else
		{
			IbltSlices	slices;
			const uint8 *bytes;
			Size		size;

			iblt_slices_open(&slices, stored);
			bytes = iblt_slices_header(&slices, iblt_core_header_size, &size);
			status = iblt_core_open_header(&base->sketch, unconstify(uint8 *, bytes), size,
										   slices.size);
		}
	}
	base->fits = status == IBLT_OK && iblt_config_fits(config, &base->sketch.params);
	iblt_store_end(&scan);
	return found;
}

/*
 * A sketch of changes: adds it, or takes its number of rows if sketch is NULL.
 * False if it is damaged, or not one of this digest.
 */
static bool
read_sketch(IbltSketch *sketch, int64 *rows, const IbltTrackConfig *config,
			Datum value)
{
	struct varlena *copy = pg_detoast_datum_packed((struct varlena *)
												   DatumGetPointer(value));
	IbltSketch	changes;
	bool		passed;

	passed = iblt_core_open(&changes, (uint8 *) VARDATA_ANY(copy),
							VARSIZE_ANY_EXHDR(copy)) == IBLT_OK &&
		iblt_config_fits(config, &changes.params);
	if (passed && sketch == NULL)
		*rows += changes.rows;
	else if (passed)
		passed = iblt_collection_add_sketch(sketch, &changes);
	if ((Pointer) copy != DatumGetPointer(value))
		pfree(copy);
	return passed;
}

/* One row of the store. */
static void
read_change(IbltChanges *changes, const IbltTrackConfig *config,
			IbltApplier *applier, const Datum *values)
{
	struct varlena *bytes = NULL;
	int64		number;

	if (values[CHANGE_BYTES] != 0)
		bytes = pg_detoast_datum_packed((struct varlena *) DatumGetPointer(values[CHANGE_BYTES]));
	switch (DatumGetChar(values[CHANGE_KIND]))
	{
		case IBLT_CHANGES_START:
			memcpy(&number, VARDATA_ANY(bytes), sizeof number);
			changes->started |= number == config->generation;
			return;
		case IBLT_CHANGES_FENCE:
		case IBLT_CHANGES_BROKEN:
			changes->broken = text_to_cstring((text *) bytes);
			return;
		case IBLT_CHANGES_VERIFIED:
			memcpy(&number, VARDATA_ANY(bytes), sizeof number);
			changes->verified = Max(changes->verified, number);
			return;
		case IBLT_CHANGES_PACKED:
			/* the size of keys is not known before there is a base */
			number = applier->limbs == 0 ? 0
				: iblt_applier_add(applier, (uint8 *) VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
			if (number < 0)
				changes->broken = unreadable;
			else
				changes->number += number;
			break;
		case IBLT_CHANGES_SKETCH:
			if (!read_sketch(applier->sketch, &changes->rows, config, values[CHANGE_SKETCH]))
				changes->broken = unreadable;
			break;
		default:
			changes->broken = unreadable;
			return;
	}
	changes->added |= applier->sketch != NULL;
	changes->number += DatumGetInt32(values[CHANGE_NUMBER]);
}

void
iblt_changes_read(IbltChanges *changes, Relation relation,
				  const IbltTrackConfig *config, unsigned limbs,
				  Snapshot snapshot, IbltSketch *sketch)
{
	IbltStoreScan scan;
	IbltApplier applier;
	HeapTuple	tuple;

	memset(changes, 0, sizeof *changes);
	if (!iblt_store_begin(&scan, config->store,
						  config->relid, snapshot, AccessShareLock))
		return;
	if (relation != NULL)
		PredicateLockRelation(relation, snapshot);
	scan.reads = relation;
	iblt_applier_begin(&applier, sketch, limbs);
	while ((tuple = iblt_store_next(&scan)) != NULL)
	{
		/* a fence stands for changes that this transaction has in memory */
		if (DatumGetChar(scan.values[CHANGE_KIND]) == IBLT_CHANGES_FENCE &&
			TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data)))
			continue;
		changes->bytes += tuple->t_len;
		if (scan.values[CHANGE_SKETCH] != 0)
			changes->bytes += toast_raw_datum_size(scan.values[CHANGE_SKETCH]);
		read_change(changes, config, &applier, scan.values);
	}
	iblt_applier_end(&applier);
	changes->rows += applier.rows;
	iblt_store_end(&scan);
}

const char *
iblt_changes_problem(const IbltChanges *changes)
{
	if (changes->broken != NULL)
		return changes->broken;
	return changes->started ? NULL : "its changes were removed from the store";
}

const char *
iblt_digest_problem(const IbltTrackConfig *config, const IbltBase *base)
{
	if (config->version != IBLT_TRACK_VERSION)
		return "another version of iblt made it";
	if ((uint64) config->system != GetSystemIdentifier() ||
		config->database != MyDatabaseId)
		return "this is a copy of the database that made it";
	if (base == NULL || base->generation != config->generation)
		return "its first scan has not been finished";
	return NULL;
}

void
iblt_digest_refuse(Relation relation, const char *reason)
{
	ereport(ERROR,
			(errcode(ERRCODE_IBLT_NOT_TRUSTWORTHY),
			 errmsg("digest of table \"%s\" is not trustworthy, because %s",
					RelationGetRelationName(relation), reason),
			 errhint("CALL iblt_live_rebuild('%s');",
					 quote_qualified_identifier(get_namespace_name(RelationGetNamespace(relation)),
												RelationGetRelationName(relation)))));
}
