/* Throttle: how long each restart waits, and what happens beyond the limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/units.h"
#include "master/throttle.h"

#define MIDDLE UINT32_C(0x80000000)

/* A limit that nothing here reaches, and that of the defaults. */
static const struct throttle_limits roomy = {.limit = 100, .interval_ns = 3600 * NS_PER_S};
static const struct throttle_limits usual = {.limit = 10, .interval_ns = 60 * NS_PER_S};

static uint64_t delay_after(struct throttle *throttle, uint64_t now_ns, uint64_t lived_ns,
			    uint32_t random)
{
	struct throttle_verdict verdict = throttle_next(throttle, &roomy, now_ns, lived_ns, random);

	assert_false(verdict.degraded);
	return verdict.delay_ns;
}

/* Within the step of the chance, which is a 65535th of half of the delay. */
static void assert_about(uint64_t found_ns, uint64_t expected_ns)
{
	assert_in_range(found_ns, expected_ns - expected_ns / 65536,
			expected_ns + expected_ns / 65536);
}

static void test_first_is_immediate(void **state)
{
	static const struct {
		uint64_t lived_ns, delay_ns;
	} rows[] = {
		{0, 100 * NS_PER_MS},
		{1, 100 * NS_PER_MS - 1},
		{30 * NS_PER_MS, 70 * NS_PER_MS},
		{100 * NS_PER_MS - 1, 1},
		{100 * NS_PER_MS, 0},
		{NS_PER_S, 0},
		{3600 * NS_PER_S, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct throttle throttle = {0};

		/* Chance has no part in it. */
		assert_int_equal(delay_after(&throttle, NS_PER_S, rows[i].lived_ns,
					     (uint32_t)(i * 0x20000000)),
				 rows[i].delay_ns);
	}
}

static const uint64_t backoff_ms[] = {0,    100,  200,   400,   800,   1600,
				      3200, 6400, 10000, 10000, 10000, 10000};

static void test_backoff_doubles(void **state)
{
	struct throttle low = {0}, middle = {0}, high = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(backoff_ms) / sizeof(backoff_ms[0]); i++) {
		uint64_t ns = backoff_ms[i] * NS_PER_MS, now_ns = (i + 1) * 20 * NS_PER_S;

		assert_about(delay_after(&middle, now_ns, NS_PER_S, MIDDLE), ns);
		assert_int_equal(delay_after(&low, now_ns, NS_PER_S, 0), ns - ns / 4);
		assert_int_equal(delay_after(&high, now_ns, NS_PER_S, UINT32_MAX), ns + ns / 4);
	}
}

static void test_backoff_stays_at_its_end(void **state)
{
	const struct throttle_limits none = {.limit = 1000, .interval_ns = 100000 * NS_PER_S};
	struct throttle throttle = {0};
	struct throttle_verdict verdict = {0};

	(void)state;
	for (uint64_t i = 1; i <= 200; i++)
		verdict = throttle_next(&throttle, &none, i * 20 * NS_PER_S, 0, MIDDLE);
	assert_about(verdict.delay_ns, 10 * NS_PER_S);
	assert_false(verdict.degraded);
}

/* Who allows many restarts gets them, but never quicker than one in 100 ms. */
static void test_backoff_keeps_to_the_pace_of_the_limit(void **state)
{
	static const struct {
		struct throttle_limits limits;
		uint64_t last_ms;
	} rows[] = {
		{{.limit = 10, .interval_ns = 60 * NS_PER_S}, 6000},
		{{.limit = 100, .interval_ns = 60 * NS_PER_S}, 600},
		{{.limit = 1000, .interval_ns = 60 * NS_PER_S}, 100},
		{{.limit = 1, .interval_ns = 3600 * NS_PER_S}, 10000},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct throttle throttle = {.level = 20};
		struct throttle_verdict verdict = throttle_next(&throttle, &rows[i].limits,
								NS_PER_S, NS_PER_S, MIDDLE);

		assert_about(verdict.delay_ns, rows[i].last_ms * NS_PER_MS);
	}
}

/* However little chance would wait, two starts are 100 ms apart. */
static void test_gap(void **state)
{
	struct throttle throttle = {0};

	(void)state;
	(void)delay_after(&throttle, NS_PER_S, NS_PER_S, 0);
	assert_int_equal(delay_after(&throttle, 2 * NS_PER_S, 0, 0), 100 * NS_PER_MS);

	throttle = (struct throttle){0};
	(void)delay_after(&throttle, NS_PER_S, NS_PER_S, 0);
	assert_int_equal(delay_after(&throttle, 2 * NS_PER_S, 10 * NS_PER_MS, 0), 90 * NS_PER_MS);

	throttle = (struct throttle){0};
	(void)delay_after(&throttle, NS_PER_S, NS_PER_S, 0);
	assert_int_equal(delay_after(&throttle, 2 * NS_PER_S, 50 * NS_PER_MS, 0), 75 * NS_PER_MS);
}

static void test_a_long_life_is_forgiven(void **state)
{
	struct throttle throttle = {0};

	(void)state;
	for (uint64_t i = 1; i <= 5; i++)
		(void)delay_after(&throttle, i * NS_PER_S, NS_PER_S, MIDDLE);
	assert_about(delay_after(&throttle, 20 * NS_PER_S, 10 * NS_PER_S - 1, MIDDLE),
		     1600 * NS_PER_MS);
	assert_int_equal(delay_after(&throttle, 40 * NS_PER_S, 10 * NS_PER_S, MIDDLE), 0);
	assert_about(delay_after(&throttle, 41 * NS_PER_S, NS_PER_S, MIDDLE), 100 * NS_PER_MS);
}

/* Lives of 10 s, which no back-off holds up, so that the limit alone acts. */
static struct throttle_verdict lived_well(struct throttle *throttle, unsigned limit,
					  uint64_t interval_s, uint64_t now_s)
{
	const struct throttle_limits limits = {.limit = limit,
					       .interval_ns = interval_s * NS_PER_S};

	return throttle_next(throttle, &limits, now_s * NS_PER_S, 10 * NS_PER_S, MIDDLE);
}

static void test_limit(void **state)
{
	struct throttle throttle = {0};

	(void)state;
	/* The window begins with the first restart, at 1000 s. */
	for (uint64_t i = 0; i < 3; i++)
		assert_false(lived_well(&throttle, 3, 60, 1000 + 10 * i).degraded);

	struct throttle_verdict verdict = lived_well(&throttle, 3, 60, 1030);

	assert_true(verdict.degraded);
	assert_int_equal(verdict.delay_ns, 30 * NS_PER_S);

	/* The restart at 1060 s is the first of the next window: two more, and no third. */
	assert_false(lived_well(&throttle, 3, 60, 1070).degraded);
	assert_false(lived_well(&throttle, 3, 60, 1080).degraded);
	verdict = lived_well(&throttle, 3, 60, 1119);
	assert_true(verdict.degraded);
	assert_int_equal(verdict.delay_ns, NS_PER_S);
}

static void test_a_window_ends(void **state)
{
	struct throttle throttle = {0};

	(void)state;
	for (uint64_t i = 0; i < 3; i++)
		assert_false(lived_well(&throttle, 3, 60, 1000 + 10 * i).degraded);
	/* At 1060 s it is over, to the second; the next one lasts until 1120. */
	assert_false(lived_well(&throttle, 3, 60, 1060).degraded);
	assert_int_equal(throttle.starts, 1);
	assert_false(lived_well(&throttle, 3, 60, 1110).degraded);
	assert_false(lived_well(&throttle, 3, 60, 1111).degraded);
	assert_true(lived_well(&throttle, 3, 60, 1119).degraded);

	/* After a long peace a window begins with the next restart, not with a multiple. */
	assert_false(lived_well(&throttle, 3, 60, 100030).degraded);
	assert_int_equal(throttle.window_ns, 100030 * NS_PER_S);
}

static void test_degraded_is_a_second_at_least(void **state)
{
	const struct throttle_limits limits = {.limit = 1, .interval_ns = 60 * NS_PER_S};
	struct throttle throttle = {0};

	(void)state;
	(void)throttle_next(&throttle, &limits, 1000 * NS_PER_S, 10 * NS_PER_S, MIDDLE);

	struct throttle_verdict verdict = throttle_next(&throttle, &limits, 1060 * NS_PER_S - 1,
							10 * NS_PER_S, MIDDLE);

	assert_true(verdict.degraded);
	assert_int_equal(verdict.delay_ns, NS_PER_S);
	assert_int_equal(throttle.window_ns, 1061 * NS_PER_S - 1);
}

/* A limit of 0: even the first restart waits for an interval. */
static void test_no_restart_allowed(void **state)
{
	struct throttle throttle = {0};
	struct throttle_verdict verdict = lived_well(&throttle, 0, 60, 1000);

	(void)state;
	assert_true(verdict.degraded);
	assert_int_equal(verdict.delay_ns, 60 * NS_PER_S);
	verdict = lived_well(&throttle, 0, 60, 1061);
	assert_true(verdict.degraded);
	assert_int_equal(verdict.delay_ns, 59 * NS_PER_S);
}

/*
 * A process that dies at once, for ten minutes, as the defaults have it: the place is degraded in
 * its first minute, no minute from a window's beginning on sees more than ten starts, and no two
 * starts are closer than 100 ms.
 */
static void check_crash_loop(uint32_t random)
{
	struct throttle throttle = {0};
	uint64_t now_ns = 1000 * NS_PER_S, began_ns = now_ns, window_ns = 0;
	unsigned starts = 0, degraded = 0;

	while (now_ns < began_ns + 600 * NS_PER_S) {
		struct throttle_verdict verdict = throttle_next(&throttle, &usual, now_ns, 0,
								random);

		if (verdict.degraded && degraded++ == 0)
			assert_true(now_ns - began_ns < usual.interval_ns);
		assert_true(verdict.delay_ns >= 100 * NS_PER_MS);
		assert_true(verdict.delay_ns <= usual.interval_ns);
		now_ns += verdict.delay_ns;
		if (starts == 0 || now_ns - window_ns >= usual.interval_ns) {
			window_ns = now_ns;
			starts = 0;
		}
		assert_true(++starts <= usual.limit);
		random = random * 1664525 + 1013904223;
	}
	assert_true(degraded > 0);
}

static void test_crash_loop(void **state)
{
	(void)state;
	for (uint32_t seed = 0; seed < 1000; seed++)
		check_crash_loop(seed * 4294967);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_is_immediate),
		cmocka_unit_test(test_backoff_doubles),
		cmocka_unit_test(test_backoff_stays_at_its_end),
		cmocka_unit_test(test_backoff_keeps_to_the_pace_of_the_limit),
		cmocka_unit_test(test_gap),
		cmocka_unit_test(test_a_long_life_is_forgiven),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_a_window_ends),
		cmocka_unit_test(test_degraded_is_a_second_at_least),
		cmocka_unit_test(test_no_restart_allowed),
		cmocka_unit_test(test_crash_loop),
	};

	return cmocka_run_group_tests_name("throttle", tests, NULL, NULL);
}
