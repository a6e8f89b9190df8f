/*
 * File descriptors: closing them, and keeping a process to those that are its own.
 */
#ifndef LANED_BASE_FD_H
#define LANED_BASE_FD_H

#include <stddef.h>

/* Closes fd if it is one (>= 0), errno untouched. Returns -1, to be assigned. */
int fd_close(int fd);

/* fd_close() for _cleanup_(): closes what the local holds when its scope ends. */
void fd_closep(int *fd);

/*
 * Closes everything from descriptor 3 up but the `n_keep` descriptors of `keep` (sorted in place).
 * close_range(2), Linux 5.9; on older kernels one by one. Returns 0 or -errno.
 */
int fd_close_all_but(int *keep, size_t n_keep);

/*
 * Raises RLIMIT_NOFILE to the hard limit, as far as that can be done: what is too few shows when it
 * is needed.
 */
void fd_raise_limit(void);

/*
 * Makes sure that 0, 1 and 2 are open (on /dev/null where they were not), so that no socket is ever
 * taken for stderr. Returns 0 or -errno.
 */
int fd_fill_standard(void);

#endif
