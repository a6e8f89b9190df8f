/*
 * Extra workers: added while a lane has nobody free, sent away when it is calm.
 *
 * They have places of their own in the lane, which are empty otherwise.
 */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "master/state.h"

#define CALM_NS  (1 * NS_PER_S) /* without need for them: extra workers leave */
#define RETRY_NS (1 * NS_PER_S) /* when no process can be had */

static struct log_limit spawn_lines;

/* One that was to leave, but still has connections, waits on the listeners again. */
static bool extra_recall(struct watch *watch)
{
	for (unsigned i = 0; i < watch->n_workers; i++) {
		struct worker *worker = &watch->workers[i];

		if (!worker->ready || !worker->retiring)
			continue;
		worker->retiring = false;
		atomic_store(&worker_line(worker)->retire, 0);
		worker_call(worker);
		return true;
	}
	return false;
}

bool extra_start(struct watch *watch, uint64_t now_ns)
{
	if (extra_recall(watch))
		return true;
	if (now_ns < watch->retry_ns)
		return false;
	for (unsigned i = 0; i < watch->n_workers; i++) {
		struct worker *worker = &watch->workers[i];

		if (worker->role != WORKER_EXTRA || worker->pid > 0 || worker->spare_ns > now_ns)
			continue;

		int r = worker_spawn(worker);

		if (r == 0)
			return true;
		watch->retry_ns = now_ns + RETRY_NS;
		log_limited(&spawn_lines, LOG_ERR, "%s: cannot start a process: %s", worker->name,
			    strerror(-r));
		return false;
	}
	return false;
}

/* Clients that the lane's own workers have accepted, the extra ones left out. */
static uint64_t lane_accepted_itself(const struct watch *watch)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < watch->n_workers; i++) {
		if (watch->workers[i].role != WORKER_EXTRA)
			sum += lane_accepted_by(watch->lane, watch->workers[i].number);
	}
	return sum;
}

void extras_are_needed(struct watch *watch, uint64_t now_ns)
{
	watch->helped_ns = now_ns;
	watch->helped_accepted = watch->accepted;
	watch->helped_itself = lane_accepted_itself(watch);
}

/* Whether a lane lacks one of its own workers: that does not go on, or goes on and takes nobody. */
static bool lane_lacks_worker(const struct watch *watch)
{
	uint64_t after_ns = watch->master->settings->supervision.extra_after_ns;

	for (unsigned i = 0; i < watch->n_workers; i++) {
		const struct worker *worker = &watch->workers[i];

		if (worker->role != WORKER_EXTRA &&
		    (!worker->ready || worker->heartbeat.still_ns >= after_ns))
			return true;
	}
	return watch->accepted != watch->helped_accepted &&
	       lane_accepted_itself(watch) == watch->helped_itself;
}

void extras_retire(struct watch *watch, uint64_t now_ns)
{
	if (lane_lacks_worker(watch))
		extras_are_needed(watch, now_ns);
	if (now_ns - watch->helped_ns < CALM_NS)
		return;
	for (unsigned i = 0; i < watch->n_workers; i++) {
		struct worker *worker = &watch->workers[i];

		if (worker->role != WORKER_EXTRA || !worker->ready || worker->retiring)
			continue;
		worker->retiring = true;
		atomic_store(&worker_line(worker)->retire, 1);
		worker_tell(worker);
		log_info(
			"%s (pid %d): no longer needed; it leaves when its %u connections have ended",
			worker->name, (int)worker->pid,
			atomic_load(&worker_line(worker)->connections));
	}
}
