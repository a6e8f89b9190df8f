/*
 * Limits: what a group's numbers come to for each of its lanes and processes, and whether this host
 * can carry them. Nothing here opens or changes anything.
 */
#ifndef LANED_MASTER_LIMITS_H
#define LANED_MASTER_LIMITS_H

#include <sys/resource.h>

#include "config/report.h"
#include "config/settings.h"
#include "lane/lane.h"
#include "topology/topology.h"

/* What the host allows; 0: unknown. */
struct host_limits {
	unsigned cpus;      /* what `workers = "auto"` means */
	rlim_t nofile;      /* RLIMIT_NOFILE, the hard one */
	unsigned somaxconn; /* net.core.somaxconn */
};

/* Looks at the host; what cannot be read is unknown. */
void host_limits_read(struct host_limits *ret);

/*
 * The i-th of `lanes` even shares of a total; the first ones are one larger if it does not divide.
 */
uint64_t limits_share(uint64_t total, unsigned lanes, unsigned i);

/*
 * Descriptors that a worker of the group is given: what it asks for, cut to what the host allows.
 */
rlim_t limits_nofile(const struct group_settings *group, const struct plan *plan,
		     const struct host_limits *host);

/*
 * What the memory of one of the group's lanes is to hold, with places for `extra_max` extra
 * workers. Each of those has a block of its own on top of the lane's share of buffer_memory.
 */
struct lane_shape limits_lane_shape(const struct group_settings *group, const struct plan *plan,
				    unsigned lane, rlim_t nofile, unsigned extra_max);

/* Adds what cannot be, or will not be as written, to the report. */
void limits_check(const struct settings *settings, const struct host_limits *host,
		  struct report *report);

#endif
