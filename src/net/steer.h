/*
 * Steering: which of the sockets that listen on one address get the new connections. It chooses
 * among queues and touches no client that is in one already.
 *
 * The sockets of an address with SO_REUSEPORT are a group. By itself the kernel spreads clients
 * over it by a hash, blind to whether anybody serves what it picks. A classic BPF program takes the
 * hash's place without any privilege.
 *
 * Members are known by their index in the group: the order in which they began to listen, from 0.
 * When one is closed the last one takes its place (reuseport_detach_sock() in the kernel), so that
 * an old program picks wrong sockets: attach again with every change of membership, before anybody
 * else can connect. A lane has one socket per address, so there is a group per address.
 */
#ifndef LANED_NET_STEER_H
#define LANED_NET_STEER_H

#include <stddef.h>

#define STEER_MEMBERS_MAX 512

/*
 * Sends every new connection to one of the `n` members, each time by chance, all alike; `fd` is any
 * socket of the group. Replaces what was attached before, with no moment between the two. It stays
 * for as long as the group has a socket, whoever closes `fd`; sockets that join later get nothing.
 * An index beyond the group makes the kernel fall back to its hash over all members. Returns 0 or
 * -errno: -EINVAL (n is 0 or beyond STEER_MEMBERS_MAX; or `fd` is in no group, as a LISTENER_FIRST
 * is before a LISTENER_FURTHER stands beside it), -ENOMEM (also: net.core.optmem_max is too small).
 * SO_ATTACH_REUSEPORT_CBPF, Linux 4.5 (4.6 for TCP).
 */
int steer_attach(int fd, const unsigned *members, size_t n);

/*
 * Back to the kernel's hash over all members; fine where nothing is attached. Returns 0 or -errno:
 * -EINVAL (`fd` is without SO_REUSEPORT). SO_DETACH_REUSEPORT_BPF, Linux 5.3.
 */
int steer_detach(int fd);

#endif
