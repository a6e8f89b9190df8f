/*
 * A value of the settings, reached through its row of the schema: set it from text or a number,
 * turn it into text.
 */
#ifndef LANED_CONFIG_VALUE_H
#define LANED_CONFIG_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"
#include "config/schema.h"
#include "config/settings.h"

/*
 * Sets a value from its text (as in the file, without quotes), from a whole number or from a
 * fraction, or adds that to a value that is several. `base` is the structure of the key's scope.
 * Not for SCHEMA_LIST. Returns 0, -EINVAL (not a value of that type), -ERANGE (not one that is
 * allowed), -EEXIST (it has been added before), -ENOMEM.
 */
int value_set_text(const struct schema_key *key, void *base, const char *text);
int value_set_number(const struct schema_key *key, void *base, uint64_t number);
int value_set_fraction(const struct schema_key *key, void *base, double fraction);

/*
 * Adds an entry, with its defaults, to a SCHEMA_LIST. Earlier ones may move. Returns 0 or -ENOMEM.
 */
int value_add_entry(const struct schema_key *key, void *base, const struct origin *origin,
		    void **ret);

/* The i-th entry of a SCHEMA_LIST, or item of another array; NULL: there are not so many. */
const void *value_item(const struct schema_key *key, const void *base, size_t i);

/* Whether SCHEMA_FLAGS have that one. */
bool value_has_flag(const struct schema_key *key, const void *base, int flag);

/*
 * Sets all keys of a scope that have a default to it, or for value_set_builtin() those of the
 * built-in group, listen too, in a structure that is all zero. Returns 0 or -ENOMEM.
 */
int value_set_defaults(enum schema_scope scope, void *base);
int value_set_builtin(struct group_settings *group);

/* Whether a group has the values of the built-in one. */
bool value_is_builtin(const struct group_settings *group);

/*
 * The value as text, without quotes: in `text`, or what lives as long as the settings. NULL for
 * what is not one text: values that are several, unless they are none or one address.
 */
const char *value_text(const struct schema_key *key, const void *base,
		       char text[static UNITS_TEXT_MAX]);

/* Whether the value is what this text would set; `text` in the form of value_text(). */
bool value_is(const struct schema_key *key, const void *base, const char *text);

/* Removes all items of a SCHEMA_LISTEN or SCHEMA_NUMBERS. */
void value_clear(const struct schema_key *key, void *base);

/*
 * Finds the value that "log.level" or "groups.echo.backlog" names. Returns its key, or NULL, and the
 * structure that it is in.
 */
const struct schema_key *value_find(const struct settings *settings, const char *path,
				    const void **ret_base);

/* Where the value was written. */
struct origin *value_origin(const struct schema_key *key, void *base);

#endif
