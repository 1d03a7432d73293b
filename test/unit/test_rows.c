/*
 * test_rows.c
 *		Sketches of random rows against a plain model of those rows.
 *
 * Two sketches are filled with rows of every kind that a comparison meets:
 * equal on both sides, missing, extra, changed, repeated, of several values to
 * a key, deleted without having been there.  Their difference must decode and
 * answer GET as the model says, and be byte for byte the sketch that the same
 * rows make when added one by one in any order.
 */
#include "model.h"

#define MAX_KEYS 400

/* Both sides of a comparison, and the model of their difference. */
typedef struct Pair
{
	IbltSketch *left;
	IbltSketch *right;
	Model *model;
} Pair;

/* Inserts (or deletes) a row on one side. */
static void
put(Pair *pair, bool right, uint32_t key, uint64_t y, int sign)
{
	IbltStatus status = sketch_add(right ? pair->right : pair->left,
								   model_key(pair->model, key), y, sign);

	check(status == IBLT_OK, "row refused with %d", (int) status);
	model_add(pair->model, key, y, right ? -sign : sign);
}

static uint64_t
draw_value(void)
{
	static const uint64_t extremes[] = {0, 1, UINT64_MAX, UINT64_MAX - 59, UINT64_C(1) << 63,
		(UINT64_C(1) << 63) - 1};

	return below(3) == 0 ? extremes[below(6)] : tap_random();
}

static void
put_repeated(Pair *pair, uint32_t key)
{
	static const int times[] = { 2, 3, 4, 8 };
	bool right = below(2);
	uint64_t y = draw_value();

	for (int i = times[below(4)]; i > 0; i--)
		put(pair, right, key, y, 1);
}

/* Few values, so that some of the rows cancel or repeat. */
static void
put_mixture(Pair *pair, uint32_t key)
{
	uint64_t values[3];

	for (uint32_t i = 0; i < 3; i++)
		values[i] = draw_value();
	for (uint32_t i = 1 + below(6); i > 0; i--)
		put(pair, below(2), key, values[below(3)], below(4) == 0 ? -1 : 1);
}

/* Rows of one key, of one of the kinds that there are. */
static void
put_key(Pair *pair, uint32_t key)
{
	uint64_t y = draw_value();
	bool right = below(2);

	switch (below(7))
	{
		case 0: /* equal: must leave no trace */
			put(pair, false, key, y, 1);
			put(pair, true, key, y, 1);
			break;
		case 1: /* missing or extra */
			put(pair, right, key, y, 1);
			break;
		case 2: /* changed */
			put(pair, false, key, y, 1);
			put(pair, true, key, ~y, 1);
			break;
		case 3: /* a deletion without its insertion */
			put(pair, right, key, y, -1);
			break;
		case 4:
			put_repeated(pair, key);
			break;
		case 5: /* two values */
			put(pair, right, key, y, 1);
			put(pair, right, key, y ^ 1, 1);
			break;
		default:
			put_mixture(pair, key);
	}
}

static unsigned
draw_limbs(void)
{
	static const unsigned limbs[] = { 1, 1, 1, 2, 2, 4, 4, 5, 16, 512 };
	unsigned drawn = limbs[below(10)];

	/* wide keys are slow and not that different */
	return drawn == 512 && below(5) > 0 ? 1 : drawn;
}

/* A shape of any k, of the limbs given, and now and then without subtables. */
static IbltParams
draw_params(unsigned limbs)
{
	static const uint32_t ladder[] = { 1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
									   12, 14, 15, 16, 18, 20, 24, 28, 32, 64 };
	int hashes = below(3) ? 4 : 3 + (int) below(6);
	IbltParams params = make_params(usual_kind(limbs), limbs, hashes,
									ladder[below(20)], below(2), tap_random());

	if (limbs == 512)
		params.subtable_cells = ladder[below(8)];
	if (params.value.limbs > 0 && below(2))
		set_values(&params, draw_limbs());
	if (params.value.limbs == 512)
		params.subtable_cells = ladder[below(8)];
	if (below(3) == 0)
		params.subtables = 1 + below((1u << hashes) - 1);
	return params;
}

static Pair
draw_pair(void)
{
	unsigned limbs = draw_limbs();
	IbltParams params = draw_params(limbs);
	uint32_t cells = params.subtable_cells * (uint32_t) iblt_core_subtable_count(&params);
	uint32_t nkeys = below(below(4) ? cells + 2 : 2 * cells + 2);
	Pair pair;

	if (nkeys > MAX_KEYS)
		nkeys = MAX_KEYS;
	pair.left = sketch_new(&params);
	pair.right = sketch_new(&params);
	pair.model = model_new(limbs, nkeys, 8 * (size_t) nkeys);
	for (uint32_t i = 0; i < nkeys; i++)
		put_key(&pair, i);
	iblt_core_seal(pair.left);
	iblt_core_seal(pair.right);
	return pair;
}

/* The model's rows, in a random order and as many times as they count. */
static IbltSketch *
build_shuffled(const IbltParams *params, const Model *model)
{
	IbltSketch *sketch = sketch_new(params);

	for (size_t i = model->nrows; i > 1; i--)
	{
		size_t j = below((uint32_t) i);
		ModelRow row = model->rows[i - 1];

		model->rows[i - 1] = model->rows[j];
		model->rows[j] = row;
	}
	for (size_t i = 0; i < model->nrows; i++)
	{
		const ModelRow *row = &model->rows[i];
		int64_t n = row->count < 0 ? -row->count : row->count;

		while (n-- > 0)
			(void) sketch_add(sketch, model_key(model, row->key), row->y, row->count < 0 ? -1 : 1);
	}
	iblt_core_seal(sketch);
	return sketch;
}

static void
check_get(const IbltSketch *sketch, const Model *model)
{
	uint8_t *stranger = take(8 * (size_t) model->limbs);
	Graph graph = graph_of(sketch, model);

	for (uint32_t i = 0; i < model->nkeys + 10; i++)
	{
		uint32_t number = i < model->nkeys && model->expected[i].there ? i : MODEL_NONE;
		const uint8_t *key = i < model->nkeys ? model_key(model, i) : stranger;
		IbltEntry entry;
		IbltPresence expected;
		IbltPresence presence;

		for (unsigned l = 0; l < model->limbs; l++)
			iblt_store64(stranger + 8 * (size_t) l, tap_random());
		expected = graph_presence(&graph, sketch, key, number);
		presence = iblt_core_get(sketch, key, &entry);
		if (check(presence == expected, "GET says %d, not %d", (int) presence, (int) expected) &&
			presence == IBLT_PRESENT)
			check_entry(sketch, &model->expected[i], &entry, "GET");
	}
}

/* Sketches are vectors: what the same rows make is the same bytes. */
static void
check_algebra(const Pair *pair, const IbltSketch *difference)
{
	const IbltParams *params = &difference->params;
	IbltSketch *blank = sketch_new(params);

	iblt_core_seal(blank);
	check(same_bytes(difference, build_shuffled(params, pair->model)), "a - b is not the rows' own sketch");
	check(same_bytes(sketch_sum(difference, difference, -1), blank), "a - a is not empty");
	check(same_bytes(difference, sketch_sum(blank, sketch_sum(pair->right, pair->left, -1), -1)),
		  "a - b is not -(b - a)");
	check(same_bytes(sketch_sum(pair->left, pair->right, 1), sketch_sum(pair->right, pair->left, 1)),
		  "a + b is not b + a");
	check(same_bytes(sketch_sum(difference, pair->right, 1), pair->left), "(a - b) + b is not a");
}

static void
test_differences(void)
{
	long rounds = scaled(12000);
	long complete = 0;

	TRIALS(i, rounds)
	{
		Pair pair = draw_pair();
		IbltSketch *difference = sketch_sum(pair.left, pair.right, -1);
		IbltSketch opened;
		IbltStatus status = iblt_core_open(&opened, difference->bytes, difference->size);

		model_settle(pair.model);
		check(status == IBLT_OK, "own bytes refused with %d", (int) status);
		complete += check_decode(&opened, pair.model, "a - b");
		check_get(&opened, pair.model);
		check_algebra(&pair, difference);
	}
	check(complete > rounds / 4 && complete < rounds * 19 / 20,
		  "%ld of %ld complete: not a mixture", complete, rounds);
	printf("# %ld of %ld differences decode completely\n", complete, rounds);
	checked("differences decode, answer GET and add up as their rows do");
}

/* The words that no field element stands for, behind the masks. */
static void
test_not_representable(void)
{
	TRIALS(i, scaled(1000))
	{
		unsigned limbs = draw_limbs();
		IbltParams params = draw_params(limbs);
		IbltSketch *sketch = sketch_new(&params);
		IbltSketch *empty = sketch_copy(sketch);
		uint8_t *key = take(8 * (size_t) limbs);
		unsigned l = below(limbs);
		uint64_t beyond = IBLT_FP_P + (below(4) == 0 ? 0 : below(59));
		unsigned values = params.value.limbs;
		unsigned v = values > 0 ? below(values) : 0;
		uint8_t value[8 * IBLT_MAX_LIMBS] = { 0 };
		int sign = below(2) ? 1 : -1;
		IbltStatus status;

		memset(key, 7, 8 * (size_t) limbs);
		iblt_store64(value + 8 * (size_t) v, beyond ^ iblt_value_mask(&sketch->hasher, v));
		status = values > 0 ? iblt_core_add_pair(sketch, key, value, sign)
			: iblt_core_add_row(sketch, key, iblt_load64(value), sign);
		check(status == (values > 0 ? IBLT_VALUE_NOT_REPRESENTABLE : IBLT_OK),
			  "limb %u of a value beyond p: %d", v, (int) status);
		if (status == IBLT_OK)
			(void) iblt_core_add_row(sketch, key, iblt_load64(value), -sign);
		iblt_store64(key + 8 * (size_t) l, beyond ^ iblt_limb_mask(&sketch->hasher, l));
		status = sketch_add(sketch, key, 0, sign);
		check(status == IBLT_KEY_NOT_REPRESENTABLE, "limb %u beyond p: %d", l, (int) status);
		iblt_core_seal(sketch);
		iblt_core_seal(empty);
		check(same_bytes(sketch, empty), "a refused row leaves a trace");
	}
	checked("limbs and values that cannot be kept are refused without a trace");
}

TAP_MAIN(test_differences, test_not_representable)
