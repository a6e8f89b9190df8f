#include "net/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int problem(const char **ret_problem, const char *sentence)
{
	*ret_problem = sentence;
	return -EINVAL;
}

/* Cuts the text in two at the colon before the port; the brackets of IPv6 go. */
static int split(char *text, char **ret_host, char **ret_port, bool *ret_in6,
		 const char **ret_problem)
{
	char *colon;

	if (*text == '[') {
		char *end = strchr(text, ']');

		if (!end)
			return problem(ret_problem, "the bracket is not closed; write \"[::1]:7\"");
		*end = '\0';
		*ret_host = text + 1;
		colon = end + 1;
		*ret_in6 = true;
	} else {
		colon = strchr(text, ':');
		if (colon && strchr(colon + 1, ':'))
			return problem(ret_problem,
				       "an IPv6 address stands in brackets; write \"[::1]:7\"");
		*ret_host = text;
		*ret_in6 = false;
	}
	if (!colon || *colon != ':')
		return problem(ret_problem, "the port is missing; write \"127.0.0.1:7\"");
	*colon = '\0';
	*ret_port = colon + 1;
	return 0;
}

static int parse_port(const char *text, in_port_t *ret, const char **ret_problem)
{
	size_t digits = strspn(text, "0123456789");
	unsigned port = 0;

	if (digits == 0 || text[digits] != '\0')
		return problem(ret_problem, "the port is not a number; write one from 1 to 65535");
	for (const char *p = text; *p && port <= UINT16_MAX; p++)
		port = port * 10 + (unsigned)(*p - '0');
	if (port == 0)
		return problem(ret_problem, "port 0 would be another one at each start; write one "
					    "from 1 to 65535");
	if (port > UINT16_MAX)
		return problem(ret_problem, "the port is too large; write one from 1 to 65535");
	*ret = htons((in_port_t)port);
	return 0;
}

static int parse_host_in(const char *host, struct address *ret, const char **ret_problem)
{
	char text[INET_ADDRSTRLEN];

	if (strcmp(host, "*") == 0)
		return problem(ret_problem, "all addresses are \"0.0.0.0:7\" with IPv4 and "
					    "\"[::]:7\" with IPv6");
	if (inet_pton(AF_INET, host, &ret->in.sin_addr) != 1)
		return problem(ret_problem, "not a numeric address, and host names are not looked "
					    "up; write for instance \"127.0.0.1:7\" or "
					    "\"[::1]:7\"");

	in_addr_t address = ntohl(ret->in.sin_addr.s_addr);

	if (IN_MULTICAST(address) || address == INADDR_BROADCAST)
		return problem(ret_problem, "TCP has no multicast or broadcast; write the address "
					    "of one host");

	inet_ntop(AF_INET, &ret->in.sin_addr, text, sizeof(text));
	ret->in.sin_family = AF_INET;
	ret->length = sizeof(ret->in);
	snprintf(ret->text, sizeof(ret->text), "%s:%u", text, ntohs(ret->in.sin_port));
	return 0;
}

static int parse_host_in6(char *host, struct address *ret, const char **ret_problem)
{
	char text[INET6_ADDRSTRLEN];
	char *scope = strchr(host, '%');

	if (scope)
		*scope++ = '\0';
	if (inet_pton(AF_INET6, host, &ret->in6.sin6_addr) != 1)
		return problem(ret_problem, "not a numeric IPv6 address; write for instance "
					    "\"[::1]:7\"");
	if (IN6_IS_ADDR_V4MAPPED(&ret->in6.sin6_addr))
		return problem(ret_problem, "IPv6 sockets serve IPv6 alone; write the IPv4 address "
					    "as it is, for instance \"127.0.0.1:7\"");
	if (IN6_IS_ADDR_MULTICAST(&ret->in6.sin6_addr))
		return problem(ret_problem, "TCP has no multicast; write the address of one host");

	/* Link-local addresses are on every interface: bind(2) must be told which, ipv6(7). */
	if (IN6_IS_ADDR_LINKLOCAL(&ret->in6.sin6_addr) && !scope)
		return problem(ret_problem, "a link-local address needs its interface; write for "
					    "instance \"[fe80::1%eth0]:7\"");
	if (!IN6_IS_ADDR_LINKLOCAL(&ret->in6.sin6_addr) && scope)
		return problem(ret_problem, "only a link-local address takes an interface; leave "
					    "out the % and what follows");
	if (scope) {
		ret->in6.sin6_scope_id = if_nametoindex(scope);
		if (ret->in6.sin6_scope_id == 0)
			return problem(ret_problem, "there is no such interface; `ip link` shows "
						    "those of this host");
	}

	inet_ntop(AF_INET6, &ret->in6.sin6_addr, text, sizeof(text));
	ret->in6.sin6_family = AF_INET6;
	ret->length = sizeof(ret->in6);
	snprintf(ret->text, sizeof(ret->text), "[%s%s%.*s]:%u", text, scope ? "%" : "",
		 IF_NAMESIZE - 1, scope ? scope : "", ntohs(ret->in6.sin6_port));
	return 0;
}

int address_parse(const char *text, struct address *ret, const char **ret_problem)
{
	struct address address = {.length = 0};
	char copy[ADDRESS_TEXT_MAX];
	char *host, *port;
	in_port_t number;
	bool in6;
	int r;

	if (strlen(text) >= sizeof(copy))
		return problem(ret_problem, "too long for an address; write for instance "
					    "\"127.0.0.1:7\" or \"[::1]:7\"");
	memcpy(copy, text, strlen(text) + 1);

	r = split(copy, &host, &port, &in6, ret_problem);
	if (r < 0)
		return r;
	r = parse_port(port, &number, ret_problem);
	if (r < 0)
		return r;
	if (in6) {
		address.in6.sin6_port = number;
		r = parse_host_in6(host, &address, ret_problem);
	} else {
		address.in.sin_port = number;
		r = parse_host_in(host, &address, ret_problem);
	}
	if (r < 0)
		return r;
	*ret = address;
	return 0;
}

bool address_overlaps(const struct address *a, const struct address *b)
{
	if (a->sa.sa_family != b->sa.sa_family)
		return false;
	if (a->sa.sa_family == AF_INET) {
		in_addr_t host_a = a->in.sin_addr.s_addr;
		in_addr_t host_b = b->in.sin_addr.s_addr;

		return a->in.sin_port == b->in.sin_port &&
		       (host_a == host_b || host_a == INADDR_ANY || host_b == INADDR_ANY);
	}
	if (a->in6.sin6_port != b->in6.sin6_port)
		return false;
	if (IN6_IS_ADDR_UNSPECIFIED(&a->in6.sin6_addr) ||
	    IN6_IS_ADDR_UNSPECIFIED(&b->in6.sin6_addr))
		return true;
	return IN6_ARE_ADDR_EQUAL(&a->in6.sin6_addr, &b->in6.sin6_addr) &&
	       a->in6.sin6_scope_id == b->in6.sin6_scope_id;
}
