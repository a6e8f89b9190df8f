/*
 * What differs between two settings, key by key: for a reload, which says what it changes, and
 * leaves alone what is the same.
 *
 * Values are compared, not where they were written. Groups are matched by name, in any order.
 */
#ifndef LANED_CONFIG_DIFF_H
#define LANED_CONFIG_DIFF_H

#include <stdbool.h>
#include <stddef.h>

#include "config/settings.h"

struct diff_entry {
	char *path;     /* "log.level", "groups.echo.backlog"; "groups.echo": a whole group */
	char *old_text; /* as in a file, on one line; NULL: the group was not there */
	char *new_text; /* likewise; NULL: the group is gone */
	bool restart;   /* takes effect only when laned is started anew */
};

/* In the order of the schema and of the new groups; those that are gone stand last. */
struct diff {
	struct diff_entry *entries;
	size_t n;
};

/* Compares two settings that are complete. Returns 0 or -ENOMEM; diff_fini() in any case. */
int diff_make(const struct settings *old, const struct settings *new, struct diff *ret);

void diff_fini(struct diff *diff);

/* Whether two groups have the same values. Without memory they count as different. */
bool diff_groups_equal(const struct group_settings *a, const struct group_settings *b);

/*
 * Gives `next` the values that `running` has of all keys that take a restart, and where they were
 * written. Returns 0 or -ENOMEM.
 */
int settings_keep(struct settings *next, const struct settings *running);

#endif
