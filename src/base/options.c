#include "base/options.h"

#include <assert.h>
#include <stdio.h>

void options_for_getopt(const struct option_row *rows, size_t n, struct getopt_tables *ret)
{
	char *letters = ret->letters;

	assert(n <= OPTIONS_MAX);
	for (size_t i = 0; i < n; i++) {
		*letters++ = rows[i].letter;
		if (rows[i].argument)
			*letters++ = ':';
		ret->longs[i] = (struct option){
			.name = rows[i].name,
			.has_arg = rows[i].argument ? required_argument : no_argument,
			.val = rows[i].letter,
		};
	}
	*letters = '\0';
	ret->longs[n] = (struct option){0};
}

void options_write_help(const struct option_row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char names[40];

		(void)snprintf(names, sizeof(names), "-%c, --%s%s%s", rows[i].letter, rows[i].name,
			       rows[i].argument ? " " : "",
			       rows[i].argument ? rows[i].argument : "");
		printf("  %-22s  %s\n", names, rows[i].help);
	}
}
