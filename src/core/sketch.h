/*
 * sketch.h
 *		The sketch: its parameters, its bytes, and the one validator.
 *
 * An estimator (strata.h) is a sketch with strata.
 *
 * An invertible Bloom lookup table (Goodrich & Mitzenmacher 2011) of weighted
 * cells.  The bytes of a sketch are described in doc/internals/format.md.  They are the
 * same on disk, on the wire and in memory.  An IbltSketch is a view of them,
 * so that the rest of the core does not need to know offsets.
 *
 * Nothing here takes memory or reports errors.  The caller provides the bytes,
 * and functions that can fail return an IbltStatus.
 */
#ifndef IBLT_CORE_SKETCH_H
#define IBLT_CORE_SKETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hash.h"
#include "status.h"

#define IBLT_FORMAT_VERSION		1
#define IBLT_MAGIC				"IBLT"
#define IBLT_STRATA_MAGIC		"IBLS"

#define IBLT_MAX_LIMBS			512		/* key or value of 4,096 bytes */
#define IBLT_MAX_DESCRIPTION	8192	/* bytes */
#define IBLT_METER_BUCKETS		256
#define IBLT_MAX_STRATA			64		/* bits of a hash */

/* A value of PostgreSQL has at most 1 GB less one byte, with its header. */
#define IBLT_MAX_BYTES			((size_t) 0x3fffffff - 4)

/* What the bytes of a key or value mean. */
typedef enum IbltKeyKind
{
	IBLT_KEY_UNTYPED = 0,		/* an empty template, no row seen yet */
	IBLT_KEY_INTEGER = 1,		/* 64-bit two's complement, little-endian */
	IBLT_KEY_UUID = 2,			/* 16 bytes */
	IBLT_KEY_CANONICAL = 3		/* items of canonical bytes, zero-padded */
} IbltKeyKind;

/* Limbs of a key where canonical keys are hashed to one. */
static inline unsigned
iblt_core_kind_limbs(IbltKeyKind kind)
{
	return kind == IBLT_KEY_UUID ? 2 : 1;
}

/* The form of a row's key, or of its value. */
typedef struct IbltTyping
{
	IbltKeyKind kind;
	unsigned	limbs;			/* 8-byte words */
	const uint8_t *description; /* its column types, UTF-8 */
	size_t		description_size;	/* bytes */
} IbltTyping;

/* What is fixed when a sketch is created. */
typedef struct IbltParams
{
	int			hashes;			/* k, 3 to 8 */
	unsigned	subtables;		/* bit i set: the subtable of hash i is kept */
	uint32_t	subtable_cells; /* cells in each subtable, on the ladder */
	int			strata;			/* of an estimator, 0 in a sketch.  Each has all
								 * subtables, and hashes of keys as its keys. */
	uint64_t	seed;
	IbltTyping	key;
	IbltTyping	value;			/* limbs is 0 in a sketch without values.
								 * Otherwise it is untyped if the key is. */
} IbltParams;

/* A view of the bytes of one sketch. */
typedef struct IbltSketch
{
	IbltParams	params;
	IbltHasher	hasher;
	int64_t		rows;			/* inserted less deleted */
	uint8_t    *bytes;
	size_t		size;			/* of bytes */
	uint8_t    *meter;			/* IBLT_METER_BUCKETS counters of 16 bits */
	uint8_t    *cells;
	uint32_t	ncells;			/* 0 in an untyped template */
	uint32_t	cell_size;		/* bytes */
	unsigned	fields;			/* field elements in a cell */
} IbltSketch;

/* The subtables in a mask. */
static inline int
iblt_mask_count(unsigned mask)
{
	int			count = 0;

	for (; mask != 0; mask &= mask - 1)
		count++;
	return count;
}

/* Number of subtables kept.  A row is in this many cells. */
static inline int
iblt_core_subtable_count(const IbltParams *params)
{
	return iblt_mask_count(params->subtables);
}

/* Is the text valid UTF-8 without control characters? */
extern bool iblt_core_is_plain_utf8(const uint8_t *text, size_t size);

/*
 * Bytes of a sketch with these parameters, or 0 if more than IBLT_MAX_BYTES.
 */
extern size_t iblt_core_size(const IbltParams *params);

/* Are these parameters possible?  The first that is not, or IBLT_OK. */
extern IbltStatus iblt_core_check_params(const IbltParams *params);

/*
 * Creates an empty sketch in bytes, which has iblt_core_size(params) of them.
 * params must have passed iblt_core_check_params.  The view keeps its own copy
 * of the description, in bytes.
 */
extern void iblt_core_init(IbltSketch *sketch, const IbltParams *params,
						   uint8_t *bytes);

/*
 * The one validator.  Opens a view of bytes from anywhere, or says what is
 * wrong with them, and then the view must not be used.  Only reads the bytes,
 * which may be those of an estimator.
 */
extern IbltStatus iblt_core_open(IbltSketch *sketch, uint8_t *bytes,
								 size_t size);

/*
 * Opens the header of a value of `total` bytes, of which the first `size` are
 * here.  It is validated as far as it can be, and total must be the size that
 * it gives.  Neither cells nor checksum are read.  The view has the parameters
 * and the number of rows.  It is only for iblt_core_key_cells (cell.h),
 * iblt_cell_offset and iblt_core_get_cells (get.h), with cells that the caller
 * fetches, and for iblt_core_agreeing (sums.h), which looks at the cells.
 *
 * IBLT_BAD_SIZE means that total does not match the header, or that size is
 * below iblt_core_header_size.
 */
extern IbltStatus iblt_core_open_header(IbltSketch *sketch, uint8_t *bytes,
										size_t size, size_t total);

/* Bytes of a header without description. */
#define IBLT_HEADER_SIZE	(40 + 2 * IBLT_METER_BUCKETS)

/*
 * Bytes before the cells, from the first IBLT_HEADER_SIZE ones.  The caller
 * must limit it by what is there.
 */
extern size_t iblt_core_header_size(const uint8_t *bytes);

/* Is every field element of a cell below p? */
extern bool iblt_core_cell_is_canonical(const IbltSketch *sketch,
										const uint8_t *cell);

/* Sets a view of a byte-for-byte copy of an open sketch. */
extern void iblt_core_view_copy(IbltSketch *copy, const IbltSketch *sketch,
								uint8_t *bytes);

/*
 * Makes the bytes canonical again after rows were added: reduces every field
 * element, and writes the row count and the checksum.
 */
extern void iblt_core_seal(IbltSketch *sketch);

/* Does a cell, sealed or not, hold no rows? */
extern bool iblt_core_cell_is_zero(const IbltSketch *sketch,
								   const uint8_t *cell);

/* Do keys or values of both mean the same, in whatever size? */
extern bool iblt_core_same_type(const IbltTyping *a, const IbltTyping *b);

/* Is this form of keys or values possible?  What is wrong with it, or IBLT_OK. */
extern IbltStatus iblt_core_check_typing(const IbltTyping *typing);

/* The first parameter that prevents adding the two, or IBLT_OK. */
extern IbltStatus iblt_core_compatible(const IbltParams *a,
									   const IbltParams *b);

/* The i-th cell. */
static inline uint8_t *
iblt_cell(const IbltSketch *sketch, uint32_t i)
{
	return sketch->cells + (size_t) i * sketch->cell_size;
}

/* Where, in the bytes of the value, the i-th cell begins. */
static inline size_t
iblt_cell_offset(const IbltSketch *sketch, uint32_t i)
{
	return (size_t) (sketch->cells - sketch->bytes) +
		(size_t) i * sketch->cell_size;
}

/*
 * A cell is a count of 32 bits, then field elements: weight, key limbs, check
 * and, in a value sketch, value limbs.
 */
static inline int32_t
iblt_cell_count(const uint8_t *cell)
{
	return (int32_t) iblt_load32(cell);
}

static inline uint64_t
iblt_cell_field(const uint8_t *cell, unsigned field)
{
	return iblt_load64(cell + 4 + 8 * (size_t) field);
}

static inline void
iblt_cell_set_field(uint8_t *cell, unsigned field, uint64_t element)
{
	iblt_store64(cell + 4 + 8 * (size_t) field, element);
}

#define IBLT_FIELD_WEIGHT			0
#define IBLT_FIELD_KEY				1
#define IBLT_FIELD_CHECK(limbs)		(1 + (limbs))
#define IBLT_FIELD_VALUE(limbs)		(2 + (limbs))
#define IBLT_MAX_FIELDS				(2 * IBLT_MAX_LIMBS + 2)

#endif
