/*
 * A group in the master: its plan made real, as lanes with listeners and places for workers.
 */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <sysexits.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "master/change.h"
#include "master/state.h"
#include "net/listener.h"

/*
 * The addresses of the group that this host can have. Returns how many; *ret is the caller's to
 * free.
 */
static size_t usable_addresses(const struct group_settings *settings,
			       const struct listen_setting ***ret)
{
	size_t n = 0;

	*ret = calloc(settings->n_listen, sizeof(**ret));
	for (size_t i = 0; *ret && i < settings->n_listen; i++) {
		const struct listen_setting *listen = &settings->listen[i];

		if (listener_family_usable(listen->address.sa.sa_family))
			(*ret)[n++] = listen;
		else
			log_warning("%s: this host has no %s; %s is left out", settings->name,
				    listen->address.sa.sa_family == AF_INET ? "IPv4" : "IPv6",
				    listen->address.text);
	}
	return n;
}

/* Places of extra workers in each lane. */
static unsigned group_extras(const struct group *group)
{
	return group->places - plan_workers(&group->plan);
}

/* Returns 0 or an exit status. */
static int lanes_open(struct group *group)
{
	const struct group_settings *settings = group->settings;
	struct master *master = group->master;

	for (unsigned i = 0; i < group->plan.lanes; i++) {
		struct lane_shape shape = limits_lane_shape(settings, &group->plan, i,
							    group->nofile, group_extras(group));
		int r = lane_open(&group->lanes[i], settings->name, i, &shape, group->n_endpoints,
				  master->notice_fd);

		if (r < 0) {
			change_explain(master, NULL, "%s/%u: cannot be set up: %s", settings->name,
				       i, strerror(-r));
			return EX_OSERR;
		}
	}
	return 0;
}

static void places_init(struct group *group)
{
	struct master *master = group->master;

	for (unsigned i = 0; i < group->plan.lanes; i++) {
		struct watch *watch = &group->watches[i];

		*watch = (struct watch){
			.master = master,
			.group = group,
			.lane = &group->lanes[i],
			.workers = &group->workers[(size_t)i * group->places],
			.n_workers = group->places,
		};
		for (unsigned k = 0; k < group->places; k++) {
			struct worker *worker = &watch->workers[k];

			*worker = (struct worker){
				.master = master,
				.group = group,
				.lane = watch->lane,
				.watch = watch,
				.number = k,
				.role = plan_role(&group->plan, k),
				.pidfd = -1,
				.probe_fd = -1,
			};
			(void)snprintf(worker->name, sizeof(worker->name), "%s/%u.%u",
				       group->settings->name, i, k);
		}
	}
}

/* All memory that it needs. Returns 0 or -ENOMEM. */
static int group_allocate(struct group *group)
{
	size_t lanes = group->plan.lanes;

	assert(lanes > 0 && group->n_endpoints > 0 && group->places > 0);
	group->n_workers = lanes * group->places;
	group->endpoints = calloc(group->n_endpoints, sizeof(*group->endpoints));
	group->inherited = calloc(lanes * group->n_endpoints, sizeof(*group->inherited));
	group->lanes = calloc(lanes, sizeof(*group->lanes));
	group->watches = calloc(lanes, sizeof(*group->watches));
	group->workers = calloc(group->n_workers, sizeof(*group->workers));
	group->aborts_ns = calloc(group->n_workers, sizeof(*group->aborts_ns));
	if (!group->endpoints || !group->inherited || !group->lanes || !group->watches ||
	    !group->workers || !group->aborts_ns)
		return -ENOMEM;
	places_init(group);
	return 0;
}

/* Returns 0 or an exit status. */
static int group_set_up(struct group *group)
{
	_cleanup_(freep) const struct listen_setting **addresses = NULL;
	struct master *master = group->master;
	const struct group_settings *settings = group->settings;
	int status;

	group->plan = topology_plan(settings, master->host.cpus);
	group->nofile = limits_nofile(settings, &group->plan, &master->host);
	group->places = plan_workers(&group->plan) + group->owner->supervision.extra_max;
	group->n_endpoints = usable_addresses(settings, &addresses);
	if (addresses && group->n_endpoints == 0) {
		change_explain(master, &settings->origins[GROUP_KEY_LISTEN],
			       "%s: no address is left to listen on", settings->name);
		return EX_UNAVAILABLE;
	}
	if (!addresses || group_allocate(group) < 0) {
		change_explain(master, NULL, "%s: cannot be set up: %s", settings->name,
			       strerror(ENOMEM));
		return EX_OSERR;
	}
	status = lanes_open(group);
	return status == 0 ? endpoints_open(group, addresses) : status;
}

struct group *group_open(struct master *master, struct settings *owner,
			 const struct group_settings *settings, int *ret_status)
{
	struct group *group = calloc(1, sizeof(*group));
	struct group **link = &master->groups;

	if (!group) {
		change_explain(master, NULL, "%s: cannot be set up: %s", settings->name,
			       strerror(ENOMEM));
		*ret_status = EX_OSERR;
		return NULL;
	}
	*group = (struct group){
		.master = master,
		.owner = settings_ref(owner),
		.settings = settings,
	};
	while (*link)
		link = &(*link)->next;
	*link = group;

	*ret_status = group_set_up(group);
	if (*ret_status == 0)
		return group;
	group_free(group);
	return NULL;
}

int group_start(struct group *group)
{
	for (unsigned i = 0; i < group->plan.lanes; i++) {
		int r = watch_open(&group->watches[i]);

		if (r < 0) {
			change_explain(group->master, NULL, "%s: cannot be watched: %s",
				       group->lanes[i].name, strerror(-r));
			return EX_OSERR;
		}
	}
	for (size_t i = 0; i < group->n_workers; i++) {
		struct worker *worker = &group->workers[i];
		int r = worker->role == WORKER_EXTRA ? 0 : worker_spawn(worker);

		if (r < 0) {
			change_explain(group->master, NULL, "%s: cannot start a process: %s",
				       worker->name, strerror(-r));
			return EX_OSERR;
		}
	}
	return 0;
}

/* Ends a process that is still there, as when the event loop was left early. */
static void worker_close(struct worker *worker)
{
	sd_event_source_disable_unref(worker->exit_source);
	sd_event_source_disable_unref(worker->restart_source);
	if (worker->pid > 0 && kill(worker->pid, SIGKILL) == 0)
		(void)waitpid(worker->pid, NULL, 0);
	fd_close(worker->pidfd);
	fd_close(worker->probe_fd);
}

/* What group_allocate() has made, as far as it came. */
static void group_fini(struct group *group)
{
	bool complete = group->aborts_ns && group->workers && group->watches && group->lanes &&
			group->inherited && group->endpoints;

	for (size_t i = 0; complete && i < group->n_workers; i++)
		worker_close(&group->workers[i]);
	for (unsigned i = 0; complete && i < group->plan.lanes; i++) {
		for (size_t l = 0; l < group->lanes[i].n_listeners; l++)
			endpoint_close(&group->watches[i], l);
		watch_close(&group->watches[i]);
		lane_close(&group->lanes[i]);
	}
	free(group->aborts_ns);
	free(group->workers);
	free(group->watches);
	free(group->lanes);
	free(group->inherited);
	free(group->endpoints);
}

void group_free(struct group *group)
{
	struct master *master = group->master;
	struct group **link = &master->groups;

	while (*link != group)
		link = &(*link)->next;
	*link = group->next;

	group_fini(group);
	settings_free(group->owner);
	free(group);
	endpoints_sweep(master);
}

struct group *group_find(const struct master *master, const char *name, enum group_state state)
{
	struct group *group = master->groups;

	while (group && (group->state != state || strcmp(group->settings->name, name) != 0))
		group = group->next;
	return group;
}

struct watch *watch_next(const struct master *master, const struct watch *watch)
{
	const struct group *group = watch ? watch->group : master->groups;

	if (watch && watch + 1 < group->watches + group->plan.lanes)
		return (struct watch *)watch + 1;
	if (watch)
		group = group->next;
	return group ? group->watches : NULL;
}

struct worker *worker_next(const struct master *master, const struct worker *worker)
{
	const struct group *group = worker ? worker->group : master->groups;

	if (worker && worker + 1 < group->workers + group->n_workers)
		return (struct worker *)worker + 1;
	if (worker)
		group = group->next;
	return group ? group->workers : NULL;
}

void groups_forget_others(struct master *master, const struct lane *own)
{
	for (struct group *group = master->groups; group; group = group->next) {
		for (unsigned k = 0; k < group->plan.lanes; k++) {
			if (&group->lanes[k] != own)
				lane_close(&group->lanes[k]);
		}
	}
}
