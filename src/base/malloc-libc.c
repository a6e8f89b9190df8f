/*
 * The C library's allocator, for builds without jemalloc.
 */
#include "base/malloc.h"

#include <stdio.h>

#include <gnu/libc-version.h>

const char *malloc_version(void)
{
	static char text[64];

	(void)snprintf(text, sizeof(text), "glibc %s", gnu_get_libc_version());
	return text;
}
