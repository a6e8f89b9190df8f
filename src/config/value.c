#include "config/value.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *field(const struct schema_key *key, void *base)
{
	return (char *)base + key->offset;
}

static const void *const_field(const struct schema_key *key, const void *base)
{
	return (const char *)base + key->offset;
}

struct origin *value_origin(const struct schema_key *key, void *base)
{
	return (struct origin *)((char *)base + key->origin_offset);
}

static int set_string(char **string, const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		return -ENOMEM;
	free(*string);
	*string = copy;
	return 0;
}

static int check_name(const char *text)
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				      "0123456789_-";
	size_t length = strlen(text);

	if (length == 0 || length > GROUP_NAME_MAX || strspn(text, allowed) != length)
		return -ERANGE;
	return 0;
}

static const struct schema_choice *find_choice(const struct schema_key *key, const char *text)
{
	const struct schema_choice *choice = key->choices;

	while (choice->text && strcmp(choice->text, text) != 0)
		choice++;
	return choice->text ? choice : NULL;
}

static const char *choice_text(const struct schema_key *key, int value)
{
	const struct schema_choice *choice = key->choices;

	while (choice->text && choice->value != value)
		choice++;
	return choice->text;
}

static int set_listen(struct group_settings *group, const char *text)
{
	struct listen_setting *listen = calloc(1, sizeof(*listen));
	const char *problem;

	if (!listen)
		return -ENOMEM;
	if (address_parse(text, &listen->address, &problem) < 0) {
		free(listen);
		return -EINVAL;
	}
	free(group->listen);
	group->listen = listen;
	group->n_listen = 1;
	return 0;
}

/* A number as people write it: digits alone. */
static int parse_number(const char *text, uint64_t *ret)
{
	size_t digits = strspn(text, "0123456789");

	if (digits == 0 || text[digits] != '\0')
		return -EINVAL;
	errno = 0;
	*ret = strtoull(text, NULL, 10);
	return -errno;
}

int value_set_number(const struct schema_key *key, void *base, uint64_t number)
{
	if ((number < key->min || number > key->max) && !(number == 0 && key->zero))
		return -ERANGE;

	switch (key->type) {
	case SCHEMA_INTEGER:
	case SCHEMA_COUNT:
		*(unsigned *)field(key, base) = (unsigned)number;
		return 0;
	case SCHEMA_TIME:
	case SCHEMA_SIZE:
		*(uint64_t *)field(key, base) = number;
		return 0;
	default:
		return -EINVAL;
	}
}

int value_set_text(const struct schema_key *key, void *base, const char *text)
{
	const struct schema_choice *choice;
	uint64_t number;
	int r;

	switch (key->type) {
	case SCHEMA_STRING:
		return set_string(field(key, base), text);
	case SCHEMA_NAME:
		r = check_name(text);
		return r < 0 ? r : set_string(field(key, base), text);
	case SCHEMA_CHOICE:
		return find_choice(key, text) ? set_string(field(key, base), text) : -ERANGE;
	case SCHEMA_LEVEL:
		choice = find_choice(key, text);
		if (!choice)
			return -ERANGE;
		*(int *)field(key, base) = choice->value;
		return 0;
	case SCHEMA_BOOL:
		if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
			return -EINVAL;
		*(bool *)field(key, base) = strcmp(text, "true") == 0;
		return 0;
	case SCHEMA_COUNT:
		if (strcmp(text, "auto") == 0) {
			*(unsigned *)field(key, base) = 0;
			return 0;
		}
		r = parse_number(text, &number);
		break;
	case SCHEMA_INTEGER:
		r = parse_number(text, &number);
		break;
	case SCHEMA_TIME:
		r = units_parse_time(text, &number);
		break;
	case SCHEMA_SIZE:
		r = units_parse_size(text, &number);
		break;
	case SCHEMA_LISTEN:
		return set_listen(base, text);
	default:
		return -EINVAL;
	}
	return r < 0 ? r : value_set_number(key, base, number);
}

const char *value_text(const struct schema_key *key, const void *base,
		       char text[static UNITS_TEXT_MAX])
{
	const struct group_settings *group = base;
	const void *value = const_field(key, base);

	switch (key->type) {
	case SCHEMA_STRING:
	case SCHEMA_NAME:
	case SCHEMA_CHOICE:
		return *(char *const *)value;
	case SCHEMA_LEVEL:
		return choice_text(key, *(const int *)value);
	case SCHEMA_BOOL:
		return *(const bool *)value ? "true" : "false";
	case SCHEMA_COUNT:
	case SCHEMA_INTEGER:
		if (key->type == SCHEMA_COUNT && *(const unsigned *)value == 0)
			return "auto";
		snprintf(text, UNITS_TEXT_MAX, "%u", *(const unsigned *)value);
		return text;
	case SCHEMA_TIME:
		return units_format_time(*(const uint64_t *)value, text);
	case SCHEMA_SIZE:
		return units_format_size(*(const uint64_t *)value, text);
	case SCHEMA_LISTEN:
		return group->n_listen == 1 ? group->listen[0].address.text : NULL;
	case SCHEMA_GROUPS:
		return NULL;
	}
	return NULL;
}

bool value_is(const struct schema_key *key, const void *base, const char *text)
{
	char buffer[UNITS_TEXT_MAX];
	const char *value = value_text(key, base, buffer);

	return value && strcmp(value, text) == 0;
}

int value_set_defaults(enum schema_scope scope, void *base)
{
	const struct schema_key *key = NULL;

	while ((key = schema_next(scope, key))) {
		int r = key->default_text ? value_set_text(key, base, key->default_text) : 0;

		if (r < 0)
			return r;
	}
	return 0;
}

static const char *builtin_text(const struct schema_key *key)
{
	return key->builtin_text ? key->builtin_text : key->default_text;
}

int value_set_builtin(struct group_settings *group)
{
	const struct schema_key *key = NULL;

	while ((key = schema_next(SCHEMA_GROUP, key))) {
		int r = value_set_text(key, group, builtin_text(key));

		if (r < 0)
			return r;
	}
	return 0;
}

bool value_is_builtin(const struct group_settings *group)
{
	const struct schema_key *key = NULL;

	while ((key = schema_next(SCHEMA_GROUP, key))) {
		if (!value_is(key, group, builtin_text(key)))
			return false;
	}
	return true;
}
