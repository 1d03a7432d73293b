/*
 * fuzz_decode.c
 *		libFuzzer target: bytes from anywhere, opened, decoded and asked, or
 *		estimated if they are an estimator.
 *
 * What opens is decoded, asked for keys, negated, subtracted from itself and
 * sealed.  The sanitizers watch; and a complete decoding must consist of reports
 * that, put back, make the sketch again.  An estimate must not be 0 for what is not empty.
 */
#include "cell.h"
#include "fuzz.h"
#include "get.h"
#include "meter.h"
#include "peel.h"
#include "strata.h"
#include "sums.h"

/* Scratch beyond this is the tester's time, not the core's. */
#define LARGEST_INPUT (1 << 20)

#define HEADER_SIZE 40

/* Takes a report out of the sketch by the cell that the peeler took out. */
static void
take_out(IbltSketch *sketch, const IbltEntry *entry)
{
	uint32_t index[IBLT_MAX_HASHES];

	iblt_core_key_cells(sketch, entry->key, index);
	for (int i = 0; i < iblt_core_subtable_count(&sketch->params); i++)
		iblt_core_add_cell(sketch, index[i], entry->cell, -1);
}

static bool
is_empty(const IbltSketch *sketch)
{
	for (uint32_t i = 0; i < sketch->ncells; i++)
		if (!iblt_core_cell_is_zero(sketch, iblt_cell(sketch, i)))
			return false;
	return sketch->rows == 0 && iblt_core_meter_is_zero(sketch->meter);
}

/* Peels a copy; a second copy keeps account. */
static void
peel(const IbltSketch *sketch)
{
	IbltSketch peeled;
	IbltSketch account;
	static uint8_t value[8 * IBLT_MAX_LIMBS];
	IbltPeeler *peeler = take(sizeof *peeler);
	IbltPeelResult result;
	IbltEntry entry;
	uint32_t reports = 0;
	int64_t rows = 0;

	iblt_core_view_copy(&peeled, sketch, fuzz_duplicate(sketch->bytes, sketch->size));
	iblt_core_view_copy(&account, sketch, fuzz_duplicate(sketch->bytes, sketch->size));
	iblt_core_peel_start(peeler, &peeled, take(iblt_core_peel_scratch_size(sketch)));
	while (iblt_core_peel_next(peeler, &entry))
	{
		DEMAND(!iblt_core_entry_value(sketch, &entry, value) ||
			   (entry.count != 0 && sketch->params.value.limbs > 0));
		DEMAND(++reports <= sketch->ncells);
		take_out(&account, &entry);
		rows += entry.count;
	}
	result = iblt_core_peel_result(peeler);
	if (result == IBLT_PEEL_COMPLETE)
	{
		for (uint32_t i = 0; i < account.ncells; i++)
			DEMAND(iblt_core_cell_is_zero(&account, iblt_cell(&account, i)));
		DEMAND(rows == sketch->rows);
		DEMAND(reports > 0 || iblt_core_meter_is_zero(sketch->meter));
	}
}

/* GET of the key that each cell would have, and of a few bytes. */
static void
ask(const IbltSketch *sketch)
{
	static uint8_t key[8 * IBLT_MAX_LIMBS];
	IbltEntry entry;

	(void) iblt_core_get(sketch, sketch->meter, &entry);
	for (uint32_t i = 0; i < sketch->ncells && i < 16; i++)
	{
		uint64_t weight = iblt_cell_field(iblt_cell(sketch, i), IBLT_FIELD_WEIGHT);

		if (weight != 0 && iblt_core_key_of_cell(sketch, i, iblt_cell(sketch, i), fp_inv(weight), key))
		{
			IbltPresence answer = iblt_core_get(sketch, key, &entry);

			/* counts that a fold may have wrapped are not told */
			DEMAND(answer == IBLT_PRESENT || answer == IBLT_CONTRADICTION ||
				   (answer == IBLT_UNKNOWN && iblt_core_sums(sketch) == IBLT_SUMS_WRAPPED));
		}
	}
}

/*
 * Opens a header.  A copy that has its bytes and no more opens just so, and is
 * not read beyond its end.
 */
static IbltStatus
open_first_bytes(IbltSketch *header, uint8_t *bytes, size_t size)
{
	IbltStatus status = iblt_core_open_header(header, bytes, size, size);
	size_t first = size;
	IbltSketch part;

	if (size >= IBLT_HEADER_SIZE && iblt_core_header_size(bytes) < size)
		first = iblt_core_header_size(bytes);
	DEMAND(iblt_core_open_header(&part, fuzz_duplicate(bytes, first), first, size) == status);
	return status;
}

static const uint8_t *
cell_of_header(const IbltSketch *header, uint32_t i, void *bytes)
{
	DEMAND(i < header->ncells);
	return (const uint8_t *) bytes + iblt_cell_offset(header, i);
}

/*
 * The header alone, with as many bytes as are there of a value whose size it
 * gives.  Its cells are within that size.  Where they are here, they are judged
 * whatever they hold.
 */
static void
open_header(uint8_t *bytes, size_t size)
{
	static uint8_t value[8 * IBLT_MAX_LIMBS];
	uint8_t key[8 * IBLT_MAX_LIMBS] = { 1 };
	IbltSketch header;
	IbltEntry entry;

	if (open_first_bytes(&header, bytes, size) != IBLT_OK || header.ncells == 0)
		return;
	DEMAND(iblt_core_header_size(bytes) == iblt_cell_offset(&header, 0));
	DEMAND(iblt_cell_offset(&header, header.ncells) + 8 == size);
	if (iblt_core_get_cells(&header, key, IBLT_MAX_HASHES, cell_of_header, bytes,
							&entry) == IBLT_PRESENT)
		(void) iblt_core_entry_value(&header, &entry, value);
}

/* What opened must be closed under the algebra: -(-a) is a, a - a is empty. */
static void
combine(const IbltSketch *sketch)
{
	IbltSketch negative;
	IbltSketch copy;

	iblt_core_init(&negative, &sketch->params, fuzz_duplicate(sketch->bytes, sketch->size));
	if (iblt_core_add_sketch(&negative, sketch, -1) == IBLT_COUNT_OVERFLOW)
		return;
	iblt_core_init(&copy, &sketch->params, fuzz_duplicate(sketch->bytes, sketch->size));
	DEMAND(iblt_core_add_sketch(&copy, &negative, -1) == IBLT_OK);
	iblt_core_seal(&copy);
	DEMAND(memcmp(copy.bytes, sketch->bytes, sketch->size) == 0);
	DEMAND(iblt_core_add_sketch(&copy, sketch, -1) == IBLT_OK);
	iblt_core_seal(&copy);
	DEMAND(is_empty(&copy));
}

static void
estimate(const IbltSketch *strata)
{
	static IbltPeeler peeler;
	IbltSketch copy;
	uint64_t keys;
	IbltPeelResult result;

	iblt_core_view_copy(&copy, strata, fuzz_duplicate(strata->bytes, strata->size));
	result = iblt_core_strata_estimate(&copy, &peeler, take(iblt_core_strata_scratch_size(strata)),
									   &keys);
	DEMAND(keys <= INT64_MAX);
	DEMAND((result == IBLT_PEEL_COMPLETE && keys == 0) == is_empty(strata));
}

static void
open_and_use(uint8_t *bytes, size_t size)
{
	IbltSketch sketch;
	IbltStatus status = iblt_core_open(&sketch, bytes, size);
	double bound;

	DEMAND(iblt_core_status_text(status) != NULL);
	open_header(bytes, size);
	if (status != IBLT_OK)
		return;
	DEMAND(sketch.size == size);
	DEMAND(iblt_core_compatible(&sketch.params, &sketch.params) == IBLT_OK);
	combine(&sketch);
	if (sketch.params.strata > 0)
	{
		estimate(&sketch);
		return;
	}
	DEMAND(iblt_core_estimate_keys(&sketch, &bound) >= 0 && bound >= 0);
	(void) iblt_core_meter_bound(sketch.meter);
	peel(&sketch);
	if (sketch.params.key.limbs <= 64)
		ask(&sketch);
}

static unsigned
limbs_of(IbltKeyKind kind, unsigned chosen)
{
	return kind == IBLT_KEY_INTEGER ? 1 : kind == IBLT_KEY_UUID ? 2 : 1 + chosen % 5;
}

/* An honest sketch of a few rows, of a shape that seed chooses; its size. */
static size_t
honest(uint8_t *bytes, size_t max_size, unsigned int seed)
{
	static const uint32_t ladder[] = { 1, 2, 3, 4, 6, 8, 12, 16 };
	IbltParams params = {.hashes = 3 + (int) (seed / 32 % 6), .subtable_cells = ladder[seed / 256 % 8],
		.key.kind = (IbltKeyKind) (seed % 4), .seed = seed};
	IbltSketch sketch;
	uint8_t key[40] = { 0 };
	uint8_t value[40] = { 0 };
	unsigned i;

	params.key.limbs = limbs_of(params.key.kind, seed / 4);
	params.subtables = (1u << params.hashes) - 1;
	if (seed / 2048 % 2)
	{
		params.value.kind = params.key.kind == IBLT_KEY_UNTYPED
			? IBLT_KEY_UNTYPED : (IbltKeyKind) (1 + seed % 3);
		params.value.limbs = limbs_of(params.value.kind, seed / 8);
		params.value.description = (const uint8_t *) "int4";
		params.value.description_size = params.value.kind == IBLT_KEY_CANONICAL ? 4 : 0;
	}
	else if (seed / 512 % 4 == 0)
	{
		params.strata = 1 + (int) (seed % 8);
		params.key.limbs = 1;
	}
	params.key.description = (const uint8_t *) "text";
	params.key.description_size = params.key.kind == IBLT_KEY_CANONICAL ? 4 : 0;
	if (iblt_core_size(&params) > max_size)
		return 0;
	iblt_core_init(&sketch, &params, bytes);
	for (i = 0; params.key.kind != IBLT_KEY_UNTYPED && i < seed / 4096 % 16; i++)
	{
		iblt_store64(key, i / 2);
		iblt_store64(value, i);
		if (params.strata > 0)
			iblt_core_strata_add_row(&sketch, key, sizeof key, i, i % 3 == 0 ? -1 : 1);
		else if (params.value.limbs > 0)
			(void) iblt_core_add_pair(&sketch, key, value, i % 3 == 0 ? -1 : 1);
		else
			(void) iblt_core_add_row(&sketch, key, i, i % 3 == 0 ? -1 : 1);
	}
	iblt_core_seal(&sketch);
	return sketch.size;
}

FUZZ_TARGET(560, HEADER_SIZE)
