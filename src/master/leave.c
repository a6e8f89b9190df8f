/*
 * Leaving: a group that another one has replaced, or that is served no more.
 *
 * Its workers give up at once what others have inherited. Sockets that nobody has inherited get no
 * new clients, and are given up when they are empty and every handshake that had begun is through.
 * Connections live until they end; those that are left after drain_timeout end when they are quiet,
 * and shortly after that their workers are killed. So do those of the oldest group when there are
 * more than max_generations.
 */
#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "master/state.h"
#include "net/listener.h"

/*
 * How long a socket that gets no new clients is served at least: a handshake takes as long as this
 * if both ends have to repeat themselves once.
 */
#define HANDSHAKE_NS (3 * NS_PER_S)
#define LAST_NS      (2 * NS_PER_S) /* for connections that were told to end */
#define LOOK_NS      (100 * NS_PER_MS)

static bool group_leaves(const struct group *group)
{
	return group->state == GROUP_LEAVING;
}

/* The workers of a lane give up a listener. */
static void listener_give_up(struct watch *watch, size_t listener)
{
	atomic_store(&watch->lane->given_up[listener], 1);
}

static void lane_tell_workers(struct watch *watch)
{
	for (unsigned i = 0; i < watch->n_workers; i++) {
		struct worker *worker = &watch->workers[i];

		if (worker->pid == 0)
			continue;
		worker_tell(worker);
		worker->leave_order = atomic_load(&worker_line(worker)->asked);
	}
}

/* What others have inherited: they have descriptors of their own. */
static void lane_hand_over(struct watch *watch)
{
	bool given_up = false;

	for (size_t i = 0; i < watch->lane->n_listeners; i++) {
		if (endpoint_has(watch, i))
			continue;
		listener_give_up(watch, i);
		endpoint_close(watch, i);
		given_up = true;
	}
	if (!given_up)
		return;
	for (unsigned i = 0; i < watch->n_workers && !lane_has_listener(watch->lane); i++) {
		struct worker *worker = &watch->workers[i];

		worker->restart_source = sd_event_source_disable_unref(worker->restart_source);
	}
	lane_tell_workers(watch);
}

bool group_has_handed_over(const struct group *group)
{
	for (size_t i = 0; i < group->n_workers; i++) {
		const struct worker *worker = &group->workers[i];
		uint32_t answered = atomic_load(&worker_line(worker)->answered);

		if (worker->pid > 0 && worker->leave_order != 0 &&
		    (int32_t)(answered - worker->leave_order) < 0)
			return false;
	}
	return true;
}

/* --- How many may leave at a time -------------------------------------------------------------- */

/* The one of those that have time left which came first; and how many changes they came with. */
static struct group *groups_oldest(const struct master *master, uint64_t now_ns, unsigned *ret_n)
{
	struct group *oldest = NULL;

	*ret_n = 0;
	for (struct group *group = master->groups; group; group = group->next) {
		bool counted = false;

		if (!group_leaves(group) || group->drain_ns <= now_ns)
			continue;
		for (const struct group *other = master->groups; other != group;
		     other = other->next)
			counted |= group_leaves(other) && other->drain_ns > now_ns &&
				   other->left_with == group->left_with;
		*ret_n += !counted;
		if (!oldest || group->left_with < oldest->left_with)
			oldest = group;
	}
	return oldest;
}

/* The oldest ones have no more time. */
static void groups_make_room(struct master *master, uint64_t now_ns)
{
	unsigned n;

	for (;;) {
		const struct group *oldest = groups_oldest(master, now_ns, &n);

		if (n <= master->settings->max_generations)
			return;

		unsigned left_with = oldest->left_with;

		log_notice("more than %u generations (max_generations): the oldest ends its "
			   "connections",
			   master->settings->max_generations);
		for (struct group *group = master->groups; group; group = group->next) {
			if (group_leaves(group) && group->left_with == left_with)
				group->drain_ns = now_ns;
		}
	}
}

void group_leave(struct group *group)
{
	uint64_t now_ns = clock_now_ns();

	group->leave_ns = now_ns;
	group->drain_ns = now_ns + group->master->settings->drain_timeout_ns;
	for (unsigned i = 0; i < group->plan.lanes; i++)
		lane_hand_over(&group->watches[i]);
	groups_make_room(group->master, now_ns);
	master_settle(group->master);
}

void group_abandon(struct group *group)
{
	group->state = GROUP_LEAVING;
	for (unsigned i = 0; i < group->plan.lanes; i++)
		lane_hand_over(&group->watches[i]);
	for (size_t i = 0; i < group->n_workers; i++) {
		struct worker *worker = &group->workers[i];

		if (worker->pid > 0 && !worker->heartbeat.killed)
			worker_kill(worker, SIGKILL);
		worker->heartbeat.killed = true;
	}
	master_settle(group->master);
}

/* --- Step by step ------------------------------------------------------------------------------ */

/*
 * Whether a process is on its way that may still have copies of all descriptors of the master: a
 * socket would outlive its closing, and the kernel's array differ from ours.
 */
static bool anybody_starts(const struct master *master)
{
	for (struct worker *worker = NULL; (worker = worker_next(master, worker));) {
		if (worker->pid > 0 && atomic_load(&worker_line(worker)->phase) == WORKER_STARTING)
			return true;
	}
	return false;
}

/* Whether no process waits on the lane's listeners, or will. */
static bool lane_is_left(const struct watch *watch)
{
	for (unsigned i = 0; i < watch->n_workers; i++) {
		const struct worker *worker = &watch->workers[i];

		if (worker->restart_source)
			return false;
		if (worker->pid > 0 && atomic_load(&worker_line(worker)->phase) != WORKER_LEFT)
			return false;
	}
	return true;
}

/* Gives up what is empty, and closes what is left. */
static void lane_leave_go_on(struct watch *watch, uint64_t now_ns)
{
	struct lane *lane = watch->lane;
	bool through = now_ns - watch->group->leave_ns >= HANDSHAKE_NS, given_up = false;
	bool over = now_ns >= watch->group->drain_ns + LAST_NS; /* for those who wait, too */

	for (size_t i = 0; (through || over) && i < lane->n_listeners; i++) {
		if (lane->listeners[i] < 0 || atomic_load(&lane->given_up[i]))
			continue;
		if (listener_depth(lane->listeners[i]) > 0 && !over)
			continue;
		listener_give_up(watch, i);
		given_up = true;
	}
	if (given_up)
		lane_tell_workers(watch);
	if (!lane_has_listener(lane) || !lane_is_left(watch) || anybody_starts(watch->master))
		return;
	for (size_t i = 0; i < lane->n_listeners; i++)
		endpoint_close(watch, i);
}

static void group_drain(struct group *group)
{
	group->draining = true;
	for (size_t i = 0; i < group->n_workers; i++) {
		if (group->workers[i].pid > 0)
			worker_drain(&group->workers[i]);
	}
}

static void group_kill(struct group *group)
{
	for (size_t i = 0; i < group->n_workers; i++) {
		struct worker *worker = &group->workers[i];

		if (worker->pid == 0 || worker->heartbeat.killed)
			continue;
		worker->heartbeat.killed = true;
		log_warning("%s (pid %d): not done when drain_timeout was over, connections left: "
			    "%u; killed",
			    worker->name, (int)worker->pid,
			    atomic_load(&worker_line(worker)->connections));
		worker_kill(worker, SIGKILL);
	}
}

/* Whether nothing of it is left. */
static bool group_is_gone(const struct group *group)
{
	for (size_t i = 0; i < group->n_workers; i++) {
		if (group->workers[i].pid > 0 || group->workers[i].restart_source)
			return false;
	}
	for (unsigned i = 0; i < group->plan.lanes; i++) {
		if (lane_has_listener(&group->lanes[i]))
			return false;
	}
	return true;
}

static void group_leave_go_on(struct group *group, uint64_t now_ns)
{
	for (unsigned i = 0; i < group->plan.lanes; i++)
		lane_leave_go_on(&group->watches[i], now_ns);
	if (!group->draining && now_ns >= group->drain_ns)
		group_drain(group);
	if (now_ns >= group->drain_ns + LAST_NS)
		group_kill(group);
	if (!group_is_gone(group))
		return;
	for (size_t i = 0; i < group->n_workers; i++)
		worker_incident_ends(&group->workers[i], INCIDENT_LEFT, now_ns);
	group_free(group);
}

/* When something is due that no event will tell; UINT64_MAX: nothing. */
static uint64_t group_due_ns(const struct group *group, uint64_t now_ns)
{
	uint64_t due_ns = group->drain_ns + (group->draining ? LAST_NS : 0);

	for (unsigned i = 0; i < group->plan.lanes; i++) {
		uint64_t look_ns = group->leave_ns + HANDSHAKE_NS;

		if (!lane_has_listener(&group->lanes[i]))
			continue;
		if (look_ns < now_ns + LOOK_NS)
			look_ns = now_ns + LOOK_NS;
		if (look_ns < due_ns)
			due_ns = look_ns;
	}
	return due_ns > now_ns ? due_ns : now_ns + LOOK_NS;
}

void groups_leave_go_on(struct master *master)
{
	uint64_t now_ns = clock_now_ns(), due_ns = UINT64_MAX;

	for (struct group *group = master->groups, *next; group; group = next) {
		next = group->next;
		if (group_leaves(group))
			group_leave_go_on(group, now_ns);
	}
	for (const struct group *group = master->groups; group; group = group->next) {
		if (group_leaves(group) && group_due_ns(group, now_ns) < due_ns)
			due_ns = group_due_ns(group, now_ns);
	}

	int r = sd_event_source_set_time(master->leave_source, due_ns / NS_PER_US);

	if (r >= 0)
		r = sd_event_source_set_enabled(master->leave_source, due_ns == UINT64_MAX
									      ? SD_EVENT_OFF
									      : SD_EVENT_ONESHOT);
	if (r < 0)
		log_error("cannot set a timer: %s; groups that leave stay", strerror(-r));
}
