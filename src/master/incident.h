/*
 * Incidents: from the first sign that a worker does not go on to its recovery, as data.
 *
 * They are kept in the ring of the lane's scoreboard, and each is one JSON object once it is over.
 * Nothing here decides or acts.
 */
#ifndef LANED_MASTER_INCIDENT_H
#define LANED_MASTER_INCIDENT_H

#include "lane/lane.h"

/* What was done about it. */
enum incident_step_kind {
	STEP_CALLED,  /* other workers of the lane were called to the queue */
	STEP_EXTRA,   /* an extra worker was started, or called back */
	STEP_STEERED, /* new clients were kept away from the lane */
	STEP_BACK,    /* they were let in again */
	STEP_ABORTED, /* SIGABRT */
	STEP_KILLED,  /* SIGKILL */
	STEP_ENDED,   /* its process ended */
};

enum incident_end {
	INCIDENT_GOES_ON,
	INCIDENT_RECOVERED, /* the worker goes on */
	INCIDENT_REPLACED,  /* another process has the place */
	INCIDENT_LEFT,      /* an extra worker's: the place stays empty */
	INCIDENT_STOPPED,   /* laned stopped before that */
};

#define INCIDENT_HOST UINT32_MAX /* as `worker`: the host stalled, and with it all of them */

/*
 * Takes the next entry of the ring, filled but for what is known of the worker. `since_ns` is
 * clock_now_ns() of when it began. NULL: all of them go on.
 */
struct incident *incident_begin(struct scoreboard *board, uint64_t number, uint64_t since_ns);

/* Adds a step, as long as there is room. */
void incident_add_step(struct incident *incident, enum incident_step_kind kind, uint64_t now_ns);

/* Adds the length of the queue; of many samples evenly distributed ones are kept. */
void incident_add_sample(struct incident *incident, uint32_t depth, uint64_t now_ns);

/* Adds what clients of the lane had to wait in the time of lateness that goes on, if one does. */
void incident_add_waits(struct incident *incident, const struct lane *lane);

/* The connection that the worker has in its hands, from its record. `now_ms`: clock_coarse_ms(). */
void incident_set_connection(struct incident *incident, const struct lane *lane, uint32_t now_ms);

/* It is over. */
void incident_finish(struct incident *incident, enum incident_end end, uint64_t now_ns);

/*
 * The incident as one line of JSON, for worker `name`; the caller's to free. NULL: out of memory.
 * Its members are listed in laned(8).
 */
char *incident_json(const struct incident *incident, const char *name);

#endif
