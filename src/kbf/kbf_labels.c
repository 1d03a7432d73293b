/*
 * kbf_labels.c
 *	  Values of a kbf as SQL values: integers from 1, or labels as text or as
 *	  values of an enum type.
 *
 * Labels are kept in UTF-8 in the header, so a filter means the same in every
 * database.  An enum type is not named there, only its labels are.
 */
#include "kbf/kbf_private.h"

#include "access/genam.h"
#include "access/table.h"
#include "catalog/pg_enum.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "parser/parse_coerce.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#define MAX_LABEL_SIZE	255

/* The value with this label, in UTF-8, or 0. */
static unsigned
find_label(const IbltKbfParams *params, const char *label)
{
	return iblt_core_kbf_labelled(params, (const uint8 *) label,
								  strlen(label));
}

static char *
to_utf8(const char *text)
{
	return pg_server_to_any(text, strlen(text), PG_UTF8);
}

/* ERROR for a label that cannot be one. */
static void
refuse_label(const char *label, const char *reason)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("\"%s\" cannot be a label of a kbf", label),
			 errdetail("%s", reason)));
}

/*
 * Adds a label in the encoding of the database.  bytes has those that params has
 * so far.
 */
static void
add_label(IbltKbfParams *params, StringInfo bytes, const char *label)
{
	char	   *utf8 = to_utf8(label);
	size_t		size = strlen(utf8);

	CHECK_FOR_INTERRUPTS();
	if (params->values >= gf_values(IBLT_GF_MAX_DEGREE))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("kbf can have at most %u labels",
						gf_values(IBLT_GF_MAX_DEGREE))));
	if (size == 0 || size > MAX_LABEL_SIZE)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("label of a kbf cannot have %zu bytes", size),
				 errdetail("A label has 1 to %d bytes in UTF-8.",
						   MAX_LABEL_SIZE)));
	if (!iblt_core_is_plain_utf8((uint8 *) utf8, size))
		refuse_label(label, "A label is valid text without control characters.");
	if (find_label(params, utf8) != 0)
		refuse_label(label, "Labels must be different.");
	appendStringInfoChar(bytes, (char) size);
	appendBinaryStringInfo(bytes, utf8, size);
	params->values++;
	params->labels = (uint8 *) bytes->data;
	params->labels_size = bytes->len;
}

/* Begins with no labels. */
static void
begin_labels(IbltKbfParams *params, StringInfo bytes)
{
	initStringInfo(bytes);
	params->values = 0;
	params->labels = (uint8 *) bytes->data;
	params->labels_size = 0;
}

static void
require_labels(const IbltKbfParams *params)
{
	if (params->values == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("labels of a kbf must not be empty"),
				 errhint("Name at least one label, or leave labels out to have values 1 to distinct_values.")));
}

/* The labels of an array, those that are there already left out if known. */
static void
add_array(IbltKbfParams *params, StringInfo bytes, Datum array, bool skip_known)
{
	Datum	   *elements;
	bool	   *nulls;
	int			n = iblt_array_take(array, &elements, &nulls);
	int			i;

	if (ARR_NDIM(DatumGetArrayTypeP(array)) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("labels of a kbf must be an array of one dimension")));
	for (i = 0; i < n; i++)
	{
		char	   *label;

		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("label of a kbf must not be null")));
		label = TextDatumGetCString(elements[i]);
		if (!skip_known || find_label(params, to_utf8(label)) == 0)
			add_label(params, bytes, label);
	}
}

void
iblt_kbf_labels_from_array(IbltKbfParams *params, Datum array)
{
	StringInfoData bytes;

	begin_labels(params, &bytes);
	add_array(params, &bytes, array, false);
	require_labels(params);
}

/* ERROR if the codes of a filter cannot tell so many values apart. */
static void
check_room(const IbltKbfParams *params)
{
	if (params->values > gf_values(params->degree))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("kbf has room for %u labels",
						gf_values(params->degree)),
				 errdetail("With these it would have %u.", params->values),
				 errhint("Build the filter again from a template with all labels: kbf_new(capacity, labels => ...).")));
}

void
iblt_kbf_labels_append(IbltKbfParams *params, Datum array)
{
	StringInfoData bytes;

	if (params->labels_size == 0)
		iblt_kbf_refuse_unlabelled(params);
	initStringInfo(&bytes);
	appendBinaryStringInfo(&bytes, (const char *) params->labels,
						   params->labels_size);
	add_array(params, &bytes, array, true);
	check_room(params);
}

/* The labels of an enum type, in its order. */
static void
add_enum(IbltKbfParams *params, StringInfo bytes, Oid type)
{
	Relation	catalog = table_open(EnumRelationId, AccessShareLock);
	Relation	index = index_open(EnumTypIdSortOrderIndexId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_enum_enumtypid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(type));
	scan = systable_beginscan_ordered(catalog, index, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext_ordered(scan,
															 ForwardScanDirection)))
		add_label(params, bytes, NameStr(((Form_pg_enum) GETSTRUCT(tuple))->enumlabel));
	systable_endscan_ordered(scan);
	index_close(index, AccessShareLock);
	table_close(catalog, AccessShareLock);
}

void
iblt_kbf_labels_from_enum(IbltKbfParams *params, Oid type)
{
	StringInfoData bytes;

	begin_labels(params, &bytes);
	add_enum(params, &bytes, type);
	require_labels(params);
}

void
iblt_kbf_labels_follow(IbltKbfParams *params, Oid type)
{
	IbltKbfParams grown = *params;
	StringInfoData bytes;

	if (params->labels_size == 0)
		return;
	begin_labels(&grown, &bytes);
	add_enum(&grown, &bytes, type);
	if (grown.values <= params->values ||
		!iblt_core_kbf_labels_go(params, &grown))
		return;
	check_room(&grown);
	*params = grown;
}

Datum
iblt_kbf_label_datum(const IbltKbfParams *params, unsigned value)
{
	size_t		size;
	const uint8 *label = iblt_core_kbf_label(params, value, &size);
	char	   *text = pnstrdup((const char *) label, size);

	return CStringGetTextDatum(pg_any_to_server(text, (int) size, PG_UTF8));
}

Datum
iblt_kbf_labels_datum(const IbltKbfParams *params)
{
	Datum	   *labels = palloc(params->values * sizeof(Datum));
	unsigned	value;

	for (value = 1; value <= params->values; value++)
		labels[value - 1] = iblt_kbf_label_datum(params, value);
	return iblt_array_make(labels, NULL, (int) params->values, TEXTOID);
}

IbltKbfValueKind
iblt_kbf_value_kind(Oid type)
{
	if (type == INT4OID || type == INT2OID || type == INT8OID)
		return IBLT_KBF_INTEGER;
	if (OidIsValid(type) && TypeCategory(type) == TYPCATEGORY_STRING)
		return IBLT_KBF_TEXT;
	if (type_is_enum(type))
		return IBLT_KBF_ENUM;
	ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
			 errmsg("value of a kbf cannot be of type %s",
					OidIsValid(type) ? format_type_be(type) : "unknown"),
			 errhint("Use an integer, or a label as text or as a value of an enum type.")));
	return IBLT_KBF_INTEGER;
}

/* The label that a value of a string or enum type is, without padding. */
static char *
label_text(Oid type, Datum value)
{
	Oid			output;
	bool		is_varlena;
	char	   *label;

	if (type == TEXTOID || type == VARCHAROID)
		return TextDatumGetCString(value);
	getTypeOutputInfo(type, &output, &is_varlena);
	label = OidOutputFunctionCall(output, value);
	if (type == BPCHAROID)
		label[bpchartruelen(label, strlen(label))] = '\0';
	return label;
}

bool
iblt_kbf_has_value(const IbltKbfParams *params, Oid type, Datum value)
{
	return find_label(params, to_utf8(label_text(type, value))) != 0;
}

void
iblt_kbf_refuse_unlabelled(const IbltKbfParams *params)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("kbf has no labels"),
			 errdetail("Its values are the integers 1 to %u.", params->values),
			 errhint("Create the filter with labels: kbf_new(capacity, labels => ...).")));
}

unsigned
iblt_kbf_value(const IbltKbfParams *params, Oid type, Datum value)
{
	int64		integer;
	char	   *label;
	unsigned	found;

	(void) iblt_kbf_value_kind(type);
	if (iblt_key_integer(type, value, &integer))
	{
		if (integer < 1 || integer > (int64) params->values)
			ereport(ERROR,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg("value " INT64_FORMAT " is out of range for the kbf",
							integer),
					 errdetail("Its values are 1 to %u.", params->values),
					 errhint("Number the values from 1, or create the filter with more distinct_values.")));
		return (unsigned) integer;
	}
	if (params->labels_size == 0)
		iblt_kbf_refuse_unlabelled(params);
	label = label_text(type, value);
	found = find_label(params, to_utf8(label));
	if (found == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("kbf has no label \"%s\"", label),
				 errhint("See its labels in kbf_info. To have more of them, use kbf_add_labels.")));
	return found;
}
