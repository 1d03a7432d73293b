/*
 * aggsite.h
 *	  The aggregates over rows (key, checksum or value): iblt_agg,
 *	  iblt_strata_agg and kbf_agg.  A call site turns keys into bytes and
 *	  decides which parameters a group's value has.
 *
 * Arguments that do not vary between rows (capacity, template) are taken from the
 * first row of the group.  Later rows are compared with it, unless the expression
 * shows that it does not depend on the row.  When there was no row, the aggregate
 * must still return a value of the right size and key type.  Then these arguments
 * are found as expressions.
 */
#ifndef IBLT_SKETCH_AGGSITE_H
#define IBLT_SKETCH_AGGSITE_H

#include "sketch/iblt.h"

#include "nodes/primnodes.h"

#include "sketch/page.h"

/* Memory that lives as long as the group.  ERROR outside an aggregate. */
extern MemoryContext iblt_agg_context(FunctionCallInfo fcinfo);

/* Argument n of a function of the aggregate, a state.  NULL at first. */
static inline void *
iblt_agg_state(FunctionCallInfo fcinfo, int n)
{
	return PG_ARGISNULL(n) ? NULL : PG_GETARG_POINTER(n);
}

/* What follows the key and the checksum or value. */
typedef enum IbltThirdArgument
{
	IBLT_THIRD_NONE,
	IBLT_THIRD_CAPACITY,
	IBLT_THIRD_TEMPLATE
} IbltThirdArgument;

typedef struct IbltAggSite IbltAggSite;

/* What distinguishes one of these aggregates. */
typedef struct IbltAggKind
{
	const IbltValueType *type;	/* of its result, with the aggregate's name */
	size_t		site_size;		/* of its sites, which begin with IbltAggSite */
	bool		encodes_values;	/* by a coder */

	/*
	 * Sets the site's parameters to those that the third argument, which is not
	 * NULL, stands for, in CurrentMemoryContext.
	 */
	void		(*take_third) (IbltAggSite *site, Datum value);

	/*
	 * The value of no rows, with the types of the coders, which may be NULL.
	 * Types that are not known match any.
	 */
	struct varlena *(*make_empty) (IbltAggSite *site);

	/* The sealed value of a state, which can still be used. */
	struct varlena *(*make_value) (void *state);

	/*
	 * Adds a value to a state, or subtracts it, and returns the state, which may be
	 * another one in the context.  NULL is a state of nothing.
	 */
	void	   *(*add) (void *state, const void *view, int sign, MemoryContext context);
} IbltAggKind;

/* What a call site of a transition function keeps between rows. */
struct IbltAggSite
{
	const IbltAggKind *kind;
	IbltKeyCoder *coder;
	IbltKeyCoder *value;		/* of the second argument, or NULL */
	Oid			value_type;		/* base type of the second argument */
	IbltThirdArgument third;
	bool		third_is_constant;	/* in all scans */
	bool		third_varies;	/* perhaps, between rows of a group */
	uint64		third_seen;		/* if it varies, a hash of this row's */
	bool		has_params;
	IbltParams	params;			/* untyped, or typed by the template.  Not of
								 * kbf_agg */
	uint64		integer;		/* the last key, if it is an integer */
	IbltPage   *page;			/* where it can take rows itself, or NULL */
};

/* Sets fn_extra up at the first row. */
extern void *iblt_agg_site_make(FunctionCallInfo fcinfo,
								const IbltAggKind *kind);

/* Sets third_seen for a row, so that a state of another third argument is out of step. */
extern void iblt_agg_site_see_third(IbltAggSite *site, FunctionCallInfo fcinfo);

/*
 * Sets the site's parameters to those of the third argument, for the first row of a
 * group.  False for a later row if the argument does not vary.
 */
extern bool iblt_agg_site_take_third(IbltAggSite *site, FunctionCallInfo fcinfo, bool first);

/* ERROR for a row with a NULL key, or else a NULL checksum or value. */
extern void iblt_agg_refuse_null(FunctionCallInfo fcinfo,
								 const IbltAggKind *kind);

/* ERROR for an aggregate whose third argument is NULL. */
extern void iblt_agg_refuse_null_third(const char *name, bool is_template);

/*
 * The final function of an aggregate, and its serialization function: the
 * bytes of the value, or NULL if unknown.  A worker that saw no row evaluates
 * the arguments for the whole aggregate, because the final step can no longer
 * see them.
 */
extern Datum iblt_agg_final_value(FunctionCallInfo fcinfo,
								  const IbltAggKind *kind);
extern Datum iblt_agg_serial_value(FunctionCallInfo fcinfo,
								   const IbltAggKind *kind);

/*
 * The function that opens the value of a state, and the one that adds it to a state.  The
 * server passes to the second one what the first one made of bytes that are still there, so
 * that is a view of them and no state.
 */
extern Datum iblt_agg_deserial_value(FunctionCallInfo fcinfo, const IbltAggKind *kind);
extern Datum iblt_agg_combine_states(FunctionCallInfo fcinfo, const IbltAggKind *kind);

/* The transition function of a sum of values. */
extern Datum iblt_agg_sum(FunctionCallInfo fcinfo, const IbltAggKind *kind, int sign);

/* Says how far the scan below an aggregate is, if that is due (progress.c). */
extern void iblt_progress_say(FunctionCallInfo fcinfo);

/* The call site of a transition function, prepared for this row. */
static inline IbltAggSite *
iblt_agg_site(FunctionCallInfo fcinfo, const IbltAggKind *kind)
{
	IbltAggSite *site = fcinfo->flinfo->fn_extra;

	if (unlikely(PG_ARGISNULL(1) || PG_ARGISNULL(2)))
		iblt_agg_refuse_null(fcinfo, kind);
	if (unlikely(site == NULL))
		site = iblt_agg_site_make(fcinfo, kind);
	if (unlikely(site->third_varies))
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
 * Takes the next row of the page itself, after iblt_page_begin: its key as above, and its
 * checksum as argument 2.  False if the executor is to go on.
 */
static inline bool
iblt_agg_site_next(IbltAggSite *site, FunctionCallInfo fcinfo, const uint8 **key)
{
	const IbltPageRow *row = iblt_page_next(site->page);

	if (row == NULL)
		return false;
	fcinfo->args[2] = *row->checksum;
	PG_ARGISNULL(1) = !row->key_is_row && row->key->isnull;
	if (unlikely(PG_ARGISNULL(1) || PG_ARGISNULL(2)))
		iblt_agg_refuse_null(fcinfo, site->kind);
	if (row->key_is_row)
		iblt_key_encode_columns(site->coder, row->key);
	else
		*key = iblt_agg_site_key(site, row->key->value);
	return true;
}

/*
 * Is a state of this version, which got this key, in step with the site?  If
 * not, the caller makes or checks the state and gives it
 * iblt_agg_site_version.
 */
static inline uint64
iblt_agg_site_version(const IbltAggSite *site)
{
	/* a state that was not checked has 0 */
	return 1 + site->coder->version + (site->value == NULL ? 0 : site->value->version) +
		site->third_seen;
}

static inline bool
iblt_agg_site_in_step(const IbltAggSite *site, const uint8 *key,
					  uint64 version)
{
	return likely(version == iblt_agg_site_version(site)) &&
		likely(key != NULL || !iblt_key_type_changed(site->coder));
}

#endif							/* IBLT_SKETCH_AGGSITE_H */
