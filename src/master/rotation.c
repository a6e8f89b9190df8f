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

static struct log_limit steer_lines;

/*
 * Attaches the program for the lanes that are in rotation now to each address. The number of a lane
 * is that of its socket, as listeners are opened lane by lane. They are closed only when laned
 * stops and has let nobody new in since, so that it does not matter who moves up.
 */
static int group_rotate(const struct group *group)
{
	const struct lane *first = &group->lanes[0];
	unsigned members[STEER_MEMBERS_MAX];
	size_t n = 0;
	int r = 0;

	assert(group->plan.lanes <=
	       STEER_MEMBERS_MAX); /* the schema lets no more workers through */
	for (unsigned i = 0; i < group->plan.lanes; i++) {
		if (!group->watches[i].steered)
			members[n++] = i;
	}
	if (n == 0)
		return -ESRCH;
	for (size_t i = 0; i < first->n_listeners && r == 0; i++)
		r = n == group->plan.lanes ? steer_detach(first->listeners[i])
					   : steer_attach(first->listeners[i], members, n);
	return r;
}

bool lane_steer(struct watch *watch, bool away)
{
	int r;

	watch->steered = away;
	r = group_rotate(watch->group);
	if (r == 0)
		return true;
	watch->steered = !away;
	if (r == -ESRCH) /* no other lane would be left */
		return false;
	log_limited(&steer_lines, LOG_ERR, "%s: new clients cannot be %s: %s", watch->lane->name,
		    away ? "kept away from it" : "let in again", strerror(-r));
	(void)group_rotate(
		watch->group); /* as it was, at the addresses that were changed already */
	return false;
}
