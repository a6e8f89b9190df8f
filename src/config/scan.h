/*
 * The scan: one pass over the text of a configuration before libconfig parses it.
 *
 * It makes one text of all files, each @include replaced by what it names, and knows where every
 * line of it came from; and it refuses what libconfig would take silently for something else:
 * integers that it wraps around, a NUL, a comment that never ends. It knows nothing of keys.
 */
#ifndef LANED_CONFIG_SCAN_H
#define LANED_CONFIG_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/report.h"
#include "config/settings.h"

/* Stands in the text, as a 64-bit integer, for a value that was refused: it has its error. */
#define SCAN_REFUSED INT64_MIN

#define SCAN_FILES_MAX 100 /* all files of a configuration */

/* From a line of the text on, the lines are those of a file from one of its lines on. */
struct scan_segment {
	unsigned text_line;
	const char *file; /* one of `files` */
	unsigned file_line;
};

struct scan {
	char *text; /* what libconfig shall parse: lines, and a NUL at the end */
	size_t length;
	size_t size;
	unsigned line; /* at the end of the text so far, counted from 1 */
	bool broken;   /* the text is not whole: parsing it would tell nothing more */

	struct scan_segment *segments;
	size_t n_segments;
	unsigned *strings; /* the line of every string in the text; adjacent ones count as one */
	size_t n_strings;
	char **files; /* the names of all files, the one that was given first */
	size_t n_files;
	size_t n_before; /* files of the same configuration that other scans have read */

	struct report *report;
	int error;      /* -ENOMEM: everything since is lost */
	size_t n_read;  /* bytes of all files, those of other scans included */
	int last_token; /* private to scan.c, as is ... */
	size_t comma;   /* ... where in the text the last comma is */
};

/*
 * Scans a file's text (a NUL stands behind its `length` bytes), and what it includes: names are
 * relative to the folder of the file that they stand in. Whatever is wrong is in the report. Returns
 * 0 or -ENOMEM. `scan` is all zero before, but for `n_before` and `n_read`; scan_fini() in any case.
 */
int scan_run(struct scan *scan, const char *file, const char *text, size_t length,
	     struct report *report);

void scan_fini(struct scan *scan);

/* Where a line of the text was written. */
struct origin scan_origin(const struct scan *scan, unsigned line);

#endif
