#include "config/tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/complaint.h"
#include "config/schema.h"
#include "config/value.h"

#define PATH_SIZE 96 /* of a key's path, a dot and a NUL; no key is longer */

/* One tree on its way into settings. */
struct load {
	const struct scan *scan;
	struct settings *settings;
	struct report *report;
};

/*
 * Where a setting was written. libconfig has a string's line only when it has seen the token behind
 * it, which may be lines later; the scan has it right.
 */
static struct origin origin_of(const struct load *load, const config_setting_t *setting)
{
	const unsigned *line = config_setting_get_hook(setting);

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

static void wrong_type(struct load *load, const struct schema_key *key,
		       const config_setting_t *setting)
{
	struct origin origin = origin_of(load, setting);

	if (!is_refused(setting))
		complaint_type(load->report, &origin, key, setting);
}

static void load_number(struct load *load, const struct schema_key *key, void *base,
			const config_setting_t *setting)
{
	long long number = config_setting_get_int64(setting);
	bool counts = key->type == SCHEMA_INTEGER || key->type == SCHEMA_COUNT ||
		      key->type == SCHEMA_SIZE;

	/* A time needs a unit, unless it is none at all. */
	if (is_refused(setting) || (!counts && (key->type != SCHEMA_TIME || number != 0))) {
		wrong_type(load, key, setting);
		return;
	}
	if (number < 0 || value_set_number(key, base, (uint64_t)number) < 0) {
		struct origin origin = origin_of(load, setting);

		complaint_range(load->report, &origin, key, setting);
	}
}

static int load_text(struct load *load, const struct schema_key *key, void *base,
		     const config_setting_t *setting)
{
	const char *text = config_setting_get_string(setting);
	struct origin origin = origin_of(load, setting);
	int r;

	if (!schema_is_quoted(key, text)) {
		wrong_type(load, key, setting);
		return 0;
	}
	r = value_set_text(key, base, text);
	if (r == -EINVAL)
		complaint_text(load->report, &origin, key, text);
	else if (r == -ERANGE)
		complaint_range(load->report, &origin, key, setting);
	return r == -ENOMEM ? r : 0;
}

static void load_address(struct load *load, const struct schema_key *key,
			 struct group_settings *group, const config_setting_t *setting)
{
	struct listen_setting *listen = &group->listen[group->n_listen];
	const char *problem;

	if (config_setting_type(setting) != CONFIG_TYPE_STRING) {
		wrong_type(load, key, setting);
		return;
	}
	listen->origin = origin_of(load, setting);
	if (address_parse(config_setting_get_string(setting), &listen->address, &problem) < 0)
		report_add(load->report, REPORT_ERROR, &listen->origin, problem,
			   "cannot listen on \"%s\"", config_setting_get_string(setting));
	else
		group->n_listen++;
}

static int load_listen(struct load *load, const struct schema_key *key,
		       struct group_settings *group, const config_setting_t *setting)
{
	bool several = config_setting_is_array(setting) || config_setting_is_list(setting);
	int n = several ? config_setting_length(setting) : 1;

	if (n == 0) {
		struct origin origin = origin_of(load, setting);

		report_add(load->report, REPORT_ERROR, &origin, "write listen = \"127.0.0.1:7\"",
			   "a group needs an address to listen on");
		return 0;
	}
	group->listen = calloc((size_t)n, sizeof(*group->listen));
	if (!group->listen)
		return -ENOMEM;
	if (!several)
		load_address(load, key, group, setting);
	for (int i = 0; several && i < n; i++)
		load_address(load, key, group, config_setting_get_elem(setting, (unsigned)i));
	return 0;
}

static int load_level(struct load *load, enum schema_scope scope, void *base, const char *prefix,
		      const config_setting_t *level);

/* An entry of `groups`. */
static int load_group(struct load *load, struct group_settings *group,
		      const config_setting_t *setting)
{
	const struct schema_key *key = NULL;
	int r;

	group->origin = origin_of(load, setting);
	r = value_set_defaults(SCHEMA_GROUP, group);
	if (r < 0)
		return r;
	r = load_level(load, SCHEMA_GROUP, group, "", setting);
	if (r < 0)
		return r;
	while ((key = schema_next(SCHEMA_GROUP, key))) {
		if (!key->default_text && !value_origin(key, group)->file)
			complaint_missing(load->report, &group->origin, key);
	}
	return 0;
}

static int load_groups(struct load *load, const struct schema_key *key,
		       const config_setting_t *list)
{
	struct settings *settings = load->settings;
	int n;

	if (!config_setting_is_list(list)) {
		wrong_type(load, key, list);
		return 0;
	}
	n = config_setting_length(list);
	if (n == 0) {
		report_add(load->report, REPORT_ERROR, &settings->groups_origin,
			   "leave it out for the built-in group on 127.0.0.1:7007",
			   "groups must have at least one group");
		return 0;
	}
	settings->groups = calloc((size_t)n, sizeof(*settings->groups));
	if (!settings->groups)
		return -ENOMEM;
	for (int i = 0; i < n; i++) {
		const config_setting_t *group = config_setting_get_elem(list, (unsigned)i);
		int r;

		if (!config_setting_is_group(group)) {
			wrong_type(load, key, group);
			continue;
		}
		r = load_group(load, &settings->groups[settings->n_groups++], group);
		if (r < 0)
			return r;
	}
	return 0;
}

static int load_key(struct load *load, const struct schema_key *key, void *base,
		    const config_setting_t *setting)
{
	*value_origin(key, base) = origin_of(load, setting);

	if (key->type == SCHEMA_GROUPS)
		return load_groups(load, key, setting);
	if (key->type == SCHEMA_LISTEN)
		return load_listen(load, key, base, setting);

	switch (config_setting_type(setting)) {
	case CONFIG_TYPE_INT:
	case CONFIG_TYPE_INT64:
		load_number(load, key, base, setting);
		return 0;
	case CONFIG_TYPE_STRING:
		return load_text(load, key, base, setting);
	case CONFIG_TYPE_BOOL:
		if (key->type == SCHEMA_BOOL)
			return value_set_text(key, base,
					      config_setting_get_bool(setting) ? "true" : "false");
		break;
	default:
		break;
	}
	wrong_type(load, key, setting);
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
	struct load load = {.scan = scan, .settings = settings, .report = report};
	size_t n_strings = 0;

	hook_lines(root, scan, &n_strings);
	return load_level(&load, SCHEMA_TOP, settings, "", root);
}
