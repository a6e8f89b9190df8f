/*
 * Engines: how one worker moves bytes.
 *
 * An engine is a way to wait for sockets, one file each, listed in engine.c. The rules of the
 * service are not its business: whether to accept stands in accept.h, what to do with a connection
 * in echo.h, and this file joins them, so that an engine only waits, says what it saw, and keeps
 * its registrations. The core wraps every operation; nobody else calls a kind's.
 */
#ifndef LANED_ENGINE_ENGINE_H
#define LANED_ENGINE_ENGINE_H

#include <signal.h>

#include "config/settings.h"
#include "engine/accept.h"
#include "engine/echo.h"
#include "engine/fault.h"
#include "lane/lane.h"

/* Among those who wait on the same listeners. */
enum engine_rank {
	ENGINE_ALONE,  /* nobody else does */
	ENGINE_EQUAL,  /* others do, and all take turns */
	ENGINE_FIRST,  /* others do, and stay behind this one */
	ENGINE_BEHIND, /* this one stays behind the others */
};

struct engine;

struct engine_kind {
	const char *name;   /* as in laned.conf(5) */
	size_t state_bytes; /* of `state`, zeroed before open() */

	/* Prepares to wait, for the lane's look_fd too. Returns 0 or -errno. */
	int (*open)(struct engine *engine);

	/*
	 * Begins to wait on all listeners, behind all who wait on them already; if it waited
	 * before, it gives that place up. Returns 0 or -errno.
	 */
	int (*listen)(struct engine *engine);
	void (*unlisten)(struct engine *engine);

	/*
	 * Begins to wait for a connection, and reports what is there already. Returns 0, or -errno
	 * when it cannot.
	 */
	int (*watch)(struct engine *engine, int fd, uint32_t generation);

	/* A turn ended although more may be there: the connection is to be reported again. */
	void (*rearm)(struct engine *engine, int fd, uint32_t generation);

	/*
	 * Waits with the engine's wait_mask for at most timeout_ms (-1: for ever), between
	 * engine_waits() and engine_wakes(), then hands a bounded number of events to
	 * engine_serve(), engine_accept() and engine_look(): whoever is connected comes before
	 * whoever would like to be. Returns 0, also after a signal, or -errno.
	 */
	int (*pass)(struct engine *engine, int timeout_ms);
};

/* One worker's engine. */
struct engine {
	const struct engine_kind *kind;
	void *state; /* the kind's */
	struct lane *lane;
	uint32_t worker;
	struct worker_line *line; /* of the scoreboard: the heartbeat */
	const char *name;         /* of the worker, for the log */
	struct conn_table table;
	struct echo echo;
	struct acceptor acceptor;
	struct fault_plan faults;
	sigset_t wait_mask; /* signals blocked while it waits: as before, but for SIGUSR2 */
	bool listening;
	bool probing; /* what it serves now is a probe, and counts nowhere */
	enum engine_rank rank;
	unsigned in_turn;  /* clients accepted since it last took its place behind the others */
	uint32_t held;     /* connections */
	uint32_t high_fd;  /* one more than the highest connection's descriptor so far */
	uint32_t swept_ms; /* when the clock was last looked at for all connections */
	int failed;        /* 0, or the -errno that makes it useless */
};

struct engine_setup {
	const struct group_settings *group;
	struct lane *lane;
	struct pool_owner owner; /* worker and generation */
	const char *name;        /* of the worker, for the log; must outlive the engine */
	enum engine_rank rank;
	const char *tag; /* appended to messages if the group wants it; must outlive the engine */
	struct fault_plan faults;
};

/* The engine of that name ("auto": the best), NULL: none. */
const struct engine_kind *engine_find(const char *name);

/* All engines, best first, ended by NULL. */
extern const struct engine_kind *const engine_kinds[];

/* Returns 0 or -errno. It is the process's until that ends: there is nothing that closes it. */
int engine_open(struct engine *engine, const struct engine_kind *kind,
		const struct engine_setup *setup);

/* Takes a place at the listeners, behind all others. Returns 0 or -errno. */
int engine_listen(struct engine *engine);

/*
 * Looks at the queues although nothing has been reported, and takes its place anew: the kernel may
 * have woken somebody else who does not come (an exclusive wake-up is given once, epoll(7)).
 */
void engine_listen_anew(struct engine *engine);

/* Gives the place up until engine_listen_anew(): connections go on. */
void engine_retire(struct engine *engine);

/* Gives the place up for good, and the process's descriptors of the listeners. */
void engine_leave(struct engine *engine);

/*
 * Likewise with those listeners that the lane has given up; whoever waits there is taken first.
 * Returns whether there were any.
 */
bool engine_give_up(struct engine *engine);

/*
 * Serves one connection to its end, before any other: `fd`, non-blocking, a connected socket whose
 * peer has said all and shut down. It is the engine's. Returns 0 or -errno.
 */
int engine_probe(struct engine *engine, int fd);

/*
 * One pass: waits until something is to be done, and does a bounded part of it. Returns 0 or
 * -errno.
 */
int engine_pass(struct engine *engine);

/* From now on quiet connections end. */
void engine_drain(struct engine *engine);

/*
 * Accepts and serves a bounded number of those who wait. True: nobody waits any longer. False:
 * there may be more, or there is no room for them.
 */
bool engine_empty_queues(struct engine *engine);

/* For kinds: it is about to wait for events; it has them, or was interrupted. */
void engine_waits(struct engine *engine);
void engine_wakes(struct engine *engine);

/* For kinds: a listener is readable; look_fd is; a connection is (`flags`: enum conn_flag). */
void engine_accept(struct engine *engine, size_t listener);
void engine_look(struct engine *engine);
void engine_serve(struct engine *engine, int fd, uint32_t generation, unsigned flags);

#endif
