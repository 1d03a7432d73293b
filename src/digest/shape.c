/*
 * shape.c
 *	  What a live digest relies on beside rows.
 *
 * A statement such as ALTER TABLE changes what rows contain without firing a
 * row trigger, and it can disable the triggers.  So hashes of the catalogs are
 * kept with the digest, and each reader compares them.
 *
 * A rewritten table may have other rows.  ALTER TABLE ... USING changes them,
 * and a table that was unlogged for a while can have lost them in a crash.  A
 * catalog may also be changed and changed back, and rows recorded meanwhile.
 * So the hashes have versions of rows of the catalogs, and not just contents.
 */
#include "digest/digest.h"

#include "access/table.h"
#include "catalog/pg_enum.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "parser/parse_func.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "relation/relation.h"

/* Adds a number to a hash, in order. */
static uint64
mix(uint64 hash, uint64 number)
{
	return hash_bytes_extended((const unsigned char *) &number, sizeof number,
							   hash);
}

List *
iblt_shape_tree(Relation relation)
{
	List	   *tree;

	if (relation->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
		return list_make1_oid(RelationGetRelid(relation));
	tree = find_all_inheritors(RelationGetRelid(relation), AccessShareLock,
							   NULL);
	list_sort(tree, list_oid_cmp);
	return tree;
}

bool
iblt_shape_is_table(Relation relation)
{
	return relation->rd_rel->relkind == RELKIND_RELATION ||
		relation->rd_rel->relkind == RELKIND_PARTITIONED_TABLE;
}

Oid
iblt_shape_root_trigger(Oid trigger, Oid *relid)
{
	for (;;)
	{
		List	   *rows = iblt_catalog_rows(TriggerRelationId, TriggerOidIndexId,
											 Anum_pg_trigger_oid, trigger, NULL);
		Form_pg_trigger form;

		if (rows == NIL)
			return InvalidOid;
		form = (Form_pg_trigger) GETSTRUCT((HeapTuple) linitial(rows));
		*relid = form->tgrelid;
		if (!OidIsValid(form->tgparentid))
			return trigger;
		trigger = form->tgparentid;
	}
}

/* The function of row triggers, or of triggers for TRUNCATE.  May be invalid. */
static Oid
trigger_function(char *name)
{
	return LookupFuncName(list_make2(makeString("iblt_internal"), makeString(name)),
						  0, NULL, true);
}

Oid
iblt_shape_own_trigger(Relation relation)
{
	TriggerDesc *triggers = relation->trigdesc;
	Oid			row = trigger_function("iblt_track_row");
	Oid			relid;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		Oid			trigger = triggers->triggers[i].tgoid;

		if (triggers->triggers[i].tgfoid == row &&
			iblt_shape_root_trigger(trigger, &relid) == trigger)
			return trigger;
	}
	return InvalidOid;
}

/* A function, with its version and its schema. */
static uint64
hash_function(Oid function)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	uint64		hash;

	if (!HeapTupleIsValid(tuple))
		return 0;
	hash = mix(mix(function, HeapTupleHeaderGetRawXmin(tuple->t_data)),
			   ((Form_pg_proc) GETSTRUCT(tuple))->pronamespace);
	ReleaseSysCache(tuple);
	return hash;
}

/* What the bytes of a type's values depend on. */
static uint64
hash_type(Oid type, const char **problem)
{
	Oid			base = getBaseType(type);
	Oid			part = iblt_codec_type_part(base);
	uint64		hash = mix(0, base);
	uint64		sum = 0;
	HeapTuple	tuple;
	FormData_pg_type form;
	TupleDesc	desc;
	ListCell   *lc;

	check_stack_depth();
	if (OidIsValid(part))
		return mix(hash, hash_type(part, problem));
	if (base < FirstNormalObjectId && get_typtype(base) == TYPTYPE_BASE &&
		!iblt_codec_type_is_immutable(base))
		*problem = "values of a column are names of objects, which can be renamed";
	if (base < FirstNormalObjectId && get_typtype(base) != TYPTYPE_COMPOSITE)
		return hash;
	switch (get_typtype(base))
	{
		case TYPTYPE_ENUM:
			/* the labels with their versions, in any order */
			foreach(lc, iblt_catalog_rows(EnumRelationId, EnumTypIdLabelIndexId,
										  Anum_pg_enum_enumtypid, base, NULL))
			{
				tuple = lfirst(lc);
				sum += mix(((Form_pg_enum) GETSTRUCT(tuple))->oid,
						   HeapTupleHeaderGetRawXmin(tuple->t_data));
			}
			return mix(hash, sum);
		case TYPTYPE_COMPOSITE:
			desc = lookup_rowtype_tupdesc(base, -1);
			sum = mix(base, desc->natts);	/* dropped ones remain */
			for (int i = 0; i < desc->natts; i++)
			{
				Form_pg_attribute att = TupleDescAttr(desc, i);

				if (!att->attisdropped)
					sum = mix(mix(sum, att->attnum), hash_type(att->atttypid, problem));
			}
			ReleaseTupleDesc(desc);
			return mix(hash, sum);
		default:
			/* the function that writes values of a base type */
			if (!iblt_type_form(base, true, &form))
				return mix(hash, 0);
			return mix(hash, hash_function(OidIsValid(form.typsend) ? form.typsend : form.typoutput));
	}
}

/* One column, which the tracked table has under this number. */
static uint64
hash_column(uint64 hash, Relation root, Relation relation, AttrNumber number,
			const char **problem)
{
	Form_pg_attribute att = NULL;

	if (number >= 1 && number <= RelationGetDescr(root)->natts)
		att = TupleDescAttr(RelationGetDescr(root), number - 1);
	if (att == NULL || att->attisdropped)
	{
		*problem = "one of its columns was dropped";
		return hash;
	}
	if (relation != root)
	{
		number = get_attnum(RelationGetRelid(relation), NameStr(att->attname));
		if (number == 0)
		{
			*problem = "a partition lacks a column";
			return hash;
		}
		att = TupleDescAttr(RelationGetDescr(relation), number - 1);
	}
	if (att->attgenerated == ATTRIBUTE_GENERATED_VIRTUAL)
		*problem = "it has a virtual generated column";
	hash = mix(mix(hash, number), att->attgenerated);
	return mix(hash, hash_type(att->atttypid, problem));
}

/*
 * The triggers that record changes for this digest, with the versions of their rows.  A
 * partition may be tracked itself, and several of the tables that it is a partition of.
 */
static uint64
hash_triggers(uint64 hash, Oid relid, const IbltTrackConfig *config, Oid row,
			  Oid truncate)
{
	ListCell   *lc;
	Oid			root;

	foreach(lc, iblt_catalog_rows(TriggerRelationId, TriggerRelidNameIndexId,
								  Anum_pg_trigger_tgrelid, relid, NULL))
	{
		HeapTuple	tuple = lfirst(lc);
		Form_pg_trigger form = (Form_pg_trigger) GETSTRUCT(tuple);

		if (form->tgfoid == truncate ? form->tgrelid != config->relid
			: form->tgfoid != row ||
			(form->oid != config->trigger && form->tgparentid != config->trigger &&
			 iblt_shape_root_trigger(form->oid, &root) != config->trigger))
			continue;
		hash = mix(mix(hash, form->oid), form->tgenabled);
		hash = mix(hash, HeapTupleHeaderGetRawXmin(tuple->t_data));
	}
	return mix(hash, relid);
}

/* Why a table or partition of this kind cannot be tracked, or NULL. */
static const char *
kind_problem(Relation relation)
{
	Form_pg_class form = relation->rd_rel;

	if (form->relkind != RELKIND_RELATION &&
		form->relkind != RELKIND_PARTITIONED_TABLE)
		return form->relkind == RELKIND_FOREIGN_TABLE
			? "foreign tables have no row triggers that see all changes"
			: "it is not a table";
	if (form->relpersistence != RELPERSISTENCE_PERMANENT)
		return form->relpersistence == RELPERSISTENCE_TEMP
			? "it is a temporary table" : "it is an unlogged table";
	if (form->relkind == RELKIND_RELATION && form->relhassubclass &&
		find_inheritance_children(RelationGetRelid(relation), NoLock) != NIL)
		return "other tables inherit from it";
	return NULL;
}

const char *
iblt_shape_take(Relation relation, const IbltTrackConfig *config,
				IbltShape *shape)
{
	const char *problem = kind_problem(relation);
	Oid			row = trigger_function("iblt_track_row");
	Oid			truncate = trigger_function("iblt_track_truncate");
	ListCell   *lc;

	memset(shape, 0, sizeof *shape);
	if (problem != NULL)
		return problem;
	shape->triggers = mix(hash_function(row), hash_function(truncate));
	foreach(lc, iblt_shape_tree(relation))
	{
		Oid			relid = lfirst_oid(lc);
		Relation	part = table_open(relid, AccessShareLock);
		const char *kind = kind_problem(part);
		int			live = 0;

		if (kind != NULL)
			problem = kind;
		shape->columns = mix(shape->columns, relid);
		for (int i = 0; i < config->columns->dim1; i++)
			shape->columns = hash_column(shape->columns, relation, part,
										 config->columns->values[i], &problem);
		for (int i = 0; i < RelationGetDescr(part)->natts; i++)
			live += !TupleDescAttr(RelationGetDescr(part), i)->attisdropped;
		shape->columns = mix(shape->columns, config->all_columns ? live : 0);
		shape->triggers = hash_triggers(shape->triggers, relid, config, row,
										truncate);
		shape->files = mix(shape->files, iblt_file_number(part));
		table_close(part, NoLock);
	}
	return problem;
}

const char *
iblt_shape_problem(Relation relation, const IbltTrackConfig *config)
{
	const IbltShape *then = &config->shape;
	IbltShape	now;
	const char *problem = iblt_shape_take(relation, config, &now);

	if (problem != NULL)
		return problem;
	if (now.columns != then->columns)
		return relation->rd_rel->relkind == RELKIND_PARTITIONED_TABLE
			? "its columns, their types or its partitions have changed"
			: "its columns or their types have changed";
	if (now.triggers != then->triggers)
		return "its triggers have changed, or were disabled";
	if (now.files != then->files)
		return "it was rewritten, by TRUNCATE, ALTER TABLE, VACUUM FULL, REPACK or the like";
	return NULL;
}
