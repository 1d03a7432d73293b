/*
 * test_kbf.c
 *		The key-value Bloom filter: its algebra, its answers, and what is no filter.
 *
 * Answers are compared with an enumeration of all values that a cell can have.
 * How often a filter answers, and what an overload leaves, is for test_kbf_size.c and
 * test/sim/sim_kbf_ours.c.  That the bytes are those of doc/internals/format.md, and what
 * each field of them may not be, is for test/t/022_kbf_format.pl, and that they stay
 * so for test/sql/golden.sql.
 */
#include "kbf_cell.h"
#include "kbf_size.h"
#include "model.h"

#define MAX_PAIRS	500

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
	IbltKbfParams params = params_of(2 + (int) below(7), 3 + (int) below(10), 1 + (int) below(3),
									 1 + below(40));

	params.values = 1 + below(params.values);
	return params;
}

static IbltKbf *
new_kbf(IbltKbfParams params)
{
	IbltKbf    *kbf = take(sizeof *kbf);

	if (iblt_core_kbf_check_params(&params) != IBLT_OK)
		abort();
	iblt_core_kbf_init(kbf, &params, take(iblt_core_kbf_size(&params)));
	iblt_core_kbf_seal(kbf);
	return kbf;
}

static IbltKbf *
copy_of(const IbltKbf *kbf)
{
	IbltKbf    *copy = new_kbf(kbf->params);

	(void) iblt_core_kbf_add(copy, kbf);
	iblt_core_kbf_seal(copy);
	return copy;
}

static const uint8_t *
key_of(uint64_t number)
{
	static uint8_t key[8];

	iblt_store64(key, number);
	return key;
}

static IbltStatus
put(IbltKbf *kbf, Pair pair)
{
	return iblt_core_kbf_insert(kbf, key_of(pair.key), 8, pair.value);
}

static IbltStatus
drop(IbltKbf *kbf, Pair pair)
{
	return iblt_core_kbf_delete(kbf, key_of(pair.key), 8, pair.value);
}

static IbltPresence
get(const IbltKbf *kbf, uint64_t number, unsigned *value)
{
	return iblt_core_kbf_get(kbf, key_of(number), 8, value);
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

/* A sealed filter of these pairs. */
static IbltKbf *
filled(IbltKbfParams params, const Pair *pairs, int n)
{
	IbltKbf    *kbf = new_kbf(params);

	for (int i = 0; i < n; i++)
		if (put(kbf, pairs[i]) != IBLT_OK)
			abort();
	iblt_core_kbf_seal(kbf);
	return kbf;
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

/* Opens a copy of exactly `size` bytes. */
static IbltStatus
open_copy(const uint8_t *bytes, size_t size)
{
	IbltKbf		view;

	return iblt_core_kbf_open(&view, memcpy(take(size), bytes, size), size);
}

/* Every bit flipped, every length cut, and one byte more. */
static void
test_damage(void)
{
	IbltKbfParams params = labelled_params();
	IbltKbf    *kbf;
	uint8_t    *longer;
	long		opened = 0;

	params.subtable_cells = 7;
	kbf = new_kbf(params);
	(void) iblt_core_kbf_insert(kbf, (const uint8_t *) "\0\0\0\5hello", 9, 1);
	iblt_core_kbf_seal(kbf);
	check(open_copy(kbf->bytes, kbf->size) == IBLT_OK, "undamaged");
	TRIALS(bit, 8 * kbf->size)
	{
		kbf->bytes[bit / 8] ^= (uint8_t) (1 << bit % 8);
		check(open_copy(kbf->bytes, kbf->size) != IBLT_OK, "bit %ld", bit);
		/* a crafted value: whatever opens must be consistent */
		repair_trailer(kbf->bytes, kbf->size);
		opened += bit < 8 * ((long) kbf->size - 8) && open_copy(kbf->bytes, kbf->size) == IBLT_OK;
		kbf->bytes[bit / 8] ^= (uint8_t) (1 << bit % 8);
		repair_trailer(kbf->bytes, kbf->size);
	}
	for (size_t size = 0; size < kbf->size; size++)
		check(open_copy(kbf->bytes, size) != IBLT_OK, "cut to %zu", size);
	longer = take_zeros(kbf->size + 1);
	memcpy(longer, kbf->bytes, kbf->size);
	check(open_copy(longer, kbf->size + 1) == IBLT_BAD_SIZE, "one more byte");
	/*
	 * these say something else, and it is possible: 64 bits of the seed, and in
	 * the texts those that leave plain letters or printing characters
	 */
	check(opened >= 64 && opened < 64 + 8 * (4 + 15), "%ld flips open", opened);
	checked("every flipped bit and every wrong length is refused");
}

/* What bytes may not say either is for test/t/022_kbf_format.pl. */
static void
test_params(void)
{
	static const struct
	{
		int			hashes, degree, superposed;
		unsigned	values;
		uint32_t	cells;
		IbltStatus	expected;
	}			cases[] = {
		{8, 12, 3, 4095, IBLT_KBF_MAX_CELLS, IBLT_OK}, {2, 3, 1, 1, 1, IBLT_OK},
		{2, 2, 1, 1, 1, IBLT_BAD_VALUES}, {2, 13, 1, 1, 1, IBLT_BAD_VALUES},
		{2, 3, 1, 1, IBLT_KBF_MAX_CELLS + 1, IBLT_BAD_CELLS}
	};

	for (int i = 0; i < LENGTH(cases); i++)
	{
		IbltKbfParams params = params_of(cases[i].hashes, cases[i].degree, cases[i].superposed,
										 cases[i].cells);

		params.values = cases[i].values;
		check(iblt_core_kbf_check_params(&params) == cases[i].expected, "parameters %d", i);
		check(cases[i].expected != IBLT_OK || iblt_core_kbf_size(&params) + IBLT_MAX_DESCRIPTION +
			  IBLT_KBF_MAX_LABELS <= IBLT_MAX_BYTES, "size %d", i);
	}
	checked("parameters at and beyond their limits");
}

/* Cells that are possible one by one, but not together. */
static void
test_sums(void)
{
	IbltKbfParams params = params_of(3, 4, 2, 5);
	uint64_t	one = iblt_kbf_make_cell(1, code_of(&params, 9));
	uint64_t	other = iblt_kbf_make_cell(1, code_of(&params, 8));
	uint64_t	no_pair = iblt_kbf_make_cell(0, 1);
	uint64_t	no_code = iblt_kbf_make_cell(1, code_of(&params, 8) ^ 0x10);
	IbltKbf    *kbf = new_kbf(params);
	const struct
	{
		uint32_t	cell;
		uint64_t	content;
		bool		valid;
		const char *what;
	}			steps[] = {
		{0, one, false, "two subtables lack a pair"}, {6, one, false, "a subtable lacks a pair"},
		{13, other, false, "a subtable has another value"}, {13, one, true, "each has the pair"},
		{1, no_pair, false, "an empty cell has content"}, {2, no_pair, false, "two have the same"},
		{1, 0, false, "one has"}, {2, 0, true, "none has"},
		{14, IBLT_KBF_FULL, true, "a full cell"},
		{13, other, true, "a subtable with a full cell says nothing"},
		{14, iblt_kbf_make_cell(IBLT_KBF_FULL, 1), false, "a full cell has content"}
	};

	kbf->keys = 1;
	for (int i = 0; i < LENGTH(steps); i++)
	{
		iblt_kbf_set_cell(kbf, steps[i].cell, steps[i].content);
		check(valid(kbf) == steps[i].valid, "%s", steps[i].what);
	}
	for (uint32_t cell = 0; cell < 15; cell++)
		iblt_kbf_set_cell(kbf, cell, cell % 5 == 0 ? no_code : 0);
	check(!valid(kbf), "one pair without a code");
	checked("subtables must add up to the same");
}

/* The bits between the last cell and the checksum, for cells of all sizes. */
static void
test_padding(void)
{
	TRIALS(round, 200)
	{
		IbltKbfParams params = random_params();
		size_t		used = (size_t) params.hashes * params.subtable_cells *
			(size_t) (4 + params.degree * params.superposed);
		IbltKbf    *kbf = new_kbf(params);

		check(kbf->size == 48 + (used + 63) / 64 * 8, "size");
		for (size_t bit = used; bit < 8 * (kbf->size - 48); bit++)
		{
			kbf->cells[bit / 8] ^= (uint8_t) (1 << bit % 8);
			repair_trailer(kbf->bytes, kbf->size);
			check(open_copy(kbf->bytes, kbf->size) == IBLT_BAD_RESERVED, "bit %zu", bit);
			kbf->cells[bit / 8] ^= (uint8_t) (1 << bit % 8);
		}
	}
	checked("bits behind the last cell must be zero");
}

/* --- algebra --------------------------------------------------------------------- */

static Pair pairs[MAX_PAIRS];

static void
test_folds(void)
{
	static const uint32_t factors[] = {1, 2, 3, 4, 6, 12};

	TRIALS(round, scaled(600))
	{
		IbltKbfParams params = random_params();
		IbltKbfParams small;
		int			n = (int) below(400);
		IbltKbf    *folded;

		params.subtable_cells = 12 * (1 + below(6));
		small = params;
		small.subtable_cells /= factors[below(6)];
		draw_pairs(pairs, n, params.values);
		folded = new_kbf(small);
		(void) iblt_core_kbf_add(folded, filled(params, pairs, n));
		check(valid(folded) && same(folded, filled(small, pairs, n)), "round %ld: %u to %u cells",
			  round, params.subtable_cells, small.subtable_cells);
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

		if (x != y && iblt_kbf_count(x) != IBLT_KBF_FULL && iblt_kbf_count(y) != IBLT_KBF_FULL)
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

	TRIALS(round, scaled(600))
	{
		IbltKbfParams params = random_params();
		int			n = 1 + (int) below(12 * params.subtable_cells);
		int			gone = (int) below((uint32_t) n + 1);
		IbltKbf    *never, *deleted, *less;
		IbltKbf    *soon = new_kbf(params);

		draw_pairs(pairs, n, params.values);
		never = filled(params, pairs + gone, n - gone);
		deleted = filled(params, pairs, n);
		less = copy_of(deleted);
		for (int i = 0; i < n; i++)
		{
			(void) put(soon, pairs[i]);
			check(i >= gone || drop(soon, pairs[i]) == IBLT_OK, "deleted at once");
		}
		full += iblt_core_kbf_full_cells(deleted);
		check(iblt_core_kbf_subtract(less, filled(params, pairs, gone)) == IBLT_OK,
			  "round %ld: a part", round);
		shuffle(pairs, gone);
		for (int i = 0; i < gone; i++)
			check(drop(deleted, pairs[i]) == IBLT_OK, "round %ld: pair %d", round, i);
		check(same(deleted, less), "round %ld: deleted and subtracted", round);
		check(valid(deleted) && valid(soon), "round %ld: not valid", round);
		check(agree_where_not_full(deleted, never) && agree_where_not_full(soon, never),
			  "round %ld: other cells", round);
		check(full_in_both(never, soon) && full_in_both(soon, deleted),
			  "round %ld: the last deletions fill most", round);
		check(iblt_core_kbf_full_cells(deleted) > 0 || same(deleted, never),
			  "round %ld: not what it would have been", round);
	}
	check(full > 0, "no cell was full");
	checked("deletions leave what was never inserted, except in full cells");
}

/* What is not there is not taken out, and nothing changes then. */
static void
test_refusals(void)
{
	static const struct
	{
		uint64_t	key;
		unsigned	from,
					to;			/* 0: not inserted, not deleted */
		IbltStatus	expected;
	}			refused[] = {
		{1, 0, 201, IBLT_VALUE_OUT_OF_RANGE}, {1, 201, 0, IBLT_VALUE_OUT_OF_RANGE},
		{1, 7, 201, IBLT_VALUE_OUT_OF_RANGE}, {1, 201, 7, IBLT_VALUE_OUT_OF_RANGE},
		{1, 8, 0, IBLT_NOT_IN_FILTER}, {2, 7, 0, IBLT_NOT_IN_FILTER}, {1, 8, 9, IBLT_NOT_IN_FILTER}
	};
	IbltKbfParams params = params_of(5, 8, 3, 2000);
	IbltKbf    *kbf, *before;

	params.values = 200;
	kbf = new_kbf(params);
	check(drop(kbf, (Pair) {1, 7}) == IBLT_NOT_IN_FILTER, "from nothing");
	check(put(kbf, (Pair) {1, 7}) == IBLT_OK, "insert");
	iblt_core_kbf_seal(kbf);
	before = copy_of(kbf);
	for (int i = 0; i < LENGTH(refused); i++)
	{
		unsigned	from = refused[i].from,
					to = refused[i].to;

		check((from == 0 ? put(kbf, (Pair) {refused[i].key, to})
			   : to == 0 ? drop(kbf, (Pair) {refused[i].key, from})
			   : iblt_core_kbf_update(kbf, key_of(refused[i].key), 8, from, to)) ==
			  refused[i].expected, "refusal %d", i);
	}
	check(put(kbf, (Pair) {1, 0}) == IBLT_VALUE_OUT_OF_RANGE &&
		  drop(kbf, (Pair) {1, 0}) == IBLT_VALUE_OUT_OF_RANGE &&
		  iblt_core_kbf_update(kbf, key_of(1), 8, 0, 7) == IBLT_VALUE_OUT_OF_RANGE, "value 0");
	check(same(kbf, before), "a refusal changed it");
	kbf->keys = INT64_MAX;
	check(put(kbf, (Pair) {2, 7}) == IBLT_COUNT_OVERFLOW, "keys");
	check(iblt_core_kbf_add(kbf, before) == IBLT_COUNT_OVERFLOW, "sum of keys");
	kbf->keys = 1;
	check(same(kbf, before), "a refusal changed it");
	check(iblt_core_kbf_subtract(kbf, filled(params, (Pair[]) {{1, 8}}, 1)) == IBLT_NOT_A_PART,
		  "value");
	check(iblt_core_kbf_subtract(before, filled(params, (Pair[]) {{2, 7}}, 1)) == IBLT_NOT_A_PART,
		  "key");
	check(iblt_core_kbf_subtract(before, filled(params, (Pair[]) {{2, 7}, {1, 7}}, 2)) ==
		  IBLT_NOT_A_PART, "more keys");
	/* all pairs are in one cell, and one of two is not in the other filter */
	params = params_of(3, 8, 3, 1);
	draw_pairs(pairs, 4, 255);
	check(iblt_core_kbf_subtract(filled(params, pairs, 3), filled(params, pairs + 2, 2)) ==
		  IBLT_NOT_A_PART, "one of two");
	checked("what is not there is not taken out");
}

/* A full cell stays full, whatever happens, and makes answers unknown. */
static void
test_full(void)
{
	IbltKbfParams params = params_of(3, 8, 3, 1);
	IbltKbf    *kbf, *other, *part;
	unsigned	value;

	draw_pairs(pairs, 20, 255);
	kbf = filled(params, pairs, 14);
	check(iblt_core_kbf_full_cells(kbf) == 0 && iblt_kbf_count(iblt_kbf_cell(kbf, 2)) == 14,
		  "full with 14");
	check(iblt_core_kbf_full_cells(filled(params, pairs, 15)) == 3, "not full with 15");
	kbf = filled(params, pairs, 20);
	check(valid(kbf) && kbf->keys == 20, "keys");
	kbf->keys = UINT64_C(1) << 63;
	check(!valid(kbf), "more keys than fit");
	kbf->keys = 20;
	check(get(kbf, pairs[0].key, &value) == IBLT_UNKNOWN, "an answer");
	other = copy_of(kbf);
	check(same(other, kbf), "0 + full");
	for (int i = 0; i < 20; i++)
		check(drop(kbf, pairs[i]) == IBLT_OK, "pair %d", i);
	check(drop(kbf, pairs[0]) == IBLT_NOT_IN_FILTER, "no keys left");
	check(valid(kbf) && kbf->keys == 0 && iblt_core_kbf_full_cells(kbf) == 3, "full");
	check(iblt_core_kbf_subtract(kbf, other) == IBLT_NOT_A_PART, "more keys");
	part = filled(params, pairs, 3);
	for (int i = 19; i > 2; i--)
		check(drop(other, pairs[i]) == IBLT_OK, "pair %d", i);
	check(iblt_core_kbf_subtract(part, other) == IBLT_OK && same(part, kbf), "3 - full");
	check(iblt_core_kbf_subtract(other, other) == IBLT_OK && same(other, kbf), "full - full");
	checked("a cell of 15 stays full");
}

/* --- the queue --------------------------------------------------------------------- */

#define QUEUED	400

/*
 * Up to QUEUED pairs in three ways, with a flush at times: through the queue, one by
 * one, and as sums of filters of one pair each, which add cells without the shortcut of
 * iblt_kbf_put_at.
 */
static void
test_queue(void)
{
	static uint64_t codes[1 << IBLT_GF_MAX_DEGREE];

	TRIALS(round, 40)
	{
		IbltKbfParams params = random_params();
		IbltKbfQueue queue = {0};
		IbltKbf    *queued = new_kbf(params), *direct = new_kbf(params), *summed = new_kbf(params);
		IbltKbf    *one = new_kbf(params);
		uint32_t	n = below(QUEUED);
		size_t		size = round % 2 == 0 ? 8 : 1 + below(24);

		iblt_core_kbf_codes(&params, codes);
		for (uint32_t i = 0; i < n; i++)
		{
			uint64_t	words[] = {tap_random(), tap_random(), tap_random()};
			const uint8_t *key = (const uint8_t *) words;
			unsigned	value = 1 + below(params.values);

			iblt_core_kbf_queue_insert(&queue, queued, codes, key, size, value);
			iblt_core_kbf_insert_with(direct, codes, key, size, value);
			iblt_core_kbf_init(one, &params, one->bytes);
			(void) iblt_core_kbf_insert(one, key, size, value);
			(void) iblt_core_kbf_add(summed, one);
			if (below(50) == 0)
				iblt_core_kbf_queue_flush(&queue, queued);
		}
		iblt_core_kbf_queue_flush(&queue, queued);
		check(queued->keys == n && same(queued, direct) && same(queued, summed) && valid(queued),
			  "round %ld: %u pairs of keys of %zu bytes, %d hashes of %u cells", round, n, size,
			  params.hashes, params.subtable_cells);
	}
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
expected_answer(const IbltKbfParams *params, const uint64_t *cells, unsigned turn, unsigned *value)
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
			cells[i] = random_cell(&params, own == 0 ? 0 : iblt_kbf_turned(&params, own, turn));
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

/* The header and eight bytes of each cell of the key are enough to answer. */
static void
test_slices(void)
{
	IbltKbfParams params = params_of(6, 9, 3, 333);
	IbltKbf    *kbf;
	IbltKbf		head;
	uint8_t		header[IBLT_KBF_HEADER_SIZE];

	draw_pairs(pairs, 400, 511);
	kbf = filled(params, pairs, 300);
	memcpy(header, kbf->bytes, sizeof header);
	check(iblt_core_kbf_header_size(header) == sizeof header, "header size");
	check(iblt_core_kbf_open_header(&head, header, sizeof header, kbf->size - 8) ==
		  IBLT_BAD_SIZE, "another size");
	check(iblt_core_kbf_open_header(&head, header, sizeof header, kbf->size) == IBLT_OK, "header");
	for (int i = 0; i < 400; i++)
	{
		IbltKbfPlace place;
		uint64_t	cells[IBLT_MAX_HASHES];
		unsigned	value = 0, sliced = 0;

		iblt_kbf_place(&head, key_of(pairs[i].key), 8, head.params.hashes, &place);
		for (int h = 0; h < params.hashes; h++)
			cells[h] = iblt_kbf_extract(&head, place.index[h], kbf->bytes +
										iblt_kbf_cell_offset(&head, place.index[h]));
		check(get(kbf, pairs[i].key, &value) ==
			  iblt_core_kbf_judge(&head.params, cells, place.turn, &sliced) && value == sliced,
			  "key %d", i);
	}
	checked("a key's cells alone answer as the whole filter does");
}

TAP_MAIN(test_params, test_damage, test_sums, test_padding, test_folds,
		 test_deletions, test_refusals, test_full, test_queue, test_answers, test_slices)
