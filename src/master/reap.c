/*
 * The end of a worker's process, and filling its place again.
 */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <sysexits.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/units.h"
#include "master/change.h"
#include "master/state.h"

#define FORK_RETRY_NS NS_PER_S

static struct log_limit spawn_lines;
static struct log_limit end_lines; /* of all workers together: they may crash in turns */

static void worker_start_anew(struct worker *worker);

static int restart_due(sd_event_source *source, uint64_t now_us, void *userdata)
{
	struct worker *worker = userdata;

	(void)source;
	(void)now_us;
	worker->restart_source = sd_event_source_disable_unref(worker->restart_source);
	worker_start_anew(worker);
	return 0;
}

/* Tries again after delay_ns. */
static void restart_later(struct worker *worker, uint64_t delay_ns)
{
	int r = sd_event_add_time_relative(worker->master->event, &worker->restart_source,
					   CLOCK_MONOTONIC, delay_ns / NS_PER_US, 1, restart_due,
					   worker);

	if (r < 0) {
		/*
		 * Without it the place would stay empty for ever; the service manager starts anew.
		 */
		log_error("%s: cannot set a timer: %s; stopping", worker->name, strerror(-r));
		(void)sd_event_exit(worker->master->event, EX_OSERR);
	}
}

static void worker_start_anew(struct worker *worker)
{
	int r = worker_spawn(worker);

	if (r < 0) {
		log_limited(&spawn_lines, LOG_ERR,
			    "%s: cannot start a process: %s; next try in 1 s", worker->name,
			    strerror(-r));
		restart_later(worker, FORK_RETRY_NS);
	}
	supervise_wake(worker->master);
}

static uint32_t random_u32(void)
{
	uint32_t value;

	/* Early after boot there may be none yet: jitter is not worth waiting for. */
	if (getrandom(&value, sizeof(value), GRND_NONBLOCK) != sizeof(value))
		value = 0;
	return value;
}

/* Whether nobody serves, and nobody is about to, in any group. */
static bool nobody_is_left(const struct master *master)
{
	bool any = false;

	for (struct worker *worker = NULL; (worker = worker_next(master, worker));) {
		if (worker->group->state != GROUP_SERVING)
			continue;
		any = true;
		if (worker->pid > 0 || (worker->role != WORKER_EXTRA && !worker->degraded))
			return false;
	}
	return any; /* all groups may have been drained */
}

/* Its processes end again and again: the others serve on, as long as there are any. */
static void worker_degrades(struct worker *worker, uint64_t delay_ns)
{
	worker->degraded = true;
	log_error("%s: degraded: %u processes have ended within restart_interval; next try in %u s",
		  worker->name, worker->master->settings->supervision.restart_limit,
		  (unsigned)(delay_ns / NS_PER_S));
}

/* Whoever started laned is told, and clients are not left hanging in queues that nobody serves. */
static void stop_if_nobody_is_left(struct master *master)
{
	if (master->phase >= MASTER_STOPPING || !nobody_is_left(master))
		return;
	log_error("no worker of any group can be made to run; stopping");
	(void)sd_event_exit(master->event, EX_UNAVAILABLE);
}

void worker_restart(struct worker *worker)
{
	const struct supervision_settings *settings = &worker->master->settings->supervision;
	const struct throttle_limits limits = {
		.limit = settings->restart_limit,
		.interval_ns = settings->restart_interval_ns,
	};
	uint64_t now_ns = clock_now_ns();
	struct throttle_verdict verdict = throttle_next(&worker->throttle, &limits, now_ns,
							now_ns - worker->started_ns, random_u32());

	if (worker->role == WORKER_EXTRA) { /* whoever needs it will start it */
		worker->spare_ns = now_ns + verdict.delay_ns;
	} else if (verdict.delay_ns == 0) {
		worker_start_anew(worker);
		return;
	} else {
		if (verdict.degraded)
			worker_degrades(worker, verdict.delay_ns);
		restart_later(worker, verdict.delay_ns);
	}
	stop_if_nobody_is_left(worker->master);
}

#define END_MAX 96

/* "exited with status 71", "killed by signal 9 (Killed)". */
static void describe_end(const siginfo_t *info, char *text, size_t size)
{
	if (info->si_code == CLD_EXITED)
		(void)snprintf(text, size, "exited with status %d", info->si_status);
	else
		(void)snprintf(text, size, "killed by signal %d (%s)%s", info->si_status,
			       strsignal(info->si_status),
			       info->si_code == CLD_DUMPED ? ", core dumped" : "");
}

/* A worker ends by itself, and well, only when it is drained or has retired. */
static bool ended_as_told(const siginfo_t *info)
{
	return info->si_code == CLD_EXITED && info->si_status == 0;
}

/* Whether somebody is to come after it: not where no clients come, or none any more. */
static bool worker_is_wanted(const struct worker *worker, const siginfo_t *info)
{
	if (worker->group->draining && ended_as_told(info))
		return false;
	return worker->role != WORKER_EXTRA && worker->group->state != GROUP_NEW &&
	       worker->watch->queues && lane_is_served(worker->lane);
}

static void log_end(const struct worker *worker, const siginfo_t *info, uint32_t connections)
{
	bool expected = worker->master->phase == MASTER_ENDING || ended_as_told(info);
	bool again = worker->master->phase < MASTER_STOPPING && worker_is_wanted(worker, info);
	char end[END_MAX];

	describe_end(info, end, sizeof(end));
	log_limited(&end_lines, expected ? LOG_DEBUG : LOG_WARNING,
		    "%s (pid %d): %s, %u connections ended with it%s", worker->name,
		    (int)info->si_pid, end, connections,
		    again ? "; its place is filled again" : "");
}

/* Nobody is in the place any more. */
static void worker_clear(struct worker *worker)
{
	uint64_t now_ns = clock_now_ns();

	worker->exit_source = sd_event_source_disable_unref(worker->exit_source);
	worker->pidfd = fd_close(worker->pidfd);
	worker->probe_fd = fd_close(worker->probe_fd);
	worker->pid = 0;
	worker->ready = false;
	worker->ended_ns = now_ns;
	lane_bury(worker->lane, (struct pool_owner){worker->number, worker->generation});
	if (worker->incident)
		incident_add_step(worker->incident, STEP_ENDED, now_ns);
	if (worker->role == WORKER_EXTRA) /* nobody comes after it */
		worker_incident_ends(worker, INCIDENT_LEFT, now_ns);
}

int worker_exited(sd_event_source *source, const siginfo_t *info, void *userdata)
{
	struct worker *worker = userdata;
	struct master *master = worker->master;
	uint32_t phase = atomic_load(&worker_line(worker)->phase);
	bool first = phase == WORKER_STARTING && worker->generation == 1 &&
		     worker->role != WORKER_EXTRA; /* it had never been ready */

	(void)source;
	log_end(worker, info, atomic_load(&worker_line(worker)->connections));
	worker_clear(worker);

	if (master->phase >= MASTER_STOPPING) {
		master_stop_go_on(master);
		return 0;
	}
	if (master->phase == MASTER_STARTING && first && info->si_code == CLD_EXITED &&
	    info->si_status != 0) {
		/* It said why. What cannot be done now will not get better by trying. */
		log_error("%s: could not start; stopping", worker->name);
		return sd_event_exit(master->event, info->si_status);
	}
	if (worker->group->state == GROUP_NEW) {
		char end[END_MAX];

		describe_end(info, end, sizeof(end));
		change_worker_ended(worker, end);
		return 0;
	}
	lane_line_up(worker->watch);
	if (worker_is_wanted(worker, info) ||
	    (worker->role == WORKER_EXTRA && !ended_as_told(info)))
		worker_restart(worker);
	master_settle(master);
	return 0;
}
