#include "base/libraries.h"

#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

/*
 * One loaded object. The name under which it was looked up is a link to the version that is there.
 */
static int library_write(struct dl_phdr_info *info, size_t size, void *stream)
{
	char path[PATH_MAX];

	(void)size;
	/* The program itself has no name, and the kernel's part no file. */
	if (info->dlpi_name[0] == '/' && realpath(info->dlpi_name, path))
		(void)fprintf(stream, " %s", strrchr(path, '/') + 1);
	return 0;
}

void libraries_write(FILE *stream)
{
	(void)dl_iterate_phdr(library_write, stream);
}
