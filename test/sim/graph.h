/*
 * graph.h
 *		The bare hypergraph of a sketch: its keys, and the cells they lie in.
 *
 * The places are those of the core's own hash.  Peeling the graph says which
 * keys a sketch of ideal cells can list, some twenty times faster than the
 * sketch itself; the simulations hold the two against each other, trial by
 * trial, and then take the graph where many trials are needed.
 *
 * In the paper's cells a key with two values makes its cells useless.  In the
 * graph such a key is never taken out.
 */
#ifndef IBLT_SIM_GRAPH_H
#define IBLT_SIM_GRAPH_H

#include "sim.h"

/*
 * A cell counts its keys in its 8 upper bits, and has the XOR of their numbers
 * below: when the count is one, that is the key.  Graphs have at most a million
 * keys, and some four in a cell.
 */
#define GRAPH_BITS 24
#define GRAPH_ONE (UINT32_C(1) << GRAPH_BITS)

typedef struct Graph
{
	int k;
	uint32_t s;
	uint32_t keys;
	uint32_t *cell;	 /* k * s */
	uint32_t *place; /* keys * k: the cells of each key */
	uint32_t *stack; /* keys found alone, some more than once */
	bool *alive;
	uint32_t stuck; /* the first keys, which are never taken out */
	uint32_t left;	/* of the others, not peeled */
} Graph;

static inline Graph
graph_open(int k, uint32_t s, uint32_t keys)
{
	size_t hashes = (size_t) k;
	Graph g = {.k = k, .s = s, .keys = keys};

	g.cell = take_zeros(sizeof(uint32_t) * hashes * s);
	g.place = take_zeros(sizeof(uint32_t) * hashes * keys);
	/* a key is pushed at first for each cell, and when a key leaves a cell */
	g.stack = take_zeros(sizeof(uint32_t) * hashes * ((size_t) keys + s));
	g.alive = take_zeros(keys);
	return g;
}

/* Takes all keys out of their cells. */
static inline void
graph_clear(Graph *g)
{
	memset(g->cell, 0, sizeof(uint32_t) * (size_t) g->k * g->s);
	memset(g->alive, true, g->keys);
	g->left = g->keys - g->stuck;
}

/* Puts a key into its cell of subtable i. */
static inline void
graph_put(Graph *g, uint32_t key, int i, uint32_t position)
{
	uint32_t c = position + (uint32_t) i * g->s;

	g->cell[c] = (g->cell[c] + GRAPH_ONE) ^ key;
	g->place[(size_t) key * (size_t) g->k + (size_t) i] = c;
}

/* Sets the keys first, first + 1, ... into the cells that the seed's hash says. */
static inline void
graph_draw(Graph *g, uint64_t seed, uint64_t first)
{
	IbltHasher hasher;
	uint32_t position[IBLT_MAX_HASHES];
	uint8_t bytes[8];

	iblt_core_hasher_init(&hasher, seed);
	graph_clear(g);
	for (uint32_t key = 0; key < g->keys; key++)
	{
		iblt_store64(bytes, first + key);
		(void) iblt_hash_key(&hasher, bytes, 8, g->k, g->s, position);
		for (int i = 0; i < g->k; i++)
			graph_put(g, key, i, position[i]);
	}
}

/* Sets the keys into random cells, without a hash. */
static inline void
graph_draw_random(Graph *g)
{
	uint64_t bits = 0;

	graph_clear(g);
	for (uint32_t key = 0; key < g->keys; key++)
		for (int i = 0; i < g->k; i++)
		{
			bits = i % 2 == 0 ? tap_random() : bits >> 32;
			graph_put(g, key, i, iblt_scale((uint32_t) bits, g->s));
		}
}

/* Removes the keys on the stack, and all that are then alone in some cell. */
static inline void
graph_remove(Graph *g, uint32_t top)
{
	while (top > 0)
	{
		uint32_t key = g->stack[--top];
		const uint32_t *place = g->place + (size_t) key * (size_t) g->k;

		if (!g->alive[key] || key < g->stuck)
			continue;
		g->alive[key] = false;
		g->left--;
		for (int i = 0; i < g->k; i++)
		{
			uint32_t rest = g->cell[place[i]] = (g->cell[place[i]] - GRAPH_ONE) ^ key;

			if (rest >> GRAPH_BITS == 1)
				g->stack[top++] = rest ^ GRAPH_ONE;
		}
	}
}

/* Peels; returns the number of keys that are left, without those that stay. */
static inline uint32_t
graph_peel(Graph *g)
{
	const uint32_t *place = g->place;

	for (uint32_t key = 0; key < g->keys; key++, place += g->k)
		for (int i = 0; i < g->k; i++)
			if (g->cell[place[i]] >> GRAPH_BITS == 1)
			{
				/* which passes over a key that is gone, whose cell is another one's now */
				g->stack[0] = key;
				graph_remove(g, 1);
				break;
			}
	return g->left;
}

/*
 * The number of keys, taken one after the other, with which peeling first leaves
 * more than "most"; keys + 1 if it never does.  Found by peeling all, then
 * deleting the latest key of what is left until no more are.
 */
static inline uint32_t
graph_first_failure(Graph *g, uint32_t most)
{
	uint32_t latest = g->keys;
	uint32_t result = g->keys + 1;

	graph_peel(g);
	while (g->left > most)
	{
		while (!g->alive[latest - 1])
			latest--;
		result = latest;
		g->stack[0] = latest - 1;
		graph_remove(g, 1);
	}
	return result;
}

/* Does the core list exactly the keys that the graph could peel? */
static inline bool
graph_core_agrees(const Graph *g, uint32_t several, uint64_t seed,
				  uint64_t first)
{
	return sim_core_lists(g->k, g->s, g->keys, several, g->left, seed, first);
}

#endif /* IBLT_SIM_GRAPH_H */
