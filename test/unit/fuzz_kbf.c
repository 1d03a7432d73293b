/*
 * fuzz_kbf.c
 *		libFuzzer target: bytes from anywhere, opened as a key-value Bloom filter
 *		and used.
 *
 * What opens is asked for keys, changed, added, subtracted and folded.  The
 * sanitizers watch; and what every operation leaves must open again, a value
 * that is found must be one that can be deleted, and inserting must undo that.
 */
#include "fuzz.h"
#include "kbf_cell.h"
#include "kbf_size.h"

/* Beyond this it is the tester's time, not the core's. */
#define LARGEST_INPUT	(1 << 16)

#define KEYS			24

static void
demand_valid(IbltKbf *kbf)
{
	IbltKbf		view;

	iblt_core_kbf_seal(kbf);
	DEMAND(iblt_core_kbf_open(&view, kbf->bytes, kbf->size) == IBLT_OK);
}

static void
copy_of(IbltKbf *copy, const IbltKbf *kbf)
{
	iblt_core_kbf_init(copy, &kbf->params, fuzz_duplicate(kbf->bytes, kbf->size));
	DEMAND(iblt_core_kbf_add(copy, kbf) == IBLT_OK);
}

/* Takes the key out with its value and puts it back. */
static void
move_out_and_in(const IbltKbf *kbf, const uint8_t *key, unsigned value)
{
	IbltKbf		copy;
	unsigned	again;

	copy_of(&copy, kbf);
	if (iblt_core_kbf_delete(&copy, key, 8, value) == IBLT_OK)
	{
		demand_valid(&copy);
		DEMAND(iblt_core_kbf_insert(&copy, key, 8, value) == IBLT_OK);
		iblt_core_kbf_seal(&copy);
		DEMAND(memcmp(copy.bytes, kbf->bytes, kbf->size) == 0);
	}
	if (iblt_core_kbf_update(&copy, key, 8, value, 1) == IBLT_OK)
	{
		demand_valid(&copy);
		DEMAND(iblt_core_kbf_get(&copy, key, 8, &again) != IBLT_ABSENT);
	}
}

static void
ask(const IbltKbf *kbf)
{
	for (uint64_t i = 0; i < KEYS; i++)
	{
		uint8_t		key[8];
		unsigned	value = 0;
		IbltPresence answer;
		IbltKbf		copy;

		iblt_store64(key, i);
		answer = iblt_core_kbf_get(kbf, key, 8, &value);
		if (answer == IBLT_PRESENT)
			DEMAND(value >= 1 && value <= kbf->params.values);
		if (answer == IBLT_PRESENT && kbf->keys > 0)
		{
			copy_of(&copy, kbf);
			DEMAND(iblt_core_kbf_delete(&copy, key, 8, value) == IBLT_OK);
		}
		move_out_and_in(kbf, key, answer == IBLT_PRESENT ? value
						: 1 + (unsigned) i % kbf->params.values);
	}
}

/* 0 + a = a, a - a has nothing but full cells, a + a opens, and less a is a. */
static void
combine(const IbltKbf *kbf)
{
	IbltKbf		sum;
	uint32_t	full = iblt_core_kbf_full_cells(kbf);

	copy_of(&sum, kbf);
	iblt_core_kbf_init(&sum, &kbf->params, sum.bytes);
	DEMAND(iblt_core_kbf_add(&sum, kbf) == IBLT_OK);
	demand_valid(&sum);
	DEMAND(memcmp(sum.bytes, kbf->bytes, kbf->size) == 0);
	if (iblt_core_kbf_add(&sum, kbf) == IBLT_OK)
	{
		demand_valid(&sum);
		if (iblt_core_kbf_subtract(&sum, kbf) == IBLT_OK)
		{
			demand_valid(&sum);
			DEMAND(iblt_core_kbf_full_cells(&sum) != full ||
				   memcmp(sum.bytes, kbf->bytes, kbf->size) == 0);
		}
	}
	copy_of(&sum, kbf);
	DEMAND(iblt_core_kbf_subtract(&sum, kbf) == IBLT_OK);
	demand_valid(&sum);
	DEMAND(sum.keys == 0 && iblt_core_kbf_full_cells(&sum) == full);
}

static void
fold(const IbltKbf *kbf)
{
	IbltKbfParams params = kbf->params;
	uint32_t	factor = 2;
	IbltKbf		folded;

	while (factor < params.subtable_cells && params.subtable_cells % factor != 0)
		factor++;
	if (params.subtable_cells % factor != 0)
		return;
	params.subtable_cells /= factor;
	iblt_core_kbf_init(&folded, &params, take(iblt_core_kbf_size(&params)));
	DEMAND(iblt_core_kbf_add(&folded, kbf) == IBLT_OK);
	demand_valid(&folded);
}

static void
use_labels(const IbltKbf *kbf)
{
	unsigned	value;

	for (value = 1; kbf->params.labels_size > 0 && value <= kbf->params.values; value++)
	{
		size_t		size;
		const uint8_t *label = iblt_core_kbf_label(&kbf->params, value, &size);
		unsigned	found = iblt_core_kbf_labelled(&kbf->params, label, size);

		DEMAND(found >= 1 && found <= value);
	}
}

static void
open_and_use(uint8_t *bytes, size_t size)
{
	static IbltKbf kbf;
	IbltStatus	status = iblt_core_kbf_open(&kbf, bytes, size);
	IbltKbfRates rates;

	DEMAND(iblt_core_status_text(status) != NULL);
	if (status != IBLT_OK)
		return;
	DEMAND(kbf.size == size);
	DEMAND(iblt_core_kbf_compatible(&kbf.params, &kbf.params) == IBLT_OK);
	use_labels(&kbf);
	iblt_core_kbf_rates(&kbf.params, (double) kbf.keys / kbf.params.subtable_cells, &rates);
	DEMAND(rates.unknown >= 0 && rates.unknown <= 1 + 1e-9 &&
		   rates.false_positive >= 0 && rates.false_positive <= 1 + 1e-9 &&
		   rates.absent_unknown >= 0 && rates.absent_unknown <= 1 + 1e-9);
	combine(&kbf);
	ask(&kbf);
	fold(&kbf);
}

/* An honest filter of a few pairs, of a shape that seed chooses; its size. */
static size_t
honest(uint8_t *bytes, size_t max_size, unsigned int seed)
{
	static IbltKbf kbf;
	IbltKbfParams params = {.hashes = 2 + (int) (seed / 4 % 7), .degree = 3 + (int) (seed / 32 % 10),
		.superposed = 1 + (int) (seed / 512 % 3), .subtable_cells = 1 + seed / 2048 % 16,
		.key.kind = (IbltKeyKind) (seed % 4), .seed = seed};
	unsigned	i;

	params.values = 1 + seed / 128 % gf_values(params.degree);
	params.key.description = (const uint8_t *) "text";
	params.key.description_size = params.key.kind == IBLT_KEY_CANONICAL ? 4 : 0;
	params.labels = (const uint8_t *) "\1a\2bc\1d";
	params.labels_size = params.values == 3 ? 7 : 0;
	if (iblt_core_kbf_size(&params) > max_size)
		return 0;
	iblt_core_kbf_init(&kbf, &params, bytes);
	for (i = 0; params.key.kind != IBLT_KEY_UNTYPED && i < seed / 32768 % 64; i++)
	{
		uint8_t		key[8];

		iblt_store64(key, i);
		DEMAND(iblt_core_kbf_insert(&kbf, key, sizeof key, 1 + i * 7 % params.values) == IBLT_OK);
	}
	iblt_core_kbf_seal(&kbf);
	return kbf.size;
}

FUZZ_TARGET(IBLT_KBF_HEADER_SIZE + 8, IBLT_KBF_HEADER_SIZE)
