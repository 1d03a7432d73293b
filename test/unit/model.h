/*
 * model.h
 *		What a sketch must say, computed the slow and obvious way.
 *
 * A Model is a set of distinct keys and a list of (key, y, signed count): what
 * a sketch stands for.  From it follow, without a look into any cell, what a
 * decoding may report of each key, which keys peeling can reach (from the
 * positions of the keys alone) and what GET has to answer.
 *
 * Rounds of random tests go through scaled(): IBLT_TEST_SCALE is a percentage,
 * by default 100, and less in a sanitized build, which is ten times slower, and
 * where the Makefile says so.
 */
#ifndef IBLT_TEST_MODEL_H
#define IBLT_TEST_MODEL_H

#include "cell.h"
#include "get.h"
#include "hypergraph.h"
#include "meter.h"
#include "peel.h"
#include "sketch.h"
#include "tap.h"

#if defined(__SANITIZE_ADDRESS__)
#define MODEL_SCALE 10
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MODEL_SCALE 10
#endif
#endif
#ifndef MODEL_SCALE
#define MODEL_SCALE 100
#endif

#define MODEL_NONE UINT32_MAX

static inline long
scaled(long rounds)
{
	const char *text = getenv("IBLT_TEST_SCALE");
	long scale = text != NULL && *text != '\0' ? atol(text) : MODEL_SCALE;

	return rounds * scale / 100 > 0 ? rounds * scale / 100 : 1;
}

/* Uniform enough below n. */
static inline uint32_t
below(uint32_t n)
{
	return (uint32_t) (((tap_random() >> 32) * n) >> 32);
}

/* --- sketches ---------------------------------------------------------------- */

static inline IbltParams
make_params(IbltKeyKind kind, unsigned limbs, int hashes, uint32_t cells, bool with_values,
			uint64_t seed)
{
	IbltParams params = {.hashes = hashes, .subtables = (1u << hashes) - 1,
		.subtable_cells = cells, .key = {.kind = kind, .limbs = limbs}, .seed = seed};

	if (kind == IBLT_KEY_CANONICAL)
	{
		params.key.description = (const uint8_t *) "text";
		params.key.description_size = 4;
	}
	if (with_values)
	{
		params.value.kind = kind == IBLT_KEY_UNTYPED ? IBLT_KEY_UNTYPED : IBLT_KEY_INTEGER;
		params.value.limbs = 1;
	}
	return params;
}

/* The kind that keys of so many limbs usually have. */
static inline IbltKeyKind
usual_kind(unsigned limbs)
{
	return limbs == 1 ? IBLT_KEY_INTEGER : limbs == 2 ? IBLT_KEY_UUID : IBLT_KEY_CANONICAL;
}

/* A shape with keys of a few limbs, now and then without one of its subtables. */
static inline IbltParams
draw_shape(unsigned most_limbs, uint32_t cells)
{
	unsigned limbs = 1 + below(most_limbs);
	IbltParams params = make_params(usual_kind(limbs), limbs, 3 + (int) below(6), cells,
									below(2) == 0, tap_random());

	if (below(3) == 0)
		params.subtables &= ~(1u << below((uint32_t) params.hashes));
	return params;
}

/* Values of so many limbs: integers, uuids or texts.  The keys have a type. */
static inline void
set_values(IbltParams *params, unsigned limbs)
{
	params->value.kind = usual_kind(limbs);
	params->value.limbs = limbs;
	params->value.description = (const uint8_t *) "varchar";
	params->value.description_size = params->value.kind == IBLT_KEY_CANONICAL ? 7 : 0;
}

static inline IbltSketch *
sketch_new(const IbltParams *params)
{
	IbltSketch *sketch = take(sizeof *sketch);

	iblt_core_init(sketch, params, take(iblt_core_size(params)));
	return sketch;
}

static inline IbltSketch *
sketch_copy(const IbltSketch *from)
{
	IbltSketch *sketch = take(sizeof *sketch);

	iblt_core_view_copy(sketch, from, memcpy(take(from->size), from->bytes, from->size));
	return sketch;
}

/* a + sign * b, sealed; a and b must be. */
static inline IbltSketch *
sketch_sum(const IbltSketch *a, const IbltSketch *b, int sign)
{
	IbltSketch *sum = sketch_copy(a);

	iblt_core_add_sketch(sum, b, sign);
	iblt_core_seal(sum);
	return sum;
}

/* The sketch folded to so many cells a subtable, with the subtables of a mask, and sealed. */
static inline IbltSketch *
sketch_fold(const IbltSketch *from, uint32_t cells, unsigned subtables)
{
	IbltParams params = from->params;
	IbltSketch *to;

	params.subtable_cells = cells;
	params.subtables = subtables;
	to = sketch_new(&params);
	iblt_core_fold(to, from);
	iblt_core_seal(to);
	return to;
}

/* The value that y stands for: another y has another, and zeros may follow. */
static inline void
value_of(const IbltSketch *sketch, uint64_t y, uint8_t *value)
{
	iblt_store64(value, y);
	for (unsigned l = 1; l < sketch->params.value.limbs; l++)
		iblt_store64(value + 8 * (size_t) l, y % 4 < 2 ? 0 : (y + l) * IBLT_GOLDEN);
}

/* Adds a row with the checksum y, or the value that y stands for. */
static inline IbltStatus
sketch_add(IbltSketch *sketch, const uint8_t *key, uint64_t y, int sign)
{
	uint8_t value[8 * IBLT_MAX_LIMBS];

	if (sketch->params.value.limbs == 0)
		return iblt_core_add_row(sketch, key, y, sign);
	value_of(sketch, y, value);
	return iblt_core_add_pair(sketch, key, value, sign);
}

/* Adds a row with an integer key to a sketch that takes it. */
static inline void
add_integer(IbltSketch *sketch, uint64_t key, uint64_t y, int sign)
{
	uint8_t bytes[8];

	iblt_store64(bytes, key);
	(void) iblt_core_add_row(sketch, bytes, y, sign);
}

static inline bool
same_bytes(const IbltSketch *a, const IbltSketch *b)
{
	return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

/* Writes the checksum that the bytes ought to have. */
static inline void
repair_trailer(uint8_t *bytes, size_t size)
{
	iblt_store64(bytes + size - 8, XXH3_64bits(bytes, size - 8));
}

/* --- decoding into memory -------------------------------------------------- */

typedef struct Decoded
{
	IbltPeelResult result;
	bool bounded; /* no cell reported twice */
	uint32_t n;	  /* reports */
	IbltEntry *entry;
} Decoded;

/* Decodes a copy of the sketch. */
static inline Decoded
decode(const IbltSketch *sketch)
{
	size_t key_size = 8 * (size_t) sketch->params.key.limbs;
	Decoded d = {.bounded = true, .entry = take(sketch->ncells * sizeof *d.entry)};
	IbltSketch copy = *sketch;
	static IbltPeeler peeler;	/* of 14 kB */
	uint8_t *keys = take(sketch->ncells * key_size);
	uint8_t *cells = take((size_t) sketch->ncells * sketch->cell_size);
	IbltEntry entry;
	uint32_t bits = 0;

	/* with its hasher, which takes as long to make as a few keys to peel */
	copy.bytes = memcpy(take(sketch->size), sketch->bytes, sketch->size);
	copy.meter = copy.bytes + (sketch->meter - sketch->bytes);
	copy.cells = copy.bytes + (sketch->cells - sketch->bytes);
	iblt_core_peel_start(&peeler, &copy, take(iblt_core_peel_scratch_size(&copy)));
	for (; iblt_core_peel_next(&peeler, &entry) && (d.bounded = d.n < sketch->ncells); d.n++)
	{
		d.entry[d.n] = entry;
		d.entry[d.n].key = memcpy(keys + d.n * key_size, entry.key, key_size);
		d.entry[d.n].cell = memcpy(cells + d.n * (size_t) sketch->cell_size, entry.cell,
								   sketch->cell_size);
	}
	for (uint32_t i = 0; i < sketch->ncells; i++)
		bits += peeler.reported[i / 8] >> i % 8 & 1;
	/* as many reports as cells that reported: none did so twice */
	d.bounded = d.bounded && bits == d.n;
	d.result = iblt_core_peel_result(&peeler);
	return d;
}

/* --- the model -------------------------------------------------------------- */

typedef struct ModelRow
{
	uint32_t key; /* number of the key */
	uint64_t y;
	int64_t count;
} ModelRow;

/* What must be said of one key. */
typedef struct ModelKey
{
	bool there;		/* not all of its rows cancel */
	bool one_value; /* all rows left have one y ... */
	uint64_t value; /* ... which is this */
	int64_t count;
} ModelKey;

typedef struct Model
{
	unsigned limbs;
	uint32_t nkeys;
	uint8_t *keys;		/* distinct */
	ModelKey *expected; /* set by model_settle() */
	ModelRow *rows;
	size_t nrows;
	size_t room;
} Model;

static inline uint8_t *
model_key(const Model *model, uint32_t i)
{
	return model->keys + (size_t) i * 8 * model->limbs;
}

/* The number of a key, or MODEL_NONE. */
static inline uint32_t
model_find(const Model *model, const uint8_t *key, uint32_t nkeys)
{
	for (uint32_t i = 0; i < nkeys; i++)
		if (memcmp(model_key(model, i), key, 8 * (size_t) model->limbs) == 0)
			return i;
	return MODEL_NONE;
}

/* One limb of the kinds that keys have: extremes, dense ids, random words. */
static inline uint64_t
random_limb(uint32_t i, uint64_t base)
{
	static const uint64_t extremes[] = {0, 1, UINT64_MAX, UINT64_MAX - 58, UINT64_MAX - 59,
		UINT64_MAX - 60, UINT64_C(1) << 63, (UINT64_C(1) << 63) - 1, 58, 59};

	switch (below(4))
	{
		case 0:
			return extremes[below(10)];
		case 1:
			return base + i;
		case 2:
			return UINT64_C(1) << below(64);
		default:
			return tap_random();
	}
}

/* Sets key i to one that differs from those before it. */
static inline void
model_draw_key(Model *model, uint32_t i)
{
	uint64_t base = below(2) ? 0 : tap_random();
	uint8_t *key = model_key(model, i);
	unsigned used = 1 + below(model->limbs);

	/* zeros at the end, as of a padded key */
	memset(key, 0, 8 * (size_t) model->limbs);
	do
		for (unsigned l = 0; l < used; l++)
			iblt_store64(key + 8 * (size_t) l, random_limb(i, base));
	while (model_find(model, key, i) != MODEL_NONE);
}

/* Room for so many rows, which are added up at most. */
static inline Model *
model_new(unsigned limbs, uint32_t nkeys, size_t room)
{
	Model *model = take(sizeof *model);

	*model = (Model) {limbs, nkeys, take((size_t) nkeys * 8 * limbs),
		take(nkeys * sizeof *model->expected), take(room * sizeof *model->rows), 0, room};
	for (uint32_t i = 0; i < nkeys; i++)
		model_draw_key(model, i);
	return model;
}

static inline void
model_add(Model *model, uint32_t key, uint64_t y, int64_t count)
{
	if (model->nrows == model->room)
		abort();
	model->rows[model->nrows++] = (ModelRow) {key, y, count};
}

static inline int
compare_rows(const void *a, const void *b)
{
	const ModelRow *x = a;
	const ModelRow *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->y < y->y ? -1 : x->y > y->y;
}

/* Adds up equal rows and says what must be reported of each key. */
static inline void
model_settle(Model *model)
{
	memset(model->expected, 0, model->nkeys * sizeof *model->expected);
	qsort(model->rows, model->nrows, sizeof *model->rows, compare_rows);
	for (size_t i = 0; i < model->nrows;)
	{
		ModelRow row = model->rows[i];
		ModelKey *key = &model->expected[row.key];

		while (++i < model->nrows && compare_rows(&row, &model->rows[i]) == 0)
			row.count += model->rows[i].count;
		if (row.count != 0)
			*key = (ModelKey) {true, !key->there, row.y, key->count + row.count};
	}
}

/* --- cells and keys as a hypergraph ---------------------------------------- */

/* The cells of a key, from its hash alone; returns how many. */
static inline int
positions(const IbltSketch *sketch, const uint8_t *key, uint32_t *index)
{
	const IbltParams *params = &sketch->params;
	uint32_t position[IBLT_MAX_HASHES];
	int kept = 0;

	(void) iblt_hash_key(&sketch->hasher, key, 8 * (size_t) params->key.limbs, params->hashes,
						 params->subtable_cells, position);
	for (int i = 0; i < params->hashes; i++)
		if (params->subtables & 1u << i)
		{
			index[kept] = (uint32_t) kept * params->subtable_cells + position[i];
			kept++;
		}
	return kept;
}

/* A graph for keys with numbers below "numbers". */
static inline Graph
graph_new(const IbltSketch *sketch, uint32_t numbers)
{
	return graph_open(iblt_core_subtable_count(&sketch->params), sketch->params.subtable_cells, numbers);
}

static inline void
graph_put_key(Graph *graph, const IbltSketch *sketch, uint32_t number, const uint8_t *key)
{
	uint32_t index[IBLT_MAX_HASHES];
	int kept = positions(sketch, key, index);

	for (int i = 0; i < kept; i++)
		graph_put(graph, number, i, index[i]);
}

static inline Graph
graph_of(const IbltSketch *sketch, const Model *model)
{
	Graph graph = graph_new(sketch, model->nkeys);

	for (uint32_t key = 0; key < model->nkeys; key++)
		if (model->expected[key].there)
			graph_put_key(&graph, sketch, key, model_key(model, key));
	return graph;
}

/* What GET must answer for a key, whose number may be MODEL_NONE. */
static inline IbltPresence
graph_presence(const Graph *graph, const IbltSketch *sketch, const uint8_t *key, uint32_t number)
{
	uint32_t index[IBLT_MAX_HASHES];
	int i = positions(sketch, key, index);
	IbltPresence answer = IBLT_UNKNOWN;

	while (i-- > 0)
	{
		if (graph->cell[index[i]] == (GRAPH_ONE | number))
			return IBLT_PRESENT;
		if (graph->cell[index[i]] >> GRAPH_BITS <= 1)
			answer = IBLT_ABSENT;
	}
	return answer;
}

/* --- a sketch held against its model --------------------------------------- */

static inline bool
check_entry(const IbltSketch *sketch, const ModelKey *expected, const IbltEntry *entry,
			const char *what)
{
	bool one_value = sketch->params.value.limbs > 0 && expected->one_value;
	uint8_t value[8 * IBLT_MAX_LIMBS];
	uint8_t true_value[8 * IBLT_MAX_LIMBS];
	bool has_value = iblt_core_entry_value(sketch, entry, value);

	value_of(sketch, expected->value, true_value);
	return check(expected->there, "%s: a key without rows", what) &&
		check(entry->count == expected->count, "%s: count %d, not %" PRId64, what,
			  (int) entry->count, expected->count) &&
		check(has_value == one_value, "%s: has_value %d", what, has_value) && check(!has_value ||
			  memcmp(value, true_value, 8 * (size_t) sketch->params.value.limbs) == 0,
			  "%s: value %" PRIu64, what, iblt_load64(value));
}

/*
 * Decodes, and demands that every report is right and made once, that as many
 * keys are reported as peeling can reach, and that the decoding is complete
 * exactly when these are all.  The model must be settled.  Returns whether it
 * was complete.
 */
static inline bool
check_decode(const IbltSketch *sketch, const Model *model, const char *what)
{
	uint8_t *seen = take_zeros(model->nkeys);
	Decoded d = decode(sketch);
	Graph graph = graph_of(sketch, model);
	uint32_t there = graph.left;
	uint32_t peeled = there - graph_peel(&graph);
	bool complete = peeled == there;

	for (uint32_t i = 0; i < d.n; i++)
	{
		uint32_t key = model_find(model, d.entry[i].key, model->nkeys);

		if (!check(key != MODEL_NONE, "%s: a key never seen", what) ||
			!check(seen[key]++ == 0, "%s: a key reported twice", what) ||
			!check_entry(sketch, &model->expected[key], &d.entry[i], what))
			break;
	}
	check(d.bounded, "%s: a cell reported twice", what);
	check(d.n == peeled && d.result == (complete ? IBLT_PEEL_COMPLETE : IBLT_PEEL_INCOMPLETE),
		  "%s: result %d, %u of %u keys reported, with %u within reach", what, (int) d.result, d.n,
		  there, peeled);
	return complete;
}

#endif /* IBLT_TEST_MODEL_H */
