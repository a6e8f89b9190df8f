/*
 * The options of a command line, as one table that getopt and --help come from.
 */
#ifndef LANED_BASE_OPTIONS_H
#define LANED_BASE_OPTIONS_H

#include <getopt.h>
#include <stddef.h>

#define OPTIONS_MAX 32

struct option_row {
	char letter;
	const char *name;     /* the long one */
	const char *argument; /* what it is called in the help; NULL: it takes none */
	const char *help;
};

/* What getopt_long(3) wants. */
struct getopt_tables {
	char letters[2 * OPTIONS_MAX + 1];
	struct option longs[OPTIONS_MAX + 1];
};

/* Makes getopt's tables from ours, of at most OPTIONS_MAX rows. */
void options_for_getopt(const struct option_row *rows, size_t n, struct getopt_tables *ret);

/* Writes a line for each row to standard output. */
void options_write_help(const struct option_row *rows, size_t n);

#endif
