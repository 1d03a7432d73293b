/*
 * secret.h
 *		A seed expanded to the secret of XXH3.
 *
 * XXH3 with a seed only adds the seed to fixed words.  The sums that two words
 * of an input take part in are then related under every seed, and pairs of
 * inputs can be prepared that collide under one seed in 70.  With a secret
 * whose words are unrelated no such pair is known (test/unit/test_secret.c
 * searches for them).
 *
 * The secret is the keystream of ChaCha20 (RFC 8439).  xxHash's own generator
 * of secrets is no part of its stable interface, and changed between releases.
 */
#ifndef IBLT_CORE_SECRET_H
#define IBLT_CORE_SECRET_H

#include <stddef.h>
#include <stdint.h>

/* Bytes that XXH3 takes as its secret here. */
#define IBLT_SECRET_SIZE		192

/* Bytes that one call makes, a multiple of the 64 of a ChaCha20 block. */
#define IBLT_KEYSTREAM_SIZE		256

/*
 * Writes the first 256 bytes of the keystream of a seed.  Streams of different
 * labels, of at most 12 bytes, have nothing to do with each other.
 */
extern void iblt_core_keystream(uint8_t *stream, const char *label,
								uint64_t seed);

/* The first IBLT_SECRET_SIZE bytes of it. */
extern void iblt_core_secret(uint8_t *secret, const char *label,
							 uint64_t seed);

#endif
