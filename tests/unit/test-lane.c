/* A lane's memory: layout, records, the bound on connections, and what is left of a dead worker. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lane/lane.h"

static const struct lane_shape shape = {
	.workers = 3, .conns = 500, .blocks = 10, .max_connections = 4};

static int lane_setup(void **state)
{
	struct lane *lane = calloc(1, sizeof(*lane));

	*state = lane;
	return lane ? lane_open(lane, "echo", 2, &shape, 2, -1) : -1;
}

static int lane_teardown(void **state)
{
	struct lane *lane = *state;

	lane_close(lane);
	free(lane);
	return 0;
}

static bool room_was_told(const struct lane *lane)
{
	eventfd_t count;

	return eventfd_read(lane->look_fd, &count) == 0;
}

static void test_parts_do_not_overlap(void **state)
{
	struct lane *lane = *state;
	uint8_t *end = (uint8_t *)lane->board + lane->size_bytes;

	assert_string_equal(lane->name, "echo/2");
	assert_int_equal(lane->listeners[1], -1);
	assert_true((uint8_t *)(lane_worker(lane, 2) + 1) <= (uint8_t *)lane->accepts);
	assert_true((uint8_t *)(lane->accepts + shape.workers * 2) <= (uint8_t *)lane->pool.owner);
	assert_true((uint8_t *)(lane->pool.owner + shape.blocks) <= (uint8_t *)lane->tables);
	for (uint32_t i = 0; i + 1 < shape.workers; i++)
		assert_true(lane_table(lane, i).conns + shape.conns <=
			    lane_table(lane, i + 1).conns);
	assert_true((uint8_t *)(lane_table(lane, 2).conns + shape.conns) <= lane->pool.blocks);
	assert_true(pool_bytes(&lane->pool, shape.blocks - 1) + POOL_BLOCK_BYTES <= end);
	assert_int_equal((uintptr_t)lane->pool.blocks % 4096, 0);
	assert_int_equal((uintptr_t)lane_worker(lane, 1) % 64, 0);
}

static void test_memory_is_shared(void **state)
{
	struct lane *lane = *state;
	pid_t child = fork();

	if (child == 0) {
		conn_open(&lane_table(lane, 1).conns[7]);
		pool_bytes(&lane->pool, 9)[POOL_BLOCK_BYTES - 1] = 42;
		_exit(0);
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_true(conn_is_open(&lane_table(lane, 1).conns[7]));
	assert_false(conn_is_open(&lane_table(lane, 0).conns[7]));
	assert_int_equal(pool_bytes(&lane->pool, 9)[POOL_BLOCK_BYTES - 1], 42);
}

static void test_bound_holds_over_all_workers(void **state)
{
	struct lane *lane = *state;

	assert_true(lane_reserve(lane, 0));
	assert_true(lane_reserve(lane, 1));
	assert_true(lane_reserve(lane, 2));
	assert_true(lane_reserve(lane, 2));
	assert_false(lane_reserve(lane, 0));
	assert_false(lane_reserve(lane, 1));
	assert_int_equal(atomic_load(&lane_worker(lane, 0)->connections), 1);
	assert_false(room_was_told(lane));

	lane_release(lane, 2); /* whoever's ends, all are told */
	assert_true(room_was_told(lane));
	assert_true(lane_reserve(lane, 0));
}

static void test_room(void **state)
{
	struct lane *lane = *state;

	for (int i = 0; i < 3; i++)
		assert_true(lane_reserve(lane, 0));
	assert_true(lane_has_room(lane));
	assert_true(lane_reserve(lane, 1));
	assert_false(lane_has_room(lane));
	lane_release(lane, 0); /* the wish was noted by asking */
	assert_true(room_was_told(lane));
}

static void test_nobody_is_told_in_vain(void **state)
{
	struct lane *lane = *state;

	assert_true(lane_reserve(lane, 0));
	lane_release(lane, 0);
	assert_false(room_was_told(lane));
}

static void test_the_dead_leave_nothing(void **state)
{
	struct lane *lane = *state;
	struct pool_owner dead = {.worker = 1, .generation = 3};
	struct conn_table table = lane_table(lane, 1);

	for (int i = 0; i < 4; i++)
		assert_true(lane_reserve(lane, 1));
	assert_false(lane_reserve(lane, 0)); /* full; worker 0 waits */
	conn_open(&table.conns[20]);
	assert_int_not_equal(pool_take(&lane->pool, dead), POOL_NONE);
	atomic_store(&lane_worker(lane, 1)->phase, WORKER_READY);
	atomic_store(&lane_worker(lane, 1)->pause, PAUSE_FULL);
	atomic_store(&lane_worker(lane, 1)->busy_since_ns, 4711);
	atomic_store(&lane_worker(lane, 1)->fd_in_hand, 20);

	lane_bury(lane, dead);
	assert_false(conn_is_open(&table.conns[20]));
	assert_int_equal(conn_generation(&table.conns[20]), 0);
	assert_int_equal(atomic_load(&lane_worker(lane, 1)->phase), WORKER_GONE);
	assert_int_equal(atomic_load(&lane_worker(lane, 1)->connections), 0);
	assert_int_equal(atomic_load(&lane_worker(lane, 1)->pause), 0);
	assert_int_equal(atomic_load(&lane_worker(lane, 1)->busy_since_ns), 0);
	assert_int_equal(atomic_load(&lane_worker(lane, 1)->fd_in_hand), 0);
	for (uint32_t i = 0; i < shape.blocks; i++)
		assert_int_equal(atomic_load(&lane->pool.owner[i]), 0);
	assert_true(room_was_told(lane));
	assert_true(lane_reserve(lane, 0));
}

static void test_accepts_are_counted_by_listener(void **state)
{
	struct lane *lane = *state;

	atomic_store(&lane->board->watched, 1);
	for (uint32_t worker = 0; worker < shape.workers; worker++) {
		for (uint32_t i = 0; i <= worker; i++)
			lane_count_accept(lane, worker, 0);
		lane_count_accept(lane, worker, 1);
	}
	assert_int_equal(lane_accepted(lane, 0), 1 + 2 + 3);
	assert_int_equal(lane_accepted(lane, 1), 3);
}

/* However many listeners there are, what workers count lies apart, and apart from all else. */
static void test_counts_of_many_listeners(void **state)
{
	const struct lane_shape wide = {
		.workers = 70, .conns = 100, .blocks = 140, .max_connections = 100};
	struct lane lane;

	(void)state;
	assert_int_equal(lane_open(&lane, "echo", 0, &wide, 9, -1), 0);
	atomic_store(&lane.board->watched, 1);
	for (uint32_t worker = 0; worker < wide.workers; worker++) {
		for (size_t i = 0; i < 9; i++) {
			for (size_t k = 0; k <= i; k++)
				lane_count_accept(&lane, worker, i);
		}
	}
	for (size_t i = 0; i < 9; i++)
		assert_int_equal(lane_accepted(&lane, i), wide.workers * (i + 1));
	for (uint32_t worker = 0; worker < wide.workers; worker++)
		assert_int_equal(atomic_load(&lane_worker(&lane, worker)->asked), 0);
	for (uint32_t i = 0; i < wide.blocks; i++)
		assert_int_equal(atomic_load(&lane.pool.owner[i]), 0);
	lane_close(&lane);
}

/* A counter that went back would look like a queue in which nobody moves. */
static void test_accepts_outlive_the_worker(void **state)
{
	struct lane *lane = *state;

	atomic_store(&lane->board->watched, 1);
	lane_count_accept(lane, 1, 0);
	lane_count_accept(lane, 1, 1);
	lane_count_accept(lane, 2, 1);
	lane_bury(lane, (struct pool_owner){.worker = 1, .generation = 3});
	assert_int_equal(lane_accepted(lane, 0), 1);
	assert_int_equal(lane_accepted(lane, 1), 2);
	lane_count_accept(lane, 1, 1); /* the next process in the place */
	assert_int_equal(lane_accepted(lane, 1), 3);
}

static void test_a_sleeping_master_is_woken(void **state)
{
	int notice_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	struct lane lane;
	eventfd_t count;

	(void)state;
	assert_true(notice_fd >= 0);
	assert_int_equal(lane_open(&lane, "echo", 0, &shape, 1, notice_fd), 0);
	lane_count_accept(&lane, 0, 0); /* in a fresh lane nobody watches */
	assert_int_equal(eventfd_read(notice_fd, &count), 0);

	atomic_store(&lane.board->watched, 1);
	for (int i = 0; i < 100; i++)
		lane_count_accept(&lane, 0, 0);
	assert_int_equal(eventfd_read(notice_fd, &count), -1);
	assert_int_equal(errno, EAGAIN);

	atomic_store(&lane.board->watched, 0);
	lane_count_accept(&lane, 2, 0);
	assert_int_equal(eventfd_read(notice_fd, &count), 0);

	lane_close(&lane);
	assert_int_equal(eventfd_write(notice_fd, 1), 0); /* it was not the lane's to close */
	(void)close(notice_fd);
}

static void test_record_generations(void **state)
{
	struct conn conn = {0};

	(void)state;
	assert_false(conn_is_open(&conn));
	assert_int_equal(conn_open(&conn), 1);
	assert_true(conn_is_open(&conn));
	conn_close(&conn);
	assert_false(conn_is_open(&conn));
	assert_int_equal(conn_generation(&conn), 1);
	assert_int_equal(conn_open(&conn), 2);

	/* 0 marks what is no connection, so it is left out when the number wraps. */
	atomic_store(&conn.word, (uint64_t)UINT32_MAX << 32);
	assert_int_equal(conn_open(&conn), 1);
}

static void test_close_of_what_never_opened(void **state)
{
	struct lane lane = {0};

	(void)state;
	lane_close(&lane);
	assert_int_equal(lane.look_fd, -1);

	/* More than the address space has. */
	struct lane_shape huge = {.workers = 1, .conns = 1, .blocks = UINT32_MAX};

	assert_int_equal(lane_open(&lane, "echo", 0, &huge, 1, -1), -ENOMEM);
	assert_null(lane.board);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_parts_do_not_overlap, lane_setup,
						lane_teardown),
		cmocka_unit_test_setup_teardown(test_memory_is_shared, lane_setup, lane_teardown),
		cmocka_unit_test_setup_teardown(test_bound_holds_over_all_workers, lane_setup,
						lane_teardown),
		cmocka_unit_test_setup_teardown(test_room, lane_setup, lane_teardown),
		cmocka_unit_test_setup_teardown(test_nobody_is_told_in_vain, lane_setup,
						lane_teardown),
		cmocka_unit_test_setup_teardown(test_the_dead_leave_nothing, lane_setup,
						lane_teardown),
		cmocka_unit_test_setup_teardown(test_accepts_are_counted_by_listener, lane_setup,
						lane_teardown),
		cmocka_unit_test(test_counts_of_many_listeners),
		cmocka_unit_test_setup_teardown(test_accepts_outlive_the_worker, lane_setup,
						lane_teardown),
		cmocka_unit_test(test_a_sleeping_master_is_woken),
		cmocka_unit_test(test_record_generations),
		cmocka_unit_test(test_close_of_what_never_opened),
	};

	return cmocka_run_group_tests_name("lane", tests, NULL, NULL);
}
