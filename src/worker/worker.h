/*
 * A worker: the process in a place of a lane, from its first instruction to its last.
 *
 * It serves with an engine and obeys the master, which speaks through the scoreboard and SIGUSR2.
 * It opens no files, starts no processes, and heeds no signal from anybody else.
 */
#ifndef LANED_WORKER_WORKER_H
#define LANED_WORKER_WORKER_H

#include <sys/resource.h>
#include <sys/types.h>

#include "config/settings.h"
#include "lane/lane.h"
#include "topology/topology.h"
#include "worker/account.h"

#define WORKER_NAME_MAX (LANE_NAME_MAX + 16) /* "GROUP/LANE.WORKER" and its NUL */

/* What the master hands to a worker. All of it stays valid while the worker lives. */
struct worker_start {
	const char *name;
	const struct group_settings *group;
	struct lane *lane;
	struct pool_owner owner; /* place in the lane, and generation */
	enum worker_role role;
	const struct plan *plan; /* of the group: who else serves the lane from the start */
	rlim_t nofile;
	int probe_fd; /* a connection that it has to serve before it is ready */
	const struct account *account;
	pid_t master;
};

/* To be called in the new process, all signals blocked; does not return. */
_Noreturn void worker_run(const struct worker_start *start);

#endif
