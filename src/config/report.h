/*
 * The report: what is wrong with a configuration, collected in one pass.
 *
 * Each finding is written at once, in the form that editors jump to, then the source line, then a
 * hint:
 *
 *	laned.conf:12: error: unknown key "max_conections" in a group
 *	        max_conections = 10000;
 *	        did you mean "max_connections"?
 *
 * It keeps a copy of every text that was read, so that source lines can be shown at any time, of
 * standard input too, and as they were when they were read.
 */
#ifndef LANED_CONFIG_REPORT_H
#define LANED_CONFIG_REPORT_H

#include <stdio.h>

#include "config/settings.h"

#define REPORT_PLACE_MAX 512

struct report_source; /* the text of one file */

/* Begins as `struct report report = { .stream = stderr };` and ends with report_fini(). */
struct report {
	FILE *stream; /* where findings go; NULL: they are only counted */
	unsigned errors;
	unsigned warnings;
	struct report_source *sources;
};

enum report_kind { REPORT_ERROR, REPORT_WARNING };

/* Releases the texts. The counts stay. */
void report_fini(struct report *report);

/*
 * Gives the report the text of a file (both are copied), for the lines of findings with an origin
 * in a file of that name. Returns 0 or -ENOMEM.
 */
int report_add_source(struct report *report, const char *file, const char *text, size_t length);

/*
 * Adds a finding. `origin` NULL or without a file: the text stands alone. `hint` NULL: none; it may
 * have several lines. What cannot be printed is written as "?", and what is very long is cut.
 */
void report_add(struct report *report, enum report_kind kind, const struct origin *origin,
		const char *hint, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* As report_add(), for an error that may have begun a line earlier: shows both lines. */
void report_add_syntax(struct report *report, const struct origin *origin, const char *hint,
		       const char *format, ...) __attribute__((format(printf, 4, 5)));

/*
 * Writes where something was written, "laned.conf:12", "command line", or "its default" for what is nowhere, into
 * `text`, for a finding that names two places. Returns `text`.
 */
const char *report_place(const struct origin *origin, char text[static REPORT_PLACE_MAX]);

/* Writes the end of it, "2 errors, 1 warning in FILE"; nothing if there is nothing to say. */
void report_summary(const struct report *report, const char *file);

#endif
