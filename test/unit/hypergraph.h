/*
 * hypergraph.h
 *		The bare hypergraph of a sketch: its keys, and the cells they lie in.
 *
 * Peeling it says which keys a sketch of ideal cells can list, some twenty times
 * faster than the sketch itself.
 */
#ifndef IBLT_TEST_HYPERGRAPH_H
#define IBLT_TEST_HYPERGRAPH_H

#include "tap.h"

/*
 * A cell counts its keys above, and has the XOR of their numbers below: one alone is that key.  Both in
 * 32 bits, so that large graphs stay in the cache of a processor.
 */
#define GRAPH_BITS 20
#define GRAPH_ONE (UINT32_C(1) << GRAPH_BITS)

typedef struct Graph
{
	int k;
	uint32_t s;
	uint32_t keys;	 /* their numbers are below this */
	uint32_t *cell;	 /* k * s */
	uint32_t *place; /* keys * k: the cells of each key */
	uint32_t *stack; /* keys found alone, some more than once */
	bool *alive;
	uint32_t stuck; /* the first keys, which are never taken out */
	uint32_t left;	/* of the others, put into cells and not peeled */
} Graph;

static inline Graph
graph_open(int k, uint32_t s, uint32_t keys)
{
	size_t hashes = (size_t) k;
	Graph g = {.k = k, .s = s, .keys = keys};

	if (keys > GRAPH_ONE)
		tap_bail("a hypergraph of too many keys");
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
	memset(g->alive, false, g->keys);
	g->left = 0;
}

/* Puts a key into its cell of subtable i, for all i from 0 on. */
static inline void
graph_put(Graph *g, uint32_t key, int i, uint32_t cell)
{
	if (g->cell[cell] >= -GRAPH_ONE)
		tap_bail("too many keys in a cell");
	g->cell[cell] = (g->cell[cell] + GRAPH_ONE) ^ key;
	g->place[(size_t) key * (size_t) g->k + (size_t) i] = cell;
	g->left += i == 0 && key >= g->stuck;
	g->alive[key] = true;
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
				g->stack[top++] = rest - GRAPH_ONE;
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

#endif /* IBLT_TEST_HYPERGRAPH_H */
