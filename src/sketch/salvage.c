/*
 * salvage.c
 *	  iblt_salvage and iblt_salvage_keys: what is left of a damaged sketch.
 *
 * These take bytes, because the validator lets no damaged value become one of
 * type iblt.  Nor does anything here, unless its own checksum proves that every
 * byte is what it was.  Keys that are listed without this proof come with a
 * WARNING.
 */
#include "sketch/iblt.h"

#include "utils/memutils.h"

#include "core/sums.h"

/* A damaged sketch, and what was made of it. */
typedef struct Salvage
{
	IbltSketch	damaged;		/* only its header is valid */
	IbltSketch	other;			/* of nearly the same rows */
	bool		has_other;
	unsigned	group;			/* subtables that agree, as a mask */
	IbltSketch	left;			/* the difference of these from the other's */
	IbltSketch	whole;			/* put together again */
	struct varlena *value;		/* of whole */
	bool		proven;			/* whole is what it was */
	IbltPeelResult result;		/* of left */
	uint32		recovered;		/* keys */
} Salvage;

/* ERROR for a value of which nothing can be said. */
static void
refuse(const char *detail, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("iblt cannot be salvaged"),
			 errdetail("%s", detail),
			 errhint("%s", hint)));
}

/* Opens the header of argument 0, and the other sketch, argument 2. */
static void
open_args(Salvage *salvage, FunctionCallInfo fcinfo)
{
	bytea	   *bytes;

	iblt_require_arg(fcinfo, 0, "bytes", NULL);
	bytes = PG_GETARG_BYTEA_PP(0);
	/* the view is not used to write */
	iblt_value_check(&iblt_type,
					 iblt_core_open_header(&salvage->damaged, (uint8 *) VARDATA_ANY(bytes),
										   VARSIZE_ANY_EXHDR(bytes), VARSIZE_ANY_EXHDR(bytes)));
	if (salvage->damaged.ncells == 0)
		refuse("It is a template, which has no rows.",
			   "Make another one with iblt_new.");
	salvage->has_other = !PG_ARGISNULL(2);
	if (!salvage->has_other)
		return;
	iblt_value_open_arg(&iblt_type, &salvage->other, fcinfo, 2);
	iblt_params_check_match(&salvage->damaged.params, &salvage->other.params);
	if (salvage->other.ncells == 0)
		salvage->has_other = false;
}

/* Puts the sketch together again from a group of subtables. */
static void
attempt(Salvage *salvage, unsigned group)
{
	unsigned	lost = salvage->damaged.params.subtables & ~group;
	IbltSketch	other;
	struct varlena *value;
	IbltDecoding decoding;
	IbltEntry	entry;

	salvage->group = group;
	salvage->recovered = 0;
	salvage->result = IBLT_PEEL_INCONSISTENT;
	salvage->proven = false;
	salvage->value = iblt_copy(&salvage->whole, &salvage->damaged);
	iblt_core_salvage_start(&salvage->whole, lost,
							salvage->has_other ? &salvage->other : NULL);
	(void) iblt_make_fold(&salvage->left, &salvage->damaged,
						  salvage->damaged.params.subtable_cells, group);
	if (salvage->has_other)
	{
		value = iblt_make_fold(&other, &salvage->other,
							   salvage->other.params.subtable_cells, group);
		/* impossible counts */
		if (iblt_core_add_sketch(&salvage->left, &other, -1) != IBLT_OK)
			return;
		pfree(value);
	}
	iblt_core_seal(&salvage->left);
	decoding.original = salvage->left;
	iblt_decoding_start(&decoding);
	while (iblt_core_peel_next(decoding.peeler, &entry))
		iblt_core_salvage_key(&salvage->whole, lost, &entry);
	salvage->recovered = decoding.peeler->recovered;
	salvage->result = iblt_core_peel_result(decoding.peeler);
	salvage->proven = iblt_core_salvage_proven(&salvage->whole);
}

/*
 * Tries the groups of subtables that agree, the largest first, until one proves
 * to be right.  If none does, takes the largest.  ERROR if there is no largest,
 * or none at all.
 */
static void
salvage_args(Salvage *salvage, FunctionCallInfo fcinfo)
{
	unsigned	groups[IBLT_MAX_HASHES];
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext context;
	unsigned	wanted;			/* the subtables that argument 1 leaves, as a mask */
	Datum	   *numbers;
	bool	   *nulls;
	int			n = iblt_array_take(PG_ARGISNULL(1) ? 0 : PG_GETARG_DATUM(1), &numbers, &nulls);
	int			i;

	open_args(salvage, fcinfo);
	wanted = salvage->damaged.params.subtables;
	for (i = 0; i < n; i++)
		wanted &= ~iblt_params_subtable(&salvage->damaged.params,
										nulls[i] ? 0 : DatumGetInt32(numbers[i]));
	if (wanted == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("at least one subtable of an iblt must be left")));
	n = iblt_core_agreeing(&salvage->damaged, wanted, groups);
	if (n == 0)
		refuse("No subtable agrees with the number of rows in the header.",
			   "Build the sketch again.");
	context = AllocSetContextCreate(caller, "iblt_salvage",
									ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(context);
	for (i = 0; i < n; i++)
	{
		attempt(salvage, groups[i]);
		if (salvage->proven)
			break;
		MemoryContextReset(context);
	}
	MemoryContextSwitchTo(caller);
	if (salvage->proven)
		return;
	if (n > 1 && iblt_mask_count(groups[0]) == iblt_mask_count(groups[1]))
		refuse("Its subtables contradict each other, and nothing says which of them are right.",
			   "Name those to leave out in \"without\", or give an undamaged sketch of nearly the same rows as \"other\".");
	attempt(salvage, groups[0]);
	if (salvage->result == IBLT_PEEL_INCONSISTENT)
		refuse("The subtables that agree contradict the header.",
			   "Build the sketch again.");
}

PG_FUNCTION_INFO_V1(iblt_salvage);

/* iblt_salvage(bytea, integer[], iblt) -> (s, complete, recovered, lost) */
Datum
iblt_salvage(PG_FUNCTION_ARGS)
{
	Salvage		salvage;
	IbltRow		row = {0};

	salvage_args(&salvage, fcinfo);
	if (!salvage.proven && salvage.result == IBLT_PEEL_COMPLETE)
		refuse("All its keys can be listed from the subtables that agree, but its checksum does not fit to them. So the header or the checksum is damaged, too.",
			   "See these keys with iblt_salvage_keys, or build the sketch again.");
	iblt_column(&row, PointerGetDatum(salvage.value), !salvage.proven);
	iblt_column(&row, BoolGetDatum(salvage.proven), false);
	iblt_column(&row, Int64GetDatum((int64) salvage.recovered), false);
	iblt_column(&row, iblt_params_subtables(salvage.damaged.params.subtables & ~salvage.group), false);
	return iblt_value_row(fcinfo, &row);
}

PG_FUNCTION_INFO_V1(iblt_salvage_keys);

/* iblt_salvage_keys(bytea, integer[], iblt) -> set of (key, side, count, value) */
Datum
iblt_salvage_keys(PG_FUNCTION_ARGS)
{
	Salvage		salvage;
	IbltVerdict verdict;
	const IbltParams *params = &salvage.damaged.params;

	salvage_args(&salvage, fcinfo);
	if (!salvage.proven && !salvage.has_other &&
		(params->key.kind == IBLT_KEY_CANONICAL ||
		 params->value.kind == IBLT_KEY_CANONICAL))
		refuse("Nothing proves the types of its keys and values.",
			   "Give an undamaged sketch of the same types as \"other\". It can be without rows.");
	iblt_decode_into(fcinfo, &salvage.left, InvalidOid, InvalidOid, &verdict);
	/* no keys would read as "equal" */
	if (!salvage.proven || !verdict.complete)
		ereport(salvage.recovered > 0 ? WARNING : ERROR,
				(errcode(ERRCODE_IBLT_INCOMPLETE),
				 errmsg("iblt is damaged, and nothing proves that these are all its keys: %u recovered",
						salvage.recovered),
				 errhint("To prove them, give an undamaged sketch of nearly the same rows as \"other\".")));
	return (Datum) 0;
}
