#include "bench/burst.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/units.h"

#define PATTERN_BYTES 65521U /* prime, as is the step: 65521 requests start at different places */
#define PATTERN_STEP  7919U
#define BUFFER_BYTES  65536U
#define EVENTS_MAX    64

struct loop {
	const struct burst_options *options;
	struct burst *burst;
	int epoll_fd;
	unsigned n_open;  /* clients that are not at their ends */
	unsigned oldest;  /* all clients before this one are */
	uint8_t *pattern; /* noise, PATTERN_BYTES that repeat, and a request more */
	uint8_t *buffer;
};

/* --- One client ------------------------------------------------------------------------------ */

static void client_end(struct loop *loop, struct burst_client *client)
{
	client->fd = fd_close(client->fd); /* and the epoll set forgets it */
	client->end_ns = clock_now_ns();
	loop->n_open--;
}

static void client_fail(struct loop *loop, struct burst_client *client, enum burst_reason reason,
			int error)
{
	client->reason = reason;
	client->error = error;
	client_end(loop, client);
}

/* A window of the pattern that is this client's own: an answer to another one is no answer. */
static const uint8_t *client_request(const struct loop *loop, const struct burst_client *client)
{
	uint64_t index = (uint64_t)(client - loop->burst->clients);

	return loop->pattern + index * PATTERN_STEP % PATTERN_BYTES;
}

static void client_send(struct loop *loop, struct burst_client *client)
{
	const uint8_t *request = client_request(loop, client);
	const size_t length = loop->options->request_bytes;

	while (client->sent < length) {
		ssize_t n = send(client->fd, request + client->sent, length - client->sent,
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		/*
		 * EAGAIN also while the handshake is under way (tcp_sendmsg_locked() waits for it,
		 * here not at all), and if that has failed, why.
		 */
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0) {
			client_fail(loop, client,
				    client->stage == BURST_CONNECTING ? BURST_CONNECT : BURST_SEND,
				    errno);
			return;
		}
		client->stage = BURST_SENDING;
		client->sent += (size_t)n;
	}
	if (client->stage == BURST_SENDING) {
		/* If the connection has been reset by now, reading says so. */
		(void)shutdown(client->fd, SHUT_WR);
		client->stage = BURST_RECEIVING;
	}
}

static size_t common_length(const uint8_t *a, const uint8_t *b, size_t length)
{
	size_t i = 0;

	while (i < length && a[i] == b[i])
		i++;
	return i;
}

/* What came back, `length` bytes in the buffer. Returns false if that was the client's end. */
static bool client_take(struct loop *loop, struct burst_client *client, size_t length)
{
	const uint64_t now_ns = clock_now_ns();
	const size_t missing = loop->options->request_bytes - client->received;
	const size_t part = length < missing ? length : missing;
	const uint8_t *wanted = client_request(loop, client) + client->received;

	if (memcmp(loop->buffer, wanted, part) != 0) {
		client->received += common_length(loop->buffer, wanted, part);
		client_fail(loop, client, BURST_MISMATCH, 0);
		return false;
	}
	client->received += part;
	if (missing > 0 && part == missing) {
		client->latency_ns = now_ns - client->start_ns;
		client->stage = BURST_ENDING;
	}

	length -= part;
	if (client->tag_length + length > BURST_TAG_MAX) {
		client_fail(loop, client, BURST_MISMATCH_TAIL, 0);
		return false;
	}
	memcpy(client->tag + client->tag_length, loop->buffer + part, length);
	client->tag_length += length;
	return true;
}

static const char *skip_digits(const char *text)
{
	return text + strspn(text, "0123456789");
}

/* Makes the name of the tag. Returns false if it is none, " GROUP/LANE.WORKER\n". */
static bool tag_read(struct burst_client *client)
{
	char *tag = client->tag;
	char *slash = strrchr(tag, '/');
	const char *lane, *worker;

	if (client->tag_length == 0)
		return true;
	if (strlen(tag) != client->tag_length || tag[0] != ' ' || !slash || slash == tag + 1)
		return false;
	if (strcspn(tag + 1, " \n") != client->tag_length - 2)
		return false; /* two tags, for instance */
	lane = skip_digits(slash + 1);
	if (lane == slash + 1 || *lane != '.')
		return false;
	worker = skip_digits(lane + 1);
	if (worker == lane + 1 || *worker != '\n')
		return false;
	client->tag_length -= 2;
	memmove(tag, tag + 1, client->tag_length);
	tag[client->tag_length] = '\0';
	return true;
}

static void client_stream_end(struct loop *loop, struct burst_client *client)
{
	if (client->received < loop->options->request_bytes)
		client_fail(loop, client, BURST_RECV_END, 0);
	else if (!tag_read(client))
		client_fail(loop, client, BURST_MISMATCH_TAIL, 0);
	else
		client_end(loop, client);
}

/* Ends: what comes beyond the request and a tag is a mismatch. */
static void client_receive(struct loop *loop, struct burst_client *client)
{
	for (;;) {
		ssize_t n = recv(client->fd, loop->buffer, BUFFER_BYTES, MSG_DONTWAIT);

		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0) {
			client_fail(loop, client, BURST_RECV, errno);
			return;
		}
		if (n == 0) {
			client_stream_end(loop, client);
			return;
		}
		if (!client_take(loop, client, (size_t)n))
			return;
	}
}

/* Does what can be done without waiting. */
static void client_go_on(struct loop *loop, struct burst_client *client)
{
	client_send(loop, client);
	if (client->fd >= 0 && client->stage != BURST_CONNECTING)
		client_receive(loop, client);
}

/*
 * The socket, before the burst begins, so that little but connect() and send() stands between two
 * clients of it. Returns 0, also if the client has failed by that; or -errno.
 */
static int client_prepare(struct loop *loop, struct burst_client *client)
{
	static const int on = 1;

	client->fd = socket(loop->options->target.sa.sa_family,
			    SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
	if (client->fd < 0) {
		client->reason = BURST_CONNECT;
		client->error = errno;
		return 0;
	}
	loop->n_open++;
	/* A request that leaves in parts must not wait for the acknowledgement of the first. */
	return setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0 ? -errno : 0;
}

/* Returns 0, also if the client has failed by that; or -errno. */
static int client_start(struct loop *loop, struct burst_client *client)
{
	const struct target *target = &loop->options->target;
	struct epoll_event event = {
		.events = EPOLLIN | EPOLLOUT | EPOLLET,
		.data.ptr = client,
	};

	client->start_ns = clock_now_ns();
	if (connect(client->fd, &target->sa, target->length) < 0 && errno != EINPROGRESS) {
		client_fail(loop, client, BURST_CONNECT, errno);
		return 0;
	}
	client_go_on(loop, client); /* on loopback the handshake is over by now */
	if (client->fd < 0)
		return 0;
	/* After the request is out; what has happened meanwhile is an event nevertheless. */
	return epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, client->fd, &event) < 0 ? -errno : 0;
}

/* --- All of them ----------------------------------------------------------------------------- */

/* Serves who has something to do, after at most so many milliseconds. Returns 0 or -errno. */
static int loop_serve(struct loop *loop, int wait_ms)
{
	struct epoll_event events[EVENTS_MAX];
	int n = epoll_wait(loop->epoll_fd, events, EVENTS_MAX, wait_ms);

	if (n < 0)
		return errno == EINTR ? 0 : -errno; /* it was stopped, and goes on */
	for (int i = 0; i < n; i++) {
		struct burst_client *client = events[i].data.ptr;

		if (client->fd >= 0)
			client_go_on(loop, client);
	}
	return 0;
}

static void client_expire(struct loop *loop, struct burst_client *client)
{
	static const enum burst_reason reasons[] = {
		[BURST_CONNECTING] = BURST_TIMEOUT_CONNECT,
		[BURST_SENDING] = BURST_TIMEOUT_SEND,
		[BURST_RECEIVING] = BURST_TIMEOUT_RECV,
		[BURST_ENDING] = BURST_TIMEOUT_END,
	};

	client_fail(loop, client, reasons[client->stage], 0);
}

/*
 * Ends those whose time is over; who started first is first. Returns how long the next one has, in
 * milliseconds, rounded up; -1 without one.
 */
static int loop_expire(struct loop *loop)
{
	const uint64_t now_ns = clock_now_ns();

	for (; loop->oldest < loop->burst->n; loop->oldest++) {
		struct burst_client *client = &loop->burst->clients[loop->oldest];
		uint64_t end_ns = client->start_ns + loop->options->timeout_ns;

		if (client->fd < 0)
			continue;
		if (end_ns > now_ns) {
			uint64_t left_ms = (end_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS;

			return left_ms < INT_MAX ? (int)left_ms : INT_MAX;
		}
		client_expire(loop, client);
	}
	return -1;
}

/* Opens all, and takes those answers that are there already, so that no clock runs on. */
static int loop_open(struct loop *loop)
{
	struct burst *burst = loop->burst;
	int r = 0;

	burst->start_ns = burst->opened_ns = clock_now_ns();
	for (unsigned i = 0; i < burst->n && r == 0; i++) {
		if (burst->clients[i].fd < 0)
			continue;
		r = client_start(loop, &burst->clients[i]);
		burst->opened_ns = clock_now_ns();
		if (r == 0)
			r = loop_serve(loop, 0);
	}
	return r;
}

static int loop_run(struct loop *loop)
{
	int r = 0;

	for (unsigned i = 0; i < loop->burst->n && r == 0; i++)
		r = client_prepare(loop, &loop->burst->clients[i]);
	if (r == 0)
		r = loop_open(loop);
	while (r == 0 && loop->n_open > 0) {
		int wait_ms = loop_expire(loop);

		if (loop->n_open > 0)
			r = loop_serve(loop, wait_ms);
	}
	return r;
}

/* The same in each run (xorshift64), so that a fault can be met again. */
static void pattern_fill(uint8_t *pattern, size_t length)
{
	uint64_t state = UINT64_C(0x9e3779b97f4a7c15);

	for (size_t i = 0; i < PATTERN_BYTES; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		pattern[i] = (uint8_t)(state >> 56);
	}
	for (size_t i = PATTERN_BYTES; i < length; i++)
		pattern[i] = pattern[i - PATTERN_BYTES];
}

int burst_run(const struct burst_options *options, struct burst *ret)
{
	const size_t pattern_bytes = PATTERN_BYTES + options->request_bytes;
	_cleanup_(fd_closep) int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	_cleanup_(freep) uint8_t *pattern = malloc(pattern_bytes);
	_cleanup_(freep) uint8_t *buffer = malloc(BUFFER_BYTES);
	struct loop loop = {
		.options = options,
		.burst = ret,
		.epoll_fd = epoll_fd,
		.pattern = pattern,
		.buffer = buffer,
	};

	*ret = (struct burst){0};
	if (epoll_fd < 0)
		return -errno;
	assert(options->connections > 0 && options->request_bytes > 0);
	ret->clients = calloc(options->connections, sizeof(*ret->clients));
	if (!ret->clients || !pattern || !buffer)
		return -ENOMEM;
	ret->n = options->connections;
	for (unsigned i = 0; i < ret->n; i++)
		ret->clients[i].fd = -1;
	pattern_fill(pattern, pattern_bytes);
	return loop_run(&loop);
}

void burst_fini(struct burst *burst)
{
	for (unsigned i = 0; i < burst->n; i++)
		(void)fd_close(burst->clients[i].fd);
	free(burst->clients);
	*burst = (struct burst){0};
}
