/*
 * graph.h
 *		Hypergraphs with the places of the core's own hash, or random ones.
 *
 * The simulations hold the graph against the sketch, trial by trial, and then take
 * the graph where many trials are needed.  In the paper's cells a key with two values
 * makes its cells useless.  In the graph such a key is never taken out.
 */
#ifndef IBLT_SIM_GRAPH_H
#define IBLT_SIM_GRAPH_H

#include "../unit/hypergraph.h"
#include "sim.h"

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
			graph_put(g, key, i, position[i] + (uint32_t) i * g->s);
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
			graph_put(g, key, i, iblt_scale((uint32_t) bits, g->s) + (uint32_t) i * g->s);
		}
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

/* How many graphs of so many keys, in cells by the hash or random ones, do not peel completely? */
static inline uint32_t
graph_failures(int k, uint32_t s, uint32_t keys, uint32_t trials, bool by_hash)
{
	size_t taken = tap_taken;
	Graph g = graph_open(k, s, keys);
	uint32_t failures = 0;

	for (uint32_t i = 0; i < trials; i++)
	{
		if (by_hash)
			graph_draw(&g, tap_random(), tap_random());
		else
			graph_draw_random(&g);
		failures += graph_peel(&g) > 0;
	}
	forget(taken);
	return failures;
}

/* Does the core list exactly the keys that the graph could peel? */
static inline bool
graph_core_agrees(const Graph *g, uint32_t several, uint64_t seed, uint64_t first)
{
	return sim_core_lists(g->k, g->s, g->keys, several, g->left, seed, first);
}

#endif /* IBLT_SIM_GRAPH_H */
