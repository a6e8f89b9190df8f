/*
 * Whom to connect to: a host and a port, as they are written on the command line.
 */
#ifndef LANED_BENCH_TARGET_H
#define LANED_BENCH_TARGET_H

#include <netinet/in.h>
#include <sys/socket.h>

#define TARGET_TEXT_MAX (INET6_ADDRSTRLEN + 32) /* "[addr%scope]:port" and its NUL */

struct target {
	union {
		struct sockaddr sa;
		struct sockaddr_storage storage;
	};
	socklen_t length;
	unsigned n_others;          /* addresses that the name has beside this one */
	char text[TARGET_TEXT_MAX]; /* numeric: "127.0.0.1:7", "[::1]:7" */
};

/*
 * Reads "127.0.0.1:7", "[::1]:7" or "name:7"; a name is looked up and its first address taken, in
 * the order of getaddrinfo(3). Returns 0; -EINVAL (not of that form) or -ENOENT (no such host),
 * with a sentence in *ret_problem (static storage); another -errno, with NULL there.
 */
int target_find(const char *text, struct target *ret, const char **ret_problem);

#endif
