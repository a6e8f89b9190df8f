#include "base/cpu.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define CGROUP_ROOT "/sys/fs/cgroup"

static void fclosep(FILE **file)
{
	if (*file)
		(void)fclose(*file);
}

unsigned cpu_quota_parse(const char *text)
{
	unsigned long long quota_us, period_us;

	if (sscanf(text, "%llu %llu", &quota_us, &period_us) != 2 || quota_us == 0 ||
	    period_us == 0)
		return 0;

	unsigned long long cpus = (quota_us + period_us - 1) / period_us;

	return cpus > 1U << 16 ? 0 : (unsigned)cpus;
}

/* The quota of one cgroup v2 folder, 0: none. */
static unsigned cpu_quota_at(const char *folder)
{
	char path[4096 + 64], text[64];

	(void)snprintf(path, sizeof(path), CGROUP_ROOT "%s/cpu.max", folder);

	_cleanup_(fclosep) FILE *file = fopen(path, "re");

	return file && fgets(text, sizeof(text), file) ? cpu_quota_parse(text) : 0;
}

/*
 * The tightest quota of the own cgroup and those above it (a child cannot use more than they do).
 */
static unsigned cpu_quota(void)
{
	_cleanup_(fclosep) FILE *file = fopen("/proc/self/cgroup", "re");
	char line[4096];
	unsigned tightest = 0;

	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, "0::", 3) != 0)
			continue;
		line[strcspn(line, "\n")] = '\0';

		char *folder = line + 3;

		for (;;) {
			unsigned quota = cpu_quota_at(strcmp(folder, "/") == 0 ? "" : folder);

			if (quota > 0 && (tightest == 0 || quota < tightest))
				tightest = quota;

			char *slash = strrchr(folder, '/');

			if (!slash || folder[0] == '\0')
				break;
			*slash = '\0';
		}
	}
	return tightest;
}

/* CPUs in the affinity mask, however wide the kernel's masks are; 0 if it cannot be told. */
static unsigned cpu_affinity(void)
{
	for (int width = 1024; width <= 1 << 20; width *= 2) {
		cpu_set_t *set = CPU_ALLOC((size_t)width);
		size_t size = CPU_ALLOC_SIZE((size_t)width);

		if (!set)
			return 0;

		int r = sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : -errno;

		CPU_FREE(set);
		if (r != -EINVAL) /* the mask is wider than that (sched_setaffinity(2)) */
			return r > 0 ? (unsigned)r : 0;
	}
	return 0;
}

unsigned cpu_usable(void)
{
	unsigned cpus = cpu_affinity(), quota = cpu_quota();

	if (quota > 0 && (cpus == 0 || quota < cpus))
		cpus = quota;
	return cpus > 0 ? cpus : 1;
}
