/*
 * Rotation: which lanes of a group new clients may come to.
 *
 * Where every lane is in it the kernel chooses by its hash. A lane that does not go on is taken
 * out, by a program that chooses among the others.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "master/state.h"
#include "net/steer.h"

/*
 * Attaches the program for the lanes that are in rotation now to each address. The number of a lane
 * is that of its socket, as listeners are opened lane by lane and closed together.
 */
static int group_rotate(const struct group *group, const unsigned *members, size_t n)
{
	const struct lane *first = &group->lanes[0];
	int r = 0;

	for (size_t i = 0; i < first->n_listeners && r == 0; i++)
		r = n == group->plan.lanes ? steer_detach(first->listeners[i])
					   : steer_attach(first->listeners[i], members, n);
	return r;
}

bool lane_steer(struct watch *watch, bool away)
{
	struct group *group = watch->group;
	unsigned members[STEER_MEMBERS_MAX];
	size_t n = 0;

	if (watch->steered == away)
		return true;
	assert(group->plan.lanes <=
	       STEER_MEMBERS_MAX); /* the schema lets no more workers through */
	watch->steered = away;
	for (unsigned i = 0; i < group->plan.lanes; i++) {
		if (!group->watches[i].steered)
			members[n++] = i;
	}

	int r = n > 0 ? group_rotate(group, members, n) : -ESRCH;

	if (r == 0)
		return true;
	if (n > 0)
		log_error("%s: new clients cannot be kept away from it: %s", watch->lane->name,
			  strerror(-r));
	watch->steered = !away;
	return false;
}
