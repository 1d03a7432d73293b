/*
 * strata.c
 *		The strata estimator: layout, validator, estimate.
 *
 * doc/internals/format.md describes the layout.  A change must change both together, and
 * the version.
 */
#include "interrupt.h"
#include "strata.h"

/*
 * Offsets of the header.  Fields that a sketch also has are where a sketch has
 * them.  The row count and the checksum must be, because iblt_core_seal writes
 * them.
 */
#define OFFSET_VERSION		4
#define OFFSET_HASHES		5
#define OFFSET_STRATA		6
#define OFFSET_RESERVED1	7
#define OFFSET_KEY_KIND		8
#define OFFSET_RESERVED2	9
#define OFFSET_DESCRIPTION_SIZE 10
#define OFFSET_CELLS		12
#define OFFSET_SEED			16
#define OFFSET_ROWS			24
#define HEADER_SIZE			32
#define CHECKSUM_SIZE		8

/* The description is padded with zeros to whole words. */
static size_t
description_room(const IbltStrataParams *params)
{
	return (params->table.description_size + 7) & ~(size_t) 7;
}

/* The sketch parameters of the cells, whose integer keys are the hashes. */
static IbltParams
cells_params(const IbltParams *table)
{
	IbltParams	params = *table;

	params.kind = IBLT_KEY_INTEGER;
	params.limbs = 1;
	params.description = NULL;
	params.description_size = 0;
	return params;
}

static uint32_t
cell_size(void)
{
	return 4 + 8 * 3;
}

/* At most 2^27, with parameters in range. */
static uint32_t
stratum_cells(const IbltParams *table)
{
	return (uint32_t) table->hashes * table->subtable_cells;
}

/* Without a type of key it is a template, which has no cells. */
static uint64_t
cells_of(const IbltStrataParams *params)
{
	if (params->table.kind == IBLT_KEY_UNTYPED)
		return 0;
	return (uint64_t) params->strata * stratum_cells(&params->table);
}

size_t
iblt_core_strata_size(const IbltStrataParams *params)
{
	size_t		fixed = HEADER_SIZE + description_room(params) + CHECKSUM_SIZE;
	uint64_t	cells = cells_of(params) * cell_size();

	return cells > IBLT_MAX_BYTES - fixed ? 0 : fixed + (size_t) cells;
}

IbltStatus
iblt_core_strata_check_params(const IbltStrataParams *params)
{
	IbltStatus	status = iblt_core_check_params(&params->table);
	IbltStrataParams typed = *params;

	/* the size that it checks is that of a sketch of these keys */
	if (status != IBLT_OK && status != IBLT_BAD_SIZE)
		return status;
	if (params->strata < 1 || params->strata > IBLT_MAX_STRATA)
		return IBLT_BAD_STRATA;
	/* a template must be usable */
	if (params->table.kind == IBLT_KEY_UNTYPED)
		typed.table = cells_params(&params->table);
	return iblt_core_strata_size(&typed) == 0 ? IBLT_BAD_SIZE : IBLT_OK;
}

/* Points a view with its parameters set at its bytes. */
static void
set_view(IbltStrata *strata, uint8_t *bytes)
{
	IbltParams *table = &strata->params.table;
	IbltSketch *all = &strata->all;

	table->description = bytes + HEADER_SIZE;
	iblt_core_secret(strata->secret, "iblt strata", table->seed);
	strata->stratum_size = (size_t) stratum_cells(table) * cell_size();
	memset(strata->meter, 0, sizeof strata->meter);

	all->params = cells_params(table);
	iblt_core_hasher_init(&all->hasher, table->seed);
	all->bytes = bytes;
	all->size = iblt_core_strata_size(&strata->params);
	all->meter = strata->meter;
	all->cells = bytes + HEADER_SIZE + description_room(&strata->params);
	all->ncells = (uint32_t) cells_of(&strata->params);
	all->cell_size = cell_size();
	all->fields = all->params.limbs + 2;
}

void
iblt_core_strata_init(IbltStrata *strata, const IbltStrataParams *params,
					  uint8_t *bytes)
{
	const IbltParams *table = &params->table;

	iblt_core_clear(bytes, iblt_core_strata_size(params));
	memcpy(bytes, IBLT_STRATA_MAGIC, 4);
	bytes[OFFSET_VERSION] = IBLT_STRATA_VERSION;
	bytes[OFFSET_HASHES] = (uint8_t) table->hashes;
	bytes[OFFSET_STRATA] = (uint8_t) params->strata;
	bytes[OFFSET_KEY_KIND] = (uint8_t) table->kind;
	iblt_store16(bytes + OFFSET_DESCRIPTION_SIZE,
				 (uint16_t) table->description_size);
	iblt_store32(bytes + OFFSET_CELLS, table->subtable_cells);
	iblt_store64(bytes + OFFSET_SEED, table->seed);
	iblt_store_text(bytes + HEADER_SIZE, table->description,
					table->description_size);

	strata->params = *params;
	strata->all.rows = 0;
	set_view(strata, bytes);
}

void
iblt_core_strata_view_copy(IbltStrata *copy, const IbltStrata *strata,
						   uint8_t *bytes)
{
	copy->params = strata->params;
	copy->all.rows = strata->all.rows;
	set_view(copy, bytes);
}

/* Reads the header into params, but not what follows the header. */
static IbltStatus
read_header(IbltStrataParams *params, int64_t *rows, const uint8_t *bytes,
			size_t size)
{
	IbltParams *table = &params->table;

	if (size < HEADER_SIZE + CHECKSUM_SIZE)
		return IBLT_BAD_SIZE;
	if (memcmp(bytes, IBLT_STRATA_MAGIC, 4) != 0)
		return IBLT_BAD_MAGIC;
	if (bytes[OFFSET_VERSION] != IBLT_STRATA_VERSION)
		return IBLT_BAD_VERSION;
	if (bytes[OFFSET_RESERVED1] != 0 || bytes[OFFSET_RESERVED2] != 0)
		return IBLT_BAD_RESERVED;

	params->strata = bytes[OFFSET_STRATA];
	table->hashes = bytes[OFFSET_HASHES];
	table->subtables = (1U << (table->hashes & 31)) - 1;
	table->subtable_cells = iblt_load32(bytes + OFFSET_CELLS);
	table->kind = (IbltKeyKind) bytes[OFFSET_KEY_KIND];
	table->limbs = iblt_core_kind_limbs(table->kind);
	memset(&table->value, 0, sizeof table->value);
	table->seed = iblt_load64(bytes + OFFSET_SEED);
	table->description = bytes + HEADER_SIZE;
	table->description_size = iblt_load16(bytes + OFFSET_DESCRIPTION_SIZE);
	*rows = (int64_t) iblt_load64(bytes + OFFSET_ROWS);

	/* the description must be there before it is checked */
	if (table->description_size > size - HEADER_SIZE - CHECKSUM_SIZE)
		return IBLT_BAD_SIZE;
	return iblt_core_strata_check_params(params);
}

IbltStatus
iblt_core_strata_open(IbltStrata *strata, uint8_t *bytes, size_t size)
{
	IbltStatus	status = read_header(&strata->params, &strata->all.rows, bytes,
									 size);
	size_t		text = strata->params.table.description_size;

	if (status != IBLT_OK)
		return status;
	if (size != iblt_core_strata_size(&strata->params))
		return IBLT_BAD_SIZE;
	set_view(strata, bytes);
	if (!iblt_all_zero(bytes + HEADER_SIZE + text,
					   description_room(&strata->params) - text))
		return IBLT_BAD_RESERVED;
	if (iblt_load64(bytes + size - CHECKSUM_SIZE) !=
		XXH3_64bits(bytes, size - CHECKSUM_SIZE))
		return IBLT_BAD_CHECKSUM;
	if (strata->params.table.kind == IBLT_KEY_UNTYPED && strata->all.rows != 0)
		return IBLT_BAD_TEMPLATE;
	return iblt_core_fields_canonical(&strata->all) ? IBLT_OK : IBLT_BAD_FIELD;
}

void
iblt_core_strata_seal(IbltStrata *strata)
{
	iblt_core_seal(&strata->all);
}

IbltStatus
iblt_core_strata_compatible(const IbltStrataParams *a,
							const IbltStrataParams *b)
{
	IbltParams	left = a->table;
	IbltParams	right = b->table;

	if (a->strata != b->strata)
		return IBLT_OTHER_STRATA;
	if (left.kind == IBLT_KEY_UNTYPED || right.kind == IBLT_KEY_UNTYPED)
	{
		left = cells_params(&left);
		right = cells_params(&right);
	}
	return iblt_core_compatible(&left, &right);
}

const char *
iblt_core_strata_status_text(IbltStatus status)
{
	return status == IBLT_BAD_MAGIC
		? "it does not begin with the bytes of an iblt_strata"
		: iblt_core_status_text(status);
}

/* A way to add a row to a sketch. */
typedef IbltStatus (*AddRow) (IbltSketch *sketch, const uint8_t *key,
							  uint64_t y, int sign);

/*
 * Adds the row to its stratum.  Only its counts can make that fail, because
 * the limb is representable and no values are kept.
 */
static IbltStatus
add_row(IbltStrata *strata, const uint8_t *key, size_t size, uint64_t y,
		int sign, AddRow add)
{
	uint64_t	hash = iblt_strata_hash(strata, key, size);
	int			number = iblt_strata_stratum(hash, strata->params.strata);
	uint8_t    *cells = strata->all.cells;
	uint8_t		limb[8];
	IbltStatus	status;

	iblt_store64(limb, iblt_strata_limb(strata, hash));
	strata->all.cells = cells + (size_t) number * strata->stratum_size;
	status = add(&strata->all, limb, y, sign);
	strata->all.cells = cells;
	return status;
}

void
iblt_core_strata_add_row(IbltStrata *strata, const uint8_t *key, size_t size,
						 uint64_t y, int sign)
{
	(void) add_row(strata, key, size, y, sign, iblt_core_add_row);
}

IbltStatus
iblt_core_strata_add_row_checked(IbltStrata *strata, const uint8_t *key,
								 size_t size, uint64_t y, int sign)
{
	return add_row(strata, key, size, y, sign, iblt_core_add_row_checked);
}

IbltStatus
iblt_core_strata_add(IbltStrata *strata, const IbltStrata *other, int sign)
{
	if (other->params.table.kind == IBLT_KEY_UNTYPED)
		return IBLT_OK;
	return iblt_core_add_sketch(&strata->all, &other->all, sign);
}

IbltStatus
iblt_core_strata_negate(IbltStrata *strata)
{
	return iblt_core_negate(&strata->all);
}

bool
iblt_core_strata_is_empty(const IbltStrata *strata)
{
	uint32_t	i;

	for (i = 0; i < strata->all.ncells; i++)
	{
		iblt_check_interrupts_at(i);
		if (!iblt_core_cell_is_zero(&strata->all, iblt_cell(&strata->all, i)))
			return false;
	}
	return strata->all.rows == 0;
}

/* The view that is peeled, before it is pointed at one stratum. */
static IbltSketch
one_stratum(const IbltStrata *strata)
{
	IbltSketch	stratum = strata->all;

	stratum.ncells = strata->all.ncells / (uint32_t) strata->params.strata;
	stratum.rows = 0;
	return stratum;
}

size_t
iblt_core_strata_scratch_size(const IbltStrata *difference)
{
	IbltSketch	stratum = one_stratum(difference);

	return iblt_core_peel_scratch_size(&stratum);
}

static void
start_stratum(IbltStrataDecoder *decoder, int number)
{
	decoder->number = number;
	decoder->stratum.cells = decoder->difference->all.cells +
		(size_t) number * decoder->difference->stratum_size;
	iblt_core_peel_start(&decoder->peeler, &decoder->stratum, decoder->scratch);
}

void
iblt_core_strata_decode_start(IbltStrataDecoder *decoder,
							  IbltStrata *difference, void *scratch)
{
	memset(difference->meter, 0, sizeof difference->meter);
	decoder->difference = difference;
	decoder->stratum = one_stratum(difference);
	decoder->scratch = scratch;
	decoder->keys = 0;
	decoder->rows = 0;
	decoder->incomplete = false;
	decoder->contradiction = false;
	start_stratum(decoder, difference->params.strata - 1);
}

/* Judges a stratum without pure cells.  Is there another one to decode? */
static bool
end_stratum(IbltStrataDecoder *decoder)
{
	IbltPeelResult result;

	/*
	 * no stratum has a row count of its own, and the header's is the sum of
	 * all
	 */
	decoder->stratum.rows = decoder->peeler.rows;
	result = iblt_core_peel_result(&decoder->peeler);
	decoder->contradiction |= decoder->peeler.contradiction ||
		result == IBLT_PEEL_INCONSISTENT;
	decoder->incomplete = result == IBLT_PEEL_INCOMPLETE;
	if (decoder->contradiction || decoder->incomplete)
		return false;
	decoder->keys += decoder->peeler.recovered;
	decoder->rows += (uint64_t) decoder->peeler.rows;
	if (decoder->number == 0)
		return false;
	start_stratum(decoder, decoder->number - 1);
	return true;
}

bool
iblt_core_strata_decode_step(IbltStrataDecoder *decoder)
{
	int			strata = decoder->difference->params.strata;
	IbltEntry	entry;

	if (!iblt_core_peel_next(&decoder->peeler, &entry))
		return end_stratum(decoder);
	/*
	 * a hash belongs to one stratum, so a hash of another one is not of a key
	 */
	if (iblt_strata_stratum(iblt_load64(entry.key), strata) != decoder->number)
		decoder->contradiction = true;
	return true;
}

/*
 * 2^(i+1) times the keys above stratum i, which did not decode, or 0 if i is
 * the highest stratum.  Without keys above it one key is assumed, because very
 * small tables may fail at their first keys.
 */
static uint64_t
scale(const IbltStrataDecoder *decoder)
{
	uint64_t	keys = decoder->keys == 0 ? 1 : decoder->keys;
	int			shift = decoder->number + 1;

	if (shift == decoder->difference->params.strata)
		return 0;
	return keys > (uint64_t) INT64_MAX >> shift ? INT64_MAX : keys << shift;
}

IbltPeelResult
iblt_core_strata_result(const IbltStrataDecoder *decoder, uint64_t *keys)
{
	*keys = decoder->incomplete ? scale(decoder) : decoder->keys;
	if (decoder->contradiction)
		return IBLT_PEEL_INCONSISTENT;
	if (decoder->incomplete)
		return IBLT_PEEL_INCOMPLETE;
	/* if a key's count wrapped at 32 bits, this sum is not the header's */
	return decoder->rows == (uint64_t) decoder->difference->all.rows
		? IBLT_PEEL_COMPLETE : IBLT_PEEL_INCONSISTENT;
}
