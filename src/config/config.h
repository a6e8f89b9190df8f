/*
 * The configuration: from a file to settings, and back to text.
 *
 * Reading has no side effect on the host: files and accounts are looked up, nothing is made or
 * bound.
 */
#ifndef LANED_CONFIG_CONFIG_H
#define LANED_CONFIG_CONFIG_H

#include <stdio.h>

#include "config/report.h"
#include "config/schema.h"
#include "config/settings.h"

#define CONFIG_INSTALLED_FILE SYSCONFDIR "/laned/laned.conf"
#define CONFIG_STDIN_NAME     "<stdin>" /* what standard input is called */

/* Where a configuration comes from. All strings are somebody else's, for as long as it is used. */
struct config_source {
	const char *path; /* a file; "-": standard input; NULL: the installed file */
	const char *const
		*overrides; /* "log.level=debug", "groups.echo.listen=[::1]:7,127.0.0.1:7" */
	size_t n_overrides;
};

/*
 * Reads and checks a configuration in one pass. Without a path or an installed file the built-in
 * default is taken. After a file come those of the folder conf.d beside it whose names end in .conf,
 * in the order of their names, and at last the overrides. Everything that is wrong goes to the
 * report, which can show source lines until report_fini(), whatever becomes of the settings.
 * Returns 0 and the settings (the caller's, settings_free()), -EBADMSG when the report has errors,
 * -ENOMEM (not in the report), or another -errno when a file could not be read (in the report,
 * too).
 */
int config_load(const struct config_source *source, struct report *report, struct settings **ret);

enum config_dump {
	CONFIG_DUMP_ALL = 0,
	CONFIG_DUMP_CHANGED = 1 << 0, /* only what differs from the default */
	CONFIG_DUMP_ORIGIN = 1 << 1,  /* with a comment behind each value: where it was written */
};

/*
 * Writes the settings as a configuration file, in the order of the table. Loading that gives the
 * same settings, and without origins the same text again. `what`: enum config_dump, or-ed. Errors
 * are those of the stream.
 */
void config_dump(const struct settings *settings, unsigned what, FILE *stream);

/*
 * Writes one value as it stands in a file, or a group in its braces with what differs from the
 * default, without a line break. `base` is the structure of the key's scope.
 */
void config_dump_value(const struct schema_key *key, const void *base, FILE *stream);
void config_dump_group(const struct group_settings *group, FILE *stream);

/*
 * Writes one value as a line, without quotes: "drain_timeout", "log.level", "groups.echo.backlog";
 * "groups.echo.listen" is a line for each address, and lists ("groups", "groups.echo.faults") are
 * what stands between their parentheses. Returns 0, -ENOENT (no such key, in the report).
 */
int config_dump_key(const struct settings *settings, const char *path, struct report *report,
		    FILE *stream);

#endif
