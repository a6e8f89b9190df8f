/*
 * The scoreboard: what the workers of a lane and the master tell each other, in shared memory.
 *
 * Every field has one writer, named beside it, but for one that any may write with the same result.
 * A reader takes it as it stands. The fields of the two sides lie in cache lines of their own.
 */
#ifndef LANED_LANE_SCOREBOARD_H
#define LANED_LANE_SCOREBOARD_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

enum worker_phase {
	WORKER_GONE = 0, /* no process (a fresh mapping is all zero) */
	WORKER_STARTING,
	WORKER_READY,
	WORKER_LEFT, /* draining: it has emptied the queue and no longer waits on it */
};

struct worker_line {
	/* Written by the process in the place; by the master when there is none. */
	alignas(64) _Atomic uint32_t phase; /* enum worker_phase */
	_Atomic uint32_t connections; /* that it holds, one that it is about to accept included */

	/* Written by the master; SIGUSR2 tells the process to look. */
	alignas(64) _Atomic uint32_t listen_turn; /* 0: does not wait on the listeners yet; on each
						     change it waits anew, behind all others */
	_Atomic uint32_t drain;                   /* 1: serve what is there, then end */
};

struct scoreboard {
	/*
	 * 1: a worker found the lane full and waits for a connection to end, whoever's it is. Set
	 * by that worker, cleared by the one that tells all (lane_release()): writing the same
	 * value twice does no harm.
	 */
	alignas(64) _Atomic uint32_t room_wanted;
	struct worker_line workers[];
};

#endif
