#include "master/health.h"

#include "base/units.h"

/* More than the two clocks, read one after the other, ever differ by. */
#define SUSPENDED_LIMIT_NS (100 * NS_PER_MS)

/* Whether it is known to have used at least 1/parts of a CPU since the last look. */
static bool used_share(const struct evidence *evidence, unsigned parts)
{
	return evidence->look_ns > 0 && evidence->cpu_ns != UINT64_MAX &&
	       evidence->cpu_ns >= evidence->look_ns / parts;
}

/* Whether it is known to have used less than that. */
static bool used_little(const struct evidence *evidence, unsigned parts)
{
	return evidence->look_ns > 0 && evidence->cpu_ns != UINT64_MAX &&
	       evidence->cpu_ns < evidence->look_ns / parts;
}

enum worker_state health_judge(const struct evidence *evidence, uint64_t suspect_after_ns,
			       bool host_stalled)
{
	if (evidence->still_ns < suspect_after_ns)
		return STATE_WORKING;
	if (host_stalled)
		return STATE_SUSPENDED;
	/* A task that cgroup v2 froze sleeps, for all that /proc says. */
	if (evidence->process == 'T' || evidence->process == 't' || evidence->frozen)
		return STATE_STOPPED;

	switch (evidence->process) {
	case 'R':
		if (used_share(evidence, 4))
			return STATE_LOOPING;
		return used_little(evidence, 4) ? STATE_STARVED : STATE_UNKNOWN;
	case 'S':
	case 'D':
	case 'I':
		if (evidence->throttled && used_little(evidence, 4))
			return STATE_STARVED;
		/* Seen asleep by chance, between two stretches of work that leads to nothing. */
		return used_share(evidence, 2) ? STATE_LOOPING : STATE_BLOCKED;
	default:
		/* Ended already, in a state that only a newer kernel has, or not to be read. */
		return STATE_UNKNOWN;
	}
}

const char *worker_state_name(enum worker_state state)
{
	switch (state) {
	case STATE_WORKING:
		return "working";
	case STATE_LOOPING:
		return "looping";
	case STATE_BLOCKED:
		return "blocked";
	case STATE_STOPPED:
		return "stopped";
	case STATE_STARVED:
		return "starved";
	case STATE_UNKNOWN:
		break;
	case STATE_SUSPENDED:
		return "suspended";
	}
	return "unknown";
}

bool health_may_end(enum worker_state state)
{
	return state == STATE_LOOPING || state == STATE_BLOCKED || state == STATE_STOPPED;
}

bool health_doubts(const struct host_evidence *host)
{
	return host->late_ns >= host->late_limit_ns || host->suspended_ns >= SUSPENDED_LIMIT_NS ||
	       (host->suspects >= 2 && host->suspects > host->workers / 2);
}
