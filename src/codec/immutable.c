/*-------------------------------------------------------------------------
 *
 * immutable.c
 *	  Types whose values always have the same canonical bytes.
 *
 * The bytes of an enum value are its label, those of a reg* value are a name,
 * and those of a row depend on its type's columns.  All of these can be
 * altered while the stored value stays the same.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "codec/codec.h"

/*
 * Does a send function depend on nothing but the value?  Those of text depend
 * on the client's encoding, which the codec pins.
 */
static bool
send_is_immutable(Oid function)
{
	FmgrInfo	send;

	if (func_volatile(function) == PROVOLATILE_IMMUTABLE)
		return true;
	fmgr_info(function, &send);
	return send.fn_addr == textsend || send.fn_addr == byteasend;
}

/*
 * The same for a base type, see iblt_codec_build_by_functions.  What another
 * type without a send function prints may name other objects, as an aclitem
 * does.
 */
static bool
base_is_immutable(Oid type)
{
	HeapTuple	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	Form_pg_type form;
	bool		result;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for type %u", type);
	form = (Form_pg_type) GETSTRUCT(tuple);
	if (form->typtype != TYPTYPE_BASE || !OidIsValid(form->typsend))
		result = false;
	else if (type < FirstNormalObjectId)
		result = strncmp(NameStr(form->typname), "reg", 3) != 0;
	else
		result = send_is_immutable(form->typsend);
	ReleaseSysCache(tuple);
	return result;
}

bool
iblt_codec_type_is_immutable(Oid type)
{
	Oid			part;

	check_stack_depth();
	type = getBaseType(type);
	part = iblt_codec_type_part(type);
	if (OidIsValid(part))
		return iblt_codec_type_is_immutable(part);
	/* a literal is text */
	return type == UNKNOWNOID || base_is_immutable(type);
}

char *
iblt_codec_type_name(Oid type)
{
	Oid			element;
	HeapTuple	tuple;
	char	   *name;

	type = getBaseType(type);
	if (type == VARCHAROID || type == UNKNOWNOID)
		type = TEXTOID;
	element = get_element_type(type);
	if (OidIsValid(element))
		return psprintf("%s[]", iblt_codec_type_name(element));
	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for type %u", type);
	name = pstrdup(NameStr(((Form_pg_type) GETSTRUCT(tuple))->typname));
	ReleaseSysCache(tuple);
	return name;
}
