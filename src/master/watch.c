/*
 * The watch over a lane: nobody waits in its queue for longer than rescue_after while a worker of
 * the lane is free.
 *
 * The kernel alone does not give this. An exclusive wake-up is given to one waiter, once; if that
 * one is stopped, starved or blocked before it accepts, the client stays and the others sleep. So
 * the master waits for the listeners, too, without taking anything. Armed, it sleeps until one of
 * them is readable, which no worker can keep from it. Then it looks every rescue_after, until the
 * lane has been calm for a while.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/units.h"
#include "master/state.h"
#include "net/listener.h"

#define CALM_NS  (100 * NS_PER_MS) /* without a new client: the watch is armed again */
#define START_NS (1 * NS_PER_S)    /* an extra worker that takes longer is not waited for */

static int queue_readable(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct watch *watch = userdata;

	(void)source;
	(void)fd;
	(void)events;
	for (size_t i = 0; i < watch->lane->n_listeners; i++)
		(void)sd_event_source_set_enabled(watch->queues[i].source, SD_EVENT_OFF);
	watch->looking = true;
	watch->stirred_ns = clock_now_ns();
	watch_look(watch, watch->stirred_ns);
	supervise_wake(watch->master);
	return 0;
}

int watch_open(struct watch *watch)
{
	struct lane *lane = watch->lane;

	watch->queues = calloc(lane->n_listeners, sizeof(*watch->queues));
	if (!watch->queues)
		return -ENOMEM;
	for (size_t i = 0; i < lane->n_listeners; i++) {
		sd_event_source **source = &watch->queues[i].source;
		int r = sd_event_add_io(watch->master->event, source, lane->listeners[i], EPOLLIN,
					queue_readable, watch);

		if (r >= 0) /* not in the set before it is armed */
			r = sd_event_source_set_enabled(*source, SD_EVENT_OFF);
		if (r < 0)
			return r;
	}
	return 0;
}

void watch_begin(struct watch *watch)
{
	const struct supervision_settings *settings = &watch->master->settings->supervision;

	atomic_store(&watch->lane->board->late_after_ms,
		     (uint32_t)(settings->rescue_after_ns / NS_PER_MS));
	watch->looking = lane_has_listener(watch->lane); /* at first, and then armed */
}

void watch_arm(struct watch *watch)
{
	watch->looking = false;
	for (size_t i = 0; i < watch->lane->n_listeners; i++) {
		sd_event_source *source = watch->queues[i].source;
		/* Who has come since the last look is reported at once. */
		int r = source ? sd_event_source_set_enabled(source, SD_EVENT_ON) : 0;

		if (r < 0) { /* fs.epoll.max_user_watches: goes on looking, which takes none */
			watch->looking = true;
			return;
		}
	}
}

void watch_notice(struct watch *watch, uint64_t now_ns)
{
	uint64_t accepted = 0;

	for (size_t i = 0; i < watch->lane->n_listeners; i++)
		accepted += lane_accepted(watch->lane, i);
	if (accepted == watch->accepted)
		return;
	watch->accepted = accepted;
	watch->stirred_ns = now_ns;
}

/*
 * How long at least one of those who wait at a listener has been waiting. The queue is first in,
 * first out: while fewer have been accepted than had come at some time, one of these still waits.
 */
static uint64_t queue_look(struct queue *queue, uint64_t accepted, uint32_t depth, uint64_t now_ns)
{
	if (depth == 0) {
		queue->mark_ns = 0;
		return 0;
	}
	if (queue->mark_ns == 0 || accepted >= queue->mark) {
		queue->mark = accepted + depth;
		queue->mark_ns = now_ns;
	}
	return now_ns - queue->mark_ns;
}

/* Looks at all queues of the lane: depth, accepted, and the longest wait that is certain. */
static uint64_t queues_look(struct watch *watch, uint64_t now_ns)
{
	struct lane *lane = watch->lane;
	uint64_t all = 0, late_ns = 0;

	watch->depth = 0;
	for (size_t i = 0; i < lane->n_listeners; i++) {
		/* First what was accepted: who is accepted in between is then missing in both. */
		uint64_t accepted = lane_accepted(lane, i);
		int depth = lane->listeners[i] < 0 ? 0 : listener_depth(lane->listeners[i]);
		uint64_t queue_ns;

		if (depth < 0)
			depth = 0;
		queue_ns = queue_look(&watch->queues[i], accepted, (uint32_t)depth, now_ns);
		if (queue_ns > late_ns)
			late_ns = queue_ns;
		watch->depth += (uint32_t)depth;
		all += accepted;
	}
	if (watch->depth > 0 || all != watch->accepted)
		watch->stirred_ns = now_ns;
	if (watch->depth == 0 || all != watch->accepted)
		watch->taken_ns = now_ns;
	watch->accepted = all;
	return late_ns;
}

bool worker_is_free(const struct worker *worker)
{
	const struct worker_line *line = worker_line(worker);

	return worker->ready && !worker->retiring && atomic_load(&line->phase) == WORKER_READY &&
	       atomic_load(&line->busy_since_ns) == 0 && atomic_load(&line->pause) == PAUSE_NONE &&
	       atomic_load(&line->answered) == atomic_load(&line->asked);
}

/* Calls as many free workers as clients wait, standbys before primaries. Returns how many. */
static unsigned call_free_workers(struct watch *watch, uint64_t now_ns)
{
	unsigned called = 0;

	for (unsigned i = watch->n_workers; i-- > 0 && called < watch->depth;) {
		struct worker *worker = &watch->workers[i];

		if (!worker_is_free(worker))
			continue;
		worker_call(worker);
		called++;
	}
	if (called > 0 && watch->called_ns == 0) {
		watch->called_ns = now_ns;
		lane_add_step(watch, STEP_CALLED, now_ns);
	}
	return called;
}

/*
 * Whether nothing is to be expected of a worker: none is there, it does not go on, it has no
 * descriptor left, or it goes on and takes nobody. When the host refuses to give out clients,
 * another process fares no better.
 */
static bool worker_is_stuck(const struct worker *worker, uint64_t now_ns)
{
	uint64_t after_ns = worker->master->settings->supervision.extra_after_ns;
	uint32_t pause = worker->ready ? atomic_load(&worker_line(worker)->pause) : PAUSE_NONE;

	if (pause == PAUSE_HOST)
		return false;
	return !worker->ready || worker->heartbeat.still_ns >= after_ns || pause == PAUSE_FULL ||
	       now_ns - worker->watch->taken_ns >= after_ns;
}

/* Whether an extra worker is starting, as long as one may believe that it will. */
static bool is_on_its_way(const struct worker *worker, uint64_t now_ns)
{
	return worker->pid > 0 && !worker->ready && now_ns - worker->started_ns < START_NS;
}

/*
 * An extra worker for each that is stuck. Who is merely busy gets no help: it would take the CPU
 * away from those who are.
 */
static void call_for_extra(struct watch *watch, uint64_t now_ns)
{
	unsigned stuck = 0, extras = 0;

	for (unsigned i = 0; i < watch->n_workers; i++) {
		struct worker *worker = &watch->workers[i];
		bool extra = worker->role == WORKER_EXTRA;

		if (extra && is_on_its_way(worker, now_ns))
			return;
		if (extra && (worker->pid == 0 || worker->retiring))
			continue;
		extras += extra;
		stuck += worker_is_stuck(worker, now_ns);
	}
	if (stuck == 0)
		return;
	extras_are_needed(watch, now_ns);

	unsigned started = 0;

	while (extras + started < stuck && extra_start(watch, now_ns))
		started++;
	if (started > 0)
		lane_helped(watch, started, now_ns);
}

bool lane_is_late(const struct watch *watch)
{
	return atomic_load(&watch->lane->board->lateness) % 2 == 1;
}

/* Workers measure from now on how long those have waited whom they accept. */
static void lateness_begins(struct watch *watch, uint64_t now_ns)
{
	watch->late_ns = now_ns;
	if (!lane_is_late(watch))
		atomic_fetch_add(&watch->lane->board->lateness, 1);
}

/* Adds to every incident of the lane what its clients had to wait. */
static void lateness_ends(struct watch *watch)
{
	for (unsigned i = 0; i < watch->n_workers; i++) {
		if (watch->workers[i].incident)
			incident_add_waits(watch->workers[i].incident, watch->lane);
	}
	atomic_fetch_add(&watch->lane->board->lateness, 1);
	watch->called_ns = 0;
}

void watch_drop(struct watch *watch, size_t listener)
{
	struct queue *queue = watch->queues ? &watch->queues[listener] : NULL;

	if (!queue)
		return;
	queue->source = sd_event_source_disable_unref(queue->source);
	queue->mark_ns = 0;
	for (size_t i = 0; i < watch->lane->n_listeners; i++) {
		if (watch->queues[i].source)
			return;
	}
	watch->looking = false; /* nobody can wait there any more */
	watch->depth = 0;
	if (lane_is_late(watch))
		lateness_ends(watch);
}

void watch_close(struct watch *watch)
{
	for (size_t i = 0; watch->queues && i < watch->lane->n_listeners; i++)
		watch_drop(watch, i);
	free(watch->queues);
	watch->queues = NULL;
	watch->looking = false;
}

/*
 * A lane that holds as many connections as it may lets clients wait; that is what max_connections
 * is for. They are not late before there is room again.
 */
static bool lane_is_full(struct watch *watch)
{
	const struct lane *lane = watch->lane;

	if (lane_connections(lane) < lane->shape.max_connections)
		return false;
	for (size_t i = 0; i < lane->n_listeners; i++)
		watch->queues[i].mark_ns = 0;
	return true;
}

void watch_look(struct watch *watch, uint64_t now_ns)
{
	const struct supervision_settings *settings = &watch->master->settings->supervision;
	uint64_t late_ns = queues_look(watch, now_ns);

	watch->wait_ns = late_ns;

	/* From the first client on: since when nobody goes on must be known when one is late. */
	for (unsigned i = 0; watch->depth > 0 && i < watch->n_workers; i++)
		worker_observe(&watch->workers[i], now_ns);
	watch->full = lane_is_full(watch);
	if (late_ns >= settings->rescue_after_ns && !watch->full) {
		lateness_begins(watch, now_ns);

		unsigned called = call_free_workers(watch, now_ns);

		/* Nobody is free, or those who seem to be do not take anybody. */
		if (late_ns >= settings->extra_after_ns &&
		    (called == 0 || now_ns - watch->taken_ns >= settings->extra_after_ns))
			call_for_extra(watch, now_ns);
	} else if (lane_is_late(watch) && now_ns - watch->late_ns >= CALM_NS) {
		lateness_ends(watch);
	}
	if (now_ns - watch->stirred_ns >= CALM_NS && !lane_is_late(watch))
		watch_arm(watch);
}
