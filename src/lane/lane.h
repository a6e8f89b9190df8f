/*
 * A lane: one accept queue per address, and the memory that its processes share.
 *
 * The master opens it before it starts the lane's workers, which inherit it by fork. Layout of the
 * mapping: scoreboard, counts of accepted clients with what was given up, block owners, a connection
 * table for each worker, blocks; each on a page of its own. Pages are real memory only once they are
 * written.
 */
#ifndef LANED_LANE_LANE_H
#define LANED_LANE_LANE_H

#include <stdbool.h>

#include "lane/conn.h"
#include "lane/pool.h"
#include "lane/scoreboard.h"

#define LANE_NAME_MAX  48 /* "GROUP/LANE" and its NUL */
#define LANE_SPARE_FDS 32 /* a process has at most that many beside listeners and connections */

struct lane_shape {
	uint32_t workers;         /* places, those of extra workers included */
	uint32_t conns;           /* per table: the lowest descriptor number that no worker has */
	uint32_t blocks;          /* at least 2 per worker */
	uint32_t max_connections; /* of all workers together */
};

struct lane {
	char name[LANE_NAME_MAX];
	unsigned number;
	struct lane_shape shape;
	struct scoreboard *board; /* start of the mapping; NULL: none */
	size_t size_bytes;        /* of the mapping */
	struct pool pool;
	struct conn *tables;
	_Atomic uint64_t *accepts;  /* clients accepted, by worker and listener; by that worker */
	_Atomic uint64_t *given_up; /* by listener, 1: workers are to leave it; by the master */
	int *listeners;             /* non-blocking; -1: closed */
	size_t n_listeners;
	int look_fd;   /* eventfd: an edge tells every worker to look at the queue again */
	int notice_fd; /* eventfd of the master: a write wakes it; not the lane's to close */
};

/*
 * Maps the memory, makes the eventfd, and room for `n_listeners` listeners (-1). `notice_fd` is the
 * master's. Returns 0 or -errno.
 */
int lane_open(struct lane *lane, const char *group, unsigned number, const struct lane_shape *shape,
	      size_t n_listeners, int notice_fd);

/* Unmaps, closes what is open. A lane that is all zero, or half open, is fine. */
void lane_close(struct lane *lane);

/*
 * Tells every worker of the lane to look at the queue again: one that was woken for a client could
 * not take it, or there is room again.
 */
void lane_tell(const struct lane *lane);

/* Counts a client that `worker` has accepted from a listener, and sees to it that the master knows
 * that there are connections. */
void lane_count_accept(struct lane *lane, uint32_t worker, size_t listener);

/* Clients that all workers together have accepted from a listener. */
uint64_t lane_accepted(const struct lane *lane, size_t listener);

/* Clients that a worker has accepted from all listeners together. */
uint64_t lane_accepted_by(const struct lane *lane, uint32_t worker);

/* Connections of all workers. */
uint32_t lane_connections(const struct lane *lane);

/* Whether any of its listeners is open in this process; and is none that was given up. */
bool lane_has_listener(const struct lane *lane);
bool lane_is_served(const struct lane *lane);

/* A worker's connection table. */
struct conn_table lane_table(const struct lane *lane, uint32_t worker);

/* A worker's line of the scoreboard. */
static inline struct worker_line *lane_worker(const struct lane *lane, uint32_t worker)
{
	return &lane->board->workers[worker];
}

/*
 * Counts a connection that `worker` is about to accept. False, and nothing is counted, when the
 * lane has as many as it may: then look_fd will be written when one of them ends.
 */
bool lane_reserve(struct lane *lane, uint32_t worker);

/* Whether a connection may be reserved now. If not, look_fd will tell when one may. */
bool lane_has_room(struct lane *lane);

/* Counts a connection of `worker` as ended, or as not accepted after all. */
void lane_release(struct lane *lane, uint32_t worker);

/*
 * Cleans up after a dead process: its connections ended with it, its blocks are free, its records
 * too. By the master, before the place is filled again.
 */
void lane_bury(struct lane *lane, struct pool_owner dead);

#endif
