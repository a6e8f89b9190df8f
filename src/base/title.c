/*
 * The kernel shows as command line what stands in the memory that exec filled with the arguments
 * (proc(5), cmdline), and goes on into the environment behind it when the last byte of the
 * arguments is not NUL. Overwriting that memory needs no privilege, unlike PR_SET_MM.
 */
#include "base/title.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

static char **title_arguments; /* of main(), as long as the process */
static char *title_area;
static size_t title_size;

/*
 * Copies strings that a NULL ends to the heap. Returns NULL, and leaves nothing half done, if memory
 * is short.
 */
static char **strings_copy(char *const *strings)
{
	size_t n = 0;

	while (strings[n])
		n++;

	char **copy = calloc(n + 1, sizeof(*copy));

	for (size_t i = 0; copy && i < n; i++) {
		copy[i] = strdup(strings[i]);
		if (!copy[i]) {
			while (i-- > 0)
				free(copy[i]);
			free(copy);
			return NULL;
		}
	}
	return copy;
}

char **title_init(int argc, char **argv)
{
	char *end = argv[0];
	char **environment;

	if (argc < 1)
		return argv;
	for (int i = 0; i < argc && argv[i] == end; i++)
		end = argv[i] + strlen(argv[i]) + 1;
	for (char **variable = environ; *variable && *variable == end; variable++)
		end = *variable + strlen(*variable) + 1;

	title_arguments = strings_copy(argv);
	environment = strings_copy(environ);
	if (!title_arguments || !environment) /* one that could be had is not worth freeing */
		return argv;
	environ = environment;
	title_area = argv[0];
	title_size = (size_t)(end - argv[0]);
	return title_arguments;
}

void title_set(const char *comm, const char *format, ...)
{
	va_list arguments;

	(void)prctl(PR_SET_NAME, comm);
	if (!title_area)
		return;
	memset(title_area, 0, title_size);
	va_start(arguments, format);
	(void)vsnprintf(title_area, title_size, format, arguments);
	va_end(arguments);
}
