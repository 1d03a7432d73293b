/*
 * test_edges.c
 *		Words, rows and texts at the edge of what is allowed.
 *
 * Random rows hardly ever come here: a lazy word is p or more once in 10^17
 * sums, and a limb is refused as seldom.  So these are made.
 */
#include "model.h"
#include "row.h"

#define LIMB_REFUSED UINT64_MAX /* under its mask: no field element */

static IbltParams
small_params(void)
{
	return make_params(IBLT_KEY_INTEGER, 1, 4, 5, false, 7);
}

/*
 * Cells with each field once as a canonical word below 59 and once as the lazy
 * word that stands for the same, added to and taken from others.
 */
static void
test_lazy_words(void)
{
	static const uint64_t others[] = { 0, 1, IBLT_FP_P - 1, IBLT_FP_P, UINT64_MAX };
	IbltParams params = small_params();

	for (uint64_t word = 0; word < IBLT_FP_FOLD; word++)
		TRIALS(i, 2 * LENGTH(others))
		{
			IbltSketch *canonical = sketch_new(&params);
			IbltSketch *lazy = sketch_new(&params);
			IbltSketch *a = sketch_new(&params);
			IbltSketch *b = sketch_new(&params);
			int sign = i % 2 == 0 ? 1 : -1;

			for (unsigned f = 0; f < a->fields; f++)
			{
				iblt_cell_set_field(canonical->cells, f, word);
				iblt_cell_set_field(lazy->cells, f, word + IBLT_FP_P);
				iblt_cell_set_field(a->cells, f, others[i / 2]);
				iblt_cell_set_field(b->cells, f, others[i / 2]);
			}
			check(iblt_core_cell_is_zero(lazy, lazy->cells) == (word == 0),
				  "the lazy word of %" PRIu64, word);
			iblt_core_add_cell(a, 0, canonical->cells, sign);
			iblt_core_add_cell(b, 0, lazy->cells, sign);
			iblt_core_seal(a);
			iblt_core_seal(b);
			check(same_bytes(a, b), "%" PRIu64 " to other %ld, sign %d", word, i / 2, sign);
		}
	checked("lazy words add as the canonical ones that they stand for");
}

/* A row that is refused leaves nothing in a queue, wherever its slot is. */
static void
test_refused_rows(void)
{
	IbltParams params = small_params();
	const IbltRowAdder *adder = iblt_core_row_adder(&params);

	TRIALS(n, 2 * IBLT_QUEUE_ROWS)
	{
		IbltSketch *a = sketch_new(&params);
		IbltSketch *b = sketch_new(&params);
		IbltQueue queue;
		uint8_t key[8];

		memset(&queue, 0, sizeof queue);
		for (int i = 0; i < n; i++)
		{
			iblt_store64(key, (uint64_t) i);
			check(adder->queue(&queue, a, key, 1, 1) == IBLT_OK, "row %d", i);
			add_integer(b, (uint64_t) i, 1, 1);
		}
		iblt_store64(key, iblt_limb_mask(&a->hasher, 0) ^ LIMB_REFUSED);
		check(adder->queue(&queue, a, key, 1, 1) == IBLT_KEY_NOT_REPRESENTABLE,
			  "it is taken after %ld rows", n);
		iblt_core_queue_flush(&queue, a);
		iblt_core_seal(a);
		iblt_core_seal(b);
		check(same_bytes(a, b), "it left something after %ld rows", n);
	}
	checked("a row that is refused leaves nothing in a queue");
}

/* A character by its code point, or -1 for bytes that are none. */
static long
character(const uint8_t *text, size_t size)
{
	static const long least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t length = text[0] < 0x80 ? 1
		: text[0] >> 5 == 6 ? 2 : text[0] >> 4 == 14 ? 3 : text[0] >> 3 == 30 ? 4 : 0;
	long code = length == 1 ? text[0] : text[0] & (0x7f >> length);

	if (length != size)
		return -1;
	for (size_t i = 1; i < size; i++)
	{
		if (text[i] >> 6 != 2)
			return -1;
		code = code << 6 | (text[i] & 0x3f);
	}
	if (code < least[length] || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff)
		return -1;
	return code;
}

/* Descriptions of one character, all first and second bytes. */
static void
test_descriptions(void)
{
	static const uint8_t third[] = { 0x00, 0x7f, 0x80, 0xbf, 0xc0 };
	IbltParams params = small_params();
	uint8_t text[4];

	params.key.kind = IBLT_KEY_CANONICAL;
	params.key.description = text;
	for (uint32_t i = 0; i < 0x10000 * sizeof third; i++)
	{
		text[0] = (uint8_t) (i >> 8);
		text[1] = (uint8_t) i;
		text[2] = text[3] = third[i >> 16];
		for (size_t size = 1; size <= 4; size++)
		{
			long code = character(text, size);
			IbltStatus wanted = code < 0x20 || code == 0x7f ? IBLT_BAD_DESCRIPTION : IBLT_OK;

			/* several characters are another matter */
			if (code < 0 && size > (text[0] < 0x80 ? 1 : text[0] < 0xe0 ? 2 : 3) && text[0] < 0xf0)
				continue;
			params.key.description_size = size;
			check(iblt_core_check_params(&params) == wanted,
				  "%02x %02x %02x %02x, %zu bytes", text[0], text[1], text[2], text[3], size);
		}
	}
	checked("a description is UTF-8 without control characters");
}

#define MX2 UINT64_C(0x9FB21C651E98DF25) /* the multiplier of XXH3 for 8 bytes */

static uint64_t
rotated(uint64_t x, int n)
{
	return x << n | x >> (64 - n);
}

/* The word whose hash is the one given; XXH3 of 8 bytes can be undone. */
static uint64_t
word_of_hash(uint64_t hash, uint64_t seed)
{
	const uint8_t *secret = XXH3_kSecret;
	uint64_t inverse = MX2;
	uint64_t x = hash;

	for (int i = 0; i < 6; i++)
		inverse *= 2 - MX2 * inverse;
	x ^= x >> 28 ^ x >> 56;
	x *= inverse;
	x ^= (x >> 35) + 8;
	x *= inverse;
	/* 1 + r^49 + r^24, r a rotation by one, is 1 to the power of 64 */
	for (int i = 0; i < 63; i++)
		x ^= rotated(x, 49) ^ rotated(x, 24);
	seed ^= (uint64_t) __builtin_bswap32((uint32_t) seed) << 32;
	x ^= (iblt_load64(secret + 8) ^ iblt_load64(secret + 16)) - seed;
	return x << 32 | x >> 32;
}

/* Hashes that are no field elements, and 0: no weight may be one of them. */
static void
test_weights(void)
{
	IbltHasher hasher;

	iblt_core_hasher_init(&hasher, tap_random());
	for (uint64_t i = 0; i <= IBLT_FP_FOLD; i++)
	{
		uint64_t hash = i == 0 ? 0 : IBLT_FP_P + i - 1;
		uint64_t y = word_of_hash(hash, hasher.weight_seed);

		check(iblt_hash_word(y, hasher.weight_seed) == hash, "%" PRIx64 " is not the hash", hash);
		check(iblt_hash_weight(&hasher, y) == (i < 2 ? 1 : i - 1),
			  "%" PRIx64 " is the weight of %" PRIx64, iblt_hash_weight(&hasher, y), hash);
	}
	checked("a weight is a field element and not zero, whatever the hash is");
}

TAP_MAIN(test_weights, test_lazy_words, test_refused_rows, test_descriptions)
