/*
 * What the master and its workers tell each other: orders one way, phases the other.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/pidfd.h>

#include <systemd/sd-daemon.h>

#include "base/clock.h"
#include "base/log.h"
#include "master/state.h"

struct worker_line *worker_line(const struct worker *worker)
{
	return lane_worker(worker->lane, worker->number);
}

void worker_tell(struct worker *worker)
{
	if (worker->pidfd < 0)
		return;
	struct worker_line *line = worker_line(worker);

	worker->heartbeat.told_ns = clock_now_ns();
	if (atomic_load(&line->answered) == atomic_load(&line->asked))
		worker->heartbeat.asked_ns = worker->heartbeat.told_ns;
	atomic_fetch_add(&line->asked, 1); /* after what is asked */

	/* ESRCH: it has ended, which the event loop is about to see. */
	if (pidfd_send_signal(worker->pidfd, SIGUSR2, NULL, 0) < 0 && errno != ESRCH)
		log_error("%s (pid %d): cannot be told anything: %s", worker->name,
			  (int)worker->pid, strerror(errno));
}

void worker_call(struct worker *worker)
{
	atomic_fetch_add(&worker_line(worker)->listen_turn, 1);
	worker_tell(worker);
}

void worker_kill(struct worker *worker, int signal_number)
{
	if (pidfd_send_signal(worker->pidfd, signal_number, NULL, 0) < 0 && errno != ESRCH)
		log_error("%s (pid %d): cannot be ended: %s", worker->name, (int)worker->pid,
			  strerror(errno));
}

void lane_line_up(const struct watch *watch)
{
	unsigned primaries = watch->group->plan.primaries;

	/* All take turns; or nobody may come yet. */
	if (primaries > 1 || watch->group->state == GROUP_NEW)
		return;
	/* A primary that is still starting will be seen here again when it waits. */
	if (watch->workers[0].pid > 0 && !watch->workers[0].ready)
		return;
	for (unsigned i = primaries; i < watch->n_workers; i++) {
		if (watch->workers[i].ready && !watch->workers[i].retiring)
			worker_call(&watch->workers[i]);
	}
}

/* The first time that every worker of every group is ready. */
static void serving_begins(struct master *master)
{
	for (struct worker *worker = NULL; (worker = worker_next(master, worker));) {
		if (!worker->ready && worker->role != WORKER_EXTRA)
			return;
	}
	master->phase = MASTER_SERVING;
	log_info("ready");
	master_settle(master); /* somebody may have asked for a change meanwhile */
	(void)sd_notify(false, "READY=1");
}

static void worker_notice(struct worker *worker)
{
	uint32_t phase = atomic_load(&lane_worker(worker->lane, worker->number)->phase);

	if (worker->pid == 0 || worker->ready || (phase != WORKER_READY && phase != WORKER_LEFT))
		return;
	if (!worker_has_echoed(worker)) {
		log_error("%s (pid %d): did not echo what it was sent; killed", worker->name,
			  (int)worker->pid);
		worker_kill(worker, SIGKILL);
		return;
	}
	worker->ready = true;
	worker->degraded = false;
	lane_line_up(worker->watch);
}

int workers_noticed(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct master *master = userdata;
	eventfd_t count;

	(void)source;
	(void)events;
	(void)eventfd_read(fd, &count); /* before looking: what comes later is another event */
	for (struct worker *worker = NULL; (worker = worker_next(master, worker));)
		worker_notice(worker);
	supervise_wake(master); /* it may have been woken for a client */
	if (master->phase == MASTER_STARTING)
		serving_begins(master);
	else if (master->phase >= MASTER_STOPPING)
		master_stop_go_on(master);
	else
		master_settle(master);
	return 0;
}
