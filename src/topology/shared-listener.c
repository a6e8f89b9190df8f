/*
 * "shared-listener": one queue, many servers. Whoever is free takes the next client, so nobody
 * waits behind a busy worker while another idles; all workers share the queue's lock.
 */
#include "topology/kinds.h"

static struct plan plan_shared_listener(const struct group_settings *group, unsigned workers)
{
	(void)group;
	return (struct plan){.lanes = 1, .primaries = workers};
}

const struct topology topology_shared_listener = {
	.name = "shared-listener",
	.plan = plan_shared_listener,
};
