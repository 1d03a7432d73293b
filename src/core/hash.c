/*
 * hash.c
 *		What a sketch's seed expands to.
 */
#include "hash.h"

void
iblt_core_hasher_init(IbltHasher *hasher, uint64_t seed)
{
	uint8_t stream[IBLT_KEYSTREAM_SIZE];
	const uint8_t *words = stream + IBLT_SECRET_SIZE;

	iblt_core_keystream(stream, "iblt key", seed);
	memcpy(hasher->secret, stream, IBLT_SECRET_SIZE);
	hasher->weight_seed = iblt_load64(words);
	hasher->value_mask = iblt_load64(words + 8);
	hasher->key_mask = iblt_load64(words + 16);
}
