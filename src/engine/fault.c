#include "engine/fault.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"

static bool is_for(const struct fault_settings *fault, const struct fault_place *place)
{
	return numbers_have(&fault->lanes, place->lane) &&
	       numbers_have(&fault->workers, place->worker) &&
	       (fault->roles == 0 || (fault->roles & place->role));
}

/* SplitMix64 (Steele, Lea and Flood, 2014): any seed is a good one. */
static uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* A start of its own for every worker and process: with one for all they would strike in step. */
static uint64_t random_begin(unsigned seed, const struct fault_place *place)
{
	uint64_t state = seed;

	state = random_next(&state) ^ place->lane;
	state = random_next(&state) ^ place->worker;
	state = random_next(&state) ^ place->generation;
	return state;
}

int fault_plan_make(struct fault_plan *plan, const struct group_settings *group,
		    const struct fault_place *place)
{
	*plan = (struct fault_plan){0};
	if (group->n_faults == 0)
		return 0;
	plan->faults = calloc(group->n_faults, sizeof(*plan->faults));
	if (!plan->faults)
		return -ENOMEM;
	for (size_t i = 0; i < group->n_faults; i++) {
		const struct fault_settings *settings = &group->faults[i];

		if (is_for(settings, place))
			plan->faults[plan->n++] = (struct fault){
				.settings = settings,
				.random = random_begin(settings->seed, place),
			};
	}
	return 0;
}

static bool strikes_now(struct fault *fault)
{
	/* 53 bits: as many as a double holds exactly. */
	double chance = (double)(random_next(&fault->random) >> 11) / (double)(UINT64_C(1) << 53);

	return chance < fault->settings->probability;
}

static void fault_sleep(uint64_t duration_ns)
{
	struct timespec left = {
		.tv_sec = (time_t)(duration_ns / NS_PER_S),
		.tv_nsec = (long)(duration_ns % NS_PER_S),
	};

	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
}

static void fault_spin(uint64_t duration_ns)
{
	uint64_t end_ns = clock_now_ns() + duration_ns;

	while (clock_now_ns() < end_ns)
		;
}

static void fault_do(const struct fault_settings *fault)
{
	switch ((enum fault_kind)fault->kind) {
	case FAULT_SLEEP:
		fault_sleep(fault->duration_ns);
		break;
	case FAULT_SPIN:
		fault_spin(fault->duration_ns);
		break;
	case FAULT_STOP:
		(void)raise(SIGSTOP);
		break;
	case FAULT_CRASH:
		abort();
	case FAULT_EXIT:
		_exit(EX_SOFTWARE);
	}
}

void fault_strike(struct fault_plan *plan, enum fault_on on)
{
	for (size_t i = 0; i < plan->n; i++) {
		struct fault *fault = &plan->faults[i];

		if (fault->settings->on == (int)on && strikes_now(fault))
			fault_do(fault->settings);
	}
}
