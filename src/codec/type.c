/*
 * type.c
 *	  From a type to its codec.
 *
 * A codec is a tree: arrays, ranges and rows hold the codecs of their parts.
 * Row types can be altered or differ from datum to datum, so their columns
 * are looked up again whenever the type cache has a new identifier for them.
 *
 * Limits: if a type's own catalog entry (its send function, say) changes under
 * a running query, the next query is the first to use the change.
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_proc.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "codec/private.h"

/*
 * Built-in types whose send function does not do alone.  The bytes of some hold
 * float8s up to their end, or begin with a count for which the receive function
 * allocates memory before it reads on.
 */
static const struct
{
	Oid			type;
	IbltKind	kind;
	int16		float_offset;
	int16		count_offset;
	int32		min_bits;
}			builtin_kinds[] = {
	{BOOLOID, IBLT_KIND_BYTE, 0, 0, 0},
	{CHAROID, IBLT_KIND_BYTE, 0, 0, 0},
	{INT2OID, IBLT_KIND_INT2, 0, 0, 0},
	{INT4OID, IBLT_KIND_INT4, 0, 0, 0},
	{OIDOID, IBLT_KIND_INT4, 0, 0, 0},
	{XIDOID, IBLT_KIND_INT4, 0, 0, 0},
	{CIDOID, IBLT_KIND_INT4, 0, 0, 0},
	{DATEOID, IBLT_KIND_INT4, 0, 0, 0},
	{INT8OID, IBLT_KIND_INT8, 0, 0, 0},
	{CASHOID, IBLT_KIND_INT8, 0, 0, 0},
	{TIMEOID, IBLT_KIND_INT8, 0, 0, 0},
	{TIMESTAMPOID, IBLT_KIND_INT8, 0, 0, 0},
	{TIMESTAMPTZOID, IBLT_KIND_INT8, 0, 0, 0},
	{LSNOID, IBLT_KIND_INT8, 0, 0, 0},
	{XID8OID, IBLT_KIND_INT8, 0, 0, 0},
	{FLOAT4OID, IBLT_KIND_FLOAT4, 0, 0, 0},
	{FLOAT8OID, IBLT_KIND_FLOAT8, 0, 0, 0},
	{UUIDOID, IBLT_KIND_FIXED, 0, 0, 0},
	{MACADDROID, IBLT_KIND_FIXED, 0, 0, 0},
	{MACADDR8OID, IBLT_KIND_FIXED, 0, 0, 0},
	{BYTEAOID, IBLT_KIND_BYTES, 0, 0, 0},
	{TEXTOID, IBLT_KIND_TEXT, 0, 0, 0},
	{VARCHAROID, IBLT_KIND_TEXT, 0, 0, 0},
	{BPCHAROID, IBLT_KIND_TEXT, 0, 0, 0},
	{JSONOID, IBLT_KIND_TEXT, 0, 0, 0},
	{UNKNOWNOID, IBLT_KIND_CSTRING, 0, 0, 0},
	{NUMERICOID, IBLT_KIND_NUMERIC, 0, 0, 0},
	{POINTOID, IBLT_KIND_FLOATS, 0, 0, 0},
	{LSEGOID, IBLT_KIND_FLOATS, 0, 0, 0},
	{BOXOID, IBLT_KIND_FLOATS, 0, 0, 0},
	{LINEOID, IBLT_KIND_FLOATS, 0, 0, 0},
	{CIRCLEOID, IBLT_KIND_FLOATS, 0, 0, 0},
	{PATHOID, IBLT_KIND_FLOATS, 5, 1, 128},
	{POLYGONOID, IBLT_KIND_FLOATS, 4, 0, 128},
	{BITOID, IBLT_KIND_SEND, 0, 0, 1},
	{VARBITOID, IBLT_KIND_SEND, 0, 0, 1},
	{TSVECTOROID, IBLT_KIND_SEND, 0, 0, 24},
	{TSQUERYOID, IBLT_KIND_SEND, 0, 0, 16},
};

static uint64 generation = 0;

static void
no_bytes_error(Oid type)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("type %s has no canonical bytes",
					format_type_be(type)),
			 errhint("Cast the value to a type that a table column can have.")));
}

/* The columns of a row type, whose identifier is not set yet. */
static IbltRow *
build_row(TupleDesc desc, Oid type, int32 typmod, MemoryContext cxt)
{
	MemoryContext caller = MemoryContextSwitchTo(cxt);
	IbltRow    *row = palloc0(sizeof(IbltRow));
	int			natts = desc->natts;

	row->type = type;
	row->typmod = typmod;
	row->desc = CreateTupleDescCopyConstr(desc);
	row->attributes = palloc(sizeof(int) * Max(natts, 1));
	row->columns = palloc(sizeof(IbltCodec *) * Max(natts, 1));
	row->values = palloc(sizeof(Datum) * Max(natts, 1));
	row->nulls = palloc(sizeof(bool) * Max(natts, 1));
	for (int i = 0; i < natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(row->desc, i);

		if (att->attisdropped)
			continue;
		row->attributes[row->ncolumns] = i;
		row->columns[row->ncolumns++] = iblt_codec_build(att->atttypid,
														 att->atttypmod, cxt);
	}
	MemoryContextSwitchTo(caller);
	return row;
}

/*
 * Gives the codec the columns of a row type.  A worker that has not seen a
 * record type yet gets a new identifier from each call until it looks the type
 * up.  So the identifier is read after the lookup.  It is read right after it,
 * because the lookup of a column's type can bring the news that another
 * session altered the row type.
 */
IbltRow *
iblt_codec_follow(IbltCodec *codec, Oid type, int32 typmod)
{
	uint64		identifier = assign_record_type_identifier(type, typmod);
	MemoryContext row_cxt;
	IbltRow    *row;
	TupleDesc	desc;

	if (likely(codec->row != NULL && codec->row->type == type &&
			   codec->row->typmod == typmod &&
			   codec->row->identifier == identifier))
		return codec->row;

	row_cxt = AllocSetContextCreate(codec->cxt, "iblt row codec",
									ALLOCSET_SMALL_SIZES);
	desc = lookup_rowtype_tupdesc(type, typmod);
	identifier = assign_record_type_identifier(type, typmod);
	row = build_row(desc, type, typmod, row_cxt);
	ReleaseTupleDesc(desc);
	row->identifier = identifier;

	codec->row = NULL;
	if (codec->row_cxt)
		MemoryContextDelete(codec->row_cxt);
	codec->row_cxt = row_cxt;
	codec->row = row;
	generation++;
	return row;
}

/* The codec's own columns as they are now, or NULL if not known. */
IbltRow *
iblt_codec_own_row(IbltCodec *codec)
{
	if (codec->kind != IBLT_KIND_ROW)
		return NULL;
	if (codec->base != RECORDOID)
		return iblt_codec_follow(codec, codec->base, -1);
	if (codec->typmod >= 0)
		return iblt_codec_follow(codec, RECORDOID, codec->typmod);
	return codec->row;
}

/* Is a function hstore_send of the extension, whatever schema it is in? */
static bool
is_hstore_send(Oid function)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	bool		isnull;
	Datum		library;
	bool		result = false;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", function);
	library = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_probin, &isnull);
	if (!isnull && strstr(TextDatumGetCString(library), "hstore") != NULL)
	{
		Datum		symbol = SysCacheGetAttr(PROCOID, tuple,
											 Anum_pg_proc_prosrc, &isnull);

		result = !isnull &&
			strcmp(TextDatumGetCString(symbol), "hstore_send") == 0;
	}
	ReleaseSysCache(tuple);
	return result;
}

/*
 * A base type.  The send function writes the values of types without a kind of
 * their own, or else the output function.
 */
static void
build_base(IbltCodec *codec, Form_pg_type form)
{
	bool		raw = iblt_text_is_raw();
	bool		is_reg = codec->base < FirstNormalObjectId &&
		strncmp(NameStr(form->typname), "reg", 3) == 0;
	bool		sent = OidIsValid(form->typsend) && !is_reg;
	Oid			write = sent ? form->typsend : form->typoutput;
	Oid			read = sent ? form->typreceive : form->typinput;

	codec->kind = sent ? IBLT_KIND_SEND : IBLT_KIND_OUTPUT;
	codec->names_only = is_reg;
	codec->ioparam = OidIsValid(form->typelem) ? form->typelem : codec->base;
	for (int i = 0; i < (int) lengthof(builtin_kinds); i++)
	{
		if (builtin_kinds[i].type != codec->base)
			continue;
		codec->kind = builtin_kinds[i].kind;
		codec->float_offset = builtin_kinds[i].float_offset;
		codec->count_offset = builtin_kinds[i].count_offset;
		codec->min_bits = builtin_kinds[i].min_bits;
	}
	if (form->typtype == TYPTYPE_PSEUDO && codec->base != UNKNOWNOID)
		no_bytes_error(codec->base);
	/* regproc and regoper show overloaded functions as if they were one */
	if (codec->base == REGPROCOID)
	{
		write = F_REGPROCEDUREOUT;
		read = F_REGPROCEDUREIN;
	}
	else if (codec->base == REGOPEROID)
	{
		write = F_REGOPERATOROUT;
		read = F_REGOPERATORIN;
	}
	fmgr_info_cxt(write, &codec->write, codec->cxt);
	if (OidIsValid(read))
		fmgr_info_cxt(read, &codec->read, codec->cxt);
	if (codec->kind == IBLT_KIND_TEXT && raw)
		codec->kind = IBLT_KIND_BYTES;
	if (codec->kind != IBLT_KIND_SEND)
		return;
	/* what the send function alone would get wrong */
	if (codec->write.fn_addr == byteasend && codec->typlen == -1)
		codec->kind = IBLT_KIND_BYTES;
	else if (codec->write.fn_addr == textsend && codec->typlen == -1)
		codec->kind = raw ? IBLT_KIND_BYTES : IBLT_KIND_TEXT;
	else if (codec->base == JSONBOID && !raw)
		codec->kind = IBLT_KIND_JSONB;
	else if (codec->base == TSVECTOROID && !raw)
		codec->kind = IBLT_KIND_TSVECTOR;
	else if (codec->base >= FirstNormalObjectId && !raw &&
			 is_hstore_send(codec->write.fn_oid))
		codec->kind = IBLT_KIND_HSTORE;
}

/* An array, a range or a multirange, whose values are made of those of a part. */
static void
build_container(IbltCodec *codec, Oid part)
{
	TypeCacheEntry *entry;

	codec->kind = IBLT_KIND_ARRAY;
	if (type_is_range(codec->base))
	{
		codec->kind = IBLT_KIND_RANGE;
		codec->range = lookup_type_cache(codec->base, TYPECACHE_RANGE_INFO);
	}
	else if (type_is_multirange(codec->base))
	{
		codec->kind = IBLT_KIND_MULTIRANGE;
		entry = lookup_type_cache(codec->base, TYPECACHE_MULTIRANGE_INFO);
		codec->range = entry->rngtype;
	}
	if (codec->kind != IBLT_KIND_ARRAY &&
		(codec->range == NULL || codec->range->rngelemtype == NULL))
		elog(ERROR, "type %u is not a range type", codec->base);
	codec->element = iblt_codec_build(part, codec->kind == IBLT_KIND_ARRAY ? codec->typmod : -1,
									  codec->cxt);
	codec->exact = codec->element->exact;
}

bool
iblt_type_form(Oid type, bool missing_ok, FormData_pg_type *form)
{
	HeapTuple	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));

	if (HeapTupleIsValid(tuple))
	{
		*form = *(Form_pg_type) GETSTRUCT(tuple);
		ReleaseSysCache(tuple);
		return true;
	}
	if (!missing_ok)
		elog(ERROR, "cache lookup failed for type %u", type);
	return false;
}

IbltCodec *
iblt_codec_build(Oid type, int32 typmod, MemoryContext cxt)
{
	IbltCodec  *codec = MemoryContextAllocZero(cxt, sizeof(IbltCodec));
	FormData_pg_type form;
	Oid			part;

	check_stack_depth();
	codec->cxt = cxt;
	codec->type = type;
	codec->typmod = typmod;
	codec->base = getBaseTypeAndTypmod(type, &codec->typmod);
	(void) iblt_type_form(codec->base, false, &form);
	if (!form.typisdefined)
		no_bytes_error(codec->base);
	codec->typlen = form.typlen;
	codec->typbyval = form.typbyval;
	codec->typalign = form.typalign;
	part = iblt_codec_type_part(codec->base);
	if (OidIsValid(part))
		build_container(codec, part);
	else if (codec->base == RECORDOID || form.typtype == TYPTYPE_COMPOSITE)
	{
		codec->kind = IBLT_KIND_ROW;
		(void) iblt_codec_own_row(codec);
	}
	else if (form.typtype == TYPTYPE_ENUM)
		codec->kind = IBLT_KIND_ENUM;
	else
	{
		build_base(codec, &form);
		codec->exact = codec->kind != IBLT_KIND_OUTPUT && codec->base != XMLOID;
	}
	return codec;
}

int32
iblt_codec_row_typmod(int ncolumns, const Oid *types, const int32 *typmods)
{
	TupleDesc	desc = CreateTemplateTupleDesc(ncolumns);

	for (int i = 0; i < ncolumns; i++)
		TupleDescInitEntry(desc, (AttrNumber) (i + 1), psprintf("f%d", i + 1),
						   types[i] == UNKNOWNOID ? TEXTOID : types[i],
						   typmods == NULL ? -1 : typmods[i], 0);
	return BlessTupleDesc(desc)->tdtypmod;
}

IbltCodec *
iblt_codec_for_columns(int ncolumns, const Oid *types, MemoryContext cxt)
{
	if (ncolumns < 0 || ncolumns > IBLT_MAX_COLUMNS)
		ereport(ERROR,
				(errcode(ERRCODE_TOO_MANY_COLUMNS),
				 errmsg("a row can have at most %d columns", IBLT_MAX_COLUMNS)));
	return iblt_codec_build(RECORDOID, iblt_codec_row_typmod(ncolumns, types, NULL), cxt);
}

Oid
iblt_codec_type(IbltCodec *codec)
{
	return codec->type;
}

Oid
iblt_codec_type_part(Oid type)
{
	Oid			part = get_element_type(type);

	if (!OidIsValid(part) && type_is_range(type))
		part = get_range_subtype(type);
	if (!OidIsValid(part) && type_is_multirange(type))
		part = get_multirange_range(type);
	return part;
}

uint64
iblt_codec_generation(void)
{
	return generation;
}

bool
iblt_codec_is_row(IbltCodec *codec)
{
	return codec->kind == IBLT_KIND_ROW;
}

/*
 * The bytes of an enum value are its label, those of a reg* value are a name, and
 * those of a row depend on its type's columns.  All of these can be altered while
 * the stored value stays the same.  What another type without a send function
 * prints may name other objects, as an aclitem does.  A send function of text
 * depends on the client's encoding, which the codec pins.
 */
bool
iblt_codec_type_is_immutable(Oid type)
{
	Oid			part = type;
	IbltCodec  *codec;

	for (; OidIsValid(part); part = iblt_codec_type_part(type))
		type = getBaseType(part);
	if (get_typtype(type) != TYPTYPE_BASE)
		return type == UNKNOWNOID;	/* a literal is text */
	codec = iblt_codec_build(type, -1, CurrentMemoryContext);
	if (codec->kind == IBLT_KIND_SEND || codec->kind == IBLT_KIND_HSTORE)
		return type < FirstNormalObjectId ||
			func_volatile(codec->write.fn_oid) == PROVOLATILE_IMMUTABLE;
	return codec->kind != IBLT_KIND_OUTPUT;
}

char *
iblt_codec_type_name(Oid type)
{
	Oid			element;
	FormData_pg_type form;

	type = getBaseType(type);
	if (type == VARCHAROID || type == UNKNOWNOID)
		type = TEXTOID;
	element = get_element_type(type);
	if (OidIsValid(element))
		return psprintf("%s[]", iblt_codec_type_name(element));
	(void) iblt_type_form(type, false, &form);
	return pstrdup(NameStr(form.typname));
}
