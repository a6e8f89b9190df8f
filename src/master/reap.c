/*
 * The end of a worker's process, and filling its place again.
 */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <sysexits.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/units.h"
#include "master/state.h"

#define RESTART_INTERVAL_NS (100 * NS_PER_MS) /* at least, between two starts of one place */
#define FORK_RETRY_NS       NS_PER_S

static int restart_due(sd_event_source *source, uint64_t now_us, void *userdata)
{
	struct worker *worker = userdata;

	(void)source;
	(void)now_us;
	worker->restart_source = sd_event_source_disable_unref(worker->restart_source);
	worker_restart(worker);
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

void worker_restart(struct worker *worker)
{
	uint64_t age_ns = clock_now_ns() - worker->started_ns;

	if (worker->generation > 0 && age_ns < RESTART_INTERVAL_NS) {
		restart_later(worker, RESTART_INTERVAL_NS - age_ns);
		return;
	}

	int r = worker_spawn(worker);

	if (r < 0) {
		log_error("%s: cannot start a process: %s; next try in 1 s", worker->name,
			  strerror(-r));
		restart_later(worker, FORK_RETRY_NS);
	}
}

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

static void log_end(const struct worker *worker, const siginfo_t *info, uint32_t connections)
{
	bool expected = worker->master->phase == MASTER_ENDING ||
			(worker->master->phase == MASTER_STOPPING && info->si_code == CLD_EXITED &&
			 info->si_status == 0);
	char end[96];

	describe_end(info, end, sizeof(end));
	log_line(expected ? LOG_DEBUG : LOG_WARNING,
		 "%s (pid %d): %s, %u connections ended with it%s", worker->name, (int)info->si_pid,
		 end, connections,
		 worker->master->phase < MASTER_STOPPING ? "; its place is filled again" : "");
}

int worker_exited(sd_event_source *source, const siginfo_t *info, void *userdata)
{
	struct worker *worker = userdata;
	struct master *master = worker->master;
	struct worker_line *line = lane_worker(worker->lane, worker->number);

	(void)source;
	log_end(worker, info, atomic_load(&line->connections));
	worker->exit_source = sd_event_source_disable_unref(worker->exit_source);
	worker->pidfd = fd_close(worker->pidfd);
	worker->pid = 0;
	worker->ready = false;
	lane_bury(worker->lane, (struct pool_owner){worker->number, worker->generation});

	if (master->phase >= MASTER_STOPPING) {
		master_stop_go_on(master);
		return 0;
	}
	if (master->phase == MASTER_STARTING && info->si_code == CLD_EXITED &&
	    info->si_status != 0) {
		/* It said why. What cannot be done now will not get better by trying. */
		log_error("%s: could not start; stopping", worker->name);
		return sd_event_exit(master->event, info->si_status);
	}
	lane_line_up(worker);
	worker_restart(worker);
	return 0;
}
