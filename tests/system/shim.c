/*
 * A library that is loaded before all others (LD_PRELOAD) and holds laned up in the midst of its
 * work, where and for as long as a test wants: no fault of laned's own can come at these places.
 *
 * The folder LANED_TEST_GATE has what holds it:
 *
 *	accept.PID	a FIFO: that process, before it calls accept4, waits until somebody opens it
 *			for writing
 *	lock		whoever has received bytes that begin with "LOCK" waits until it can have an
 *			exclusive lock (flock(2)), as in a call of some library that blocks
 *	probe		"wait": a worker that starts waits for that lock before it echoes what the
 *			master has sent; "spoil": it gets it wrong
 *	clock		a number of seconds: so far ahead of its time is the clock of the day
 *
 * Before it waits it leaves a file at.PID.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PATH_BYTES 512

/* False: there is no such folder. */
static bool gate_path(const char *name, char path[static PATH_BYTES])
{
	const char *folder = getenv("LANED_TEST_GATE");

	return folder && snprintf(path, PATH_BYTES, "%s/%s", folder, name) < PATH_BYTES;
}

static bool gate_path_own(const char *name, char path[static PATH_BYTES])
{
	char own[64];

	(void)snprintf(own, sizeof(own), "%s.%d", name, (int)getpid());
	return gate_path(own, path);
}

static void leave_note(void)
{
	char path[PATH_BYTES];

	if (gate_path_own("at", path))
		(void)close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0666));
}

/* The caller's errno is not touched, whatever happens here. */
static void wait_for_gate(void)
{
	char fifo[PATH_BYTES];
	int saved = errno;

	if (gate_path_own("accept", fifo) && access(fifo, F_OK) == 0) {
		leave_note();
		(void)close(open(fifo, O_RDONLY | O_CLOEXEC));
	}
	errno = saved;
}

static void wait_for_lock(void)
{
	char path[PATH_BYTES];
	int saved = errno;

	if (gate_path("lock", path)) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);

		leave_note();
		(void)flock(fd, LOCK_EX);
		(void)close(fd);
	}
	errno = saved;
}

int accept4(int listener, struct sockaddr *address, socklen_t *length, int flags)
{
	wait_for_gate();
	return (int)syscall(SYS_accept4, listener, address, length, flags);
}

/* A worker has received the probe: not the master, the first process of the session, its echo. */
static void meet_probe(char *data)
{
	char path[PATH_BYTES], text[8] = "";
	int fd = -1, saved = errno;

	if (getpid() != getsid(0) && gate_path("probe", path))
		fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0) {
		if (strcmp(text, "wait") == 0)
			wait_for_lock();
		else
			data[0]++;
	}
	if (fd >= 0)
		(void)close(fd);
	errno = saved;
}

ssize_t recv(int fd, void *data, size_t size, int flags)
{
	ssize_t n = recvfrom(fd, data, size, flags, NULL, NULL);

	if (n >= 4 && memcmp(data, "LOCK", 4) == 0)
		wait_for_lock();
	if (n == 6 && memcmp(data, "laned\n", 6) == 0)
		meet_probe(data);
	return n;
}

/* 0: there is no such file. Nothing is allocated: an allocator may ask for the time as it begins. */
static time_t clock_ahead_s(void)
{
	char path[PATH_BYTES], text[32] = "";
	int fd = gate_path("clock", path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	if (fd < 0)
		return 0;
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	(void)close(fd);
	return (time_t)strtol(text, NULL, 10);
}

int clock_gettime(clockid_t clock, struct timespec *ret)
{
	int saved = errno;
	int r = (int)syscall(SYS_clock_gettime, clock, ret);

	if (r == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
		ret->tv_sec += clock_ahead_s();
		errno = saved;
	}
	return r;
}
