/*
 * fuzz_strata.c
 *		libFuzzer target: bytes from anywhere, opened as a strata estimator and
 *		estimated.
 *
 * What opens is estimated, negated, subtracted from itself and sealed.  The
 * sanitizers watch; and an estimate must end within its bound, never be 0 for
 * what is not empty, and be turned by no sign.
 */
#include "fuzz.h"
#include "strata.h"

/* Scratch beyond this is the tester's time, not the core's. */
#define LARGEST_INPUT	(1 << 18)

#define HEADER_SIZE		32

static IbltPeelResult
estimate(const IbltStrata *strata, uint64_t *keys)
{
	static IbltStrata copy;
	static IbltStrataDecoder decoder;
	void	   *scratch = malloc(iblt_core_strata_scratch_size(strata) + 1);
	uint64_t	steps = 0;
	IbltPeelResult result;

	DEMAND(scratch != NULL);
	iblt_core_strata_view_copy(&copy, strata,
							   fuzz_duplicate(strata->all.bytes, strata->all.size));
	iblt_core_strata_decode_start(&decoder, &copy, scratch);
	while (iblt_core_strata_decode_step(&decoder))
		DEMAND(++steps <= copy.all.ncells + (uint64_t) copy.params.strata);
	result = iblt_core_strata_result(&decoder, keys);
	free(copy.all.bytes);
	free(scratch);
	return result;
}

/* An estimator and its negative have the same keys. */
static void
judge(const IbltStrata *strata, const IbltStrata *negative)
{
	uint64_t	keys;
	uint64_t	keys_negative;
	IbltPeelResult result = estimate(strata, &keys);

	DEMAND(keys <= INT64_MAX);
	if (result == IBLT_PEEL_COMPLETE && keys == 0)
		DEMAND(iblt_core_strata_is_empty(strata));
	if (iblt_core_strata_is_empty(strata))
		DEMAND(result == IBLT_PEEL_COMPLETE && keys == 0);
	DEMAND(estimate(negative, &keys_negative) == result || keys != 0);
}

/* What opened must be closed under the algebra: -(-a) is a, a - a is empty. */
static void
combine(const IbltStrata *strata)
{
	static IbltStrata copy;

	iblt_core_strata_view_copy(&copy, strata,
							   fuzz_duplicate(strata->all.bytes, strata->all.size));
	if (iblt_core_strata_negate(&copy) == IBLT_COUNT_OVERFLOW)
	{
		free(copy.all.bytes);
		return;
	}
	iblt_core_strata_seal(&copy);
	judge(strata, &copy);
	DEMAND(iblt_core_strata_negate(&copy) == IBLT_OK);
	iblt_core_strata_seal(&copy);
	DEMAND(memcmp(copy.all.bytes, strata->all.bytes, strata->all.size) == 0);
	DEMAND(iblt_core_strata_add(&copy, strata, -1) == IBLT_OK);
	iblt_core_strata_seal(&copy);
	DEMAND(iblt_core_strata_is_empty(&copy));
	free(copy.all.bytes);
}

static void
open_and_use(uint8_t *bytes, size_t size)
{
	static IbltStrata strata;
	IbltStatus	status = iblt_core_strata_open(&strata, bytes, size);

	DEMAND(iblt_core_strata_status_text(status) != NULL);
	if (status != IBLT_OK)
		return;
	DEMAND(strata.all.size == size);
	DEMAND(iblt_core_strata_compatible(&strata.params, &strata.params) ==
		   IBLT_OK);
	combine(&strata);
}

/* An honest estimator of a few rows, of a shape that seed chooses; its size. */
static size_t
honest(uint8_t *bytes, size_t max_size, unsigned int seed)
{
	static IbltStrata strata;
	IbltStrataParams params;
	IbltParams *table = &params.table;
	unsigned	i;

	memset(&params, 0, sizeof params);
	table->kind = (IbltKeyKind) (seed % 4);
	table->limbs = table->kind == IBLT_KEY_UUID ? 2 : 1;
	table->hashes = 3 + (int) (seed / 4 % 6);
	table->subtables = (1u << table->hashes) - 1;
	table->subtable_cells = 1 + seed / 32 % 4;
	table->seed = seed;
	table->description = (const uint8_t *) "text";
	table->description_size = table->kind == IBLT_KEY_CANONICAL ? 4 : 0;
	params.strata = 1 + (int) (seed / 128 % 8);
	if (iblt_core_strata_size(&params) > max_size)
		return 0;
	iblt_core_strata_init(&strata, &params, bytes);
	for (i = 0; table->kind != IBLT_KEY_UNTYPED && i < seed / 1024 % 32; i++)
	{
		uint8_t		key[8];

		iblt_store64(key, i / 2);
		iblt_core_strata_add_row(&strata, key, sizeof key, i,
								 i % 3 == 0 ? -1 : 1);
	}
	iblt_core_strata_seal(&strata);
	return strata.all.size;
}

FUZZ_TARGET(HEADER_SIZE + 8, HEADER_SIZE)
