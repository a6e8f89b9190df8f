/*
 * The echo state machine: what to do next with one connection.
 *
 * It decides and never acts: an engine asks for the next step, does it in its own way, and reports
 * the result. So one set of rules holds for all engines, and a test can try every short read, short
 * write and error. The rules:
 *
 *   - what was read is sent before anything more is read: a peer that does not read is not read
 *     from, and holds one block at most;
 *   - while no block is to be had, bytes are looked at (MSG_PEEK), sent, and only then taken from
 *     the kernel's buffer: whoever finds the pool empty is served all the same, and loses nothing;
 *   - all that came before the peer's FIN goes back before ours;
 *   - a close never destroys bytes on their way: we shut down writing, read on until the peer is
 *     done (at most ECHO_LINGER_MS), and close then;
 *   - an error ends the connection that it happened to, and nothing else.
 */
#ifndef LANED_ENGINE_ECHO_H
#define LANED_ENGINE_ECHO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lane/conn.h"
#include "lane/pool.h"

#define ECHO_LINGER_MS 1000 /* how long we read on after our FIN */
#define ECHO_QUIET_MS  100  /* a draining worker ends a connection that has been quiet this long */

/* What a worker knows that its connections have in common. */
struct echo {
	struct pool *pool;
	struct pool_owner owner;
	uint32_t own;             /* the worker's own block, for peeking */
	uint32_t block;           /* taken from the pool, to read into; POOL_NONE: none to be had */
	uint32_t now_ms;          /* set by the engine before it serves a batch */
	uint32_t idle_timeout_ms; /* 0: none */
	uint32_t send_timeout_ms; /* 0: none */
	uint32_t close_after;     /* messages; 0: never */
	const char *tag;          /* appended to each message */
	uint8_t tag_length;       /* 0: none */
	bool draining;            /* quiet connections end */
	uint32_t blocked;         /* connections whose peers take nothing at the moment */
	uint32_t shut;            /* connections that have our FIN, and not closed yet */
};

enum echo_action {
	ECHO_WAIT,     /* nothing, until the socket has something to say */
	ECHO_RECV,     /* recv(data, length, flags) */
	ECHO_DISCARD,  /* recv(NULL, length, flags): drop bytes that were received */
	ECHO_SEND,     /* send(data, length, flags) */
	ECHO_SHUTDOWN, /* shutdown(SHUT_WR) */
	ECHO_CLOSE,    /* close; the record is free then */
	ECHO_RESET,    /* the same, and what the kernel still holds for the peer is dropped */
};

struct echo_step {
	enum echo_action action;
	int flags;
	uint8_t *data;
	size_t length;
};

/* Starts a connection in its record, which conn_open() has taken. */
void echo_open(const struct echo *echo, struct conn *conn);

/* The socket is readable or writable as far as one knows; see enum conn_flag. */
static inline void echo_event(struct echo *echo, struct conn *conn, unsigned flags)
{
	if ((flags & CONN_WRITABLE) && !(conn->flags & CONN_WRITABLE))
		echo->blocked--;
	conn->flags |= (uint8_t)flags;
}

/* The next step. It must be done, and reported with echo_done(), before the next is asked for. */
struct echo_step echo_next(struct echo *echo, struct conn *conn);

/*
 * Whether bytes of the connection are in a block that the worker needs for the next one: its turn
 * may not end here.
 */
bool echo_in_hand(const struct echo *echo, const struct conn *conn);

/* Reports what a step (all but WAIT, CLOSE and RESET) came to: a count or -errno. */
void echo_done(struct echo *echo, struct conn *conn, const struct echo_step *step, ssize_t result);

/* Whether the peer takes nothing at the moment. */
static inline bool echo_is_blocked(const struct conn *conn)
{
	return !(conn->flags & CONN_WRITABLE);
}

/* Whether echo_unacked() is to be told before echo_tick() can judge. */
bool echo_wants_unacked(const struct echo *echo, const struct conn *conn);

/*
 * Tells how many bytes the kernel's send buffer holds for a connection (SIOCOUTQ of tcp(7)): as
 * long as that changes the peer takes bytes, however few, and the connection is not quiet.
 */
void echo_unacked(const struct echo *echo, struct conn *conn, uint32_t bytes);

/*
 * Looks at the clock for a connection: idle, blocked or lingering for too long, or quiet while
 * draining. True: it has a next step although its socket has nothing to say.
 */
bool echo_tick(const struct echo *echo, struct conn *conn);

/* Gives back what the record holds; the record is free then. After CLOSE, RESET. */
void echo_close(struct echo *echo, struct conn *conn);

#endif
