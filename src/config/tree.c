#include "config/tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/complaint.h"
#include "config/value.h"

#define PATH_SIZE 96 /* of a key's path, a dot and a NUL; no key is longer */

/* One tree on its way into settings. */
struct load {
	const struct scan *scan;
	struct origin origin; /* of all of it, without a scan */
	struct report *report;
};

/*
 * Where a setting was written. libconfig has a string's line only when it has seen the token behind
 * it, which may be lines later; the scan has it right.
 */
static struct origin origin_of(const struct load *load, const config_setting_t *setting)
{
	const unsigned *line = config_setting_get_hook(setting);

	if (!load->scan)
		return load->origin;
	return scan_origin(load->scan, line && !config_setting_name(setting)
					       ? *line
					       : config_setting_source_line(setting));
}

/* Gives every string of the tree, in the order of the text, its line. */
static void hook_lines(config_setting_t *setting, const struct scan *scan, size_t *n_strings)
{
	if (config_setting_type(setting) == CONFIG_TYPE_STRING && *n_strings < scan->n_strings)
		config_setting_set_hook(setting, &scan->strings[(*n_strings)++]);
	if (!config_setting_is_aggregate(setting))
		return;
	for (int i = 0; i < config_setting_length(setting); i++)
		hook_lines(config_setting_get_elem(setting, (unsigned)i), scan, n_strings);
}

static bool is_integer(const config_setting_t *setting)
{
	return config_setting_type(setting) == CONFIG_TYPE_INT ||
	       config_setting_type(setting) == CONFIG_TYPE_INT64;
}

/* What stands where the scan has refused something: it has been reported. */
static bool is_refused(const config_setting_t *setting)
{
	return is_integer(setting) && config_setting_get_int64(setting) == SCAN_REFUSED;
}

static int set_number(const struct schema_key *key, void *base, long long number)
{
	/* A time needs a unit, unless it is none at all. */
	if (key->type == SCHEMA_TIME && number != 0)
		return -EINVAL;
	return value_set_number(key, base, number < 0 ? UINT64_MAX : (uint64_t)number);
}

static int set_text(const struct schema_key *key, void *base, const char *text)
{
	return schema_is_quoted(key, text) ? value_set_text(key, base, text) : -EINVAL;
}

static int set_bool(const struct schema_key *key, void *base, int value)
{
	return key->type == SCHEMA_BOOL ? value_set_text(key, base, value ? "true" : "false")
					: -EINVAL;
}

/* A value that is one, or one of several. */
static int load_one(struct load *load, const struct schema_key *key, void *base,
		    const config_setting_t *setting)
{
	struct group_settings *group = base; /* with SCHEMA_LISTEN */
	struct origin origin = origin_of(load, setting);
	int r = -EINVAL;

	if (is_refused(setting))
		return 0;
	switch (config_setting_type(setting)) {
	case CONFIG_TYPE_INT:
	case CONFIG_TYPE_INT64:
		r = set_number(key, base, config_setting_get_int64(setting));
		break;
	case CONFIG_TYPE_FLOAT:
		r = value_set_fraction(key, base, config_setting_get_float(setting));
		break;
	case CONFIG_TYPE_STRING:
		r = set_text(key, base, config_setting_get_string(setting));
		break;
	case CONFIG_TYPE_BOOL:
		r = set_bool(key, base, config_setting_get_bool(setting));
		break;
	default:
		break;
	}
	if (r == 0 && key->type == SCHEMA_LISTEN)
		group->listen[group->n_listen - 1].origin = origin;
	if (r < 0 && r != -ENOMEM)
		complaint_value(load->report, &origin, key, setting, r);
	return r == -ENOMEM ? r : 0;
}

static int load_level(struct load *load, enum schema_scope scope, void *base, const char *prefix,
		      const config_setting_t *level);

/* An entry of a list. */
static int load_entry(struct load *load, const struct schema_key *list, void *base,
		      const config_setting_t *setting)
{
	const struct schema_key *key = NULL;
	struct origin origin = origin_of(load, setting);
	void *entry;
	int r;

	if (!config_setting_is_group(setting))
		return load_one(load, list, base, setting);
	r = value_add_entry(list, base, &origin, &entry);
	if (r < 0)
		return r;
	r = load_level(load, list->entry, entry, "", setting);
	if (r < 0)
		return r;
	while ((key = schema_next(list->entry, key))) {
		if (!key->default_text && !key->optional && !value_origin(key, entry)->file)
			complaint_missing(load->report, &origin, key);
	}
	return 0;
}

/* The values between brackets. */
static int load_items(struct load *load, const struct schema_key *key, void *base,
		      const config_setting_t *items)
{
	int n = config_setting_length(items);

	if (n == 0 && !key->default_text)
		complaint_empty(load->report, value_origin(key, base), key);
	for (int i = 0; i < n; i++) {
		const config_setting_t *item = config_setting_get_elem(items, (unsigned)i);
		int r = key->type == SCHEMA_LIST ? load_entry(load, key, base, item)
						 : load_one(load, key, base, item);

		if (r < 0)
			return r;
	}
	return 0;
}

/* A file has no key twice: what was written before was written in an earlier file. */
static void set_origin(const struct load *load, const struct schema_key *key, void *base,
		       const config_setting_t *setting)
{
	struct origin *origin = value_origin(key, base);
	struct origin before = *origin;

	*origin = origin_of(load, setting);
	if (key->type == SCHEMA_LIST) /* it goes on */
		return;
	origin->overridden_file = before.file;
	origin->overridden_line = before.line;
}

static int load_key(struct load *load, const struct schema_key *key, void *base,
		    const config_setting_t *setting)
{
	bool list = config_setting_is_list(setting);
	bool array = config_setting_is_array(setting) && key->type != SCHEMA_LIST;

	set_origin(load, key, base, setting);
	if (!schema_is_several(key))
		return load_one(load, key, base, setting);
	if (list || array)
		return load_items(load, key, base, setting);
	if (key->type == SCHEMA_LISTEN)
		return load_one(load, key, base, setting);
	if (!is_refused(setting))
		complaint_type(load->report, value_origin(key, base), key, setting);
	return 0;
}

/* A name at a level: a key, a group of keys, or neither. */
static int load_name(struct load *load, enum schema_scope scope, void *base, const char *prefix,
		     const config_setting_t *setting)
{
	const char *name = config_setting_name(setting);
	struct origin origin = origin_of(load, setting);
	const struct schema_key *key;
	char path[PATH_SIZE];
	int length = snprintf(path, sizeof(path), "%s%s", prefix, name);

	key = length < PATH_SIZE - 1 ? schema_find(scope, path) : NULL;
	if (key)
		return load_key(load, key, base, setting);

	snprintf(path, sizeof(path), "%s%s.", prefix, name);
	if (length >= PATH_SIZE - 1 || !schema_find_below(scope, path))
		complaint_unknown(load->report, &origin, scope, prefix, name);
	else if (config_setting_is_group(setting))
		return load_level(load, scope, base, path, setting);
	else if (!is_refused(setting))
		complaint_no_group(load->report, &origin, name, setting);
	return 0;
}

/* What stands between two braces, or in the file itself. `prefix`: "", "log." */
static int load_level(struct load *load, enum schema_scope scope, void *base, const char *prefix,
		      const config_setting_t *level)
{
	for (int i = 0; i < config_setting_length(level); i++) {
		int r = load_name(load, scope, base, prefix,
				  config_setting_get_elem(level, (unsigned)i));

		if (r < 0)
			return r;
	}
	return 0;
}

int tree_load(config_setting_t *root, const struct scan *scan, struct settings *settings,
	      struct report *report)
{
	struct load load = {.scan = scan, .report = report};
	size_t n_strings = 0;

	hook_lines(root, scan, &n_strings);
	return load_level(&load, SCHEMA_TOP, settings, "", root);
}

int tree_set(const struct schema_key *key, void *base, const config_setting_t *setting,
	     const struct origin *origin, struct report *report)
{
	struct load load = {.origin = *origin, .report = report};

	if (schema_is_several(key))
		value_clear(key, base);
	return load_key(&load, key, base, setting);
}
