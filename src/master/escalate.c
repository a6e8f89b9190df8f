/*
 * Escalation: what is done about a worker that does not go on, the cheapest step first, and undone
 * when it does.
 *
 * Whoever waits in the queue is helped before that, in watch.c: what comes here is for the sake of
 * those whom the worker holds, and of those who have not come yet.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/units.h"
#include "master/state.h"

#define SUSPECT_NS   (1 * NS_PER_S) /* without progress: at the latest now one looks closer */
#define WELL_NS      (1 * NS_PER_S) /* with progress: its incident is over */
#define ABORT_EVERY  (60 * NS_PER_S)
#define DURATION_MAX 32

/* What each incident is logged with; laned(8) has it. */
#define INCIDENT_MESSAGE_ID "3c1f0f2f6d0b4b6c9a1be4b0f7a5d2e8"

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

bool worker_is_suspect(const struct worker *worker)
{
	return worker->pulse.still_ns >= suspect_after_ns(settings_of(worker));
}

/* "22 ms", "2.4 s" */
static const char *duration_text(uint64_t ns, char text[static DURATION_MAX])
{
	if (ns < NS_PER_S)
		(void)snprintf(text, DURATION_MAX, "%u ms", (unsigned)(ns / NS_PER_MS));
	else
		(void)snprintf(text, DURATION_MAX, "%.1f s", (double)ns / (double)NS_PER_S);
	return text;
}

/* One line for each step: who, what is known, what is done. */
static void log_step(const struct worker *worker, const char *action)
{
	const struct incident *incident = worker->incident;
	const char *wchan = incident ? incident->wchan : "";
	char duration[DURATION_MAX];

	log_limited(&step_lines, LOG_WARNING, "%s (pid %d): %s for %s%s%s, %u waiting; %s",
		    worker->name, (int)worker->pid,
		    worker->pulse.state == STATE_WORKING ? "no progress"
							 : worker_state_name(worker->pulse.state),
		    duration_text(worker->pulse.still_ns, duration), *wchan ? " in " : "", wchan,
		    worker->watch->depth, action);
}

/* --- Incidents --------------------------------------------------------------------------------- */

static void worker_suspect(struct worker *worker, uint64_t now_ns)
{
	struct incident *incident;
	uint64_t called_ns = worker->watch->called_ns;

	worker->pulse.well_ns = 0;
	if (worker->incident)
		return;
	incident = incident_begin(worker->lane->board, ++worker->master->last_incident,
				  now_ns - worker->pulse.still_ns);
	worker->incident = incident;
	if (!incident)
		return;
	incident->worker = worker->number;
	incident->role = worker->role;
	incident->generation = worker->generation;
	incident->pid = worker->pid;
	incident->state = STATE_UNKNOWN;
	if (called_ns > 0)
		incident_add_step(incident, STEP_CALLED, called_ns);
}

static void incident_log(const struct incident *incident, const char *name)
{
	_cleanup_(freep) char *json = incident_json(incident, name);

	if (json)
		log_event(LOG_NOTICE, INCIDENT_MESSAGE_ID, name, "%s: incident %s", name, json);
	else
		log_error("%s: an incident cannot be logged: %s", name, strerror(ENOMEM));
}

void worker_incident_ends(struct worker *worker, enum incident_end end, uint64_t now_ns)
{
	struct incident *incident = worker->incident;

	if (!incident)
		return;
	worker->incident = NULL;
	incident_add_waits(incident, worker->lane);
	incident_finish(incident, end, now_ns);
	incident_log(incident, worker->name);
}

static void worker_step(struct worker *worker, enum incident_step_kind kind, uint64_t now_ns)
{
	if (worker->incident)
		incident_add_step(worker->incident, kind, now_ns);
}

void host_stalled(struct master *master, uint64_t now_ns, const struct host_evidence *evidence)
{
	bool suspended = evidence->suspended_ns > evidence->late_ns;
	uint64_t lost_ns = suspended ? evidence->suspended_ns : evidence->late_ns;
	const struct incident *logged = NULL;
	char duration[DURATION_MAX];

	log_warning("the %s for %s: nobody is judged by that time",
		    suspended ? "host was suspended" : "master was not run",
		    duration_text(lost_ns, duration));
	master->last_incident++;
	for (struct watch *watch = NULL; (watch = watch_next(master, watch));) {
		struct incident *incident = incident_begin(watch->lane->board,
							   master->last_incident, now_ns - lost_ns);

		if (!incident)
			continue;
		incident->worker = INCIDENT_HOST;
		incident->state = STATE_SUSPENDED;
		incident_finish(incident, INCIDENT_RECOVERED, now_ns);
		logged = incident;
	}
	if (logged)
		incident_log(logged, "host");
}

/* Looks closer at a suspect, and says what it concludes. */
static enum worker_state worker_judge(struct worker *worker, uint64_t after_ns, uint64_t now_ns)
{
	struct evidence evidence;
	enum worker_state state;

	worker_examine(worker, now_ns, &evidence);
	evidence.throttled = worker->master->throttled;
	state = health_judge(&evidence, after_ns, false);
	if (worker->incident)
		worker->incident->state = state;
	return state;
}

/* --- Steps ------------------------------------------------------------------------------------- */

void lane_helped(struct watch *watch, unsigned extras, uint64_t now_ns)
{
	uint64_t after_ns = watch->master->settings->supervision.extra_after_ns;
	const struct worker *first = NULL;
	char action[DURATION_MAX], duration[DURATION_MAX];

	for (unsigned i = 0; i < watch->n_workers; i++) {
		struct worker *worker = &watch->workers[i];

		if (!worker->ready || worker->pulse.still_ns < after_ns)
			continue;
		if (!worker->incident) {
			worker_suspect(worker, now_ns);
			(void)worker_judge(worker, after_ns, now_ns);
		}
		worker_step(worker, STEP_EXTRA, now_ns);
		first = first ? first : worker;
	}
	(void)snprintf(action, sizeof(action), "%u extra worker%s", extras, extras > 1 ? "s" : "");
	if (first)
		log_step(first, action);
	else
		log_limited(&step_lines, LOG_WARNING, "%s: nobody is free, %u waiting for %s; %s",
			    watch->lane->name, watch->depth,
			    duration_text(watch->late_ns, duration), action);
}

/* Whether a worker has shown progress in the last `after_ns`, or has nothing to do. */
static bool worker_goes_on(const struct worker *worker, uint64_t after_ns, uint64_t now_ns)
{
	if (worker->pid == 0)
		return now_ns - worker->ended_ns < after_ns;
	if (!worker->ready)
		return now_ns - worker->started_ns < after_ns;
	return worker->pulse.still_ns < after_ns;
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
				      worker->pulse.still_ns < after_ns)
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
		if (watch->workers[i].ready && !watch->workers[i].incident)
			return true;
	}
	return false;
}

static void lane_steer_away(struct watch *watch, uint64_t now_ns)
{
	struct worker *primary = &watch->workers[0];

	if (!lane_steer(watch, true))
		return;
	if (primary->pid > 0)
		log_step(primary, "new clients go to the other lanes");
	else
		log_limited(&step_lines, LOG_WARNING,
			    "%s: no process; new clients go to the other lanes", primary->name);
	for (unsigned i = 0; i < watch->n_workers; i++)
		worker_step(&watch->workers[i], STEP_STEERED, now_ns);
}

static void lane_steer_back(struct watch *watch, uint64_t now_ns)
{
	if (!lane_steer(watch, false))
		return;
	log_notice("%s: new clients come to it again", watch->lane->name);
	for (unsigned i = 0; i < watch->n_workers; i++)
		worker_step(&watch->workers[i], STEP_BACK, now_ns);
}

void lane_check_rotation(struct watch *watch, uint64_t now_ns)
{
	if (watch->master->settings->supervision.steer_after_ns == 0 ||
	    watch->group->plan.lanes == 1)
		return;
	if (!watch->steered) {
		if (!lane_goes_on(watch, false, now_ns) && others_are_better(watch, now_ns))
			lane_steer_away(watch, now_ns);
	} else if (lane_is_well(watch) || !others_are_better(watch, now_ns)) {
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

static void worker_send(struct worker *worker, int signal_number)
{
	/* ESRCH: it has ended, which the event loop is about to see. */
	if (pidfd_send_signal(worker->pidfd, signal_number, NULL, 0) < 0 && errno != ESRCH)
		log_error("%s (pid %d): cannot be ended: %s", worker->name, (int)worker->pid,
			  strerror(errno));
}

static void worker_abort(struct worker *worker, uint64_t now_ns)
{
	struct group *group = worker->group;

	worker->pulse.aborted_ns = now_ns;
	group->aborts_ns[group->next_abort] = now_ns;
	group->next_abort = (group->next_abort + 1) % group->n_workers;
	worker_step(worker, STEP_ABORTED, now_ns);
	log_step(worker, "SIGABRT");
	worker_send(worker, SIGABRT);
}

/* Ends a worker when that is due. */
static void worker_end_if_due(struct worker *worker, uint64_t now_ns, bool doubt)
{
	const struct supervision_settings *settings = settings_of(worker);
	const struct pulse *pulse = &worker->pulse;

	if (pulse->aborted_ns > 0) {
		if (now_ns - pulse->aborted_ns < settings->kill_after_ns)
			return;
		worker_step(worker, STEP_KILLED, now_ns);
		log_step(worker, "SIGKILL");
		worker_send(worker, SIGKILL);
	} else if (settings->abort_after_ns > 0 && pulse->still_ns >= settings->abort_after_ns &&
		   health_may_end(pulse->state) && !doubt &&
		   group_may_abort(worker->group, now_ns)) {
		worker_abort(worker, now_ns);
	}
}

/* It goes on, or there is nobody to go on. */
static void worker_well(struct worker *worker, uint64_t now_ns)
{
	struct pulse *pulse = &worker->pulse;

	if (!worker->incident)
		pulse->state = STATE_WORKING;
	if (!worker->ready || !worker->incident)
		return;
	if (pulse->well_ns == 0)
		pulse->well_ns = now_ns;
	if (now_ns - pulse->well_ns < WELL_NS)
		return;
	pulse->state = STATE_WORKING;
	worker_incident_ends(worker, INCIDENT_RECOVERED, pulse->well_ns);
}

void worker_escalate(struct worker *worker, uint64_t now_ns, bool doubt)
{
	struct pulse *pulse = &worker->pulse;
	enum worker_state state;

	if (!worker_is_suspect(worker)) {
		/* Short of that, still for long enough to have called for help is not well. */
		if (pulse->still_ns < settings_of(worker)->extra_after_ns)
			worker_well(worker, now_ns);
		else
			pulse->well_ns = 0;
		return;
	}
	worker_suspect(worker, now_ns);
	state = worker_judge(worker, suspect_after_ns(settings_of(worker)), now_ns);
	if (state != pulse->state && state != STATE_UNKNOWN) {
		pulse->state = state;
		log_step(worker, health_may_end(state) ? "watched" : "left alone");
	}
	pulse->state = state;
	worker_end_if_due(worker, now_ns, doubt);
}
