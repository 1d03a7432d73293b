/*
 * sketch.c
 *		Layout of a sketch's bytes, and the one validator.
 *
 * doc/internals/format.md describes the layout.  A change must change both together, and
 * the version.
 */
#include "sketch.h"
#include "interrupt.h"
#include "sizing.h"

/* Offsets of the header. */
#define OFFSET_VERSION		4
#define OFFSET_HASHES		5
#define OFFSET_SUBTABLES	6
#define OFFSET_STRATA		7
#define OFFSET_KEY_KIND		8
#define OFFSET_VALUE_KIND	9
#define OFFSET_LIMBS		10
#define OFFSET_CELLS		12
#define OFFSET_SEED			16
#define OFFSET_ROWS			24
#define OFFSET_DESCRIPTION_SIZE 32
#define OFFSET_VALUE_LIMBS	34
#define OFFSET_VALUE_DESCRIPTION_SIZE 36
#define OFFSET_RESERVED2	38		/* 2 bytes */
#define OFFSET_METER		40
#define HEADER_SIZE			IBLT_HEADER_SIZE
#define CHECKSUM_SIZE		8

/* The descriptions of the key and the value. */
static size_t
descriptions_size(const IbltParams *params)
{
	return params->key.description_size + params->value.description_size;
}

/* They are padded with zeros to whole words. */
static size_t
description_room(const IbltParams *params)
{
	return (descriptions_size(params) + 7) & ~(size_t) 7;
}

static unsigned
fields_of(const IbltParams *params)
{
	return params->key.limbs + 2 + params->value.limbs;
}

static uint32_t
cell_size_of(const IbltParams *params)
{
	return 4 + 8 * (uint32_t) fields_of(params);
}

/* An untyped template does not know its cell's size, and has none. */
static uint64_t
cells_of(const IbltParams *params)
{
	int tables = params->strata > 0 ? params->strata : 1;

	if (params->key.kind == IBLT_KEY_UNTYPED)
		return 0;
	return (uint64_t) (tables * iblt_core_subtable_count(params)) *
		params->subtable_cells;
}

size_t
iblt_core_size(const IbltParams *params)
{
	size_t fixed = HEADER_SIZE + description_room(params) + CHECKSUM_SIZE;
	uint64_t cells = cells_of(params) * cell_size_of(params);

	return cells > IBLT_MAX_BYTES - fixed ? 0 : fixed + (size_t) cells;
}

/*
 * Do a lead byte and the one after it begin a character, in its shortest form,
 * that is not a surrogate and not above U+10FFFF?
 */
static bool
begins_character(uint8_t lead, uint8_t second)
{
	return !(lead == 0xe0 && second < 0xa0) &&
		!(lead == 0xed && second > 0x9f) &&
		!(lead == 0xf0 && second < 0x90) && !(lead == 0xf4 && second > 0x8f);
}

bool
iblt_core_is_plain_utf8(const uint8_t *text, size_t size)
{
	size_t i = 0;

	while (i < size)
	{
		uint8_t lead = text[i++];
		int more = lead < 0x80 ? 0 : lead < 0xc2 ? -1 : lead < 0xe0 ? 1
			: lead < 0xf0 ? 2 : lead < 0xf5 ? 3 : -1;

		if (more < 0 || lead < 0x20 || lead == 0x7f)
			return false;
		if (more > 0 && i < size && !begins_character(lead, text[i]))
			return false;
		for (; more > 0; more--, i++)
			if (i >= size || (text[i] & 0xc0) != 0x80)
				return false;
	}
	return true;
}

IbltStatus
iblt_core_check_typing(const IbltTyping *typing)
{
	size_t text = typing->description_size;

	if (typing->limbs < 1 || typing->limbs > IBLT_MAX_LIMBS)
		return IBLT_BAD_KEY_SIZE;
	switch (typing->kind)
	{
		case IBLT_KEY_INTEGER:
			if (typing->limbs != 1)
				return IBLT_BAD_KEY_SIZE;
			break;
		case IBLT_KEY_UUID:
			if (typing->limbs != 2)
				return IBLT_BAD_KEY_SIZE;
			break;
		case IBLT_KEY_CANONICAL:
			if (text == 0 || text > IBLT_MAX_DESCRIPTION)
				return IBLT_BAD_DESCRIPTION;
			return iblt_core_is_plain_utf8(typing->description, text)
				? IBLT_OK : IBLT_BAD_DESCRIPTION;
		case IBLT_KEY_UNTYPED:
			break;
		default:
			return IBLT_BAD_KEY_KIND;
	}
	return text == 0 ? IBLT_OK : IBLT_BAD_DESCRIPTION;
}

/* The first row types both the key and the value. */
static bool
value_is_possible(const IbltParams *params)
{
	const IbltTyping *value = &params->value;

	if (value->limbs == 0)
		return value->kind == IBLT_KEY_UNTYPED && value->description_size == 0;
	return iblt_core_check_typing(value) == IBLT_OK &&
		(value->kind == IBLT_KEY_UNTYPED) == (params->key.kind == IBLT_KEY_UNTYPED);
}

/* An estimator's keys, of whatever kind, are hashed to one limb. */
static IbltStatus
check_strata(const IbltParams *params)
{
	if (params->strata < 0 || params->strata > IBLT_MAX_STRATA)
		return IBLT_BAD_STRATA;
	if (params->strata == 0)
		return IBLT_OK;
	if (params->subtables != (1U << params->hashes) - 1)
		return IBLT_BAD_SUBTABLES;
	if (params->key.limbs != 1)
		return IBLT_BAD_KEY_SIZE;
	return params->value.limbs == 0 ? IBLT_OK : IBLT_BAD_VALUE_TYPE;
}

IbltStatus
iblt_core_check_params(const IbltParams *params)
{
	IbltTyping key = params->key;

	if (params->strata != 0)
		key.limbs = iblt_core_kind_limbs(key.kind);
	if (params->hashes < IBLT_MIN_HASHES || params->hashes > IBLT_MAX_HASHES)
		return IBLT_BAD_HASHES;
	if (params->subtables == 0 || params->subtables >> params->hashes != 0)
		return IBLT_BAD_SUBTABLES;
	if (!iblt_core_ladder_has(params->subtable_cells))
		return IBLT_BAD_CELLS;
	if (check_strata(params) != IBLT_OK)
		return check_strata(params);
	if (iblt_core_check_typing(&key) != IBLT_OK)
		return iblt_core_check_typing(&key);
	if (!value_is_possible(params))
		return IBLT_BAD_VALUE_TYPE;
	return iblt_core_size(params) == 0 ? IBLT_BAD_SIZE : IBLT_OK;
}

/* Points a view with its parameters set at its bytes. */
static void
set_view(IbltSketch *sketch, uint8_t *bytes)
{
	const IbltParams *params = &sketch->params;

	iblt_core_hasher_init(&sketch->hasher, params->seed);
	sketch->bytes = bytes;
	sketch->size = iblt_core_size(params);
	sketch->meter = bytes + OFFSET_METER;
	sketch->params.key.description = bytes + HEADER_SIZE;
	sketch->params.value.description = bytes + HEADER_SIZE +
		params->key.description_size;
	sketch->cells = bytes + HEADER_SIZE + description_room(params);
	sketch->ncells = (uint32_t) cells_of(params);
	sketch->cell_size = cell_size_of(params);
	sketch->fields = fields_of(params);
}

void
iblt_core_init(IbltSketch *sketch, const IbltParams *params, uint8_t *bytes)
{
	iblt_core_clear(bytes, iblt_core_size(params));
	memcpy(bytes, params->strata > 0 ? IBLT_STRATA_MAGIC : IBLT_MAGIC, 4);
	bytes[OFFSET_STRATA] = (uint8_t) params->strata;
	bytes[OFFSET_VERSION] = IBLT_FORMAT_VERSION;
	bytes[OFFSET_HASHES] = (uint8_t) params->hashes;
	bytes[OFFSET_SUBTABLES] = (uint8_t) params->subtables;
	bytes[OFFSET_KEY_KIND] = (uint8_t) params->key.kind;
	bytes[OFFSET_VALUE_KIND] = (uint8_t) params->value.kind;
	iblt_store16(bytes + OFFSET_LIMBS, (uint16_t) params->key.limbs);
	iblt_store32(bytes + OFFSET_CELLS, params->subtable_cells);
	iblt_store64(bytes + OFFSET_SEED, params->seed);
	iblt_store16(bytes + OFFSET_DESCRIPTION_SIZE,
				 (uint16_t) params->key.description_size);
	iblt_store16(bytes + OFFSET_VALUE_LIMBS, (uint16_t) params->value.limbs);
	iblt_store16(bytes + OFFSET_VALUE_DESCRIPTION_SIZE,
				 (uint16_t) params->value.description_size);
	iblt_store_text(bytes + HEADER_SIZE, params->key.description,
					params->key.description_size);
	iblt_store_text(bytes + HEADER_SIZE + params->key.description_size,
					params->value.description, params->value.description_size);

	sketch->params = *params;
	sketch->rows = 0;
	set_view(sketch, bytes);
}

void
iblt_core_view_copy(IbltSketch *copy, const IbltSketch *sketch, uint8_t *bytes)
{
	*copy = *sketch;
	set_view(copy, bytes);
}

size_t
iblt_core_header_size(const uint8_t *bytes)
{
	IbltParams params = { 0 };

	params.key.description_size = iblt_load16(bytes + OFFSET_DESCRIPTION_SIZE);
	params.value.description_size =
		iblt_load16(bytes + OFFSET_VALUE_DESCRIPTION_SIZE);
	return HEADER_SIZE + description_room(&params);
}

/* Sets a view from all before the cells.  The first `size` of `total` bytes are here. */
static IbltStatus
view_header(IbltSketch *sketch, uint8_t *bytes, size_t size, size_t total)
{
	IbltParams *params = &sketch->params;
	IbltStatus status;
	bool is_strata;
	size_t text;

	if (size < HEADER_SIZE || total < HEADER_SIZE + CHECKSUM_SIZE)
		return IBLT_BAD_SIZE;
	is_strata = memcmp(bytes, IBLT_STRATA_MAGIC, 4) == 0;
	if (!is_strata && memcmp(bytes, IBLT_MAGIC, 4) != 0)
		return IBLT_BAD_MAGIC;
	if (bytes[OFFSET_VERSION] != IBLT_FORMAT_VERSION)
		return IBLT_BAD_VERSION;
	params->strata = bytes[OFFSET_STRATA];
	if (!iblt_all_zero(bytes + OFFSET_RESERVED2, 2) ||
		(!is_strata && params->strata != 0))
		return IBLT_BAD_RESERVED;
	if (is_strata && params->strata == 0)
		return IBLT_BAD_STRATA;

	params->hashes = bytes[OFFSET_HASHES];
	params->subtables = bytes[OFFSET_SUBTABLES];
	params->key.kind = (IbltKeyKind) bytes[OFFSET_KEY_KIND];
	params->key.limbs = iblt_load16(bytes + OFFSET_LIMBS);
	params->subtable_cells = iblt_load32(bytes + OFFSET_CELLS);
	params->seed = iblt_load64(bytes + OFFSET_SEED);
	params->key.description = bytes + HEADER_SIZE;
	params->key.description_size = iblt_load16(bytes + OFFSET_DESCRIPTION_SIZE);
	params->value.kind = (IbltKeyKind) bytes[OFFSET_VALUE_KIND];
	params->value.limbs = iblt_load16(bytes + OFFSET_VALUE_LIMBS);
	params->value.description = params->key.description + params->key.description_size;
	params->value.description_size =
		iblt_load16(bytes + OFFSET_VALUE_DESCRIPTION_SIZE);
	sketch->rows = (int64_t) iblt_load64(bytes + OFFSET_ROWS);

	/* the descriptions must be there before they are checked */
	text = descriptions_size(params);
	if (text > size - HEADER_SIZE || text > total - HEADER_SIZE - CHECKSUM_SIZE)
		return IBLT_BAD_SIZE;
	status = iblt_core_check_params(params);
	if (status != IBLT_OK)
		return status;
	if (total != iblt_core_size(params) ||
		size < HEADER_SIZE + description_room(params))
		return IBLT_BAD_SIZE;
	if (!iblt_all_zero(bytes + HEADER_SIZE + text, description_room(params) - text))
		return IBLT_BAD_RESERVED;
	set_view(sketch, bytes);
	return IBLT_OK;
}

/* A template has no rows. */
static IbltStatus
check_template(const IbltSketch *sketch)
{
	if (sketch->params.key.kind == IBLT_KEY_UNTYPED &&
		(sketch->rows != 0 || !iblt_all_zero(sketch->meter, 2 * IBLT_METER_BUCKETS)))
		return IBLT_BAD_TEMPLATE;
	return IBLT_OK;
}

IbltStatus
iblt_core_open_header(IbltSketch *sketch, uint8_t *bytes, size_t size,
					  size_t total)
{
	IbltStatus status = view_header(sketch, bytes, size, total);

	if (status == IBLT_OK && sketch->params.strata > 0)
		return IBLT_BAD_MAGIC;
	return status == IBLT_OK ? check_template(sketch) : status;
}

bool
iblt_core_cell_is_canonical(const IbltSketch *sketch, const uint8_t *cell)
{
	unsigned f;

	for (f = 0; f < sketch->fields; f++)
		if (iblt_cell_field(cell, f) >= IBLT_FP_P)
			return false;
	return true;
}

IbltStatus
iblt_core_open(IbltSketch *sketch, uint8_t *bytes, size_t size)
{
	IbltStatus status = view_header(sketch, bytes, size, size);
	uint32_t i;

	if (status != IBLT_OK)
		return status;
	if (iblt_load64(bytes + size - CHECKSUM_SIZE) != XXH3_64bits(bytes, size - CHECKSUM_SIZE))
		return IBLT_BAD_CHECKSUM;
	if (check_template(sketch) != IBLT_OK)
		return check_template(sketch);
	/* each sketch has one representation */
	for (i = 0; i < sketch->ncells; i++)
	{
		iblt_check_interrupts_at(i);
		if (!iblt_core_cell_is_canonical(sketch, iblt_cell(sketch, i)))
			return IBLT_BAD_FIELD;
	}
	return IBLT_OK;
}

void
iblt_core_seal(IbltSketch *sketch)
{
	uint32_t i;
	unsigned f;

	for (i = 0; i < sketch->ncells; i++)
	{
		uint8_t *cell = iblt_cell(sketch, i);

		iblt_check_interrupts_at(i);
		for (f = 0; f < sketch->fields; f++)
			iblt_cell_set_field(cell, f, fp_reduce(iblt_cell_field(cell, f)));
	}
	iblt_store64(sketch->bytes + OFFSET_ROWS, (uint64_t) sketch->rows);
	iblt_store64(sketch->bytes + sketch->size - CHECKSUM_SIZE,
				 XXH3_64bits(sketch->bytes, sketch->size - CHECKSUM_SIZE));
}

bool
iblt_core_cell_is_zero(const IbltSketch *sketch, const uint8_t *cell)
{
	unsigned f;

	if (iblt_load32(cell) != 0)
		return false;
	for (f = 0; f < sketch->fields; f++)
		if (fp_reduce(iblt_cell_field(cell, f)) != 0)
			return false;
	return true;
}

bool
iblt_core_same_type(const IbltTyping *a, const IbltTyping *b)
{
	return a->kind == b->kind && a->description_size == b->description_size &&
		(a->description_size == 0 ||
		 memcmp(a->description, b->description, a->description_size) == 0);
}

IbltStatus
iblt_core_compatible(const IbltParams *a, const IbltParams *b)
{
	if (a->hashes != b->hashes)
		return IBLT_OTHER_HASHES;
	if (a->strata != b->strata)
		return IBLT_OTHER_STRATA;
	if (a->subtables != b->subtables)
		return IBLT_OTHER_SUBTABLES;
	if (a->subtable_cells != b->subtable_cells)
		return IBLT_OTHER_CELLS;
	if (a->seed != b->seed)
		return IBLT_OTHER_SEED;
	if ((a->value.limbs == 0) != (b->value.limbs == 0))
		return IBLT_OTHER_VALUES;
	if (!iblt_core_same_type(&a->key, &b->key))
		return IBLT_OTHER_KEY_TYPE;
	if (a->key.limbs != b->key.limbs)
		return IBLT_OTHER_KEY_SIZE;
	if (!iblt_core_same_type(&a->value, &b->value))
		return IBLT_OTHER_VALUE_TYPE;
	return a->value.limbs == b->value.limbs ? IBLT_OK : IBLT_OTHER_VALUE_SIZE;
}
