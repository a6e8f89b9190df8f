/*
 * An incident: one episode of a worker that did not go on, from the first sign to recovery.
 *
 * Plain numbers and texts of fixed size, as it lies in the scoreboard's ring. The master fills it;
 * what the numbers mean is said in master/incident.h.
 */
#ifndef LANED_LANE_INCIDENT_H
#define LANED_LANE_INCIDENT_H

#include <stdint.h>

#define INCIDENT_STEPS   16
#define INCIDENT_SAMPLES 16

struct incident_step {
	uint32_t kind;  /* enum incident_step_kind */
	uint32_t at_ms; /* since the incident's begin */
};

/* The length of the lane's queue at a moment. */
struct incident_sample {
	uint32_t at_ms;
	uint32_t depth;
};

/* The connection that the worker had in its hands. */
struct incident_connection {
	uint32_t fd; /* 0: none */
	uint32_t messages;
	uint64_t bytes_in;
	uint64_t bytes_out;
	uint32_t quiet_ms; /* since a byte of it had last moved */
};

struct incident {
	uint64_t number; /* counts from 1 in the life of the master; 0: none yet */
	uint32_t worker; /* in the lane */
	uint32_t role;   /* enum worker_role */
	uint32_t generation;
	int32_t pid;
	uint32_t state;         /* enum worker_state: the last one that was not "working" */
	uint32_t end;           /* enum incident_end */
	uint64_t since_ns;      /* clock_now_ns(): when the worker last made progress */
	uint64_t since_wall_ns; /* the same by the wall clock, since 1970 */
	uint64_t duration_ns;   /* until recovery; 0: it goes on */

	char wchan[64];       /* kernel function that it slept in; "": unknown */
	char call[24];        /* system call that it was in; "": unknown */
	uint64_t cpu_ns;      /* used from the first look at it to the last */
	uint64_t cpu_wait_ns; /* for which it was ready to run and was not let, likewise */
	struct incident_connection connection;

	uint32_t clients;  /* that had to wait, in the lane's queue */
	uint32_t worst_ms; /* how long one of them waited at most */

	uint32_t n_steps;
	struct incident_step steps[INCIDENT_STEPS];
	uint32_t n_samples;
	uint32_t sample_every_ms;
	struct incident_sample samples[INCIDENT_SAMPLES];
};

#endif
