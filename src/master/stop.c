/*
 * Stopping: nobody who waits in a queue or is in the middle of something is sent away.
 */
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sysexits.h>

#include <systemd/sd-daemon.h>

#include "base/log.h"
#include "base/units.h"
#include "master/change.h"
#include "master/state.h"
#include "net/listener.h"

/* Closed for good: nobody waits there any longer, and nobody has to be watched. */
static void lane_listeners_close(struct watch *watch)
{
	for (size_t i = 0; i < watch->lane->n_listeners; i++)
		endpoint_close(watch, i);
	watch_close(watch);
}

void worker_drain(struct worker *worker)
{
	worker->restart_source = sd_event_source_disable_unref(worker->restart_source);
	atomic_store(&worker_line(worker)->drain, 1);
	worker_tell(worker);
}

static int drain_timed_out(sd_event_source *source, uint64_t now_us, void *userdata)
{
	struct master *master = userdata;

	(void)source;
	(void)now_us;
	for (struct worker *worker = NULL; (worker = worker_next(master, worker));) {
		if (worker->pid > 0)
			log_warning("%s (pid %d): not done when drain_timeout was over, "
				    "connections left: %u; killed",
				    worker->name, (int)worker->pid,
				    atomic_load(&worker_line(worker)->connections));
	}
	master_stop_now(master);
	return 0;
}

void master_stop(struct master *master)
{
	uint64_t timeout_ns = master->settings->drain_timeout_ns;

	if (master->phase >= MASTER_STOPPING || timeout_ns == 0) {
		master_stop_now(master);
		return;
	}
	master->phase = MASTER_STOPPING;
	log_info("stopping: what waits is served, then quiet connections end");
	(void)sd_notify(false, "STOPPING=1");

	change_cancel(master);
	endpoints_mute(master);
	for (struct worker *worker = NULL; (worker = worker_next(master, worker));)
		worker_drain(worker);

	/* Owned by the loop: it is never taken back. */
	int r = sd_event_add_time_relative(master->event, NULL, CLOCK_MONOTONIC,
					   timeout_ns / NS_PER_US, 1, drain_timed_out, master);

	if (r < 0) {
		log_error("cannot set a timer: %s; stopping at once", strerror(-r));
		master_stop_now(master);
		return;
	}
	master_stop_go_on(master);
}

void master_stop_now(struct master *master)
{
	if (master->phase < MASTER_STOPPING)
		(void)sd_notify(false, "STOPPING=1");
	master->phase = MASTER_ENDING;
	supervise_end(master);
	for (struct worker *worker = NULL; (worker = worker_next(master, worker));) {
		worker->restart_source = sd_event_source_disable_unref(worker->restart_source);
		if (worker->pidfd >= 0)
			(void)pidfd_send_signal(worker->pidfd, SIGKILL, NULL, 0);
	}
	master_stop_go_on(master);
}

/* Whether clients wait on a lane's listeners. */
static bool lane_has_waiting(const struct lane *lane)
{
	for (size_t i = 0; i < lane->n_listeners; i++) {
		if (lane->listeners[i] >= 0 && listener_depth(lane->listeners[i]) > 0)
			return true;
	}
	return false;
}

/*
 * Closes the listeners of a lane that no worker waits on any longer. If its last worker died before
 * the queue was empty, another one comes for that. Returns how many processes are left or to come.
 */
static size_t lane_stop_go_on(struct watch *watch)
{
	size_t running = 0, left = 0;

	for (unsigned i = 0; i < watch->n_workers; i++) {
		const struct worker *worker = &watch->workers[i];

		if (worker->restart_source)
			running++;
		if (worker->pid == 0)
			continue;
		running++;
		if (atomic_load(&worker_line(worker)->phase) == WORKER_LEFT)
			left++;
	}
	if (running == 0 && watch->master->phase == MASTER_STOPPING &&
	    lane_has_waiting(watch->lane)) {
		worker_restart(&watch->workers[0]);
		return 1;
	}
	if (running == left)
		lane_listeners_close(watch);
	return running;
}

void master_stop_go_on(struct master *master)
{
	size_t running = 0;

	for (struct watch *watch = NULL; (watch = watch_next(master, watch));)
		running += lane_stop_go_on(watch);
	if (running > 0)
		return;
	log_info("stopped");
	(void)sd_event_exit(master->event, EX_OK);
}
