/*
 * hash.h
 *		The seeded hash functions of a sketch.
 *
 * All are XXH3 (xxHash), specified in doc/internals/format.md: positions h_1 .. h_k and
 * check g from the key alone, weight w from the row's checksum alone.  The
 * checksum of a value that is not an integer is a hash of it, too.
 *
 * One 128-bit hash of the key gives four positions and the check.  A hash of
 * that hash gives four more positions.  The check mixes both halves, so it is
 * uniform for any given position.  The pure test needs no more, because it
 * reads one cell.
 *
 * A seed is expanded to the secret of XXH3.  XXH3 with a seed only adds the
 * seed to fixed words.  The sums that two words of an input take part in are
 * then related under every seed, and one can prepare pairs of inputs that
 * collide under one seed in 70.  No such pair is known for a secret of
 * unrelated words (test/unit/test_secret.c searches for them).
 *
 * The secret is the keystream of ChaCha20 (RFC 8439).  xxHash's own generator
 * of secrets is not part of its stable interface, and has changed between
 * releases.
 */
#ifndef IBLT_CORE_HASH_H
#define IBLT_CORE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "bytes.h"
#include "field.h"

#ifndef XXH_INLINE_ALL
#define XXH_INLINE_ALL
#endif
/* GCC judges branches of an inlined hash that a short key never takes. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Warray-bounds"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <xxhash.h>
#pragma GCC diagnostic pop
#else
#include <xxhash.h>
#endif

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

#define IBLT_MIN_HASHES		3
#define IBLT_MAX_HASHES		8

/* 2^64 divided by the golden ratio, an odd number without structure. */
#define IBLT_GOLDEN			UINT64_C(0x9E3779B97F4A7C15)

/* What a sketch's seed expands to. */
typedef struct IbltHasher
{
	uint8_t		secret[IBLT_SECRET_SIZE];	/* of the hashes of keys and values */
	uint64_t	weight_seed;
	uint64_t	value_mask;
	uint64_t	key_mask;
} IbltHasher;

/* One 64-bit word hashed, little-endian. */
static inline uint64_t
iblt_hash_word(uint64_t word, uint64_t seed)
{
	uint8_t bytes[8];

	iblt_store64(bytes, word);
	return XXH3_64bits_withSeed(bytes, sizeof bytes, seed);
}

/* Derives the secret, seed and masks of a sketch from its one seed. */
extern void iblt_core_hasher_init(IbltHasher *hasher, uint64_t seed);

/*
 * The mask that is XORed to limb l of a key before it becomes a field element.
 * With it, the 59 words above p stand for values that a user is unlikely to
 * have.  Without it they would include -1.
 */
static inline uint64_t
iblt_limb_mask(const IbltHasher *hasher, size_t limb)
{
	return hasher->key_mask + limb * IBLT_GOLDEN;
}

/* The same for limb l of a value. */
static inline uint64_t
iblt_value_mask(const IbltHasher *hasher, size_t limb)
{
	return hasher->value_mask + limb * IBLT_GOLDEN;
}

/* The checksum y of a value of size bytes that is not an integer. */
static inline uint64_t
iblt_hash_value(const IbltHasher *hasher, const uint8_t *value, size_t size)
{
	return XXH3_64bits_withSecret(value, size, hasher->secret,
								  IBLT_SECRET_SIZE);
}

/* The weight w(y) of a checksum, a non-zero field element. */
static inline uint64_t
iblt_hash_weight(const IbltHasher *hasher, uint64_t y)
{
	uint64_t weight = fp_reduce(iblt_hash_word(y, hasher->weight_seed));

	return weight == 0 ? 1 : weight;
}

/*
 * Maps a 32-bit hash to [0, cells) by multiply-shift.  For any divisor f of
 * cells, position / f is the position among cells / f.  So folding is exact.
 */
static inline uint32_t
iblt_scale(uint32_t hash, uint32_t cells)
{
	return (uint32_t) (((uint64_t) hash * cells) >> 32);
}

static inline void
iblt_scale_four(XXH128_hash_t h, uint32_t cells, uint32_t *position)
{
	position[0] = iblt_scale((uint32_t) h.low64, cells);
	position[1] = iblt_scale((uint32_t) (h.low64 >> 32), cells);
	position[2] = iblt_scale((uint32_t) h.high64, cells);
	position[3] = iblt_scale((uint32_t) (h.high64 >> 32), cells);
}

/*
 * Hashes a key of size bytes.  Returns its check g(key), the paper's G1, as a
 * lazy word, and sets its position in the subtable of each hash.
 */
static inline uint64_t
iblt_hash_key(const IbltHasher *hasher, const uint8_t *key, size_t size,
			  int hashes, uint32_t cells, uint32_t *position)
{
	XXH128_hash_t h = XXH3_128bits_withSecret(key, size, hasher->secret,
											  IBLT_SECRET_SIZE);

	iblt_scale_four(h, cells, position);
	if (hashes > 4)
	{
		uint8_t bytes[16];

		iblt_store64(bytes, h.low64);
		iblt_store64(bytes + 8, h.high64);
		iblt_scale_four(XXH3_128bits_withSecret(bytes, sizeof bytes, hasher->secret,
												IBLT_SECRET_SIZE), cells, position + 4);
	}
	return h.low64 ^ h.high64;
}

#endif
