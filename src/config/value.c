#include "config/value.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/number.h"

static void *field(const struct schema_key *key, void *base)
{
	return (char *)base + key->offset;
}

static const void *const_field(const struct schema_key *key, const void *base)
{
	return (const char *)base + key->offset;
}

const struct schema_key *value_find(const struct settings *settings, const char *path,
				    const void **ret_base)
{
	const struct schema_key *key = schema_find(SCHEMA_TOP, path);
	const char *name = path + strlen("groups.");
	const char *dot;

	*ret_base = settings;
	if (key)
		return key;
	if (strncmp(path, "groups.", strlen("groups.")) != 0)
		return NULL;
	dot = strchr(name, '.');
	if (!dot)
		return NULL;
	for (size_t i = 0; i < settings->n_groups; i++) {
		const struct group_settings *group = &settings->groups[i];
		size_t length = (size_t)(dot - name);

		*ret_base = group;
		if (group->name && strlen(group->name) == length &&
		    memcmp(group->name, name, length) == 0)
			return schema_find(SCHEMA_GROUP, dot + 1);
	}
	return NULL;
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

/* What the settings have of an array, schema.c sees to that. */
struct array {
	void *items;
	size_t n;
};

static struct array read_array(const struct schema_key *key, const void *base)
{
	struct array array;

	memcpy(&array, const_field(key, base), sizeof(array));
	return array;
}

static size_t item_size(const struct schema_key *key)
{
	if (key->type == SCHEMA_LIST)
		return schema_entries[key->entry].size;
	return key->type == SCHEMA_LISTEN ? sizeof(struct listen_setting) : sizeof(unsigned);
}

const void *value_item(const struct schema_key *key, const void *base, size_t i)
{
	struct array array = read_array(key, base);

	return i < array.n ? (const char *)array.items + i * item_size(key) : NULL;
}

/* Adds an item, all zero. NULL: no memory. */
static void *add_item(const struct schema_key *key, void *base)
{
	struct array array = read_array(key, base);
	size_t size = item_size(key);
	char *items = realloc(array.items, (array.n + 1) * size);

	if (!items)
		return NULL;
	array = (struct array){.items = items, .n = array.n + 1};
	memcpy(field(key, base), &array, sizeof(array));
	return memset(items + (array.n - 1) * size, 0, size);
}

int value_add_entry(const struct schema_key *key, void *base, const struct origin *origin,
		    void **ret)
{
	char *entry = add_item(key, base);

	if (!entry)
		return -ENOMEM;
	memcpy(entry + schema_entries[key->entry].origin_offset, origin, sizeof(*origin));
	*ret = entry;
	return value_set_defaults(key->entry, entry);
}

void value_clear(const struct schema_key *key, void *base)
{
	struct array array = read_array(key, base);

	free(array.items);
	memset(field(key, base), 0, sizeof(array));
}

static int add_address(const struct schema_key *key, void *base, const char *text)
{
	struct address address;
	struct listen_setting *listen;
	const char *problem;

	if (address_parse(text, &address, &problem) < 0)
		return -EINVAL;
	listen = add_item(key, base);
	if (!listen)
		return -ENOMEM;
	listen->address = address;
	return 0;
}

static int add_number(const struct schema_key *key, void *base, unsigned number)
{
	const unsigned *item;
	unsigned *added;

	for (size_t i = 0; (item = value_item(key, base, i)); i++) {
		if (*item == number)
			return -EEXIST;
	}
	added = add_item(key, base);
	if (!added)
		return -ENOMEM;
	*added = number;
	return 0;
}

/* A number as the table has it: digits alone. */
static int parse_number(const char *text, uint64_t *ret)
{
	struct number number = number_read(text);

	if (!number.integer || text[number.length] != '\0')
		return -EINVAL;
	*ret = number.value;
	return 0;
}

int value_set_number(const struct schema_key *key, void *base, uint64_t number)
{
	if (key->max == 0)
		return -EINVAL;
	if ((number < key->min || number > key->max) && !(number == 0 && key->zero))
		return -ERANGE;

	switch (key->type) {
	case SCHEMA_INTEGER:
	case SCHEMA_COUNT:
		*(unsigned *)field(key, base) = (unsigned)number;
		return 0;
	case SCHEMA_NUMBERS:
		return add_number(key, base, (unsigned)number);
	case SCHEMA_PROBABILITY:
		*(double *)field(key, base) = (double)number;
		return 0;
	default:
		*(uint64_t *)field(key, base) = number;
		return 0;
	}
}

int value_set_fraction(const struct schema_key *key, void *base, double fraction)
{
	if (key->type != SCHEMA_PROBABILITY)
		return -EINVAL;
	if (!(fraction >= (double)key->min && fraction <= (double)key->max))
		return -ERANGE;
	*(double *)field(key, base) = fraction;
	return 0;
}

bool value_has_flag(const struct schema_key *key, const void *base, int flag)
{
	return *(const unsigned *)const_field(key, base) & (unsigned)flag;
}

static int set_choice(const struct schema_key *key, void *base, const char *text)
{
	const struct schema_choice *choice = find_choice(key, text);

	if (!choice)
		return -ERANGE;
	if (key->type == SCHEMA_CHOICE)
		return set_string(field(key, base), text);
	if (key->type == SCHEMA_LEVEL) {
		*(int *)field(key, base) = choice->value;
		return 0;
	}
	if (value_has_flag(key, base, choice->value))
		return -EEXIST;
	*(unsigned *)field(key, base) |= (unsigned)choice->value;
	return 0;
}

int value_set_text(const struct schema_key *key, void *base, const char *text)
{
	uint64_t number;
	int r;

	switch (key->type) {
	case SCHEMA_STRING:
		return set_string(field(key, base), text);
	case SCHEMA_NAME:
		r = check_name(text);
		return r < 0 ? r : set_string(field(key, base), text);
	case SCHEMA_CHOICE:
	case SCHEMA_LEVEL:
	case SCHEMA_FLAGS:
		return set_choice(key, base, text);
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
	case SCHEMA_PROBABILITY:
		return value_set_fraction(key, base, strtod(text, NULL));
	case SCHEMA_LISTEN:
		return add_address(key, base, text);
	default:
		return -EINVAL;
	}
	return r < 0 ? r : value_set_number(key, base, number);
}

const char *value_text(const struct schema_key *key, const void *base,
		       char text[static UNITS_TEXT_MAX])
{
	const void *value = const_field(key, base);
	const struct listen_setting *listen;

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
	case SCHEMA_PROBABILITY:
		return number_format(*(const double *)value, text);
	case SCHEMA_FLAGS:
		return *(const unsigned *)value == 0 ? key->default_text : NULL;
	case SCHEMA_NUMBERS:
	case SCHEMA_LIST:
		return value_item(key, base, 0) ? NULL : key->default_text;
	case SCHEMA_LISTEN:
		listen = value_item(key, base, 0);
		return listen && !value_item(key, base, 1) ? listen->address.text : NULL;
	}
	return NULL;
}

bool value_is(const struct schema_key *key, const void *base, const char *text)
{
	char buffer[UNITS_TEXT_MAX];
	const char *value = value_text(key, base, buffer);

	return value && strcmp(value, text) == 0;
}

/* Sets a value in memory that is all zero. `text` NULL: there is no default. */
static int set_initial(const struct schema_key *key, void *base, const char *text)
{
	if (!text && key->type == SCHEMA_LEVEL)
		*(int *)field(key, base) = -1;
	/* The default of what may be several is none, which zero is. */
	if (!text || (schema_is_several(key) && text == key->default_text))
		return 0;
	return value_set_text(key, base, text);
}

int value_set_defaults(enum schema_scope scope, void *base)
{
	const struct schema_key *key = NULL;

	while ((key = schema_next(scope, key))) {
		int r = set_initial(key, base, key->default_text);

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
		int r = set_initial(key, group, builtin_text(key));

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
