#include "control/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

#define PLACE_BACKLOG 64

/* The pid that a lock's file holds; 0: none, or not yet. */
static pid_t lock_pid(int fd)
{
	char text[32];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	return (pid_t)strtol(text, NULL, 10);
}

/* Returns 0 or -errno. */
static int lock_write(int fd)
{
	char text[32];
	int n = snprintf(text, sizeof(text), "%d\n", (int)getpid());

	if (ftruncate(fd, 0) < 0)
		return -errno;
	if (pwrite(fd, text, (size_t)n, 0) != n)
		return -EIO;
	return 0;
}

/* Returns the lock's descriptor, the caller's, or -errno: see place_take(). */
static int lock_take(const char *path, pid_t *ret_pid)
{
	char name[PLACE_MAX + sizeof(".lock")];
	_cleanup_(fd_closep) int fd = -1;
	int r;

	(void)snprintf(name, sizeof(name), "%s.lock", path);
	fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK)
			return -errno;
		*ret_pid = lock_pid(fd);
		return -EALREADY;
	}
	r = lock_write(fd);
	if (r < 0)
		return r;
	r = fd;
	fd = -1; /* now the caller's */
	return r;
}

/* Removes a socket that nobody serves. Returns 0, or -EEXIST if there is something else. */
static int remove_stale(const struct sockaddr_un *address)
{
	_cleanup_(fd_closep) int fd = -1;
	struct stat found;

	if (lstat(address->sun_path, &found) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(found.st_mode))
		return -EEXIST;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 ||
	    errno != ECONNREFUSED)
		return -EEXIST;
	return unlink(address->sun_path) < 0 ? -errno : 0;
}

/* Returns the socket's descriptor, the caller's, or -errno. */
static int place_listen(struct place *place)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_(fd_closep) int fd = -1;
	struct stat made;
	int r;

	memcpy(address.sun_path, place->path, sizeof(address.sun_path));
	r = remove_stale(&address);
	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	if (lstat(place->path, &made) == 0) {
		place->device = made.st_dev;
		place->inode = made.st_ino;
	}
	if (chmod(place->path, 0666) < 0 || listen(fd, PLACE_BACKLOG) < 0)
		return -errno;
	r = fd;
	fd = -1; /* now the caller's */
	return r;
}

int place_take(struct place *place, const char *path, pid_t *ret_pid)
{
	int r;

	*place = (struct place){.lock_fd = -1};
	*ret_pid = 0;
	if (strlen(path) >= sizeof(place->path))
		return -ENAMETOOLONG;
	memcpy(place->path, path, strlen(path) + 1);
	r = lock_take(path, ret_pid);
	if (r < 0)
		return r;
	place->lock_fd = r;
	r = place_listen(place);
	if (r < 0)
		place_leave(place);
	return r;
}

void place_leave(struct place *place)
{
	struct stat found;

	if (place->inode != 0 && lstat(place->path, &found) == 0 && found.st_dev == place->device &&
	    found.st_ino == place->inode)
		(void)unlink(place->path);
	place->inode = 0;
	place->lock_fd = fd_close(place->lock_fd);
}
