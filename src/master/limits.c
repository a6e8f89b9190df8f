#include "master/limits.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/cpu.h"
#include "config/schema.h"

#define SOMAXCONN_FILE "/proc/sys/net/core/somaxconn"

void host_limits_read(struct host_limits *ret)
{
	struct rlimit nofile;
	FILE *file = fopen(SOMAXCONN_FILE, "re");

	*ret = (struct host_limits){.cpus = cpu_usable()};
	if (getrlimit(RLIMIT_NOFILE, &nofile) == 0 && nofile.rlim_max != RLIM_INFINITY)
		ret->nofile = nofile.rlim_max;
	if (!file)
		return;
	if (fscanf(file, "%u", &ret->somaxconn) != 1)
		ret->somaxconn = 0;
	(void)fclose(file);
}

uint64_t limits_share(uint64_t total, unsigned lanes, unsigned i)
{
	return total / lanes + (i < total % lanes ? 1 : 0);
}

/* Descriptors that a worker of the fullest lane needs to hold all of its lane's connections. */
static rlim_t nofile_needed(const struct group_settings *group, const struct plan *plan)
{
	return limits_share(group->max_connections, plan->lanes, 0) + group->n_listen +
	       LANE_SPARE_FDS;
}

rlim_t limits_nofile(const struct group_settings *group, const struct plan *plan,
		     const struct host_limits *host)
{
	rlim_t nofile = group->nofile > 0 ? group->nofile : nofile_needed(group, plan);

	return host->nofile > 0 && nofile > host->nofile ? host->nofile : nofile;
}

struct lane_shape limits_lane_shape(const struct group_settings *group, const struct plan *plan,
				    unsigned lane, rlim_t nofile, unsigned extra_max)
{
	uint64_t memory_bytes = limits_share(group->buffer_memory_bytes, plan->lanes, lane);

	return (struct lane_shape){
		.workers = plan_workers(plan) + extra_max,
		.conns = (uint32_t)nofile,
		.blocks = (uint32_t)(memory_bytes / POOL_BLOCK_BYTES) + extra_max,
		.max_connections = (uint32_t)limits_share(group->max_connections, plan->lanes,
							  lane),
	};
}

/* The place to point at: the key's, or the group's when the key is not written. */
static const struct origin *key_origin(const struct group_settings *group, enum group_key key)
{
	return group->origins[key].file ? &group->origins[key] : &group->origin;
}

static void check_standby(const struct group_settings *group, struct report *report)
{
	const struct origin *origin = &group->origins[GROUP_KEY_STANDBY];
	const char *standard = schema_find(SCHEMA_GROUP, "standby")->default_text;

	/* The default stands in every dump, and is nobody's mistake. */
	if (group->standby != strtoul(standard, NULL, 10) &&
	    !topology_find(group->topology)->has_standbys)
		report_add(report, REPORT_WARNING, origin,
			   "only topology \"reuseport+standby\" has standbys",
			   "group \"%s\": standby = %u is ignored: topology \"%s\" has none",
			   group->name, group->standby, group->topology);
}

static void check_backlog(const struct group_settings *group, const struct host_limits *host,
			  struct report *report)
{
	if (host->somaxconn == 0 || group->backlog <= host->somaxconn)
		return;
	report_add(report, REPORT_WARNING, key_origin(group, GROUP_KEY_BACKLOG),
		   "raise net.core.somaxconn with sysctl(8), or lower backlog",
		   "group \"%s\": backlog = %u is cut to %u by net.core.somaxconn (" SOMAXCONN_FILE
		   ")",
		   group->name, group->backlog, host->somaxconn);
}

static void check_lanes(const struct group_settings *group, const struct plan *plan,
			struct report *report)
{
	char place[REPORT_PLACE_MAX];
	uint64_t blocks = limits_share(group->buffer_memory_bytes, plan->lanes, plan->lanes - 1) /
			  POOL_BLOCK_BYTES;
	unsigned long long needed = 2ULL * plan_workers(plan);

	if (group->max_connections < plan->lanes)
		report_add(
			report, REPORT_ERROR, key_origin(group, GROUP_KEY_MAX_CONNECTIONS),
			"every lane needs at least one",
			"group \"%s\": max_connections = %u is too few for %u lanes (workers: %s)",
			group->name, group->max_connections, plan->lanes,
			report_place(&group->origins[GROUP_KEY_WORKERS], place));
	if (blocks < needed)
		report_add(report, REPORT_ERROR, key_origin(group, GROUP_KEY_BUFFER_MEMORY),
			   "every worker needs two blocks of 64 KiB",
			   "group \"%s\": buffer_memory is too small for %u lanes of %u workers "
			   "(workers: %s): at least %llu KiB are needed",
			   group->name, plan->lanes, plan_workers(plan),
			   report_place(&group->origins[GROUP_KEY_WORKERS], place),
			   needed * plan->lanes * (POOL_BLOCK_BYTES / 1024));
}

static void check_nofile(const struct group_settings *group, const struct plan *plan,
			 const struct host_limits *host, struct report *report)
{
	char place[REPORT_PLACE_MAX];
	unsigned long long needed = nofile_needed(group, plan);
	const struct origin *connections = &group->origins[GROUP_KEY_MAX_CONNECTIONS];

	if (group->nofile > 0 && group->nofile < needed) {
		report_add(report, REPORT_ERROR, key_origin(group, GROUP_KEY_NOFILE),
			   "raise nofile, or leave it at 0: what the limits need",
			   "group \"%s\": nofile = %u is less than the %llu descriptors that "
			   "max_connections = %u needs (%s)",
			   group->name, group->nofile, needed, group->max_connections,
			   report_place(connections, place));
		return;
	}

	unsigned long long wanted = group->nofile > 0 ? group->nofile : needed;

	if (host->nofile == 0 || wanted <= host->nofile)
		return;
	if (host->nofile < group->n_listen + LANE_SPARE_FDS + 1)
		report_add(report, REPORT_ERROR, key_origin(group, GROUP_KEY_MAX_CONNECTIONS), NULL,
			   "group \"%s\": the hard RLIMIT_NOFILE of this process (%llu) leaves no "
			   "descriptor for a connection",
			   group->name, (unsigned long long)host->nofile);
	else
		report_add(
			report, REPORT_WARNING,
			key_origin(group, group->nofile > 0 ? GROUP_KEY_NOFILE
							    : GROUP_KEY_MAX_CONNECTIONS),
			"raise the limit (LimitNOFILE= in the unit, ulimit -n), or lower max_connections",
			"group \"%s\": a worker needs %llu descriptors for max_connections = %u (%s), "
			"but the hard RLIMIT_NOFILE of this process is %llu",
			group->name, wanted, group->max_connections,
			report_place(connections, place), (unsigned long long)host->nofile);
}

/* The first number that is not below `n`; NULL: all are. */
static const unsigned *first_beyond(const struct numbers_setting *setting, unsigned n)
{
	for (size_t i = 0; i < setting->n; i++) {
		if (setting->numbers[i] >= n)
			return &setting->numbers[i];
	}
	return NULL;
}

/* The roles of the workers that a fault's `workers` are; bits of enum fault_role. */
static unsigned roles_of_workers(const struct fault_settings *fault, const struct plan *plan,
				 unsigned workers)
{
	unsigned roles = 0;

	for (unsigned i = 0; i < workers; i++) {
		if (numbers_have(&fault->workers, i))
			roles |= 1U << plan_role(plan, i);
	}
	return roles;
}

/* Warns of what the roles of a fault name and never meet. `n_workers`: of a lane. */
static void check_roles(const struct group_settings *group, const struct fault_settings *fault,
			const struct plan *plan, unsigned n_workers, struct report *report)
{
	const struct origin *origin = &fault->origins[FAULT_KEY_ROLES];
	unsigned roles = fault->roles;

	if ((roles & FAULT_STANDBY) && plan->standbys == 0) {
		roles &= ~(unsigned)FAULT_STANDBY;
		report_add(report, REPORT_WARNING, origin,
			   topology_find(group->topology)->has_standbys
				   ? "standby = 0 asks for none"
				   : "only topology \"reuseport+standby\" has standbys",
			   "group \"%s\": the fault never strikes a standby: there is none",
			   group->name);
	}
	if ((roles & FAULT_EXTRA) && n_workers == plan_workers(plan)) {
		roles &= ~(unsigned)FAULT_EXTRA;
		report_add(report, REPORT_WARNING, origin, "supervision.extra_max = 0 allows none",
			   "group \"%s\": the fault never strikes an extra worker: there is none",
			   group->name);
	}
	if (roles != 0 && !(roles & roles_of_workers(fault, plan, n_workers)))
		report_add(report, REPORT_WARNING, origin,
			   "primaries come first, then standbys, then extra workers",
			   "group \"%s\": the fault never strikes: none of its workers has one of "
			   "its roles",
			   group->name);
}

/* Warns of what a fault names and never meets. */
static void check_fault(const struct group_settings *group, const struct fault_settings *fault,
			const struct plan *plan, unsigned extra_max, struct report *report)
{
	unsigned n_workers = plan_workers(plan) + extra_max;
	const unsigned *lane = first_beyond(&fault->lanes, plan->lanes);
	const unsigned *worker = first_beyond(&fault->workers, n_workers);

	if (lane)
		report_add(report, REPORT_WARNING, &fault->origins[FAULT_KEY_LANES],
			   "lanes count from 0",
			   "group \"%s\": the fault never strikes in lane %u: lanes of the group: "
			   "%u",
			   group->name, *lane, plan->lanes);
	if (worker)
		report_add(report, REPORT_WARNING, &fault->origins[FAULT_KEY_WORKERS],
			   "they count from 0: primaries, standbys, extra workers",
			   "group \"%s\": the fault never strikes worker %u: workers of a lane, "
			   "with all extra ones: %u",
			   group->name, *worker, n_workers);
	else
		check_roles(group, fault, plan, n_workers, report);
}

/* Descriptors that the master has beside those of groups: its event loop, log and the like. */
#define MASTER_SPARE_FDS 32

/*
 * It has every listener, an eventfd for each lane, and for each place of a worker two pidfds and, while
 * one starts, its end of the probe.
 */
static void check_master(unsigned long long group_fds, const struct host_limits *host,
			 struct report *report)
{
	if (host->nofile > 0 && group_fds + MASTER_SPARE_FDS > host->nofile)
		report_add(
			report, REPORT_ERROR, NULL,
			"raise the limit (LimitNOFILE= in the unit, ulimit -n), or have fewer workers",
			"the master needs %llu descriptors for its listeners and workers, but its "
			"hard RLIMIT_NOFILE is %llu",
			group_fds + MASTER_SPARE_FDS, (unsigned long long)host->nofile);
}

void limits_check(const struct settings *settings, const struct host_limits *host,
		  struct report *report)
{
	unsigned extra_max = settings->supervision.extra_max;
	unsigned long long group_fds = 0;

	for (size_t i = 0; i < settings->n_groups; i++) {
		const struct group_settings *group = &settings->groups[i];
		struct plan plan = topology_plan(group, host->cpus);

		check_standby(group, report);
		check_backlog(group, host, report);
		check_lanes(group, &plan, report);
		check_nofile(group, &plan, host, report);
		for (size_t f = 0; f < group->n_faults; f++)
			check_fault(group, &group->faults[f], &plan, extra_max, report);
		group_fds += plan.lanes *
			     (group->n_listen + 1 + 3ULL * (plan_workers(&plan) + extra_max));
	}
	check_master(group_fds, host, report);
}
