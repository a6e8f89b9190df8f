#include "config/diff.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "config/config.h"
#include "config/value.h"

/* The value as in a file, or without a key the group that `base` is. The caller's; NULL: no memory. */
static char *text_of(const struct schema_key *key, const void *base)
{
	char *text = NULL;
	size_t length;
	FILE *stream = open_memstream(&text, &length);
	bool failed;

	if (!stream)
		return NULL;
	if (key)
		config_dump_value(key, base, stream);
	else
		config_dump_group(base, stream);
	failed = ferror(stream) != 0;
	if (fclose(stream) != 0 || failed) {
		free(text);
		return NULL;
	}
	return text;
}

/* Adds an entry, with copies of both texts. */
static int add_entry(struct diff *diff, const char *group, const struct schema_key *key,
		     const char *old_text, const char *new_text)
{
	struct diff_entry *entries = reallocarray(diff->entries, diff->n + 1, sizeof(*entries));
	struct diff_entry *entry;

	if (!entries)
		return -ENOMEM;
	diff->entries = entries;
	entry = &entries[diff->n++];
	*entry = (struct diff_entry){.restart = key && key->reload == SCHEMA_RESTART};
	if (asprintf(&entry->path, "%s%s%s%s", group ? "groups." : "", group ? group : "",
		     group && key ? "." : "", key ? key->path : "") < 0) {
		entry->path = NULL;
		return -ENOMEM;
	}
	entry->old_text = old_text ? strdup(old_text) : NULL;
	entry->new_text = new_text ? strdup(new_text) : NULL;
	return (old_text && !entry->old_text) || (new_text && !entry->new_text) ? -ENOMEM : 0;
}

/* Compares all keys of a scope but the list of groups. `group`: its name; NULL: the top level. */
static int compare(struct diff *diff, const char *group, const void *old, const void *new)
{
	enum schema_scope scope = group ? SCHEMA_GROUP : SCHEMA_TOP;
	const struct schema_key *key = NULL;

	while ((key = schema_next(scope, key))) {
		_cleanup_(freep) char *old_text = NULL;
		_cleanup_(freep) char *new_text = NULL;
		int r;

		if (scope == SCHEMA_TOP && key->type == SCHEMA_LIST)
			continue;
		old_text = text_of(key, old);
		new_text = text_of(key, new);
		if (!old_text || !new_text)
			return -ENOMEM;
		if (strcmp(old_text, new_text) == 0)
			continue;
		r = add_entry(diff, group, key, old_text, new_text);
		if (r < 0)
			return r;
	}
	return 0;
}

/* A group that is in one of the two settings alone. */
static int add_group(struct diff *diff, const struct group_settings *group, bool is_new)
{
	_cleanup_(freep) char *text = text_of(NULL, group);

	if (!text)
		return -ENOMEM;
	return add_entry(diff, group->name, NULL, is_new ? NULL : text, is_new ? text : NULL);
}

int diff_make(const struct settings *old, const struct settings *new, struct diff *ret)
{
	int r;

	*ret = (struct diff){.n = 0};
	r = compare(ret, NULL, old, new);
	for (size_t i = 0; i < new->n_groups &&r == 0; i++) {
		const struct group_settings *group = &new->groups[i];
		const struct group_settings *before = settings_find_group(old, group->name);

		r = before ? compare(ret, group->name, before, group) : add_group(ret, group, true);
	}
	for (size_t i = 0; i < old->n_groups && r == 0; i++) {
		if (!settings_find_group(new, old->groups[i].name))
			r = add_group(ret, &old->groups[i], false);
	}
	return r;
}

void diff_fini(struct diff *diff)
{
	for (size_t i = 0; i < diff->n; i++) {
		free(diff->entries[i].path);
		free(diff->entries[i].old_text);
		free(diff->entries[i].new_text);
	}
	free(diff->entries);
	*diff = (struct diff){.n = 0};
}

bool diff_groups_equal(const struct group_settings *a, const struct group_settings *b)
{
	_cleanup_(freep) char *a_text = text_of(NULL, a);
	_cleanup_(freep) char *b_text = text_of(NULL, b);

	return a_text && b_text && strcmp(a_text, b_text) == 0;
}

int settings_keep(struct settings *next, const struct settings *running)
{
	const struct schema_key *key = NULL;

	while ((key = schema_next(SCHEMA_TOP, key))) {
		char buffer[UNITS_TEXT_MAX];
		struct origin origin;
		int r;

		if (key->reload != SCHEMA_RESTART)
			continue;
		/* No such key is several, so each is one text. */
		r = value_set_text(key, next, value_text(key, running, buffer));
		if (r < 0)
			return r;
		memcpy(&origin, (const char *)running + key->origin_offset, sizeof(origin));
		origin.overridden_file = NULL;
		if (origin.file && origin.file != origin_command_line) {
			origin.file = settings_add_file(next, origin.file);
			if (!origin.file)
				return -ENOMEM;
		}
		*value_origin(key, next) = origin;
	}
	return 0;
}
