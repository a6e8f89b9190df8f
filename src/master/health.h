/*
 * Health: what is concluded from the evidence on a worker. Pure functions of numbers that others
 * have gathered and upon which others act.
 */
#ifndef LANED_MASTER_HEALTH_H
#define LANED_MASTER_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

/* All that is known of a worker at one moment. */
struct evidence {
	/*
	 * For how long it has made no progress although it was busy, or has not answered an order
	 * although it was idle.
	 */
	uint64_t still_ns;
	uint64_t look_ns; /* wall time since the last look at its CPU time; 0: this is the first */
	uint64_t cpu_ns;  /* CPU time that it used in that time; UINT64_MAX: unknown */
	char process;     /* its state in /proc/PID/stat; '?': unknown */
	bool frozen;      /* its cgroup is */
	bool throttled;   /* its cgroup was out of CPU quota for a good part of that time */
};

enum worker_state {
	STATE_WORKING,
	STATE_LOOPING,   /* uses the CPU and gets nowhere */
	STATE_BLOCKED,   /* sleeps in the kernel, or waits for a disk */
	STATE_STOPPED,   /* somebody stopped or froze it */
	STATE_STARVED,   /* wants to run and is not let */
	STATE_UNKNOWN,   /* no progress, and the kernel does not say why */
	STATE_SUSPENDED, /* the host was, or stalled: no judgement */
};

/*
 * Judges a worker: anything but STATE_WORKING only after it has been still for `suspect_after_ns`,
 * and nothing at all while the host itself stalls (health_doubts()).
 *
 * What could not be read counts neither for nor against it. A worker that sleeps while its cgroup
 * is throttled counts as starved: what it waits for may be in the hands of one that is not let run.
 */
enum worker_state health_judge(const struct evidence *evidence, uint64_t suspect_after_ns,
			       bool host_stalled);

/* "working", "looping", ... */
const char *worker_state_name(enum worker_state state);

/*
 * Whether a process in that state may be ended: it would not come back by itself, or only by
 * chance. One that is starved, suspended or unknown may be well, and a new one would fare no
 * better.
 */
bool health_may_end(enum worker_state state);

/* What the master knows of the host and of itself. */
struct host_evidence {
	uint64_t late_ns;       /* how much later than asked the master's own timer came */
	uint64_t suspended_ns;  /* growth of clock_suspended_ns() since the last look */
	unsigned workers;       /* of all groups */
	unsigned suspects;      /* those whose state a stalled host could explain: blocked, starved,
				   unknown */
	uint64_t late_limit_ns; /* from which on late is too late */
};

/*
 * Whether the supervisor had better doubt itself: it ran late, the host was suspended, or more than
 * half of all workers (and at least two) fell still at once, which is rarely the fault of each of
 * them.
 */
bool health_doubts(const struct host_evidence *host);

#endif
