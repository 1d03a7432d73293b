/*
 * tap.h
 *		The least that a unit test needs: TAP output and repeatable randomness.
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
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define TAP_DEFAULT_SEED UINT64_C(20110926)

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

#endif							/* IBLT_TEST_TAP_H */
