/*
 * fuzz_decode.c
 *		libFuzzer target: bytes from anywhere, opened, decoded and asked.
 *
 * Every input goes to the validator as it is, and once more with the checksum
 * that it ought to have, which a fuzzer would never guess.  What opens is
 * decoded, asked for keys, negated, subtracted from itself and sealed.  The
 * sanitizers watch; and a complete decoding must consist of reports that, put
 * back, make the sketch again.
 *
 * The mutator starts from honest sketches and mostly keeps their length, for
 * otherwise nearly every input would fall at the first hurdle.
 */
#include <stdlib.h>

#include "cell.h"
#include "meter.h"
#include "peel.h"
#include "sketch.h"

#define DEMAND(condition)                                                      \
	do                                                                         \
	{                                                                          \
		if (!(condition))                                                      \
			abort();                                                           \
	} while (0)

/* Scratch beyond this is the tester's time, not the core's. */
#define LARGEST_INPUT (1 << 20)

extern int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
extern size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
									  size_t max_size, unsigned int seed);
extern size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

static uint8_t *
duplicate(const uint8_t *bytes, size_t size)
{
	uint8_t *copy = malloc(size > 0 ? size : 1);

	DEMAND(copy != NULL);
	if (size > 0)
		memcpy(copy, bytes, size);
	return copy;
}

/* Takes a report out of the sketch by the terms that the peeler used. */
static void
take_out(IbltSketch *sketch, const IbltPeeler *peeler, const IbltEntry *entry)
{
	uint32_t index[IBLT_MAX_HASHES];

	iblt_core_key_cells(sketch, entry->key, index);
	iblt_core_remove(sketch, index, entry->count, peeler->terms);
}

/* Peels a copy; a second copy keeps account. */
static void
peel(const IbltSketch *sketch)
{
	IbltSketch peeled;
	IbltSketch account;
	IbltPeeler *peeler = malloc(sizeof *peeler);
	void *scratch = malloc(iblt_core_peel_scratch_size(sketch) + 1);
	IbltPeelResult result;
	IbltEntry entry;
	uint32_t reports = 0;
	int64_t rows = 0;
	uint32_t i;

	DEMAND(peeler != NULL && scratch != NULL);
	iblt_core_view_copy(&peeled, sketch,
						duplicate(sketch->bytes, sketch->size));
	iblt_core_view_copy(&account, sketch,
						duplicate(sketch->bytes, sketch->size));
	iblt_core_peel_start(peeler, &peeled, scratch);
	while (iblt_core_peel_next(peeler, &entry))
	{
		DEMAND(++reports <= sketch->ncells);
		take_out(&account, peeler, &entry);
		rows += entry.count;
	}
	result = iblt_core_peel_result(peeler);
	if (result == IBLT_PEEL_COMPLETE)
	{
		for (i = 0; i < account.ncells; i++)
			DEMAND(iblt_core_cell_is_zero(&account, iblt_cell(&account, i)));
		DEMAND(rows == sketch->rows);
		DEMAND(reports > 0 || iblt_core_meter_is_zero(sketch->meter));
	}
	free(account.bytes);
	free(peeled.bytes);
	free(scratch);
	free(peeler);
}

/* GET of the key that each cell would have, and of a few bytes. */
static void
ask(const IbltSketch *sketch)
{
	static uint8_t key[8 * IBLT_MAX_LIMBS];
	IbltEntry entry;
	uint32_t i;

	(void) iblt_core_get(sketch, sketch->meter, &entry);
	for (i = 0; i < sketch->ncells && i < 16; i++)
	{
		uint64_t weight =
			iblt_cell_field(iblt_cell(sketch, i), IBLT_FIELD_WEIGHT);

		if (weight != 0 && iblt_core_cell_key(sketch, i, fp_inv(weight), key))
			DEMAND(iblt_core_get(sketch, key, &entry) == IBLT_PRESENT);
	}
}

/* What opened must be closed under the algebra: -(-a) is a, a - a is empty. */
static void
combine(const IbltSketch *sketch)
{
	IbltSketch copy;
	uint32_t i;

	iblt_core_view_copy(&copy, sketch, duplicate(sketch->bytes, sketch->size));
	iblt_core_negate(&copy);
	iblt_core_seal(&copy);
	iblt_core_negate(&copy);
	iblt_core_seal(&copy);
	DEMAND(memcmp(copy.bytes, sketch->bytes, sketch->size) == 0);
	iblt_core_add_sketch(&copy, sketch, -1);
	iblt_core_seal(&copy);
	DEMAND(copy.rows == 0 && iblt_core_meter_is_zero(copy.meter));
	for (i = 0; i < copy.ncells; i++)
		DEMAND(iblt_core_cell_is_zero(&copy, iblt_cell(&copy, i)));
	free(copy.bytes);
}

static void
open_and_use(uint8_t *bytes, size_t size)
{
	IbltSketch sketch;
	IbltStatus status = iblt_core_open(&sketch, bytes, size);

	DEMAND(iblt_core_status_text(status) != NULL);
	if (status != IBLT_OK)
		return;
	DEMAND(sketch.size == size);
	DEMAND(iblt_core_compatible(&sketch.params, &sketch.params) == IBLT_OK);
	(void) iblt_core_meter_bound(sketch.meter);
	peel(&sketch);
	if (sketch.params.limbs <= 64)
		ask(&sketch);
	combine(&sketch);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *bytes;

	if (size > LARGEST_INPUT)
		return 0;
	bytes = duplicate(data, size);
	open_and_use(bytes, size);
	if (size >= 8)
	{
		iblt_store64(bytes + size - 8, XXH3_64bits(bytes, size - 8));
		open_and_use(bytes, size);
	}
	free(bytes);
	return 0;
}

/* An honest sketch of a few rows, of a shape that seed chooses; its size. */
static size_t
honest(uint8_t *bytes, size_t max_size, unsigned int seed)
{
	static const uint32_t ladder[] = { 1, 2, 3, 4, 6, 8, 12, 16 };
	IbltParams params;
	IbltSketch sketch;
	uint8_t key[40] = { 0 };
	unsigned i;

	params.kind = (IbltKeyKind) (seed % 4);
	params.limbs = params.kind == IBLT_KEY_INTEGER ? 1
				   : params.kind == IBLT_KEY_UUID  ? 2
												   : 1 + seed / 4 % 5;
	params.hashes = 3 + (int) (seed / 32 % 6);
	params.subtables = (1u << params.hashes) - 1;
	params.subtable_cells = ladder[seed / 256 % 8];
	params.with_values = seed / 2048 % 2;
	params.seed = seed;
	params.description = (const uint8_t *) "text";
	params.description_size = params.kind == IBLT_KEY_CANONICAL ? 4 : 0;
	if (iblt_core_size(&params) > max_size)
		return 0;
	iblt_core_init(&sketch, &params, bytes);
	for (i = 0; params.kind != IBLT_KEY_UNTYPED && i < seed / 4096 % 16; i++)
	{
		iblt_store64(key, i / 2);
		(void) iblt_core_add_row(&sketch, key, i, i % 3 == 0 ? -1 : 1);
	}
	iblt_core_seal(&sketch);
	return sketch.size;
}

size_t
LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
						unsigned int seed)
{
	size_t made = 0;
	size_t begin;
	size_t length;

	if (size < 560 || seed % 64 == 0)
		made = honest(data, max_size, seed / 64);
	if (made > 0)
		return made;
	if (size < 16 || seed % 8 == 1)
		return LLVMFuzzerMutate(data, size, max_size);

	/* a part of the header or of the cells, in place */
	begin = seed / 8 % (seed % 8 < 3 && size > 40 ? 40 : size);
	length = 1 + seed / 4096 % 64;
	if (begin + length > size)
		length = size - begin;
	(void) LLVMFuzzerMutate(data + begin, length, length);
	return size;
}
