/* Listeners: who may share an address, what connections inherit, and keeping new clients out. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <cmocka.h>

#include "base/fd.h"
#include "net/listener.h"

/* A free address of the loopback interface. */
static struct address free_address(int family)
{
	struct address address = {.length = family == AF_INET ? sizeof(address.in)
							      : sizeof(address.in6)};
	int fd = socket(family, SOCK_STREAM, 0);

	address.sa.sa_family = (sa_family_t)family;
	if (family == AF_INET)
		address.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		address.in6.sin6_addr = in6addr_loopback;
	assert_int_equal(bind(fd, &address.sa, address.length), 0);
	assert_int_equal(getsockname(fd, &address.sa, &address.length), 0);
	fd_close(fd);
	return address;
}

/* A client: connected, or on the way (-EINPROGRESS in *ret_error). */
static int connect_to(const struct address *address, int flags, int *ret_error)
{
	int fd = socket(address->sa.sa_family, SOCK_STREAM | flags, 0);

	assert_true(fd >= 0);
	*ret_error = connect(fd, &address->sa, address->length) == 0 ? 0 : -errno;
	return fd;
}

static int option(int fd, int level, int name)
{
	int value = -1;
	socklen_t size = sizeof(value);

	assert_int_equal(getsockopt(fd, level, name, &value, &size), 0);
	return value;
}

static void test_first_is_exclusive(void **state)
{
	struct address address = free_address(AF_INET);
	int first = listener_open(&address, LISTENER_FIRST, 16);
	int further = listener_open(&address, LISTENER_FURTHER, 16);

	(void)state;
	assert_true(first >= 0);
	assert_true(further >= 0);
	assert_int_equal(listener_open(&address, LISTENER_FIRST, 16), -EADDRINUSE);
	fd_close(first);
	fd_close(further);

	first = listener_open(&address, LISTENER_FIRST, 16);
	assert_true(first >= 0);
	fd_close(first);
}

/* Both sockets are in one group: over many clients each gets some. */
static void test_first_and_further_share(void **state)
{
	struct address address = free_address(AF_INET);
	int lanes[2] = {listener_open(&address, LISTENER_FIRST, 128),
			listener_open(&address, LISTENER_FURTHER, 128)};
	int clients[64], error;

	(void)state;
	for (size_t i = 0; i < 64; i++) {
		clients[i] = connect_to(&address, 0, &error);
		assert_int_equal(error, 0);
	}

	int a = listener_depth(lanes[0]), b = listener_depth(lanes[1]);

	assert_int_equal(a + b, 64);
	assert_true(a > 0 && b > 0); /* by chance one time in 2^63 */
	for (size_t i = 0; i < 64; i++)
		fd_close(clients[i]);
	fd_close(lanes[0]);
	fd_close(lanes[1]);
}

/* Beside one that listens, and for a wider address: nobody finds it before it begins. */
static void test_held(void **state)
{
	struct address address = free_address(AF_INET), any = address;
	int first = listener_open(&address, LISTENER_FIRST, 64), error;
	int clients[8];
	int further, wider;

	any.in.sin_addr.s_addr = htonl(INADDR_ANY);
	further = listener_open(&address, LISTENER_HELD, 64);
	wider = listener_open(&any, LISTENER_HELD, 64);
	assert_true(first >= 0 && further >= 0 && wider >= 0);
	assert_int_equal(listener_open(&any, LISTENER_FIRST, 64), -EADDRINUSE);
	for (size_t i = 0; i < 8; i++) {
		clients[i] = connect_to(&address, 0, &error);
		assert_int_equal(error, 0);
	}
	assert_int_equal(listener_depth(first), 8);

	assert_int_equal(listener_begin(further, 64), 0);
	assert_int_equal(listener_begin(wider, 64), 0);
	assert_int_equal(listener_depth(further), 0);
	assert_int_equal(option(further, IPPROTO_TCP, TCP_NODELAY), 1);
	assert_int_equal(listener_begin(further, 7), 0); /* once more: another backlog */

	for (size_t i = 0; i < 8; i++)
		fd_close(clients[i]);
	fd_close(first);
	fd_close(further);
	error = 0;
	clients[0] = connect_to(&address, 0, &error); /* the wider one is left */
	assert_int_equal(error, 0);
	assert_int_equal(listener_depth(wider), 1);
	fd_close(clients[0]);
	fd_close(wider);
	(void)state;
}

static void test_families_are_apart(void **state)
{
	struct address any6, any4 = {.length = sizeof(any4.in)};
	int six, four = -EADDRINUSE;

	(void)state;
	if (!listener_family_usable(AF_INET6))
		skip();
	/* A port that is free in one family may be some client's in the other. */
	for (int tries = 0; tries < 50 && four == -EADDRINUSE; tries++) {
		any6 = free_address(AF_INET6);
		any6.in6.sin6_addr = in6addr_any;
		any4.in.sin_family = AF_INET;
		any4.in.sin_port = any6.in6.sin6_port;
		six = listener_open(&any6, LISTENER_FIRST, 16);
		assert_true(six >= 0);
		four = listener_open(&any4, LISTENER_FIRST, 16);
		fd_close(six);
	}
	assert_true(four >= 0);
	fd_close(four);
}

static void test_connections_inherit(void **state)
{
	struct address address = free_address(AF_INET);
	int listener = listener_open(&address, LISTENER_FIRST, 16), error;
	int client = connect_to(&address, 0, &error);

	(void)state;
	assert_int_equal(error, 0);

	int server = accept(listener, NULL, NULL);

	assert_true(server >= 0);
	assert_int_equal(option(server, IPPROTO_TCP, TCP_NODELAY), 1);
	assert_int_equal(option(server, SOL_SOCKET, SO_OOBINLINE), 1);
	assert_int_equal(option(server, SOL_SOCKET, SO_RCVLOWAT), 1);
	assert_int_equal(option(listener, IPPROTO_TCP, TCP_FASTOPEN), 0);
	assert_int_equal(option(listener, SOL_SOCKET, SO_REUSEPORT), 1);
	fd_close(server);
	fd_close(client);
	fd_close(listener);
}

static void test_mute(void **state)
{
	struct address address = free_address(AF_INET);
	int listener = listener_open(&address, LISTENER_FIRST, 16), error;
	int waiting = connect_to(&address, 0, &error);

	(void)state;
	assert_int_equal(error, 0);
	assert_int_equal(listener_depth(listener), 1);
	assert_int_equal(listener_mute(listener), 0);

	int late = connect_to(&address, 0, &error);

	assert_int_equal(error, -ECONNREFUSED);
	assert_int_equal(listener_depth(listener), 1);

	/* Who was in the queue is served. */
	int server = accept(listener, NULL, NULL);
	char byte = 'x';

	assert_true(server >= 0);
	assert_int_equal(write(waiting, &byte, 1), 1);
	assert_int_equal(read(server, &byte, 1), 1);
	fd_close(server);
	fd_close(waiting);
	fd_close(late);
	fd_close(listener);
}

/* A client whose handshake has begun is let in, and served as any other. */
static void test_mute_in_the_middle_of_a_handshake(void **state)
{
	struct address address = free_address(AF_INET);
	int listener = listener_open(&address, LISTENER_FIRST, 16), error, defer_s = 10;
	struct pollfd poll_listener = {.fd = listener, .events = POLLIN};
	char byte = 'x';

	(void)state;
	/* A handshake that lasts until the first byte comes. */
	assert_int_equal(
		setsockopt(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, &defer_s, sizeof(defer_s)), 0);

	int client = connect_to(&address, 0, &error);

	assert_int_equal(error, 0);
	assert_int_equal(listener_depth(listener), 0);
	assert_int_equal(listener_mute(listener), 0);
	assert_int_equal(write(client, &byte, 1), 1);
	assert_int_equal(poll(&poll_listener, 1, 5000), 1);

	int server = accept(listener, NULL, NULL);

	assert_true(server >= 0);
	assert_int_equal(read(server, &byte, 1), 1);
	assert_int_equal(write(server, &byte, 1), 1);
	assert_int_equal(read(client, &byte, 1), 1);
	fd_close(server);
	fd_close(client);
	fd_close(listener);
}

static void test_errors_come_back(void **state)
{
	struct address nowhere = {.length = sizeof(nowhere.in)};

	(void)state;
	nowhere.in.sin_family = AF_INET;
	nowhere.in.sin_port = htons(7007);
	nowhere.in.sin_addr.s_addr = htonl(0xc0000201); /* 192.0.2.1, for documentation */
	assert_int_equal(listener_open(&nowhere, LISTENER_FIRST, 16), -EADDRNOTAVAIL);
	assert_true(listener_family_usable(AF_INET));
	assert_true(listener_depth(-1) == -EBADF);
	assert_true(listener_mute(-1) == -EBADF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_is_exclusive),
		cmocka_unit_test(test_first_and_further_share),
		cmocka_unit_test(test_held),
		cmocka_unit_test(test_families_are_apart),
		cmocka_unit_test(test_connections_inherit),
		cmocka_unit_test(test_mute),
		cmocka_unit_test(test_mute_in_the_middle_of_a_handshake),
		cmocka_unit_test(test_errors_come_back),
	};

	return cmocka_run_group_tests_name("listener", tests, NULL, NULL);
}
