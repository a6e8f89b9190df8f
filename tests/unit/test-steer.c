/*
 * Steering: which member of a group the kernel gives new connections to. Real connections, by
 * whoever runs the test; one case without any privilege.
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <netinet/in.h>

#include <cmocka.h>

#include "base/fd.h"
#include "net/listener.h"
#include "net/steer.h"

#define MEMBERS 4
#define CLIENTS 100
#define NOBODY  65534

/* A group: member i is the i-th that began to listen. -1: closed, or not opened. */
struct lanes {
	struct address address;
	int fds[MEMBERS];
};

static struct lanes lanes;

/* Puts a free address of the loopback interface into `lanes`. Returns whether it could. */
static bool address_take(int family)
{
	struct address *address = &lanes.address;
	int fd = socket(family, SOCK_STREAM, 0);

	lanes = (struct lanes){.fds = {-1, -1, -1, -1}};
	address->sa.sa_family = (sa_family_t)family;
	if (family == AF_INET) {
		address->length = sizeof(address->in);
		address->in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	} else {
		address->length = sizeof(address->in6);
		address->in6.sin6_addr = in6addr_loopback;
	}

	bool good = fd >= 0 && bind(fd, &address->sa, address->length) == 0 &&
		    getsockname(fd, &address->sa, &address->length) == 0;

	fd_close(fd);
	return good;
}

/* Opens the first n members. Returns whether all could be opened. */
static bool lanes_open(int family, size_t n)
{
	bool good = address_take(family);

	for (size_t i = 0; i < n && good; i++) {
		lanes.fds[i] = listener_open(&lanes.address,
					     i == 0 ? LISTENER_FIRST : LISTENER_FURTHER, CLIENTS);
		good = lanes.fds[i] >= 0;
	}
	return good;
}

static int lanes_setup(void **state)
{
	(void)state;
	return lanes_open(AF_INET, MEMBERS) ? 0 : -1;
}

static int lanes_teardown(void **state)
{
	(void)state;
	for (size_t i = 0; i < MEMBERS; i++)
		lanes.fds[i] = fd_close(lanes.fds[i]);
	return 0;
}

/* Who got how many of some clients. */
struct share {
	int of[MEMBERS];
	int lost; /* clients that are in no queue of ours */
};

/* Accepts all that are in the queues. */
static void share_count(struct share *share)
{
	for (size_t i = 0; i < MEMBERS; i++) {
		int fd;

		while (lanes.fds[i] >= 0 && (fd = accept(lanes.fds[i], NULL, NULL)) >= 0) {
			fd_close(fd);
			share->of[i]++;
			share->lost--;
		}
	}
}

/* Lets n clients connect, counts them by member, and sends them all away. */
static struct share clients_share(int n)
{
	struct share share = {.lost = n};
	struct pollfd polls[MEMBERS];
	int clients[CLIENTS];

	for (int i = 0; i < n; i++) {
		clients[i] = socket(lanes.address.sa.sa_family, SOCK_STREAM, 0);
		(void)connect(clients[i], &lanes.address.sa, lanes.address.length);
	}
	for (size_t i = 0; i < MEMBERS; i++)
		polls[i] = (struct pollfd){.fd = lanes.fds[i], .events = POLLIN};
	/* The last part of a handshake may come after connect() has returned. */
	while (share.lost > 0 && poll(polls, MEMBERS, 5000) > 0)
		share_count(&share);
	share_count(&share);
	for (int i = 0; i < n; i++)
		fd_close(clients[i]);
	return share;
}

/* All clients go to members whose bit is set, and every one of these gets some. */
static void assert_shared_by(unsigned members)
{
	struct share share = clients_share(CLIENTS);

	assert_int_equal(share.lost, 0);
	for (unsigned i = 0; i < MEMBERS; i++) {
		if (members & 1U << i)
			assert_true(share.of[i] > 0); /* by chance one time in 10^12 */
		else
			assert_int_equal(share.of[i], 0);
	}
}

static int attach(int fd, size_t n, unsigned a, unsigned b, unsigned c)
{
	const unsigned members[] = {a, b, c};

	return steer_attach(fd, members, n);
}

/*
 * Also of the first, which becomes a member only when the second joins, after it has listened for
 * a while.
 */
static void check_index_is_order(void)
{
	for (unsigned i = 0; i < MEMBERS; i++) {
		assert_int_equal(attach(lanes.fds[0], 1, i, 0, 0), 0);
		assert_shared_by(1U << i);
	}
}

static void test_index_is_order(void **state)
{
	(void)state;
	assert_shared_by(15);
	check_index_is_order();
}

static void test_index_is_order_in_ipv6(void **state)
{
	(void)state;
	if (!listener_family_usable(AF_INET6))
		skip();
	assert_int_equal(lanes_teardown(NULL), 0);
	assert_true(lanes_open(AF_INET6, MEMBERS));
	check_index_is_order();
}

/* Each of the four in turn is left out, by way of another member's socket. */
static void test_one_is_left_out(void **state)
{
	(void)state;
	for (unsigned out = 0; out < MEMBERS; out++) {
		assert_int_equal(attach(lanes.fds[out], 3, (out + 1) % MEMBERS, (out + 2) % MEMBERS,
					(out + 3) % MEMBERS),
				 0);
		assert_shared_by(15U & ~(1U << out));
	}
}

/* By chance, and all alike: of 1200 clients each of three gets 400, within six deviations. */
static void test_shares_are_even(void **state)
{
	int sums[MEMBERS] = {0};

	(void)state;
	assert_int_equal(attach(lanes.fds[0], 3, 0, 1, 3), 0);
	for (int round = 0; round < 12; round++) {
		struct share share = clients_share(CLIENTS);

		assert_int_equal(share.lost, 0);
		for (size_t i = 0; i < MEMBERS; i++)
			sums[i] += share.of[i];
	}
	assert_int_equal(sums[2], 0);
	assert_in_range(sums[0], 300, 500);
	assert_in_range(sums[1], 300, 500);
	assert_in_range(sums[3], 300, 500);
}

static void test_detach(void **state)
{
	(void)state;
	assert_int_equal(attach(lanes.fds[0], 1, 2, 0, 0), 0);
	assert_shared_by(1U << 2);
	assert_int_equal(steer_detach(lanes.fds[3]), 0);
	assert_shared_by(15);
	assert_int_equal(steer_detach(lanes.fds[3]), 0);
}

/* The clients of a wrong answer are not lost: the hash takes them. */
static void test_wrong_index(void **state)
{
	(void)state;
	assert_int_equal(attach(lanes.fds[0], 1, MEMBERS, 0, 0), 0);
	assert_shared_by(15);
	assert_int_equal(attach(lanes.fds[0], 1, UINT32_MAX, 0, 0), 0);
	assert_shared_by(15);
}

/* Member 1 of 0, 1, 2, 3 goes: now it is 0, 3, 2. */
static void test_indexes_shift(void **state)
{
	(void)state;
	assert_int_equal(attach(lanes.fds[0], 1, 1, 0, 0), 0);
	assert_shared_by(1U << 1);
	lanes.fds[1] = fd_close(lanes.fds[1]);
	assert_shared_by(1U << 3);
	assert_int_equal(attach(lanes.fds[0], 1, 2, 0, 0), 0);
	assert_shared_by(1U << 2);
	assert_int_equal(attach(lanes.fds[0], 1, 0, 0, 0), 0);
	assert_shared_by(1U << 0);
	assert_int_equal(attach(lanes.fds[0], 1, 3, 0, 0), 0);
	assert_shared_by(1U << 0 | 1U << 2 | 1U << 3);

	/* Who joins is the last, and gets nothing before the next attach. */
	assert_int_equal(attach(lanes.fds[0], 2, 0, 1, 0), 0);
	lanes.fds[1] = listener_open(&lanes.address, LISTENER_FURTHER, CLIENTS);
	assert_true(lanes.fds[1] >= 0);
	assert_shared_by(1U << 0 | 1U << 3);
	assert_int_equal(attach(lanes.fds[0], 1, 3, 0, 0), 0);
	assert_shared_by(1U << 1);
}

/* What is attached is the group's and outlives the socket by which it came. */
static void test_first_closes(void **state)
{
	(void)state;
	assert_int_equal(attach(lanes.fds[0], 1, 0, 0, 0), 0);
	lanes.fds[0] = fd_close(lanes.fds[0]);
	assert_shared_by(1U << 3);
}

static void test_queues_are_not_touched(void **state)
{
	int client = socket(AF_INET, SOCK_STREAM, 0);

	(void)state;
	assert_int_equal(attach(lanes.fds[0], 1, 2, 0, 0), 0);
	assert_int_equal(connect(client, &lanes.address.sa, lanes.address.length), 0);
	assert_int_equal(attach(lanes.fds[0], 3, 0, 1, 3), 0);
	assert_int_equal(listener_depth(lanes.fds[2]), 1);
	fd_close(client);
}

static void test_longest_program(void **state)
{
	unsigned members[STEER_MEMBERS_MAX + 1];

	(void)state;
	for (size_t i = 0; i < STEER_MEMBERS_MAX + 1; i++)
		members[i] = i < STEER_MEMBERS_MAX / 2 ? 1 : 3;
	assert_int_equal(steer_attach(lanes.fds[0], members, STEER_MEMBERS_MAX), 0);
	assert_shared_by(1U << 1 | 1U << 3);
	assert_int_equal(steer_attach(lanes.fds[0], members, STEER_MEMBERS_MAX + 1), -EINVAL);
	assert_int_equal(steer_attach(lanes.fds[0], members, 0), -EINVAL);
	/* What was refused has changed nothing. */
	assert_shared_by(1U << 1 | 1U << 3);
}

static void test_alone(void **state)
{
	(void)state;
	assert_int_equal(lanes_teardown(NULL), 0);
	assert_true(lanes_open(AF_INET, 1));
	assert_int_equal(attach(lanes.fds[0], 1, 0, 0, 0), -EINVAL);
	assert_int_equal(steer_detach(lanes.fds[0]), 0);
	assert_shared_by(1);
	assert_int_equal(attach(-1, 1, 0, 0, 0), -EBADF);
	assert_int_equal(steer_detach(-1), -EBADF);
}

/* In a child, which gives up what root may do that others may not. */
static void test_no_privilege_needed(void **state)
{
	(void)state;

	pid_t child = fork();

	if (child == 0) {
		if (geteuid() == 0 && setresuid(NOBODY, NOBODY, NOBODY) < 0)
			_exit(2);
		(void)lanes_teardown(NULL);
		if (!lanes_open(AF_INET, MEMBERS) || attach(lanes.fds[1], 1, 2, 0, 0) < 0)
			_exit(3);

		int got = clients_share(10).of[2];

		_exit(got == 10 && steer_detach(lanes.fds[0]) == 0 ? 0 : 4);
	}

	int status = -1;

	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, lanes_setup, lanes_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_index_is_order),
		TEST(test_index_is_order_in_ipv6),
		TEST(test_one_is_left_out),
		TEST(test_shares_are_even),
		TEST(test_detach),
		TEST(test_wrong_index),
		TEST(test_indexes_shift),
		TEST(test_first_closes),
		TEST(test_queues_are_not_touched),
		TEST(test_longest_program),
		TEST(test_alone),
		TEST(test_no_privilege_needed),
	};

	return cmocka_run_group_tests_name("steer", tests, NULL, NULL);
}
