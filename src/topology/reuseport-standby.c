/*
 * "reuseport+standby": a queue per worker, and beside each worker standbys that serve its queue
 * when it does not. Under load a standby shares the work.
 */
#include "topology/kinds.h"

static struct plan plan_reuseport_standby(const struct group_settings *group, unsigned workers)
{
	return (struct plan){.lanes = workers, .primaries = 1, .standbys = group->standby};
}

const struct topology topology_reuseport_standby = {
	.name = "reuseport+standby",
	.has_standbys = true,
	.plan = plan_reuseport_standby,
};
