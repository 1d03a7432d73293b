/*
 * tap.h
 *		The least that a unit test needs: TAP output, repeatable randomness, and memory.
 *
 * A test program calls tap_ok() once for each thing it checks and returns
 * tap_done() from main(), which prints the plan.  Random tests draw from
 * tap_random(); its seed is printed when it is first used and is taken back
 * from the environment variable IBLT_TEST_SEED, so that any run can be
 * repeated.
 *
 * Everything is static and lives in the including file: include it once in a
 * program.
 */
#ifndef IBLT_TEST_TAP_H
#define IBLT_TEST_TAP_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAP_DEFAULT_SEED UINT64_C(20110926)

#define LENGTH(array) ((int) (sizeof(array) / sizeof *(array)))

#if defined(__GNUC__)
#define TAP_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define TAP_PRINTF(f, a)
#endif

static int	tap_tests = 0;
static int	tap_failures = 0;
static int	tap_seeded = 0;
static uint64_t tap_first_seed;
static uint64_t tap_state;

/*
 * One test: prints "ok N - description" or "not ok N - description".
 */
static inline void TAP_PRINTF(2, 3)
tap_ok(int pass, const char *fmt, ...)
{
	va_list		ap;

	tap_tests++;
	if (!pass)
		tap_failures++;
	printf("%sok %d - ", pass ? "" : "not ", tap_tests);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout);
}

/* Ends the program: what it would test cannot be made. */
static inline void TAP_PRINTF(1, 2)
tap_bail(const char *fmt, ...)
{
	va_list		ap;

	printf("Bail out! ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	exit(1);
}

/*
 * Print the plan.  Returns the program's exit status: 0 when at least one
 * test ran and none failed.
 */
static inline int
tap_done(void)
{
	printf("1..%d\n", tap_tests);
	if (tap_failures > 0)
		printf("# %d of %d tests failed\n", tap_failures, tap_tests);
	fflush(stdout);
	return tap_tests > 0 && tap_failures == 0 ? 0 : 1;
}

/*
 * The seed of this run: IBLT_TEST_SEED (decimal, or hexadecimal after 0x), or
 * a fixed default.  The first call prints it as "# seed N" and seeds
 * tap_random().
 */
static inline uint64_t
tap_seed(void)
{
	if (!tap_seeded)
	{
		const char *text = getenv("IBLT_TEST_SEED");

		tap_first_seed = text != NULL && *text != '\0'
			? (uint64_t) strtoull(text, NULL, 0) : TAP_DEFAULT_SEED;
		tap_state = tap_first_seed;
		tap_seeded = 1;
		printf("# seed %" PRIu64 "\n", tap_first_seed);
		fflush(stdout);
	}
	return tap_first_seed;
}

/*
 * The next 64 random bits (splitmix64).  Calls tap_seed() if nobody has.
 */
static inline uint64_t
tap_random(void)
{
	uint64_t	z;

	(void) tap_seed();
	z = (tap_state += UINT64_C(0x9e3779b97f4a7c15));
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* --- observations within a test --------------------------------------------- */

#define TAP_NOTES 5 /* diagnoses printed for one test */

static long tap_wrong = 0;

/* One observation.  The first few that fail are printed. */
#define check(condition, ...) ((condition) ? true : tap_wrongly(__LINE__, #condition, __VA_ARGS__))

static inline bool TAP_PRINTF(3, 4)
tap_wrongly(int line, const char *condition, const char *fmt, ...)
{
	va_list		ap;

	if (++tap_wrong > TAP_NOTES)
		return false;
	printf("# seed %" PRIu64 ", line %d: %s fails: ", tap_seed(), line, condition);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	return false;
}

/* --- memory -------------------------------------------------------------------- */

static void **tap_blocks;
static size_t tap_taken;

/* Memory of its own exact size, so that sanitizers see any access beyond it.  It is not zero. */
static inline void *
take(size_t size)
{
	void	   *memory = malloc(size > 0 ? size : 1);

	if ((tap_taken & (tap_taken + 1)) == 0)
		tap_blocks = realloc(tap_blocks, 2 * (tap_taken + 1) * sizeof *tap_blocks);
	if (memory == NULL || tap_blocks == NULL)
		tap_bail("out of memory");
	tap_blocks[tap_taken++] = memory;
	return memset(memory, 0xa5, size);
}

static inline void *
take_zeros(size_t size)
{
	return memset(take(size), 0, size);
}

/* Gives back what was taken since so many blocks were. */
static inline void
forget(size_t taken)
{
	while (tap_taken > taken)
		free(tap_blocks[--tap_taken]);
}

/* Repeats what follows, and gives back the memory that each round has taken. */
#define TRIALS(i, n) \
	for (long i = 0, i##_n = (long) (n), i##_taken = (long) tap_taken; i < i##_n; \
		 forget((size_t) i##_taken), i++)

/* Ends a test: it holds if no observation since the last one failed. */
static inline void
checked(const char *what)
{
	tap_ok(tap_wrong == 0, "%s", what);
	if (tap_wrong > TAP_NOTES)
		printf("# %ld observations failed\n", tap_wrong);
	tap_wrong = 0;
}

/* The program of these tests. */
#define TAP_MAIN(...) \
	int \
	main(void) \
	{ \
		void		(*const tests[]) (void) = {__VA_ARGS__}; \
		(void) tap_seed(); \
		for (int i = 0; i < LENGTH(tests); i++) \
			tests[i](); \
		return tap_done(); \
	}

#endif							/* IBLT_TEST_TAP_H */
