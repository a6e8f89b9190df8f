#include "base/clock.h"

#include <time.h>

#include "base/units.h"

static uint64_t clock_read_ns(clockid_t clock)
{
	struct timespec now;

	/* Cannot fail: both clocks exist since Linux 2.6.32, and the pointer is good. */
	(void)clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t clock_now_ns(void)
{
	return clock_read_ns(CLOCK_MONOTONIC);
}

uint32_t clock_coarse_ms(void)
{
	return (uint32_t)(clock_read_ns(CLOCK_MONOTONIC_COARSE) / NS_PER_MS);
}
