/*
 * Topologies: where the clients of a group wait, and which workers serve each queue.
 *
 * A topology is a pure function from a group's settings to a plan, one file each, listed in
 * topology.c. The plan is all that the rest of the program knows of it: nothing else asks which
 * topology a group has.
 */
#ifndef LANED_TOPOLOGY_TOPOLOGY_H
#define LANED_TOPOLOGY_TOPOLOGY_H

#include <stdbool.h>

#include "config/settings.h"

enum worker_role {
	WORKER_PRIMARY,
	WORKER_STANDBY, /* there for when the primaries are busy */
	WORKER_EXTRA,   /* added while a lane has nobody free; of no plan */
};

/*
 * All lanes of a group are alike: primaries first (worker 0 on), then standbys, then the places of
 * extra workers, of which a plan knows nothing.
 */
struct plan {
	unsigned lanes;
	unsigned primaries; /* per lane */
	unsigned standbys;  /* per lane */
};

struct topology {
	const char *name; /* as in laned.conf(5) */
	bool has_standbys;

	/* `workers` is the group's number of workers, at least 1 ("auto" already a number). */
	struct plan (*plan)(const struct group_settings *group, unsigned workers);
};

/* The topology of that name, NULL: none. */
const struct topology *topology_find(const char *name);

/* All topologies, ended by NULL. */
extern const struct topology *const topologies[];

/* Makes the plan of a group; `cpus` is what `workers = "auto"` means. */
struct plan topology_plan(const struct group_settings *group, unsigned cpus);

/* Workers of a lane, and the role of one of them; whoever comes after these is an extra one. */
unsigned plan_workers(const struct plan *plan);
enum worker_role plan_role(const struct plan *plan, unsigned worker);

/* "primary", "standby", "extra". */
const char *worker_role_name(enum worker_role role);

#endif
