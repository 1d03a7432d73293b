/*
 * test_kbf.c
 *		The key-value Bloom filter: its format, its algebra and its answers.
 *
 * The golden values were computed from doc/internals/format.md by a program of its own,
 * in Python with its own arithmetic.  Answers are compared with an enumeration
 * of all values that a cell can have.  How often a filter answers, and what an
 * overload leaves, is for test_kbf_size.c and test/sim/sim_kbf_ours.c.
 */
#include "kbf_cell.h"
#include "kbf_size.h"
#include "model.h"

#define MAX_PAIRS	5000

/* Offsets of the header, as doc/internals/format.md has them. */
#define AT_HASHES		5
#define AT_DEGREE		6
#define AT_KIND			8
#define AT_RESERVED		9
#define AT_VALUES		10
#define AT_CELLS		12
#define AT_KEYS			24
#define AT_DESCRIPTION	32
#define AT_LABELS		36

typedef struct Pair
{
	uint64_t	key;
	unsigned	value;
} Pair;

/* --- filters in memory of their own exact size ------------------------------ */

static IbltKbfParams
params_of(int hashes, int degree, int superposed, uint32_t cells)
{
	IbltKbfParams params = {0};

	params.hashes = hashes;
	params.degree = degree;
	params.superposed = superposed;
	params.values = gf_values(degree);
	params.subtable_cells = cells;
	params.key.kind = IBLT_KEY_INTEGER;
	params.seed = tap_random();
	return params;
}

static uint64_t
code_of(const IbltKbfParams *params, unsigned element)
{
	return iblt_core_gf_encode(element, params->degree, params->superposed);
}

static IbltKbfParams
random_params(void)
{
	int			degree = 3 + (int) below(10);
	IbltKbfParams params = params_of(2 + (int) below(7), degree, 1 + (int) below(3),
									 1 + below(40));

	params.values = 1 + below(params.values);
	return params;
}

static void
make_kbf(IbltKbf *kbf, const IbltKbfParams *params)
{
	uint8_t    *bytes = take(iblt_core_kbf_size(params));

	if (iblt_core_kbf_check_params(params) != IBLT_OK)
		abort();
	iblt_core_kbf_init(kbf, params, bytes);
	iblt_core_kbf_seal(kbf);
}

static void
copy_kbf(IbltKbf *copy, const IbltKbf *kbf)
{
	iblt_core_kbf_init(copy, &kbf->params, take(kbf->size));
	(void) iblt_core_kbf_add(copy, kbf);
	iblt_core_kbf_seal(copy);
}

static IbltStatus
put(IbltKbf *kbf, Pair pair)
{
	uint8_t		key[8];

	iblt_store64(key, pair.key);
	return iblt_core_kbf_insert(kbf, key, sizeof key, pair.value);
}

static IbltStatus
drop(IbltKbf *kbf, Pair pair)
{
	uint8_t		key[8];

	iblt_store64(key, pair.key);
	return iblt_core_kbf_delete(kbf, key, sizeof key, pair.value);
}

static IbltPresence
get(const IbltKbf *kbf, uint64_t number, unsigned *value)
{
	uint8_t		key[8];

	iblt_store64(key, number);
	return iblt_core_kbf_get(kbf, key, sizeof key, value);
}

static void
draw_pairs(Pair *pairs, int n, unsigned values)
{
	for (int i = 0; i < n; i++)
	{
		pairs[i].key = tap_random();
		pairs[i].value = 1 + below(values);
	}
}

static void
shuffle(Pair *pairs, int n)
{
	for (int i = n - 1; i > 0; i--)
	{
		int			j = (int) below((uint32_t) i + 1);
		Pair		t = pairs[i];

		pairs[i] = pairs[j];
		pairs[j] = t;
	}
}

static void
fill(IbltKbf *kbf, const Pair *pairs, int n)
{
	for (int i = 0; i < n; i++)
		if (put(kbf, pairs[i]) != IBLT_OK)
			abort();
	iblt_core_kbf_seal(kbf);
}

static bool
same(IbltKbf *a, IbltKbf *b)
{
	iblt_core_kbf_seal(a);
	iblt_core_kbf_seal(b);
	return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

/* Does the validator accept what an operation left, after sealing? */
static bool
valid(IbltKbf *kbf)
{
	IbltKbf		view;

	iblt_core_kbf_seal(kbf);
	return iblt_core_kbf_open(&view, kbf->bytes, kbf->size) == IBLT_OK &&
		view.keys == kbf->keys && view.cells == kbf->cells;
}

/* --- format -------------------------------------------------------------------- */

static const uint8_t golden_bytes[64] = {
	0x49, 0x42, 0x4c, 0x4b, 0x01, 0x03, 0x03, 0x02, 0x01, 0x00, 0x07, 0x00,
	0x04, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x51, 0x03, 0x00, 0x80, 0x74, 0x00, 0x44, 0x1d,
	0x63, 0xf8, 0x00, 0x48, 0x17, 0x35, 0x00, 0x00, 0xf5, 0xb0, 0xba, 0x98,
	0xaf, 0xe1, 0x44, 0x96
};

/* The pairs 1: 3, -1: 5, 42: 5. */
static void
test_golden_integers(void)
{
	const Pair	pairs[] = {{1, 3}, {UINT64_MAX, 5}, {42, 5}};
	IbltKbfParams params = params_of(3, 3, 2, 4);
	IbltKbf		kbf;

	params.seed = 1;
	make_kbf(&kbf, &params);
	fill(&kbf, pairs, 3);
	tap_ok(kbf.size == sizeof golden_bytes &&
		   memcmp(kbf.bytes, golden_bytes, kbf.size) == 0, "golden bytes of integer keys");
	free(kbf.bytes);
}

/* 61 uuids in 48 cells, of which some are full. */
static void
test_golden_uuids(void)
{
	uint8_t		uuid[16] = {0x6f, 0x96, 0x19, 0xff, 0x8b, 0x86, 0xd0, 0x11,
	0xb4, 0x2d, 0x00, 0xcf, 0x4f, 0xc9, 0x64, 0xff};
	IbltKbfParams params = params_of(8, 8, 3, 6);
	IbltKbf		kbf;

	params.seed = UINT64_C(0x0123456789abcdef);
	params.key.kind = IBLT_KEY_UUID;
	make_kbf(&kbf, &params);
	(void) iblt_core_kbf_insert(&kbf, uuid, sizeof uuid, 200);
	memset(uuid, 0, sizeof uuid);
	for (uint64_t i = 0; i < 60; i++)
	{
		iblt_store64(uuid, i);
		(void) iblt_core_kbf_insert(&kbf, uuid, sizeof uuid, 1 + (unsigned) i % 255);
	}
	iblt_core_kbf_seal(&kbf);
	tap_ok(kbf.size == 216 && XXH3_64bits(kbf.bytes, kbf.size) == UINT64_C(0xe3a8fde9a852df5d),
		   "golden hash of uuid keys");
	free(kbf.bytes);
}

static const uint8_t labels[] = "\3new\7shipped\5r\303\274ck";

static IbltKbfParams
labelled_params(void)
{
	IbltKbfParams params = params_of(5, 12, 3, 100);

	params.values = 3;
	params.seed = UINT64_MAX;
	params.key.kind = IBLT_KEY_CANONICAL;
	params.key.description = (const uint8_t *) "text";
	params.key.description_size = 4;
	params.labels = labels;
	params.labels_size = sizeof labels - 1;
	return params;
}

static void
test_golden_labels(void)
{
	IbltKbfParams params = labelled_params();
	IbltKbf		kbf;
	size_t		size;
	const uint8_t *label;

	make_kbf(&kbf, &params);
	(void) iblt_core_kbf_insert(&kbf, (const uint8_t *) "\0\0\0\5hello", 9, 1);
	(void) iblt_core_kbf_insert(&kbf, (const uint8_t *) "\0\0\0\0", 4, 3);
	iblt_core_kbf_seal(&kbf);
	tap_ok(kbf.size == 2576 && XXH3_64bits(kbf.bytes, kbf.size) == UINT64_C(0xa4f8d7f38609f78e),
		   "golden hash of canonical keys with labels");

	label = iblt_core_kbf_label(&kbf.params, 2, &size);
	check(size == 7 && memcmp(label, "shipped", 7) == 0, "label 2");
	label = iblt_core_kbf_label(&kbf.params, 3, &size);
	check(size == 5 && memcmp(label, "r\303\274ck", 5) == 0, "label 3");
	check(iblt_core_kbf_labelled(&kbf.params, (const uint8_t *) "new", 3) == 1, "new");
	check(iblt_core_kbf_labelled(&kbf.params, (const uint8_t *) "r\303\274ck", 5) == 3, "last");
	check(iblt_core_kbf_labelled(&kbf.params, (const uint8_t *) "ne", 2) == 0, "prefix");
	checked("labels are found by value, and values by label");
	free(kbf.bytes);
}

/* Opens a copy of exactly `size` bytes. */
static IbltStatus
open_copy(const uint8_t *bytes, size_t size)
{
	uint8_t    *copy = take(size);
	IbltKbf		view;
	IbltStatus	status;

	memcpy(copy, bytes, size);
	status = iblt_core_kbf_open(&view, copy, size);
	free(copy);
	return status;
}

static void
rewrite_checksum(uint8_t *bytes, size_t size)
{
	iblt_store64(bytes + size - 8, XXH3_64bits_withSeed(bytes, size - 8, 0));
}

/* Every bit flipped, every length cut, and one byte more. */
static void
test_damage(void)
{
	IbltKbfParams params = labelled_params();
	IbltKbf		kbf;
	size_t		bit,
				size;
	uint8_t    *longer;
	long		opened = 0;

	params.subtable_cells = 7;
	make_kbf(&kbf, &params);
	(void) iblt_core_kbf_insert(&kbf, (const uint8_t *) "\0\0\0\5hello", 9, 1);
	iblt_core_kbf_seal(&kbf);
	check(open_copy(kbf.bytes, kbf.size) == IBLT_OK, "undamaged");
	for (bit = 0; bit < 8 * kbf.size; bit++)
	{
		kbf.bytes[bit / 8] ^= (uint8_t) (1 << bit % 8);
		check(open_copy(kbf.bytes, kbf.size) != IBLT_OK, "bit %zu", bit);
		/* a crafted value: whatever opens must be consistent */
		rewrite_checksum(kbf.bytes, kbf.size);
		opened += bit < 8 * (kbf.size - 8) &&
			open_copy(kbf.bytes, kbf.size) == IBLT_OK;
		kbf.bytes[bit / 8] ^= (uint8_t) (1 << bit % 8);
		rewrite_checksum(kbf.bytes, kbf.size);
	}
	for (size = 0; size < kbf.size; size++)
		check(open_copy(kbf.bytes, size) != IBLT_OK, "cut to %zu", size);
	longer = take(kbf.size + 1);
	memcpy(longer, kbf.bytes, kbf.size);
	longer[kbf.size] = 0;
	check(open_copy(longer, kbf.size + 1) == IBLT_BAD_SIZE, "one more byte");
	/*
	 * these say something else, and it is possible: 64 bits of the seed, and in
	 * the texts those that leave plain letters or printing characters
	 */
	check(opened >= 64 && opened < 64 + 8 * (4 + 15), "%ld flips open", opened);
	checked("every flipped bit and every wrong length is refused");
	free(longer);
	free(kbf.bytes);
}

/*
 * A byte of a valid filter changed, with the right checksum.  All the values that it may
 * not have are for test/t/022_kbf_format.pl.
 */
static void
test_spoiled(void)
{
	static const struct
	{
		size_t		at;
		uint8_t		byte;
		IbltStatus	expected;
	}			spoilers[] = {
		{0, 'X', IBLT_BAD_MAGIC}, {4, 0, IBLT_BAD_VERSION},
		{AT_HASHES, 1, IBLT_BAD_HASHES}, {AT_HASHES, 4, IBLT_BAD_SIZE},
		{AT_DEGREE, 2, IBLT_BAD_VALUES}, {AT_KIND, 4, IBLT_BAD_KEY_KIND},
		{AT_RESERVED, 1, IBLT_BAD_RESERVED}, {AT_CELLS, 0, IBLT_BAD_CELLS},
		{AT_VALUES, 4, IBLT_OK},	/* any element may be a value */
		{AT_KEYS, 2, IBLT_BAD_COUNTER}, {AT_KEYS + 7, 0x80, IBLT_COUNT_OVERFLOW},
		{AT_DESCRIPTION, 1, IBLT_BAD_DESCRIPTION}, {AT_LABELS, 1, IBLT_BAD_LABELS},
		{40, 0x50, IBLT_BAD_COUNTER},	/* a value, but no pair */
		{40, 0x52, IBLT_BAD_COUNTER},	/* one pair more */
		{40, 0x5f, IBLT_BAD_COUNTER},	/* full, with a value */
		{41, 0x00, IBLT_BAD_COUNTER}	/* not the code of a value */
	};

	for (size_t i = 0; i < sizeof spoilers / sizeof spoilers[0]; i++)
	{
		uint8_t		bytes[sizeof golden_bytes];
		IbltStatus	status;

		memcpy(bytes, golden_bytes, sizeof bytes);
		bytes[spoilers[i].at] = spoilers[i].byte;
		rewrite_checksum(bytes, sizeof bytes);
		status = open_copy(bytes, sizeof bytes);
		check(status == spoilers[i].expected, "spoiler %zu: %s, not %s", i,
			  iblt_core_status_text(status),
			  iblt_core_status_text(spoilers[i].expected));
	}
	checked("crafted headers and cells are refused");
}

/* Cells that are possible one by one, but not together. */
static void
test_sums(void)
{
	IbltKbfParams params = params_of(3, 4, 2, 5);
	uint64_t	one = iblt_kbf_make_cell(1, code_of(&params, 9));
	uint64_t	other = iblt_kbf_make_cell(1, code_of(&params, 8));
	uint64_t	no_code = iblt_kbf_make_cell(1, code_of(&params, 8) ^ 0x10);
	IbltKbf		kbf;

	make_kbf(&kbf, &params);
	kbf.keys = 1;
	iblt_kbf_set_cell(&kbf, 0, one);
	iblt_kbf_set_cell(&kbf, 6, one);
	check(!valid(&kbf), "a subtable lacks a pair");
	iblt_kbf_set_cell(&kbf, 13, other);
	check(!valid(&kbf), "a subtable has another value");
	iblt_kbf_set_cell(&kbf, 13, one);
	check(valid(&kbf), "each subtable has the pair");
	iblt_kbf_set_cell(&kbf, 14, IBLT_KBF_FULL);
	iblt_kbf_set_cell(&kbf, 13, other);
	check(valid(&kbf), "a subtable with a full cell says nothing");
	iblt_kbf_set_cell(&kbf, 14, iblt_kbf_make_cell(IBLT_KBF_FULL, 1));
	check(!valid(&kbf), "a full cell has content");
	for (uint32_t cell = 0; cell < 15; cell++)
		iblt_kbf_set_cell(&kbf, cell, cell % 5 == 0 ? no_code : 0);
	check(!valid(&kbf), "one pair without a code");
	checked("subtables must add up to the same");
	free(kbf.bytes);
}

/* The bits between the last cell and the checksum, for cells of all sizes. */
static void
test_padding(void)
{
	for (long round = 0; round < 200; round++)
	{
		IbltKbfParams params = random_params();
		size_t		used = (size_t) params.hashes * params.subtable_cells *
			(size_t) (4 + params.degree * params.superposed);
		IbltKbf		kbf;

		make_kbf(&kbf, &params);
		check(kbf.size == 48 + (used + 63) / 64 * 8, "size");
		for (size_t bit = used; bit < 8 * (kbf.size - 48); bit++)
		{
			kbf.cells[bit / 8] ^= (uint8_t) (1 << bit % 8);
			rewrite_checksum(kbf.bytes, kbf.size);
			check(open_copy(kbf.bytes, kbf.size) == IBLT_BAD_RESERVED, "bit %zu", bit);
			kbf.cells[bit / 8] ^= (uint8_t) (1 << bit % 8);
		}
		free(kbf.bytes);
	}
	checked("bits behind the last cell must be zero");
}

static IbltStatus
check_with(IbltKbfParams params, const char *text, size_t size)
{
	params.labels = (const uint8_t *) text;
	params.labels_size = size;
	return iblt_core_kbf_check_params(&params);
}

static void
test_params(void)
{
	IbltKbfParams params = params_of(4, 3, 3, 1);
	static uint8_t many[256 * 4];

	params.values = 2;
	check(check_with(params, "\1a\2bc", 5) == IBLT_OK, "two labels");
	check(check_with(params, "\1a", 2) == IBLT_BAD_LABELS, "one label");
	check(check_with(params, "\1a\2b", 4) == IBLT_BAD_LABELS, "cut short");
	check(check_with(params, "\1a\2bc\1d", 7) == IBLT_BAD_LABELS, "three labels");
	check(check_with(params, "\1a\0", 3) == IBLT_BAD_LABELS, "empty label");
	check(check_with(params, "\1a\1\n", 4) == IBLT_BAD_LABELS, "control character");
	check(check_with(params, "\1a\1\377", 4) == IBLT_BAD_LABELS, "not UTF-8");
	params.values = 4;
	memset(many, 0xff, sizeof many);
	check(check_with(params, (char *) many, sizeof many) == IBLT_BAD_LABELS, "not UTF-8");
	memset(many, 'x', sizeof many);
	many[0] = many[256] = many[512] = many[768] = 255;
	check(check_with(params, (char *) many, sizeof many) == IBLT_OK, "long labels");
	params.labels_size = 0;
	params.subtable_cells = IBLT_KBF_MAX_CELLS;
	check(iblt_core_kbf_check_params(&params) == IBLT_OK, "many cells");
	params = params_of(8, 12, 3, IBLT_KBF_MAX_CELLS);
	check(iblt_core_kbf_check_params(&params) == IBLT_OK, "640 MB");
	params.subtable_cells++;
	check(iblt_core_kbf_check_params(&params) == IBLT_BAD_CELLS, "too many cells");
	checked("parameters at and beyond their limits");
}

static void
test_compatible(void)
{
	IbltKbfParams a = labelled_params();
	IbltKbfParams b[10];
	const IbltStatus expected[10] = {
		IBLT_OK, IBLT_OTHER_HASHES, IBLT_OTHER_CODES, IBLT_OTHER_CODES,
		IBLT_OTHER_CODES, IBLT_OTHER_CELLS, IBLT_OTHER_SEED, IBLT_OTHER_LABELS,
		IBLT_OTHER_KEY_TYPE, IBLT_OK
	};

	for (int i = 0; i < 10; i++)
		b[i] = a;
	b[1].hashes--;
	b[2].degree--;
	b[3].superposed--;
	b[4].values--;
	b[5].subtable_cells--;
	b[6].seed--;
	b[7].labels = (const uint8_t *) "\3new\7shipped\5r\303\274cK";
	b[8].key.description = (const uint8_t *) "tex2";
	b[9].key.kind = IBLT_KEY_UNTYPED;
	b[9].key.description_size = 0;
	for (int i = 0; i < 10; i++)
		check(iblt_core_kbf_compatible(&a, &b[i]) == expected[i] &&
			  iblt_core_kbf_compatible(&b[i], &a) == expected[i], "parameters %d", i);
	checked("filters are compatible if no parameter differs");

	b[0] = a;
	b[0].labels = (const uint8_t *) "\3new\7shipped\5r\303\274ck\1x";
	b[0].labels_size = a.labels_size + 2;
	b[0].values = a.values + 1;
	check(iblt_core_kbf_compatible(&a, &b[0]) == IBLT_OK &&
		  iblt_core_kbf_compatible(&b[0], &a) == IBLT_OK, "one label more");
	b[1] = a;
	b[1].key.kind = IBLT_KEY_UNTYPED;
	b[1].key.description_size = 0;
	check(iblt_core_kbf_widen(&b[1], &b[0]) && b[1].values == b[0].values &&
		  b[1].labels_size == b[0].labels_size && b[1].key.kind == a.key.kind &&
		  b[1].key.description_size == a.key.description_size, "not widened");
	check(!iblt_core_kbf_widen(&b[1], &a) && b[1].values == b[0].values,
		  "labels lost");
	b[1].labels = (const uint8_t *) "\3new\7shipped\5r\303\274cK\1x";
	check(iblt_core_kbf_compatible(&a, &b[1]) == IBLT_OTHER_LABELS,
		  "another label");
	b[1].labels_size = 0;
	check(iblt_core_kbf_compatible(&a, &b[1]) != IBLT_OK &&
		  !iblt_core_kbf_labels_go(&b[1], &a), "without labels");
	checked("labels may go on after those of the other filter");
}

/* --- algebra --------------------------------------------------------------------- */

static Pair pairs[MAX_PAIRS];

/* Inserts into several filters, and adds these up in some order. */
static void
sum_in_parts(IbltKbf *sum, const IbltKbfParams *params, int n)
{
	IbltKbf		part[4];

	for (int i = 0; i < 4; i++)
		make_kbf(&part[i], params);
	for (int i = 0; i < n; i++)
		(void) put(&part[below(4)], pairs[i]);
	/* (0 + 1) + (2 + 3) or ((3 + 2) + 1) + 0 */
	if (below(2) == 0)
	{
		(void) iblt_core_kbf_add(&part[0], &part[1]);
		(void) iblt_core_kbf_add(&part[2], &part[3]);
		(void) iblt_core_kbf_add(&part[0], &part[2]);
		copy_kbf(sum, &part[0]);
	}
	else
	{
		for (int i = 2; i >= 0; i--)
			(void) iblt_core_kbf_add(&part[3], &part[i]);
		copy_kbf(sum, &part[3]);
	}
	for (int i = 0; i < 4; i++)
		free(part[i].bytes);
}

/* Insertions and sums in any order, also when cells become full. */
static void
test_any_order(void)
{
	long		full = 0;

	for (long round = 0; round < scaled(1000); round++)
	{
		IbltKbfParams params = random_params();
		int			n = (int) below(16 * params.subtable_cells);
		IbltKbf		a,
					b,
					c;

		draw_pairs(pairs, n, params.values);
		make_kbf(&a, &params);
		make_kbf(&b, &params);
		fill(&a, pairs, n);
		shuffle(pairs, n);
		fill(&b, pairs, n);
		sum_in_parts(&c, &params, n);
		full += iblt_core_kbf_full_cells(&a);
		check(valid(&a) && same(&a, &b), "round %ld: another order", round);
		check(same(&a, &c), "round %ld: parts", round);
		free(a.bytes);
		free(b.bytes);
		free(c.bytes);
	}
	check(full > 0, "no cell was full");
	checked("insertions and sums in any order make the same bytes");
}

static void
test_folds(void)
{
	static const uint32_t factors[] = {1, 2, 3, 4, 6, 12};

	for (long round = 0; round < scaled(600); round++)
	{
		IbltKbfParams params = random_params();
		IbltKbfParams small;
		int			n = (int) below(400);
		IbltKbf		a,
					b,
					folded;

		params.subtable_cells = 12 * (1 + below(6));
		small = params;
		small.subtable_cells /= factors[below(6)];
		draw_pairs(pairs, n, params.values);
		make_kbf(&a, &params);
		fill(&a, pairs, n);
		make_kbf(&b, &small);
		fill(&b, pairs, n);
		make_kbf(&folded, &small);
		(void) iblt_core_kbf_add(&folded, &a);
		check(valid(&folded) && same(&folded, &b), "round %ld: %u to %u cells", round,
			  params.subtable_cells, small.subtable_cells);
		free(a.bytes);
		free(b.bytes);
		free(folded.bytes);
	}
	checked("a fold is what would have been built with fewer cells");
}

/* Do two filters agree, except in cells that are full in one of them? */
static bool
agree_where_not_full(const IbltKbf *a, const IbltKbf *b)
{
	for (uint32_t i = 0; i < a->ncells; i++)
	{
		uint64_t	x = iblt_kbf_cell(a, i);
		uint64_t	y = iblt_kbf_cell(b, i);

		if (x != y && iblt_kbf_count(x) != IBLT_KBF_FULL &&
			iblt_kbf_count(y) != IBLT_KBF_FULL)
			return false;
	}
	return a->keys == b->keys;
}

/* Are all full cells of the first full in the second? */
static bool
full_in_both(const IbltKbf *a, const IbltKbf *b)
{
	for (uint32_t i = 0; i < a->ncells; i++)
		if (iblt_kbf_count(iblt_kbf_cell(a, i)) == IBLT_KBF_FULL &&
			iblt_kbf_count(iblt_kbf_cell(b, i)) != IBLT_KBF_FULL)
			return false;
	return true;
}

/*
 * n pairs, of which the first `gone` are deleted: never inserted, deleted one
 * by one, subtracted, and deleted right after they were inserted.
 */
static void
test_deletions(void)
{
	long		full = 0;

	for (long round = 0; round < scaled(600); round++)
	{
		IbltKbfParams params = random_params();
		int			n = 1 + (int) below(12 * params.subtable_cells);
		int			gone = (int) below((uint32_t) n + 1);
		IbltKbf		never,
					deleted,
					less,
					part,
					soon;

		draw_pairs(pairs, n, params.values);
		make_kbf(&never, &params);
		fill(&never, pairs + gone, n - gone);
		make_kbf(&deleted, &params);
		fill(&deleted, pairs, n);
		copy_kbf(&less, &deleted);
		make_kbf(&part, &params);
		fill(&part, pairs, gone);
		make_kbf(&soon, &params);
		for (int i = 0; i < n; i++)
		{
			(void) put(&soon, pairs[i]);
			check(i >= gone || drop(&soon, pairs[i]) == IBLT_OK, "deleted at once");
		}
		full += iblt_core_kbf_full_cells(&deleted);
		check(iblt_core_kbf_subtract(&less, &part) == IBLT_OK, "round %ld: a part", round);
		shuffle(pairs, gone);
		for (int i = 0; i < gone; i++)
			check(drop(&deleted, pairs[i]) == IBLT_OK, "round %ld: pair %d", round, i);
		check(same(&deleted, &less), "round %ld: deleted and subtracted", round);
		check(valid(&deleted) && valid(&soon), "round %ld: not valid", round);
		check(agree_where_not_full(&deleted, &never) &&
			  agree_where_not_full(&soon, &never), "round %ld: other cells", round);
		check(full_in_both(&never, &soon) && full_in_both(&soon, &deleted),
			  "round %ld: the last deletions fill most", round);
		check(iblt_core_kbf_full_cells(&deleted) > 0 || same(&deleted, &never),
			  "round %ld: not what it would have been", round);
		free(never.bytes);
		free(deleted.bytes);
		free(less.bytes);
		free(part.bytes);
		free(soon.bytes);
	}
	check(full > 0, "no cell was full");
	checked("deletions leave what was never inserted, except in full cells");
}

/* What is not there is not taken out, and nothing changes then. */
static void
test_refusals(void)
{
	IbltKbfParams params = params_of(5, 8, 3, 2000);
	IbltKbf		kbf,
				before,
				part;
	uint8_t		key[8] = {1};
	uint8_t		absent[8] = {2};

	params.values = 200;
	make_kbf(&kbf, &params);
	check(iblt_core_kbf_delete(&kbf, key, 8, 7) == IBLT_NOT_IN_FILTER, "from nothing");
	check(iblt_core_kbf_insert(&kbf, key, 8, 7) == IBLT_OK, "insert");
	iblt_core_kbf_seal(&kbf);
	copy_kbf(&before, &kbf);
	check(iblt_core_kbf_insert(&kbf, key, 8, 0) == IBLT_VALUE_OUT_OF_RANGE, "0");
	check(iblt_core_kbf_insert(&kbf, key, 8, 201) == IBLT_VALUE_OUT_OF_RANGE, "201");
	check(iblt_core_kbf_delete(&kbf, key, 8, 0) == IBLT_VALUE_OUT_OF_RANGE, "0");
	check(iblt_core_kbf_delete(&kbf, key, 8, 201) == IBLT_VALUE_OUT_OF_RANGE, "201");
	check(iblt_core_kbf_update(&kbf, key, 8, 7, 201) == IBLT_VALUE_OUT_OF_RANGE, "201");
	check(iblt_core_kbf_update(&kbf, key, 8, 0, 7) == IBLT_VALUE_OUT_OF_RANGE, "0");
	check(iblt_core_kbf_delete(&kbf, key, 8, 8) == IBLT_NOT_IN_FILTER, "value");
	check(iblt_core_kbf_delete(&kbf, absent, 8, 7) == IBLT_NOT_IN_FILTER, "key");
	check(iblt_core_kbf_update(&kbf, key, 8, 8, 9) == IBLT_NOT_IN_FILTER, "value");
	check(same(&kbf, &before), "a refusal changed it");
	kbf.keys = INT64_MAX;
	check(iblt_core_kbf_insert(&kbf, absent, 8, 7) == IBLT_COUNT_OVERFLOW, "keys");
	check(iblt_core_kbf_add(&kbf, &before) == IBLT_COUNT_OVERFLOW, "sum of keys");
	kbf.keys = 1;
	check(same(&kbf, &before), "a refusal changed it");

	make_kbf(&part, &params);
	(void) iblt_core_kbf_insert(&part, key, 8, 8);
	check(iblt_core_kbf_subtract(&kbf, &part) == IBLT_NOT_A_PART, "value");
	iblt_core_kbf_init(&part, &params, part.bytes);
	(void) iblt_core_kbf_insert(&part, absent, 8, 7);
	check(iblt_core_kbf_subtract(&before, &part) == IBLT_NOT_A_PART, "key");
	(void) iblt_core_kbf_insert(&part, key, 8, 7);
	check(iblt_core_kbf_subtract(&before, &part) == IBLT_NOT_A_PART, "more keys");
	free(kbf.bytes);
	free(part.bytes);
	/* all pairs are in one cell, and one of two is not in the other filter */
	params = params_of(3, 8, 3, 1);
	draw_pairs(pairs, 4, 255);
	make_kbf(&kbf, &params);
	make_kbf(&part, &params);
	fill(&kbf, pairs, 3);
	fill(&part, pairs + 2, 2);
	check(iblt_core_kbf_subtract(&kbf, &part) == IBLT_NOT_A_PART, "one of two");
	checked("what is not there is not taken out");
	free(kbf.bytes);
	free(before.bytes);
	free(part.bytes);
}

/* A full cell stays full, whatever happens, and makes answers unknown. */
static void
test_full(void)
{
	IbltKbfParams params = params_of(3, 8, 3, 1);
	IbltKbf		kbf,
				other,
				part;
	unsigned	value;

	draw_pairs(pairs, 20, 255);
	make_kbf(&kbf, &params);
	fill(&kbf, pairs, 14);
	check(iblt_core_kbf_full_cells(&kbf) == 0, "full with 14");
	check(iblt_kbf_count(iblt_kbf_cell(&kbf, 2)) == 14, "not 14");
	fill(&kbf, pairs + 14, 1);
	check(iblt_core_kbf_full_cells(&kbf) == 3, "not full with 15");
	fill(&kbf, pairs + 15, 5);
	check(valid(&kbf) && kbf.keys == 20, "keys");
	check(get(&kbf, pairs[0].key, &value) == IBLT_UNKNOWN, "an answer");
	make_kbf(&other, &params);
	(void) iblt_core_kbf_add(&other, &kbf);
	check(same(&other, &kbf), "0 + full");
	for (int i = 0; i < 20; i++)
		check(drop(&kbf, pairs[i]) == IBLT_OK, "pair %d", i);
	check(drop(&kbf, pairs[0]) == IBLT_NOT_IN_FILTER, "no keys left");
	check(valid(&kbf) && kbf.keys == 0 && iblt_core_kbf_full_cells(&kbf) == 3, "full");
	check(iblt_core_kbf_subtract(&kbf, &other) == IBLT_NOT_A_PART, "more keys");
	iblt_core_kbf_init(&part, &params, take(iblt_core_kbf_size(&params)));
	fill(&part, pairs, 3);
	for (int i = 19; i > 2; i--)
		check(drop(&other, pairs[i]) == IBLT_OK, "pair %d", i);
	check(iblt_core_kbf_subtract(&part, &other) == IBLT_OK && same(&part, &kbf),
		  "3 - full");
	check(iblt_core_kbf_subtract(&other, &other) == IBLT_OK && same(&other, &kbf),
		  "full - full");
	checked("a cell of 15 stays full");
	free(kbf.bytes);
	free(part.bytes);
	free(other.bytes);
}

/* --- the queue --------------------------------------------------------------------- */

#define QUEUED	400

/*
 * Inserts up to QUEUED pairs in three ways, with a flush at times: through the queue, one
 * by one, and as sums of filters of one pair each, which add cells without the shortcut of
 * iblt_kbf_put_at.
 */
static void
queue_pairs(int round)
{
	static uint64_t codes[1 << IBLT_GF_MAX_DEGREE];
	IbltKbfParams params = random_params();
	IbltKbfQueue queue = {0};
	IbltKbf		queued, direct, summed, one;
	uint32_t	n = below(QUEUED);
	size_t		size = round % 2 == 0 ? 8 : 1 + below(24);

	iblt_core_kbf_codes(&params, codes);
	make_kbf(&queued, &params);
	make_kbf(&direct, &params);
	make_kbf(&summed, &params);
	make_kbf(&one, &params);
	for (uint32_t i = 0; i < n; i++)
	{
		uint8_t		key[24];
		unsigned	value = 1 + below(params.values);

		iblt_store64(key, tap_random());
		iblt_store64(key + 8, tap_random());
		iblt_store64(key + 16, tap_random());
		iblt_core_kbf_queue_insert(&queue, &queued, codes, key, size, value);
		iblt_core_kbf_insert_with(&direct, codes, key, size, value);
		iblt_core_kbf_init(&one, &params, one.bytes);
		(void) iblt_core_kbf_insert(&one, key, size, value);
		(void) iblt_core_kbf_add(&summed, &one);
		if (below(50) == 0)
			iblt_core_kbf_queue_flush(&queue, &queued);
	}
	iblt_core_kbf_queue_flush(&queue, &queued);
	check(queued.keys == n && same(&queued, &direct) && same(&queued, &summed) && valid(&queued),
		  "round %d: %u pairs of keys of %zu bytes, %d hashes of %u cells", round, n, size,
		  params.hashes, params.subtable_cells);
	free(queued.bytes);
	free(direct.bytes);
	free(summed.bytes);
	free(one.bytes);
}

static void
test_queue(void)
{
	for (int round = 0; round < 40; round++)
		queue_pairs(round);
	checked("pairs through the queue, one by one and as sums make the same filter");
}

/* --- answers ------------------------------------------------------------------------ */

/* Which elements can a cell have, as a set of bits?  By trying all multisets. */
static unsigned
possible_values(const IbltKbfParams *params, uint64_t cell, unsigned least,
				unsigned count, uint64_t sum, unsigned chosen, bool *equal)
{
	unsigned	value,
				all = 0;

	if (count == 0)
		return sum == iblt_kbf_content(cell) ? chosen : 0;
	for (value = least; value <= gf_values(params->degree); value++)
	{
		bool		repeats = (chosen >> value & 1) != 0;
		unsigned	some = possible_values(params, cell, value, count - 1,
										   sum ^ code_of(params, value),
										   chosen | 1u << value, equal);

		if (some != 0 && repeats)
			*equal = true;
		all |= some;
	}
	return all;
}

/* What the cells must answer: the values that all cells have in common. */
static IbltPresence
expected_answer(const IbltKbfParams *params, const uint64_t *cells, unsigned turn,
				unsigned *value)
{
	unsigned	all = gf_values(params->degree);
	unsigned	common = 0;
	unsigned	v;
	bool		named = false;

	/* as elements, by the definition of turning */
	for (v = 1; v <= params->values; v++)
		common |= 1u << (1 + (v - 1 + turn) % all);
	for (int i = 0; i < params->hashes; i++)
		if (iblt_kbf_count(cells[i]) == 0)
			return IBLT_ABSENT;
	for (int i = 0; i < params->hashes; i++)
	{
		unsigned	count = iblt_kbf_count(cells[i]);
		bool		equal = false;
		unsigned	set;

		if (count > (unsigned) params->superposed + 1)
			continue;
		set = possible_values(params, cells[i], 1, count, 0, 0, &equal);
		if (set == 0 && count <= (unsigned) params->superposed)
			return IBLT_CONTRADICTION;
		named |= count <= (unsigned) params->superposed && !equal;
		common &= set;
	}
	if (!named)
		return IBLT_UNKNOWN;
	if (common == 0)
		return IBLT_ABSENT;
	for (v = 1; common != 1u << (1 + (v - 1 + turn) % all); v++)
		if (v > all)
			return IBLT_UNKNOWN;
	*value = v;
	return IBLT_PRESENT;
}

/* A cell of some pairs, of which one may be given. */
static uint64_t
random_cell(const IbltKbfParams *params, unsigned element)
{
	unsigned	count = below(6);
	uint64_t	content = 0;

	if (count == 0)
		return element == 0 && below(4) == 0 ? 0 : iblt_kbf_make_cell(IBLT_KBF_FULL, 0);
	for (unsigned i = 0; i < count; i++)
		content ^= code_of(params, i == 0 && element != 0 ? element
						   : 1 + below(gf_values(params->degree)));
	/* sometimes one that no values make up */
	if (element == 0 && below(64) == 0)
		content ^= tap_random() & ((UINT64_C(1) << params->degree) - 1);
	return iblt_kbf_make_cell(count, content);
}

static void
test_answers(void)
{
	long		seen[4] = {0};

	for (long round = 0; round < scaled(40000); round++)
	{
		IbltKbfParams params = params_of(2 + (int) below(4), 3 + (int) below(2),
										 1 + (int) below(3), 1);
		unsigned	own,
					turn = below(gf_values(params.degree));
		uint64_t	cells[IBLT_MAX_HASHES];
		unsigned	value = 0,
					expected_value = 0;
		IbltPresence answer,
					expected;

		params.values = 1 + below(params.values);
		own = below(2) * (1 + below(params.values));
		for (int i = 0; i < params.hashes; i++)
			cells[i] = random_cell(&params, own == 0 ? 0
								   : iblt_kbf_turned(&params, own, turn));
		answer = iblt_core_kbf_judge(&params, cells, turn, &value);
		expected = expected_answer(&params, cells, turn, &expected_value);
		check(answer == expected, "round %ld: %d, not %d", round, answer, expected);
		check(answer != IBLT_PRESENT || value == expected_value, "round %ld: value", round);
		check(own == 0 || answer == IBLT_UNKNOWN ||
			  (answer == IBLT_PRESENT && value == own), "round %ld: its own value", round);
		seen[answer]++;
	}
	check(seen[IBLT_ABSENT] > 0 && seen[IBLT_PRESENT] > 0 && seen[IBLT_UNKNOWN] > 0 &&
		  seen[IBLT_CONTRADICTION] > 0, "an answer was never seen");
	checked("answers are those of all values that the cells can have");
}

/* Two or three equal values in a cell leave every value open. */
static void
test_equal_values(void)
{
	IbltKbfParams params = params_of(2, 8, 3, 1);
	uint64_t	a = code_of(&params, 10);
	uint64_t	b = code_of(&params, 20);
	uint64_t	c = code_of(&params, 30);
	uint64_t	two = iblt_kbf_make_cell(2, 0);
	uint64_t	three = iblt_kbf_make_cell(3, a);
	unsigned	value;

#define ANSWER(x, y) \
	iblt_core_kbf_judge(&params, (uint64_t[]) {x, y}, 0, &value)
	check(ANSWER(two, two) == IBLT_UNKNOWN, "two equal values");
	check(ANSWER(three, three) == IBLT_UNKNOWN, "10, and two equal values");
	check(ANSWER(two, iblt_kbf_make_cell(1, b)) == IBLT_PRESENT && value == 20, "20");
	check(ANSWER(three, iblt_kbf_make_cell(1, b)) == IBLT_PRESENT && value == 20, "20");
	check(ANSWER(three, iblt_kbf_make_cell(2, a ^ b)) == IBLT_UNKNOWN, "10 or 20");
	check(ANSWER(iblt_kbf_make_cell(2, a ^ c), iblt_kbf_make_cell(2, a ^ b)) ==
		  IBLT_PRESENT && value == 10, "10 in common");
	check(ANSWER(iblt_kbf_make_cell(2, a ^ c), iblt_kbf_make_cell(1, b)) ==
		  IBLT_ABSENT, "nothing in common");
	check(ANSWER(iblt_kbf_make_cell(3, a ^ b ^ c), iblt_kbf_make_cell(1, c)) ==
		  IBLT_PRESENT && value == 30, "30 of three");
	check(ANSWER(iblt_kbf_make_cell(3, a ^ b ^ c), iblt_kbf_make_cell(1, a ^ b)) ==
		  IBLT_CONTRADICTION, "one pair that is none");
	checked("equal values in a cell cancel, and say nothing");
}

/* A table of codes inserts the same, and elements turn back to values. */
static void
test_codes(void)
{
	static uint64_t codes[1 << IBLT_GF_MAX_DEGREE];
	IbltKbfParams params = params_of(5, 9, 3, 50);
	IbltKbf		a,
				b;
	unsigned	value,
				turn;

	draw_pairs(pairs, 300, 511);
	make_kbf(&a, &params);
	make_kbf(&b, &params);
	fill(&a, pairs, 300);
	iblt_core_kbf_codes(&params, codes);
	for (int i = 0; i < 300; i++)
	{
		uint8_t		key[8];

		iblt_store64(key, pairs[i].key);
		iblt_core_kbf_insert_with(&b, codes, key, sizeof key, pairs[i].value);
	}
	check(same(&a, &b), "other bytes");
	for (value = 1; value <= 511; value++)
		for (turn = 0; turn < 511; turn++)
		{
			unsigned	element = iblt_kbf_turned(&params, value, turn);

			check(element == 1 + (value - 1 + turn) % 511 &&
				  iblt_kbf_turned_back(&params, element, turn) == value,
				  "%u turned by %u", value, turn);
		}
	checked("a table of codes inserts the same pairs");
	free(a.bytes);
	free(b.bytes);
}

/* The header and eight bytes of each cell of the key are enough to answer. */
static void
test_slices(void)
{
	IbltKbfParams params = params_of(6, 9, 3, 333);
	IbltKbf		kbf;
	IbltKbf		head;
	uint8_t		header[IBLT_KBF_HEADER_SIZE];

	draw_pairs(pairs, 400, 511);
	make_kbf(&kbf, &params);
	fill(&kbf, pairs, 300);
	memcpy(header, kbf.bytes, sizeof header);
	check(iblt_core_kbf_header_size(header) == sizeof header, "header size");
	check(iblt_core_kbf_open_header(&head, header, sizeof header, kbf.size - 8) ==
		  IBLT_BAD_SIZE, "another size");
	check(iblt_core_kbf_open_header(&head, header, sizeof header, kbf.size) == IBLT_OK,
		  "header");
	for (int i = 0; i < 400; i++)
	{
		uint8_t		key[8];
		IbltKbfPlace place;
		uint64_t	cells[IBLT_MAX_HASHES];
		unsigned	value = 0,
					sliced = 0;

		iblt_store64(key, pairs[i].key);
		iblt_kbf_place(&head, key, sizeof key, head.params.hashes, &place);
		for (int h = 0; h < params.hashes; h++)
			cells[h] = iblt_kbf_extract(&head, place.index[h], kbf.bytes +
										iblt_kbf_cell_offset(&head, place.index[h]));
		check(get(&kbf, pairs[i].key, &value) ==
			  iblt_core_kbf_judge(&head.params, cells, place.turn,
								  &sliced) && value == sliced,
			  "key %d", i);
	}
	checked("a key's cells alone answer as the whole filter does");
	free(kbf.bytes);
}

int
main(void)
{
	(void) tap_seed();
	test_golden_integers();
	test_golden_uuids();
	test_golden_labels();
	test_damage();
	test_spoiled();
	test_sums();
	test_padding();
	test_params();
	test_compatible();
	test_any_order();
	test_folds();
	test_deletions();
	test_refusals();
	test_full();
	test_queue();
	test_answers();
	test_equal_values();
	test_codes();
	test_slices();
	return tap_done();
}
