/*
 * "reuseport": a queue per worker. The kernel chooses one by a hash of the client's address: no
 * shared lock, and no eye for which worker is busy.
 */
#include "topology/kinds.h"

static struct plan plan_reuseport(const struct group_settings *group, unsigned workers)
{
	(void)group;
	return (struct plan){.lanes = workers, .primaries = 1};
}

const struct topology topology_reuseport = {
	.name = "reuseport",
	.plan = plan_reuseport,
};
