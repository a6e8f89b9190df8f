#include "config/check.h"

#include <errno.h>
#include <pwd.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

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
	for (size_t other = 0; other < i; other++) {
		const struct origin *first = &groups[other].origins[GROUP_KEY_NAME];

		if (!groups[other].name || strcmp(groups[other].name, groups[i].name) != 0)
			continue;
		report_add(report, REPORT_ERROR, &groups[i].origins[GROUP_KEY_NAME], NULL,
			   "another group is called \"%s\", too: %s:%u", groups[i].name,
			   first->file, first->line);
		return;
	}
}

/* Compares one address with all that stand before it. */
static void check_address(const struct group_settings *groups, size_t i, size_t index,
			  struct report *report)
{
	const struct listen_setting *listen = &groups[i].listen[index];

	for (size_t g = 0; g <= i; g++) {
		size_t n = g < i ? groups[g].n_listen : index;

		for (size_t l = 0; l < n; l++) {
			const struct listen_setting *first = &groups[g].listen[l];

			if (!address_overlaps(&first->address, &listen->address))
				continue;
			report_add(report, REPORT_ERROR, &listen->origin,
				   "each address can be listened on once; take another port",
				   "\"%s\" takes clients away from \"%s\" of group %s: %s:%u",
				   listen->address.text, first->address.text,
				   groups[g].name ? groups[g].name : "without a name",
				   first->origin.file, first->origin.line);
			return;
		}
	}
}

int check_settings(const struct settings *settings, struct report *report)
{
	const struct group_settings *groups = settings->groups;

	for (size_t i = 0; i < settings->n_groups; i++) {
		if (groups[i].name)
			check_name(groups, i, report);
		for (size_t index = 0; index < groups[i].n_listen; index++)
			check_address(groups, i, index, report);
	}
	return check_user(settings, report);
}
