#include "config/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

#define CHUNK 16384

/* /dev/null is what people write for "nothing" (null(4)). */
static bool is_null_device(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(1, 3);
}

/* Opens what can be read to its end. Looks before it opens: opening a device may do something. */
static int open_text(const char *path)
{
	struct stat st;
	int fd;

	if (stat(path, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode) && !is_null_device(&st))
		return -ENODEV;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	return fd < 0 ? -errno : fd;
}

int input_read(const char *path, size_t limit, char **ret_text, size_t *ret_length)
{
	_cleanup_(freep) char *text = NULL;
	_cleanup_(fd_closep) int opened = -1;
	size_t length = 0;
	size_t size = 0;
	int fd = STDIN_FILENO;

	if (path) {
		opened = open_text(path);
		if (opened < 0)
			return opened;
		fd = opened;
	}

	for (;;) {
		if (size - length < CHUNK) {
			char *larger = realloc(text, size * 2 + CHUNK);

			if (!larger)
				return -ENOMEM;
			text = larger;
			size = size * 2 + CHUNK;
		}

		ssize_t n = read(fd, text + length, size - length - 1);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		length += (size_t)n;
		if (length > limit)
			return -EFBIG;
	}

	text[length] = '\0';
	*ret_text = text;
	*ret_length = length;
	text = NULL; /* now the caller's */
	return 0;
}

const char *input_problem(int error)
{
	switch (error) {
	case -EFBIG:
		return "a configuration has at most 1 MiB, all its files together";
	case -ENODEV:
		return "it is neither a file nor a pipe";
	default:
		return strerror(-error);
	}
}
