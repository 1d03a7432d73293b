/*
 * kbf.h
 *		The key-value Bloom filter: its parameters, its bytes, and the one
 *		validator.
 *
 * An approximate map from keys to few different values, after Xiong, Yao, Cao &
 * He 2014, "kBF: a Bloom filter for key-value storage with an application on
 * approximate state machines".  A pair (key, value) is in one cell of each of k
 * subtables.  A cell counts its pairs and keeps the XOR of the codes of their
 * values (gf.h).  So filters of two sets of pairs add up to that of both.
 *
 * Counters are exact from 0 to 14.  A cell that would count 15 becomes full.
 * It then has the content 0, says nothing and stays full, whatever is inserted,
 * deleted, added or subtracted.  Full cells make answers unknown, never wrong.
 *
 * doc/internals/format.md has the bytes.  As in sketch.h, nothing here takes memory or
 * reports errors.  kbf_cell.h inserts, deletes and looks up, and kbf_size.h
 * chooses parameters.
 */
#ifndef IBLT_CORE_KBF_H
#define IBLT_CORE_KBF_H

#include "gf.h"
#include "sketch.h"

#define IBLT_KBF_MAGIC			"IBLK"
#define IBLT_KBF_VERSION		1

#define IBLT_KBF_MIN_HASHES		2
#define IBLT_KBF_MAX_HASHES		IBLT_MAX_HASHES
#define IBLT_KBF_MAX_CELLS		(UINT32_C(1) << 24) /* of a subtable */
#define IBLT_KBF_COUNTER_BITS	4
#define IBLT_KBF_FULL			15	/* the counter of a full cell */
#define IBLT_KBF_MAX_LABELS		(UINT32_C(1) << 20) /* bytes of all labels */

/* What is fixed when a filter is created. */
typedef struct IbltKbfParams
{
	int			hashes;			/* k, 2 to 8, as many as subtables */
	int			degree;			/* q: codes are over GF(2^q), 3 to 12.  A degree
								 * above what the values need gives fewer
								 * false positives */
	int			superposed;		/* t: values that a cell can tell apart, 1 to 3 */
	unsigned	values;			/* the values are 1 to this, at most 2^q - 1 */
	uint32_t	subtable_cells; /* cells in each subtable */
	IbltTyping	key;			/* limbs is that of its kind, and not kept */
	uint64_t	seed;
	const uint8_t *labels;		/* one of each value, in order: its bytes as
								 * one byte, 1 to 255, then UTF-8 */
	size_t		labels_size;	/* bytes, 0 without labels */
} IbltKbfParams;

/* A view of the bytes of one filter. */
typedef struct IbltKbf
{
	IbltKbfParams params;
	IbltHasher	hasher;			/* only its secret is used */
	uint64_t	keys;			/* inserted less deleted */
	uint8_t    *bytes;
	size_t		size;			/* of bytes */
	uint8_t    *cells;
	uint32_t	ncells;			/* 0 in an untyped template */
	unsigned	cell_bits;
} IbltKbf;

/* Bytes of a filter with these parameters, which are possible: less than 673 MB. */
extern size_t iblt_core_kbf_size(const IbltKbfParams *params);

/* Are these parameters possible?  The first that is not, or IBLT_OK. */
extern IbltStatus iblt_core_kbf_check_params(const IbltKbfParams *params);

/*
 * Creates an empty filter in bytes, which has iblt_core_kbf_size(params) of
 * them.  params must have passed iblt_core_kbf_check_params.
 */
extern void iblt_core_kbf_init(IbltKbf *kbf, const IbltKbfParams *params,
							   uint8_t *bytes);

/*
 * The one validator.  Opens a view of bytes from anywhere, or says what is
 * wrong with them, and then the view must not be used.  Only reads the bytes.
 *
 * It checks all that can be checked in one pass over the cells.  An empty or
 * full cell has content 0, and a cell of one pair has a code.  In
 * a subtable without full cells the counters add up to the number of keys, and
 * the contents to the same sum as in any other such subtable.
 */
extern IbltStatus iblt_core_kbf_open(IbltKbf *kbf, uint8_t *bytes,
									 size_t size);

/*
 * Opens the header of a value of `total` bytes, of which the first `size` are
 * here.  Neither cells nor checksum are read or checked.  The view is only for
 * iblt_kbf_place (kbf_cell.h) and iblt_kbf_cell_offset.
 *
 * IBLT_BAD_SIZE means that total does not match the header, or that size is
 * below iblt_core_kbf_header_size.
 */
extern IbltStatus iblt_core_kbf_open_header(IbltKbf *kbf, uint8_t *bytes,
											size_t size, size_t total);

/* Bytes of a header without description and labels. */
#define IBLT_KBF_HEADER_SIZE	40

/*
 * Bytes before the cells, from the first IBLT_KBF_HEADER_SIZE ones.  The caller
 * that fetches a header in two steps must limit it by what is there.
 */
extern size_t iblt_core_kbf_header_size(const uint8_t *bytes);

/* Writes the number of keys and the checksum, after a change. */
extern void iblt_core_kbf_seal(IbltKbf *kbf);

/*
 * The first parameter that prevents adding the two, or IBLT_OK.  One without a
 * type of key goes with any.  The labels of one may be the first of the other's,
 * because codes depend on the degree and not on the number of values.
 */
extern IbltStatus iblt_core_kbf_compatible(const IbltKbfParams *a,
										   const IbltKbfParams *b);

/* Are the labels of one the first of the other's, or have both none? */
extern bool iblt_core_kbf_labels_go(const IbltKbfParams *a,
									const IbltKbfParams *b);

/*
 * Gives params the labels of `other`, if it has more, and its type of key, if
 * there is none.  Both must be compatible.  False if nothing changed.
 */
extern bool iblt_core_kbf_widen(IbltKbfParams *params,
								const IbltKbfParams *other);

/*
 * Where the label of a value begins, and its bytes.  There must be labels, and
 * value must be one of 1 to params->values.
 */
extern const uint8_t *iblt_core_kbf_label(const IbltKbfParams *params,
										  unsigned value, size_t *size);

/* The value with this label, or 0. */
extern unsigned iblt_core_kbf_labelled(const IbltKbfParams *params,
									   const uint8_t *label, size_t size);

/*
 * A cell is a word of cell_bits bits, the counter in its lowest four and the
 * content above.  Cell i begins at bit i * cell_bits.  It is read and written
 * within eight bytes, and after the last cell come the eight of the checksum.
 */
static inline unsigned
iblt_kbf_count(uint64_t cell)
{
	return (unsigned) cell & IBLT_KBF_FULL;
}

static inline uint64_t
iblt_kbf_content(uint64_t cell)
{
	return cell >> IBLT_KBF_COUNTER_BITS;
}

static inline uint64_t
iblt_kbf_make_cell(unsigned count, uint64_t content)
{
	return content << IBLT_KBF_COUNTER_BITS | count;
}

/* Reads the cell from the eight bytes that iblt_kbf_cell_offset tells. */
static inline uint64_t
iblt_kbf_extract(const IbltKbf *kbf, uint32_t i, const uint8_t *word)
{
	return iblt_load64(word) >> ((uint64_t) i * kbf->cell_bits & 7) &
		((UINT64_C(1) << kbf->cell_bits) - 1);
}

/* Where, in the bytes of the value, the eight bytes begin that have cell i. */
static inline size_t
iblt_kbf_cell_offset(const IbltKbf *kbf, uint32_t i)
{
	return (size_t) (kbf->cells - kbf->bytes) +
		(size_t) ((uint64_t) i * kbf->cell_bits >> 3);
}

static inline uint64_t
iblt_kbf_cell(const IbltKbf *kbf, uint32_t i)
{
	return iblt_kbf_extract(kbf, i, kbf->bytes + iblt_kbf_cell_offset(kbf, i));
}

static inline void
iblt_kbf_set_cell(const IbltKbf *kbf, uint32_t i, uint64_t cell)
{
	uint8_t    *word = kbf->bytes + iblt_kbf_cell_offset(kbf, i);
	unsigned	shift = (unsigned) ((uint64_t) i * kbf->cell_bits & 7);
	uint64_t	mask = ((UINT64_C(1) << kbf->cell_bits) - 1) << shift;

	iblt_store64(word, (iblt_load64(word) & ~mask) | cell << shift);
}

#endif
