/*
 * The master's state: private to this folder.
 */
#ifndef LANED_MASTER_STATE_H
#define LANED_MASTER_STATE_H

#include <systemd/sd-event.h>

#include "config/settings.h"
#include "lane/lane.h"
#include "master/limits.h"
#include "topology/topology.h"
#include "worker/account.h"
#include "worker/worker.h"

/* A place in a lane and the process that is in it now. */
struct worker {
	struct master *master;
	struct group *group;
	struct lane *lane;
	uint32_t number; /* in the lane */
	enum worker_role role;
	char name[WORKER_NAME_MAX];
	uint32_t generation; /* how many processes have held the place */
	pid_t pid;           /* 0: no process */
	int pidfd;           /* -1: no process */
	bool ready;          /* it has said so, and the master has seen it */
	uint64_t started_ns; /* clock_now_ns() */
	sd_event_source *exit_source;
	sd_event_source *restart_source;
};

struct group {
	const struct group_settings *settings;
	struct plan plan;
	rlim_t nofile; /* of each worker */
	struct lane *lanes;
	struct worker *workers; /* lane by lane */
	size_t n_workers;
};

enum master_phase {
	MASTER_STARTING, /* not every worker has been ready yet */
	MASTER_SERVING,
	MASTER_STOPPING, /* workers drain */
	MASTER_ENDING,   /* workers are killed */
};

struct master {
	const struct settings *settings;
	struct host_limits host;
	struct account account;
	sd_event *event;
	int notice_fd; /* eventfd: a worker has changed its phase */
	struct group *groups;
	size_t n_groups;
	enum master_phase phase;
};

/* group.c */

/*
 * Makes a group's plan, maps its lanes and opens their listeners; no worker yet. Returns 0, or an
 * exit status after it has logged why; group_close() in both cases.
 */
int group_open(struct master *master, struct group *group, const struct group_settings *settings);
void group_close(struct group *group);

/* In a new process: lets go of all lanes but its own. */
void groups_forget_others(struct master *master, const struct lane *own);

/* spawn.c */

/* Fills a place with a new process. Returns 0 or -errno. */
int worker_spawn(struct worker *worker);

/* reap.c */

/* Fills an empty place as soon as that is allowed. */
void worker_restart(struct worker *worker);

/* Called by the event loop when a worker's process has ended. */
int worker_exited(sd_event_source *source, const siginfo_t *info, void *userdata);

/* orders.c */

/* Makes a worker look at its orders. */
void worker_tell(const struct worker *worker);

/*
 * Lets the standbys of a worker's lane wait behind its primaries: the kernel turns to them when no
 * primary is waiting. Whenever a worker has come or gone.
 */
void lane_line_up(const struct worker *worker);

/* Called by the event loop when workers have changed their phase. */
int workers_noticed(sd_event_source *source, int fd, uint32_t events, void *userdata);

/* stop.c */

/* Lets all workers drain, and ends when they have; or at once when it has been called before. */
void master_stop(struct master *master);

/* Ends at once. */
void master_stop_now(struct master *master);

/* While stopping: closes what nobody waits on any longer, and ends when no process is left. */
void master_stop_go_on(struct master *master);

#endif
