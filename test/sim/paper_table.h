/*
 * paper_table.h
 *		The table of Goodrich & Mitzenmacher 2011, as the paper has it.
 *
 * This is not the project's structure: it is the paper's, with unweighted sums,
 * to reproduce what the paper reports of it.  A cell keeps count, keySum,
 * valueSum, hashkeySum and hashvalueSum, and counts as one key's when keySum /
 * count is a key x with count * G1(x) = hashkeySum and valueSum / count is a
 * value y with count * G2(y) = hashvalueSum; that allows for duplicates and
 * extraneous deletions.  A key with two values fails the second, and poisons
 * each of its cells for good.
 *
 * The cells of a key are those of the core's hash, so that paper and project
 * are compared on the same hypergraph.  Keys, values and hashes have 32 bits:
 * their sums are then exact in 64.
 */
#ifndef IBLT_SIM_PAPER_TABLE_H
#define IBLT_SIM_PAPER_TABLE_H

#include "sim.h"

typedef struct PaperCell
{
	int64_t count;
	int64_t key_sum;
	int64_t value_sum;
	int64_t hash_key_sum;
	int64_t hash_value_sum;
} PaperCell;

typedef struct PaperTable
{
	int k;
	uint32_t s;
	IbltHasher hasher;
	PaperCell *cell; /* k * s */
	uint32_t *stack; /* cells to look at */
	uint32_t listed; /* keys that came out */
} PaperTable;

static inline PaperTable
paper_open(int k, uint32_t s)
{
	PaperTable table = {.k = k, .s = s};

	table.cell = take_zeros((size_t) k * s * sizeof *table.cell);
	table.stack = take_zeros((size_t) k * s * sizeof *table.stack * 2);
	return table;
}

static inline void
paper_clear(PaperTable *table, uint64_t seed)
{
	iblt_core_hasher_init(&table->hasher, seed);
	memset(table->cell, 0, (size_t) table->k * table->s * sizeof *table->cell);
}

/* The key's G1; its cells are set. */
static inline int64_t
paper_hash_key(const PaperTable *table, int64_t key, uint32_t *index)
{
	uint8_t bytes[8];
	uint64_t check;

	iblt_store64(bytes, (uint64_t) key);
	check = iblt_hash_key(&table->hasher, bytes, 8, table->k, table->s, index);
	for (int i = 0; i < table->k; i++)
		index[i] += (uint32_t) i * table->s;
	return (int64_t) (check >> 32);
}

/* G2 */
static inline int64_t
paper_hash_value(const PaperTable *table, int64_t value)
{
	return (int64_t) (iblt_hash_word((uint64_t) value, table->hasher.weight_seed) >> 32);
}

/* Adds count times (key, value); returns the cells in index. */
static inline void
paper_add(PaperTable *table, int64_t key, int64_t value, int64_t count, uint32_t *index)
{
	int64_t hash_key = paper_hash_key(table, key, index);
	int64_t hash_value = paper_hash_value(table, value);

	for (int i = 0; i < table->k; i++)
	{
		PaperCell *cell = &table->cell[index[i]];

		cell->count += count;
		cell->key_sum += count * key;
		cell->value_sum += count * value;
		cell->hash_key_sum += count * hash_key;
		cell->hash_value_sum += count * hash_value;
	}
}

static inline bool
paper_is_pure(const PaperTable *table, const PaperCell *cell)
{
	uint32_t index[IBLT_MAX_HASHES];
	int64_t count = cell->count;

	if (count == 0 || cell->key_sum % count != 0 || cell->value_sum % count != 0)
		return false;
	return cell->hash_key_sum == count * paper_hash_key(table, cell->key_sum / count, index) &&
		   cell->hash_value_sum == count * paper_hash_value(table, cell->value_sum / count);
}

typedef enum PaperAnswer
{
	PAPER_FOUND,
	PAPER_ABSENT,
	PAPER_NOT_FOUND
} PaperAnswer;

/*
 * GET: an empty cell, or one of another key alone, says that the key is absent.
 * One of this key alone gives its value.  If all cells hold several keys, or
 * damaged ones, the answer is "not found".
 */
static inline PaperAnswer
paper_get(const PaperTable *table, int64_t key, int64_t *value)
{
	static const PaperCell empty;
	uint32_t index[IBLT_MAX_HASHES];

	(void) paper_hash_key(table, key, index);
	for (int i = 0; i < table->k; i++)
	{
		const PaperCell *cell = &table->cell[index[i]];

		if (memcmp(cell, &empty, sizeof empty) == 0)
			return PAPER_ABSENT;
		if (!paper_is_pure(table, cell))
			continue;
		*value = cell->value_sum / cell->count;
		return cell->key_sum == cell->count * key ? PAPER_FOUND : PAPER_ABSENT;
	}
	return PAPER_NOT_FOUND;
}

/*
 * LISTENTRIES: takes out what can be; table->listed says how many keys.  The
 * stack holds each cell once at first, and then k - 1 for each key taken out,
 * whose own cell is empty for good.
 */
static inline void
paper_list(PaperTable *table)
{
	uint32_t ncells = (uint32_t) table->k * table->s;
	uint32_t index[IBLT_MAX_HASHES];
	uint32_t next = 0;
	uint32_t top = 0;

	table->listed = 0;
	while (top > 0 || next < ncells)
	{
		uint32_t c = top > 0 ? table->stack[--top] : next++;
		PaperCell cell = table->cell[c];

		if (!paper_is_pure(table, &cell))
			continue;
		paper_add(table, cell.key_sum / cell.count, cell.value_sum / cell.count,
				  -cell.count, index);
		table->listed++;
		for (int i = 0; i < table->k; i++)
			if (index[i] != c && table->cell[index[i]].count != 0)
				table->stack[top++] = index[i];
	}
}

/*
 * Fills the table with the keys first, first + 1, ... of which the first
 * "several" have two values.  How many of the others are not listed?
 */
static inline uint32_t
paper_missing(PaperTable *table, uint32_t keys, uint32_t several, uint64_t seed, int64_t first)
{
	uint32_t index[IBLT_MAX_HASHES];

	paper_clear(table, seed);
	for (uint32_t i = 0; i < keys; i++)
	{
		paper_add(table, first + i, (int64_t) (tap_random() >> 32), 1, index);
		if (i < several)
			paper_add(table, first + i, (int64_t) (tap_random() >> 32), 1, index);
	}
	paper_list(table);
	return keys - several - table->listed;
}

#endif /* IBLT_SIM_PAPER_TABLE_H */
