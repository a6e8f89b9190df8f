#include "master/master.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sysexits.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/title.h"
#include "master/state.h"

static int on_stop(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	(void)source;
	(void)info;
	master_stop(userdata);
	return 0;
}

static int on_stop_now(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	(void)source;
	(void)info;
	master_stop_now(userdata);
	return 0;
}

static int on_unsupported(sd_event_source *source, const struct signalfd_siginfo *info,
			  void *userdata)
{
	(void)source;
	(void)userdata;
	log_warning(
		"signal %u (%s) from pid %u: ignored; a change of the configuration takes a restart",
		info->ssi_signo, strsignal((int)info->ssi_signo), info->ssi_pid);
	return 0;
}

static const struct {
	int number;
	sd_event_signal_handler_t handler;
} signals[] = {
	{SIGTERM, on_stop},       {SIGQUIT, on_stop},        {SIGINT, on_stop_now},
	{SIGHUP, on_unsupported}, {SIGUSR1, on_unsupported},
};

/* The event loop and what wakes it. Returns 0 or -errno. */
static int master_listen_to_all(struct master *master)
{
	int r = sd_event_new(&master->event);

	for (size_t i = 0; r >= 0 && i < sizeof(signals) / sizeof(signals[0]); i++)
		r = sd_event_add_signal(master->event, NULL, signals[i].number, signals[i].handler,
					master);
	if (r < 0)
		return r;
	master->notice_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (master->notice_fd < 0)
		return -errno;
	return sd_event_add_io(master->event, NULL, master->notice_fd, EPOLLIN, workers_noticed,
			       master);
}

/* Every listener of every group, before the first worker. Returns 0 or an exit status. */
static int groups_open(struct master *master)
{
	const struct settings *settings = master->settings;

	master->groups = calloc(settings->n_groups, sizeof(*master->groups));
	if (!master->groups) {
		log_error("cannot be set up: %s", strerror(ENOMEM));
		return EX_OSERR;
	}
	for (size_t i = 0; i < settings->n_groups; i++) {
		master->n_groups = i + 1;

		int status = group_open(master, &master->groups[i], &settings->groups[i]);

		if (status != 0)
			return status;
	}
	return 0;
}

static void group_log(const struct group *group)
{
	const struct group_settings *settings = group->settings;

	for (size_t i = 0; i < settings->n_listen; i++)
		log_info("%s: %s: %s, lanes: %u, workers in each: %u + %u standby", settings->name,
			 settings->listen[i].address.text, settings->topology, group->plan.lanes,
			 group->plan.primaries, group->plan.standbys);
}

/* Returns 0 or an exit status. */
static int groups_start(struct master *master)
{
	for (size_t i = 0; i < master->n_groups; i++) {
		struct group *group = &master->groups[i];

		group_log(group);
		for (size_t k = 0; k < group->n_workers; k++) {
			struct worker *worker = &group->workers[k];
			int r = worker->role == WORKER_EXTRA ? 0 : worker_spawn(worker);

			if (r < 0) {
				log_error("%s: cannot start a process: %s", worker->name,
					  strerror(-r));
				return EX_OSERR;
			}
		}
	}

	int r = supervise_begin(master);

	if (r < 0) {
		log_error("workers cannot be watched: %s", strerror(-r));
		return EX_OSERR;
	}
	return 0;
}

/* Says why there is no account for the workers. Returns the exit status. */
static int account_status(const char *user, int error)
{
	switch (error) {
	case ENOENT:
		log_error("user \"%s\": no such account", user);
		return EX_CONFIG;
	case EPERM:
		log_error("user \"%s\": without CAP_KILL its processes could not be stopped", user);
		return EX_NOPERM;
	default:
		log_error("user \"%s\": %s", user, strerror(error));
		return EX_OSERR;
	}
}

static int master_serve(struct master *master)
{
	int r = account_find(master->settings->user, &master->account);

	if (r < 0)
		return account_status(master->settings->user, -r);
	r = master_listen_to_all(master);
	if (r < 0) {
		log_error("cannot set up the event loop: %s", strerror(-r));
		return EX_OSERR;
	}

	int status = groups_open(master);

	if (status == 0)
		status = groups_start(master);
	if (status != 0)
		return status;

	r = sd_event_loop(master->event);
	if (r < 0) {
		log_error("the event loop failed: %s", strerror(-r));
		return EX_OSERR;
	}
	return r;
}

int master_run(const struct settings *settings)
{
	struct master master = {.settings = settings, .notice_fd = -1};

	title_set("laned", "laned: master%s%s", settings->file ? " " : "",
		  settings->file ? settings->file : "");
	host_limits_read(&master.host);
	fd_raise_limit(); /* for every listener, and two pidfds for each worker */

	int status = master_serve(&master);

	supervise_end(&master);
	for (size_t i = 0; i < master.n_groups; i++)
		group_close(&master.groups[i]);
	free(master.groups);
	account_fini(&master.account);
	sd_event_unref(master.event);
	fd_close(master.notice_fd);
	return status;
}
