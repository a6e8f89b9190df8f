/*
 * Accepting: what each errno of accept4 leads to. The linker puts __wrap_accept4 in the place of
 * accept4, so every errno can be had.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/log.h"
#include "engine/accept.h"

#define LISTENER 77
#define CLIENT   99

static int next_error;
static unsigned calls;

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
	assert_int_equal(fd, LISTENER);
	assert_null(address);
	assert_null(length);
	assert_int_equal(flags, SOCK_NONBLOCK | SOCK_CLOEXEC);
	calls++;
	errno = next_error;
	return next_error == 0 ? CLIENT : -1;
}

static struct lane lane;
static struct acceptor acceptor;
static int result;

static int acceptor_setup(void **state)
{
	const struct lane_shape shape = {
		.workers = 2, .conns = 100, .blocks = 4, .max_connections = 3};

	(void)state;
	acceptor =
		(struct acceptor){.lane = &lane, .worker = 0, .name = "echo/0.0", .capacity = 50};
	calls = 0;
	return lane_open(&lane, "echo", 0, &shape, 1, -1);
}

static int acceptor_teardown(void **state)
{
	(void)state;
	lane_close(&lane);
	return 0;
}

static enum accept_outcome take(int error, uint32_t held, uint32_t now_ms)
{
	next_error = error;
	return acceptor_take(&acceptor, LISTENER, held, now_ms, &result);
}

static uint32_t counted(void)
{
	return atomic_load(&lane_worker(&lane, 0)->connections);
}

static void test_a_client(void **state)
{
	(void)state;
	assert_int_equal(take(0, 0, 0), ACCEPT_TAKEN);
	assert_int_equal(result, CLIENT);
	assert_int_equal(counted(), 1);
}

static void test_nobody(void **state)
{
	(void)state;
	assert_int_equal(take(EAGAIN, 0, 0), ACCEPT_EMPTY);
	assert_int_equal(counted(), 0);
	assert_int_equal(acceptor.pause, PAUSE_NONE);
}

/* An error of one client says nothing about the next. */
static void test_gone_already(void **state)
{
	static const int errors[] = {EINTR,       ECONNABORTED, EPROTO, ENETDOWN,
				     ENOPROTOOPT, EHOSTDOWN,    ENONET, EHOSTUNREACH,
				     ENETUNREACH, ETIMEDOUT};

	(void)state;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		assert_int_equal(take(errors[i], 0, 0), ACCEPT_SKIPPED);
		assert_int_equal(counted(), 0);
	}
}

static void test_listener_is_useless(void **state)
{
	static const int errors[] = {EBADF, EINVAL, ENOTSOCK, EOPNOTSUPP, EFAULT};

	(void)state;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		assert_int_equal(take(errors[i], 0, 0), ACCEPT_FAILED);
		assert_int_equal(result, -errors[i]);
		assert_int_equal(counted(), 0);
	}
}

/* What keeps the client in the queue: later, later still, and never in a tight loop. */
static void test_back_off(void **state)
{
	/* Full tables, somebody's filter, and what nobody has thought of. */
	static const int errors[] = {ENFILE, ENOBUFS, ENOMEM, EPERM, EACCES, ENOSYS, EXDEV};
	int waits_ms[8];

	(void)state;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		uint32_t now_ms = 1000;

		acceptor.back_off_ms = 0;
		for (int k = 0; k < 8; k++) {
			assert_int_equal(take(errors[i], 0, now_ms), ACCEPT_PAUSED);
			assert_int_equal(acceptor.pause, PAUSE_HOST);
			assert_int_equal(counted(), 0);
			waits_ms[k] = acceptor_timeout_ms(&acceptor, now_ms);
			assert_false(acceptor_due(&acceptor, now_ms));
			now_ms += (uint32_t)waits_ms[k];
			assert_true(acceptor_due(&acceptor, now_ms));
		}
		assert_int_equal(waits_ms[0], 50);
		assert_int_equal(waits_ms[1], 100);
		assert_int_equal(waits_ms[7], 1000);
		assert_int_equal(take(0, 0, now_ms), ACCEPT_TAKEN);
		lane_release(&lane, 0);
		assert_int_equal(take(errors[i], 0, now_ms), ACCEPT_PAUSED);
		assert_int_equal(acceptor_timeout_ms(&acceptor, now_ms), 50);
	}
}

/* The process's own table: a connection that ends is enough, but the limit may be raised, too. */
static void test_own_table_full(void **state)
{
	(void)state;
	assert_int_equal(take(EMFILE, 5, 0), ACCEPT_PAUSED);
	assert_int_equal(acceptor.pause, PAUSE_FULL);
	assert_int_equal(acceptor_timeout_ms(&acceptor, 0), 50);
}

static void test_own_capacity(void **state)
{
	(void)state;
	assert_int_equal(take(0, 50, 0), ACCEPT_PAUSED);
	assert_int_equal(calls, 0);
	assert_int_equal(acceptor.pause, PAUSE_FULL);
	assert_int_equal(acceptor_timeout_ms(&acceptor, 0), -1); /* only an end of its own helps */
	assert_int_equal(counted(), 0);
}

static void test_lane_full(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++)
		assert_true(lane_reserve(&lane, 1));
	assert_int_equal(take(0, 0, 0), ACCEPT_PAUSED);
	assert_int_equal(calls, 0);
	assert_int_equal(acceptor.pause, PAUSE_ROOM);
	assert_int_equal(acceptor_timeout_ms(&acceptor, 0), -1);
	assert_int_equal(counted(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_client, acceptor_setup, acceptor_teardown),
		cmocka_unit_test_setup_teardown(test_nobody, acceptor_setup, acceptor_teardown),
		cmocka_unit_test_setup_teardown(test_gone_already, acceptor_setup,
						acceptor_teardown),
		cmocka_unit_test_setup_teardown(test_listener_is_useless, acceptor_setup,
						acceptor_teardown),
		cmocka_unit_test_setup_teardown(test_back_off, acceptor_setup, acceptor_teardown),
		cmocka_unit_test_setup_teardown(test_own_table_full, acceptor_setup,
						acceptor_teardown),
		cmocka_unit_test_setup_teardown(test_own_capacity, acceptor_setup,
						acceptor_teardown),
		cmocka_unit_test_setup_teardown(test_lane_full, acceptor_setup, acceptor_teardown),
	};

	log_open(LOG_TARGET_STDERR, -1); /* what is logged here is on purpose */
	return cmocka_run_group_tests_name("accept", tests, NULL, NULL);
}
