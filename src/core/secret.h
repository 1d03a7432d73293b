/*
 * secret.h
 *		A seed expanded to the secret of XXH3.
 *
 * XXH3 with a seed only adds the seed to fixed words.  The sums that two words
 * of an input take part in are then related under every seed, and one can
 * prepare pairs of inputs that collide under one seed in 70.  No such pair is
 * known for a secret of unrelated words (test/unit/test_secret.c searches for
 * them).
 *
 * The secret is the keystream of ChaCha20 (RFC 8439).  xxHash's own generator
 * of secrets is not part of its stable interface, and has changed between
 * releases.
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
 * labels (at most 12 bytes) are independent.
 */
extern void iblt_core_keystream(uint8_t *stream, const char *label,
								uint64_t seed);

/* The first IBLT_SECRET_SIZE bytes of the keystream. */
extern void iblt_core_secret(uint8_t *secret, const char *label,
							 uint64_t seed);

#endif
