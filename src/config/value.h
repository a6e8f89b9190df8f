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
 * Sets a value from its text (as in the file, without quotes) or from a number. `base` is the
 * structure of the key's scope. SCHEMA_LISTEN takes one address; not for SCHEMA_GROUPS. Returns 0,
 * -EINVAL (not a value of that type), -ERANGE (not one that is allowed), -ENOMEM.
 */
int value_set_text(const struct schema_key *key, void *base, const char *text);
int value_set_number(const struct schema_key *key, void *base, uint64_t number);

/*
 * Sets all keys of a scope that have a default to it, or for value_set_builtin() those of the
 * built-in group, listen too. Returns 0 or -ENOMEM.
 */
int value_set_defaults(enum schema_scope scope, void *base);
int value_set_builtin(struct group_settings *group);

/* Whether a group has the values of the built-in one. */
bool value_is_builtin(const struct group_settings *group);

/*
 * The value as text, without quotes: in `text`, or what lives as long as the settings. NULL for
 * what is not one text: groups, and listen with several addresses.
 */
const char *value_text(const struct schema_key *key, const void *base,
		       char text[static UNITS_TEXT_MAX]);

/* Whether the value is what this text would set; `text` in the form of value_text(). */
bool value_is(const struct schema_key *key, const void *base, const char *text);

/* Where the value was written. */
struct origin *value_origin(const struct schema_key *key, void *base);

#endif
