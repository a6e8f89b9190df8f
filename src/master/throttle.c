#include "master/throttle.h"

#include "base/units.h"

#define START_GAP_NS     (100 * NS_PER_MS) /* at least, between two starts of one place */
#define BACKOFF_FIRST_NS (100 * NS_PER_MS)
#define BACKOFF_LAST_NS  (10 * NS_PER_S)
#define LEVEL_LAST       8U              /* the first at which BACKOFF_LAST_NS is reached */
#define FORGIVEN_NS      (10 * NS_PER_S) /* a process that lived so long was well */
#define DEGRADED_NS      NS_PER_S        /* at least */

_Static_assert(BACKOFF_FIRST_NS << (LEVEL_LAST - 1) >= BACKOFF_LAST_NS,
	       "the last level is too low");

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/*
 * Slower than the pace that the limit itself allows the back-off need not become: whoever allows
 * many restarts wants them.
 */
static uint64_t backoff_last_ns(const struct throttle_limits *limits)
{
	uint64_t pace_ns = limits->interval_ns / larger(limits->limit, 1);

	return pace_ns < BACKOFF_LAST_NS ? larger(pace_ns, BACKOFF_FIRST_NS) : BACKOFF_LAST_NS;
}

static uint64_t backoff_ns(unsigned level, const struct throttle_limits *limits, uint32_t random)
{
	uint64_t last_ns = backoff_last_ns(limits);

	if (level == 0)
		return 0;

	uint64_t ns = BACKOFF_FIRST_NS << (level - 1);

	if (ns > last_ns)
		ns = last_ns;
	/* 3/4 to 5/4 of it. 16 bits of chance are plenty, and nothing overflows. */
	return ns - ns / 4 + ns / 2 * (random >> 16) / UINT16_MAX;
}

struct throttle_verdict throttle_next(struct throttle *throttle,
				      const struct throttle_limits *limits, uint64_t now_ns,
				      uint64_t lived_ns, uint32_t random)
{
	uint64_t gap_ns = lived_ns < START_GAP_NS ? START_GAP_NS - lived_ns : 0;

	if (lived_ns >= FORGIVEN_NS)
		throttle->level = 0;

	uint64_t delay_ns = larger(backoff_ns(throttle->level, limits, random), gap_ns);
	uint64_t start_ns = now_ns + delay_ns;

	if (throttle->level < LEVEL_LAST)
		throttle->level++;
	if (throttle->starts == 0 || start_ns - throttle->window_ns >= limits->interval_ns) {
		throttle->window_ns = start_ns;
		throttle->starts = 0;
	}
	if (++throttle->starts <= limits->limit)
		return (struct throttle_verdict){.delay_ns = delay_ns};

	/* Never 0 or less: start_ns, which is later than now_ns, is still in the window. */
	uint64_t left_ns = throttle->window_ns + limits->interval_ns - now_ns;

	delay_ns = larger(left_ns, DEGRADED_NS);
	throttle->window_ns = now_ns + delay_ns;
	throttle->starts = 1;
	return (struct throttle_verdict){.delay_ns = delay_ns, .degraded = true};
}
