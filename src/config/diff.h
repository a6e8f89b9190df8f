#ifndef LANED_CONFIG_DIFF_H
#define LANED_CONFIG_DIFF_H

#include <stdbool.h>
#include <stddef.h>
#include "config/settings.h"

struct diff_entry {
	char *path;
	char *old_text;
	char *new_text;
	bool restart;
};
struct diff {
	struct diff_entry *entries;
	size_t n;
};
int diff_make(const struct settings *old, const struct settings *new, struct diff *ret);
void diff_fini(struct diff *diff);
bool diff_groups_equal(const struct group_settings *a, const struct group_settings *b);
int settings_keep(struct settings *next, const struct settings *running);
struct settings *settings_ref(struct settings *settings);
#endif
