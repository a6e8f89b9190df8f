/*
 * Escalation: what is done about a worker that does not go on, the cheapest step first, and undone
 * when it does.
 *
 * Whoever waits in the queue is helped before that, in watch.c: what comes here is for the sake of
 * those whom the worker holds, and of those who have not come yet.
 */
#include <signal.h>
#include <stdio.h>

#include "base/log.h"
#include "base/units.h"
#include "master/state.h"

#define SUSPECT_NS   (1 * NS_PER_S) /* without progress: at the latest now one looks closer */
#define WELL_NS      (1 * NS_PER_S) /* with progress: its incident is over */
#define ABORT_EVERY  (60 * NS_PER_S)
#define JUDGED_LOOKS 2 /* in a row, before anybody is ended: the first one knows no CPU time */

static struct log_limit rotation_lines;
static struct log_limit step_lines; /* of all workers together: they may all be in trouble */

static const struct supervision_settings *settings_of(const struct worker *worker)
{
	return &worker->master->settings->supervision;
}

/* From when on a worker is looked at closer: before any step about it is due. */
static uint64_t suspect_after_ns(const struct supervision_settings *settings)
{
	uint64_t after_ns = SUSPECT_NS;

	if (settings->steer_after_ns > 0 && settings->steer_after_ns < after_ns)
		after_ns = settings->steer_after_ns;
	if (settings->abort_after_ns > 0 && settings->abort_after_ns < after_ns)
		after_ns = settings->abort_after_ns;
	return after_ns;
}

static bool worker_is_suspect(const struct worker *worker)
{
	return worker->heartbeat.still_ns >= suspect_after_ns(settings_of(worker));
}

/* One line for each step: who, what is known, what is done. */
static void log_step(const struct worker *worker, const char *action)
{
	const struct incident *incident = worker->incident;
	const char *wchan = incident ? incident->wchan : "";
	char duration[DURATION_MAX];

	log_limited(&step_lines, LOG_WARNING, "%s (pid %d): %s for %s%s%s, %u waiting; %s",
		    worker->name, (int)worker->pid,
		    worker->heartbeat.state == STATE_WORKING
			    ? "no progress"
			    : worker_state_name(worker->heartbeat.state),
		    duration_text(worker->heartbeat.still_ns, duration), *wchan ? " in " : "",
		    wchan, worker->watch->depth, action);
}

/* Asks the kernel about a worker, and says what is to be concluded. */
static enum worker_state worker_conclude(struct worker *worker, uint64_t after_ns, uint64_t now_ns)
{
	struct evidence evidence;
	enum worker_state state;

	worker_examine(worker, now_ns, &evidence);
	evidence.throttled = worker->master->throttled;
	state = health_judge(&evidence, after_ns, worker->master->stalled);
	if (worker->incident)
		worker->incident->state = state;
	return state;
}

/* Whether another process has the place than when the incident began. */
static bool worker_is_replaced(const struct worker *worker)
{
	return worker->incident && worker->generation != worker->incident->generation;
}

/*
 * It goes on, or there is nobody to go on. A successor is well at once; but what clients have waited
 * is known only when nobody waits for too long any more.
 */
static void worker_well(struct worker *worker, uint64_t now_ns)
{
	struct heartbeat *heartbeat = &worker->heartbeat;

	heartbeat->aborted_ns = 0;
	if (!worker->incident)
		heartbeat->state = STATE_WORKING;
	if (!worker->ready || !worker->incident)
		return;
	if (heartbeat->well_ns == 0)
		heartbeat->well_ns = now_ns;
	heartbeat->recovered = now_ns - heartbeat->well_ns >= WELL_NS ||
			       (worker_is_replaced(worker) && !lane_is_late(worker->watch));
}

void worker_settle(struct worker *worker)
{
	struct heartbeat *heartbeat = &worker->heartbeat;

	if (!heartbeat->recovered)
		return;
	heartbeat->recovered = false;
	heartbeat->state = STATE_WORKING;
	worker_incident_ends(worker,
			     worker_is_replaced(worker) ? INCIDENT_REPLACED : INCIDENT_RECOVERED,
			     heartbeat->well_ns);
}

void worker_judge(struct worker *worker, uint64_t now_ns)
{
	struct heartbeat *heartbeat = &worker->heartbeat;
	enum worker_state state;

	if (!worker_is_suspect(worker)) {
		heartbeat->judged = 0;
		heartbeat->recovered = false;
		/* Short of that, still for long enough to have called for help is not well. */
		if (heartbeat->still_ns < settings_of(worker)->extra_after_ns)
			worker_well(worker, now_ns);
		else
			heartbeat->well_ns = 0;
		return;
	}
	heartbeat->judged++;
	worker_incident_begins(worker, now_ns);
	if (heartbeat->aborted_ns > 0) /* judged; what is seen of its end says no more */
		return;
	state = worker_conclude(worker, suspect_after_ns(settings_of(worker)), now_ns);
	if (state != heartbeat->state && state != STATE_UNKNOWN) {
		heartbeat->state = state;
		log_step(worker, health_may_end(state) ? "nothing is done yet" : "left alone");
	}
	heartbeat->state = state;
}

/* --- Steps ------------------------------------------------------------------------------------- */

/*
 * An incident of each worker of the lane that does not go on; and of all that seem to, if none of
 * them takes anybody. Returns one of the first, NULL: there is none.
 */
static const struct worker *lane_suspects(struct watch *watch, uint64_t now_ns)
{
	uint64_t after_ns = watch->master->settings->supervision.extra_after_ns;
	bool barren = now_ns - watch->taken_ns >= after_ns;
	const struct worker *first = NULL;

	for (unsigned i = 0; i < watch->n_workers; i++) {
		struct worker *worker = &watch->workers[i];
		bool still = worker->heartbeat.still_ns >= after_ns;

		if (!worker->ready || (!still && !barren))
			continue;
		if (!worker->incident) {
			worker_incident_begins(worker, now_ns);
			(void)worker_conclude(worker, after_ns, now_ns);
		}
		worker_add_step(worker, STEP_EXTRA, now_ns);
		if (still && !first)
			first = worker;
	}
	return first;
}

void lane_helped(struct watch *watch, unsigned extras, uint64_t now_ns)
{
	const struct worker *first = lane_suspects(watch, now_ns);
	char action[DURATION_MAX], duration[DURATION_MAX];

	(void)snprintf(action, sizeof(action), "%u extra worker%s", extras, extras > 1 ? "s" : "");
	if (first)
		log_step(first, action);
	else
		log_limited(&step_lines, LOG_WARNING,
			    "%s: nobody takes clients, %u waiting for %s; %s", watch->lane->name,
			    watch->depth, duration_text(watch->wait_ns, duration), action);
}

/* Whether a worker has shown progress in the last `after_ns`, or has nothing to do. */
static bool worker_goes_on(const struct worker *worker, uint64_t after_ns, uint64_t now_ns)
{
	if (worker->pid == 0)
		return now_ns - worker->ended_ns < after_ns;
	if (!worker->ready)
		return now_ns - worker->started_ns < after_ns;
	return worker->heartbeat.still_ns < after_ns;
}

/* Whether one of the lane's primaries goes on; `helpers`: or any other worker that serves it. */
static bool lane_goes_on(const struct watch *watch, bool helpers, uint64_t now_ns)
{
	uint64_t after_ns = watch->master->settings->supervision.steer_after_ns;

	for (unsigned i = 0; i < watch->n_workers; i++) {
		const struct worker *worker = &watch->workers[i];

		if (worker->role == WORKER_PRIMARY
			    ? worker_goes_on(worker, after_ns, now_ns)
			    : helpers && worker->ready && !worker->retiring &&
				      worker->heartbeat.still_ns < after_ns)
			return true;
	}
	return false;
}

/*
 * Whether new clients are better off in the other lanes of the group. A lane that nobody serves
 * leaves the rotation for any that somebody does; one that its standbys or extra workers serve only
 * while the others do without theirs, and not when half of the lanes are out already.
 */
static bool others_are_better(const struct watch *watch, uint64_t now_ns)
{
	const struct group *group = watch->group;
	bool served = lane_goes_on(watch, true, now_ns);
	unsigned out = 1, well = 0, in = 0;

	for (unsigned i = 0; i < group->plan.lanes; i++) {
		const struct watch *other = &group->watches[i];

		if (other == watch)
			continue;
		out += other->steered;
		in += !other->steered;
		well += !other->steered && lane_goes_on(other, !served, now_ns);
	}
	return served ? well == in && out <= group->plan.lanes / 2 : well > 0;
}

/* Whether a primary of the lane has recovered, or been replaced. */
static bool lane_is_well(const struct watch *watch)
{
	for (unsigned i = 0; i < watch->group->plan.primaries; i++) {
		const struct worker *worker = &watch->workers[i];

		bool well = !worker->incident || worker->heartbeat.recovered ||
			    worker_is_replaced(worker);

		if (worker->ready && well &&
		    worker->heartbeat.still_ns < settings_of(worker)->steer_after_ns)
			return true;
	}
	return false;
}

static void lane_steer_away(struct watch *watch, uint64_t now_ns)
{
	const struct worker *primary = &watch->workers[0];
	char duration[DURATION_MAX];

	if (!lane_steer(watch, true))
		return;
	lane_add_step(watch, STEP_STEERED, now_ns);
	if (primary->pid > 0)
		log_limited(&rotation_lines, LOG_WARNING,
			    "%s (pid %d): no progress for %s; new clients go to the other lanes",
			    primary->name, (int)primary->pid,
			    duration_text(primary->heartbeat.still_ns, duration));
	else
		log_limited(&rotation_lines, LOG_WARNING,
			    "%s: no process; new clients go to the other lanes", primary->name);
}

static void lane_steer_back(struct watch *watch, uint64_t now_ns)
{
	if (!lane_steer(watch, false))
		return;
	lane_add_step(watch, STEP_BACK, now_ns);
	log_limited(&rotation_lines, LOG_NOTICE, "%s: new clients come to it again",
		    watch->lane->name);
}

void lane_check_rotation(struct watch *watch, uint64_t now_ns)
{
	bool may_steer = watch->master->settings->supervision.steer_after_ns > 0;

	if (watch->group->plan.lanes == 1)
		return;
	if (!watch->steered) {
		if (may_steer && !lane_goes_on(watch, false, now_ns) &&
		    others_are_better(watch, now_ns))
			lane_steer_away(watch, now_ns);
	} else if (!may_steer || lane_is_well(watch) || !others_are_better(watch, now_ns)) {
		lane_steer_back(watch, now_ns);
	}
}

/* Whether one more worker of the group may be ended: not more than half of them in a minute. */
static bool group_may_abort(struct group *group, uint64_t now_ns)
{
	size_t running = 0, recent = 0;

	for (size_t i = 0; i < group->n_workers; i++) {
		if (group->workers[i].pid > 0)
			running++;
		if (group->aborts_ns[i] > 0 && now_ns - group->aborts_ns[i] < ABORT_EVERY)
			recent++;
	}
	return recent < (running > 1 ? running / 2 : 1);
}

static void worker_abort(struct worker *worker, uint64_t now_ns)
{
	struct group *group = worker->group;

	worker->heartbeat.aborted_ns = now_ns;
	group->aborts_ns[group->next_abort] = now_ns;
	group->next_abort = (group->next_abort + 1) % group->n_workers;
	worker_add_step(worker, STEP_ABORTED, now_ns);
	log_step(worker, "SIGABRT");
	worker_kill(worker, SIGABRT);
}

void worker_escalate(struct worker *worker, uint64_t now_ns, bool doubt)
{
	const struct supervision_settings *settings = settings_of(worker);
	struct heartbeat *heartbeat = &worker->heartbeat;

	if (worker->pid == 0 || heartbeat->killed)
		return;
	if (heartbeat->aborted_ns > 0) {
		if (now_ns - heartbeat->aborted_ns < settings->kill_after_ns)
			return;
		heartbeat->killed = true;
		worker_add_step(worker, STEP_KILLED, now_ns);
		log_step(worker, "SIGKILL");
		worker_kill(worker, SIGKILL);
	} else if (settings->abort_after_ns > 0 &&
		   heartbeat->still_ns >= settings->abort_after_ns &&
		   heartbeat->judged >= JUDGED_LOOKS && health_may_end(heartbeat->state) &&
		   !doubt) {
		if (group_may_abort(worker->group, now_ns))
			worker_abort(worker, now_ns);
		else if (!heartbeat->spared)
			log_step(worker, "spared: half of its group was ended in the last minute");
		heartbeat->spared = true;
	}
}
