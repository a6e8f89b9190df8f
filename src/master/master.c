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
#include "master/change.h"
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

static int on_reload(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	struct master *master = userdata;

	(void)source;
	(void)info;
	if (master->phase < MASTER_STOPPING)
		change_ask(master, &(struct change_request){.kind = CHANGE_RELOAD});
	return 0;
}

static const struct {
	int number;
	sd_event_signal_handler_t handler;
} signals[] = {
	{SIGTERM, on_stop},  {SIGQUIT, on_stop},        {SIGINT, on_stop_now},
	{SIGHUP, on_reload}, {SIGUSR1, on_unsupported},
};

static int on_settle(sd_event_source *source, void *userdata)
{
	struct master *master = userdata;

	(void)source;
	change_go_on(master);
	groups_leave_go_on(master);
	return 0;
}

static int on_leave(sd_event_source *source, uint64_t due_us, void *userdata)
{
	(void)source;
	(void)due_us;
	groups_leave_go_on(userdata);
	return 0;
}

void master_settle(struct master *master)
{
	int r = sd_event_source_set_enabled(master->settle_source, SD_EVENT_ONESHOT);

	if (r < 0)
		log_error("the event loop cannot be told to go on: %s", strerror(-r));
}

/* What comes after all else, and not before it is asked for. Returns 0 or -errno. */
static int master_prepare_to_settle(struct master *master)
{
	int r = sd_event_add_defer(master->event, &master->settle_source, on_settle, master);

	if (r >= 0)
		r = sd_event_source_set_enabled(master->settle_source, SD_EVENT_OFF);
	if (r >= 0)
		r = sd_event_add_time(master->event, &master->leave_source, CLOCK_MONOTONIC,
				      UINT64_MAX, 1, on_leave, master);
	if (r >= 0)
		r = sd_event_source_set_enabled(master->leave_source, SD_EVENT_OFF);
	return r;
}

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
	r = sd_event_add_io(master->event, NULL, master->notice_fd, EPOLLIN, workers_noticed,
			    master);
	return r < 0 ? r : master_prepare_to_settle(master);
}

/* Every listener of every group, before the first worker. Returns 0 or an exit status. */
static int groups_open(struct master *master)
{
	for (size_t i = 0; i < master->settings->n_groups; i++) {
		int status;
		struct group *group = group_open(master, master->settings,
						 &master->settings->groups[i], &status);

		if (!group)
			return status;
		endpoints_take(group);
		group->state = GROUP_SERVING;
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
	int r;

	for (struct group *group = master->groups; group; group = group->next) {
		int status;

		group_log(group);
		status = group_start(group);
		if (status != 0)
			return status;
	}
	r = supervise_begin(master);
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

int master_run(struct settings *settings, const struct config_source *source)
{
	struct master master = {
		.settings = settings_ref(settings), .source = source, .notice_fd = -1};

	title_set("laned", "laned: master%s%s", settings->file ? " " : "",
		  settings->file ? settings->file : "");
	host_limits_read(&master.host);
	fd_raise_limit(); /* for every listener, and two pidfds for each worker */

	int status = master_serve(&master);

	supervise_end(&master);
	while (master.groups)
		group_free(master.groups);
	settings_free(master.settings);
	account_fini(&master.account);
	sd_event_source_unref(master.settle_source);
	sd_event_source_unref(master.leave_source);
	sd_event_unref(master.event);
	fd_close(master.notice_fd);
	return status;
}
