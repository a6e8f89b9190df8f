/*
 * The control socket's server, whatever its clients do.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/server.h"

struct fixture {
	sd_event *event;
	struct server *server;
	struct sockaddr_un address; /* abstract, chosen by the kernel */
	socklen_t address_size;
	bool trust;
	struct client *waiting; /* whose call is answered later */
	unsigned gone;
};

/* "x.Later" is answered later, "x.Large" at length, anything else with its name. */
static void answer(void *userdata, struct client *client, const struct call *call)
{
	struct fixture *fixture = userdata;

	if (strcmp(call->method, "x.Later") == 0) {
		fixture->waiting = client;
	} else if (strcmp(call->method, "x.Large") == 0) {
		char *text = malloc(4U << 20);

		assert_non_null(text);
		memset(text, 'x', 4U << 20);
		text[(4U << 20) - 1] = '\0';
		client_reply(client, text);
	} else {
		client_reply(client, call_reply(json_pack("{s:s}", "method", call->method)));
	}
}

static void gone(void *userdata, struct client *client)
{
	struct fixture *fixture = userdata;

	assert_ptr_equal(client, fixture->waiting);
	fixture->gone++;
}

static bool trusts(void *userdata, int fd, uid_t uid)
{
	(void)fd;
	assert_int_equal(uid, getuid());
	return ((struct fixture *)userdata)->trust;
}

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	fixture->trust = true;
	fixture->address.sun_family = AF_UNIX;
	fixture->address_size = sizeof(fixture->address);
	assert_return_code(bind(fd, (void *)&fixture->address, sizeof(sa_family_t)), errno);
	assert_return_code(getsockname(fd, (void *)&fixture->address, &fixture->address_size),
			   errno);
	assert_return_code(listen(fd, 100), errno);
	assert_return_code(sd_event_new(&fixture->event), errno);
	assert_return_code(server_open(&fixture->server, fixture->event, fd,
				       &(struct server_handlers){answer, gone, trusts, fixture}),
			   errno);
	*state = fixture;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;

	server_close(fixture->server);
	sd_event_unref(fixture->event);
	free(fixture);
	return 0;
}

/* Lets the server do all that it can do now. */
static void serve(struct fixture *fixture)
{
	while (sd_event_run(fixture->event, 0) > 0)
		;
}

static int client_new(struct fixture *fixture)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_return_code(connect(fd, (void *)&fixture->address, fixture->address_size), errno);
	serve(fixture);
	return fd;
}

static void say(struct fixture *fixture, int fd, const char *bytes, size_t size)
{
	assert_int_equal(send(fd, bytes, size, MSG_NOSIGNAL), size);
	serve(fixture);
}

#define SAY(fixture, fd, text) say(fixture, fd, text, sizeof(text))

/* What the server has sent starts with that text; "": it has closed; NULL: nothing. */
static void hears(int fd, const char *text)
{
	char bytes[512] = "";
	ssize_t n = recv(fd, bytes, sizeof(bytes) - 1, MSG_DONTWAIT);

	if (!text) {
		assert_int_equal(n, -1);
		assert_int_equal(errno, EAGAIN);
	} else if (*text == '\0') {
		assert_true(n == 0 || (n < 0 && errno == ECONNRESET));
	} else {
		assert_true(n > 0);
		bytes[strlen(text)] = '\0';
		assert_string_equal(bytes, text);
	}
}

static void test_calls_in_pieces_and_together(void **state)
{
	int fd = client_new(*state);

	say(*state, fd, "{\"method\":", 10);
	hears(fd, NULL);
	SAY(*state, fd, "\"x.A\"}");
	hears(fd, "{\"parameters\":{\"method\":\"x.A\"}}");
	SAY(*state, fd, "{\"method\":\"x.B\",\"oneway\":true}\0{\"method\":\"x.C\"}");
	hears(fd, "{\"parameters\":{\"method\":\"x.C\"}}");
	hears(fd, NULL);
	close(fd);
	serve(*state);
}

static void test_garbage_is_refused(void **state)
{
	int fd = client_new(*state);

	SAY(*state, fd, "GET / HTTP/1.1");
	hears(fd, "{\"error\":\"org.laned.InvalidCall\"");
	hears(fd, "");
	close(fd);
}

static void test_endless_call_is_refused(void **state)
{
	static char bytes[CALL_MAX + 1];
	int fd = client_new(*state);

	memset(bytes, ' ', sizeof(bytes));
	say(*state, fd, bytes, sizeof(bytes));
	hears(fd, "{\"error\":\"org.laned.InvalidCall\"");
	hears(fd, "");
	close(fd);
}

static void test_next_call_waits_for_the_answer(void **state)
{
	struct fixture *fixture = *state;
	int fd = client_new(fixture), other = client_new(fixture);

	SAY(fixture, fd, "{\"method\":\"x.Later\"}\0{\"method\":\"x.A\"}");
	hears(fd, NULL);
	SAY(fixture, other, "{\"method\":\"x.B\"}");
	hears(other, "{\"parameters\":{\"method\":\"x.B\"}}");
	client_reply(fixture->waiting, call_reply(NULL));
	hears(fd, "{\"parameters\":{}}");
	assert_int_equal(fixture->gone, 0);
	close(fd);
	close(other);
}

static void test_who_leaves_is_forgotten(void **state)
{
	struct fixture *fixture = *state;
	int fd = client_new(fixture);

	SAY(fixture, fd, "{\"method\":\"x.Later\"}");
	close(fd);
	serve(fixture);
	assert_int_equal(fixture->gone, 1);
}

static void test_who_does_not_read_gets_no_second_reply(void **state)
{
	int fd = client_new(*state), other = client_new(*state);

	for (int i = 0; i < 100; i++)
		SAY(*state, fd, "{\"method\":\"x.Large\"}");
	SAY(*state, other, "{\"method\":\"x.B\"}");
	hears(other, "{\"parameters\":{\"method\":\"x.B\"}}");
	close(fd);
	close(other);
}

/* How many of 70 clients are served. */
static unsigned count_served(struct fixture *fixture)
{
	int fds[70];
	unsigned n = 0;

	for (size_t i = 0; i < 70; i++) {
		char byte;

		fds[i] = client_new(fixture);
		n += recv(fds[i], &byte, 1, MSG_DONTWAIT) < 0;
	}
	for (size_t i = 0; i < 70; i++)
		close(fds[i]);
	serve(fixture);
	return n;
}

static void test_clients_are_counted(void **state)
{
	assert_int_equal(count_served(*state), SERVER_CLIENTS);
}

/* One user who may not act leaves room for others. */
static void test_half_is_kept_for_others(void **state)
{
	((struct fixture *)*state)->trust = false;
	assert_int_equal(count_served(*state), SERVER_CLIENTS / 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_calls_in_pieces_and_together),
		TEST(test_garbage_is_refused),
		TEST(test_endless_call_is_refused),
		TEST(test_next_call_waits_for_the_answer),
		TEST(test_who_leaves_is_forgotten),
		TEST(test_who_does_not_read_gets_no_second_reply),
		TEST(test_clients_are_counted),
		TEST(test_half_is_kept_for_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
