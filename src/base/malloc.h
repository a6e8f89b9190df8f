/*
 * The allocator: a library, chosen when laned is built.
 */
#ifndef LANED_BASE_MALLOC_H
#define LANED_BASE_MALLOC_H

/* Its name and the version that runs, "jemalloc 5.3.0". Static storage. */
const char *malloc_version(void);

#endif
