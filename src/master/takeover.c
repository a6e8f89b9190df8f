/*
 * Taking over: new groups beside those that serve, and the one moment in which clients come to them.
 *
 * Nothing here reads a configuration or decides what becomes of a group; that is the change's.
 */
#include "base/log.h"
#include "master/change.h"
#include "master/state.h"

bool groups_come(struct master *master, struct settings *settings, const struct change_step *steps,
		 size_t n_steps)
{
	for (size_t i = 0; i < n_steps; i++) {
		const struct change_step *step = &steps[i];
		const struct group_settings *next = settings_find_group(settings, step->group);
		struct group *group;
		int status;

		if (step->action != CHANGE_ADDS && step->action != CHANGE_REPLACES)
			continue;
		group = group_open(master, settings, next, &status);
		if (!group || group_start(group) != 0)
			return false;
	}
	return true;
}

void groups_abandon(struct master *master)
{
	for (struct group *group = master->groups; group; group = group->next) {
		if (group->state == GROUP_NEW)
			group_abandon(group);
	}
}

/* Workers that are ready go to the listeners. */
static void group_begin(struct group *group)
{
	for (unsigned i = 0; i < group->plan.lanes; i++) {
		struct watch *watch = &group->watches[i];

		watch_begin(watch);
		for (unsigned k = 0; k < group->plan.primaries; k++)
			worker_call(&watch->workers[k]);
		lane_line_up(watch);
	}
}

/* Takes a group out of the list, to stand at its end. */
static void group_move_back(struct master *master, struct group *group)
{
	struct group **link = &master->groups;

	for (; *link; link = &(*link)->next) {
		if (*link == group)
			*link = group->next;
		if (!*link)
			break;
	}
	*link = group;
	group->next = NULL;
}

/* Those that serve in the order of the configuration, and behind them those that leave. */
static void groups_sort(struct master *master)
{
	const struct settings *settings = master->settings;
	size_t others = 0;

	for (const struct group *group = master->groups; group; group = group->next)
		others += group->state != GROUP_SERVING;
	for (size_t i = 0; i < settings->n_groups; i++) {
		struct group *group = group_find(master, settings->groups[i].name, GROUP_SERVING);

		if (group)
			group_move_back(master, group);
	}
	for (; others > 0; others--) /* they stand in front now */
		group_move_back(master, master->groups);
}

/* A group that stays is the new configuration's. */
static void group_stay(struct group *group, struct settings *settings)
{
	const struct group_settings *next = settings_find_group(settings, group->settings->name);
	struct settings *before = group->owner;

	if (!next)
		return;
	group->settings = next;
	group->owner = settings_ref(settings);
	settings_free(before);
}

/* Of the master and all workers, those included that leave. */
static void log_level_takes_effect(struct master *master)
{
	int level = master->settings->log_level;

	log_set_level(level);
	for (struct watch *watch = NULL; (watch = watch_next(master, watch));)
		atomic_store(&watch->lane->board->log_level, (uint32_t)level);
	for (struct worker *worker = NULL; (worker = worker_next(master, worker));)
		worker_tell(worker);
}

static void settings_take_effect(struct master *master, struct settings *settings)
{
	bool other_level = settings->log_level != master->settings->log_level;

	settings_free(master->settings);
	master->settings = settings_ref(settings);
	for (struct group *group = master->groups; group; group = group->next) {
		if (group->state != GROUP_LEAVING)
			group_stay(group, settings);
	}
	if (other_level)
		log_level_takes_effect(master);
	for (struct watch *watch = NULL; (watch = watch_next(master, watch));) {
		if (watch->group->state == GROUP_SERVING)
			watch_begin(watch);
	}
}

void groups_take_over(struct master *master, struct settings *settings,
		      const struct change_step *steps, size_t n_steps)
{
	master->changes++;
	for (struct group *group = master->groups; group; group = group->next) {
		if (group->state == GROUP_NEW)
			endpoints_take(group);
	}
	for (size_t i = 0; i < n_steps; i++) {
		const struct change_step *step = &steps[i];
		struct group *old = group_find(master, step->group, GROUP_SERVING);

		if (step->action == CHANGE_REPLACES || step->action == CHANGE_REMOVES) {
			old->state = GROUP_LEAVING;
			old->left_with = master->changes;
		}
	}
	for (struct group *group = master->groups; group; group = group->next) {
		if (group->state == GROUP_NEW)
			group->state = GROUP_SERVING;
	}
	settings_take_effect(master, settings);
	endpoints_settle(master);
	for (size_t i = 0; i < n_steps; i++) {
		const struct change_step *step = &steps[i];

		if (step->action == CHANGE_ADDS || step->action == CHANGE_REPLACES)
			group_begin(group_find(master, step->group, GROUP_SERVING));
	}
	for (struct group *group = master->groups; group; group = group->next) {
		if (group->state == GROUP_LEAVING && group->left_with == master->changes)
			group_leave(group);
	}
	groups_sort(master);
	supervise_wake(master);
}
