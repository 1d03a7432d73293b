/*-------------------------------------------------------------------------
 *
 * kbf_site.h
 *	  The call sites of kbf_agg (sketch/aggsite.h), which also turn values into
 *	  numbers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_KBF_KBF_SITE_H
#define IBLT_KBF_KBF_SITE_H

#include "kbf/kbf_private.h"

#include "sketch/aggsite.h"

#define IBLT_KBF_CACHED_LABELS	64	/* a power of 2 */

/* What a call site of the transition function keeps between rows. */
typedef struct IbltKbfSite
{
	IbltAggSite base;
	IbltKbfValueKind value_kind;
	IbltKbfParams params;		/* untyped, or typed by the template */
	uint64	   *codes[IBLT_GF_MAX_DEGREE + 1][IBLT_GF_MAX_TERMS + 1];
	struct
	{
		Oid			label;		/* a value of an enum type, or 0 */
		unsigned	value;
	}			cache[IBLT_KBF_CACHED_LABELS];	/* of these params */
} IbltKbfSite;

extern const IbltAggKind iblt_kbf_kind;

/* The value, 1 to params.values, of this row.  ERROR if there is none. */
extern unsigned iblt_kbf_site_value(IbltKbfSite *site, Datum value);

/* The codes for the site's parameters, which live as long as the site. */
extern const uint64 *iblt_kbf_site_codes(IbltKbfSite *site,
										 FunctionCallInfo fcinfo);

/* kbf_agg.c: make_value of the kind. */
extern struct varlena *iblt_kbf_state_value(void *state);

/* The call site of the transition function, prepared for this row. */
static inline IbltKbfSite *
iblt_kbf_site(FunctionCallInfo fcinfo)
{
	if (unlikely(PG_ARGISNULL(1)))
		iblt_kbf_refuse_null_key();
	if (unlikely(PG_ARGISNULL(2)))
		iblt_kbf_refuse_null_value();
	return (IbltKbfSite *) iblt_agg_site(fcinfo, &iblt_kbf_kind);
}

#endif							/* IBLT_KBF_KBF_SITE_H */
