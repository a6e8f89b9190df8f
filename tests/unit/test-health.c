/* Health: what each piece of evidence leads to, and when the supervisor doubts itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/units.h"
#include "master/health.h"

#define SUSPECT_NS (100 * NS_PER_MS)
#define UNKNOWN    UINT64_MAX

struct judgement {
	struct evidence evidence;
	bool host_stalled;
	enum worker_state expected;
};

/* A still worker that was looked at a second ago. */
#define STILL(process, cpu)                                      \
	{                                                        \
		SUSPECT_NS, NS_PER_S, cpu, process, false, false \
	}
#define FROZEN(process, cpu)                                    \
	{                                                       \
		SUSPECT_NS, NS_PER_S, cpu, process, true, false \
	}
#define THROTTLED(process, cpu)                                 \
	{                                                       \
		SUSPECT_NS, NS_PER_S, cpu, process, false, true \
	}

static const struct judgement judgements[] = {
	/* Progress is all that counts, whatever else looks bad. */
	{{0, NS_PER_S, NS_PER_S, 'R', false, false}, false, STATE_WORKING},
	{{SUSPECT_NS - 1, NS_PER_S, 0, 'T', true, true}, false, STATE_WORKING},
	{{SUSPECT_NS - 1, NS_PER_S, 0, 'D', false, false}, true, STATE_WORKING},
	{{SUSPECT_NS - 1, NS_PER_S, 0, '?', false, false}, false, STATE_WORKING},

	/* Where the host stalls nobody is judged, not even who is surely stopped. */
	{STILL('T', 0), true, STATE_SUSPENDED},
	{STILL('R', NS_PER_S), true, STATE_SUSPENDED},
	{STILL('D', 0), true, STATE_SUSPENDED},
	{STILL('?', UNKNOWN), true, STATE_SUSPENDED},

	{STILL('T', 0), false, STATE_STOPPED},
	{STILL('t', 0), false, STATE_STOPPED},
	{STILL('T', UNKNOWN), false, STATE_STOPPED},
	{THROTTLED('T', 0), false, STATE_STOPPED},
	{FROZEN('S', 0), false, STATE_STOPPED},
	{FROZEN('R', NS_PER_S), false, STATE_STOPPED},
	{FROZEN('?', UNKNOWN), false, STATE_STOPPED},

	{STILL('Z', 0), false, STATE_UNKNOWN},
	{STILL('X', 0), false, STATE_UNKNOWN},
	{STILL('?', NS_PER_S), false, STATE_UNKNOWN},
	{STILL('q', NS_PER_S), false, STATE_UNKNOWN},
	{THROTTLED('?', 0), false, STATE_UNKNOWN},

	/* Ready to run: a quarter of a CPU makes the difference. */
	{STILL('R', NS_PER_S), false, STATE_LOOPING},
	{STILL('R', NS_PER_S / 4), false, STATE_LOOPING},
	{STILL('R', NS_PER_S / 4 - 1), false, STATE_STARVED},
	{STILL('R', 0), false, STATE_STARVED},
	{STILL('R', UNKNOWN), false, STATE_UNKNOWN},
	{THROTTLED('R', NS_PER_S / 4), false, STATE_LOOPING},
	{THROTTLED('R', NS_PER_S / 4 - 1), false, STATE_STARVED},
	{THROTTLED('R', UNKNOWN), false, STATE_UNKNOWN},

	/* Asleep: half of a CPU. */
	{STILL('S', 0), false, STATE_BLOCKED},
	{STILL('S', NS_PER_S / 2 - 1), false, STATE_BLOCKED},
	{STILL('S', NS_PER_S / 2), false, STATE_LOOPING},
	{STILL('S', UNKNOWN), false, STATE_BLOCKED},
	{STILL('D', 0), false, STATE_BLOCKED},
	{STILL('D', NS_PER_S / 2), false, STATE_LOOPING},
	{STILL('I', 0), false, STATE_BLOCKED},
	{STILL('I', NS_PER_S), false, STATE_LOOPING},
	{THROTTLED('S', 0), false, STATE_STARVED},
	{THROTTLED('D', NS_PER_S / 4 - 1), false, STATE_STARVED},
	{THROTTLED('S', NS_PER_S / 4), false, STATE_BLOCKED},
	{THROTTLED('S', NS_PER_S / 2), false, STATE_LOOPING},
	{THROTTLED('S', UNKNOWN), false, STATE_BLOCKED},

	/* At the first look there is nothing to compare with: as good as unknown. */
	{{SUSPECT_NS, 0, 0, 'R', false, false}, false, STATE_UNKNOWN},
	{{SUSPECT_NS, 0, NS_PER_S, 'R', false, true}, false, STATE_UNKNOWN},
	{{SUSPECT_NS, 0, 0, 'S', false, false}, false, STATE_BLOCKED},
	{{SUSPECT_NS, 0, NS_PER_S, 'S', false, true}, false, STATE_BLOCKED},

	/* A process of many threads may use more CPU time than passes. */
	{STILL('S', 8 * NS_PER_S), false, STATE_LOOPING},
	{{UINT64_MAX, UINT64_MAX, 0, 'R', false, false}, false, STATE_STARVED},
};

static void test_judgements(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(judgements) / sizeof(judgements[0]); i++) {
		const struct judgement *row = &judgements[i];
		enum worker_state found = health_judge(&row->evidence, SUSPECT_NS,
						       row->host_stalled);

		if (found != row->expected)
			fail_msg("row %zu (%c): %s, expected %s", i, row->evidence.process,
				 worker_state_name(found), worker_state_name(row->expected));
	}
}

/* Nobody is ever ended for what could not be read. */
static void test_unknown_ends_nobody(void **state)
{
	static const char *processes = "RZX?q";

	(void)state;
	for (const char *process = processes; *process; process++) {
		const struct evidence evidence = {.still_ns = UINT64_MAX,
						  .look_ns = NS_PER_S,
						  .cpu_ns = UNKNOWN,
						  .process = *process};

		assert_false(health_may_end(health_judge(&evidence, SUSPECT_NS, false)));
	}
}

static void test_who_may_be_ended(void **state)
{
	(void)state;
	assert_true(health_may_end(STATE_LOOPING));
	assert_true(health_may_end(STATE_BLOCKED));
	assert_true(health_may_end(STATE_STOPPED));
	assert_false(health_may_end(STATE_WORKING));
	assert_false(health_may_end(STATE_STARVED));
	assert_false(health_may_end(STATE_UNKNOWN));
	assert_false(health_may_end(STATE_SUSPENDED));
}

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(worker_state_name(STATE_WORKING), "working");
	assert_string_equal(worker_state_name(STATE_LOOPING), "looping");
	assert_string_equal(worker_state_name(STATE_BLOCKED), "blocked");
	assert_string_equal(worker_state_name(STATE_STOPPED), "stopped");
	assert_string_equal(worker_state_name(STATE_STARVED), "starved");
	assert_string_equal(worker_state_name(STATE_UNKNOWN), "unknown");
	assert_string_equal(worker_state_name(STATE_SUSPENDED), "suspended");
}

struct doubt {
	struct host_evidence host; /* late, suspended, workers, suspects, late limit */
	bool expected;
};

static const struct doubt doubts[] = {
	{{0, 0, 4, 0, NS_PER_S}, false},
	{{0, 0, 0, 0, NS_PER_S}, false},

	{{NS_PER_S - 1, 0, 4, 0, NS_PER_S}, false},
	{{NS_PER_S, 0, 4, 0, NS_PER_S}, true},

	{{0, 100 * NS_PER_MS - 1, 4, 0, NS_PER_S}, false},
	{{0, 100 * NS_PER_MS, 4, 0, NS_PER_S}, true},

	/* One worker alone is one worker's fault, two of three are not. */
	{{0, 0, 1, 1, NS_PER_S}, false},
	{{0, 0, 2, 1, NS_PER_S}, false},
	{{0, 0, 2, 2, NS_PER_S}, true},
	{{0, 0, 3, 1, NS_PER_S}, false},
	{{0, 0, 3, 2, NS_PER_S}, true},
	{{0, 0, 4, 2, NS_PER_S}, false},
	{{0, 0, 4, 3, NS_PER_S}, true},
	{{0, 0, 5, 2, NS_PER_S}, false},
	{{0, 0, 5, 3, NS_PER_S}, true},
	{{0, 0, 1000, 500, NS_PER_S}, false},
	{{0, 0, 1000, 501, NS_PER_S}, true},
};

static void test_doubts(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(doubts) / sizeof(doubts[0]); i++) {
		if (health_doubts(&doubts[i].host) != doubts[i].expected)
			fail_msg("row %zu: expected %s", i, doubts[i].expected ? "doubt" : "none");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_judgements),       cmocka_unit_test(test_unknown_ends_nobody),
		cmocka_unit_test(test_who_may_be_ended), cmocka_unit_test(test_names),
		cmocka_unit_test(test_doubts),
	};

	return cmocka_run_group_tests_name("health", tests, NULL, NULL);
}
