/*
 * bytes.h
 *		Little-endian loads and stores at any alignment.
 *
 * A sketch is the same little-endian byte string wherever it is kept
 * (doc/internals/format.md), so the core works on those bytes directly.  memcpy needs no
 * alignment and no aliasing rules.  Compilers turn it into one move on
 * little-endian machines.
 */
#ifndef IBLT_CORE_BYTES_H
#define IBLT_CORE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define IBLT_LE16(x) __builtin_bswap16(x)
#define IBLT_LE32(x) __builtin_bswap32(x)
#define IBLT_LE64(x) __builtin_bswap64(x)
#else
#define IBLT_LE16(x) (x)
#define IBLT_LE32(x) (x)
#define IBLT_LE64(x) (x)
#endif

static inline uint16_t
iblt_load16(const uint8_t *from)
{
	uint16_t x;

	memcpy(&x, from, sizeof x);
	return IBLT_LE16(x);
}

static inline uint32_t
iblt_load32(const uint8_t *from)
{
	uint32_t x;

	memcpy(&x, from, sizeof x);
	return IBLT_LE32(x);
}

static inline uint64_t
iblt_load64(const uint8_t *from)
{
	uint64_t x;

	memcpy(&x, from, sizeof x);
	return IBLT_LE64(x);
}

static inline void
iblt_store16(uint8_t *to, uint16_t x)
{
	x = IBLT_LE16(x);
	memcpy(to, &x, sizeof x);
}

static inline void
iblt_store32(uint8_t *to, uint32_t x)
{
	x = IBLT_LE32(x);
	memcpy(to, &x, sizeof x);
}

static inline void
iblt_store64(uint8_t *to, uint64_t x)
{
	x = IBLT_LE64(x);
	memcpy(to, &x, sizeof x);
}

/* memcpy for short texts, also for none at NULL. */
static inline void
iblt_store_text(uint8_t *to, const uint8_t *from, size_t size)
{
	while (size-- > 0)
		*to++ = *from++;
}

static inline bool
iblt_all_zero(const uint8_t *bytes, size_t size)
{
	while (size-- > 0)
		if (*bytes++ != 0)
			return false;
	return true;
}

#endif
