/*-------------------------------------------------------------------------
 *
 * kbf_site.h
 *	  The call sites of kbf_agg.  A call site turns keys into bytes and values
 *	  into numbers, and decides which parameters a group's filter has.
 *
 * This is to kbf_agg what aggsite.h is to the aggregates over rows (key,
 * checksum).  The capacity or template must not vary between the rows of a
 * group.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_KBF_KBF_SITE_H
#define IBLT_KBF_KBF_SITE_H

#include "kbf/kbf_private.h"

#include "catalog/pg_type.h"

#define IBLT_KBF_CACHED_LABELS	64	/* a power of 2 */

/* What a call site of the transition function keeps between rows. */
typedef struct IbltKbfSite
{
	IbltKeyCoder *coder;
	Oid			value_type;		/* base type of the values */
	IbltKbfValueKind value_kind;
	bool		has_template;	/* and not a capacity */
	bool		third_is_constant;
	bool		has_params;
	MemoryContext third;		/* of the third argument last seen */
	int32		capacity;		/* last seen */
	struct varlena *template;	/* last seen, a copy */
	IbltKbfParams params;		/* untyped, or typed by the template */
	uint64		version;		/* rises when params change */
	uint64	   *codes[IBLT_GF_MAX_DEGREE + 1][IBLT_GF_MAX_TERMS + 1];
	struct
	{
		Oid			label;		/* a value of an enum type, or 0 */
		unsigned	value;
	}			cache[IBLT_KBF_CACHED_LABELS];	/* of these params */
} IbltKbfSite;

/* Sets fn_extra up at the first row. */
extern IbltKbfSite *iblt_kbf_site_make(FunctionCallInfo fcinfo);

/* Updates the site's parameters from this row's third argument. */
extern void iblt_kbf_site_see_third(IbltKbfSite *site,
									FunctionCallInfo fcinfo);

/* The value, 1 to params.values, of this row.  ERROR if there is none. */
extern unsigned iblt_kbf_site_value(IbltKbfSite *site, Datum value);

/* The codes for the site's parameters, which live as long as the site. */
extern const uint64 *iblt_kbf_site_codes(IbltKbfSite *site,
										 FunctionCallInfo fcinfo);

/* The parameters of a group without rows. */
extern void iblt_kbf_empty_params(IbltKbfParams *params,
								  FunctionCallInfo fcinfo);

/*
 * The same for a worker that saw no row, in the serialization function.  False
 * if the arguments are not known, or if the aggregate does not have them.
 */
extern bool iblt_kbf_partial_params(IbltKbfParams *params,
									FunctionCallInfo fcinfo);

/* The call site of the transition function, prepared for this row. */
static inline IbltKbfSite *
iblt_kbf_site(FunctionCallInfo fcinfo)
{
	IbltKbfSite *site = fcinfo->flinfo->fn_extra;

	if (unlikely(PG_ARGISNULL(1)))
		iblt_kbf_refuse_null_key();
	if (unlikely(PG_ARGISNULL(2)))
		iblt_kbf_refuse_null_value();
	if (unlikely(site == NULL))
		site = iblt_kbf_site_make(fcinfo);
	if (unlikely(!site->has_params || !site->third_is_constant))
		iblt_kbf_site_see_third(site, fcinfo);
	return site;
}

/* What a state must have seen to be in step with the site. */
static inline uint64
iblt_kbf_site_version(const IbltKbfSite *site)
{
	return site->version + site->coder->version;
}

#endif							/* IBLT_KBF_KBF_SITE_H */
