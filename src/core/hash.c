/*
 * hash.c
 *		A seed expanded to the secret of XXH3, by ChaCha20 (RFC 8439).
 */
#include "hash.h"

static inline uint32_t
rotate(uint32_t x, int n)
{
	return x << n | x >> (32 - n);
}

/* With constant positions, inline, x stays in registers: twice as fast. */
static inline void
quarter_round(uint32_t *x, int a, int b, int c, int d)
{
	x[a] += x[b];
	x[d] = rotate(x[d] ^ x[a], 16);
	x[c] += x[d];
	x[b] = rotate(x[b] ^ x[c], 12);
	x[a] += x[b];
	x[d] = rotate(x[d] ^ x[a], 8);
	x[c] += x[d];
	x[b] = rotate(x[b] ^ x[c], 7);
}

/*
 * The key is the seed and zeros, the nonce is the label and zeros, and blocks
 * are counted from 0.
 */
void
iblt_core_keystream(uint8_t *stream, const char *label, uint64_t seed)
{
	uint32_t state[16] = { 0x61707865, 0x3320646e, 0x79622d32, 0x6b206574 };
	uint8_t nonce[12] = { 0 };
	uint32_t x[16];
	int round;
	int i;

	for (i = 0; i < 12 && label[i] != '\0'; i++)
		nonce[i] = (uint8_t) label[i];
	state[4] = (uint32_t) seed;
	state[5] = (uint32_t) (seed >> 32);
	for (i = 0; i < 3; i++)
		state[13 + i] = iblt_load32(nonce + 4 * i);
	for (; state[12] < IBLT_KEYSTREAM_SIZE / 64; state[12]++)
	{
		memcpy(x, state, sizeof x);
		/* the columns and the diagonals */
		for (round = 0; round < 10; round++)
		{
			quarter_round(x, 0, 4, 8, 12);
			quarter_round(x, 1, 5, 9, 13);
			quarter_round(x, 2, 6, 10, 14);
			quarter_round(x, 3, 7, 11, 15);
			quarter_round(x, 0, 5, 10, 15);
			quarter_round(x, 1, 6, 11, 12);
			quarter_round(x, 2, 7, 8, 13);
			quarter_round(x, 3, 4, 9, 14);
		}
		for (i = 0; i < 16; i++, stream += 4)
			iblt_store32(stream, x[i] + state[i]);
	}
}

void
iblt_core_secret(uint8_t *secret, const char *label, uint64_t seed)
{
	uint8_t stream[IBLT_KEYSTREAM_SIZE];

	iblt_core_keystream(stream, label, seed);
	memcpy(secret, stream, IBLT_SECRET_SIZE);
}

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
