/*-------------------------------------------------------------------------
 *
 * function.c
 *	  Codecs of base types that have no kind of their own.  The type's send
 *	  function writes their values, or else its output function.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/syscache.h"

#include "codec/private.h"

/*
 * Built-in types whose bytes hold float8s up to their end, or begin with a
 * count for which the receive function allocates memory before it reads on.
 */
static const struct
{
	Oid			type;
	int16		float_offset;
	int16		count_offset;
	int32		min_bits;
}			sent_layouts[] = {
	{POINTOID, 0, 0, 0},
	{LSEGOID, 0, 0, 0},
	{BOXOID, 0, 0, 0},
	{LINEOID, 0, 0, 0},
	{CIRCLEOID, 0, 0, 0},
	{PATHOID, 5, 1, 128},
	{POLYGONOID, 4, 0, 128},
	{BITOID, -1, 0, 1},
	{VARBITOID, -1, 0, 1},
	{TSVECTOROID, -1, 0, 24},
	{TSQUERYOID, -1, 0, 16},
};

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
 * Corrects what the send function alone would get wrong, and what could fool
 * the receive function.
 */
static void
refine_sent_kind(IbltCodec *codec)
{
	bool		raw = iblt_text_is_raw();

	codec->float_offset = -1;
	for (int i = 0; i < (int) lengthof(sent_layouts); i++)
	{
		if (sent_layouts[i].type != codec->base)
			continue;
		codec->float_offset = sent_layouts[i].float_offset;
		codec->count_offset = sent_layouts[i].count_offset;
		codec->min_bits = sent_layouts[i].min_bits;
	}
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
	codec->exact = codec->base != XMLOID;
}

void
iblt_codec_build_by_functions(IbltCodec *codec, Form_pg_type form)
{
	bool		is_reg = codec->base < FirstNormalObjectId &&
		strncmp(NameStr(form->typname), "reg", 3) == 0;
	Oid			output = form->typoutput;
	Oid			input = form->typinput;

	codec->ioparam = OidIsValid(form->typelem) ? form->typelem : codec->base;
	if (OidIsValid(form->typsend) && !is_reg)
	{
		codec->kind = IBLT_KIND_SEND;
		fmgr_info_cxt(form->typsend, &codec->write, codec->cxt);
		if (OidIsValid(form->typreceive))
			fmgr_info_cxt(form->typreceive, &codec->read, codec->cxt);
		refine_sent_kind(codec);
		return;
	}
	codec->kind = IBLT_KIND_OUTPUT;
	codec->names_only = is_reg;
	if (codec->base == REGPROCOID)
	{
		/* regproc and regoper show overloaded functions as if they were one */
		output = F_REGPROCEDUREOUT;
		input = F_REGPROCEDUREIN;
	}
	else if (codec->base == REGOPEROID)
	{
		output = F_REGOPERATOROUT;
		input = F_REGOPERATORIN;
	}
	fmgr_info_cxt(output, &codec->write, codec->cxt);
	fmgr_info_cxt(input, &codec->read, codec->cxt);
}
