/*
 * row.c
 *		Rows into plain sketches, as fast as the processor can.
 *
 * With AVX2 the first four field elements of a cell are added together, in the
 * lanes of one register.  That takes half the instructions, and a sixth of the
 * time of a row with an integer key.  Such a row has three elements.  The
 * fourth lane adds zero to the eight bytes after the cell, which belong to the
 * next cell or, after the last cell, to the checksum.
 */
#include "row.h"

/* Elements of a cell in a plain sketch, and its size. */
#define PLAIN_FIELDS(limbs)		((limbs) + 2)
#define PLAIN_CELL_SIZE(limbs)	(4 + 8 * (size_t) PLAIN_FIELDS(limbs))

/*
 * Adds a row at once, or removes it.  sign, limbs and cell_add are constants,
 * inlined.
 */
IBLT_INLINE IbltStatus
plain_add(IbltSketch *sketch, const uint8_t *key, uint64_t y, int sign,
		  unsigned limbs, IbltCellAdd cell_add)
{
	uint64_t terms[PLAIN_FIELDS(IBLT_QUEUE_LIMBS)];
	uint32_t position[4];
	IbltStatus status = iblt_row_take(sketch, key, y, sign, limbs, 4, position, terms);

	if (limbs == 1)
		terms[3] = 0;
	if (status == IBLT_OK)
		iblt_row_put(sketch, position, terms, sign, PLAIN_FIELDS(limbs), 4, true, cell_add);
	return status;
}

/* The same through the queue: adds the oldest row, and takes this one. */
IBLT_INLINE IbltStatus
plain_queue(IbltQueue *queue, IbltSketch *sketch, const uint8_t *key,
			uint64_t y, int sign, unsigned limbs, IbltCellAdd cell_add)
{
	unsigned next = queue->next;
	uint32_t *position = queue->slot[next].position;
	uint64_t *terms = queue->slot[next].terms;
	IbltStatus status;
	int i;

	if (terms[IBLT_FIELD_WEIGHT] != 0)
		iblt_row_put(sketch, position, terms, queue->slot[next].sign,
					 PLAIN_FIELDS(limbs), 4, true, cell_add);
	status = iblt_row_take(sketch, key, y, sign, limbs, 4, position, terms);
	if (status != IBLT_OK)
	{
		terms[IBLT_FIELD_WEIGHT] = 0;
		return status;
	}
	queue->slot[next].sign = sign;
	IBLT_UNROLL
	for (i = 0; i < 4; i++)
	{
		const uint8_t *cell = sketch->cells + PLAIN_CELL_SIZE(limbs) *
			((size_t) i * sketch->params.subtable_cells + position[i]);

		/* it may lie on two cache lines */
		__builtin_prefetch(cell, 1);
		__builtin_prefetch(cell + PLAIN_CELL_SIZE(limbs) - 1, 1);
	}
	queue->next = (next + 1) % IBLT_QUEUE_ROWS;
	return IBLT_OK;
}

void
iblt_core_queue_flush(IbltQueue *queue, IbltSketch *sketch)
{
	int i;

	for (i = 0; i < IBLT_QUEUE_ROWS; i++)
	{
		uint64_t *terms = queue->slot[i].terms;

		if (terms[IBLT_FIELD_WEIGHT] != 0)
			iblt_row_put(sketch, queue->slot[i].position, terms,
						 queue->slot[i].sign, sketch->fields, 4, true,
						 iblt_cell_add);
		terms[IBLT_FIELD_WEIGHT] = 0;
	}
}

/*
 * Both ways for keys of this many limbs, by one way to add to a cell.  The two
 * signs are compiled apart.
 */
#define ADDER(way, limbs, target, cell_add) \
	target static IbltStatus \
	add_##way##_##limbs(IbltSketch *sketch, const uint8_t *key, uint64_t y, \
						int sign) \
	{ \
		return sign > 0 ? plain_add(sketch, key, y, 1, limbs, cell_add) \
			: plain_add(sketch, key, y, -1, limbs, cell_add); \
	} \
	target static IbltStatus \
	queue_##way##_##limbs(IbltQueue *queue, IbltSketch *sketch, \
						  const uint8_t *key, uint64_t y, int sign) \
	{ \
		return sign > 0 ? plain_queue(queue, sketch, key, y, 1, limbs, cell_add) \
			: plain_queue(queue, sketch, key, y, -1, limbs, cell_add); \
	}

#define ADDER_OF(way, limbs)	{add_##way##_##limbs, queue_##way##_##limbs}

#define ADDERS(way, target, cell_add) \
	ADDER(way, 1, target, cell_add) \
	ADDER(way, 2, target, cell_add) \
	ADDER(way, 3, target, cell_add) \
	ADDER(way, 4, target, cell_add) \
	static const IbltRowAdder adders_##way[IBLT_QUEUE_LIMBS] = { \
		ADDER_OF(way, 1), ADDER_OF(way, 2), ADDER_OF(way, 3), ADDER_OF(way, 4) \
	};

ADDERS(portable, , iblt_cell_add)

#if defined(__x86_64__)
#define IBLT_HAS_AVX2
#include <immintrin.h>

/*
 * Lazy sums as in fp_add_lazy.  The sign bits turn signed into unsigned order.
 */
__attribute__((target("avx2"))) IBLT_INLINE void
cell_add_avx2(uint8_t *cell, uint32_t count, const uint64_t *terms,
			  unsigned fields)
{
	const __m256i sign = _mm256_set1_epi64x(INT64_MIN);
	const __m256i fold = _mm256_set1_epi64x((int64_t) IBLT_FP_FOLD);
	__m256i term = _mm256_loadu_si256((const __m256i *) terms);
	__m256i sum = _mm256_loadu_si256((const __m256i *) (cell + 4));
	__m256i carry;
	unsigned f;

	sum = _mm256_add_epi64(sum, term);
	carry = _mm256_cmpgt_epi64(_mm256_xor_si256(term, sign),
							   _mm256_xor_si256(sum, sign));
	sum = _mm256_add_epi64(sum, _mm256_and_si256(carry, fold));
	_mm256_storeu_si256((__m256i *) (cell + 4), sum);
	iblt_store32(cell, iblt_load32(cell) + count);
	IBLT_UNROLL
	for (f = 4; f < fields; f++)
		iblt_cell_set_field(cell, f,
							fp_add_lazy(iblt_cell_field(cell, f), terms[f]));
}

ADDERS(avx2, __attribute__((target("avx2"))), cell_add_avx2)
#endif

const IbltRowAdder *
iblt_core_row_adder_portable(const IbltParams *params)
{
	if (!iblt_core_is_plain(params))
		return NULL;
	return &adders_portable[params->key.limbs - 1];
}

const IbltRowAdder *
iblt_core_row_adder(const IbltParams *params)
{
#ifdef IBLT_HAS_AVX2
	if (iblt_core_is_plain(params) && __builtin_cpu_supports("avx2"))
		return &adders_avx2[params->key.limbs - 1];
#endif
	return iblt_core_row_adder_portable(params);
}
