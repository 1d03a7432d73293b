/*
 * test_sketch.c
 *		The format: golden vectors and sizes.  What the validator refuses is for
 *		test/t/020_format.pl, and in which words for test/sql/type.sql.
 *
 * The golden vectors were computed from doc/internals/format.md by a program of its own,
 * in Python with its own arithmetic; they say what format version 1 is.
 */
#include "model.h"
#include "sizing.h"

#define HEADER_SIZE 552
#define SMALLEST (HEADER_SIZE + 8)

/* --- golden vectors ---------------------------------------------------------- */

static const uint8_t key_uuid[16] = { 0x6f, 0x96, 0x19, 0xff, 0x8b, 0x86,
									  0xd0, 0x11, 0xb4, 0x2d, 0x00, 0xcf,
									  0x4f, 0xc9, 0x64, 0xff };
static const uint8_t key_text[32] = { 0, 0, 0, 5, 'h', 'e', 'l', 'l', 'o' };

/* Row n of the golden sketch of a kind; returns its sign. */
static int
golden_row(IbltKeyKind kind, int n, uint8_t *key, uint64_t *y)
{
	switch (kind)
	{
		case IBLT_KEY_INTEGER:
			iblt_store64(key, (uint64_t) n - 3);
			*y = (uint64_t) n * (uint64_t) n - 5;
			return n % 4 == 3 ? -1 : 1;
		case IBLT_KEY_UUID:
			for (size_t b = 0; b < sizeof key_uuid; b++)
				key[b] = (uint8_t) (key_uuid[b] + n);
			*y = 1000 + (uint64_t) n;
			return n < 4 ? 1 : -1;
		default:
			memcpy(key, key_text, sizeof key_text);
			key[8] = (uint8_t) ('a' + n);
			*y = (uint64_t) n % 3;
			return 1;
	}
}

#define CAFE "text,\"caf\xc3\xa9\""

/* The last ones have many cells, of one subtable, so that each bit of a position counts. */
static const struct
{
	IbltKeyKind kind;
	unsigned limbs;
	int hashes;
	uint32_t cells;
	unsigned subtables; /* 0: all */
	unsigned values;	/* limbs */
	uint64_t seed;
	const char *description; /* NULL: the usual one */
	int rows;
	size_t size;
	uint64_t trailer;
	uint64_t hash;
} golden[] = {
	{IBLT_KEY_INTEGER, 1, 4, 6, 0, 0, 0, NULL, 10, 1232, UINT64_C(0x0DD74939C5E52B00), UINT64_C(0xADA3D70D2E5FBE99)},
	{IBLT_KEY_INTEGER, 1, 3, 4, 0, 1, 7, NULL, 10, 992, UINT64_C(0x99739F921228CBF2), UINT64_C(0xDD849A634E3C79E7)},
	{IBLT_KEY_UUID, 2, 8, 5, 0xb5, 0, UINT64_C(0x0123456789ABCDEF), NULL, 6, 1460, UINT64_C(0xF5D1D4A9DBC616F8), UINT64_C(0x778952D57616E28D)},
	{IBLT_KEY_CANONICAL, 4, 6, 3, 0, 1, UINT64_MAX, CAFE, 9, 1656, UINT64_C(0x29C4F15806A545D0), UINT64_C(0x428A5CB1861F6CAC)},
	{IBLT_KEY_CANONICAL, 4, 6, 3, 0, 2, UINT64_MAX, CAFE, 9, 1800, UINT64_C(0xE50D4099757DAA30), UINT64_C(0xE06F2C7A70652841)},
	{IBLT_KEY_INTEGER, 1, 4, 5, 0, 4, 3, NULL, 10, 1768, UINT64_C(0x198AC60D1EB66A0E), UINT64_C(0xA267B290920C5ABE)},
	{IBLT_KEY_UNTYPED, 4, 4, 360, 0, 5, 1, NULL, 0, 560, UINT64_C(0x2A0C093B0CA35E54), UINT64_C(0xF4902F4BC78B2909)},
	{IBLT_KEY_UNTYPED, 4, 4, 360, 0, 0, 1, NULL, 0, 560, UINT64_C(0xCE7B8C5D57077B16), UINT64_C(0xA5789C34B4C83FB1)},
	{IBLT_KEY_INTEGER, 1, 8, 1 << 20, 0x80, 0, 1, NULL, 10, 29360688, UINT64_C(0xA5EEB8D0BB3909E2), UINT64_C(0xD2FB01884DBF7C18)},
	{IBLT_KEY_UUID, 2, 8, 20160, 0xff, 0, 0, NULL, 6, 5806640, UINT64_C(0x7ADA7037BA18BE2F), UINT64_C(0xCE7E7FAF1FE65478)},
};

static void
test_golden(void)
{
	for (int i = 0; i < LENGTH(golden); i++)
	{
		IbltParams params = make_params(golden[i].kind, golden[i].limbs, golden[i].hashes,
										golden[i].cells, golden[i].values == 1, golden[i].seed);
		IbltSketch *sketch;
		uint8_t key[32];
		uint64_t y;

		if (golden[i].subtables != 0)
			params.subtables = golden[i].subtables;
		if (golden[i].values > 1 && golden[i].kind != IBLT_KEY_UNTYPED)
			set_values(&params, golden[i].values);
		params.value.kind = golden[i].kind == IBLT_KEY_UNTYPED ? IBLT_KEY_UNTYPED : params.value.kind;
		params.value.limbs = golden[i].values;
		if (golden[i].description != NULL)
		{
			params.key.description = (const uint8_t *) golden[i].description;
			params.key.description_size = strlen(golden[i].description);
		}
		sketch = sketch_new(&params);
		for (int n = 0; n < golden[i].rows; n++)
		{
			int sign = golden_row(params.key.kind, n, key, &y);

			(void) sketch_add(sketch, key, y, sign);
		}
		iblt_core_seal(sketch);
		check(sketch->size == golden[i].size && iblt_core_size(&params) == golden[i].size,
			  "vector %d: size %zu", i, sketch->size);
		check(iblt_load64(sketch->bytes + sketch->size - 8) == golden[i].trailer,
			  "vector %d: trailer %016" PRIX64, i, iblt_load64(sketch->bytes + sketch->size - 8));
		check(XXH3_64bits(sketch->bytes, sketch->size) == golden[i].hash,
			  "vector %d: hash %016" PRIX64, i, (uint64_t) XXH3_64bits(sketch->bytes, sketch->size));
	}
	checked("sketches of fixed rows are the golden bytes");
}

/* --- the validator ------------------------------------------------------------ */

/* A sealed sketch of a few rows.  uuids have values. */
static IbltSketch *
sample(IbltKeyKind kind)
{
	unsigned limbs = kind == IBLT_KEY_INTEGER ? 1 : kind == IBLT_KEY_UUID ? 2 : 4;
	IbltParams params = make_params(kind, limbs, 4, 2, false, 99);
	IbltSketch *sketch;
	uint8_t key[32];
	uint64_t y;

	if (kind == IBLT_KEY_UUID)
		set_values(&params, 3);
	sketch = sketch_new(&params);
	for (int n = 0; kind != IBLT_KEY_UNTYPED && n < 3; n++)
	{
		(void) golden_row(kind, n, key, &y);
		(void) sketch_add(sketch, key, y, 1);
	}
	iblt_core_seal(sketch);
	return sketch;
}

/* Opens a copy that ends where its memory does, so that overreads are seen. */
static IbltStatus
open_copy(const uint8_t *bytes, size_t size)
{
	uint8_t *copy = memcpy(take(size), bytes, size);
	IbltSketch sketch;
	IbltStatus status = iblt_core_open(&sketch, copy, size);

	check(memcmp(copy, bytes, size) == 0, "opening changed the bytes");
	if (status == IBLT_OK)
		check(sketch.bytes == copy && sketch.size == size &&
			  sketch.cells + (size_t) sketch.ncells * sketch.cell_size + 8 == copy + size,
			  "the view is not upon the bytes");
	return status;
}

static void
test_sizes(void)
{
	for (int kind = IBLT_KEY_UNTYPED; kind <= IBLT_KEY_CANONICAL; kind++)
	{
		IbltSketch *sketch = sample((IbltKeyKind) kind);
		uint8_t *longer = take_zeros(sketch->size + 64);

		for (size_t size = 0; size < sketch->size + 64; size++)
		{
			size_t kept = size < sketch->size ? size : sketch->size;

			memcpy(longer, sketch->bytes, kept);
			if (size >= SMALLEST)
				repair_trailer(longer, size);
			check(open_copy(longer, size) == (size == sketch->size ? IBLT_OK : IBLT_BAD_SIZE),
				  "kind %d: %zu bytes instead of %zu", kind, size, sketch->size);
		}
	}
	checked("a sketch opens at its own length and at no other");
}

/* --- parameters and sizes ------------------------------------------------------ */

/* What the layout says, in numbers that cannot overflow. */
static double
true_size(const IbltParams *params)
{
	int subtables = 0;

	for (int i = 0; i < 8; i++)
		subtables += (params->subtables & 1u << i) != 0;
	return 560 + 8 * (double) ((params->key.description_size +
								params->value.description_size + 7) / 8) +
		   (double) subtables * params->subtable_cells *
			   (4.0 + 8.0 * (params->key.limbs + 2 + params->value.limbs));
}

static void
check_size(const IbltParams *params, long *refused)
{
	double size = true_size(params);
	bool fits = size <= (double) IBLT_MAX_BYTES;

	*refused += !fits;
	check(iblt_core_size(params) == (fits ? (size_t) size : 0),
		  "%u cells of %u limbs: size %zu, not %.0f", params->subtable_cells,
		  params->key.limbs, iblt_core_size(params), size);
	check(iblt_core_check_params(params) == (fits ? IBLT_OK : IBLT_BAD_SIZE),
		  "%u cells of %u limbs are judged wrongly", params->subtable_cells, params->key.limbs);
}

static void
test_size_computation(void)
{
	long refused = 0;

	for (uint32_t cells = 1; cells <= IBLT_LADDER_MAX; cells++)
	{
		if (!iblt_core_ladder_has(cells))
			continue;
		for (int n = 0; n < 60; n++)
		{
			int hashes = 3 + (int) below(6);
			/* about the limit, where that is possible */
			double brink = (double) IBLT_MAX_BYTES / cells / hashes / 8 - 2;
			unsigned limbs = n < 30 && brink > 3 && brink < 510 ? (unsigned) brink - 2 + below(5)
								 : 1 + below(512);
			IbltParams params = make_params(IBLT_KEY_CANONICAL, limbs, hashes, cells, below(2), 0);

			check_size(&params, &refused);
		}
	}
	check(refused > 500, "only %ld too large", refused);
	checked("sizes are exact, and 0 above the largest value of PostgreSQL");
}

/* Descriptions through the parameters: longest, too long, none. */
static void
test_descriptions(void)
{
	uint8_t text[IBLT_MAX_DESCRIPTION + 1];
	IbltParams params = make_params(IBLT_KEY_CANONICAL, 4, 4, 1, false, 0);
	IbltSketch *sketch;

	params.key.description = memset(text, 'x', sizeof text);
	params.key.description_size = IBLT_MAX_DESCRIPTION;
	check(iblt_core_check_params(&params) == IBLT_OK, "the longest is refused");
	sketch = sketch_new(&params);
	iblt_core_seal(sketch);
	check(open_copy(sketch->bytes, sketch->size) == IBLT_OK, "a sketch with the longest is refused");
	params.key.description_size++;
	check(iblt_core_check_params(&params) == IBLT_BAD_DESCRIPTION, "too long");
	params.key.description_size = 0;
	params.key.description = NULL;
	check(iblt_core_check_params(&params) == IBLT_BAD_DESCRIPTION, "none");
	checked("descriptions are there and not too long");
}

/* Every status has a text of its own. */
static void
test_status_texts(void)
{
	int i;

	for (i = IBLT_OK; i <= IBLT_NOT_A_PART; i++)
		for (int j = IBLT_OK; j < i; j++)
			check(strcmp(iblt_core_status_text((IbltStatus) i),
						 iblt_core_status_text((IbltStatus) j)) != 0,
				  "statuses %d and %d read alike", i, j);
	check(strcmp(iblt_core_status_text((IbltStatus) i), "unknown status") == 0,
		  "status %d has a text", i);
	checked("each status has a text of its own");
}

TAP_MAIN(test_golden, test_sizes, test_size_computation, test_descriptions, test_status_texts)
