#include "bench/target.h"

#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define PORT_MAX      65535
#define PORT_TEXT_MAX 6 /* with its NUL */

/* Returns 0 if the text is no port: a number, whole, from 1 to 65535. */
static unsigned port_read(const char *text)
{
	unsigned port = 0;

	if (text[strspn(text, "0123456789")] != '\0')
		return 0;
	for (; *text && port <= PORT_MAX; text++)
		port = port * 10 + (unsigned)(*text - '0');
	return port <= PORT_MAX ? port : 0;
}

/* Cuts the text in two at the colon before the port; the brackets of IPv6 go. */
static int split(char *text, char **ret_host, char **ret_port, const char **ret_problem)
{
	char *colon = strrchr(text, ':');
	char *end;

	*ret_problem = "write HOST:PORT, such as 127.0.0.1:7007, [::1]:7007 or localhost:7007";
	if (!colon || colon == text)
		return -EINVAL;
	*ret_host = text;
	*ret_port = colon + 1;
	*colon = '\0';
	if (*text == '[') {
		end = strchr(text, ']');
		if (!end || end + 1 != colon || end == text + 1)
			return -EINVAL;
		*end = '\0';
		*ret_host = text + 1;
	} else if (strchr(text, ':')) {
		*ret_problem = "an IPv6 address stands in brackets: [::1]:7007";
		return -EINVAL;
	}
	if (port_read(*ret_port) == 0) {
		*ret_problem = "the port is a number from 1 to 65535";
		return -EINVAL;
	}
	return 0;
}

static void target_write_text(struct target *target)
{
	char host[TARGET_TEXT_MAX - PORT_TEXT_MAX - 3] = "?";
	char port[PORT_TEXT_MAX] = "?";
	bool in6 = target->sa.sa_family == AF_INET6;

	(void)getnameinfo(&target->sa, target->length, host, sizeof(host), port, sizeof(port),
			  NI_NUMERICHOST | NI_NUMERICSERV);
	(void)snprintf(target->text, sizeof(target->text), in6 ? "[%s]:%s" : "%s:%s", host, port);
}

int target_find(const char *text, struct target *ret, const char **ret_problem)
{
	static const struct addrinfo wanted = {
		.ai_socktype = SOCK_STREAM,
		.ai_protocol = IPPROTO_TCP,
		.ai_flags = AI_NUMERICSERV,
	};
	_cleanup_(freep) char *copy = strdup(text);
	struct addrinfo *found;
	char *host, *port;

	*ret_problem = NULL;
	if (!copy)
		return -ENOMEM;

	int r = split(copy, &host, &port, ret_problem);

	if (r < 0)
		return r;
	*ret_problem = NULL;
	r = getaddrinfo(host, port, &wanted, &found);
	if (r == EAI_SYSTEM)
		return -errno;
	if (r == EAI_MEMORY)
		return -ENOMEM;
	if (r != 0) {
		*ret_problem = gai_strerror(r);
		return -ENOENT;
	}

	*ret = (struct target){.length = found->ai_addrlen};
	memcpy(&ret->storage, found->ai_addr, found->ai_addrlen);
	for (const struct addrinfo *other = found->ai_next; other; other = other->ai_next)
		ret->n_others++;
	freeaddrinfo(found);
	target_write_text(ret);
	return 0;
}
