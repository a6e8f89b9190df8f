/*
 * How many CPUs this process may use: what `workers = "auto"` means.
 */
#ifndef LANED_BASE_CPU_H
#define LANED_BASE_CPU_H

/*
 * The CPUs of the affinity mask, or what the cgroup's CPU quota comes to (rounded up) if that is
 * less. At least 1. What cannot be read does not count.
 */
unsigned cpu_usable(void);

/*
 * CPUs that the quota in `text` comes to, rounded up: cgroup v2's cpu.max ("200000 100000"), 0 when
 * it sets none ("max 100000") or cannot be understood.
 */
unsigned cpu_quota_parse(const char *text);

#endif
