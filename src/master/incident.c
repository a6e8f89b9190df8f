#include "master/incident.h"

#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/units.h"
#include "master/health.h"
#include "topology/topology.h"

#define SAMPLE_EVERY_MS 5U

static bool goes_on(const struct incident *incident)
{
	return incident->number > 0 && incident->end == INCIDENT_GOES_ON;
}

struct incident *incident_begin(struct scoreboard *board, uint64_t number, uint64_t since_ns)
{
	struct incident *oldest = NULL;

	for (size_t i = 0; i < SCOREBOARD_INCIDENTS; i++) {
		struct incident *incident = &board->incidents[i];

		if (!goes_on(incident) && (!oldest || incident->number < oldest->number))
			oldest = incident;
	}
	if (oldest)
		*oldest = (struct incident){
			.number = number,
			.since_ns = since_ns,
			.since_wall_ns = clock_wall_ns() - (clock_now_ns() - since_ns),
			.sample_every_ms = SAMPLE_EVERY_MS,
		};
	return oldest;
}

static uint32_t age_ms(const struct incident *incident, uint64_t now_ns)
{
	return (uint32_t)((now_ns - incident->since_ns) / NS_PER_MS);
}

void incident_add_step(struct incident *incident, enum incident_step_kind kind, uint64_t now_ns)
{
	if (incident->n_steps == INCIDENT_STEPS)
		return;
	incident->steps[incident->n_steps++] = (struct incident_step){
		.kind = kind,
		.at_ms = now_ns > incident->since_ns ? age_ms(incident, now_ns) : 0,
	};
}

void incident_add_sample(struct incident *incident, uint32_t depth, uint64_t now_ns)
{
	uint32_t at_ms = age_ms(incident, now_ns);
	uint32_t n = incident->n_samples;

	if (n > 0 && at_ms - incident->samples[n - 1].at_ms < incident->sample_every_ms)
		return;
	if (n == INCIDENT_SAMPLES) { /* every other one is dropped, and half as many come */
		for (n = 0; n < INCIDENT_SAMPLES / 2; n++)
			incident->samples[n] = incident->samples[2 * n];
		incident->sample_every_ms = at_ms / n;
	}
	incident->samples[n++] = (struct incident_sample){.at_ms = at_ms, .depth = depth};
	incident->n_samples = n;
}

void incident_add_waits(struct incident *incident, const struct lane *lane)
{
	uint32_t lateness = atomic_load(&lane->board->lateness);

	if (lateness % 2 == 0)
		return;
	for (uint32_t i = 0; i < lane->shape.workers; i++) {
		const struct worker_line *line = lane_worker(lane, i);

		if (atomic_load(&line->lateness) != lateness)
			continue;

		uint32_t worst_ms = atomic_load(&line->late_worst_ms);

		incident->clients += atomic_load(&line->late_clients);
		if (worst_ms > incident->worst_ms)
			incident->worst_ms = worst_ms;
	}
}

void incident_set_connection(struct incident *incident, const struct lane *lane, uint32_t now_ms)
{
	struct conn_table table = lane_table(lane, incident->worker);
	uint32_t fd = atomic_load(&lane_worker(lane, incident->worker)->fd_in_hand);
	const struct conn *conn = fd < table.n_conns ? &table.conns[fd] : NULL;

	incident->connection = (struct incident_connection){0};
	if (fd == 0 || !conn || !conn_is_open(conn))
		return;
	incident->connection = (struct incident_connection){
		.fd = fd,
		.messages = conn->messages,
		.bytes_in = conn->in,
		.bytes_out = conn->out,
		.quiet_ms = now_ms - conn->stamp_ms,
	};
}

void incident_finish(struct incident *incident, enum incident_end end, uint64_t now_ns)
{
	incident->duration_ns = now_ns - incident->since_ns;
	incident->end = end;
}

static const char *step_name(uint32_t kind)
{
	switch ((enum incident_step_kind)kind) {
	case STEP_CALLED:
		return "call";
	case STEP_EXTRA:
		return "extra";
	case STEP_STEERED:
		return "steer";
	case STEP_BACK:
		return "steer back";
	case STEP_ABORTED:
		return "abort";
	case STEP_KILLED:
		return "kill";
	case STEP_ENDED:
		return "ended";
	}
	return "unknown";
}

static const char *end_name(uint32_t end)
{
	switch ((enum incident_end)end) {
	case INCIDENT_GOES_ON:
		return "goes on";
	case INCIDENT_RECOVERED:
		return "recovered";
	case INCIDENT_REPLACED:
		return "replaced";
	case INCIDENT_LEFT:
		return "left";
	case INCIDENT_STOPPED:
		return "laned stopped";
	}
	return "unknown";
}

/* "2026-11-30T21:11:26.123Z" */
static json_t *json_time(uint64_t wall_ns)
{
	time_t seconds = (time_t)(wall_ns / NS_PER_S);
	char day[32], text[64];
	struct tm utc;

	if (!gmtime_r(&seconds, &utc) || strftime(day, sizeof(day), "%FT%T", &utc) == 0)
		return json_null();
	(void)snprintf(text, sizeof(text), "%s.%03uZ", day,
		       (unsigned)(wall_ns % NS_PER_S / NS_PER_MS));
	return json_string(text);
}

/* What is not known is null. */
static json_t *json_text(const char *text)
{
	return *text ? json_string(text) : json_null();
}

static json_t *json_connection(const struct incident_connection *connection)
{
	if (connection->fd == 0)
		return json_null();
	return json_pack("{s:I, s:I, s:I, s:I, s:I}", "fd", (json_int_t)connection->fd, "messages",
			 (json_int_t)connection->messages, "bytes_in",
			 (json_int_t)connection->bytes_in, "bytes_out",
			 (json_int_t)connection->bytes_out, "quiet_ms",
			 (json_int_t)connection->quiet_ms);
}

static json_t *json_steps(const struct incident *incident)
{
	json_t *steps = json_array();

	for (uint32_t i = 0; i < incident->n_steps; i++)
		(void)json_array_append_new(
			steps, json_pack("{s:s, s:I}", "step", step_name(incident->steps[i].kind),
					 "at_ms", (json_int_t)incident->steps[i].at_ms));
	return steps;
}

static json_t *json_samples(const struct incident *incident)
{
	json_t *samples = json_array();

	for (uint32_t i = 0; i < incident->n_samples; i++)
		(void)json_array_append_new(
			samples, json_pack("[I, I]", (json_int_t)incident->samples[i].at_ms,
					   (json_int_t)incident->samples[i].depth));
	return samples;
}

/* Who it was: nothing of that for the host. */
static json_t *json_worker(const struct incident *incident, const char *name)
{
	if (incident->worker == INCIDENT_HOST)
		return json_object();
	return json_pack("{s:s, s:s, s:i, s:I}", "worker", name, "role",
			 worker_role_name((enum worker_role)incident->role), "pid",
			 (int)incident->pid, "generation", (json_int_t)incident->generation);
}

char *incident_json(const struct incident *incident, const char *name)
{
	json_t *object = json_pack("{s:I}", "incident", (json_int_t)incident->number);
	json_t *worker = json_worker(incident, name);
	json_t *rest = json_pack(
		"{s:s, s:o, s:I, s:s, s:o, s:o, s:I, s:I, s:o, s:I, s:I, s:o, s:o}", "state",
		worker_state_name((enum worker_state)incident->state), "since",
		json_time(incident->since_wall_ns), "duration_ms",
		(json_int_t)(incident->duration_ns / NS_PER_MS), "end", end_name(incident->end),
		"wchan", json_text(incident->wchan), "syscall", json_text(incident->call), "cpu_ms",
		(json_int_t)(incident->cpu_ns / NS_PER_MS), "cpu_wait_ms",
		(json_int_t)(incident->cpu_wait_ns / NS_PER_MS), "connection",
		json_connection(&incident->connection), "clients_waited",
		(json_int_t)incident->clients, "worst_wait_ms", (json_int_t)incident->worst_ms,
		"steps", json_steps(incident), "queue", json_samples(incident));
	char *text = NULL;

	if (object && worker && rest && json_object_update(object, worker) == 0 &&
	    json_object_update(object, rest) == 0)
		text = json_dumps(object, JSON_COMPACT);
	json_decref(object);
	json_decref(worker);
	json_decref(rest);
	return text;
}
