/* Incidents: which entry of the ring is taken, what an entry holds at most, and its JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/clock.h"
#include "base/units.h"
#include "master/health.h"
#include "master/incident.h"
#include "topology/topology.h"

#define BEGIN_NS (1000 * NS_PER_S) /* of the incidents here, by clock_now_ns() */

static struct lane lane;

static int lane_setup(void **state)
{
	const struct lane_shape shape = {
		.workers = 3, .conns = 100, .blocks = 6, .max_connections = 10};

	(void)state;
	return lane_open(&lane, "echo", 2, &shape, 1, -1);
}

static int lane_teardown(void **state)
{
	(void)state;
	lane_close(&lane);
	return 0;
}

static uint64_t at_ms(uint64_t ms)
{
	return BEGIN_NS + ms * NS_PER_MS;
}

static struct incident *begin(uint64_t number)
{
	struct incident *incident = incident_begin(lane.board, number, BEGIN_NS);

	assert_non_null(incident);
	return incident;
}

/* --- The ring ---------------------------------------------------------------------------------- */

static void test_a_fresh_entry_is_empty(void **state)
{
	uint64_t since_ns = clock_now_ns() - 3 * NS_PER_S;
	struct incident *incident;
	int64_t begin_s;

	(void)state;
	memset(lane.board->incidents, 0xff, sizeof(lane.board->incidents));
	incident = incident_begin(lane.board, 7, since_ns);
	assert_non_null(incident);
	assert_int_equal(incident->number, 7);
	assert_true(incident->since_ns == since_ns);
	begin_s = (int64_t)(incident->since_wall_ns / NS_PER_S);
	assert_in_range(time(NULL) - begin_s, 2, 60);
	assert_int_equal(incident->end, INCIDENT_GOES_ON);
	assert_int_equal(incident->duration_ns, 0);
	assert_int_equal(incident->n_steps, 0);
	assert_int_equal(incident->n_samples, 0);
	assert_int_equal(incident->clients, 0);
	assert_int_equal(incident->connection.fd, 0);
	assert_string_equal(incident->wchan, "");
	assert_string_equal(incident->call, "");
}

static void test_the_oldest_finished_one_goes(void **state)
{
	struct incident *entries[SCOREBOARD_INCIDENTS];

	(void)state;
	for (unsigned i = 0; i < SCOREBOARD_INCIDENTS; i++) {
		entries[i] = begin(i + 1);
		for (unsigned k = 0; k < i; k++)
			assert_ptr_not_equal(entries[i], entries[k]);
	}
	/* Not in the order in which they began: 5, 3, 4 have ended. */
	incident_finish(entries[4], INCIDENT_RECOVERED, at_ms(1));
	incident_finish(entries[2], INCIDENT_REPLACED, at_ms(2));
	incident_finish(entries[3], INCIDENT_LEFT, at_ms(3));
	assert_ptr_equal(begin(17), entries[2]);
	assert_ptr_equal(begin(18), entries[3]);
	assert_ptr_equal(begin(19), entries[4]);
}

static void test_one_that_goes_on_is_never_taken(void **state)
{
	struct incident *first, *second;

	(void)state;
	first = begin(1);
	for (unsigned i = 2; i <= SCOREBOARD_INCIDENTS; i++)
		second = begin(i);
	assert_null(incident_begin(lane.board, 100, BEGIN_NS));
	assert_int_equal(first->number, 1);

	incident_finish(second, INCIDENT_RECOVERED, at_ms(1));
	for (unsigned i = 0; i < 3 * SCOREBOARD_INCIDENTS; i++) {
		assert_ptr_equal(begin(101 + i), second);
		incident_finish(second, INCIDENT_RECOVERED, at_ms(1));
	}
	assert_int_equal(first->number, 1);
	assert_int_equal(first->end, INCIDENT_GOES_ON);
}

/* --- What an entry holds ----------------------------------------------------------------------- */

static void test_steps_are_bounded(void **state)
{
	struct incident *incident = begin(1);
	struct incident before_next = incident[1];

	(void)state;
	for (unsigned i = 0; i < 3 * INCIDENT_STEPS; i++)
		incident_add_step(incident, i % 2 == 0 ? STEP_STEERED : STEP_BACK, at_ms(10 * i));
	assert_int_equal(incident->n_steps, INCIDENT_STEPS);
	for (unsigned i = 0; i < INCIDENT_STEPS; i++) {
		assert_int_equal(incident->steps[i].at_ms, 10 * i);
		assert_int_equal(incident->steps[i].kind, i % 2 == 0 ? STEP_STEERED : STEP_BACK);
	}
	assert_memory_equal(&incident[1], &before_next, sizeof(before_next));
}

/* What was done for the lane may have been done before the worker was seen to be the cause. */
static void test_step_before_the_begin(void **state)
{
	struct incident *incident = begin(1);

	(void)state;
	incident_add_step(incident, STEP_CALLED, BEGIN_NS - 1);
	incident_add_step(incident, STEP_CALLED, 0);
	assert_int_equal(incident->n_steps, 2);
	assert_int_equal(incident->steps[0].at_ms, 0);
	assert_int_equal(incident->steps[1].at_ms, 0);
}

static void test_samples_come_at_most_so_often(void **state)
{
	struct incident *incident = begin(1);

	(void)state;
	for (unsigned ms = 0; ms < 20; ms++)
		incident_add_sample(incident, ms, at_ms(ms));
	assert_int_equal(incident->n_samples, 4);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(incident->samples[i].at_ms, 5 * i);
		assert_int_equal(incident->samples[i].depth, 5 * i);
	}
}

/* That the samples are in order and spread evenly over the time until `end_ms`. */
static void check_spread(const struct incident *incident, uint32_t end_ms)
{
	uint32_t n = incident->n_samples, least = UINT32_MAX, most = 0;

	assert_in_range(n, INCIDENT_SAMPLES / 2, INCIDENT_SAMPLES);
	assert_int_equal(incident->samples[0].at_ms, 0);
	for (uint32_t i = 1; i < n; i++) {
		uint32_t gap_ms = incident->samples[i].at_ms - incident->samples[i - 1].at_ms;

		least = gap_ms < least ? gap_ms : least;
		most = gap_ms > most ? gap_ms : most;
	}
	assert_true(incident->samples[n - 1].at_ms <= end_ms);
	assert_true(end_ms - incident->samples[n - 1].at_ms <= 2 * most);
	assert_true(least > 0);
	assert_true(most <= 2 * least);
}

static void test_samples_are_thinned(void **state)
{
	struct incident *incident = begin(1);
	struct incident before_next = incident[1];
	uint32_t ms;

	(void)state;
	for (ms = 0; ms < 16 * 5; ms += 5)
		incident_add_sample(incident, ms, at_ms(ms));
	assert_int_equal(incident->n_samples, INCIDENT_SAMPLES);
	for (; ms < 600 * 1000; ms += 5) { /* ten minutes */
		incident_add_sample(incident, ms, at_ms(ms));
		check_spread(incident, ms);
	}
	for (uint32_t i = 0; i < incident->n_samples; i++) /* each with the depth of its time */
		assert_int_equal(incident->samples[i].depth, incident->samples[i].at_ms);
	assert_memory_equal(&incident[1], &before_next, sizeof(before_next));
}

static void line_has_waits(uint32_t worker, uint32_t lateness, uint32_t clients, uint32_t worst_ms)
{
	struct worker_line *line = lane_worker(&lane, worker);

	atomic_store(&line->lateness, lateness);
	atomic_store(&line->late_clients, clients);
	atomic_store(&line->late_worst_ms, worst_ms);
}

static void test_waits_of_this_lateness_alone(void **state)
{
	struct incident *incident = begin(1);

	(void)state;
	atomic_store(&lane.board->lateness, 5);
	line_has_waits(0, 5, 3, 21);
	line_has_waits(1, 4, 100, 9999); /* an earlier one */
	line_has_waits(2, 5, 2, 40);
	incident_add_waits(incident, &lane);
	assert_int_equal(incident->clients, 5);
	assert_int_equal(incident->worst_ms, 40);

	atomic_store(&lane.board->lateness, 6);
	incident_add_waits(incident, &lane); /* nobody is late */
	assert_int_equal(incident->clients, 5);

	atomic_store(&lane.board->lateness, 7);
	line_has_waits(1, 7, 1, 7);
	incident_add_waits(incident, &lane); /* the next time in the same incident */
	assert_int_equal(incident->clients, 6);
	assert_int_equal(incident->worst_ms, 40);
}

static void test_connection_in_hand(void **state)
{
	struct incident *incident = begin(1);
	struct conn_table table = lane_table(&lane, 1);
	struct conn *conn = &table.conns[42];

	(void)state;
	incident->worker = 1;
	incident_set_connection(incident, &lane, 5000);
	assert_int_equal(incident->connection.fd, 0);

	(void)conn_open(conn);
	conn->messages = 3;
	conn->in = 1000;
	conn->out = 900;
	conn->stamp_ms = 4000;
	atomic_store(&lane_worker(&lane, 1)->fd_in_hand, 42);
	incident_set_connection(incident, &lane, 5000);
	assert_int_equal(incident->connection.fd, 42);
	assert_int_equal(incident->connection.messages, 3);
	assert_int_equal(incident->connection.bytes_in, 1000);
	assert_int_equal(incident->connection.bytes_out, 900);
	assert_int_equal(incident->connection.quiet_ms, 1000);

	conn_close(conn); /* the worker has gone on since it was last looked at */
	incident_set_connection(incident, &lane, 5000);
	assert_int_equal(incident->connection.fd, 0);

	/* Whatever a worker that runs wild writes there. */
	atomic_store(&lane_worker(&lane, 1)->fd_in_hand, UINT32_MAX);
	incident_set_connection(incident, &lane, 5000);
	assert_int_equal(incident->connection.fd, 0);
}

/* --- JSON -------------------------------------------------------------------------------------- */

static void check_json(const struct incident *incident, const char *name, const char *expected)
{
	char *text = incident_json(incident, name);

	assert_non_null(text);
	assert_null(strchr(text, '\n'));
	assert_string_equal(text, expected);
	free(text);
}

static void test_json_of_what_is_known(void **state)
{
	struct incident *incident = begin(12);

	(void)state;
	incident->worker = 0;
	incident->role = WORKER_PRIMARY;
	incident->pid = 4711;
	incident->generation = 3;
	incident->state = STATE_BLOCKED;
	incident->since_wall_ns = UINT64_C(1796073086) * NS_PER_S + 7 * NS_PER_MS;
	strcpy(incident->wchan, "locks_lock_inode_wait");
	strcpy(incident->call, "flock");
	incident->cpu_ns = 2 * NS_PER_MS;
	incident->cpu_wait_ns = 3 * NS_PER_MS;
	incident->connection = (struct incident_connection){
		.fd = 11,
		.messages = 2,
		.bytes_in = UINT64_C(5000000000),
		.bytes_out = 1,
		.quiet_ms = 15,
	};
	incident->clients = 4;
	incident->worst_ms = 22;
	incident_add_step(incident, STEP_CALLED, at_ms(5));
	incident_add_step(incident, STEP_EXTRA, at_ms(20));
	incident_add_step(incident, STEP_STEERED, at_ms(1000));
	incident_add_step(incident, STEP_BACK, at_ms(2000));
	incident_add_step(incident, STEP_ABORTED, at_ms(10000));
	incident_add_step(incident, STEP_KILLED, at_ms(12000));
	incident_add_step(incident, STEP_ENDED, at_ms(12001));
	incident_add_sample(incident, 1, at_ms(5));
	incident_add_sample(incident, 0, at_ms(20));
	incident_finish(incident, INCIDENT_REPLACED, at_ms(12003));
	check_json(
		incident, "echo/2.0",
		"{\"incident\":12,\"worker\":\"echo/2.0\",\"role\":\"primary\",\"pid\":4711,"
		"\"generation\":3,\"state\":\"blocked\","
		"\"since\":\"2026-11-30T21:11:26.007Z\",\"duration_ms\":12003,"
		"\"end\":\"replaced\",\"wchan\":\"locks_lock_inode_wait\",\"syscall\":\"flock\","
		"\"cpu_ms\":2,\"cpu_wait_ms\":3,\"connection\":{\"fd\":11,\"messages\":2,\"bytes_in\":5000000000,"
		"\"bytes_out\":1,\"quiet_ms\":15},\"clients_waited\":4,\"worst_wait_ms\":22,"
		"\"steps\":[{\"step\":\"call\",\"at_ms\":5},{\"step\":\"extra\",\"at_ms\":20},"
		"{\"step\":\"steer\",\"at_ms\":1000},{\"step\":\"steer back\",\"at_ms\":2000},"
		"{\"step\":\"abort\",\"at_ms\":10000},{\"step\":\"kill\",\"at_ms\":12000},"
		"{\"step\":\"ended\",\"at_ms\":12001}],\"queue\":[[5,1],[20,0]]}");
}

static void test_json_of_what_is_unknown(void **state)
{
	struct incident *incident = begin(1);

	(void)state;
	incident->worker = 2;
	incident->role = WORKER_EXTRA;
	incident->state = STATE_UNKNOWN;
	incident->since_wall_ns = 0;
	incident_finish(incident, INCIDENT_LEFT, at_ms(0));
	check_json(
		incident, "echo/2.2",
		"{\"incident\":1,\"worker\":\"echo/2.2\",\"role\":\"extra\",\"pid\":0,"
		"\"generation\":0,\"state\":\"unknown\",\"since\":\"1970-01-01T00:00:00.000Z\","
		"\"duration_ms\":0,\"end\":\"left\",\"wchan\":null,\"syscall\":null,\"cpu_ms\":0,"
		"\"cpu_wait_ms\":0,\"connection\":null,\"clients_waited\":0,\"worst_wait_ms\":0,\"steps\":[],"
		"\"queue\":[]}");
}

static void test_json_of_the_host(void **state)
{
	struct incident *incident = begin(2);

	(void)state;
	incident->worker = INCIDENT_HOST;
	incident->state = STATE_SUSPENDED;
	incident->since_wall_ns = 999999999;
	incident_finish(incident, INCIDENT_RECOVERED, at_ms(3600 * 1000));
	check_json(
		incident, "host",
		"{\"incident\":2,\"state\":\"suspended\",\"since\":\"1970-01-01T00:00:00.999Z\","
		"\"duration_ms\":3600000,\"end\":\"recovered\",\"wchan\":null,\"syscall\":null,"
		"\"cpu_ms\":0,\"cpu_wait_ms\":0,\"connection\":null,\"clients_waited\":0,\"worst_wait_ms\":0,"
		"\"steps\":[],\"queue\":[]}");
}

static void test_json_of_each_end(void **state)
{
	static const char *const ends[] = {
		[INCIDENT_GOES_ON] = "goes on",       [INCIDENT_RECOVERED] = "recovered",
		[INCIDENT_REPLACED] = "replaced",     [INCIDENT_LEFT] = "left",
		[INCIDENT_STOPPED] = "laned stopped",
	};
	struct incident *incident = begin(1);

	(void)state;
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		incident->end = (uint32_t)i;

		char *text = incident_json(incident, "echo/2.0");
		json_t *object = json_loads(text, 0, NULL);

		assert_non_null(object);
		assert_string_equal(json_string_value(json_object_get(object, "end")), ends[i]);
		json_decref(object);
		free(text);
	}
}

#define LANE_TEST(test) cmocka_unit_test_setup_teardown(test, lane_setup, lane_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LANE_TEST(test_a_fresh_entry_is_empty),
		LANE_TEST(test_the_oldest_finished_one_goes),
		LANE_TEST(test_one_that_goes_on_is_never_taken),
		LANE_TEST(test_steps_are_bounded),
		LANE_TEST(test_step_before_the_begin),
		LANE_TEST(test_samples_come_at_most_so_often),
		LANE_TEST(test_samples_are_thinned),
		LANE_TEST(test_waits_of_this_lateness_alone),
		LANE_TEST(test_connection_in_hand),
		LANE_TEST(test_json_of_what_is_known),
		LANE_TEST(test_json_of_what_is_unknown),
		LANE_TEST(test_json_of_the_host),
		LANE_TEST(test_json_of_each_end),
	};

	return cmocka_run_group_tests_name("incident", tests, NULL, NULL);
}
