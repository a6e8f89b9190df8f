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

static uint64_t since(uint64_t then_ns, uint64_t now_ns)
{
	return now_ns > then_ns ? now_ns - then_ns : 0;
}

/* How long a worker that waits has not answered. */
static uint64_t unanswered_ns(struct worker *worker, uint64_t now_ns)
{
	const struct worker_line *line = worker_line(worker);

	if (atomic_load(&line->answered) == atomic_load(&line->asked))
		worker->pulse.asked_ns = 0;
	return worker->pulse.asked_ns > 0 ? since(worker->pulse.asked_ns, now_ns) : 0;
}

void worker_observe(struct worker *worker, uint64_t now_ns)
{
	const struct worker_line *line = worker_line(worker);
	struct pulse *pulse = &worker->pulse;
	uint64_t busy_since_ns = atomic_load(&line->busy_since_ns);
	uint64_t beats = atomic_load(&line->beats);
	uint64_t quiet_ns = unanswered_ns(worker, now_ns);

	if (beats != pulse->beats || busy_since_ns != pulse->busy_since_ns) {
		pulse->beats = beats;
		pulse->busy_since_ns = busy_since_ns;
		pulse->moved_ns = now_ns;
	}

	if (worker->pid == 0) {
		pulse->still_ns = 0;
	} else if (!worker->ready) {
		uint64_t age_ns = since(worker->started_ns, now_ns);

		pulse->still_ns = age_ns > START_LIMIT_NS ? age_ns : 0;
	} else if (busy_since_ns == 0) {
		/* It waits: that is never wrong, unless it does not hear. */
		pulse->still_ns = quiet_ns;
	} else {
		/* Since it woke up, or since the last event that it was seen to begin with. */
		uint64_t begin_ns = busy_since_ns > pulse->moved_ns ? busy_since_ns
								    : pulse->moved_ns;

		pulse->still_ns = since(begin_ns, now_ns);
	}
}

void worker_ping(struct worker *worker, uint64_t now_ns)
{
	const struct worker_line *line = worker_line(worker);

	/* One that works shows it, and one that has been asked is to answer first. */
	if (worker->ready && atomic_load(&line->busy_since_ns) == 0 &&
	    atomic_load(&line->answered) == atomic_load(&line->asked) &&
	    since(worker->pulse.told_ns, now_ns) >= PING_NS)
		worker_tell(worker);
}

void worker_excuse(struct worker *worker, uint64_t lost_ns)
{
	struct pulse *pulse = &worker->pulse;

	/* The look at the busy ones is the later of two times, so one of them is enough. */
	pulse->moved_ns += lost_ns;
	worker->started_ns += lost_ns;
	if (pulse->asked_ns > 0)
		pulse->asked_ns += lost_ns;
	if (pulse->aborted_ns > 0)
		pulse->aborted_ns += lost_ns;
}

/* For the record of what goes on. */
static void incident_note(struct worker *worker, const struct process_word *word, uint64_t cpu_ns)
{
	struct incident *incident = worker->incident;

	if (!incident)
		return;
	(void)snprintf(incident->wchan, sizeof(incident->wchan), "%s", word->wchan);
	(void)snprintf(incident->call, sizeof(incident->call), "%s", word->call);
	if (cpu_ns != UINT64_MAX)
		incident->cpu_ns += cpu_ns;
	incident_set_connection(incident, worker->lane, clock_coarse_ms());
}

void worker_examine(struct worker *worker, uint64_t now_ns, struct evidence *ret)
{
	struct pulse *pulse = &worker->pulse;
	struct process_word word;

	process_look(worker->pid, &word);
	*ret = (struct evidence){
		.still_ns = pulse->still_ns,
		.look_ns = since(pulse->cpu_look_ns, now_ns),
		.cpu_ns = UINT64_MAX,
		.process = word.state,
		.frozen = word.frozen,
	};
	if (word.cpu_ns != UINT64_MAX && pulse->cpu_ns != UINT64_MAX)
		ret->cpu_ns = word.cpu_ns - pulse->cpu_ns;
	pulse->cpu_ns = word.cpu_ns;
	pulse->cpu_look_ns = now_ns;
	incident_note(worker, &word, ret->cpu_ns);
}
