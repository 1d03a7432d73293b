/*
 * stuck.h
 *		The bare hypergraph of a table in which some keys can never be taken out.
 *
 * In the paper's cells a key with two values makes its cells useless.  Another
 * key is listed as soon as it is alone in one of its cells.  The keys that are
 * never listed are the largest set in which every key shares all its cells with
 * the set or with a key that stays.  Taking keys out in any order finds it.
 *
 * This does what graph.h does with a quarter of the memory and in half of the
 * time, where most keys are alone in some cell from the start.
 */
#ifndef IBLT_SIM_STUCK_H
#define IBLT_SIM_STUCK_H

#include "sim.h"

/* A cell counts its keys in 8 bits: the tables here have at most 4 on average. */
typedef struct Stuck
{
	int k;
	uint32_t s;
	uint32_t keys;
	uint8_t *held;	 /* k * s: the keys in each cell */
	uint32_t *place; /* keys * k: the cells of each key, and room */
	uint32_t *open;	 /* keys that are not taken out yet */
} Stuck;

static inline void
stuck_open(Stuck *t, int k, uint32_t s, uint32_t keys)
{
	t->k = k;
	t->s = s;
	t->keys = keys;
	t->held = sim_take((size_t) k * s);
	/* the hash writes IBLT_MAX_HASHES positions, whatever k is */
	t->place =
		sim_take(sizeof(uint32_t) * ((size_t) k * keys + IBLT_MAX_HASHES));
	t->open = sim_take(sizeof(uint32_t) * keys);
}

static inline void
stuck_close(Stuck *t)
{
	free(t->held);
	free(t->place);
	free(t->open);
}

/* Sets the keys first, first + 1, ... into the cells that the seed's hash says. */
static inline void
stuck_draw(Stuck *t, uint64_t seed, uint64_t first)
{
	IbltHasher hasher;
	uint32_t *place = t->place;

	iblt_core_hasher_init(&hasher, seed);
	memset(t->held, 0, (size_t) t->k * t->s);
	for (uint32_t key = 0; key < t->keys; key++, place += t->k)
	{
		uint8_t bytes[8];

		iblt_store64(bytes, first + key);
		(void) iblt_hash_key(&hasher, bytes, 8, t->k, t->s, place);
		for (int i = 0; i < t->k; i++)
		{
			place[i] += (uint32_t) i * t->s;
			t->held[place[i]]++;
		}
	}
}

/* Takes a key out if it is alone in one of its cells. */
static inline bool
stuck_take_out(Stuck *t, uint32_t key)
{
	const uint32_t *place = t->place + (size_t) key * (size_t) t->k;
	int i;

	for (i = 0; i < t->k; i++)
		if (t->held[place[i]] == 1)
			break;
	if (i == t->k)
		return false;
	for (i = 0; i < t->k; i++)
		t->held[place[i]]--;
	return true;
}

/*
 * If the first keys, so many of them, are never taken out: how many others stay
 * as well?  The table is used up.
 */
static inline uint32_t
stuck_lost(Stuck *t, uint32_t stuck)
{
	uint32_t n = t->keys - stuck;
	uint32_t before;
	uint32_t i;

	for (i = 0; i < n; i++)
		t->open[i] = stuck + i;
	do
	{
		before = n;
		for (n = 0, i = 0; i < before; i++)
			if (!stuck_take_out(t, t->open[i]))
				t->open[n++] = t->open[i];
	} while (n < before);
	return n;
}

#endif /* IBLT_SIM_STUCK_H */
