/*
 * Listeners: the sockets that clients queue on. Only the master opens and closes them, so that a
 * queue survives every worker that serves it.
 */
#ifndef LANED_NET_LISTENER_H
#define LANED_NET_LISTENER_H

#include <stdbool.h>

#include "net/address.h"

enum listener_place {
	LISTENER_FIRST,   /* the first lane's: refused if anybody else has the address */
	LISTENER_FURTHER, /* another lane's, beside ours that is open already */
	LISTENER_HELD,    /* likewise, but no client finds it before listener_begin() */
};

/*
 * Opens a socket that listens, non-blocking and close-on-exec, with everything set that accepted
 * connections are to inherit. Clients may queue on it at once. Returns the descriptor, the
 * caller's, or -errno: -EADDRINUSE (somebody else has the address), -EADDRNOTAVAIL or -EAFNOSUPPORT
 * (this host does not), -EACCES (privileged port), or what socket(2), bind(2) and listen(2) say.
 *
 * LISTENER_FIRST listens without SO_REUSEPORT and only then sets it: there is no moment in which
 * two instances of the same user could both succeed, as they silently do when both set it before
 * bind.
 */
int listener_open(const struct address *address, enum listener_place place, int backlog);

/*
 * Lets clients queue on a LISTENER_HELD; or changes the backlog of one that listens already, with no
 * effect on those who wait. Returns 0 or -errno.
 */
int listener_begin(int fd, int backlog);

/* Whether this host has addresses of the family at all: AF_INET, AF_INET6. */
bool listener_family_usable(int family);

/*
 * Lets nobody new in, while all who are in the queue or in the middle of their handshake still come
 * through. Further clients are refused at once, when it has been done to every socket that listens
 * on the address. For good. Returns 0 or -errno.
 *
 * The socket is bound to an interface that does not exist, so that no first packet finds it
 * (SO_BINDTOIFINDEX, Linux 5.1; without privilege since 5.7). A handshake that has begun remembers
 * the interface that it came from, and who is in the queue has been found already.
 */
int listener_mute(int fd);

/*
 * How many clients wait in the queue (tcpi_unacked of a listening socket, tcp_get_info() in the
 * kernel). Returns the number or -errno.
 */
int listener_depth(int fd);

#endif
