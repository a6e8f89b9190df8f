/*
 * The scoreboard: what the workers of a lane and the master tell each other, in shared memory.
 *
 * Every field has one writer, named beside it, but for one that any may write with the same result.
 * A reader takes it as it stands. The fields of the two sides lie in cache lines of their own.
 * Counters belong to the place and not to the process in it: they go on where the last one stopped.
 */
#ifndef LANED_LANE_SCOREBOARD_H
#define LANED_LANE_SCOREBOARD_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

#include "lane/incident.h"

enum worker_phase {
	WORKER_GONE = 0, /* no process (a fresh mapping is all zero) */
	WORKER_STARTING,
	WORKER_READY,
	WORKER_LEFT, /* draining: it has emptied the queue and no longer waits on it */
};

/* Why a worker leaves the queue alone. */
enum accept_pause {
	PAUSE_NONE,
	PAUSE_ROOM, /* the lane is full; look_fd will tell */
	PAUSE_FULL, /* the process has no descriptor left: until a connection of its own ends */
	PAUSE_HOST, /* the host refuses: until some time has passed, as after EMFILE, too */
};

struct worker_line {
	/* Written by the process in the place; by the master when there is none. */
	alignas(64) _Atomic uint32_t phase; /* enum worker_phase */
	_Atomic uint32_t connections; /* that it holds, one that it is about to accept included */
	_Atomic uint32_t answered;    /* the last `asked` that it has obeyed */
	_Atomic uint32_t pause;       /* enum accept_pause */

	/* Its heartbeat: beats that move are progress. No order between these is relied on. */
	alignas(64) _Atomic uint64_t beats; /* events that it has begun to deal with */
	_Atomic uint64_t busy_since_ns;     /* clock_coarse_ns(); 0: waits for events */
	_Atomic uint32_t fd_in_hand;        /* that it works on; 0: none */
	_Atomic uint32_t lateness;          /* of which the next two are */
	_Atomic uint32_t late_clients;      /* that it accepted and that had waited for too long */
	_Atomic uint32_t late_worst_ms;     /* how long one of them had waited at most */
	_Atomic uint64_t messages;          /* counters */
	_Atomic uint64_t bytes_in;
	_Atomic uint64_t bytes_out;

	/* Written by the master; SIGUSR2 tells the process to look. */
	alignas(64) _Atomic uint32_t asked; /* counts the orders, whichever they are */
	_Atomic uint32_t listen_turn;       /* 0: does not wait on the listeners yet; on each
					       change it looks at the queue and waits anew */
	_Atomic uint32_t retire;            /* 1: wait on no listener, end without connections */
	_Atomic uint32_t drain;             /* 1: serve what is there, then end */
};

#define SCOREBOARD_INCIDENTS 16

struct scoreboard {
	/*
	 * 1: a worker found the lane full and waits for a connection to end, whoever's it is. Set
	 * by that worker, cleared by the one that tells all (lane_release()): writing the same
	 * value twice does no harm.
	 */
	alignas(64) _Atomic uint32_t room_wanted;

	/* Written by the master. */
	alignas(64) _Atomic uint32_t watched; /* 1: it looks at the workers from time to time; 0:
						 whoever accepts a client wakes it */
	_Atomic uint32_t lateness;      /* counts the times in which clients wait for too long; odd:
					 they do, so measure it. */
	_Atomic uint32_t late_after_ms; /* what is too long; at least 1 */
	_Atomic uint32_t log_level;     /* LOG_ERR to LOG_DEBUG; 0: what it was at the start */

	/* The latest ones, a ring; the master's alone. */
	struct incident incidents[SCOREBOARD_INCIDENTS];

	struct worker_line workers[];
};

/* Adds to a counter. By its one writer, so no locked instruction is needed. */
static inline void counter_add(_Atomic uint64_t *counter, uint64_t n)
{
	uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);

	atomic_store_explicit(counter, value + n, memory_order_relaxed);
}

#endif
