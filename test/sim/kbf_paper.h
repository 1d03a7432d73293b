/*
 * kbf_paper.h
 *		The key-value Bloom filter as it was published: Xiong, Yao, Cao & He
 *		2014, "kBF: a Bloom filter for key-value storage with an application on
 *		approximate state machines".
 *
 * One array of m cells, k different cells for each key, counters without a
 * bound, and encodings from a search.  Where the text leaves something open,
 * the rules are:
 *
 *	- A key has k different cells.  Otherwise its own encoding would cancel.
 *	- A key with an empty cell is absent.
 *	- RULE_FIRST: the first cell with one pair decides.
 *	  RULE_PAIRS: all cells of one or two pairs must agree on one value.
 *	  RULE_TRIPLES: those of three as well, as the paper's opportunistic
 *	  decoding has it.
 *	- A key that is unknown is not deleted or updated.
 */
#ifndef IBLT_KBF_PAPER_H
#define IBLT_KBF_PAPER_H

#include "sim.h"

#define LN2 0.69314718055994530942
#define PAPER_MAX_HASHES 24
#define PAPER_CELL_BITS 32 /* as published: 3 of a counter, 29 of an encoding */

typedef enum PaperRule
{
	RULE_FIRST,
	RULE_PAIRS,
	RULE_TRIPLES
} PaperRule;

typedef enum PaperAnswer
{
	PAPER_ABSENT,
	PAPER_UNKNOWN,
	PAPER_PRESENT
} PaperAnswer;

/* Encodings, and the two sets that decoding asks. */
typedef struct PaperCodes
{
	uint32_t n;
	uint32_t *code;	  /* of value 0 .. n - 1 */
	uint32_t *index;  /* value of a code, by a hash table */
	uint32_t mask;	  /* of that table */
	uint64_t *pairs;  /* a bit for each sum of two codes */
	uint32_t words;	  /* of these */
} PaperCodes;

typedef struct PaperCell
{
	uint32_t count;
	uint32_t content;
} PaperCell;

typedef struct PaperKbf
{
	const PaperCodes *codes;
	int hashes;
	uint32_t m;
	uint64_t seed;
	PaperCell *cells;
} PaperKbf;

/* --- encodings ------------------------------------------------------------ */

static inline bool
paper_bit(const uint64_t *set, uint32_t x)
{
	return (set[x >> 6] >> (x & 63) & 1) != 0;
}

static inline void
paper_set_bit(uint64_t *set, uint32_t x)
{
	set[x >> 6] |= UINT64_C(1) << (x & 63);
}

/* The value of a code, or n if it is none. */
static inline uint32_t
paper_value(const PaperCodes *codes, uint32_t code)
{
	uint32_t slot = (uint32_t) (code * IBLT_GOLDEN >> 40) & codes->mask;

	while (codes->index[slot] < codes->n && codes->code[codes->index[slot]] != code)
		slot = (slot + 1) & codes->mask;
	return codes->index[slot];
}

static inline bool
paper_is_pair(const PaperCodes *codes, uint32_t sum)
{
	return sum >> 6 < codes->words && paper_bit(codes->pairs, sum);
}

/* Makes the sets of n codes of so many bits. */
static inline PaperCodes *
paper_codes(uint32_t *code, uint32_t n, int bits)
{
	PaperCodes *codes = take_zeros(sizeof *codes);
	uint32_t i, j;

	codes->n = n;
	codes->code = code;
	codes->mask = 1;
	while (codes->mask < 4 * n)
		codes->mask = 2 * codes->mask + 1;
	codes->index = take_zeros((codes->mask + 1) * sizeof(uint32_t));
	codes->words = bits > 6 ? 1u << (bits - 6) : 1;
	codes->pairs = take_zeros(codes->words * sizeof(uint64_t));
	for (i = 0; i <= codes->mask; i++)
		codes->index[i] = n;
	for (i = 0; i < n; i++)
	{
		uint32_t slot = (uint32_t) (code[i] * IBLT_GOLDEN >> 40) & codes->mask;

		while (codes->index[slot] < n)
			slot = (slot + 1) & codes->mask;
		codes->index[slot] = i;
		for (j = 0; j < i; j++)
			paper_set_bit(codes->pairs, code[i] ^ code[j]);
	}
	return codes;
}

/* Sums that agree in all but the lowest bits, so that they stay in the cache. */
#define PAPER_BLOCK_BITS 22

typedef struct PaperBlock
{
	uint32_t *sum;
	uint32_t n;
	uint32_t room;
} PaperBlock;

static inline void
paper_add_sum(PaperBlock *blocks, uint32_t sum)
{
	PaperBlock *block = &blocks[sum >> PAPER_BLOCK_BITS];

	if (block->n == block->room)
	{
		block->room = 2 * block->room + 1024;
		block->sum = realloc(block->sum, block->room * sizeof(uint32_t));
		if (block->sum == NULL)
			exit(1);
	}
	block->sum[block->n++] = sum;
}

/* Marks c and its sums with singles and pairs, as far as they are above c. */
static inline void
paper_mark(uint64_t *taken, const PaperBlock *blocks, uint32_t nblocks, uint32_t c)
{
	uint32_t high = c >> PAPER_BLOCK_BITS;
	uint32_t b, i;

	for (b = 0; b < nblocks; b++)
		if ((b ^ high) >= high)
			for (i = 0; i < blocks[b].n; i++)
				paper_set_bit(taken, c ^ blocks[b].sum[i]);
}

/*
 * Algorithm 1 with exact sets: the candidates 1, 2, 3, ... in order, each taken
 * if no earlier single or pair is it or its sum with a code.  In other words, if
 * it is not a sum of one, two or three codes.  Stops after n codes or at `bits`
 * bits, and returns how many there are.
 */
static inline uint32_t
paper_search(uint32_t *code, uint32_t n, int bits)
{
	uint32_t nblocks = 1u << (bits > PAPER_BLOCK_BITS ? bits - PAPER_BLOCK_BITS : 0);
	uint64_t *taken = take_zeros(((size_t) nblocks << PAPER_BLOCK_BITS) / 8);
	PaperBlock *blocks = take_zeros(nblocks * sizeof(PaperBlock));
	uint32_t found = 0;

	for (uint32_t c = 1; c >> bits == 0 && found < n; c++)
	{
		if (paper_bit(taken, c))
			continue;
		paper_mark(taken, blocks, nblocks, c);
		for (uint32_t i = 0; i < found; i++)
			paper_add_sum(blocks, c ^ code[i]);
		paper_add_sum(blocks, c);
		code[found++] = c;
	}
	for (uint32_t i = 0; i < nblocks; i++)
		free(blocks[i].sum);
	return found;
}

/* Searched encodings, as many as the paper's workload has values. */
#define PAPER_VALUES 3000
#define PAPER_BITS 28

static inline PaperCodes *
paper_searched_codes(void)
{
	uint32_t n = sim_trials(256, PAPER_VALUES);
	uint32_t *code = take_zeros(n * sizeof(uint32_t));

	if (paper_search(code, n, PAPER_BITS) < n)
		tap_bail("the search found too few encodings");
	return paper_codes(code, n, PAPER_BITS);
}

/* --- the filter ----------------------------------------------------------- */

static inline PaperKbf *
paper_take(const PaperCodes *codes, int hashes, uint32_t m, uint64_t seed)
{
	PaperKbf *kbf = take_zeros(sizeof *kbf);

	kbf->codes = codes;
	kbf->hashes = hashes;
	kbf->m = m;
	kbf->seed = seed;
	kbf->cells = take_zeros(m * sizeof(PaperCell));
	return kbf;
}

/* The different cells of a key. */
static inline void
paper_place(const PaperKbf *kbf, uint64_t key, uint32_t *place)
{
	uint64_t state = XXH3_64bits_withSeed(&key, sizeof key, kbf->seed);
	int i = 0;
	int j;

	while (i < kbf->hashes)
	{
		uint64_t z = (state += IBLT_GOLDEN);

		z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
		z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
		place[i] = iblt_scale((uint32_t) (z >> 32), kbf->m);
		for (j = 0; j < i && place[j] != place[i]; j++)
			;
		i += j == i;
	}
}

#define NO_VALUE UINT32_MAX

/* Changes the value of a key: inserts it if it had none before, and deletes it if it has none then. */
static inline void
paper_change(PaperKbf *kbf, uint64_t key, uint32_t before, uint32_t then)
{
	uint32_t place[PAPER_MAX_HASHES];
	int more = (then != NO_VALUE) - (before != NO_VALUE);
	uint32_t content = (before != NO_VALUE ? kbf->codes->code[before] : 0) ^
		(then != NO_VALUE ? kbf->codes->code[then] : 0);

	paper_place(kbf, key, place);
	for (int i = 0; i < kbf->hashes; i++)
	{
		PaperCell *cell = &kbf->cells[place[i]];

		/* a key that is not there is only found by mistake */
		if (more == 0 && cell->count == 0)
			continue;
		if (more >= 0 || cell->count > 0)
		{
			cell->count += (uint32_t) more;
			cell->content ^= content;
		}
	}
}

/*
 * Does a cell say something?  Two equal encodings leave 0, and of three leave
 * the other one, and then any value is possible.
 */
static inline bool
paper_tells(const PaperCodes *codes, const PaperCell *cell, PaperRule rule)
{
	if (cell->count <= 2)
		return cell->count == 1 || cell->content != 0;
	return rule == RULE_TRIPLES && cell->count == 3 &&
		paper_value(codes, cell->content) == codes->n;
}

/* Can a cell that says something have this code? */
static inline bool
paper_admits(const PaperCodes *codes, const PaperCell *cell, uint32_t code)
{
	uint32_t rest = cell->content ^ code;

	if (cell->count == 1)
		return rest == 0;
	if (cell->count == 2)
		return paper_value(codes, rest) < codes->n;
	return paper_is_pair(codes, rest);
}

/* The only value that all telling cells can have, tried one by one. */
static inline PaperAnswer
paper_agree(const PaperCodes *codes, const PaperCell *cells, int n, uint32_t *value)
{
	uint32_t first = 0;
	uint32_t last = codes->n;
	int left = 0;
	int i;

	for (i = 0; i < n; i++)
		if (cells[i].count == 1)
		{
			first = paper_value(codes, cells[i].content);
			last = first < codes->n ? first + 1 : first;
		}
	for (uint32_t v = first; v < last && left < 2; v++)
	{
		for (i = 0; i < n && paper_admits(codes, &cells[i], codes->code[v]); i++)
			;
		if (i < n)
			continue;
		*value = v;
		left++;
	}
	return left == 0 ? PAPER_ABSENT : left == 1 ? PAPER_PRESENT : PAPER_UNKNOWN;
}

static inline PaperAnswer
paper_query(const PaperKbf *kbf, uint64_t key, PaperRule rule, uint32_t *value)
{
	uint32_t place[PAPER_MAX_HASHES];
	PaperCell telling[PAPER_MAX_HASHES];
	int n = 0;

	paper_place(kbf, key, place);
	for (int i = 0; i < kbf->hashes; i++)
		if (kbf->cells[place[i]].count == 0)
			return PAPER_ABSENT;
	for (int i = 0; i < kbf->hashes; i++)
	{
		const PaperCell *cell = &kbf->cells[place[i]];

		if (rule == RULE_FIRST && cell->count == 1)
		{
			*value = paper_value(kbf->codes, cell->content);
			return *value < kbf->codes->n ? PAPER_PRESENT : PAPER_ABSENT;
		}
		if (paper_tells(kbf->codes, cell, rule))
			telling[n++] = *cell;
	}
	return n == 0 ? PAPER_UNKNOWN : paper_agree(kbf->codes, telling, n, value);
}

/* --- the analysis --------------------------------------------------------- */

/* The cells and hashes of a p-capacity of n keys. */
static inline uint32_t
paper_cells(double n, double p)
{
	return (uint32_t) ceil(-n * log(p) / (LN2 * LN2));
}

static inline int
paper_hashes(double p)
{
	return (int) lround(-log(p) / LN2);
}

/* Pn: a cell with three pairs or more, at this mean number of pairs. */
static inline double
paper_crowded(double load)
{
	return 1 - exp(-load) * (1 + load + load * load / 2);
}

/* Failed decodings as published, with the key as one of the others. */
static inline double
paper_published_failure(double load, int k)
{
	double crowded = paper_crowded(load);

	return pow(crowded, k) + k * pow(crowded, k - 1) * exp(-load) * load * load / 2;
}

static inline double
paper_power(double x, int n)
{
	return n == 0 ? 1 : pow(x, n);
}

static inline double
paper_choose(int n, int k)
{
	double product = 1;

	for (int i = 0; i < k; i++)
		product *= (double) (n - i) / (i + 1);
	return product;
}

/*
 * The same of the others alone, and with values that may be equal: a key is
 * unknown if none of its cells says something, or if all that do hold two pairs
 * with the same other value.
 */
static inline double
paper_failure(double load, int k, double values)
{
	double other = load * exp(-load);
	double two = other * (1 - 1 / values);
	double silent = 1 - exp(-load) - two;
	double sum = paper_power(silent, k);

	for (int j = 1; j <= k; j++)
		sum += paper_choose(k, j) * pow(two, j) * paper_power(silent, k - j) *
			paper_power(1 / values, j - 1);
	return sum;
}

/* False positives if the first cell of one pair decides. */
static inline double
paper_first_positive(double load, int k)
{
	return pow(1 - exp(-load), k) - pow(1 - exp(-load) * (1 + load), k);
}

/* False positives if all cells of one or two pairs must agree. */
static inline double
paper_agreed_positive(double load, int k, double values)
{
	double one = load * exp(-load);
	double two = load * one / 2 * (1 - 1 / values);
	double silent = 1 - exp(-load) - one - two;
	double sum = 0;
	int a, b;

	for (a = 0; a <= k; a++)
		for (b = 0; a + b <= k; b++)
		{
			double ways = paper_choose(k, a) * paper_choose(k - a, b) *
				paper_power(one, a) * paper_power(two, b) * paper_power(silent, k - a - b);

			if (a > 0)
				sum += ways * paper_power(1 / values, a - 1) * paper_power(2 / values, b);
			else if (b > 1)
				sum += ways * 2 * paper_power(2 / values, b - 1);
		}
	return sum;
}

#endif /* IBLT_KBF_PAPER_H */
