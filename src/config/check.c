#include "config/check.h"

#include <errno.h>
#include <pwd.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/units.h"

/* Finds the account. Returns 0 and its id, -ENOENT (there is none), or another -errno. */
static int find_account(const char *name, uid_t *ret)
{
	_cleanup_(freep) char *buffer = NULL;
	struct passwd entry, *found;

	for (size_t size = 1024;; size *= 2) {
		char *larger = realloc(buffer, size);
		int r;

		if (!larger)
			return -ENOMEM;
		buffer = larger;
		r = getpwnam_r(name, &entry, buffer, size, &found);
		if (r == ERANGE)
			continue;
		if (r == 0 && found) {
			*ret = found->pw_uid;
			return 0;
		}
		/* "Not found" has several numbers, getpwnam(3). */
		return r == 0 || r == ESRCH || r == EBADF || r == EPERM ? -ENOENT : -r;
	}
}

static int check_user(const struct settings *settings, struct report *report)
{
	const struct origin *origin = &settings->user_origin;
	uid_t uid = 0;
	int r;

	if (!settings->user || *settings->user == '\0')
		return 0;
	r = find_account(settings->user, &uid);
	if (r == -ENOMEM)
		return r;
	if (r == -ENOENT)
		report_add(report, REPORT_ERROR, origin, "`getent passwd` lists the accounts",
			   "there is no account \"%s\"", settings->user);
	else if (r < 0)
		report_add(report, REPORT_ERROR, origin, NULL,
			   "cannot look up the account \"%s\": %s", settings->user, strerror(-r));
	else if (geteuid() != 0 && geteuid() != uid)
		report_add(report, REPORT_WARNING, origin, "start laned as root, or leave user out",
			   "only root can become \"%s\": all processes keep the present account",
			   settings->user);
	return 0;
}

static void check_name(const struct group_settings *groups, size_t i, struct report *report)
{
	char place[REPORT_PLACE_MAX];

	for (size_t other = 0; other < i; other++) {
		const struct origin *first = &groups[other].origins[GROUP_KEY_NAME];

		if (!groups[other].name || strcmp(groups[other].name, groups[i].name) != 0)
			continue;
		report_add(report, REPORT_ERROR, &groups[i].origins[GROUP_KEY_NAME], NULL,
			   "another group is called \"%s\", too: %s", groups[i].name,
			   report_place(first, place));
		return;
	}
}

/* Compares one address with all that stand before it. */
static void check_address(const struct group_settings *groups, size_t i, size_t index,
			  struct report *report)
{
	const struct listen_setting *listen = &groups[i].listen[index];
	char place[REPORT_PLACE_MAX];

	for (size_t g = 0; g <= i; g++) {
		size_t n = g < i ? groups[g].n_listen : index;

		for (size_t l = 0; l < n; l++) {
			const struct listen_setting *first = &groups[g].listen[l];

			if (!address_overlaps(&first->address, &listen->address))
				continue;
			report_add(report, REPORT_ERROR, &listen->origin,
				   "each address can be listened on once; take another port",
				   "\"%s\" takes clients away from \"%s\" of group %s: %s",
				   listen->address.text, first->address.text,
				   groups[g].name ? groups[g].name : "without a name",
				   report_place(&first->origin, place));
			return;
		}
	}
}

static void check_duration(const struct fault_settings *fault, struct report *report)
{
	const struct origin *duration = &fault->origins[FAULT_KEY_DURATION];
	bool lasts = fault->kind == FAULT_SLEEP || fault->kind == FAULT_SPIN;

	if (fault->kind < 0) /* it was refused */
		return;
	if (lasts && !duration->file)
		report_add(report, REPORT_ERROR, &fault->origin,
			   "write for instance duration = \"2s\"",
			   "the fault has no \"duration\": \"sleep\" and \"spin\" need one");
	else if (!lasts && duration->file)
		report_add(report, REPORT_ERROR, duration, "leave it out",
			   "only \"sleep\" and \"spin\" have a duration");
}

static void check_faults(const struct settings *settings, const struct group_settings *group,
			 struct report *report)
{
	if (group->n_faults > 0 && !settings->allow_faults)
		report_add(report, REPORT_ERROR, &group->origins[GROUP_KEY_FAULTS],
			   "at the top level, outside of all braces",
			   "faults are for rehearsals: write allow_faults = true");
	for (size_t i = 0; i < group->n_faults; i++)
		check_duration(&group->faults[i], report);
}

/* One key of `supervision` that is a time. */
struct step {
	const char *name;
	uint64_t after_ns;
	const struct origin *origin;
};

/* Checks that a step is not before another one; points at what is written, rather the later one. */
static void check_step(const struct step *before, const struct step *step, struct report *report)
{
	const struct origin *origin = step->origin->file ? step->origin : before->origin;
	char time[UNITS_TEXT_MAX], before_time[UNITS_TEXT_MAX];
	char place[REPORT_PLACE_MAX], before_place[REPORT_PLACE_MAX];

	if (step->after_ns >= before->after_ns)
		return;
	report_add(report, REPORT_ERROR, origin,
		   "rescue_after, extra_after, steer_after, abort_after: none is shorter than one "
		   "before it,\nnor abort_after than check_interval",
		   "supervision.%s = %s (%s) is shorter than supervision.%s = %s (%s)", step->name,
		   units_format_time(step->after_ns, time), report_place(step->origin, place),
		   before->name, units_format_time(before->after_ns, before_time),
		   report_place(before->origin, before_place));
}

static void check_supervision(const struct settings *settings, struct report *report)
{
	const struct supervision_settings *times = &settings->supervision;
	const struct origin *origins = settings->supervision_origins;
	const struct step steps[] = {
		{"rescue_after", times->rescue_after_ns, &origins[SUPERVISION_KEY_RESCUE_AFTER]},
		{"extra_after", times->extra_after_ns, &origins[SUPERVISION_KEY_EXTRA_AFTER]},
		{"steer_after", times->steer_after_ns, &origins[SUPERVISION_KEY_STEER_AFTER]},
		{"abort_after", times->abort_after_ns, &origins[SUPERVISION_KEY_ABORT_AFTER]},
	};
	const struct step interval = {"check_interval", times->check_interval_ns,
				      &origins[SUPERVISION_KEY_CHECK_INTERVAL]};
	const struct step *before = &steps[0];

	/* A step that is 0 is never taken. */
	for (size_t i = 1; i < sizeof(steps) / sizeof(steps[0]); i++) {
		if (steps[i].after_ns == 0)
			continue;
		check_step(before, &steps[i], report);
		before = &steps[i];
	}
	if (times->abort_after_ns > 0)
		check_step(&interval, &steps[3], report);
}

int check_settings(const struct settings *settings, struct report *report)
{
	const struct group_settings *groups = settings->groups;

	for (size_t i = 0; i < settings->n_groups; i++) {
		if (groups[i].name)
			check_name(groups, i, report);
		for (size_t index = 0; index < groups[i].n_listen; index++)
			check_address(groups, i, index, report);
		check_faults(settings, &groups[i], report);
	}
	check_supervision(settings, report);
	return check_user(settings, report);
}
