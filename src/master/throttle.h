/*
 * Throttle: when the place of a worker whose process has ended is filled again. Pure: the caller
 * brings the time and the chance, and starts the process.
 *
 * The first restart is immediate, for most processes end once, by accident. The next ones wait 100
 * ms, 200 ms and so on up to 10 s, until a process has lived for 10 s. Never do two starts of a
 * place lie less than 100 ms apart.
 *
 * Delays vary by chance, up to a quarter more or less. Workers that end of one common cause end at
 * one moment; if all waited equally long they would also start at one moment, time and again: each
 * time a jump in load, on a host that may be ill from load, and a moment without any worker.
 */
#ifndef LANED_MASTER_THROTTLE_H
#define LANED_MASTER_THROTTLE_H

#include <stdbool.h>
#include <stdint.h>

/* What is remembered of a place. All 0: nothing has ended there yet. */
struct throttle {
	uint64_t window_ns; /* when the first of these restarts was due; if starts is 0: nothing */
	unsigned starts;    /* restarts that are counted */
	unsigned level;     /* of the back-off; 0: the next restart is immediate */
};

/*
 * At most `limit` restarts within `interval_ns`: a window that begins with the first restart after
 * the last window.
 */
struct throttle_limits {
	unsigned limit;
	uint64_t interval_ns;
};

struct throttle_verdict {
	uint64_t delay_ns; /* from now to the restart; 0: at once */
	bool degraded;     /* beyond the limit: the place stays empty until the window is over */
};

/*
 * A process has ended at `now_ns` (clock_now_ns()) after it had lived for `lived_ns`; one that
 * could not even be started lived for 0. `random` is any number, each equally likely. Counts the
 * restart, to which the caller is bound, and says when it is due.
 *
 * Beyond the limit the delay is what is left of the window, at least 1 s; with that restart the
 * next window begins. The back-off goes on from where it was.
 */
struct throttle_verdict throttle_next(struct throttle *throttle,
				      const struct throttle_limits *limits, uint64_t now_ns,
				      uint64_t lived_ns, uint32_t random);

#endif
