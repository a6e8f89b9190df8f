/*
 * Scope cleanup: locals that release themselves, so that an error path is a plain return.
 *
 *	_cleanup_(fd_closep) int fd = open(...);
 *	...
 *	lane->fd = fd;
 *	fd = -1;		(the lane's now)
 */
#ifndef LANED_BASE_CLEANUP_H
#define LANED_BASE_CLEANUP_H

#include <stdlib.h>

#define _cleanup_(function) __attribute__((cleanup(function)))

/* Frees what the local points at. NULL is fine. */
static inline void freep(void *pointer)
{
	free(*(void **)pointer);
}

#endif
