#include "base/process.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/units.h"

#define FOLDER_MAX PATH_MAX         /* of a cgroup, with its NUL */
#define CGROUP_MAX (2 * FOLDER_MAX) /* of /proc/PID/cgroup: a dozen lines of version 1, then ours */
#define TEXT_MAX   2048 /* of any other file that is read here, or all of it that matters */

/* Where cgroup v2 may be mounted: by itself, or beside version 1. */
static const char *const cgroup_roots[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};

/* System calls in which a worker may wait, by architecture under different numbers. */
static const struct {
	int number;
	const char *name;
} calls[] = {
	{SYS_accept4, "accept4"},
	{SYS_clock_nanosleep, "clock_nanosleep"},
	{SYS_close, "close"},
	{SYS_connect, "connect"},
	{SYS_epoll_pwait, "epoll_pwait"},
	{SYS_fcntl, "fcntl"},
	{SYS_flock, "flock"},
	{SYS_fsync, "fsync"},
	{SYS_futex, "futex"},
	{SYS_nanosleep, "nanosleep"},
	{SYS_openat, "openat"},
#ifdef SYS_poll
	{SYS_poll, "poll"},
#endif
	{SYS_ppoll, "ppoll"},
	{SYS_read, "read"},
	{SYS_recvfrom, "recvfrom"},
	{SYS_restart_syscall, "restart_syscall"},
	{SYS_sendto, "sendto"},
	{SYS_write, "write"},
};

/* Reads a whole file, or as much of it as there is room for. What cannot be read is "". */
static void text_read(const char *path, char *text, size_t size)
{
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t length = 0;
	ssize_t n = 1;

	while (fd >= 0 && n > 0 && length < size - 1) {
		n = read(fd, text + length, size - 1 - length);
		if (n > 0)
			length += (size_t)n;
	}
	text[length] = '\0';
}

/* What follows `start` in the first line that begins with it; NULL: there is no such line. */
static const char *line_after(const char *text, const char *start)
{
	size_t length = strlen(start);

	while (strncmp(text, start, length) != 0) {
		text = strchr(text, '\n');
		if (!text)
			return NULL;
		text++;
	}
	return text + length;
}

/* The number of microseconds that `text` begins with, as nanoseconds; UINT64_MAX: it does not. */
static uint64_t read_us(const char *text)
{
	uint64_t us;

	return text && sscanf(text, "%" SCNu64, &us) == 1 ? us * NS_PER_US : UINT64_MAX;
}

static void parse_stat(const char *stat, struct process_word *word)
{
	/* The name before it may hold anything, brackets and blanks too; behind it are numbers. */
	const char *rest = strrchr(stat, ')');
	uint64_t user_ticks, system_ticks;
	long ticks = sysconf(_SC_CLK_TCK);
	char state;
	int n;

	if (!rest)
		return;
	n = sscanf(rest + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64,
		   &state, &user_ticks, &system_ticks);
	if (n >= 1)
		word->state = state;
	if (n == 3 && ticks > 0)
		word->cpu_ns = (user_ticks + system_ticks) * (NS_PER_S / (uint64_t)ticks);
}

static void parse_schedstat(const char *schedstat, struct process_word *word)
{
	uint64_t cpu_ns, wait_ns, turns;

	/* Nothing but 0 is what a kernel says that was told not to count. */
	if (sscanf(schedstat, "%" SCNu64 " %" SCNu64 " %" SCNu64, &cpu_ns, &wait_ns, &turns) != 3 ||
	    (cpu_ns == 0 && wait_ns == 0 && turns == 0))
		return;
	word->cpu_ns = cpu_ns;
	word->wait_ns = wait_ns;
}

static void parse_syscall(const char *text, struct process_word *word)
{
	int number;

	if (line_after(text, "running")) {
		(void)snprintf(word->call, sizeof(word->call), "running");
		return;
	}
	if (sscanf(text, "%d", &number) != 1)
		return;
	if (number < 0) {
		(void)snprintf(word->call, sizeof(word->call), "none");
		return;
	}
	(void)snprintf(word->call, sizeof(word->call), "number %d", number);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (calls[i].number == number)
			(void)snprintf(word->call, sizeof(word->call), "%s", calls[i].name);
	}
}

void process_parse(const struct process_text *text, struct process_word *ret)
{
	*ret = (struct process_word){.state = '?', .cpu_ns = UINT64_MAX, .wait_ns = UINT64_MAX};
	parse_stat(text->stat, ret);
	parse_schedstat(text->schedstat, ret); /* finer, so it wins */
	parse_syscall(text->syscall, ret);
	/* "0" is said of those that run, and to those that may not know. */
	if (strcmp(text->wchan, "0") != 0)
		(void)snprintf(ret->wchan, sizeof(ret->wchan), "%.*s",
			       (int)strcspn(text->wchan, "\n"), text->wchan);
}

/* The path of the cgroup v2 of `process` (a pid, or "self"), "" for the root itself. */
static bool folder_read(const char *process, char folder[static FOLDER_MAX])
{
	char path[64], text[CGROUP_MAX];

	(void)snprintf(path, sizeof(path), "/proc/%s/cgroup", process);
	text_read(path, text, sizeof(text));

	const char *own = line_after(text, "0::");
	size_t length = own ? strcspn(own, "\n") : 0;

	if (!own || length >= FOLDER_MAX)
		return false;
	(void)snprintf(folder, FOLDER_MAX, "%.*s", (int)length, own);
	if (strcmp(folder, "/") == 0)
		folder[0] = '\0';
	return true;
}

/* Reads a file of a cgroup v2. */
static void cgroup_read(const char *folder, const char *name, char text[static TEXT_MAX])
{
	char path[FOLDER_MAX + 64];

	text[0] = '\0';
	for (size_t i = 0; i < sizeof(cgroup_roots) / sizeof(cgroup_roots[0]) && !text[0]; i++) {
		(void)snprintf(path, sizeof(path), "%s%s/%s", cgroup_roots[i], folder, name);
		text_read(path, text, TEXT_MAX);
	}
}

static bool is_frozen(const char *process)
{
	char folder[FOLDER_MAX], text[TEXT_MAX];

	if (!folder_read(process, folder))
		return false;
	cgroup_read(folder, "cgroup.events", text);
	return line_after(text, "frozen 1") != NULL;
}

void process_look(pid_t pid, struct process_word *ret)
{
	static const char *const names[] = {"stat", "schedstat", "wchan", "syscall"};
	char texts[sizeof(names) / sizeof(names[0])][TEXT_MAX], process[16], path[64];

	(void)snprintf(process, sizeof(process), "%d", (int)pid);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		(void)snprintf(path, sizeof(path), "/proc/%s/%s", process, names[i]);
		text_read(path, texts[i], sizeof(texts[i]));
	}
	process_parse(&(struct process_text){.stat = texts[0],
					     .schedstat = texts[1],
					     .wchan = texts[2],
					     .syscall = texts[3]},
		      ret);
	ret->frozen = is_frozen(process);
}

uint64_t host_parse_throttled_ns(const char *cpu_stat)
{
	return read_us(line_after(cpu_stat, "throttled_usec "));
}

/* Shortens the path of a cgroup to that of the one above it. Returns false at the root. */
static bool folder_leave(char *folder)
{
	char *slash = strrchr(folder, '/');

	if (slash)
		*slash = '\0';
	return slash != NULL;
}

uint64_t host_throttled_ns(void)
{
	char folder[FOLDER_MAX], text[TEXT_MAX];
	uint64_t sum_ns = UINT64_MAX;

	if (!folder_read("self", folder))
		return sum_ns;
	do {
		cgroup_read(folder, "cpu.stat", text);

		uint64_t throttled_ns = host_parse_throttled_ns(text);

		if (throttled_ns != UINT64_MAX)
			sum_ns = (sum_ns == UINT64_MAX ? 0 : sum_ns) + throttled_ns;
	} while (folder_leave(folder));
	return sum_ns;
}
