#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

int fd_close(int fd)
{
	int saved = errno;

	/* Not repeated on EINTR: on Linux the descriptor is gone by then. */
	if (fd >= 0)
		(void)close(fd);
	errno = saved;
	return -1;
}

void fd_closep(int *fd)
{
	*fd = fd_close(*fd);
}

static int fd_compare(const void *left, const void *right)
{
	int a = *(const int *)left, b = *(const int *)right;

	return (a > b) - (a < b);
}

/* Closes first..last, both included; nothing if first > last. */
static int fd_close_span(unsigned first, unsigned last)
{
	if (first > last)
		return 0;
	if (close_range(first, last, 0) == 0)
		return 0;
	if (errno != ENOSYS)
		return -errno;

	long limit = sysconf(_SC_OPEN_MAX);

	if (limit < 0)
		return -errno;
	for (unsigned fd = first; fd <= last && fd < (unsigned long)limit; fd++)
		(void)close((int)fd);
	return 0;
}

int fd_close_all_but(int *keep, size_t n_keep)
{
	unsigned first = STDERR_FILENO + 1;

	qsort(keep, n_keep, sizeof(*keep), fd_compare);
	for (size_t i = 0; i < n_keep; i++) {
		if (keep[i] < (int)first)
			continue;

		int r = fd_close_span(first, (unsigned)keep[i] - 1);

		if (r < 0)
			return r;
		first = (unsigned)keep[i] + 1;
	}
	return fd_close_span(first, ~0U);
}

int fd_fill_standard(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		/* The lowest free number is given out, and all below are taken. */
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0)
			return -errno;
	}
	return 0;
}

void fd_raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}
