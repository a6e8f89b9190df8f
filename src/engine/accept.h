/*
 * Accepting: one call of accept4, and what each of its outcomes means.
 *
 * It takes a client from a queue when the lane has room for it and the process a descriptor, and
 * says when to stop and for how long. It does not serve the client: that is the engine's.
 */
#ifndef LANED_ENGINE_ACCEPT_H
#define LANED_ENGINE_ACCEPT_H

#include <stdbool.h>
#include <stdint.h>

#include "lane/lane.h"

enum accept_outcome {
	ACCEPT_TAKEN,   /* a client; go on */
	ACCEPT_SKIPPED, /* that client has gone already; go on */
	ACCEPT_EMPTY,   /* nobody waits */
	ACCEPT_PAUSED,  /* whoever waits must go on waiting: see enum accept_pause */
	ACCEPT_FAILED,  /* the listener cannot be used; -errno in *ret */
};

struct acceptor {
	struct lane *lane;
	uint32_t worker;
	const char *name;  /* for the log */
	uint32_t capacity; /* connections that the process has descriptors for */
	enum accept_pause pause;
	uint32_t back_off_ms; /* how long this time; 0: not refused since the last success */
	uint32_t retry_ms;    /* clock_coarse_ms() of the next try, if back_off_ms > 0 */
	uint32_t logged_ms;   /* when a pause was last logged */
	bool logged;
};

/*
 * Accepts one client of `listener`. TAKEN: *ret is its descriptor, non-blocking, the caller's, and
 * it is counted on the scoreboard; the caller counts it off with lane_release().
 * `held` is how many connections the process has, `now_ms` clock_coarse_ms().
 */
enum accept_outcome acceptor_take(struct acceptor *acceptor, int listener, uint32_t held,
				  uint32_t now_ms, int *ret);

/*
 * The host has refused what a client or the listeners need, with this errno: leaves the queue alone
 * for a time that grows with every refusal.
 */
void acceptor_back_off(struct acceptor *acceptor, int error, uint32_t held, uint32_t now_ms);

/* Whether a pause is over because time has passed. */
bool acceptor_due(const struct acceptor *acceptor, uint32_t now_ms);

/* Milliseconds until acceptor_due(); -1: time alone does not end the pause. */
int acceptor_timeout_ms(const struct acceptor *acceptor, uint32_t now_ms);

#endif
