/*
 * test_get.c
 *		Looking a key up from its own cells, and the sizes that make it succeed.
 *		fuzz_decode.c looks keys up in damaged values.  The success of a sketch as it
 *		is, is for test/sql/lookup_table.sql and test/sim/sim_get.c.
 */
#include <math.h>

#include "model.h"
#include "sizing.h"

/* A key from its number. */
static void
make_key(uint8_t *key, unsigned limbs, uint64_t number)
{
	memset(key, 0, 8 * (size_t) limbs);
	iblt_store64(key, number);
}

/* A sealed sketch of the keys 1 .. keys. */
static IbltSketch *
filled_sketch(const IbltParams *params, uint64_t keys)
{
	IbltSketch *sketch = sketch_new(params);
	uint8_t key[8 * IBLT_MAX_LIMBS];

	for (; keys > 0; keys--)
	{
		make_key(key, params->key.limbs, keys);
		(void) sketch_add(sketch, key, keys, 1);
	}
	iblt_core_seal(sketch);
	return sketch;
}

/* What is told of a key. */
typedef struct Answer
{
	IbltPresence presence;
	IbltEntry entry;
	bool has_value;
	uint8_t value[8 * IBLT_MAX_LIMBS];
} Answer;

static void
show_value(const IbltSketch *sketch, Answer *answer)
{
	answer->has_value = answer->presence == IBLT_PRESENT &&
		iblt_core_entry_value(sketch, &answer->entry, answer->value);
}

/* A slice has an allocation of its own, so the sanitizer sees any access beyond it. */
static const uint8_t *
fetch_slice(const IbltSketch *header, uint32_t i, void *bytes)
{
	return memcpy(take(header->cell_size), (uint8_t *) bytes + iblt_cell_offset(header, i),
				  header->cell_size);
}

/* Looks a key up as a reader of slices does, until this many cells have told. */
static IbltPresence
look_up(uint8_t *bytes, const IbltSketch *header, const uint8_t *key, int enough, Answer *answer)
{
	answer->presence = iblt_core_get_cells(header, key, enough, fetch_slice, bytes, &answer->entry);
	show_value(header, answer);
	return answer->presence;
}

/* Does the whole sketch tell the same of a key, with its value? */
static bool
whole_agrees(const IbltSketch *sketch, const uint8_t *key, uint64_t number, const Answer *part)
{
	size_t size = 8 * (size_t) sketch->params.value.limbs;
	uint8_t value[8 * IBLT_MAX_LIMBS];
	Answer whole;

	whole.presence = iblt_core_get(sketch, key, &whole.entry);
	show_value(sketch, &whole);
	value_of(sketch, number, value);
	return whole.presence == part->presence && (part->presence != IBLT_PRESENT ||
		 (whole.entry.count == part->entry.count &&
		  whole.has_value == (size > 0) && part->has_value == (size > 0) &&
		  memcmp(part->value, value, size) == 0));
}

/* Slices say what the whole sketch says. */
static void
test_slices(void)
{
	long seen[3] = {0};

	TRIALS(i, scaled(2000))
	{
		IbltParams params = draw_shape(5, 1u << below(7));
		uint64_t keys = below(2 * params.subtable_cells + 2);
		IbltSketch *sketch;
		IbltSketch header;
		uint8_t key[8 * IBLT_MAX_LIMBS];
		uint8_t *bytes;
		size_t size;

		if (params.value.limbs > 0)
			set_values(&params, 1 + below(4));
		sketch = filled_sketch(&params, keys);
		size = iblt_core_header_size(sketch->bytes);
		bytes = memcpy(take(size), sketch->bytes, size);
		check(iblt_core_open_header(&header, bytes, size, sketch->size) ==
				  IBLT_OK && header.rows == sketch->rows, "the header of an honest sketch");
		for (uint64_t number = 1; number <= keys + 5; number++)
		{
			IbltPresence presence;
			Answer part;

			make_key(key, params.key.limbs, number);
			presence = look_up(sketch->bytes, &header, key,
							   1 + (int) below(IBLT_MAX_HASHES), &part);
			seen[presence]++;
			check(whole_agrees(sketch, key, number, &part),
				  "key %d of %d", (int) number, (int) keys);
			check(presence != (number <= keys ? IBLT_ABSENT : IBLT_PRESENT),
				  "a wrong answer for key %d of %d", (int) number, (int) keys);
		}
	}
	check(seen[IBLT_PRESENT] > 0 && seen[IBLT_ABSENT] > 0 &&
			  seen[IBLT_UNKNOWN] > 0, "not all answers were seen");
	checked("a header and the cells of a key answer as the whole sketch does");
}

/* A header opens with all of its bytes and with the right total only. */
static void
check_header_sizes(const IbltParams *params)
{
	IbltSketch *sketch = sketch_new(params);
	size_t header_size = iblt_core_header_size(sketch->bytes);
	size_t totals[] = { 0, header_size, sketch->size - 1, sketch->size + 1,
						(size_t) -1 };
	int kind = (int) params->key.kind;
	IbltSketch header;

	check(header_size == (size_t) (sketch->cells - sketch->bytes),
		  "kind %d: a header of %zu bytes", kind, header_size);
	for (size_t size = 0; size <= sketch->size; size++)
	{
		uint8_t *bytes = memcpy(take(size), sketch->bytes, size);

		check(iblt_core_open_header(&header, bytes, size, sketch->size) ==
			  (size < header_size ? IBLT_BAD_SIZE : IBLT_OK), "kind %d: %zu bytes of a header", kind,
			  size);
	}
	for (int t = 0; t < LENGTH(totals); t++)
		check(iblt_core_open_header(&header, sketch->bytes, header_size,
									totals[t]) == IBLT_BAD_SIZE,
			  "kind %d: a total of %zu bytes", kind, totals[t]);
}

static void
test_header_sizes(void)
{
	for (int kind = IBLT_KEY_UNTYPED; kind <= IBLT_KEY_CANONICAL; kind++)
	{
		IbltParams params = make_params((IbltKeyKind) kind, kind == IBLT_KEY_UUID ? 2 : 1, 4,
						8, false, 1);

		check_header_sizes(&params);
		if (kind == IBLT_KEY_UNTYPED)
			continue;
		/* values with a description of their own */
		set_values(&params, 3);
		check_header_sizes(&params);
	}
	checked("a header opens with all its bytes, and with the size of its value");
}

/* What the theory says, by other means than the code. */
static double
expected_success(uint32_t cells, int hashes, uint32_t keys)
{
	double alone = cells == 1 ? keys <= 1 : exp((keys - 1.0) * log1p(-1.0 / cells));

	return 1 - pow(1 - alone, hashes);
}

/*
 * Sizes that every machine must choose.  They were computed from the formula
 * with 60 decimal digits by a program of its own.
 */
static const struct
{
	uint32_t	capacity;
	int			given;
	double		success;
	int			hashes;
	uint32_t	cells;
}			chosen[] = {
	{100, 0, 0.9, 4, 126},	/* three hashes list worse */
	{100, 0, 0.99, 6, 160},
	{100, 3, 0.99, 3, 420},
	{100, 4, 0.99, 4, 280},
	{100, 8, 0.99, 8, 126},
	{100, 0, 0.999, 8, 192},
	{1000, 0, 0.9, 4, 1260},
	{1000, 0, 0.99, 5, 2016},
	{1000, 7, 0.99, 7, 1440},
	{1000, 0, 0.99999, 8, 3840},
	{10000, 0, 0.99, 6, 16128},
	{100000, 0, 0.99, 6, 161280},
	{100000, 0, 0.999, 8, 184320},
	{1000000, 0, 0.9, 3, 1720320},
	{1000000, 0, 0.99, 7, 1376256},
	{1000000, 4, 0.999, 4, 5160960},
	{1000000, 0, 0.99999, 8, 3932160},
	/* no cells do it with three or four hashes */
	{1000000, 3, 0.99999, 3, 0},
	{1000000, 4, 0.99999, 4, 0},
};

static void
test_chosen(void)
{
	static const double refused[] = { 0, 1, -0.5, 1.5, NAN, INFINITY, -0.0 };
	int hashes;

	for (int i = 0; i < LENGTH(chosen); i++)
	{
		uint32_t cells;

		hashes = chosen[i].given;
		cells = iblt_core_get_choose(chosen[i].capacity, &hashes, 1e-4, chosen[i].success);
		check(cells == chosen[i].cells && (cells == 0 || hashes == chosen[i].hashes),
			  "%u keys at %g: %d subtables of %u cells",
			  (unsigned) chosen[i].capacity, chosen[i].success, hashes, (unsigned) cells);
	}
	for (int i = 0; i < LENGTH(refused); i++)
	{
		hashes = 4;
		check(iblt_core_get_choose(100, &hashes, 1e-4, refused[i]) == 0, "%g is taken", refused[i]);
	}
	for (hashes = 2; hashes <= 9; hashes += 7)
		check(iblt_core_get_choose(100, &hashes, 1e-4, 0.9) == 0, "%d hashes are taken", hashes);
	hashes = 0;
	check(iblt_core_get_choose(0, &hashes, 1e-4, 0.9) == 0 &&
			  iblt_core_get_choose(UINT32_MAX, &hashes, 1e-4, 0.9) == 0 &&
			  iblt_core_get_choose(100, &hashes, 1, 0.9) == 0,
		  "a capacity or failure that is refused");
	checked("sizes are the same on every machine");
}

/* Does a size list and get as asked, by the formula with a little leeway? */
static bool
is_enough(uint32_t cells, int hashes, uint32_t capacity, double goal, double leeway)
{
	return iblt_core_capacity(cells, hashes, 1e-4) >= capacity &&
		expected_success(cells, hashes, capacity) >= goal + leeway;
}

/* The choice is enough, and nothing that is clearly enough is smaller. */
static void
test_smallest(void)
{
	TRIALS(i, scaled(2000))
	{
		uint32_t capacity = 1 + below(1u << below(17));
		double goal = 1 - pow(10, -(double) below(500) / 100) * 0.9;
		int hashes = 0;
		uint32_t cells = iblt_core_get_choose(capacity, &hashes, 1e-4, goal);
		uint32_t s;

		check(cells > 0 && is_enough(cells, hashes, capacity, goal, -1e-12),
			  "%u keys at %g: %d subtables of %u cells are not enough",
			  (unsigned) capacity, goal, hashes, (unsigned) cells);
		for (int k = 3; k <= 8; k++)
		{
			for (s = 1; s * (uint32_t) k < cells * (uint32_t) hashes;
				 s = iblt_core_ladder_at_least(s + 1))
				if (is_enough(s, k, capacity, goal, 1e-12))
					break;
			check(s * (uint32_t) k >= cells * (uint32_t) hashes,
				  "%u keys at %g: %d subtables of %u cells, not %d of %u",
				  (unsigned) capacity, goal, k, (unsigned) s, hashes, (unsigned) cells);
		}
	}
	checked("no smaller size lists and gets as asked");
}

TAP_MAIN(test_slices, test_header_sizes, test_chosen, test_smallest)
