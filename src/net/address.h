/*
 * An address to listen on: numeric IPv4 or IPv6 and a port, as it stands in the configuration.
 */
#ifndef LANED_NET_ADDRESS_H
#define LANED_NET_ADDRESS_H

#include <stdbool.h>
#include <netinet/in.h>
#include <sys/socket.h>

#define ADDRESS_TEXT_MAX (INET6_ADDRSTRLEN + 32) /* "[addr%scope]:port" and its NUL */

struct address {
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	};
	socklen_t length;
	char text[ADDRESS_TEXT_MAX]; /* canonical: "127.0.0.1:7", "[::1]:7" */
};

/*
 * Reads "127.0.0.1:7" or "[::1]:7" ("[fe80::1%eth0]:7", with the name of an interface that exists).
 * No host names are looked up. Returns 0, or -EINVAL with a sentence in *ret_problem that says what
 * is wrong and what would be right (static storage).
 */
int address_parse(const char *text, struct address *ret, const char **ret_problem);

/*
 * Whether a socket on either takes clients away from the other: same port and family, and the same
 * host or one of them the wildcard. IPv6 sockets are always IPV6_V6ONLY, so families never overlap.
 */
bool address_overlaps(const struct address *a, const struct address *b);

#endif
