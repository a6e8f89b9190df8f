/*
 * Supervision: when workers and queues are looked at.
 *
 * One timer for all. While somebody may wait it ticks every rescue_after, for the watches; while
 * there are connections, or a worker is in trouble, every check_interval, for the workers. Else it
 * is off, and the master sleeps until the kernel reports a client, or a worker reports one.
 */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "base/units.h"
#include "master/state.h"

/* That much later than it was to come, and as many check_intervals: not a worker is to blame. */
#define LATE_NS        (500 * NS_PER_MS)
#define LATE_INTERVALS 4U

/* Most workers are suspect: the host may be to blame, but not for longer than so many abort_after.
 */
#define DOUBT_TIMES 3U

static const struct supervision_settings *settings_of(const struct master *master)
{
	return &master->settings->supervision;
}

/* When workers are looked at next, or queues if somebody may wait in one. */
static uint64_t tick_interval_ns(struct master *master)
{
	const struct supervision_settings *settings = settings_of(master);

	for (struct watch *watch = NULL; (watch = watch_next(master, watch));) {
		if (watch->looking && !watch->full &&
		    settings->rescue_after_ns < settings->check_interval_ns)
			return settings->rescue_after_ns;
	}
	return settings->check_interval_ns;
}

static void tick_later(struct master *master, uint64_t now_ns)
{
	master->due_ns = now_ns + tick_interval_ns(master);

	int r = sd_event_source_set_time(master->tick_source, master->due_ns / NS_PER_US);

	if (r >= 0)
		r = sd_event_source_set_enabled(master->tick_source, SD_EVENT_ONESHOT);
	if (r < 0)
		log_error("cannot set a timer: %s; workers are not watched", strerror(-r));
}

/*
 * Also as long as its lane may have to leave the rotation because the place is empty, and as long as
 * it has not been asked, since the master woke up or a client came, whether it hears.
 */
static bool worker_needs_looks(const struct worker *worker)
{
	if (worker->pid == 0)
		return worker->role == WORKER_PRIMARY && worker->group->plan.lanes > 1 &&
		       worker->group->state == GROUP_SERVING &&
		       settings_of(worker->master)->steer_after_ns > 0;
	if (worker->heartbeat.told_ns < worker->master->woken_ns ||
	    worker->heartbeat.told_ns < worker->watch->stirred_ns)
		return true;
	return !worker->ready || worker->incident || worker->role == WORKER_EXTRA ||
	       atomic_load(&worker_line(worker)->answered) !=
		       atomic_load(&worker_line(worker)->asked);
}

/* Whether there is anything to look at; then workers need not wake the master. */
static bool anything_to_see(struct master *master)
{
	for (struct watch *watch = NULL; (watch = watch_next(master, watch));) {
		if (watch->looking || watch->steered || lane_connections(watch->lane) > 0)
			return true;
	}
	for (struct worker *worker = NULL; (worker = worker_next(master, worker));) {
		if (worker_needs_looks(worker))
			return true;
	}
	return false;
}

static void boards_say_watched(struct master *master, bool watched)
{
	for (struct watch *watch = NULL; (watch = watch_next(master, watch));)
		atomic_store(&watch->lane->board->watched, watched);
}

/* Goes on, or goes to sleep. */
static void tick_go_on(struct master *master, uint64_t now_ns)
{
	bool sleeps = !anything_to_see(master);

	if (sleeps) {
		/* Said first, and looked at again then: see lane_count_accept(). */
		boards_say_watched(master, false);
		sleeps = !anything_to_see(master);
	}
	master->ticking = !sleeps;
	if (sleeps)
		return;
	boards_say_watched(master, true);
	tick_later(master, now_ns);
}

/* Time in which the master could not look counts against nobody. */
static void time_lost(struct master *master, uint64_t from_ns, uint64_t to_ns)
{
	for (struct worker *worker = NULL; (worker = worker_next(master, worker));)
		worker_excuse(worker, from_ns, to_ns);
	for (struct watch *watch = NULL; (watch = watch_next(master, watch));) {
		watch->taken_ns = excused(watch->taken_ns, from_ns, to_ns);
		for (size_t i = 0; watch->queues && i < watch->lane->n_listeners; i++)
			watch->queues[i].mark_ns = excused(watch->queues[i].mark_ns, from_ns,
							   to_ns);
	}
}

/* Whether the host, or what runs the master, stood still since the last tick. */
static bool host_stood_still(struct master *master, uint64_t now_ns)
{
	uint64_t interval_ns = settings_of(master)->check_interval_ns;
	uint64_t lost_ns = now_ns > master->due_ns ? now_ns - master->due_ns : 0;
	uint64_t suspended_ns = clock_suspended_ns();
	uint64_t limit_ns = LATE_INTERVALS * interval_ns;
	struct host_evidence evidence = {
		.late_ns = lost_ns,
		.late_limit_ns = limit_ns > LATE_NS ? limit_ns : LATE_NS,
		.suspended_ns = suspended_ns > master->suspended_ns
					? suspended_ns - master->suspended_ns
					: 0,
	};

	master->suspended_ns = suspended_ns;
	if (lost_ns >= interval_ns)
		time_lost(master, master->due_ns, now_ns);
	if (!health_doubts(&evidence))
		return false;
	host_stalled(master, now_ns, &evidence);
	return true;
}

/* Whether a host that stands still would explain the state of a worker. */
static bool may_be_host(enum worker_state state)
{
	return state == STATE_BLOCKED || state == STATE_STARVED || state == STATE_UNKNOWN;
}

/* Whether so many workers are suspect that the host may be to blame; not for ever. */
static bool most_are_suspect(struct master *master, uint64_t now_ns)
{
	struct host_evidence evidence = {.late_limit_ns = UINT64_MAX};

	for (struct worker *worker = NULL; (worker = worker_next(master, worker));) {
		if (worker->pid == 0)
			continue;
		evidence.workers++;
		if (worker->heartbeat.judged > 0 && may_be_host(worker->heartbeat.state))
			evidence.suspects++;
	}
	if (!health_doubts(&evidence)) {
		master->doubt_ns = 0;
		return false;
	}
	if (master->doubt_ns == 0) {
		master->doubt_ns = now_ns;
		log_warning("%u of %u workers do not go on: the host may be at fault; none is "
			    "ended for now",
			    evidence.suspects, evidence.workers);
	}
	return now_ns - master->doubt_ns < DOUBT_TIMES * settings_of(master)->abort_after_ns;
}

/*
 * Whether the own cgroup was held back for half of the time since the last look, or more. While
 * nobody is suspect nobody looks, so the first of a row of looks says nothing.
 */
static void throttling_look(struct master *master, uint64_t now_ns)
{
	uint64_t since_ns = now_ns - master->throttled_look_ns;
	uint64_t before_ns = master->throttled_ns;
	uint64_t after_ns = host_throttled_ns();

	master->throttled = before_ns != UINT64_MAX && after_ns != UINT64_MAX &&
			    since_ns < LATE_INTERVALS * settings_of(master)->check_interval_ns &&
			    after_ns - before_ns >= since_ns / 2;
	master->throttled_ns = after_ns;
	master->throttled_look_ns = now_ns;
}

/*
 * Looks at all workers: at each, then at all of them together, and only then is anything done.
 * While laned stops nobody comes to new clients and none leaves for good.
 */
static void check_all(struct master *master, uint64_t now_ns)
{
	bool stopping = master->phase >= MASTER_STOPPING;
	bool suspects = false, doubt;

	master->checked_ns = now_ns;
	for (struct watch *watch = NULL; (watch = watch_next(master, watch));)
		watch_notice(watch, now_ns);
	for (struct worker *worker = NULL; (worker = worker_next(master, worker));) {
		worker_observe(worker, now_ns);
		suspects |= worker->heartbeat.still_ns > 0;
	}
	if (suspects)
		throttling_look(master, now_ns);
	for (struct worker *worker = NULL; (worker = worker_next(master, worker));)
		worker_judge(worker, now_ns);
	doubt = most_are_suspect(master, now_ns);
	for (struct worker *worker = NULL; (worker = worker_next(master, worker));) {
		worker_escalate(worker, now_ns, doubt);
		if (!stopping)
			worker_ping(worker, now_ns);
	}
	for (struct watch *watch = NULL; !stopping && (watch = watch_next(master, watch));) {
		if (watch->group->state == GROUP_SERVING)
			lane_check_rotation(watch, now_ns);
		extras_retire(watch, now_ns);
	}
	for (struct worker *worker = NULL; (worker = worker_next(master, worker));)
		worker_settle(worker); /* last: its incident has what was undone */
}

static int on_tick(sd_event_source *source, uint64_t due_us, void *userdata)
{
	struct master *master = userdata;
	uint64_t now_ns = clock_now_ns();

	(void)source;
	(void)due_us;
	master->stalled = host_stood_still(master, now_ns);
	for (struct watch *watch = NULL; (watch = watch_next(master, watch));) {
		if (watch->looking)
			watch_look(watch, now_ns);
	}
	if (now_ns - master->checked_ns >= settings_of(master)->check_interval_ns)
		check_all(master, now_ns);
	for (struct worker *worker = NULL; (worker = worker_next(master, worker));) {
		if (worker->incident && worker->heartbeat.well_ns == 0)
			incident_add_sample(worker->incident, worker->watch->depth, now_ns);
	}
	tick_go_on(master, now_ns);
	return 0;
}

int supervise_begin(struct master *master)
{
	int r = sd_event_add_time(master->event, &master->tick_source, CLOCK_MONOTONIC, UINT64_MAX,
				  1, on_tick, master);

	if (r < 0)
		return r;
	for (struct watch *watch = NULL; (watch = watch_next(master, watch));)
		watch_begin(watch);
	master->throttled_ns = UINT64_MAX;
	supervise_wake(master);
	return 0;
}

void supervise_wake(struct master *master)
{
	uint64_t now_ns = clock_now_ns();

	if (!master->tick_source)
		return;
	if (!master->ticking) {
		master->suspended_ns = clock_suspended_ns();
		master->checked_ns = 0; /* all are looked at once, however short this is */
		master->woken_ns = now_ns;
		tick_go_on(master, now_ns);
	} else if (master->due_ns > now_ns + tick_interval_ns(master)) {
		tick_later(master, now_ns);
	}
}

void supervise_end(struct master *master)
{
	uint64_t now_ns = clock_now_ns();

	master->tick_source = sd_event_source_disable_unref(master->tick_source);
	for (struct watch *watch = NULL; (watch = watch_next(master, watch));)
		watch_close(watch);
	for (struct worker *worker = NULL; (worker = worker_next(master, worker));)
		worker_incident_ends(worker, INCIDENT_STOPPED, now_ns);
}
