/*
 * test_secret.c
 *		The secret of a seed: that it is ChaCha20's keystream, and that no pair
 *		of inputs collides under more seeds than chance allows.
 *
 * XXH3 XORs each word of a long input with a word of its secret, multiplies the
 * halves of the result, and adds the products up in eight lanes.  Take two
 * places of one lane.  If the low halves of their secret words differ by the
 * same bits D under many seeds, the low halves of the results are equal for
 * the words 0 and D.  To flip the highest bit of both words then adds
 * and takes away the same product, under half of these seeds.  So it is with
 * XXH3_64bits_withSeed, which only shifts the words of its secret by the seed.
 * The search learns the likeliest D of every two places, for the low halves,
 * the high halves and whole words.  It adds differences of two words by fixed
 * masks at every distance up to 1,024 bytes, and counts under how many seeds
 * each pair collides.  It must find such pairs for seeds, and none for secrets.
 *
 * A pair collides when it adds the same to every lane, which is quicker to see
 * than to hash it; a part of the seeds is hashed as well.
 *
 * IBLT_SECRET_SEEDS sets the number of seeds: 10,000 unless told otherwise (1,000
 * in a sanitized build), 4,000,000 for the claim of doc/checksum.md, that no pair of these collides
 * under more than one seed in a million.
 */
#include "model.h"
#include "hash.h"

#define INPUT_SIZE 1200		/* a block of 1,024 bytes and more */
#define BLOCK	   1024
#define STRIPE	   64		/* eight words, one a lane */
#define MAX_PAIRS  4096
#define LESSONS	   200
#define HASHED	   50		/* seeds */

/* Two inputs: the words in two places of the one and of the other. */
typedef struct Pair
{
	size_t		place[2];		/* in bytes */
	uint64_t	one[2];
	uint64_t	other[2];
	unsigned	collisions;
} Pair;

static Pair pairs[MAX_PAIRS];
static int	npairs;

/* A way to hash: the secret of a seed, and the hash of an input. */
typedef struct Way
{
	void		(*expand) (uint8_t *secret, uint64_t seed);
	uint64_t	(*hash) (const uint8_t *input, const uint8_t *secret);
} Way;

static void
expand_seeded(uint8_t *secret, uint64_t seed)
{
	XXH3_initCustomSecret(secret, seed);
}

static void
expand(uint8_t *secret, uint64_t seed)
{
	uint8_t stream[IBLT_KEYSTREAM_SIZE];

	iblt_core_keystream(stream, "iblt row", seed);
	memcpy(secret, stream, IBLT_SECRET_SIZE);
}

static uint64_t
hash_64(const uint8_t *input, const uint8_t *secret)
{
	return XXH3_64bits_withSecret(input, INPUT_SIZE, secret, IBLT_SECRET_SIZE);
}

/* Half of it: to collide in 128 bits is harder. */
static uint64_t
hash_128(const uint8_t *input, const uint8_t *secret)
{
	return XXH3_128bits_withSecret(input, INPUT_SIZE, secret, IBLT_SECRET_SIZE).low64;
}

static void
add_pair(size_t first, size_t second, uint64_t one2, uint64_t other1, uint64_t other2)
{
	if (npairs < MAX_PAIRS)
		pairs[npairs++] = (Pair) {{first, second}, {0, one2}, {other1, other2}, 0};
}

/* The word of the secret that is used in a place of the first block. */
static uint64_t
word_of(const uint8_t *secret, size_t place)
{
	return iblt_load64(secret + 8 * (place / STRIPE + place % STRIPE / 8));
}

/* The likeliest bits of a mask in which the words of two places differ. */
static uint64_t
likeliest(uint8_t (*lessons)[IBLT_SECRET_SIZE], size_t first, size_t second, uint64_t mask)
{
	uint64_t difference[LESSONS], best = 0;
	int most = 0;

	for (int i = 0; i < LESSONS; i++)
		difference[i] = (word_of(lessons[i], first) ^ word_of(lessons[i], second)) & mask;
	for (int i = 0; i < LESSONS; i++)
	{
		int times = 0;

		for (int j = 0; j < LESSONS; j++)
			times += difference[j] == difference[i];
		if (times > most)
		{
			most = times;
			best = difference[i];
		}
	}
	return best;
}

/* Pairs whose products cancel or change places, for two places of one lane. */
static void
add_learned(const Way *way)
{
	static uint8_t lessons[LESSONS][IBLT_SECRET_SIZE];
	const uint64_t top = UINT64_C(1) << 63;
	const uint64_t middle = UINT64_C(1) << 31;
	size_t first, second;

	for (int i = 0; i < LESSONS; i++)
		way->expand(lessons[i], tap_random());
	for (first = 0; first < BLOCK; first += 8)
		for (second = first + STRIPE; second < BLOCK; second += STRIPE)
		{
			uint64_t low = likeliest(lessons, first, second, UINT32_MAX);
			uint64_t high = likeliest(lessons, first, second, ~(uint64_t) UINT32_MAX);
			uint64_t both = likeliest(lessons, first, second, UINT64_MAX);

			add_pair(first, second, low, top, low ^ top);
			add_pair(first, second, high ^ middle, middle, high);
			add_pair(first, second, UINT64_MAX, ~both, both);
		}
}

/* Pairs that differ by masks, at every distance. */
static void
add_masked(void)
{
	const uint64_t low = UINT32_MAX, high = ~low, top = UINT64_C(1) << 63, middle = UINT64_C(1) << 31;
	const uint64_t mask[][2] = {{top, top}, {middle, middle}, {1, 1}, {1, UINT64_MAX},
		{UINT64_MAX, UINT64_MAX}, {high, high}, {low, low}, {high, low}};

	for (size_t distance = 8; distance < BLOCK; distance += 8)
		for (int m = 0; m < LENGTH(mask); m++)
			add_pair(0, distance, 0, mask[m][0], mask[m][1]);
}

/* What a word in a place adds to the lanes: the product, and to the next, it. */
static void
add_to_lanes(uint64_t *lane, const uint8_t *secret, size_t place, uint64_t word, uint64_t times)
{
	uint64_t x = word ^ word_of(secret, place);
	size_t n = place % STRIPE / 8;

	lane[n] += times * ((x & UINT32_MAX) * (x >> 32));
	lane[n ^ 1] += times * word;
}

/* Do the two inputs of a pair add the same to every lane? */
static bool
lanes_agree(const Pair *pair, const uint8_t *secret)
{
	uint64_t lane[8] = { 0 };
	uint64_t any = 0;

	for (int i = 0; i < 2; i++)
	{
		add_to_lanes(lane, secret, pair->place[i], pair->one[i], 1);
		add_to_lanes(lane, secret, pair->place[i], pair->other[i], UINT64_MAX);
	}
	for (int i = 0; i < 8; i++)
		any |= lane[i];
	return any == 0;
}

/* Do they have one hash, in inputs of zeros else? */
static bool
hashes_agree(const Way *way, const Pair *pair, const uint8_t *secret)
{
	uint8_t one[INPUT_SIZE] = { 0 };
	uint8_t other[INPUT_SIZE] = { 0 };

	for (int i = 0; i < 2; i++)
	{
		iblt_store64(one + pair->place[i], pair->one[i]);
		iblt_store64(other + pair->place[i], pair->other[i]);
	}
	return way->hash(one, secret) == way->hash(other, secret);
}

/* Counts the pairs that collide under one seed. */
static void
try_seed(const Way *way, uint64_t seed, bool hashed)
{
	uint8_t secret[IBLT_SECRET_SIZE];

	way->expand(secret, seed);
	for (int i = 0; i < npairs; i++)
	{
		bool agree = lanes_agree(&pairs[i], secret);

		if (hashed || agree)
			check(hashes_agree(way, &pairs[i], secret) == agree,
				  "pair %d under seed %016" PRIX64, i, seed);
		pairs[i].collisions += agree;
	}
}

/* The pair that collides under the most seeds. */
static const Pair *
search(const Way *way, int seeds)
{
	const Pair *worst;

	npairs = 0;
	add_learned(way);
	add_masked();
	for (int i = 0; i < seeds; i++)
		try_seed(way, tap_random(), i < HASHED);
	worst = &pairs[0];
	for (int i = 1; i < npairs; i++)
		if (pairs[i].collisions > worst->collisions)
			worst = &pairs[i];
	return worst;
}

static void
test_pairs(void)
{
	static const Way seeded = { expand_seeded, hash_64 };
	static const Way ways[2] = { { expand, hash_64 }, { expand, hash_128 } };
	const char *asked = getenv("IBLT_SECRET_SEEDS");
	int seeds = asked != NULL ? atoi(asked) : (int) scaled(10000);
	const Pair *worst = search(&seeded, 1000);

	check(worst->collisions > 5, "at most %u of 1000 seeds", worst->collisions);
	printf("# XXH3 with a seed: %u of 1000 seeds, words %zu bytes apart\n",
		   worst->collisions, worst->place[1] - worst->place[0]);
	checked("the search finds pairs that collide under XXH3 with a seed");
	for (int i = 0; i < 2; i++)
	{
		worst = search(&ways[i], seeds);
		check(worst->collisions <= (unsigned) (seeds / 1000000),
			  "%u of %d seeds, words %zu bytes apart", worst->collisions, seeds,
			  worst->place[1] - worst->place[0]);
		printf("# %d pairs, %d seeds\n", npairs, seeds);
	}
	checked("no pair collides under XXH3 with a secret, of 64 bits or 128");
}

/* RFC 8439, appendix A.1: the first block of a key and nonce of zeros. */
static void
test_keystream(void)
{
	static const uint8_t block[16] = {0x76, 0xb8, 0xe0, 0xad, 0xa0, 0xf1, 0x3d, 0x90, 0x40, 0x5d,
		0x6a, 0xe5, 0x53, 0x86, 0xbd, 0x28};
	static const uint8_t second[16] = {0x9f, 0x07, 0xe7, 0xbe, 0x55, 0x51, 0x38, 0x7a, 0x98, 0xba,
		0x97, 0x7c, 0x73, 0x2d, 0x08, 0x0d};
	uint8_t zeros[IBLT_KEYSTREAM_SIZE];
	uint8_t key[IBLT_KEYSTREAM_SIZE];
	uint8_t row[IBLT_KEYSTREAM_SIZE];
	size_t same = 0, i;

	iblt_core_keystream(zeros, "", 0);
	check(memcmp(zeros, block, sizeof block) == 0, "first block");
	check(memcmp(zeros + 64, second, sizeof second) == 0, "second block");
	checked("the keystream is that of RFC 8439");

	iblt_core_keystream(key, "iblt key", 1);
	iblt_core_keystream(row, "iblt row", 1);
	for (i = 0; i < sizeof key; i++)
		same += key[i] == row[i];
	/* of 256 bytes one is the same by chance; 12 are with probability 10^-9 */
	check(same < 12, "%zu bytes are the same", same);
	checked("labels give keystreams of their own");
}

TAP_MAIN(test_keystream, test_pairs)
