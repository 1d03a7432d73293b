/*
 * test_salvage.c
 *		Damaged sketches from the subtables that are left.
 *
 * Each trial knows its rows.  It damages cells at random, and looks whether the
 * sketch that comes out is the one before, to the byte, or is not called so.
 */
#include <math.h>

#include "model.h"
#include "sums.h"

#define CELLS 84 /* of a subtable */
#define KEYS 20
#define SHARED 300 /* rows of both sketches, far more than can be listed */

/* What one trial found. */
typedef struct Outcome
{
	unsigned group;	  /* the largest */
	int groups;
	bool proven;
	bool same;		  /* the bytes of the original */
	IbltPeelResult result;
	uint32_t wrong;	  /* keys that no row has, or listed twice */
} Outcome;

typedef struct Pair
{
	IbltSketch *original; /* the rows of other, and some more or less */
	IbltSketch *other;
	uint8_t keys[KEYS][16];
} Pair;

static void
add(IbltSketch *sketch, const uint8_t *key, uint64_t y, int sign)
{
	check(sketch_add(sketch, key, y, sign) == IBLT_OK, "refused");
}

/* Rows that are new, gone, changed, there twice, or there with two values. */
static Pair
pair_new(int hashes, bool with_values, int shared)
{
	IbltParams params = make_params(IBLT_KEY_UUID, 2, hashes, CELLS, with_values, tap_random());
	Pair pair = { sketch_new(&params), sketch_new(&params), { { 0 } } };

	for (int i = 0; i < shared; i++)
	{
		uint64_t row[2] = { tap_random(), tap_random() };

		add(pair.original, (uint8_t *) row, row[0], 1);
		add(pair.other, (uint8_t *) row, row[0], 1);
	}
	for (int i = 0; i < KEYS; i++)
	{
		uint64_t row[2] = { tap_random(), tap_random() };

		memcpy(pair.keys[i], row, sizeof row);
		if (i % 5 != 1)
			add(pair.original, pair.keys[i], row[0], 1);
		if (i % 5 >= 3)
			add(pair.original, pair.keys[i], row[0] + i % 5 - 3, 1);
		if (i % 5 == 1 || i % 5 == 2)
			add(pair.other, pair.keys[i], row[1], 1);
	}
	iblt_core_seal(pair.original);
	iblt_core_seal(pair.other);
	return pair;
}

/* The subtables of a group alone, less those of the other sketch. */
static IbltSketch *
subtables_of(const IbltSketch *sketch, const IbltSketch *other, unsigned group)
{
	IbltSketch *left = sketch_fold(sketch, CELLS, group);

	check(iblt_core_add_sketch(left, sketch_fold(other, CELLS, group), -1) == IBLT_OK, "overflow");
	iblt_core_seal(left);
	return left;
}

static bool
is_known(const Pair *pair, const uint8_t *key)
{
	for (int i = 0; i < KEYS; i++)
		if (memcmp(pair->keys[i], key, 16) == 0)
			return true;
	return false;
}

/* Salvages from one group. */
static void
salvage_from(const Pair *pair, const IbltSketch *damaged, unsigned group, Outcome *out)
{
	unsigned lost = damaged->params.subtables & ~group;
	IbltSketch *whole = sketch_copy(damaged);
	Decoded d = decode(subtables_of(damaged, pair->other, group));

	iblt_core_salvage_start(whole, lost, pair->other);
	for (uint32_t i = 0; i < d.n; i++)
	{
		out->wrong += !is_known(pair, d.entry[i].key);
		for (uint32_t j = 0; j < i; j++)
			out->wrong += memcmp(d.entry[i].key, d.entry[j].key, 16) == 0;
		iblt_core_salvage_key(whole, lost, &d.entry[i]);
	}
	out->result = d.result;
	out->proven = iblt_core_salvage_proven(whole);
	out->same = same_bytes(whole, pair->original);
}

static Outcome
salvage(const Pair *pair, const IbltSketch *damaged)
{
	unsigned groups[IBLT_MAX_HASHES];
	Outcome out = { 0, 0, false, false, IBLT_PEEL_INCONSISTENT, 0 };

	out.groups = iblt_core_agreeing(damaged, damaged->params.subtables, groups);
	if (out.groups > 0)
	{
		out.group = groups[0];
		salvage_from(pair, damaged, groups[0], &out);
	}
	return out;
}

/* Changes a number of cells of a subtable, in a byte, a field or as a whole. */
static void
damage(IbltSketch *sketch, int subtable, uint32_t cells)
{
	while (cells-- > 0)
	{
		uint8_t *cell = iblt_cell(sketch, (uint32_t) subtable * CELLS + below(CELLS));
		uint32_t at = below(sketch->cell_size);

		switch (below(3))
		{
			case 0:
				cell[at] ^= (uint8_t) (1 + below(255));
				break;
			case 1:
				iblt_store64(cell + 4 + at % sketch->fields * 8, tap_random());
				break;
			default:
				/* a page of zeros */
				memset(cell, 0, sketch->cell_size);
		}
	}
}

/* The subtables in which two sketches differ. */
static unsigned
differing(const IbltSketch *a, const IbltSketch *b)
{
	size_t size = (size_t) CELLS * a->cell_size;
	unsigned mask = 0;

	for (int i = 0; i < a->params.hashes; i++)
		if (memcmp(a->cells + i * size, b->cells + i * size, size) != 0)
			mask |= 1U << i;
	return mask;
}

/*
 * How often keys in m subtables are expected not to be listed, at most: with
 * two subtables by the cycles of a graph, with more by pairs that share all
 * their cells, and as much again.
 */
static double
failures(int m)
{
	double load = (double) KEYS / CELLS;

	if (m == 2)
		return load * load / 2 + pow(load, 4) / 4 + pow(load, 6) / 3;
	return KEYS * (double) KEYS / pow(CELLS, m);
}

static void
check_lost(int hashes, int lost, bool with_values)
{
	long trials = scaled(400);
	double expected = (double) trials * failures(hashes - lost);
	long unproven = 0;
	char what[120];

	TRIALS(i, trials)
	{
		Pair pair = pair_new(hashes, with_values, SHARED);
		IbltSketch *damaged = sketch_copy(pair.original);
		unsigned first = below((uint32_t) hashes);
		Outcome out;

		for (int j = 0; j < lost; j++)
			damage(damaged, (int) (first + (unsigned) j) % hashes, 1 + below(CELLS));
		out = salvage(&pair, damaged);
		check((out.group & differing(damaged, pair.original)) == 0,
			  "group %x has a damaged subtable", out.group);
		check(out.proven == out.same, "proven %d, same %d", out.proven, out.same);
		check(out.proven == (out.result == IBLT_PEEL_COMPLETE), "result %d", (int) out.result);
		check(out.wrong == 0, "%u wrong keys", out.wrong);
		unproven += !out.proven;
	}
	check((double) unproven <= expected + 4 * sqrt(expected) + 2,
		  "%ld of %ld are not salvaged, and %.1f are expected", unproven, trials, expected);
	snprintf(what, sizeof what, "%d of %d subtables damaged%s: the sketch comes "
			 "back, to the byte", lost, hashes, with_values ? ", with values" : "");
	checked(what);
}

/* Cells that changed places, a meter, a checksum: nothing is called proven. */
static void
test_unseen(void)
{
	TRIALS(i, scaled(200))
	{
		Pair pair = pair_new(4, i % 2 == 0, 0);
		IbltSketch *damaged = sketch_copy(pair.original);
		size_t half = damaged->cell_size * (size_t) CELLS / 2;
		uint8_t *subtable = damaged->cells + 2 * half * below(4);
		uint8_t *kept = take(half);
		Outcome out;

		switch (i % 3)
		{
			case 0:
				/* pages that changed places */
				memcpy(kept, subtable, half);
				memcpy(subtable, subtable + half, half);
				memcpy(subtable + half, kept, half);
				break;
			case 1:
				damaged->meter[below(512)] ^= (uint8_t) (1 + below(255));
				break;
			default:
				damaged->bytes[damaged->size - 1 - below(8)] ^= (uint8_t) (1 + below(255));
		}
		out = salvage(&pair, damaged);
		check(out.group == 0x0f, "group %x", out.group);
		check(out.proven == same_bytes(damaged, pair.original), "proven");
		check(out.wrong == 0 || out.result == IBLT_PEEL_INCONSISTENT, "%u wrong keys", out.wrong);
	}
	checked("damage that the sums do not show is never called the original");
}

/* Three subtables of another time agree, and are still not the original. */
static void
test_stale(void)
{
	Pair pair = pair_new(4, false, SHARED);
	IbltSketch *mixed = sketch_copy(pair.original);
	IbltSketch *stale = sketch_copy(pair.original);
	Outcome out = { 0, 0, false, false, IBLT_PEEL_INCONSISTENT, 0 };
	unsigned groups[IBLT_MAX_HASHES];

	/* one changed row: as many rows as before */
	add(stale, pair.keys[0], 1, 1);
	add(stale, pair.keys[0], iblt_load64(pair.keys[0]), -1);
	iblt_core_seal(stale);
	memcpy(mixed->cells, stale->cells, (size_t) 3 * CELLS * mixed->cell_size);
	check(iblt_core_agreeing(mixed, 0x0f, groups) == 2 && groups[0] == 0x07 &&
			  groups[1] == 0x08, "groups %x", groups[0]);
	salvage_from(&pair, mixed, groups[0], &out);
	check(out.result == IBLT_PEEL_COMPLETE && !out.proven, "proven");
	memcpy(mixed->cells, stale->cells, (size_t) 2 * CELLS * mixed->cell_size);
	memcpy(mixed->cells + (size_t) 2 * CELLS * mixed->cell_size,
		   pair.original->cells + (size_t) 2 * CELLS * mixed->cell_size,
		   (size_t) CELLS * mixed->cell_size);
	check(iblt_core_agreeing(mixed, 0x0f, groups) == 2 && groups[0] == 0x03 &&
			  groups[1] == 0x0c, "groups %x", groups[0]);
	check(iblt_core_agreeing(mixed, 0x0d, groups) == 2 && groups[0] == 0x0c &&
			  groups[1] == 0x01, "among: groups %x", groups[0]);
	checked("subtables of another time agree, and the checksum tells");
}

static void
test_lost(void)
{
	check_lost(4, 0, false);
	check_lost(4, 1, false);
	check_lost(4, 2, false);
	check_lost(5, 2, true);
	check_lost(3, 1, false);
}

TAP_MAIN(test_lost, test_unseen, test_stale)
