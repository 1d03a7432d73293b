/*-------------------------------------------------------------------------
 *
 * pinned.h
 *	  What does not change between two reads of a comparison.
 *
 * The drivers pin settings (sql/pinned_settings here, iblt_peer_settings on the
 * peer).  Of the built-in functions and types that are not immutable, some
 * depend only on these.
 *
 *-------------------------------------------------------------------------
 */
#ifndef IBLT_COMPARE_PINNED_H
#define IBLT_COMPARE_PINNED_H

#include "postgres.h"

#include "nodes/nodes.h"

/* Is a built-in function stable because of pinned settings alone? */
extern bool iblt_function_is_pinned(Oid function);

/* Does its result depend on the bytes of text in the database? */
extern bool iblt_function_shows_encoding(Oid function);

/* Is a built-in function stable because it makes text of any type? */
extern bool iblt_function_makes_text(Oid function);

/*
 * Is this a built-in function on text whose result does not depend on the
 * collation of this call, if that is deterministic?
 */
extern bool iblt_call_ignores_collation(Oid function, const Node *call);

/* The collation by which GREATEST or LEAST orders, the default one if hidden. */
extern Oid	iblt_order_collation(const Node *minmax);

/* May a call depend on the order of such an argument? */
extern bool iblt_call_hides_collation(Oid function, const Node *call);

/*
 * Does a literal of the type always read the same?  NULL stands for any text.
 */
extern bool iblt_input_is_pinned(Oid type, const char *literal);

/* Does a value of the type always have the same text? */
extern bool iblt_output_is_pinned(Oid type);

#endif							/* IBLT_COMPARE_PINNED_H */
