#include "base/clock.h"

#include <time.h>

#include "base/units.h"

static uint64_t clock_read_ns(clockid_t clock)
{
	struct timespec now;

	/* Cannot fail: all of these clocks exist since Linux 2.6.39, and the pointer is good. */
	(void)clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t clock_now_ns(void)
{
	return clock_read_ns(CLOCK_MONOTONIC);
}

uint64_t clock_coarse_ns(void)
{
	return clock_read_ns(CLOCK_MONOTONIC_COARSE);
}

uint32_t clock_coarse_ms(void)
{
	return (uint32_t)(clock_coarse_ns() / NS_PER_MS);
}

uint64_t clock_wall_ns(void)
{
	return clock_read_ns(CLOCK_REALTIME);
}

uint64_t clock_suspended_ns(void)
{
	uint64_t before_ns, boot_ns, after_ns;
	int tries = 10;

	/* Whoever is held up between two of these would take that for a suspend. */
	do {
		before_ns = clock_now_ns();
		boot_ns = clock_read_ns(CLOCK_BOOTTIME);
		after_ns = clock_now_ns();
	} while (after_ns - before_ns > NS_PER_MS && --tries > 0);

	/* Less only in a time namespace that was given a boot of its own. */
	return boot_ns > before_ns ? boot_ns - before_ns : 0;
}
