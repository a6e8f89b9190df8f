#include "bench/trouble.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* `text` NULL: what strerror() says of the errno. */
static const struct {
	const char *phase;
	const char *text;
	const char *hint;
} reasons[BURST_REASONS] = {
	[BURST_CONNECT] = {"connect", NULL, NULL},
	[BURST_SEND] = {"send", NULL, NULL},
	[BURST_RECV] = {"recv", NULL, NULL},
	[BURST_RECV_END] = {"recv", "the stream ended before all was back", NULL},
	[BURST_TIMEOUT_CONNECT] = {"timeout", "no connection",
				   "does a firewall drop the packets, or is the queue of those who "
				   "wait to be accepted full (net.core.somaxconn)?"},
	[BURST_TIMEOUT_SEND] = {"timeout", "not all of the request was taken", NULL},
	[BURST_TIMEOUT_RECV] = {"timeout", "not all of the request was back", NULL},
	[BURST_TIMEOUT_END] = {"timeout", "answered, but the stream was not ended",
			       "an echo server ends its stream when the client has ended its own"},
	[BURST_MISMATCH] = {"mismatch", "a byte is not what was sent", NULL},
	[BURST_MISMATCH_TAIL] = {"mismatch", "more came back than was sent, and no tag", NULL},
};

static const struct {
	int error;
	const char *name;
	const char *hint;
} errnos[] = {
	{EACCES, "EACCES", NULL},
	{EADDRNOTAVAIL, "EADDRNOTAVAIL",
	 "every port for clients is in use or rests in TIME_WAIT: wait a minute, connect less (-n), or "
	 "widen net.ipv4.ip_local_port_range"},
	{EAFNOSUPPORT, "EAFNOSUPPORT", "this host does not have that family of addresses"},
	{EAGAIN, "EAGAIN", NULL},
	{ECONNABORTED, "ECONNABORTED", NULL},
	{ECONNREFUSED, "ECONNREFUSED",
	 "nobody listens on that address: is the server running, and on "
	 "this port?"},
	{ECONNRESET, "ECONNRESET", NULL},
	{EHOSTUNREACH, "EHOSTUNREACH", NULL},
	{EINVAL, "EINVAL", NULL},
	{EMFILE, "EMFILE",
	 "the hard limit of open files (ulimit -Hn) is too low for so many clients: "
	 "raise it, or connect less (-n)"},
	{ENETDOWN, "ENETDOWN", NULL},
	{ENETUNREACH, "ENETUNREACH", NULL},
	{ENFILE, "ENFILE", "this host has no more open files (fs.file-max)"},
	{ENOBUFS, "ENOBUFS", NULL},
	{ENOMEM, "ENOMEM", NULL},
	{EPERM, "EPERM", "a firewall of this host forbids it"},
	{EPIPE, "EPIPE", NULL},
	{ETIMEDOUT, "ETIMEDOUT", NULL},
};

#define N_ERRNOS (sizeof(errnos) / sizeof(errnos[0]))

static size_t errno_row(int error)
{
	size_t i = 0;

	while (i < N_ERRNOS && errnos[i].error != error)
		i++;
	return i;
}

const char *trouble_phase(enum burst_reason reason)
{
	return reasons[reason].phase;
}

const char *trouble_text(enum burst_reason reason, int error)
{
	return reasons[reason].text ? reasons[reason].text : strerror(error);
}

const char *trouble_hint(enum burst_reason reason, int error)
{
	size_t row = errno_row(error);

	return row < N_ERRNOS ? errnos[row].hint : reasons[reason].hint;
}

const char *trouble_errno(int error, char text[static TROUBLE_NAME_MAX])
{
	size_t row = errno_row(error);

	if (row < N_ERRNOS)
		return errnos[row].name;
	(void)snprintf(text, TROUBLE_NAME_MAX, "errno %d", error);
	return text;
}
