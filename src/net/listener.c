#include "net/listener.h"

#include <errno.h>
#include <limits.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/fd.h"

static int option_set(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) < 0 ? -errno : 0;
}

struct option {
	int level, name, value;
};

/* Sets options in order until one is refused. Returns 0 or -errno. */
static int options_set(int fd, const struct option *options, size_t n)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++)
		r = option_set(fd, options[i].level, options[i].name, options[i].value);
	return r;
}

#define OPTIONS_SET(fd, options) options_set(fd, options, sizeof(options) / sizeof((options)[0]))

/*
 * Inherited by every connection that is accepted, so that none of it costs a system call there.
 * After listen(), because net.ipv4.tcp_fastopen & 0x400 turns fast open on in listen().
 */
static const struct option inherited[] = {
	/* An echo must not wait for the acknowledgement of the one before it. */
	{IPPROTO_TCP, TCP_NODELAY, 1},
	/* Data that is marked urgent is data, at its place in the stream, and is echoed as such. */
	{SOL_SOCKET, SO_OOBINLINE, 1},
	/* One byte is a message. */
	{SOL_SOCKET, SO_RCVLOWAT, 1},
	/*
	 * A connection is accepted after its handshake, so that a repeated SYN repeats no message.
	 */
	{IPPROTO_TCP, TCP_FASTOPEN, 0},
};

static const struct option before_bind[] = {
	/* An address is free although connections of an earlier instance are in TIME_WAIT. */
	{SOL_SOCKET, SO_REUSEADDR, 1},
};

static const struct option shared[] = {
	/* Every lane's socket may stand beside the others', now or added later. */
	{SOL_SOCKET, SO_REUSEPORT, 1},
};

int listener_open(const struct address *address, enum listener_place place, int backlog)
{
	_cleanup_(fd_closep) int fd = socket(
		address->sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);

	if (fd < 0)
		return -errno;

	int r = OPTIONS_SET(fd, before_bind);

	/* Never left to net.ipv6.bindv6only: a [::] that takes 0.0.0.0 along hides a mistake. */
	if (r == 0 && address->sa.sa_family == AF_INET6)
		r = option_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	if (r == 0 && place != LISTENER_FIRST)
		r = OPTIONS_SET(fd, shared);
	if (r == 0 && bind(fd, &address->sa, address->length) < 0)
		r = -errno;
	if (r == 0 && place != LISTENER_HELD)
		r = listener_begin(fd, backlog);
	if (r == 0 && place == LISTENER_FIRST)
		r = OPTIONS_SET(fd, shared);
	if (r < 0)
		return r;

	int opened = fd;

	fd = -1; /* the caller's */
	return opened;
}

int listener_begin(int fd, int backlog)
{
	if (listen(fd, backlog) < 0)
		return -errno;
	return OPTIONS_SET(fd, inherited);
}

bool listener_family_usable(int family)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	const void *loopback = family == AF_INET ? (const void *)&in : &in6;
	socklen_t length = family == AF_INET ? sizeof(in) : sizeof(in6);
	_cleanup_(fd_closep) int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);

	/* A kernel built or started without the family, or one whose interfaces have none of it. */
	return fd >= 0 && bind(fd, loopback, length) == 0;
}

int listener_mute(int fd)
{
	return option_set(fd, SOL_SOCKET, SO_BINDTOIFINDEX, INT_MAX);
}

int listener_depth(int fd)
{
	struct tcp_info info;
	socklen_t size = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0)
		return -errno;
	return (int)info.tcpi_unacked;
}
