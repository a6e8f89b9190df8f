/*
 * Faults for rehearsal: whom they are for, and how often they strike. The linker puts
 * __wrap_nanosleep in the place of nanosleep, so a sleep takes no time and is counted.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/units.h"
#include "engine/fault.h"

#define TIMES 1000 /* that a fault could strike */

static unsigned sleeps;
static uint64_t slept_ns;
static unsigned interruptions; /* that are still to come */

int __wrap_nanosleep(const struct timespec *duration, struct timespec *left);

int __wrap_nanosleep(const struct timespec *duration, struct timespec *left)
{
	uint64_t duration_ns = (uint64_t)duration->tv_sec * NS_PER_S + (uint64_t)duration->tv_nsec;

	if (interruptions > 0) { /* when 40 ms of it are over */
		interruptions--;
		slept_ns += 40 * NS_PER_MS;
		duration_ns -= 40 * NS_PER_MS;
		left->tv_sec = (time_t)(duration_ns / NS_PER_S);
		left->tv_nsec = (long)(duration_ns % NS_PER_S);
		errno = EINTR;
		return -1;
	}
	sleeps++;
	slept_ns += duration_ns;
	return 0;
}

static int sleeps_reset(void **state)
{
	(void)state;
	sleeps = 0;
	slept_ns = 0;
	interruptions = 0;
	return 0;
}

static struct fault_settings sleep_for(uint64_t duration_ns, double probability)
{
	return (struct fault_settings){
		.kind = FAULT_SLEEP,
		.on = FAULT_ON_MESSAGE,
		.probability = probability,
		.duration_ns = duration_ns,
		.seed = 1,
	};
}

static const struct fault_place anywhere = {.role = FAULT_PRIMARY, .generation = 1};

static struct fault_plan plan_of(struct fault_settings *faults, size_t n,
				 const struct fault_place *place)
{
	struct group_settings group = {.faults = faults, .n_faults = n};
	struct fault_plan plan;

	assert_int_equal(fault_plan_make(&plan, &group, place), 0);
	return plan;
}

/* Whether a fault is for a worker. */
static bool is_for(struct fault_settings fault, unsigned lane, unsigned worker, unsigned role)
{
	const struct fault_place place = {
		.lane = lane, .worker = worker, .role = role, .generation = 1};
	struct fault_plan plan = plan_of(&fault, 1, &place);
	bool chosen = plan.n == 1;

	assert_true(plan.n <= 1);
	free(plan.faults);
	return chosen;
}

static void test_without_faults_nothing_strikes(void **state)
{
	struct fault_plan plan = plan_of(NULL, 0, &anywhere);

	(void)state;
	assert_int_equal(plan.n, 0);
	assert_null(plan.faults);
	fault_may_strike(&plan, FAULT_ON_ACCEPT);
	fault_may_strike(&plan, FAULT_ON_MESSAGE);
	assert_int_equal(sleeps, 0);
}

static void test_without_a_place_it_is_for_all(void **state)
{
	struct fault_settings fault = sleep_for(1, 1);

	(void)state;
	assert_true(is_for(fault, 0, 0, FAULT_PRIMARY));
	assert_true(is_for(fault, 511, 3, FAULT_STANDBY));
	assert_true(is_for(fault, 1, 591, FAULT_EXTRA));
}

static void test_by_lane(void **state)
{
	unsigned lanes[] = {0, 2};
	struct fault_settings fault = sleep_for(1, 1);

	(void)state;
	fault.lanes = (struct numbers_setting){lanes, 2};
	assert_true(is_for(fault, 0, 7, FAULT_PRIMARY));
	assert_false(is_for(fault, 1, 0, FAULT_PRIMARY));
	assert_true(is_for(fault, 2, 0, FAULT_EXTRA));
}

static void test_by_worker(void **state)
{
	unsigned workers[] = {1};
	struct fault_settings fault = sleep_for(1, 1);

	(void)state;
	fault.workers = (struct numbers_setting){workers, 1};
	assert_false(is_for(fault, 1, 0, FAULT_PRIMARY));
	assert_true(is_for(fault, 0, 1, FAULT_PRIMARY));
	assert_true(is_for(fault, 9, 1, FAULT_STANDBY));
}

static void test_by_role(void **state)
{
	struct fault_settings fault = sleep_for(1, 1);

	(void)state;
	fault.roles = FAULT_PRIMARY | FAULT_EXTRA;
	assert_true(is_for(fault, 0, 0, FAULT_PRIMARY));
	assert_false(is_for(fault, 0, 1, FAULT_STANDBY));
	assert_true(is_for(fault, 0, 2, FAULT_EXTRA));
}

static void test_all_three_must_fit(void **state)
{
	unsigned lanes[] = {1}, workers[] = {0};
	struct fault_settings fault = sleep_for(1, 1);

	(void)state;
	fault.lanes = (struct numbers_setting){lanes, 1};
	fault.workers = (struct numbers_setting){workers, 1};
	fault.roles = FAULT_PRIMARY;
	assert_true(is_for(fault, 1, 0, FAULT_PRIMARY));
	assert_false(is_for(fault, 0, 0, FAULT_PRIMARY));
	assert_false(is_for(fault, 1, 1, FAULT_PRIMARY));
	assert_false(is_for(fault, 1, 0, FAULT_STANDBY));
}

static void test_only_when_it_says(void **state)
{
	struct fault_settings faults[] = {sleep_for(1, 1), sleep_for(100, 1)};

	(void)state;
	faults[0].on = FAULT_ON_ACCEPT;

	struct fault_plan plan = plan_of(faults, 2, &anywhere);

	fault_may_strike(&plan, FAULT_ON_ACCEPT);
	assert_int_equal(slept_ns, 1);
	fault_may_strike(&plan, FAULT_ON_MESSAGE);
	assert_int_equal(slept_ns, 101);
	free(plan.faults);
}

/* What was not chosen leaves no gap, and the others keep their order and their settings. */
static void test_some_of_several(void **state)
{
	unsigned elsewhere[] = {5};
	struct fault_settings faults[] = {sleep_for(1, 1), sleep_for(10, 1), sleep_for(100, 1)};

	(void)state;
	faults[1].lanes = (struct numbers_setting){elsewhere, 1};

	struct fault_plan plan = plan_of(faults, 3, &anywhere);

	assert_int_equal(plan.n, 2);
	assert_ptr_equal(plan.faults[0].settings, &faults[0]);
	assert_ptr_equal(plan.faults[1].settings, &faults[2]);
	fault_may_strike(&plan, FAULT_ON_MESSAGE);
	assert_int_equal(slept_ns, 101);
	free(plan.faults);
}

static void test_duration(void **state)
{
	struct fault_settings fault = sleep_for(2 * NS_PER_S + 500 * NS_PER_MS, 1);
	struct fault_plan plan = plan_of(&fault, 1, &anywhere);

	(void)state;
	interruptions = 3; /* orders of the master: the sleep goes on where it was */
	fault_may_strike(&plan, FAULT_ON_MESSAGE);
	assert_int_equal(sleeps, 1);
	assert_int_equal(slept_ns, 2 * NS_PER_S + 500 * NS_PER_MS);
	free(plan.faults);
}

/* Notes for each of TIMES whether the fault strikes; returns how often it did. */
static unsigned strikes(struct fault_settings fault, const struct fault_place *place,
			bool struck[static TIMES])
{
	struct fault_plan plan = plan_of(&fault, 1, place);
	unsigned n = 0;

	for (unsigned i = 0; i < TIMES; i++) {
		unsigned before = sleeps;

		fault_may_strike(&plan, FAULT_ON_MESSAGE);
		struck[i] = sleeps > before;
		n += struck[i];
	}
	free(plan.faults);
	return n;
}

static void test_never_and_always(void **state)
{
	bool struck[TIMES];

	(void)state;
	for (unsigned seed = 0; seed < 20; seed++) {
		struct fault_settings never = sleep_for(1, 0), always = sleep_for(1, 1);

		never.seed = always.seed = seed;
		assert_int_equal(strikes(never, &anywhere, struck), 0);
		assert_int_equal(strikes(always, &anywhere, struck), TIMES);
	}
}

/* Each bound is six standard deviations away: no seed that is a good one fails it. */
static void test_as_often_as_it_says(void **state)
{
	static const unsigned seeds[] = {0, 1, 2, 4711, UINT32_MAX};
	bool struck[TIMES];

	(void)state;
	for (size_t i = 0; i < sizeof(seeds) / sizeof(*seeds); i++) {
		struct fault_settings half = sleep_for(1, 0.5), rare = sleep_for(1, 0.01);

		half.seed = rare.seed = seeds[i];
		assert_in_range(strikes(half, &anywhere, struck), 405, 595);
		assert_in_range(strikes(rare, &anywhere, struck), 1, 29);
	}
}

static void test_same_seed_same_sequence(void **state)
{
	bool first[TIMES], second[TIMES];

	(void)state;
	(void)strikes(sleep_for(1, 0.5), &anywhere, first);
	(void)strikes(sleep_for(1, 0.5), &anywhere, second);
	assert_memory_equal(first, second, sizeof(first));
}

/* Where workers had one sequence for all they would hang in the same moment. */
static void test_a_sequence_of_its_own(void **state)
{
	const struct fault_place others[] = {
		{.lane = 1, .worker = 0, .role = FAULT_PRIMARY, .generation = 1},
		{.lane = 0, .worker = 1, .role = FAULT_PRIMARY, .generation = 1},
		{.lane = 0, .worker = 0, .role = FAULT_PRIMARY, .generation = 2},
	};
	struct fault_settings fault = sleep_for(1, 0.5);
	bool first[TIMES], other[TIMES];

	(void)state;
	(void)strikes(fault, &anywhere, first);
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		(void)strikes(fault, &others[i], other);
		assert_memory_not_equal(first, other, sizeof(first));
	}
	fault.seed = 2;
	(void)strikes(fault, &anywhere, other);
	assert_memory_not_equal(first, other, sizeof(first));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_without_faults_nothing_strikes, sleeps_reset),
		cmocka_unit_test(test_without_a_place_it_is_for_all),
		cmocka_unit_test(test_by_lane),
		cmocka_unit_test(test_by_worker),
		cmocka_unit_test(test_by_role),
		cmocka_unit_test(test_all_three_must_fit),
		cmocka_unit_test_setup(test_only_when_it_says, sleeps_reset),
		cmocka_unit_test_setup(test_some_of_several, sleeps_reset),
		cmocka_unit_test_setup(test_duration, sleeps_reset),
		cmocka_unit_test_setup(test_never_and_always, sleeps_reset),
		cmocka_unit_test_setup(test_as_often_as_it_says, sleeps_reset),
		cmocka_unit_test_setup(test_same_seed_same_sequence, sleeps_reset),
		cmocka_unit_test_setup(test_a_sequence_of_its_own, sleeps_reset),
	};

	return cmocka_run_group_tests_name("fault", tests, NULL, NULL);
}
