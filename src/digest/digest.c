/*
 * digest.c
 *	  The digest of a tracked table in one snapshot: its parts, as a sketch, its
 *	  state, and what a scan has shown of it.
 *
 * In any snapshot iblt_live is the sketch that iblt_agg gives over the table, byte
 * for byte: the base, the changes that the snapshot sees, and those that this
 * transaction still has in memory.
 */
#include "digest/digest.h"

#include "access/detoast.h"
#include "access/relation.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/predicate.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

#include "core/sizing.h"
#include "digest/pending.h"
#include "digest/store.h"
#include "relation/relation.h"

static const char unreadable[] = "a change in its store cannot be read";

uint32
iblt_base_fold_cells(uint32 subtable_cells)
{
	uint32		cells = iblt_core_fold_cells(subtable_cells, IBLT_BASE_FOLD_CELLS);

	return cells < subtable_cells ? cells : 0;
}

/* Is it the digest's sketch, or that part of it? */
static bool
base_fits(const IbltTrackConfig *config, IbltParams params, IbltBasePart part)
{
	if (part == IBLT_BASE_FOLD)
	{
		IbltSketch	template;

		iblt_value_open(&iblt_type, &template, PointerGetDatum(config->template));
		if (params.subtable_cells != iblt_base_fold_cells(template.params.subtable_cells))
			return false;
		params.subtable_cells = template.params.subtable_cells;
	}
	return iblt_config_fits(config, &params);
}

/* The size of a column, 0 if it is null. */
static Size
column_size(Datum value)
{
	return value == 0 ? 0 : toast_raw_datum_size(value);
}

void
iblt_base_read(IbltBase *base, const IbltTrackConfig *config,
			   Snapshot snapshot, IbltBasePart part)
{
	IbltStoreScan scan;
	IbltStatus	status = IBLT_BAD_SIZE;
	Datum		stored = 0;

	memset(base, 0, sizeof *base);
	if (!iblt_store_begin(&scan, iblt_store_base(), config->relid, snapshot,
						  AccessShareLock))
		return;
	if (iblt_store_next(&scan) != NULL)
	{
		/* a column that is null has the value 0 */
		base->generation = DatumGetInt64(scan.values[BASE_GENERATION]);
		base->verified = DatumGetTimestampTz(scan.values[BASE_VERIFIED]);
		stored = scan.values[part == IBLT_BASE_FOLD ? BASE_FOLD : BASE_SKETCH];
	}
	if (stored != 0)
	{
		base->bytes = column_size(scan.values[BASE_SKETCH]) + column_size(scan.values[BASE_FOLD]);
		if (part != IBLT_BASE_HEADER)
		{
			base->value = pg_detoast_datum_copy((struct varlena *) DatumGetPointer(stored));
			status = iblt_core_open(&base->sketch, (uint8 *) VARDATA(base->value),
									VARSIZE(base->value) - VARHDRSZ);
		}
		else
		{
			IbltSlices	slices;
			Size		size;
			uint8	   *bytes = iblt_slices_open(&slices, stored, iblt_core_header_size,
												 &size);

			status = iblt_core_open_header(&base->sketch, bytes, size, slices.size);
		}
	}
	base->fits = status == IBLT_OK && base_fits(config, base->sketch.params, part);
	iblt_store_end(&scan);
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
		changes->bytes += column_size(scan.values[CHANGE_SKETCH]);
		read_change(changes, config, &applier, scan.values);
		if (strchr(IBLT_CHANGES_MERGED, DatumGetChar(scan.values[CHANGE_KIND])) == NULL)
			continue;
		/* where their number is a power of two, there is no room for another one */
		if (changes->nmerged == 0)
			changes->merged = palloc(sizeof(ItemPointerData));
		else if ((changes->nmerged & (changes->nmerged - 1)) == 0)
			changes->merged = repalloc_huge(changes->merged,
											2 * changes->nmerged * sizeof(ItemPointerData));
		changes->merged[changes->nmerged++] = tuple->t_self;
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

/*
 * Why a base and changes do not give the digest of a table, or NULL.  A change of the table
 * explains a base that does not fit.
 */
static const char *
digest_problem(Relation relation, const IbltTrackConfig *config,
			   const IbltBase *base, const IbltChanges *changes)
{
	const char *problem = NULL;

	if (config->version != IBLT_TRACK_VERSION)
		return "another version of iblt made it";
	if ((uint64) config->system != GetSystemIdentifier() ||
		config->database != MyDatabaseId)
		return "this is a copy of the database that made it";
	if (base->generation != config->generation)
		return "its first scan has not been finished";
	problem = iblt_changes_problem(changes);
	if (problem == NULL)
		problem = iblt_shape_problem(relation, config);
	return problem == NULL && !base->fits
		? "its base is damaged, or not a sketch of these keys" : problem;
}

/* The name of a table with its schema, quoted. */
static const char *
full_name(Relation relation)
{
	return quote_qualified_identifier(get_namespace_name(RelationGetNamespace(relation)),
									  RelationGetRelationName(relation));
}

/* The error for a digest that is not trustworthy. */
pg_noreturn static void
refuse(Relation relation, const char *reason, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_IBLT_NOT_TRUSTWORTHY),
			 errmsg("digest of table \"%s\" is not trustworthy, because %s",
					RelationGetRelationName(relation), reason),
			 hint != NULL ? errhint("%s", hint)
			 : errhint("CALL iblt_live_rebuild('%s');", full_name(relation))));
}

/*
 * Opens the table, and has the rows of its tree count as read.  ERROR if rows may have been
 * changed whose triggers have not fired yet.  They fire at the end of the statement that
 * changes the rows.  So there can be such rows only if this transaction has locked a table for
 * writing, and a trigger or a query that uses this table has not ended.
 */
static Relation
open_table(FunctionCallInfo fcinfo)
{
	bool		in_trigger = DatumGetInt32(DirectFunctionCall1(pg_trigger_depth,
															   (Datum) 0)) > 0;
	Relation	relation;
	ListCell   *lc;

	iblt_require_arg(fcinfo, 0, "relation", NULL);
	relation = try_relation_open(PG_GETARG_OID(0), AccessShareLock);
	if (relation == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", PG_GETARG_OID(0))));
	/* a digest tells about all rows and all tracked columns */
	iblt_require_readable(relation, NIL);
	foreach(lc, iblt_shape_is_table(relation) ? iblt_shape_tree(relation) : NIL)
	{
		Relation	part = relation_open(lfirst_oid(lc), NoLock);
		int			own = lfirst_oid(lc) == RelationGetRelid(relation) ? 1 : 0;

		PredicateLockRelation(part, GetActiveSnapshot());
		if (CheckRelationLockedByMe(part, RowExclusiveLock, true) &&
			(in_trigger || part->rd_refcnt > 1 + own))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("digest of table \"%s\" cannot be read while a statement may be changing it",
							RelationGetRelationName(part)),
					 errhint("Read the digest in a statement of its own, outside of triggers.")));
		relation_close(part, NoLock);
	}
	return relation;
}

/* The table's configuration.  ERROR if it is not tracked. */
static void
require_config(IbltTrackConfig *config, Relation relation)
{
	if (iblt_config_read(config, RelationGetRelid(relation),
						 GetActiveSnapshot()))
		return;
	if (OidIsValid(iblt_shape_own_trigger(relation)))
		refuse(relation, "this database has no record of it",
			   psprintf("CALL iblt_track('%s'), with the options that it had.", full_name(relation)));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("table \"%s\" is not tracked",
					RelationGetRelationName(relation)),
			 errhint("CALL iblt_track('%s');", full_name(relation))));
}

/*
 * The digest of the table in argument 0, folded to that many cells a subtable, or 0 for
 * all, and further to the capacity in argument 1, if there is one.
 */
static struct varlena *
live_value(FunctionCallInfo fcinfo, int32 cells, double failure)
{
	Relation	relation = open_table(fcinfo);
	Snapshot	snapshot = GetActiveSnapshot();
	IbltTrackConfig config;
	IbltBase	base;
	IbltChanges changes;
	IbltParams	params;
	IbltSketch	sketch;
	struct varlena *value;
	const char *problem;
	uint32		fold;

	require_config(&config, relation);
	iblt_value_open(&iblt_type, &sketch, PointerGetDatum(config.template));
	params = sketch.params;
	fold = iblt_base_fold_cells(params.subtable_cells);
	if (cells != 0)
	{
		iblt_require_fold(&params, cells);
		params.subtable_cells = (uint32) cells;
	}
	if (!PG_ARGISNULL(1))
	{
		uint32		least = iblt_params_fold_cells(&params, PG_GETARG_INT32(1), failure);
		uint32		of_fold = fold == 0 || cells == 0 ? 0 : iblt_core_fold_cells(fold, least);

		/* among our own, a few cells more are cheaper than the whole base */
		params.subtable_cells = of_fold != 0 && params.subtable_cells % of_fold == 0 ? of_fold : least;
	}
	iblt_base_read(&base, &config, snapshot, fold != 0 && fold % params.subtable_cells == 0
				   ? IBLT_BASE_FOLD : IBLT_BASE_WHOLE);
	sketch = base.sketch;
	value = base.value;
	if (base.fits && params.subtable_cells != base.sketch.params.subtable_cells)
		value = iblt_make_fold(&sketch, &base.sketch, params.subtable_cells, params.subtables);
	iblt_changes_read(&changes, relation, &config, base.fits ? sketch.params.key.limbs : 0,
					  snapshot, base.fits ? &sketch : NULL);
	problem = digest_problem(relation, &config, &base, &changes);
	if (problem == NULL)
		problem = iblt_pending_apply(config.relid, snapshot, &sketch,
									 &changes.added);
	if (problem != NULL)
		refuse(relation, problem, NULL);
	/* a base as it was stored is sealed */
	if (changes.added || value != base.value)
		iblt_core_seal(&sketch);
	iblt_launch_saw(changes.number);
	relation_close(relation, NoLock);
	return value;
}

/* iblt_live(relation regclass, capacity integer) -> iblt */
IBLT_FUNCTION(iblt_live, PointerGetDatum(live_value(fcinfo, 0, IBLT_DEFAULT_FAILURE)))

/* iblt_live_fold(relation regclass, capacity integer, subtable_cells integer, failure) -> iblt */
IBLT_FUNCTION(iblt_live_fold, PointerGetDatum(live_value(fcinfo, PG_ARGISNULL(2) ? 0
														 : PG_GETARG_INT32(2),
														 PG_ARGISNULL(3) ? IBLT_DEFAULT_FAILURE
														 : PG_GETARG_FLOAT8(3))))

PG_FUNCTION_INFO_V1(iblt_live_base);

/*
 * iblt_live_base(regclass, iblt) -> iblt: a sketch of the table less the
 * changes that this snapshot sees.  The sketch of a scan in the same statement
 * gives a base.
 */
Datum
iblt_live_base(PG_FUNCTION_ARGS)
{
	Relation	relation = open_table(fcinfo);
	IbltTrackConfig config;
	IbltChanges changes;
	IbltSketch	scanned;
	IbltSketch	sum;
	IbltSketch	base;
	const char *problem;

	require_config(&config, relation);
	iblt_value_open_arg(&iblt_type, &scanned, fcinfo, 1);
	iblt_config_require_fit(&config, &scanned.params);
	iblt_make(&sum, &scanned.params);
	iblt_changes_read(&changes, relation, &config, sum.params.key.limbs,
					  GetActiveSnapshot(), &sum);
	problem = iblt_changes_problem(&changes);
	/* the scan may have read a partition or child that is gone again later */
	if (problem == NULL)
		problem = iblt_shape_problem(relation, &config);
	if (problem != NULL)
		refuse(relation, problem, NULL);
	relation_close(relation, NoLock);
	PG_RETURN_POINTER(iblt_combine(&base, &scanned, &sum, -1));
}

/* iblt_live_tables() -> oid[]: the tracked tables */
IBLT_FUNCTION(iblt_live_tables, ((void) fcinfo, iblt_value_oids(iblt_config_tables(InvalidOid))))

PG_FUNCTION_INFO_V1(iblt_live_state);

/*
 * iblt_live_state(oid) -> record: the state of a tracked table.  NULL if it is
 * not tracked, has been dropped, or must not be read.
 */
Datum
iblt_live_state(PG_FUNCTION_ARGS)
{
	Relation	relation = try_relation_open(PG_GETARG_OID(0), AccessShareLock);
	Snapshot	snapshot = GetActiveSnapshot();
	IbltRow		row = {0};
	IbltTrackConfig config;
	IbltBase	base;
	IbltChanges changes;
	int64		store_bytes;

	if (relation == NULL)
		PG_RETURN_NULL();
	if (!iblt_is_readable(PG_GETARG_OID(0), NIL) ||
		!iblt_config_read(&config, PG_GETARG_OID(0), snapshot))
	{
		relation_close(relation, AccessShareLock);
		PG_RETURN_NULL();
	}
	iblt_base_read(&base, &config, snapshot, IBLT_BASE_HEADER);
	iblt_changes_read(&changes, relation, &config, base.fits ? base.sketch.params.key.limbs : 0,
					  snapshot, NULL);
	iblt_store_file(config.store, &store_bytes);
	base.verified = Max(base.verified, changes.verified);
	iblt_column_text(&row, digest_problem(relation, &config, &base, &changes));
	iblt_column(&row, Int64GetDatum(base.sketch.rows + changes.rows), !base.fits);
	iblt_column(&row, Int64GetDatum(changes.number), false);
	iblt_column(&row, Int64GetDatum((int64) (base.bytes + changes.bytes)), false);
	iblt_column(&row, TimestampTzGetDatum(base.verified), base.verified == 0);
	iblt_column(&row, Int64GetDatum(store_bytes), false);
	relation_close(relation, AccessShareLock);
	return iblt_value_row(fcinfo, &row);
}

PG_FUNCTION_INFO_V1(iblt_live_note_scan);

/*
 * iblt_live_note_scan(regclass, equal boolean, at timestamptz) -> void: notes
 * that a scan has found the same digest, or another one.
 */
Datum
iblt_live_note_scan(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	TimestampTz at = PG_GETARG_TIMESTAMPTZ(2);
	IbltTrackConfig config;

	iblt_config_require_owner(relid);
	if (!iblt_config_read(&config, relid, NULL))
		PG_RETURN_VOID();
	if (PG_GETARG_BOOL(1))
		iblt_store_insert_bytes(config.store, relid,
								IBLT_CHANGES_VERIFIED, &at, sizeof at);
	else
		iblt_store_insert_change(config.store, relid,
								 IBLT_CHANGES_BROKEN, 0,
								 CStringGetTextDatum("a scan has found other rows"),
								 (Datum) 0);
	PG_RETURN_VOID();
}
