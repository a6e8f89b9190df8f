/*
 * What the clients of a burst come to, as numbers. No system call is made here.
 */
#ifndef LANED_BENCH_FIGURES_H
#define LANED_BENCH_FIGURES_H

#include <stddef.h>
#include <stdint.h>

#include "bench/burst.h"

#define FIGURES_BEYOND_MIN 10 /* a percentile is one if so many lie beyond it */

/* Clients that one worker served; NULL is those that were not told who. */
struct figures_served {
	const char *name;
	unsigned count;
};

/* Clients that failed in the same way. */
struct figures_failure {
	enum burst_reason reason;
	int error;
	unsigned count;
	unsigned first; /* client of them */
};

struct figures {
	uint64_t *latency_ns; /* of those that were answered, sorted */
	unsigned n_answered;
	unsigned n_over_50ms;
	unsigned n_over_1s;
	uint64_t total_ns;             /* from the first connect() to the last answer or failure */
	struct figures_served *served; /* in the order of the workers, NULL last */
	unsigned n_served;
	struct figures_failure *failures; /* in the order of enum burst_reason, then errno */
	unsigned n_failures;
	unsigned n_failed; /* clients; who was answered may have failed after it */
};

/* Returns 0 or -ENOMEM. Names stay the burst's, which must outlive it; figures_fini() is due. */
int figures_make(const struct burst *burst, struct figures *ret);

void figures_fini(struct figures *figures);

/*
 * The latency that `percent` of the answered clients did not exceed (nearest rank), in nanoseconds;
 * 0 if fewer than FIGURES_BEYOND_MIN clients lie beyond it: what so few say is chance.
 */
uint64_t figures_percentile(const struct figures *figures, unsigned percent);

#endif
