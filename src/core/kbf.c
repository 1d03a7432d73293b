/*
 * kbf.c
 *		The key-value Bloom filter: layout, validator, labels.
 *
 * doc/internals/format.md describes the layout.  A change must change both together, and
 * the version.
 */
#include "kbf.h"
#include "interrupt.h"

/* Offsets of the header.  Fields that a sketch also has are where it has them. */
#define OFFSET_VERSION		4
#define OFFSET_HASHES		5
#define OFFSET_DEGREE		6
#define OFFSET_SUPERPOSED	7
#define OFFSET_KEY_KIND		8
#define OFFSET_RESERVED1	9
#define OFFSET_VALUES		10
#define OFFSET_CELLS		12
#define OFFSET_SEED			16
#define OFFSET_KEYS			24
#define OFFSET_DESCRIPTION_SIZE 32
#define OFFSET_RESERVED2	34		/* 2 bytes */
#define OFFSET_LABELS_SIZE	36
#define HEADER_SIZE			IBLT_KBF_HEADER_SIZE
#define CHECKSUM_SIZE		8

/* Description and labels are padded with zeros to whole words. */
static size_t
before_cells(size_t description_size, size_t labels_size)
{
	return HEADER_SIZE + ((description_size + labels_size + 7) & ~(size_t) 7);
}

static size_t
before_cells_of(const IbltKbfParams *params)
{
	return before_cells(params->key.description_size, params->labels_size);
}

static unsigned
cell_bits_of(const IbltKbfParams *params)
{
	return IBLT_KBF_COUNTER_BITS +
		(unsigned) (params->degree * params->superposed);
}

/* At most 2^27, with parameters in range.  An untyped template has none. */
static uint32_t
cells_of(const IbltKbfParams *params)
{
	if (params->key.kind == IBLT_KEY_UNTYPED)
		return 0;
	return (uint32_t) params->hashes * params->subtable_cells;
}

/* The cells are padded with zero bits to whole words. */
static uint64_t
cells_size(const IbltKbfParams *params)
{
	return ((uint64_t) cells_of(params) * cell_bits_of(params) + 63) / 64 * 8;
}

size_t
iblt_core_kbf_size(const IbltKbfParams *params)
{
	return before_cells_of(params) + (size_t) cells_size(params) + CHECKSUM_SIZE;
}

/* A label for each value, and nothing behind them. */
static bool
labels_valid(const IbltKbfParams *params)
{
	const uint8_t *label = params->labels;
	size_t		left = params->labels_size;
	unsigned	value;

	if (left == 0)
		return true;
	if (left > IBLT_KBF_MAX_LABELS)
		return false;
	for (value = 1; value <= params->values; value++)
	{
		size_t		size = left > 0 ? label[0] : 0;

		if (size == 0 || size >= left ||
			!iblt_core_is_plain_utf8(label + 1, size))
			return false;
		label += 1 + size;
		left -= 1 + size;
	}
	return left == 0;
}

IbltStatus
iblt_core_kbf_check_params(const IbltKbfParams *params)
{
	IbltTyping	key = params->key;

	if (params->hashes < IBLT_KBF_MIN_HASHES ||
		params->hashes > IBLT_KBF_MAX_HASHES)
		return IBLT_BAD_HASHES;
	if (params->degree < IBLT_GF_MIN_DEGREE ||
		params->degree > IBLT_GF_MAX_DEGREE ||
		params->superposed < 1 || params->superposed > IBLT_GF_MAX_TERMS ||
		params->values < 1 || params->values > gf_values(params->degree))
		return IBLT_BAD_VALUES;
	if (params->subtable_cells < 1 ||
		params->subtable_cells > IBLT_KBF_MAX_CELLS)
		return IBLT_BAD_CELLS;
	key.limbs = iblt_core_kind_limbs(key.kind);
	if (iblt_core_check_typing(&key) != IBLT_OK)
		return iblt_core_check_typing(&key);
	return labels_valid(params) ? IBLT_OK : IBLT_BAD_LABELS;
}

/* Points a view with its parameters set at its bytes. */
static void
set_view(IbltKbf *kbf, uint8_t *bytes)
{
	IbltKbfParams *params = &kbf->params;

	memset(&kbf->hasher, 0, sizeof kbf->hasher);
	iblt_core_secret(kbf->hasher.secret, "iblt kbf", params->seed);
	kbf->bytes = bytes;
	kbf->size = iblt_core_kbf_size(params);
	params->key.description = bytes + HEADER_SIZE;
	params->labels = params->key.description + params->key.description_size;
	kbf->cells = bytes + before_cells_of(params);
	kbf->ncells = cells_of(params);
	kbf->cell_bits = cell_bits_of(params);
}

void
iblt_core_kbf_init(IbltKbf *kbf, const IbltKbfParams *params, uint8_t *bytes)
{
	uint8_t    *text = bytes + HEADER_SIZE;

	iblt_core_clear(bytes, iblt_core_kbf_size(params));
	memcpy(bytes, IBLT_KBF_MAGIC, 4);
	bytes[OFFSET_VERSION] = IBLT_KBF_VERSION;
	bytes[OFFSET_HASHES] = (uint8_t) params->hashes;
	bytes[OFFSET_DEGREE] = (uint8_t) params->degree;
	bytes[OFFSET_SUPERPOSED] = (uint8_t) params->superposed;
	bytes[OFFSET_KEY_KIND] = (uint8_t) params->key.kind;
	iblt_store16(bytes + OFFSET_VALUES, (uint16_t) params->values);
	iblt_store32(bytes + OFFSET_CELLS, params->subtable_cells);
	iblt_store64(bytes + OFFSET_SEED, params->seed);
	iblt_store16(bytes + OFFSET_DESCRIPTION_SIZE,
				 (uint16_t) params->key.description_size);
	iblt_store32(bytes + OFFSET_LABELS_SIZE, (uint32_t) params->labels_size);
	iblt_store_text(text, params->key.description, params->key.description_size);
	iblt_store_text(text + params->key.description_size, params->labels,
					params->labels_size);

	kbf->params = *params;
	kbf->keys = 0;
	set_view(kbf, bytes);
}

size_t
iblt_core_kbf_header_size(const uint8_t *bytes)
{
	return before_cells(iblt_load16(bytes + OFFSET_DESCRIPTION_SIZE),
						iblt_load32(bytes + OFFSET_LABELS_SIZE));
}

IbltStatus
iblt_core_kbf_open_header(IbltKbf *kbf, uint8_t *bytes, size_t size,
						  size_t total)
{
	IbltKbfParams *params = &kbf->params;
	size_t		text;
	IbltStatus	status;

	if (size < HEADER_SIZE || total < HEADER_SIZE + CHECKSUM_SIZE)
		return IBLT_BAD_SIZE;
	if (memcmp(bytes, IBLT_KBF_MAGIC, 4) != 0)
		return IBLT_BAD_MAGIC;
	if (bytes[OFFSET_VERSION] != IBLT_KBF_VERSION)
		return IBLT_BAD_VERSION;
	if (bytes[OFFSET_RESERVED1] != 0 || !iblt_all_zero(bytes + OFFSET_RESERVED2, 2))
		return IBLT_BAD_RESERVED;
	params->hashes = bytes[OFFSET_HASHES];
	params->degree = bytes[OFFSET_DEGREE];
	params->superposed = bytes[OFFSET_SUPERPOSED];
	params->values = iblt_load16(bytes + OFFSET_VALUES);
	params->subtable_cells = iblt_load32(bytes + OFFSET_CELLS);
	params->key.kind = (IbltKeyKind) bytes[OFFSET_KEY_KIND];
	params->seed = iblt_load64(bytes + OFFSET_SEED);
	params->key.description = bytes + HEADER_SIZE;
	params->key.description_size = iblt_load16(bytes + OFFSET_DESCRIPTION_SIZE);
	params->labels = params->key.description + params->key.description_size;
	params->labels_size = iblt_load32(bytes + OFFSET_LABELS_SIZE);
	/* description and labels must be there before they are checked */
	if (params->labels_size > IBLT_KBF_MAX_LABELS)
		return IBLT_BAD_LABELS;
	if (before_cells_of(params) > size)
		return IBLT_BAD_SIZE;
	status = iblt_core_kbf_check_params(params);
	if (status != IBLT_OK)
		return status;
	if (total != iblt_core_kbf_size(params))
		return IBLT_BAD_SIZE;
	text = HEADER_SIZE + params->key.description_size + params->labels_size;
	if (!iblt_all_zero(bytes + text, before_cells_of(params) - text))
		return IBLT_BAD_RESERVED;
	kbf->keys = iblt_load64(bytes + OFFSET_KEYS);
	set_view(kbf, bytes);
	if (kbf->keys > INT64_MAX)
		return IBLT_COUNT_OVERFLOW;
	return params->key.kind == IBLT_KEY_UNTYPED && kbf->keys != 0
		? IBLT_BAD_TEMPLATE : IBLT_OK;
}

/*
 * Each key adds the same to one cell of each subtable, so subtables without a full
 * cell have the same sums.  False also if a cell contradicts itself.
 */
static bool
cells_valid(const IbltKbf *kbf)
{
	const IbltKbfParams *params = &kbf->params;
	bool		known = false;
	uint64_t	content_known = 0;
	uint32_t	first;

	for (first = 0; first < kbf->ncells; first += params->subtable_cells)
	{
		bool		full = false;
		uint64_t	counts = 0;
		uint64_t	contents = 0;
		uint32_t	i;

		for (i = 0; i < params->subtable_cells; i++)
		{
			uint64_t	cell = iblt_kbf_cell(kbf, first + i);
			uint64_t	content = iblt_kbf_content(cell);
			unsigned	count = iblt_kbf_count(cell);
			unsigned	element;

			iblt_check_interrupts_at(i);
			if ((count == 0 || count == IBLT_KBF_FULL) && content != 0)
				return false;
			if (count == 1 &&
				!iblt_core_gf_split(content, 1, params->degree, params->superposed, &element))
				return false;
			full |= count == IBLT_KBF_FULL;
			counts += count;
			contents ^= content;
		}
		if (full)
			continue;
		if (counts != kbf->keys || (known && contents != content_known))
			return false;
		known = true;
		content_known = contents;
	}
	return true;
}

IbltStatus
iblt_core_kbf_open(IbltKbf *kbf, uint8_t *bytes, size_t size)
{
	IbltStatus	status = iblt_core_kbf_open_header(kbf, bytes, size, size);
	uint64_t	bits;
	size_t		whole;

	if (status != IBLT_OK)
		return status;
	/* the bits after the last cell, up to the checksum */
	bits = (uint64_t) kbf->ncells * kbf->cell_bits;
	whole = (size_t) (bits >> 3);
	if ((bits & 7) != 0 && kbf->cells[whole++] >> (bits & 7) != 0)
		return IBLT_BAD_RESERVED;
	if (!iblt_all_zero(kbf->cells + whole, (size_t) cells_size(&kbf->params) - whole))
		return IBLT_BAD_RESERVED;
	if (iblt_load64(bytes + size - CHECKSUM_SIZE) != XXH3_64bits(bytes, size - CHECKSUM_SIZE))
		return IBLT_BAD_CHECKSUM;
	return cells_valid(kbf) ? IBLT_OK : IBLT_BAD_COUNTER;
}

void
iblt_core_kbf_seal(IbltKbf *kbf)
{
	iblt_store64(kbf->bytes + OFFSET_KEYS, kbf->keys);
	iblt_store64(kbf->bytes + kbf->size - CHECKSUM_SIZE,
				 XXH3_64bits(kbf->bytes, kbf->size - CHECKSUM_SIZE));
}

bool
iblt_core_kbf_labels_go(const IbltKbfParams *a, const IbltKbfParams *b)
{
	size_t		size = a->labels_size < b->labels_size ? a->labels_size
		: b->labels_size;

	/* each label begins with its length, so they cannot agree in part */
	return (a->labels_size == 0) == (b->labels_size == 0) &&
		(size == 0 || memcmp(a->labels, b->labels, size) == 0);
}

bool
iblt_core_kbf_widen(IbltKbfParams *params, const IbltKbfParams *other)
{
	bool		changed = false;

	if (other->labels_size > params->labels_size)
	{
		params->values = other->values;
		params->labels = other->labels;
		params->labels_size = other->labels_size;
		changed = true;
	}
	if (params->key.kind == IBLT_KEY_UNTYPED &&
		other->key.kind != IBLT_KEY_UNTYPED)
	{
		params->key = other->key;
		changed = true;
	}
	return changed;
}

IbltStatus
iblt_core_kbf_compatible(const IbltKbfParams *a, const IbltKbfParams *b)
{
	bool		grown = a->labels_size > 0 && b->labels_size > 0 &&
		a->labels_size != b->labels_size;

	if (a->hashes != b->hashes)
		return IBLT_OTHER_HASHES;
	if (a->degree != b->degree || a->superposed != b->superposed ||
		(a->values != b->values && !grown))
		return IBLT_OTHER_CODES;
	if (a->subtable_cells != b->subtable_cells)
		return IBLT_OTHER_CELLS;
	if (a->seed != b->seed)
		return IBLT_OTHER_SEED;
	if (!iblt_core_kbf_labels_go(a, b))
		return IBLT_OTHER_LABELS;
	if (a->key.kind == IBLT_KEY_UNTYPED || b->key.kind == IBLT_KEY_UNTYPED ||
		iblt_core_same_type(&a->key, &b->key))
		return IBLT_OK;
	return IBLT_OTHER_KEY_TYPE;
}

const uint8_t *
iblt_core_kbf_label(const IbltKbfParams *params, unsigned value, size_t *size)
{
	const uint8_t *label = params->labels;

	while (--value > 0)
		label += 1 + (size_t) label[0];
	*size = label[0];
	return label + 1;
}

unsigned
iblt_core_kbf_labelled(const IbltKbfParams *params, const uint8_t *label,
					   size_t size)
{
	const uint8_t *candidate = params->labels;
	const uint8_t *end = candidate + params->labels_size;
	unsigned	value = 1;

	for (; candidate < end; candidate += 1 + (size_t) candidate[0], value++)
		if (candidate[0] == size && memcmp(candidate + 1, label, size) == 0)
			return value;
	return 0;
}
