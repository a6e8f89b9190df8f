#include "topology/topology.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "topology/kinds.h"

const struct topology *const topologies[] = {
	&topology_shared_listener,
	&topology_reuseport,
	&topology_reuseport_standby,
	NULL,
};

const struct topology *topology_find(const char *name)
{
	for (const struct topology *const *kind = topologies; *kind; kind++) {
		if (strcmp((*kind)->name, name) == 0)
			return *kind;
	}
	return NULL;
}

struct plan topology_plan(const struct group_settings *group, unsigned cpus)
{
	const struct topology *kind = topology_find(group->topology);

	assert(kind); /* the schema lets no other name through */

	struct plan plan = kind->plan(group, group->workers > 0 ? group->workers : cpus);

	assert(plan.lanes > 0 && plan.primaries > 0);
	assert(kind->has_standbys || plan.standbys == 0);
	return plan;
}

unsigned plan_workers(const struct plan *plan)
{
	return plan->primaries + plan->standbys;
}

enum worker_role plan_role(const struct plan *plan, unsigned worker)
{
	if (worker < plan->primaries)
		return WORKER_PRIMARY;
	return worker < plan_workers(plan) ? WORKER_STANDBY : WORKER_EXTRA;
}

const char *worker_role_name(enum worker_role role)
{
	switch (role) {
	case WORKER_PRIMARY:
		return "primary";
	case WORKER_STANDBY:
		return "standby";
	case WORKER_EXTRA:
		return "extra";
	}
	return "unknown";
}
