/*
 * A group in the master: its plan made real, as lanes with listeners and places for workers.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <sysexits.h>

#include "base/fd.h"
#include "base/log.h"
#include "master/state.h"
#include "net/listener.h"

/* What the service manager is told about an address that cannot be had. */
static int bind_status(int error)
{
	switch (error) {
	case EADDRINUSE:
	case EADDRNOTAVAIL:
	case EAFNOSUPPORT:
		return EX_UNAVAILABLE;
	case EACCES:
	case EPERM:
		return EX_NOPERM;
	default:
		return EX_OSERR;
	}
}

static const char *bind_hint(int error)
{
	switch (error) {
	case EADDRINUSE:
		return ": another process, perhaps another laned, has it";
	case EADDRNOTAVAIL:
		return ": no interface of this host has it";
	case EACCES:
		return ": ports below net.ipv4.ip_unprivileged_port_start need CAP_NET_BIND_SERVICE";
	default:
		return "";
	}
}

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

static int lane_listen(struct lane *lane, unsigned number, const struct group_settings *settings,
		       const struct listen_setting *const *addresses)
{
	for (size_t i = 0; i < lane->n_listeners; i++) {
		const struct address *address = &addresses[i]->address;
		int fd = listener_open(address, number == 0 ? LISTENER_FIRST : LISTENER_FURTHER,
				       (int)settings->backlog);

		if (fd < 0) {
			log_error("%s: cannot listen on %s: %s%s", lane->name, address->text,
				  strerror(-fd), bind_hint(-fd));
			return bind_status(-fd);
		}
		lane->listeners[i] = fd;
	}
	return 0;
}

static int lanes_open(struct master *master, struct group *group,
		      const struct listen_setting *const *addresses, size_t n_addresses)
{
	const struct group_settings *settings = group->settings;
	unsigned extra_max = master->settings->supervision.extra_max;

	for (unsigned i = 0; i < group->plan.lanes; i++) {
		struct lane_shape shape = limits_lane_shape(settings, &group->plan, i,
							    group->nofile, extra_max);
		int r = lane_open(&group->lanes[i], settings->name, i, &shape, n_addresses,
				  master->notice_fd);

		if (r < 0) {
			log_error("%s/%u: cannot be set up: %s", settings->name, i, strerror(-r));
			return EX_OSERR;
		}
		r = lane_listen(&group->lanes[i], i, settings, addresses);
		if (r != 0)
			return r;
	}
	return 0;
}

static void places_init(struct master *master, struct group *group)
{
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
			};
			(void)snprintf(worker->name, sizeof(worker->name), "%s/%u.%u",
				       group->settings->name, i, k);
		}
	}
}

int group_open(struct master *master, struct group *group, const struct group_settings *settings)
{
	const struct listen_setting **addresses = NULL;
	int r = EX_OSERR;

	*group = (struct group){
		.settings = settings,
		.plan = topology_plan(settings, master->host.cpus),
	};
	group->nofile = limits_nofile(settings, &group->plan, &master->host);
	group->places = plan_workers(&group->plan) + master->settings->supervision.extra_max;
	group->n_workers = (size_t)group->plan.lanes * group->places;
	group->lanes = calloc(group->plan.lanes, sizeof(*group->lanes));
	group->watches = calloc(group->plan.lanes, sizeof(*group->watches));
	group->workers = calloc(group->n_workers, sizeof(*group->workers));
	group->aborts_ns = calloc(group->n_workers, sizeof(*group->aborts_ns));

	if (group->watches && group->workers)
		places_init(master, group);

	size_t n = usable_addresses(settings, &addresses);

	if (!group->lanes || !group->watches || !group->workers || !group->aborts_ns ||
	    !addresses) {
		log_error("%s: cannot be set up: %s", settings->name, strerror(ENOMEM));
	} else if (n == 0) {
		log_error("%s: no address is left to listen on", settings->name);
		r = EX_UNAVAILABLE;
	} else {
		r = lanes_open(master, group, addresses, n);
	}
	free(addresses);
	return r;
}

/* Ends a process that is still there, as when the event loop was left early. */
static void worker_close(struct worker *worker)
{
	sd_event_source_disable_unref(worker->exit_source);
	sd_event_source_disable_unref(worker->restart_source);
	if (worker->pid > 0 && kill(worker->pid, SIGKILL) == 0)
		(void)waitpid(worker->pid, NULL, 0);
	fd_close(worker->pidfd);
}

void group_close(struct group *group)
{
	for (size_t i = 0; group->workers && i < group->n_workers; i++)
		worker_close(&group->workers[i]);
	for (unsigned i = 0; group->lanes && i < group->plan.lanes; i++)
		lane_close(&group->lanes[i]);
	free(group->aborts_ns);
	free(group->workers);
	free(group->watches);
	free(group->lanes);
	*group = (struct group){0};
}

struct watch *watch_next(const struct master *master, const struct watch *watch)
{
	const struct group *group = watch ? watch->group : master->groups;

	if (watch && watch + 1 < group->watches + group->plan.lanes)
		return (struct watch *)watch + 1;
	if (watch)
		group++;
	return group < master->groups + master->n_groups ? group->watches : NULL;
}

struct worker *worker_next(const struct master *master, const struct worker *worker)
{
	const struct group *group = worker ? worker->group : master->groups;

	if (worker && worker + 1 < group->workers + group->n_workers)
		return (struct worker *)worker + 1;
	if (worker)
		group++;
	return group < master->groups + master->n_groups ? group->workers : NULL;
}

void groups_forget_others(struct master *master, const struct lane *own)
{
	for (size_t i = 0; i < master->n_groups; i++) {
		struct group *group = &master->groups[i];

		for (unsigned k = 0; k < group->plan.lanes; k++) {
			if (&group->lanes[k] != own)
				lane_close(&group->lanes[k]);
		}
	}
}
