/*
 * sim_recheck.c
 *		The recheck as a model: every interleaving of writers, replication and
 *		looks, in pairs, chains, stars and meshes.
 *
 * At the beginning the rows of a key are the same on all nodes, and replication
 * loses nothing.  So each difference is a row in flight, and a recheck must never
 * confirm one (confirm.sql).  Each run enumerates all states that two writers
 * with their commits, the apply workers and the recheck can reach.  Without any
 * one look or wait, there has to be a way to confirm a row in flight: otherwise
 * the model, or that step, would be for nothing.
 *
 * A transaction commits in the steps of position.c: it writes, it inserts its
 * commit record, it becomes visible, it releases its locks.  A record may be
 * sent as soon as it is inserted.  A follower applies records one after the other, in
 * transactions of its own with records of its own, which it sends on.  A
 * standby shows a record when it replays it.
 */

#include "sim.h"

#define NODES	3
#define LINKS	6
#define WRITERS 2
#define RECORDS 6
#define ABSENT	0				/* content of a row that is not there */
#define BEFORE	1				/* what all nodes have at the beginning */
#define STALE	2				/* what the last node may have by mistake */

typedef enum Phase
{
	IDLE, WROTE, INSERTED, VISIBLE
} Phase;

typedef struct Transaction
{
	uint8_t		phase;
	uint8_t		record;			/* its place in the log of its node */
	uint8_t		content;		/* that it writes */
} Transaction;

/* All that changes.  It is compared byte by byte, so it has no padding. */
typedef struct State
{
	Transaction writer[WRITERS];
	uint8_t		todo[WRITERS];	/* changes that a writer has still to make */
	Transaction apply[LINKS];
	uint8_t		applied[LINKS]; /* records that the follower has taken */
	uint8_t		log[NODES][RECORDS];	/* contents, in the order of commits */
	uint8_t		foreign[NODES][RECORDS];	/* did an apply worker write it? */
	uint8_t		inserts[NODES][RECORDS];	/* was there no row before? */
	uint8_t		inserted[NODES];
	uint8_t		row[NODES];		/* content that is visible */
	uint8_t		version[NODES]; /* how often it has changed */
	/* the recheck */
	uint8_t		step;
	uint8_t		part;			/* of a wait: which link, or which source */
	uint8_t		looked;			/* nodes of this look */
	uint8_t		waiting;		/* a wait has begun */
	uint8_t		target;			/* position, or transactions */
	uint8_t		looks;			/* that were done */
	uint8_t		mark[NODES];	/* versions of the last look */
	uint8_t		seen[NODES];	/* contents of this look */
	/* a repair, which inserts or updates a row of the last node as on the first one */
	Transaction repair;
} State;

typedef struct Link
{
	int			source;
	int			follower;
} Link;

typedef struct Run
{
	const char *name;
	int			nodes;
	int			links;
	Link		link[LINKS];	/* in the order in which they are waited for */
	bool		both_ways;		/* a change is not sent on */
	bool		standby;		/* the follower replays */
	int			home[WRITERS];	/* nodes of the writers */
	int			changes[WRITERS];
	bool		bare;			/* the servers have no iblt */
	bool		slow;			/* left out of the quick form */
	/* set for each search */
	const char *steps;			/* l looks, s settles, p waits */
	uint8_t		content[WRITERS][2];
} Run;

/* A set of states, and a stack of those that are still to be followed. */
static State *states;
static size_t number;
static size_t room;
static uint32_t *table;
static size_t slots;

static uint64_t
hash(const State *state)
{
	const uint8_t *bytes = (const uint8_t *) state;
	uint64_t	h = 14695981039346656037u;

	for (size_t i = 0; i < sizeof(State); i++)
		h = (h ^ bytes[i]) * 1099511628211u;
	return h ^ h >> 29;
}

static void
grow(void)
{
	slots = slots ? 2 * slots : 1 << 16;
	free(table);
	table = calloc(slots, sizeof(*table));
	if (!table)
		abort();
	for (size_t i = 0; i < number; i++)
	{
		size_t		slot = hash(&states[i]) & (slots - 1);

		while (table[slot])
			slot = (slot + 1) & (slots - 1);
		table[slot] = (uint32_t) i + 1;
	}
}

static void
reach(const State *state)
{
	size_t		slot;

	if (2 * number >= slots)
		grow();
	for (slot = hash(state) & (slots - 1); table[slot]; slot = (slot + 1) & (slots - 1))
		if (memcmp(&states[table[slot] - 1], state, sizeof(State)) == 0)
			return;
	if (number == room)
	{
		room = room ? 2 * room : 1 << 14;
		states = realloc(states, room * sizeof(State));
		if (!states)
			abort();
	}
	states[number++] = *state;
	table[slot] = (uint32_t) number;
}

/* Has each node all changes of the others? */
static bool
quiet(const Run *run, const State *s)
{
	for (int l = 0; l < run->links; l++)
		if (s->applied[l] < s->inserted[run->link[l].source] || s->apply[l].phase != IDLE)
			return false;
	for (int w = 0; w < WRITERS; w++)
		if (s->writer[w].phase != IDLE)
			return false;
	return true;
}

/* Transactions of a node: is there one that has this row locked? */
static bool
locked(const Run *run, const State *s, int node)
{
	for (int w = 0; w < WRITERS; w++)
		if (run->home[w] == node && s->writer[w].phase != IDLE)
			return true;
	for (int l = 0; l < run->links; l++)
		if (run->link[l].follower == node && s->apply[l].phase != IDLE)
			return true;
	return node == run->nodes - 1 && s->repair.phase != IDLE;
}

/* The transactions of a node between two phases, as bits. */
static uint8_t
running(const Run *run, const State *s, int node, Phase from)
{
	uint8_t		bits = 0;

	for (int w = 0; w < WRITERS; w++)
		if (run->home[w] == node && s->writer[w].phase >= from)
			bits |= (uint8_t) (1 << w);
	for (int l = 0; l < run->links; l++)
		if (run->link[l].follower == node && s->apply[l].phase >= from)
			bits |= (uint8_t) (1 << (WRITERS + l));
	return bits;
}

static void
show(State *s, int node, uint8_t content)
{
	s->row[node] = content;
	s->version[node]++;
}

/* Each next step of a transaction of a node that has begun. */
static void
go_on(const State *before, int node, const Transaction *of, bool foreign)
{
	State		s = *before;
	Transaction *t = (Transaction *) ((char *) &s + ((const char *) of - (const char *) before));

	switch (t->phase)
	{
		case WROTE:
			s.log[node][s.inserted[node]] = t->content;
			s.foreign[node][s.inserted[node]] = foreign;
			s.inserts[node][s.inserted[node]] = s.row[node] == ABSENT;
			t->record = s.inserted[node]++;
			t->phase = INSERTED;
			break;
		case INSERTED:
			show(&s, node, t->content);
			t->phase = VISIBLE;
			break;
		default:
			memset(t, 0, sizeof(*t));
			break;
	}
	reach(&s);
}

static void
writers_go_on(const Run *run, const State *before)
{
	for (int w = 0; w < WRITERS; w++)
	{
		State		s = *before;
		Transaction *t = &s.writer[w];

		if (t->phase != IDLE)
			go_on(before, run->home[w], &before->writer[w], false);
		else if (s.todo[w] > 0 && !locked(run, &s, run->home[w])
				 && (!run->both_ways || quiet(run, &s)))
		{
			t->content = run->content[w][--s.todo[w]];
			t->phase = WROTE;
			if (t->content == s.row[run->home[w]])
				memset(t, 0, sizeof(*t));	/* nothing to delete, or the same */
			reach(&s);
		}
	}
}

static void
replication_goes_on(const Run *run, const State *before)
{
	for (int l = 0; l < run->links; l++)
	{
		const Link *link = &run->link[l];
		State		s = *before;
		uint8_t		next = s.applied[l];

		if (s.apply[l].phase == VISIBLE)
		{
			s.applied[l]++;
			memset(&s.apply[l], 0, sizeof(s.apply[l]));
			reach(&s);
		}
		else if (s.apply[l].phase != IDLE)
			go_on(before, link->follower, &before->apply[l], true);
		else if (next < s.inserted[link->source])
		{
			if (run->both_ways && s.foreign[link->source][next])
				s.applied[l]++;
			else if (run->standby)
			{
				show(&s, link->follower, s.log[link->source][next]);
				s.applied[l]++;
			}
			else if (!locked(run, &s, link->follower))
			{
				s.apply[l].content = s.log[link->source][next];
				s.apply[l].phase = WROTE;
				/* an update or a delete of a row that is not there */
				if (s.row[link->follower] == ABSENT && !s.inserts[link->source][next])
				{
					s.applied[l]++;
					memset(&s.apply[l], 0, sizeof(s.apply[l]));
				}
			}
			else
				continue;
			reach(&s);
		}
	}
}

static void
next_step(State *s)
{
	s->part = s->waiting = s->target = s->looked = 0;
	memset(s->seen, 0, sizeof(s->seen));
	s->step++;
}

/* One more node is looked at.  A row that has moved is not confirmed, nor is one that is equal. */
static void
look(const Run *run, const State *before)
{
	for (int n = 0; n < run->nodes; n++)
	{
		State		s = *before;
		bool		differs = false;

		/* a row that is not there has no version */
		uint8_t		mark = s.row[n] == ABSENT ? 0 : s.version[n];

		if (s.looked & 1 << n || (s.looks > 0 && s.mark[n] != mark))
			continue;
		s.mark[n] = mark;
		s.seen[n] = s.row[n];
		s.looked |= (uint8_t) (1 << n);
		if (s.looked == (1 << run->nodes) - 1)
		{
			for (int i = 1; i < run->nodes; i++)
				differs = differs || s.seen[i] != s.seen[0];
			if (!differs)
				continue;
			s.looks = 1;
			next_step(&s);
		}
		reach(&s);
	}
}

/* The sources, each once, in the order of the links. */
static int
sources(const Run *run, int source[LINKS])
{
	int			all = 0;

	for (int l = 0; l < run->links; l++)
	{
		bool		known = false;

		for (int i = 0; i < all; i++)
			known = known || source[i] == run->link[l].source;
		if (!known)
			source[all++] = run->link[l].source;
	}
	return all;
}

static void
settle(const Run *run, const State *before)
{
	int			source[LINKS];
	int			all = sources(run, source);
	State		s = *before;
	/* with iblt, those that have inserted their record and are not visible */
	uint8_t		now = running(run, &s, source[s.part], run->bare ? WROTE : INSERTED);

	if (!run->bare)
		now &= (uint8_t) ~running(run, &s, source[s.part], VISIBLE);
	if (!s.waiting)
	{
		s.waiting = 1;
		s.target = now;
	}
	else if (s.target & now)
	{
		/* one that has ended is not waited for again if its process goes on */
		s.target &= now;
		if (s.target == before->target)
			return;
	}
	else
	{
		s.waiting = s.target = 0;
		if (++s.part == all)
			next_step(&s);
	}
	reach(&s);
}

static void
pass(const Run *run, const State *before)
{
	State		s = *before;
	const Link *link = &run->link[s.part];

	if (!s.waiting)
	{
		s.waiting = 1;
		s.target = s.inserted[link->source];
	}
	else if (s.applied[s.part] >= s.target)
	{
		s.waiting = s.target = 0;
		if (++s.part == run->links)
			next_step(&s);
	}
	else
		return;
	reach(&s);
}

/*
 * A repair finds a row on the first node, inserts it on the last one, perhaps
 * settles, and perhaps looks whether the first one still has it.  If not, it
 * takes the row back.  Or it locks a row on the last node that is as it was,
 * perhaps settles, and updates it as the row on the first node is.
 */
static void
repair(const Run *run, const State *before)
{
	State		s = *before;
	int			target = run->nodes - 1;

	switch (run->steps[s.step])
	{
		case 'c':
			if (s.row[0] == ABSENT)
				return;
			s.repair.content = s.row[0];
			break;
		case 'i':
			if (locked(run, &s, target) || s.row[target] != ABSENT)
				return;
			s.repair.phase = WROTE;
			break;
		case 'x':
			if (locked(run, &s, target) || s.row[target] != STALE)
				return;
			s.repair.phase = WROTE;
			break;
		case 'u':
			if (s.row[0] == ABSENT || s.row[0] == s.row[target])
				return;
			s.repair.content = s.row[0];
			break;
		case 'v':
			if (s.row[0] != s.repair.content)
			{
				memset(&s.repair, 0, sizeof(s.repair));
				s.step = (uint8_t) strlen(run->steps) - 1;
			}
			break;
		default:				/* COMMIT */
			if (s.repair.phase != IDLE)
			{
				go_on(before, target, &before->repair, true);
				return;
			}
	}
	next_step(&s);
	reach(&s);
}

/* Has the last node a row that the first one has not, or another one, once all is done? */
static bool
is_damaged(const Run *run, const State *s)
{
	return run->steps[s->step] == '\0' && quiet(run, s) && s->row[run->nodes - 1] != ABSENT
		&& s->row[run->nodes - 1] != s->row[0];
}

/* Can a recheck confirm a difference, or a repair of the row of the last node do damage? */
static bool
goes_wrong(const Run *run, uint8_t last, bool repairs)
{
	State		first;

	number = 0;
	if (slots > 0)
		memset(table, 0, slots * sizeof(*table));
	memset(&first, 0, sizeof(first));
	for (int n = 0; n < run->nodes; n++)
		first.row[n] = BEFORE, first.version[n] = 1;
	first.row[run->nodes - 1] = last;
	for (int w = 0; w < WRITERS; w++)
		first.todo[w] = (uint8_t) (last != BEFORE && !repairs ? 0 : run->changes[w]);
	reach(&first);
	for (size_t i = 0; i < number; i++)
	{
		State		s = states[i];

		if (repairs ? is_damaged(run, &s) : run->steps[s.step] == '\0')
			return true;
		writers_go_on(run, &s);
		replication_goes_on(run, &s);
		if (run->steps[s.step] == 'p')
			pass(run, &s);
		else if (run->steps[s.step] == 's')
			settle(run, &s);
		else if (run->steps[s.step] == 'l')
			look(run, &s);
		else if (run->steps[s.step] != '\0')
			repair(run, &s);
	}
	return false;
}

/* Can it for any contents that the writers write?  A repair finds the last node without its row, or with another one. */
static bool
ever_wrong(Run *run, bool repairs)
{
	int			all = 1;

	for (int i = 0; i < run->changes[0] + run->changes[1]; i++)
		all *= 3;
	for (int chosen = 0; chosen < all; chosen++)
	{
		int			rest = chosen;

		for (int w = 0; w < WRITERS; w++)
			for (int i = 0; i < run->changes[w]; i++, rest /= 3)
				run->content[w][i] = (uint8_t) (rest % 3);
		if (goes_wrong(run, !repairs ? BEFORE : run->steps[0] == 'x' ? STALE : ABSENT, repairs))
			return true;
	}
	return false;
}

/* A round as recheck_batches does it, and two of them. */
#define ONE_ROUND "lslplsl"
#define TWO_ROUNDS "lslplslplsl"

static const Run runs[] = {
	{.name = "a pair", .nodes = 2, .links = 1, .link = {{0, 1}}, .changes = {2, 1}},
	{.name = "a standby", .nodes = 2, .links = 1, .link = {{0, 1}}, .standby = true, .changes = {2, 1}},
	{.name = "a chain", .nodes = 3, .links = 2, .link = {{0, 1}, {1, 2}}, .changes = {2, 1}},
	{.name = "a chain, from its end", .nodes = 3, .links = 2, .link = {{1, 2}, {0, 1}}, .changes = {2, 1}, .slow = true},
	{.name = "a star", .nodes = 3, .links = 2, .link = {{0, 1}, {0, 2}}, .changes = {2, 1}, .slow = true},
};
static const Run both_ways[] = {
	{.name = "both ways", .nodes = 2, .links = 2, .link = {{0, 1}, {1, 0}}, .home = {0, 1}, .changes = {2, 2}, .both_ways = true},
	{.name = "a mesh", .nodes = 3, .links = 6, .link = {{0, 1}, {1, 0}, {0, 2}, {2, 0}, {1, 2}, {2, 1}}, .home = {0, 1}, .changes = {2, 1}, .both_ways = true, .slow = true},
};

/* Each run with iblt and without it, in full and without each of its steps. */
static void
one_way(void)
{
	for (size_t i = 0; i < 2 * sizeof(runs) / sizeof(*runs); i++)
	{
		Run			run = runs[i / 2];

		run.bare = i % 2;
		if (run.nodes > 2 && sim_options.quick && (run.slow || run.bare))
			continue;
		run.steps = ONE_ROUND;
		tap_ok(!ever_wrong(&run, false), "%s%s: no row in flight is confirmed", run.name, run.bare ? " without iblt" : "");
		tap_ok(goes_wrong(&run, ABSENT, false), "%s: but a row that is lost is", run.name);
		for (size_t without = 0; without < strlen(ONE_ROUND); without++)
		{
			char		rest[sizeof(ONE_ROUND)];

			snprintf(rest, sizeof(rest), "%.*s%s", (int) without, ONE_ROUND, ONE_ROUND + without + 1);
			run.steps = rest;
			tap_ok(ever_wrong(&run, false), "%s: a row in flight is with the steps %s", run.name, rest);
		}
	}
}

/* A follower that sends back what it changes: one round is not enough. */
static void
two_ways(void)
{
	for (size_t i = 0; i < 2 * sizeof(both_ways) / sizeof(*both_ways); i++)
	{
		Run			run = both_ways[i / 2];

		run.bare = i % 2;
		if (run.slow && sim_options.quick)
			continue;
		run.steps = ONE_ROUND;
		tap_ok(ever_wrong(&run, false), "%s: a row in flight is confirmed in one round", run.name);
		run.steps = TWO_ROUNDS;
		tap_ok(!ever_wrong(&run, false), "%s%s: none is in two", run.name, run.bare ? " without iblt" : "");
		tap_ok(goes_wrong(&run, ABSENT, false), "%s: but a row that is lost is", run.name);
	}
}

/* Inserting a row that a follower has lost, or updating it, while writers change the source. */
static void
repairs(void)
{
	static const char *const right[] = {"cisvk", "xsuk"};
	static const char *const wrong[] = {"cik", "cisk", "civk", "xuk", "sxuk"};

	for (size_t i = 0; i < sizeof(runs) / sizeof(*runs); i++)
	{
		Run			run = runs[i];

		if (run.standby || (run.slow && sim_options.quick))
			continue;
		for (size_t way = 0; way < sizeof(right) / sizeof(*right); way++)
		{
			run.steps = right[way];
			tap_ok(!ever_wrong(&run, true), "%s: a repair with the steps %s brings back nothing", run.name, run.steps);
		}
		for (size_t way = 0; way < sizeof(wrong) / sizeof(*wrong); way++)
		{
			run.steps = wrong[way];
			tap_ok(ever_wrong(&run, true), "%s: a repair with the steps %s may bring back a row", run.name, run.steps);
		}
	}
}

SIM_MAIN({"one-way", one_way}, {"both-ways", two_ways}, {"repairs", repairs})
