/*-------------------------------------------------------------------------
 *
 * aggsite.h
 *	  The call sites of the aggregates over rows (key, checksum), iblt_agg and
 *	  iblt_strata_agg.  A call site turns keys into bytes and decides which
 *	  parameters a group's sketch has.
 *
 * Arguments that do not vary between rows (capacity, template) are taken from
 * the first row of the group.  Later rows are checked against it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_SKETCH_AGGSITE_H
#define IBLT_SKETCH_AGGSITE_H

#include "sketch/iblt.h"

#include "catalog/pg_type.h"

#include "sketch/key.h"

/* What follows the key and the checksum or value. */
typedef enum IbltThirdArgument
{
	IBLT_THIRD_NONE,
	IBLT_THIRD_CAPACITY,
	IBLT_THIRD_TEMPLATE
} IbltThirdArgument;

/* What a call site of a transition function keeps between rows. */
typedef struct IbltAggSite
{
	bool		is_strata;		/* of iblt_strata_agg, not iblt_agg */
	IbltKeyCoder *coder;
	IbltKeyCoder *value;		/* of the second argument */
	IbltThirdArgument third;
	bool		third_is_constant;
	bool		bigint;			/* is the second argument */
	bool		has_params;
	int32		capacity;		/* last seen */
	struct varlena *template;	/* last seen, a copy */
	IbltParams	params;			/* untyped, or typed by the template */
	uint64		version;		/* rises when params change */
	uint64		integer;		/* the last key, if it is an integer */
} IbltAggSite;

/* Sets fn_extra up at the first row. */
extern IbltAggSite *iblt_agg_site_make(FunctionCallInfo fcinfo,
									   bool is_strata);

/* Updates the site's parameters from this row's third argument. */
extern void iblt_agg_site_see_third(IbltAggSite *site,
									FunctionCallInfo fcinfo);

/* ERROR for a row with a NULL key, or else a NULL checksum or value. */
extern void iblt_agg_refuse_null(FunctionCallInfo fcinfo,
								 bool is_strata);

/*
 * Gives a template the types of the key and value last encoded, or checks
 * them.
 */
extern void iblt_agg_site_set_types(IbltAggSite *site, IbltParams *params);

/*
 * ERROR for a key that is a column but may be meant as a row.  With a constant
 * checksum or value, nothing else would tell rows apart.
 */
extern void iblt_agg_check_ambiguous_key(FunctionCallInfo fcinfo);

/*
 * A coder of argument n, counted from 0, when there was no row.  NULL if it
 * needs one, or the type is not known.
 */
extern IbltKeyCoder *iblt_agg_coder_without_row(FunctionCallInfo fcinfo, int n,
												Oid type);

/* ERROR for an aggregate whose third argument is NULL, or depends on a row. */
extern void iblt_agg_refuse_null_third(const char *name, bool is_template);
extern void iblt_agg_refuse_no_rows(const char *name);

/* The parameters of a group without rows. */
extern void iblt_agg_empty_params(IbltParams *params,
								  FunctionCallInfo fcinfo,
								  bool is_strata);

/*
 * The same for a worker that saw no row, in the serialization function.  The
 * worker evaluates the arguments for the whole aggregate, because the final
 * step can no longer see them.  False if they are not known, or if the
 * aggregate does not have them.
 */
extern bool iblt_agg_partial_params(IbltParams *params,
									FunctionCallInfo fcinfo,
									bool is_strata);

/* The call site of a transition function, prepared for this row. */
static inline IbltAggSite *
iblt_agg_site(FunctionCallInfo fcinfo, bool is_strata)
{
	IbltAggSite *site = fcinfo->flinfo->fn_extra;

	if (unlikely(PG_ARGISNULL(1) || PG_ARGISNULL(2)))
		iblt_agg_refuse_null(fcinfo, is_strata);
	if (unlikely(site == NULL))
		site = iblt_agg_site_make(fcinfo, is_strata);
	if (unlikely(!site->has_params || !site->third_is_constant))
		iblt_agg_site_see_third(site, fcinfo);
	return site;
}

/*
 * The eight bytes of an integer key.  NULL for any other key, which is then in
 * the coder.  Common integers are encoded without a call.
 */
static inline const uint8 *
iblt_agg_site_key(IbltAggSite *site, Datum key)
{
	int64		integer;

	if (iblt_key_integer(site->coder->type, key, &integer))
	{
		iblt_store64((uint8 *) &site->integer, (uint64) integer);
		return (uint8 *) &site->integer;
	}
	iblt_key_encode(site->coder, key);
	return NULL;
}

/*
 * Is a state of this version, which got this key, in step with the site?  If
 * not, the caller makes or checks the state and gives it
 * iblt_agg_site_version.
 */
static inline uint64
iblt_agg_site_version(const IbltAggSite *site)
{
	return site->version + site->coder->version;
}

static inline bool
iblt_agg_site_in_step(const IbltAggSite *site, const uint8 *key,
					  uint64 version)
{
	return likely(version == iblt_agg_site_version(site)) &&
		likely(key != NULL || !iblt_key_type_changed(site->coder));
}

#endif							/* IBLT_SKETCH_AGGSITE_H */
