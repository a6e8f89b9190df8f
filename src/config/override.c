#include "config/override.h"

#include <errno.h>
#include <libconfig.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "config/complaint.h"
#include "config/number.h"
#include "config/tree.h"
#include "config/value.h"

/* Adds a value to the parent as libconfig would have read it from a file. NULL: no memory. */
static config_setting_t *add_value(config_setting_t *parent, const char *name,
				   const struct schema_key *key, const char *text)
{
	struct number number = number_read(text);
	bool is_number = number.length > 0 && text[number.length] == '\0';
	bool is_bool = strcmp(text, "true") == 0 || strcmp(text, "false") == 0;
	config_setting_t *setting;
	int type = CONFIG_TYPE_STRING;
	int good;

	if (!schema_is_quoted(key, text) && is_number)
		type = number.integer && number.value <= INT64_MAX ? CONFIG_TYPE_INT64
								   : CONFIG_TYPE_FLOAT;
	else if (!schema_is_quoted(key, text) && is_bool)
		type = CONFIG_TYPE_BOOL;
	setting = config_setting_add(parent, name, type);
	if (!setting)
		return NULL;
	if (type == CONFIG_TYPE_INT64)
		good = config_setting_set_int64(setting, number.negative ? -(int64_t)number.value
									 : (int64_t)number.value);
	else if (type == CONFIG_TYPE_FLOAT)
		good = config_setting_set_float(setting, strtod(text, NULL));
	else if (type == CONFIG_TYPE_BOOL)
		good = config_setting_set_bool(setting, *text == 't');
	else
		good = config_setting_set_string(setting, text);
	return good ? setting : NULL;
}

/* Likewise for what is several: texts with commas between them, which it cuts. */
static config_setting_t *add_values(config_setting_t *parent, const char *name,
				    const struct schema_key *key, char *text)
{
	config_setting_t *setting = config_setting_add(parent, name, CONFIG_TYPE_ARRAY);
	char *item;

	if (*text == '\0')
		return setting;
	while (setting && (item = strsep(&text, ","))) {
		if (!add_value(setting, NULL, key, item))
			return NULL;
	}
	return setting;
}

static int set(const struct schema_key *key, void *base, char *text, const struct origin *origin,
	       struct report *report)
{
	config_setting_t *setting;
	config_t config;
	int r = -ENOMEM;

	config_init(&config);
	setting = schema_is_several(key)
			  ? add_values(config_root_setting(&config), "value", key, text)
			  : add_value(config_root_setting(&config), "value", key, text);
	if (setting)
		r = tree_set(key, base, setting, origin, report);
	config_destroy(&config);
	return r;
}

/* `text` is cut into its parts. */
static int apply(char *text, const struct origin *origin, struct settings *settings,
		 struct report *report)
{
	char *value = strchr(text, '=');
	const struct schema_key *key;
	const void *base;

	if (!value || value == text) {
		report_add(report, REPORT_ERROR, origin, "write for instance log.level=debug",
			   "\"%s\" is not KEY=VALUE", text);
		return 0;
	}
	*value++ = '\0';
	key = value_find(settings, text, &base);
	if (!key && settings->n_groups == 0 && strncmp(text, "groups.", strlen("groups.")) == 0)
		return 0; /* the files have errors, and may have been meant to have it */
	if (!key) {
		complaint_unknown_path(report, origin, settings, text);
		return 0;
	}
	if (key->type == SCHEMA_LIST) {
		report_add(report, REPORT_ERROR, origin, "write it in a file",
			   "%s cannot be set on the command line: it is a %s", text,
			   schema_type_name(key));
		return 0;
	}
	return set(key, (void *)base, value, origin, report);
}

/* Gives the report the options as lines of a text, to be shown with what is wrong with them. */
static int add_source(const struct config_source *source, struct report *report)
{
	_cleanup_(freep) char *text = NULL;
	size_t length = 0;
	char *end;

	for (size_t i = 0; i < source->n_overrides; i++)
		length += strlen(source->overrides[i]) + 1;
	text = malloc(length + 1);
	if (!text)
		return -ENOMEM;
	end = text;
	for (size_t i = 0; i < source->n_overrides; i++) {
		for (const char *c = source->overrides[i]; *c; c++)
			*end++ = *c == '\n' ? '\r' : *c;
		*end++ = '\n';
	}
	return report_add_source(report, origin_command_line, text, length);
}

int override_apply(const struct config_source *source, struct settings *settings,
		   struct report *report)
{
	int r = source->n_overrides > 0 ? add_source(source, report) : 0;

	for (size_t i = 0; i < source->n_overrides && r == 0; i++) {
		struct origin origin = {.file = origin_command_line, .line = (unsigned)i + 1};
		_cleanup_(freep) char *text = strdup(source->overrides[i]);

		r = text ? apply(text, &origin, settings, report) : -ENOMEM;
	}
	return r;
}
