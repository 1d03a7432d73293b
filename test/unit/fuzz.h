/*
 * fuzz.h
 *		What the fuzzers share: how an input is opened, and how it is mutated.
 *
 * Every input goes to the validator as it is, and once more with the checksum
 * that it ought to have, which a fuzzer would never guess.  The mutator starts
 * from honest values and mostly keeps their length, for otherwise nearly every
 * input would fall at the first hurdle.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include "sketch.h"
#include "tap.h"

#define DEMAND(condition) \
	do { \
		if (!(condition)) \
			abort(); \
	} while (0)

/* Opens bytes, which it may change but not keep, and uses what it opened. */
typedef void FuzzUse(uint8_t *bytes, size_t size);

/* Makes a valid value of a shape that seed chooses; its size, 0 if it does not fit. */
typedef size_t FuzzHonest(uint8_t *bytes, size_t max_size, unsigned int seed);

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
extern size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
									  size_t max_size, unsigned int seed);
extern size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

static inline uint8_t *
fuzz_duplicate(const uint8_t *bytes, size_t size)
{
	return size > 0 ? memcpy(take(size), bytes, size) : take(size);
}

static inline int
fuzz_input(const uint8_t *data, size_t size, FuzzUse *use)
{
	uint8_t    *bytes = fuzz_duplicate(data, size);

	use(bytes, size);
	if (size >= 8)
	{
		iblt_store64(bytes + size - 8, XXH3_64bits(bytes, size - 8));
		use(bytes, size);
	}
	forget(0);
	return 0;
}

/* smallest is the size of the smallest value, header that of its header. */
static inline size_t
fuzz_mutate(uint8_t *data, size_t size, size_t max_size, unsigned int seed,
			size_t smallest, size_t header, FuzzHonest *honest)
{
	size_t		made = 0;
	size_t		begin;
	size_t		length;

	if (size < smallest || seed % 64 == 0)
		made = honest(data, max_size, seed / 64);
	if (made > 0)
		return made;
	if (size <= header || seed % 8 == 1)
		return LLVMFuzzerMutate(data, size, max_size);

	/* a part of the header or of the cells, in place */
	begin = seed / 8 % (seed % 8 < 3 ? header : size);
	length = 1 + seed / 4096 % 64;
	if (begin + length > size)
		length = size - begin;
	(void) LLVMFuzzerMutate(data + begin, length, length);
	return size;
}

/*
 * What libFuzzer calls, in a file that has open_and_use(), honest() and LARGEST_INPUT.  No
 * value has fewer bytes than "least".
 */
#define FUZZ_TARGET(least, header_size) \
	int \
	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) \
	{ \
		return size > LARGEST_INPUT ? 0 : fuzz_input(data, size, open_and_use); \
	} \
	size_t \
	LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed) \
	{ \
		return fuzz_mutate(data, size, max_size, seed, least, header_size, honest); \
	}

#endif							/* FUZZ_H */
