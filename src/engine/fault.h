/*
 * Faults for rehearsal: what a worker does to itself, on purpose, because the configuration says so.
 *
 * They show what clients and operators would see if a worker hung or died. A group without faults
 * pays one comparison for them.
 */
#ifndef LANED_ENGINE_FAULT_H
#define LANED_ENGINE_FAULT_H

#include "config/settings.h"

struct fault {
	const struct fault_settings *settings;
	uint64_t random; /* state of the generator */
};

/* The faults of one worker. */
struct fault_plan {
	struct fault *faults;
	size_t n;
};

/* Who the worker is: its numbers, one bit of enum fault_role, and which process this is. */
struct fault_place {
	unsigned lane;
	unsigned worker;
	unsigned role;
	uint32_t generation;
};

/*
 * Chooses the faults of a group that are for this worker. The same seed, place and generation give
 * the same sequence. Returns 0 or -ENOMEM; there is nothing to release before the process ends.
 */
int fault_plan_make(struct fault_plan *plan, const struct group_settings *group,
		    const struct fault_place *place);

/* For fault_may_strike(). */
void fault_strike(struct fault_plan *plan, enum fault_on on);

/* It happens now: each fault for it strikes with its probability. */
static inline void fault_may_strike(struct fault_plan *plan, enum fault_on on)
{
	if (plan->n > 0)
		fault_strike(plan, on);
}

#endif
