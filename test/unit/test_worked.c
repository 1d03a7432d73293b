/*
 * test_worked.c
 *		The worked examples of the article on the XOR invertible Bloom filter, in
 *		its cells and in ours.
 *
 * The article's cell keeps a count, the XOR of ids and the XOR of their hashes.
 * Its example has eight cells and the ids 3, 5 and 6 with the hashes 14, 11 and
 * 7.  Then two sets differ in 1, 2, 3 on one side and 1001, 1002 on the other,
 * and the names carol, bob and alice come out one after the other.
 *
 * Our positions are those of a seed.  The tests look for a small seed whose
 * positions show what the example shows.
 */
#include "model.h"
#include "sizing.h"

#define CELLS 8
#define HASHES 4 /* of our tables: four subtables of two cells */
#define SEEDS 10000

/* --- the article's cells --------------------------------------------------- */

typedef struct XorCell
{
	int count;
	uint32_t id;
	uint32_t hash;
} XorCell;

typedef struct XorKey
{
	uint32_t id;
	uint32_t hash;
	unsigned cells; /* bit i: it lies in cell i */
} XorKey;

/* Cell 2 holds all three, and each id is alone in another. */
static const XorKey example[3] = { { 3, 14, 1u << 0 | 1u << 2 | 1u << 5 },
								   { 5, 11, 1u << 1 | 1u << 2 | 1u << 5 },
								   { 6, 7, 1u << 2 | 1u << 5 | 1u << 7 } };

static void
xor_add(XorCell *cells, const XorKey *key, int sign)
{
	int i;

	for (i = 0; i < CELLS; i++)
		if (key->cells >> i & 1)
		{
			cells[i].count += sign;
			cells[i].id ^= key->id;
			cells[i].hash ^= key->hash;
		}
}

/* The key that is alone in some cell, or NULL. */
static const XorKey *
xor_alone(const XorCell *cells)
{
	int i;
	int j;

	for (i = 0; i < CELLS; i++)
		for (j = 0; j < 3; j++)
			if (abs(cells[i].count) == 1 && cells[i].id == example[j].id &&
				cells[i].hash == example[j].hash)
				return &example[j];
	return NULL;
}

static void
test_xor_cells(void)
{
	XorCell cells[CELLS] = { { 0, 0, 0 } };
	const XorKey *key;
	int listed = 0;
	int i;

	for (i = 0; i < 3; i++)
		xor_add(cells, &example[i], 1);
	check(cells[0].count == 1 && cells[0].id == 3 && cells[0].hash == 14,
		  "cell 0");
	check(cells[2].count == 3 && cells[2].id == 0 && cells[2].hash == 2,
		  "cell 2: 3 ^ 5 ^ 6 = 0 and 14 ^ 11 ^ 7 = 2");
	check(cells[3].count == 0 && cells[3].id == 0 && cells[3].hash == 0,
		  "cell 3");
	for (; (key = xor_alone(cells)) != NULL; listed++)
		xor_add(cells, key, -1);
	for (i = 0; i < CELLS; i++)
		check(cells[i].count == 0 && cells[i].id == 0 && cells[i].hash == 0,
			  "cell %d is not empty", i);
	check(listed == 3, "%d ids", listed);
	checked("XOR cells: 3, 5 and 6 come out of eight cells");

	xor_add(cells, &example[0], 1);
	xor_add(cells, &example[0], 1);
	check(cells[0].id == 0 && cells[0].hash == 0 && xor_alone(cells) == NULL,
		  "the id of two equal rows");
	checked("XOR cells: two equal rows cancel, and only their count is left");
}

/* --- ours ------------------------------------------------------------------- */

static IbltSketch *
table_of(int hashes, uint32_t cells, bool with_values, uint64_t seed)
{
	IbltParams params =
		make_params(IBLT_KEY_INTEGER, 1, hashes, cells, with_values, seed);

	return sketch_new(&params);
}

static void
add_id(IbltSketch *sketch, uint64_t id, int sign)
{
	uint8_t key[8];

	iblt_store64(key, id);
	check(iblt_core_add_row(sketch, key, id, sign) == IBLT_OK, "refused");
}

/* Is id reported with this count? */
static bool
reports(const Decoded *d, uint64_t id, int32_t count)
{
	uint32_t i;

	for (i = 0; i < d->n; i++)
		if (iblt_load64(d->entry[i].key) == id)
			return d->entry[i].count == count;
	return false;
}

/* What one cell must hold of the ids 3, 5 and 6, by the definition. */
static void
check_cell(const IbltSketch *sketch, uint32_t i)
{
	uint64_t weight = 0, sum = 0, checks = 0;
	int32_t count = 0;
	int j;

	for (j = 0; j < 3; j++)
	{
		uint32_t index[IBLT_MAX_HASHES];
		uint64_t w = iblt_hash_weight(&sketch->hasher, example[j].id);
		uint8_t key[8];
		uint64_t g;

		iblt_store64(key, example[j].id);
		g = iblt_core_key_cells(sketch, key, index);
		if (index[i / 2] != i)
			continue;
		count++;
		weight = fp_add(weight, w);
		sum = fp_add(sum, fp_mul(w, example[j].id ^
										iblt_limb_mask(&sketch->hasher, 0)));
		checks = fp_add(checks, fp_mul(w, g));
	}
	check(iblt_cell_count(iblt_cell(sketch, i)) == count, "count of cell %u", i);
	check(iblt_cell_field(iblt_cell(sketch, i), IBLT_FIELD_WEIGHT) == weight &&
			  iblt_cell_field(iblt_cell(sketch, i), IBLT_FIELD_KEY) == sum &&
			  iblt_cell_field(iblt_cell(sketch, i), IBLT_FIELD_CHECK(1)) ==
				  checks,
		  "fields of cell %u", i);
}

/* Do all three ids share a cell, as in cell 2 of the example? */
static bool
one_cell_of_three(const IbltSketch *sketch)
{
	uint32_t i;

	for (i = 0; i < sketch->ncells; i++)
		if (iblt_cell_count(iblt_cell(sketch, i)) == 3)
			return true;
	return false;
}

static void
test_our_cells(void)
{
	bool found = false;
	uint64_t seed;

	for (seed = 1; seed <= SEEDS && !found; seed++)
	{
		IbltSketch *sketch = table_of(HASHES, CELLS / HASHES, false, seed);
		Decoded d;
		uint32_t i;

		for (i = 0; i < 3; i++)
			add_id(sketch, example[i].id, 1);
		iblt_core_seal(sketch);
		decode(sketch, &d);
		if (d.result == IBLT_PEEL_COMPLETE && one_cell_of_three(sketch))
		{
			found = true;
			for (i = 0; i < CELLS; i++)
				check_cell(sketch, i);
			check(d.n == 3 && reports(&d, 3, 1) && reports(&d, 5, 1) &&
					  reports(&d, 6, 1),
				  "%u ids", d.n);
		}
		decoded_free(&d);
		sketch_free(sketch);
	}
	check(found, "no seed");
	checked("our cells: 3, 5 and 6 come out of eight, which hold the sums");
}

static void
test_equal_rows(void)
{
	IbltSketch *sketch = table_of(HASHES, CELLS / HASHES, false, 1);
	Decoded d;

	add_id(sketch, 3, 1);
	add_id(sketch, 3, 1);
	iblt_core_seal(sketch);
	decode(sketch, &d);
	check(d.result == IBLT_PEEL_COMPLETE && d.n == 1 && reports(&d, 3, 2),
		  "%u ids", d.n);
	checked("our cells: two equal rows are one id with count 2");
	decoded_free(&d);
	sketch_free(sketch);
}

/* {1, 2, ..., 1000} and {4, 5, ..., 1002} in cells for five differences. */
static void
test_two_sets(void)
{
	uint32_t cells = iblt_core_subtable_cells(5, HASHES, IBLT_DEFAULT_FAILURE);
	IbltSketch *left = table_of(HASHES, cells, false, 1);
	IbltSketch *right = table_of(HASHES, cells, false, 1);
	IbltSketch *difference;
	uint64_t id;
	Decoded d;

	for (id = 1; id <= 1000; id++)
		add_id(left, id, 1);
	for (id = 4; id <= 1002; id++)
		add_id(right, id, 1);
	iblt_core_seal(left);
	iblt_core_seal(right);
	difference = sketch_sum(left, right, -1);
	decode(difference, &d);
	check(d.result == IBLT_PEEL_COMPLETE && d.n == 5, "%u ids", d.n);
	check(reports(&d, 1, 1) && reports(&d, 2, 1) && reports(&d, 3, 1), "left");
	check(reports(&d, 1001, -1) && reports(&d, 1002, -1), "right");
	checked("two sets: 1, 2, 3 are on one side and 1001, 1002 on the other");
	decoded_free(&d);
	sketch_free(left);
	sketch_free(right);
	sketch_free(difference);
}

/* --- names ------------------------------------------------------------------- */

/*
 * In subtables the last two keys become alone together, since they share a cell
 * of a subtable or none.  dave is the one who stays behind alice.
 */
static const char *const names[] = { "carol", "bob", "alice", "dave" };

#define NAMES 4

static void
name_key(int name, uint8_t key[8])
{
	memset(key, 0, 8);
	memcpy(key, names[name], strlen(names[name]));
}

static IbltPresence
ask(IbltSketch *sketch, int name)
{
	IbltEntry entry;
	uint8_t key[8];

	name_key(name, key);
	iblt_core_seal(sketch);
	return iblt_core_get(sketch, key, &entry);
}

static void
put_name(IbltSketch *sketch, int name, int sign)
{
	uint8_t key[8];

	name_key(name, key);
	check(iblt_core_add_row(sketch, key, 1, sign) == IBLT_OK, "refused");
}

/*
 * Each of carol, bob and alice is found as soon as those before are taken out,
 * and no sooner.
 */
static bool
is_cascade(uint64_t seed)
{
	IbltParams params = make_params(IBLT_KEY_CANONICAL, 1, 3, 2, false, seed);
	IbltSketch *sketch = sketch_new(&params);
	bool cascade = true;
	int taken;
	int name;

	for (name = 0; name < NAMES; name++)
		put_name(sketch, name, 1);
	for (taken = 0; taken < NAMES - 1; taken++)
	{
		for (name = taken; name < NAMES - 1; name++)
			cascade &= ask(sketch, name) ==
					   (name == taken ? IBLT_PRESENT : IBLT_UNKNOWN);
		put_name(sketch, taken, -1);
	}
	sketch_free(sketch);
	return cascade;
}

static void
test_names(void)
{
	uint64_t seed = 1;
	IbltParams params;
	IbltSketch *sketch;
	Decoded d;
	int name;

	while (seed <= SEEDS && !is_cascade(seed))
		seed++;
	check(seed <= SEEDS, "no seed");
	params = make_params(IBLT_KEY_CANONICAL, 1, 3, 2, false, seed);
	sketch = sketch_new(&params);
	for (name = 0; name < NAMES; name++)
		put_name(sketch, name, 1);
	iblt_core_seal(sketch);
	decode(sketch, &d);
	check(d.result == IBLT_PEEL_COMPLETE && d.n == NAMES, "%u names", d.n);
	for (name = 0; name < NAMES; name++)
	{
		uint8_t key[8];

		name_key(name, key);
		check(reports(&d, iblt_load64(key), 1), "%s", names[name]);
	}
	checked("carol, bob and alice: each comes out when the one before is gone");
	decoded_free(&d);
	sketch_free(sketch);
}

int
main(void)
{
	test_xor_cells();
	test_our_cells();
	test_equal_rows();
	test_two_sets();
	test_names();
	return tap_done();
}
