/*
 * bench-bare ADDR:PORT: the least that an echo server on epoll can do, in one process.
 *
 * It is the limit that bench.py measures laned against: what this costs, the kernel costs. So it
 * does what measures best (edges, one registration per connection, one large buffer, a read at once
 * after accept, no read that is known to find nothing) and leaves out all that makes a server fit
 * for use: there are no time-outs, no limits, no fairness and no drain. It must not lose a byte or
 * rely on what one client does, and must not be slower than it has to be.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define BUFFER_BYTES 65536
#define EVENTS_MAX   128
#define ACCEPTS_MAX  16 /* per pass, so that a crowd at the door does not hold up who is inside */
#define BACKLOG      4096
#define NOFILE_MAX   (1 << 20) /* where the limit is "unlimited" */

/* What a short send left. A connection that has a residue is not read from. */
struct residue {
	char *data; /* NULL: none */
	size_t start;
	size_t end;
};

struct server {
	int listen_fd;
	int epoll_fd;
	struct residue *residues; /* by fd; a page of it is touched only when one is kept */
	char *buffer;
};

static void die(const char *what)
{
	fprintf(stderr, "bench-bare: %s: %s\n", what, strerror(errno));
	exit(EXIT_FAILURE);
}

static void residue_keep(struct residue *residue, const char *data, size_t length)
{
	residue->data = malloc(length);
	if (!residue->data)
		die("malloc");
	memcpy(residue->data, data, length);
	residue->start = 0;
	residue->end = length;
}

static void residue_drop(struct residue *residue)
{
	free(residue->data);
	residue->data = NULL;
}

/* Sends what is left, as far as it goes. Returns false when the connection is broken. */
static bool residue_send(struct residue *residue, int fd)
{
	ssize_t sent = send(fd, residue->data + residue->start, residue->end - residue->start,
			    MSG_NOSIGNAL);

	if (sent < 0)
		return errno == EAGAIN;
	residue->start += sent;
	if (residue->start == residue->end)
		residue_drop(residue);
	return true;
}

/*
 * Echoes what is there. A short read has emptied the socket and the next byte brings an edge of its
 * own, so it ends the turn. The end of the stream brings none if its edge was already seen: drain
 * says so.
 * Returns false when the connection has ended.
 */
static bool connection_echo(struct server *server, int fd, bool drain)
{
	for (;;) {
		ssize_t got = recv(fd, server->buffer, BUFFER_BYTES, 0);
		ssize_t sent;

		if (got < 0)
			return errno == EAGAIN;
		if (got == 0)
			return false;
		sent = send(fd, server->buffer, got, MSG_NOSIGNAL);
		if (sent < 0 && errno != EAGAIN)
			return false;
		if (sent < 0)
			sent = 0;
		if (sent < got) {
			residue_keep(&server->residues[fd], server->buffer + sent, got - sent);
			return true; /* EPOLLOUT comes when there is room again */
		}
		if (got < BUFFER_BYTES && !drain)
			return true;
	}
}

/* Returns false when the connection has ended. */
static bool connection_event(struct server *server, int fd, uint32_t events)
{
	struct residue *residue = &server->residues[fd];
	bool drain = events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR);

	if (residue->data) {
		if (!residue_send(residue, fd))
			return false;
		if (residue->data)
			return true;
		drain = true; /* edges that came in the meantime were not followed */
	} else if (!(events & ~EPOLLOUT)) {
		return true; /* a new registration is writable: nothing to do */
	}
	return connection_echo(server, fd, drain);
}

static void connection_close(struct server *server, int fd)
{
	residue_drop(&server->residues[fd]);
	close(fd);
}

static void server_accept(struct server *server)
{
	for (int i = 0; i < ACCEPTS_MAX; i++) {
		int fd = accept4(server->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		struct epoll_event event = {
			.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
			.data.fd = fd,
		};

		if (fd < 0 && errno == EAGAIN)
			return;
		if (fd < 0 && errno == ECONNABORTED)
			continue;
		if (fd < 0)
			die("accept4");
		/* The first bytes are usually there. What comes after this read, ADD reports. */
		if (!connection_echo(server, fd, false)) {
			connection_close(server, fd);
			continue;
		}
		if (epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
			die("epoll_ctl");
	}
}

static void server_run(struct server *server)
{
	struct epoll_event events[EVENTS_MAX];

	for (;;) {
		int n = epoll_wait(server->epoll_fd, events, EVENTS_MAX, -1);

		if (n < 0 && errno != EINTR)
			die("epoll_wait");
		for (int i = 0; i < n; i++) {
			int fd = events[i].data.fd;

			if (fd == server->listen_fd)
				server_accept(server);
			else if (!connection_event(server, fd, events[i].events))
				connection_close(server, fd);
		}
	}
}

/* Reads "127.0.0.1:7". */
static bool parse_address(const char *text, struct sockaddr_in *ret)
{
	char host[INET_ADDRSTRLEN];
	const char *colon = strrchr(text, ':');
	char *end;
	unsigned long port;

	if (!colon || (size_t)(colon - text) >= sizeof(host))
		return false;
	memcpy(host, text, colon - text);
	host[colon - text] = '\0';
	port = strtoul(colon + 1, &end, 10);
	if (end == colon + 1 || *end || port > UINT16_MAX)
		return false;
	*ret = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
	return inet_pton(AF_INET, host, &ret->sin_addr) == 1;
}

/* Accepted sockets inherit TCP_NODELAY: no system call per connection. */
static int listener_open(const struct sockaddr_in *address)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int on = 1;

	if (fd < 0)
		die("socket");
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0)
		die("setsockopt");
	if (bind(fd, (const struct sockaddr *)address, sizeof(*address)) < 0)
		die("bind");
	if (listen(fd, BACKLOG) < 0)
		die("listen");
	return fd;
}

/* As many descriptors as may be had without privilege, within reason. Returns their number. */
static size_t raise_nofile(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		die("getrlimit");
	limit.rlim_cur = limit.rlim_max < NOFILE_MAX ? limit.rlim_max : NOFILE_MAX;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		die("setrlimit");
	return limit.rlim_cur;
}

int main(int argc, char **argv)
{
	struct server server;
	struct epoll_event event = {.events = EPOLLIN};
	struct sockaddr_in address;

	if (argc != 2 || !parse_address(argv[1], &address)) {
		fprintf(stderr, "usage: bench-bare ADDR:PORT\n");
		return 2;
	}
	server.residues = calloc(raise_nofile(), sizeof(*server.residues));
	server.buffer = aligned_alloc(4096, BUFFER_BYTES);
	if (!server.residues || !server.buffer)
		die("malloc");
	server.listen_fd = listener_open(&address);
	server.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	event.data.fd = server.listen_fd;
	if (server.epoll_fd < 0 ||
	    epoll_ctl(server.epoll_fd, EPOLL_CTL_ADD, server.listen_fd, &event) < 0)
		die("epoll");
	puts("ready");
	fflush(stdout);
	server_run(&server);
}
