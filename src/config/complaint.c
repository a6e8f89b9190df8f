#include "config/complaint.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/number.h"
#include "config/suggest.h"

#define HINT_MAX 256

static const char *type_name(const config_setting_t *setting)
{
	switch (config_setting_type(setting)) {
	case CONFIG_TYPE_GROUP:
		return "group";
	case CONFIG_TYPE_INT:
	case CONFIG_TYPE_INT64:
		return "integer";
	case CONFIG_TYPE_FLOAT:
		return "float";
	case CONFIG_TYPE_STRING:
		return "string";
	case CONFIG_TYPE_BOOL:
		return "bool";
	case CONFIG_TYPE_ARRAY:
		return "array";
	case CONFIG_TYPE_LIST:
		return "list";
	default:
		return "nothing";
	}
}

/* A number as it may have been written. */
static const char *number_text(const config_setting_t *setting, char text[static NUMBER_TEXT_MAX])
{
	if (config_setting_type(setting) == CONFIG_TYPE_FLOAT)
		return number_format(config_setting_get_float(setting), text);
	snprintf(text, NUMBER_TEXT_MAX, "%lld", config_setting_get_int64(setting));
	return text;
}

/* How a value of the key looks, for someone who has written another type. */
static void write_example(const struct schema_key *key, const config_setting_t *setting,
			  bool in_file, char hint[static HINT_MAX])
{
	bool quoted = config_setting_type(setting) == CONFIG_TYPE_STRING && in_file;
	char range[SCHEMA_RANGE_MAX];

	switch (key->type) {
	case SCHEMA_TIME:
		if (config_setting_get_int64(setting) > 0)
			snprintf(hint, HINT_MAX, "write \"%llds\"",
				 config_setting_get_int64(setting));
		else
			snprintf(hint, HINT_MAX, "write a time such as \"5s\"");
		break;
	case SCHEMA_SIZE:
		snprintf(hint, HINT_MAX, "write a size such as \"%s\"", key->default_text);
		break;
	case SCHEMA_STRING:
	case SCHEMA_NAME:
		snprintf(hint, HINT_MAX, "write text in quotes");
		break;
	case SCHEMA_LISTEN:
		snprintf(hint, HINT_MAX,
			 "write \"127.0.0.1:7\" or [ \"127.0.0.1:7\", \"[::1]:7\" ]");
		break;
	case SCHEMA_NUMBERS:
		snprintf(hint, HINT_MAX, "write [ 0 ] or [ 0, 1 ]");
		break;
	case SCHEMA_FLAGS:
		snprintf(hint, HINT_MAX, "write [ \"%s\" ]", key->choices->text);
		break;
	case SCHEMA_LIST:
		snprintf(hint, HINT_MAX, "write ( { %s; } )",
			 key->entry == SCHEMA_GROUP ? "name = \"echo\"; listen = \"127.0.0.1:7\""
						    : "kind = \"sleep\"; duration = \"2s\"");
		break;
	default:
		snprintf(hint, HINT_MAX, "write %s%s", schema_format_range(key, range),
			 quoted ? ", without quotes" : "");
		break;
	}
}

void complaint_type(struct report *report, const struct origin *origin,
		    const struct schema_key *key, const config_setting_t *setting)
{
	char hint[HINT_MAX];

	write_example(key, setting, origin->file != origin_command_line, hint);
	report_add(report, REPORT_ERROR, origin, hint, "%s: expected %s, got %s", key->path,
		   schema_type_name(key), type_name(setting));
}

void complaint_no_group(struct report *report, const struct origin *origin, const char *path,
			const config_setting_t *setting)
{
	report_add(report, REPORT_ERROR, origin, "write its keys between { and }",
		   "%s: expected group, got %s", path, type_name(setting));
}

/* It has the right type, and is not one that is allowed. */
static void bad_range(struct report *report, const struct origin *origin,
		      const struct schema_key *key, const config_setting_t *setting)
{
	const char *text = config_setting_get_string(setting);
	struct suggest suggest = {.word = text ? text : ""};
	char range[SCHEMA_RANGE_MAX], number[NUMBER_TEXT_MAX], hint[HINT_MAX];

	schema_format_range(key, range);
	if (!text) {
		report_add(report, REPORT_ERROR, origin, NULL, "%s must be %s, not %s", key->path,
			   range, number_text(setting, number));
		return;
	}
	for (const struct schema_choice *choice = key->choices; choice && choice->text; choice++)
		suggest_offer(&suggest, choice->text, strlen(choice->text));
	if (suggest.best)
		snprintf(hint, sizeof(hint), "did you mean \"%s\"?", suggest.best);
	report_add(report, REPORT_ERROR, origin, suggest.best ? hint : NULL,
		   "%s must be %s, not \"%s\"", key->path, range, text);
}

static void bad_address(struct report *report, const struct origin *origin, const char *text)
{
	const char *problem = NULL;
	struct address address;

	(void)address_parse(text, &address, &problem);
	report_add(report, REPORT_ERROR, origin, problem, "cannot listen on \"%s\"", text);
}

/* The string is not a time or a size at all. */
static void bad_text(struct report *report, const struct origin *origin,
		     const struct schema_key *key, const char *text)
{
	size_t digits = strspn(text, "0123456789");
	char hint[HINT_MAX];

	if (key->type == SCHEMA_SIZE)
		snprintf(hint, sizeof(hint),
			 "write a number and B, KiB, MiB, GiB, TiB, kB, MB, GB "
			 "or TB, such as \"64MiB\"");
	else if (digits > 0 && digits < 20 && text[digits] == '\0')
		snprintf(hint, sizeof(hint), "write \"%ss\"", text);
	else
		snprintf(hint, sizeof(hint),
			 "write a number and ns, us, ms, s, min, h or d, such as \"1.5s\"");
	report_add(report, REPORT_ERROR, origin, hint, "%s: \"%s\" is not a %s", key->path, text,
		   schema_type_name(key));
}

void complaint_value(struct report *report, const struct origin *origin,
		     const struct schema_key *key, const config_setting_t *setting, int error)
{
	const char *text = config_setting_get_string(setting);
	char number[NUMBER_TEXT_MAX];

	if (error == -ERANGE)
		bad_range(report, origin, key, setting);
	else if (error == -EEXIST)
		report_add(report, REPORT_ERROR, origin, NULL, "%s: %s%s%s stands there twice",
			   key->path, text ? "\"" : "", text ? text : number_text(setting, number),
			   text ? "\"" : "");
	else if (!text || !schema_is_quoted(key, text))
		complaint_type(report, origin, key, setting);
	else if (key->type == SCHEMA_LISTEN)
		bad_address(report, origin, text);
	else
		bad_text(report, origin, key, text);
}

void complaint_empty(struct report *report, const struct origin *origin,
		     const struct schema_key *key)
{
	if (key->type == SCHEMA_LISTEN)
		report_add(report, REPORT_ERROR, origin, "write listen = \"127.0.0.1:7\"",
			   "a group needs an address to listen on");
	else
		report_add(report, REPORT_ERROR, origin,
			   "leave it out for the built-in group on 127.0.0.1:7007",
			   "%s must have at least one %s", key->path,
			   schema_entries[key->entry].noun);
}

void complaint_missing(struct report *report, const struct origin *origin,
		       const struct schema_key *key)
{
	char hint[HINT_MAX];

	snprintf(hint, sizeof(hint), "write for instance %s = \"%s\"", key->path,
		 key->builtin_text ? key->builtin_text : key->choices->text);
	report_add(report, REPORT_ERROR, origin, hint, "the %s has no \"%s\"",
		   schema_entries[key->scope].noun, key->path);
}

/*
 * Offers the names that may stand at a level, "" or "log.": keys, and the groups of keys that have
 * a dot in their paths.
 */
static void offer_level(struct suggest *suggest, enum schema_scope scope, const char *prefix)
{
	const struct schema_key *key = NULL;

	while ((key = schema_next(scope, key))) {
		const char *name;

		if (strncmp(key->path, prefix, strlen(prefix)) != 0)
			continue;
		name = key->path + strlen(prefix);
		suggest_offer(suggest, name, strcspn(name, "."));
	}
}

/* A hint for a name that resembles nothing at its own level, but something at another. */
static void hint_elsewhere(const char *name, char hint[static HINT_MAX])
{
	struct suggest suggest = {.word = name};
	const struct schema_key *best = NULL;

	for (size_t i = 0; i < schema_n_keys; i++) {
		const char *path = schema_keys[i].path;
		const char *before = suggest.best;
		const char *dot = strchr(path, '.');

		suggest_offer(&suggest, path, strcspn(path, "."));
		if (dot)
			suggest_offer(&suggest, dot + 1, strlen(dot + 1));
		if (suggest.best != before)
			best = &schema_keys[i];
	}
	if (!best)
		return;

	const char *noun = schema_entries[best->scope].noun;
	int length = (int)suggest.best_length;
	int container = (int)(suggest.best - best->path);

	if (container > 0)
		snprintf(hint, HINT_MAX, "\"%.*s\" belongs in \"%.*s\"%s%s", length, suggest.best,
			 container - 1, best->path, noun ? " of a " : "", noun ? noun : "");
	else if (noun)
		snprintf(hint, HINT_MAX, "\"%.*s\" belongs in a %s of \"%ss\"", length,
			 suggest.best, noun, noun);
	else
		snprintf(hint, HINT_MAX, "\"%.*s\" belongs at the top level, outside of all braces",
			 length, suggest.best);
}

void complaint_unknown(struct report *report, const struct origin *origin, enum schema_scope scope,
		       const char *prefix, const char *name)
{
	const char *noun = schema_entries[scope].noun;
	struct suggest suggest = {.word = name};
	char hint[HINT_MAX] = "";

	offer_level(&suggest, scope, prefix);
	if (suggest.best)
		snprintf(hint, sizeof(hint), "did you mean \"%.*s\"?", (int)suggest.best_length,
			 suggest.best);
	else
		hint_elsewhere(name, hint);
	report_add(report, REPORT_ERROR, origin, *hint ? hint : NULL, "unknown key \"%s%s\"%s%s",
		   prefix, name, noun ? " in a " : "", noun ? noun : "");
}

struct closest {
	const char *path; /* as it was asked for */
	char text[HINT_MAX];
	unsigned distance;
};

/* Offers a path for what was asked for; a longer one that begins with that is as good as any. */
static void offer_path(struct closest *closest, const char *asked_as, const char *text)
{
	size_t length = strlen(closest->path);
	unsigned distance = suggest_distance(closest->path, length, asked_as, strlen(asked_as));

	if (strncmp(asked_as, closest->path, length) == 0 && asked_as[length] == '.')
		distance = 0;
	if (distance >= closest->distance)
		return;
	closest->distance = distance;
	snprintf(closest->text, sizeof(closest->text), "%s", text);
}

/* What stands behind the name of a group, whatever it is called. NULL: nothing does. */
static const char *path_in_group(const char *path)
{
	const char *dot = strncmp(path, "groups.", strlen("groups.")) == 0
				  ? strchr(path + strlen("groups."), '.')
				  : NULL;

	return dot ? dot + 1 : NULL;
}

void complaint_unknown_path(struct report *report, const struct origin *origin,
			    const struct settings *settings, const char *path)
{
	struct closest closest = {.path = path, .distance = 3};
	const char *in_group = path_in_group(path);
	const struct schema_key *key = NULL;
	char full[HINT_MAX], hint[HINT_MAX + 32];

	while ((key = schema_next(SCHEMA_TOP, key)))
		offer_path(&closest, key->path, key->path);
	for (size_t i = 0; i < settings->n_groups; i++) {
		if (!settings->groups[i].name)
			continue;
		while ((key = schema_next(SCHEMA_GROUP, key))) {
			snprintf(full, sizeof(full), "groups.%s.%s", settings->groups[i].name,
				 key->path);
			offer_path(&closest, full, full);
			offer_path(&closest, key->path, full);
		}
	}
	/* The key is right, and the group is called otherwise altogether: the first one, then. */
	if (!*closest.text && in_group && schema_find(SCHEMA_GROUP, in_group) &&
	    settings->n_groups > 0 && settings->groups[0].name)
		snprintf(closest.text, sizeof(closest.text), "groups.%s.%s",
			 settings->groups[0].name, in_group);
	snprintf(hint, sizeof(hint), "did you mean \"%s\"?", closest.text);
	report_add(report, REPORT_ERROR, origin, *closest.text ? hint : NULL, "no key \"%s\"",
		   path);
}
