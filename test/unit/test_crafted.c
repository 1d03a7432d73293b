/*
 * test_crafted.c
 *		Sketches that no rows make: damaged, or crafted.
 *
 * Their checksums are right, so that they open.  The demands are that peeling
 * ends, and that it is called complete only if what was reported, put back,
 * gives the sketch again.
 */
#include "model.h"

/* --- sketches that no rows make ---------------------------------------------- */

/* What a decoding reported, put into an empty sketch with the same rows. */
static IbltSketch *
put_back(const IbltSketch *sketch, const Decoded *d)
{
	IbltSketch *sum = sketch_new(&sketch->params);
	int subtables = iblt_core_subtable_count(&sketch->params);
	uint32_t index[IBLT_MAX_HASHES];

	for (uint32_t i = 0; i < d->n; i++)
	{
		(void) positions(sketch, d->entry[i].key, index);
		for (int h = 0; h < subtables; h++)
			iblt_core_add_cell(sum, index[h], d->entry[i].cell, 1);
		sum->rows += d->entry[i].count;
	}
	memcpy(sum->meter, sketch->meter, 2 * IBLT_METER_BUCKETS);
	iblt_core_seal(sum);
	return sum;
}

/*
 * Decodes any sealed sketch.  If that is complete, then the reports must be
 * of different keys and add up to the sketch itself, byte by byte.
 */
static IbltPeelResult
decode_crafted(const IbltSketch *sketch, const char *what, long number)
{
	size_t key_size = 8 * (size_t) sketch->params.key.limbs;
	Decoded d = decode(sketch);

	check(d.bounded, "%s %ld: a cell reported twice", what, number);
	if (d.result != IBLT_PEEL_COMPLETE)
		return d.result;
	check(same_bytes(put_back(sketch, &d), sketch), "%s %ld: %u reports are not the sketch", what,
		  number, d.n);
	for (uint32_t i = 0; i < d.n; i++)
		for (uint32_t j = 0; j < i; j++)
			check(memcmp(d.entry[i].key, d.entry[j].key, key_size) != 0,
				  "%s %ld: complete with a key reported twice", what, number);
	return d.result;
}

/* A sketch that decodes completely, of one to five keys, in a variety of shapes.  The first is empty. */
static IbltSketch *
specimen(int number)
{
	static const uint32_t cells[] = {3, 4, 5, 6, 7, 8};
	unsigned limbs = number % 3 == 2 ? 5 : 1 + (unsigned) number % 3;
	IbltParams params = make_params(usual_kind(limbs), limbs, 3 + number % 4, cells[number % 6],
									number & 1, 0);
	IbltSketch *sketch;

	do
	{
		uint8_t key[8 * 5] = {0};

		params.seed = tap_random();
		sketch = sketch_new(&params);
		for (uint32_t n = 1 + below(5); n > 0; n--)
		{
			iblt_store64(key, n);
			(void) iblt_core_add_row(sketch, key, n, n % 3 == 0 ? -1 : 1);
		}
		iblt_core_seal(sketch);
	} while (decode_crafted(sketch, "honest", 0) != IBLT_PEEL_COMPLETE);
	return number > 0 ? sketch : sketch_sum(sketch, sketch, -1);
}

/* Flips a bit and repairs the trailer.  Opens only if that is still valid. */
static bool
flip(IbltSketch *sketch, const IbltSketch *from, size_t bit, IbltStatus *status)
{
	memcpy(sketch->bytes, from->bytes, from->size);
	sketch->bytes[bit / 8] ^= (uint8_t) (1 << bit % 8);
	if (bit / 8 < from->size - 8)
		repair_trailer(sketch->bytes, from->size);
	*status = iblt_core_open(sketch, sketch->bytes, from->size);
	return *status == IBLT_OK;
}

/* A flip in a cell must show, as must a wrong row count; the rest may not. */
static void
check_flip(const IbltSketch *flipped, const IbltSketch *from, size_t bit)
{
	const uint8_t *place = flipped->bytes + bit / 8;
	IbltPeelResult result = decode_crafted(flipped, "flipped bit", (long) bit);
	bool in_meter = place >= flipped->meter && place < flipped->meter + 2 * IBLT_METER_BUCKETS;

	if (place >= flipped->cells)
		check(result != IBLT_PEEL_COMPLETE, "complete with bit %zu of a cell", bit);
	else if (bit / 8 >= 24 && bit / 8 < 32)
		check(result == IBLT_PEEL_INCONSISTENT, "row count's bit %zu gives %d", bit, (int) result);
	else if (in_meter && iblt_core_meter_is_zero(from->meter))
		check(result == IBLT_PEEL_INCONSISTENT, "meter's bit %zu gives %d", bit, (int) result);
}

static void
test_flips(void)
{
	long opened = 0;

	TRIALS(i, scaled(60))
	{
		IbltSketch *honest = specimen((int) i);
		IbltSketch *flipped = sketch_copy(honest);
		IbltStatus status;

		TRIALS(bit, 8 * honest->size)
			if (flip(flipped, honest, (size_t) bit, &status))
			{
				opened++;
				check_flip(flipped, honest, (size_t) bit);
			}
			else if ((size_t) bit / 8 >= honest->size - 8)
				check(status == IBLT_BAD_CHECKSUM, "trailer's bit %ld: %d", bit, (int) status);
	}
	check(opened > 1000 * scaled(60), "only %ld opened", opened);
	printf("# %ld damaged sketches with a good checksum\n", opened);
	checked("no bit of a cell or the row count can flip unnoticed");
}

/* Any field, count or cell of an honest sketch replaced, swapped or doubled. */
static void
damage(IbltSketch *sketch)
{
	uint8_t *cell = iblt_cell(sketch, below(sketch->ncells));
	uint8_t *other = iblt_cell(sketch, below(sketch->ncells));
	unsigned field = below(sketch->fields);

	switch (below(5))
	{
		case 0:
			iblt_cell_set_field(cell, field, fp_reduce(tap_random()));
			break;
		case 1:
			iblt_store32(cell, iblt_load32(cell) + 1 + below(9));
			break;
		case 2:
			for (uint32_t b = 0; b < sketch->cell_size; b++)
			{
				uint8_t byte = cell[b];

				cell[b] = other[b];
				other[b] = byte;
			}
			break;
		case 3:
			memmove(cell, other, sketch->cell_size);
			break;
		default:
			memset(cell, 0, sketch->cell_size);
	}
}

static void
test_damaged_cells(void)
{
	TRIALS(i, scaled(100))
	{
		IbltSketch *honest = specimen(1 + (int) below(100));

		TRIALS(j, 1000)
		{
			IbltSketch *damaged = sketch_copy(honest);

			do
				damage(damaged);
			while (below(2));
			iblt_core_seal(damaged);
			check((decode_crafted(damaged, "damage", j) == IBLT_PEEL_COMPLETE) ==
				  same_bytes(damaged, honest), "damage %ld is unnoticed", j);
		}
	}
	checked("no damage to cells goes unnoticed");
}

/* --- crafted: the contents of a key, in cells of one's choice ---------------- */

/* What rows of the key with this weight put into a cell. */
static void
contents(const IbltSketch *sketch, const uint8_t *key, uint64_t weight, uint64_t *terms)
{
	unsigned limbs = sketch->params.key.limbs;
	uint32_t index[IBLT_MAX_HASHES];

	terms[IBLT_FIELD_WEIGHT] = weight;
	for (unsigned l = 0; l < limbs; l++)
		terms[IBLT_FIELD_KEY + l] = fp_mul(weight, iblt_load64(key + 8 * (size_t) l) ^
							   iblt_limb_mask(&sketch->hasher, l));
	terms[IBLT_FIELD_CHECK(limbs)] = fp_mul(weight, iblt_core_key_cells(sketch, key, index));
	for (unsigned l = 0; l < sketch->params.value.limbs; l++)
		terms[IBLT_FIELD_VALUE(limbs) + l] = fp_reduce(tap_random());
}

static void
put_into(IbltSketch *sketch, uint32_t i, int32_t count, const uint64_t *terms)
{
	uint8_t *cell = iblt_cell(sketch, i);

	iblt_store32(cell, iblt_load32(cell) + (uint32_t) count);
	for (unsigned f = 0; f < sketch->fields; f++)
		iblt_cell_set_field(cell, f, fp_add(iblt_cell_field(cell, f), terms[f]));
}

static void
take_out_of(IbltSketch *sketch, uint32_t i, int32_t count, const uint64_t *terms)
{
	uint64_t negative[IBLT_MAX_FIELDS];

	for (unsigned f = 0; f < sketch->fields; f++)
		negative[f] = fp_neg(terms[f]);
	put_into(sketch, i, -count, negative);
}

static void
check_reports(const IbltSketch *sketch, uint32_t n, IbltPeelResult expected, const char *what)
{
	Decoded d = decode(sketch);

	check(d.bounded && d.n == n && d.result == expected, "%s: %u keys, result %d", what, d.n,
		  (int) d.result);
}

static void
misplace(IbltSketch *sketch)
{
	int hashes = sketch->params.hashes;
	uint32_t index[IBLT_MAX_HASHES];
	uint64_t terms[4];
	uint8_t key[8];
	uint32_t wrong;
	int h;

	iblt_store64(key, tap_random());
	contents(sketch, key, 12345, terms);
	(void) positions(sketch, key, index);
	do
		wrong = below(sketch->ncells);
	while (wrong == index[wrong / sketch->params.subtable_cells]);
	sketch->rows = 1;

	put_into(sketch, wrong, 1, terms);
	check_reports(sketch, 0, IBLT_PEEL_INCOMPLETE, "in a wrong cell alone");
	for (h = 0; h < hashes; h++)
		put_into(sketch, index[h], 1, terms);
	check_reports(sketch, 1, IBLT_PEEL_INCOMPLETE, "in a wrong cell as well");
	take_out_of(sketch, wrong, 1, terms);
	check_reports(sketch, 1, IBLT_PEEL_COMPLETE, "in its cells alone");
	sketch->rows = 2;
	check_reports(sketch, 1, IBLT_PEEL_INCONSISTENT, "wrong row count");
	sketch->rows = 1 + (INT64_C(1) << 32);
	check_reports(sketch, 1, IBLT_PEEL_INCONSISTENT, "very wrong row count");
	h = (int) below((uint32_t) hashes);
	take_out_of(sketch, index[h], 1, terms);
	check(decode_crafted(sketch, "misplaced", h) == IBLT_PEEL_INCONSISTENT,
		  "complete with a key in all but one of its cells");
}

/* A key in some of its cells only, and in one that is not its own. */
static void
test_misplaced_keys(void)
{
	TRIALS(i, scaled(2000))
	{
		IbltParams params = make_params(IBLT_KEY_INTEGER, 1, 3 + (int) below(6), 2 + below(9), false,
										tap_random());

		if (params.subtable_cells == 11)
			params.subtable_cells = 12;
		misplace(sketch_new(&params));
	}
	checked("keys outside their cells, or not in all of them, are no rows");
}

/* Keys of any weight and count, some whole and some in a part of the cells. */
static void
test_crafted_mixtures(void)
{
	long rounds = scaled(100000);
	long complete = 0;

	TRIALS(i, rounds)
	{
		int hashes = 3 + (int) below(3);
		IbltParams params = make_params(IBLT_KEY_INTEGER, 1, hashes,
										1 + below(10), below(2), tap_random());
		IbltSketch *sketch = sketch_new(&params);
		uint32_t n = below(12);

		while (n-- > 0)
		{
			uint32_t index[IBLT_MAX_HASHES];
			uint64_t terms[5];
			uint8_t key[8];
			int32_t count = (int32_t) below(7) - 3;
			unsigned whole = below(8) > 0;
			int h = hashes;

			iblt_store64(key, below(20));
			contents(sketch, key, 1 + below(3), terms);
			(void) positions(sketch, key, index);
			while (h-- > 0)
				if (whole || below(2))
					put_into(sketch, index[h], count, terms);
			sketch->rows += count;
		}
		iblt_core_seal(sketch);
		complete += decode_crafted(sketch, "mixture", i) == IBLT_PEEL_COMPLETE;
	}
	check(complete > rounds / 10 && complete < rounds * 9 / 10,
		  "%ld of %ld complete: not a mixture", complete, rounds);
	checked("crafted sketches are complete only if the reports make them");
}

/* x of a key's only limb and its check, as field elements. */
static void
key_elements(const IbltSketch *sketch, const uint8_t *key, uint64_t *x, uint64_t *g)
{
	uint64_t terms[4];

	contents(sketch, key, 1, terms);
	*x = terms[IBLT_FIELD_KEY];
	*g = terms[IBLT_FIELD_CHECK(1)];
}

/*
 * Weights for the keys 1 to 3 whose sum in one cell passes for key 0: with
 * x and g relative to key 0's, both sums of weight * x and weight * g must be
 * zero, which the cross product of the two solves.
 */
static void
impostor_weights(const IbltSketch *sketch, uint8_t keys[4][8], uint64_t weight[4])
{
	uint64_t x[4];
	uint64_t g[4];

	for (int i = 0; i < 4; i++)
		key_elements(sketch, keys[i], &x[i], &g[i]);
	for (int i = 1; i < 4; i++)
	{
		x[i] = fp_sub(x[i], x[0]);
		g[i] = fp_sub(g[i], g[0]);
	}
	for (int i = 1; i < 4; i++)
	{
		int j = i % 3 + 1;
		int k = j % 3 + 1;

		weight[i] = fp_sub(fp_mul(x[j], g[k]), fp_mul(x[k], g[j]));
	}
}

/*
 * Four keys in one cell of the first subtable, the last three with weights.  They
 * must not be in the same cells of all subtables: such a sketch is that of the
 * first key, three times.
 */
static void
craft_impostor(IbltSketch *sketch)
{
	uint8_t keys[4][8];
	uint64_t weight[4];
	uint64_t terms[4];
	uint32_t index[IBLT_MAX_HASHES];
	uint32_t shared = below(sketch->params.subtable_cells);
	uint32_t second = 0; /* of the first key, in the second subtable */

	for (int i = 0; i < 4; i++)
	{
		do
		{
			iblt_store64(keys[i], tap_random());
			(void) positions(sketch, keys[i], index);
		} while (index[0] != shared || (i == 3 && index[1] == second));
		if (i == 0)
			second = index[1];
	}
	impostor_weights(sketch, keys, weight);
	for (int i = 1; i < 4; i++)
	{
		contents(sketch, keys[i], weight[i], terms);
		(void) positions(sketch, keys[i], index);
		for (int h = 0; h < sketch->params.hashes; h++)
			put_into(sketch, index[h], 1, terms);
	}
	sketch->rows = 3;
}

/*
 * Who knows the seed can make a cell of three keys look like a fourth key,
 * which is then reported and, at another of its cells, reported back.  All
 * cells end up zero, but the fourth key was never there.
 */
static void
test_impostors(void)
{
	long exposed = 0;

	TRIALS(i, scaled(5000))
	{
		IbltParams params = make_params(IBLT_KEY_INTEGER, 1, 3 + (int) below(3),
										4 + below(7), false, tap_random());
		IbltSketch *sketch = sketch_new(&params);
		IbltPeelResult result;

		craft_impostor(sketch);
		iblt_core_seal(sketch);
		result = decode_crafted(sketch, "impostor", i);
		check(result != IBLT_PEEL_COMPLETE, "impostor %ld is believed", i);
		exposed += result == IBLT_PEEL_INCONSISTENT;
	}
	check(exposed > 0, "no impostor ever left all cells zero");
	checked("a key that crafted weights feign is not believed");
}

/*
 * Two keys whose limbs alone, weighted, pass for a third: (x1 - x0) * w1 and
 * (x2 - x0) * w2 cancel.  The check must tell, to GET and to peeling.
 */
static void
test_half_impostors(void)
{
	TRIALS(i, scaled(2000))
	{
		IbltParams params = make_params(IBLT_KEY_INTEGER, 1, 4, 1, false, tap_random());
		IbltSketch *sketch = sketch_new(&params);
		uint64_t terms[4], x[3], g;
		uint8_t keys[3][8];
		IbltEntry entry;

		for (int n = 0; n < 3; n++)
		{
			iblt_store64(keys[n], tap_random());
			key_elements(sketch, keys[n], &x[n], &g);
		}
		for (int n = 1; n < 3; n++)
		{
			contents(sketch, keys[n], n == 1 ? fp_sub(x[2], x[0]) : fp_sub(x[0], x[1]), terms);
			for (uint32_t c = 0; c < sketch->ncells; c++)
				put_into(sketch, c, 1, terms);
		}
		sketch->rows = 2;
		check(iblt_core_get(sketch, keys[0], &entry) == IBLT_UNKNOWN,
			  "GET believes a key by its limbs alone");
		check_reports(sketch, 0, IBLT_PEEL_INCOMPLETE, "two keys in one cell");
	}
	checked("a key that weights feign by its limbs alone is not seen at all");
}

/* Cells all zero: is that "no difference", and a key absent?  Only if the header says so too. */
static void
test_empty(void)
{
	static const int64_t wrong[] = {1, INT64_C(1) << 32, -1};
	IbltParams params = make_params(IBLT_KEY_INTEGER, 1, 4, 5, false, 1);
	IbltParams untyped = make_params(IBLT_KEY_UNTYPED, 4, 4, 5, false, 1);
	IbltSketch *sketch = sketch_new(&params);
	uint8_t key[32] = {0};
	IbltEntry entry;

	check_reports(sketch, 0, IBLT_PEEL_COMPLETE, "empty");
	check(iblt_core_get(sketch, key, &entry) == IBLT_ABSENT, "empty");
	check_reports(sketch_new(&untyped), 0, IBLT_PEEL_COMPLETE, "untyped");
	check(iblt_core_get(sketch_new(&untyped), key, &entry) == IBLT_ABSENT,
		  "an untyped template has a key");
	for (int i = 0; i < 3 + 8 * 2 * IBLT_METER_BUCKETS; i++)
	{
		sketch->rows = i < 3 ? wrong[i] : 0;
		if (i >= 3)
			sketch->meter[(i - 3) / 8] ^= (uint8_t) (1 << (i - 3) % 8);
		check_reports(sketch, 0, IBLT_PEEL_INCONSISTENT, "rows or a meter, but no cell");
		check(iblt_core_get(sketch, key, &entry) == IBLT_CONTRADICTION, "rows or a meter: %d", i);
		if (i >= 3)
			sketch->meter[(i - 3) / 8] ^= (uint8_t) (1 << (i - 3) % 8);
	}
	checked("no keys is \"no difference\" only if meter and row count agree");
}

TAP_MAIN(test_flips, test_damaged_cells, test_misplaced_keys, test_crafted_mixtures,
		 test_impostors, test_half_impostors, test_empty)
