/*
 * The record: incidents of workers, from their begin to the line in the log.
 *
 * It writes down what others have found and done.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/units.h"
#include "master/state.h"

/* What each incident is logged with; laned(8) has it. */
#define INCIDENT_MESSAGE_ID "3c1f0f2f6d0b4b6c9a1be4b0f7a5d2e8"

const char *duration_text(uint64_t ns, char text[static DURATION_MAX])
{
	if (ns < NS_PER_S)
		(void)snprintf(text, DURATION_MAX, "%u ms", (unsigned)(ns / NS_PER_MS));
	else
		(void)snprintf(text, DURATION_MAX, "%.1f s", (double)ns / (double)NS_PER_S);
	return text;
}

void worker_incident_begins(struct worker *worker, uint64_t now_ns)
{
	struct master *master = worker->master;
	uint64_t called_ns = worker->watch->called_ns;
	struct incident *incident;

	worker->heartbeat.well_ns = 0;
	if (worker->incident && worker->incident->generation != worker->generation)
		worker_incident_ends(worker, INCIDENT_REPLACED, worker->started_ns);
	if (worker->incident)
		return;
	incident = incident_begin(worker->lane->board, master->last_incident + 1,
				  now_ns - worker->heartbeat.still_ns);
	worker->heartbeat.cpu_ns = UINT64_MAX; /* what it used before does not belong to it */
	worker->heartbeat.cpu_wait_ns = UINT64_MAX;
	if (!incident) /* all of the ring go on; steps are taken all the same */
		return;
	master->last_incident++;
	worker->incident = incident;
	incident->worker = worker->number;
	incident->role = worker->role;
	incident->generation = worker->generation;
	incident->pid = worker->pid;
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

void worker_add_step(struct worker *worker, enum incident_step_kind kind, uint64_t now_ns)
{
	if (worker->incident)
		incident_add_step(worker->incident, kind, now_ns);
}

void lane_add_step(struct watch *watch, enum incident_step_kind kind, uint64_t now_ns)
{
	for (unsigned i = 0; i < watch->n_workers; i++)
		worker_add_step(&watch->workers[i], kind, now_ns);
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
