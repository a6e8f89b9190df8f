/*
 * Prints the schema, a key a line: path, type, unit, default, range, reload or restart, help,
 * with tabs between them. For check-keys.py, which compares it with the manual page and the
 * installed file.
 */
#include <stdio.h>

#include "config/schema.h"

static const char *const prefixes[] = {
	[SCHEMA_TOP] = "",
	[SCHEMA_GROUP] = "groups.*.",
	[SCHEMA_FAULT] = "groups.*.faults.*.",
};

int main(void)
{
	for (size_t i = 0; i < schema_n_keys; i++) {
		const struct schema_key *key = &schema_keys[i];
		const char *text = key->default_text;
		char range[SCHEMA_RANGE_MAX];
		const char *quote = text && schema_is_quoted(key, text) ? "\"" : "";

		if (!text)
			text = key->optional ? "none" : "-";
		printf("%s%s\t%s\t%s\t%s%s%s\t%s\t%s\t%s\n", prefixes[key->scope], key->path,
		       schema_type_name(key), key->unit ? key->unit : "-", quote, text, quote,
		       schema_format_range(key, range),
		       key->reload == SCHEMA_RELOAD ? "reload" : "restart", key->help);
	}
	return 0;
}
