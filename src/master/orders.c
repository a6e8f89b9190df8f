/*
 * What the master and its workers tell each other: orders one way, phases the other.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/pidfd.h>

#include <systemd/sd-daemon.h>

#include "base/log.h"
#include "master/state.h"

void worker_tell(const struct worker *worker)
{
	/* ESRCH: it has ended, which the event loop is about to see. */
	if (worker->pidfd >= 0 && pidfd_send_signal(worker->pidfd, SIGUSR2, NULL, 0) < 0 &&
	    errno != ESRCH)
		log_error("%s (pid %d): cannot be told anything: %s", worker->name,
			  (int)worker->pid, strerror(errno));
}

void lane_line_up(const struct worker *worker)
{
	struct group *group = worker->group;

	for (size_t i = 0; i < group->n_workers; i++) {
		struct worker *other = &group->workers[i];

		/* A primary that is still starting will be seen here again when it waits. */
		if (other->lane == worker->lane && other->role == WORKER_PRIMARY &&
		    other->pid > 0 && !other->ready)
			return;
	}
	for (size_t i = 0; i < group->n_workers; i++) {
		struct worker *other = &group->workers[i];

		if (other->lane != worker->lane || other->role != WORKER_STANDBY || !other->ready)
			continue;
		atomic_fetch_add(&lane_worker(other->lane, other->number)->listen_turn, 1);
		worker_tell(other);
	}
}

/* The first time that every worker of every group is ready. */
static void serving_begins(struct master *master)
{
	for (size_t i = 0; i < master->n_groups; i++) {
		for (size_t k = 0; k < master->groups[i].n_workers; k++) {
			if (!master->groups[i].workers[k].ready)
				return;
		}
	}
	master->phase = MASTER_SERVING;
	log_info("ready");
	(void)sd_notify(false, "READY=1");
}

static void worker_notice(struct worker *worker)
{
	uint32_t phase = atomic_load(&lane_worker(worker->lane, worker->number)->phase);

	if (worker->pid == 0 || worker->ready || (phase != WORKER_READY && phase != WORKER_LEFT))
		return;
	worker->ready = true;
	lane_line_up(worker);
}

int workers_noticed(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct master *master = userdata;
	eventfd_t count;

	(void)source;
	(void)events;
	(void)eventfd_read(fd, &count); /* before looking: what comes later is another event */
	for (size_t i = 0; i < master->n_groups; i++) {
		for (size_t k = 0; k < master->groups[i].n_workers; k++)
			worker_notice(&master->groups[i].workers[k]);
	}
	if (master->phase == MASTER_STARTING)
		serving_begins(master);
	else if (master->phase >= MASTER_STOPPING)
		master_stop_go_on(master);
	return 0;
}
