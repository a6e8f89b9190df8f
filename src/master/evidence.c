/*
 * Evidence: all that is known of a worker at one moment, gathered in one place.
 *
 * It looks and remembers what it has seen; what that means is judged in health.c. Nothing here
 * waits for the worker, or touches it.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/process.h"
#include "base/units.h"
#include "master/state.h"

#define START_LIMIT_NS (30 * NS_PER_S) /* a worker may take that long to become ready */
#define PING_NS        (1 * NS_PER_S)
#define CPU_FRESH_NS   (12 * NS_PER_S) /* more than the longest check_interval */

static uint64_t since(uint64_t then_ns, uint64_t now_ns)
{
	return now_ns > then_ns ? now_ns - then_ns : 0;
}

/* How long a worker that waits has not answered. */
static uint64_t unanswered_ns(struct worker *worker, uint64_t now_ns)
{
	const struct worker_line *line = worker_line(worker);

	if (atomic_load(&line->answered) == atomic_load(&line->asked))
		worker->heartbeat.asked_ns = 0;
	if (worker->heartbeat.asked_ns == 0)
		return 0;
	/* It may have been busy when it was asked. */
	return since(worker->heartbeat.asked_ns > worker->heartbeat.moved_ns
			     ? worker->heartbeat.asked_ns
			     : worker->heartbeat.moved_ns,
		     now_ns);
}

void worker_observe(struct worker *worker, uint64_t now_ns)
{
	const struct worker_line *line = worker_line(worker);
	struct heartbeat *heartbeat = &worker->heartbeat;
	uint64_t busy_since_ns = atomic_load(&line->busy_since_ns);
	uint64_t beats = atomic_load(&line->beats);
	uint64_t quiet_ns = unanswered_ns(worker, now_ns);

	if (beats != heartbeat->beats || busy_since_ns != heartbeat->busy_since_ns) {
		heartbeat->beats = beats;
		heartbeat->busy_since_ns = busy_since_ns;
		heartbeat->moved_ns = now_ns;
	}

	if (worker->pid == 0) {
		heartbeat->still_ns = 0;
	} else if (!worker->ready) {
		uint64_t age_ns = since(worker->started_ns, now_ns);

		heartbeat->still_ns = since(START_LIMIT_NS, age_ns);
	} else if (busy_since_ns == 0) {
		/* It waits: that is never wrong, unless it does not hear. */
		heartbeat->still_ns = quiet_ns;
	} else { /* from the first look on: nobody is charged for time in which nobody looked */
		heartbeat->still_ns = since(heartbeat->moved_ns, now_ns);
	}
}

void worker_ping(struct worker *worker, uint64_t now_ns)
{
	const struct worker_line *line = worker_line(worker);

	/* One that works shows it, and one that has been asked is to answer first. */
	if (worker->ready && atomic_load(&line->busy_since_ns) == 0 &&
	    atomic_load(&line->answered) == atomic_load(&line->asked) &&
	    since(worker->heartbeat.told_ns, now_ns) >= PING_NS)
		worker_tell(worker);
}

uint64_t excused(uint64_t stamp_ns, uint64_t from_ns, uint64_t to_ns)
{
	return stamp_ns > 0 && stamp_ns <= from_ns ? stamp_ns + (to_ns - from_ns) : stamp_ns;
}

void worker_excuse(struct worker *worker, uint64_t from_ns, uint64_t to_ns)
{
	struct heartbeat *heartbeat = &worker->heartbeat;

	heartbeat->moved_ns = excused(heartbeat->moved_ns, from_ns, to_ns);
	heartbeat->asked_ns = excused(heartbeat->asked_ns, from_ns, to_ns);
	heartbeat->aborted_ns = excused(heartbeat->aborted_ns, from_ns, to_ns);
	worker->started_ns = excused(worker->started_ns, from_ns, to_ns);
	worker->ended_ns = excused(worker->ended_ns, from_ns, to_ns);
}

/* What has grown since the last look; UINT64_MAX: not known, or that look was too long ago. */
static uint64_t growth(uint64_t before_ns, uint64_t after_ns, uint64_t look_ns)
{
	if (before_ns == UINT64_MAX || after_ns == UINT64_MAX || look_ns >= CPU_FRESH_NS)
		return UINT64_MAX;
	return after_ns - before_ns;
}

static void add_known(uint64_t *sum_ns, uint64_t more_ns)
{
	if (more_ns != UINT64_MAX)
		*sum_ns += more_ns;
}

void worker_examine(struct worker *worker, uint64_t now_ns, struct evidence *ret)
{
	struct heartbeat *heartbeat = &worker->heartbeat;
	struct incident *incident = worker->incident;
	uint64_t look_ns = since(heartbeat->cpu_look_ns, now_ns), wait_ns;
	struct process_word word;

	process_look(worker->pid, &word);
	*ret = (struct evidence){
		.still_ns = heartbeat->still_ns,
		.look_ns = look_ns,
		.cpu_ns = growth(heartbeat->cpu_ns, word.cpu_ns, look_ns),
		.process = word.state,
		.frozen = word.frozen,
	};
	wait_ns = growth(heartbeat->cpu_wait_ns, word.wait_ns, look_ns);
	heartbeat->cpu_ns = word.cpu_ns;
	heartbeat->cpu_wait_ns = word.wait_ns;
	heartbeat->cpu_look_ns = now_ns;
	if (!incident)
		return;
	(void)snprintf(incident->wchan, sizeof(incident->wchan), "%s", word.wchan);
	(void)snprintf(incident->call, sizeof(incident->call), "%s", word.call);
	add_known(&incident->cpu_ns, ret->cpu_ns);
	add_known(&incident->cpu_wait_ns, wait_ns);
	incident_set_connection(incident, worker->lane, clock_coarse_ms());
}
