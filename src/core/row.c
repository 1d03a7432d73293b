/*
 * row.c
 *		Rows with integer keys, as fast as the processor can.
 *
 * With AVX2 the three field elements of a cell are added together, in the four
 * lanes of one register: half the instructions, a sixth of the time of a row.
 * The fourth lane adds zero to the eight bytes behind the cell, which are the
 * next cell's or, behind the last cell, the checksum's.
 */
#include "row.h"

/* A cell of a plain sketch of integer keys. */
#define INTEGER_CELL_SIZE	28

/* A row with an integer key at once; cell_add is a constant, inlined. */
IBLT_INLINE IbltStatus
integer_add(IbltSketch *sketch, uint64_t integer, uint64_t y,
			IbltCellAdd cell_add)
{
	uint8_t key[8];
	uint64_t terms[4];

	iblt_store64(key, integer);
	terms[3] = 0;
	return iblt_row_add(sketch, key, y, 1, 1, 4, true, false, terms, cell_add);
}

/* Begins to fetch a cell of a plain sketch, which may lie on two cache lines. */
IBLT_INLINE void
cell_fetch(const IbltSketch *sketch, int subtable, uint32_t position)
{
#if defined(__GNUC__)
	const uint8_t *cell = iblt_cell(sketch, (uint32_t) subtable *
									sketch->params.subtable_cells + position);

	__builtin_prefetch(cell, 1);
	__builtin_prefetch(cell + INTEGER_CELL_SIZE - 1, 1);
#else
	(void) sketch;
	(void) subtable;
	(void) position;
#endif
}

/* The same by way of the queue: puts the oldest row, takes this one. */
IBLT_INLINE IbltStatus
integer_queue(IbltQueue *queue, IbltSketch *sketch, uint64_t integer,
			  uint64_t y, IbltCellAdd cell_add)
{
	unsigned next = queue->next;
	uint32_t *position = queue->slot[next].position;
	uint64_t *terms = queue->slot[next].terms;
	uint8_t key[8];
	IbltStatus status;
	int i;

	if (terms[IBLT_FIELD_WEIGHT] != 0)
		iblt_row_put(sketch, position, terms, 1, 3, 4, true, cell_add);
	iblt_store64(key, integer);
	status = iblt_row_take(sketch, key, y, 1, 1, 4, false, position, terms);
	if (status != IBLT_OK)
	{
		terms[IBLT_FIELD_WEIGHT] = 0;
		return status;
	}
	IBLT_UNROLL
	for (i = 0; i < 4; i++)
		cell_fetch(sketch, i, position[i]);
	queue->next = (next + 1) % IBLT_QUEUE_ROWS;
	return IBLT_OK;
}

static IbltStatus
add_portable(IbltSketch *sketch, uint64_t integer, uint64_t y)
{
	return integer_add(sketch, integer, y, iblt_cell_add);
}

static IbltStatus
queue_portable(IbltQueue *queue, IbltSketch *sketch, uint64_t integer,
			   uint64_t y)
{
	return integer_queue(queue, sketch, integer, y, iblt_cell_add);
}

const IbltIntegerAdder iblt_core_integer_adder_portable = {
	add_portable, queue_portable
};

void
iblt_core_queue_flush(IbltQueue *queue, IbltSketch *sketch)
{
	int i;

	for (i = 0; i < IBLT_QUEUE_ROWS; i++)
	{
		uint64_t *terms = queue->slot[i].terms;

		if (terms[IBLT_FIELD_WEIGHT] != 0)
			iblt_row_put(sketch, queue->slot[i].position, terms, 1, 3, 4, true,
						 iblt_cell_add);
		terms[IBLT_FIELD_WEIGHT] = 0;
	}
}

#if defined(__GNUC__) && defined(__x86_64__)
#define IBLT_HAS_AVX2
#include <immintrin.h>

/* Lazy sums as in fp_add_lazy; the sign bits turn signed into unsigned order. */
__attribute__((target("avx2"))) IBLT_INLINE void
cell_add_avx2(uint8_t *cell, uint32_t count, const uint64_t *terms,
			  unsigned fields)
{
	const __m256i sign = _mm256_set1_epi64x(INT64_MIN);
	const __m256i fold = _mm256_set1_epi64x((int64_t) IBLT_FP_FOLD);
	__m256i term = _mm256_loadu_si256((const __m256i *) terms);
	__m256i sum = _mm256_loadu_si256((const __m256i *) (cell + 4));
	__m256i carry;

	(void) fields;
	sum = _mm256_add_epi64(sum, term);
	carry = _mm256_cmpgt_epi64(_mm256_xor_si256(term, sign),
							   _mm256_xor_si256(sum, sign));
	sum = _mm256_add_epi64(sum, _mm256_and_si256(carry, fold));
	_mm256_storeu_si256((__m256i *) (cell + 4), sum);
	iblt_store32(cell, iblt_load32(cell) + count);
}

__attribute__((target("avx2"))) static IbltStatus
add_avx2(IbltSketch *sketch, uint64_t integer, uint64_t y)
{
	return integer_add(sketch, integer, y, cell_add_avx2);
}

__attribute__((target("avx2"))) static IbltStatus
queue_avx2(IbltQueue *queue, IbltSketch *sketch, uint64_t integer, uint64_t y)
{
	return integer_queue(queue, sketch, integer, y, cell_add_avx2);
}

static const IbltIntegerAdder adder_avx2 = {add_avx2, queue_avx2};
#endif

const IbltIntegerAdder *
iblt_core_integer_adder(void)
{
#ifdef IBLT_HAS_AVX2
	if (__builtin_cpu_supports("avx2"))
		return &adder_avx2;
#endif
	return &iblt_core_integer_adder_portable;
}
