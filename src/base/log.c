#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <systemd/sd-journal.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/units.h"

/* With what stands before it at most PIPE_BUF, so that a line is one write and never torn. */
#define LOG_LINE_MAX 1024
#define LOG_AROUND   64 /* what stands before and behind the text of a line */

#define LIMIT_LINES     10U
#define LIMIT_WINDOW_NS (10 * NS_PER_S)

static_assert(LOG_EVENT_MAX + LOG_AROUND <= PIPE_BUF, "a line is one write");

static struct {
	int fd;
	bool socket;
	bool journal; /* lines begin with their priority, as sd-daemon(3) has it */
	int level;
	unsigned dropped; /* lines since the last one that went through */
} log_state = {.fd = STDERR_FILENO, .level = LOG_INFO};

/* Whether stderr is the very stream that systemd says leads to the journal (systemd.exec(5)). */
static bool stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat st;

	return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
	       fstat(STDERR_FILENO, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

static void log_use(int fd, bool journal)
{
	struct stat st;

	if (log_state.fd != STDERR_FILENO)
		fd_close(log_state.fd);
	log_state.fd = fd;
	log_state.socket = fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
	log_state.journal = journal;
}

/*
 * Makes stderr non-blocking if it is a terminal or a pipe. The flag belongs to all who share what was
 * opened, so it is opened anew; where that cannot be done it stays as it is.
 */
static void stderr_unblock(void)
{
	struct stat st;

	if (fstat(STDERR_FILENO, &st) < 0 || (!S_ISFIFO(st.st_mode) && !S_ISCHR(st.st_mode)))
		return;

	int own = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (own >= 0)
		(void)dup2(own, STDERR_FILENO);
	fd_close(own);
}

void log_open(enum log_target target, int level)
{
	bool journal = target != LOG_TARGET_STDERR && stderr_is_journal();

	stderr_unblock();
	log_state.level = level;
	log_use(STDERR_FILENO, journal);
	if (target != LOG_TARGET_JOURNAL || journal)
		return;

	int stream = sd_journal_stream_fd("laned", LOG_INFO, true);

	if (stream >= 0)
		log_use(stream, true);
	else
		log_error("log: no journal here: %s; writing to stderr", strerror(-stream));
}

void log_set_level(int level)
{
	log_state.level = level;
}

int log_fd(void)
{
	return log_state.fd;
}

static const char *level_word(int level)
{
	static const char *const priorities[] = {"<0>", "<1>", "<2>", "<3>",
						 "<4>", "<5>", "<6>", "<7>"};

	if (log_state.journal)
		return priorities[level & 7];
	switch (level) {
	case LOG_ERR:
		return "laned: error: ";
	case LOG_WARNING:
		return "laned: warning: ";
	default:
		return "laned: ";
	}
}

/* Writes without waiting: who reads the log may have stopped to. Whether the whole line went. */
static bool log_write(const char *line, size_t length)
{
	struct pollfd stream = {.fd = log_state.fd, .events = POLLOUT};

	if (log_state.socket)
		return send(log_state.fd, line, length, MSG_DONTWAIT | MSG_NOSIGNAL) ==
		       (ssize_t)length;
	/* For a stderr that could not be opened anew this is the best that can be done. */
	return poll(&stream, 1, 0) == 1 && (stream.revents & POLLOUT) &&
	       write(log_state.fd, line, length) == (ssize_t)length;
}

/* Writes a formatted text; `line` has room for what stands before and behind it. */
static void log_text(int level, const char *text, char *line, size_t size)
{
	int length = log_state.dropped == 0
			     ? snprintf(line, size, "%s%s\n", level_word(level), text)
			     : snprintf(line, size, "%s%s (%u lines before this one are lost)\n",
					level_word(level), text, log_state.dropped);

	if (log_write(line, (size_t)length))
		log_state.dropped = 0;
	else
		log_state.dropped++;
}

__attribute__((format(printf, 2, 0))) static void log_arguments(int level, const char *format,
								va_list arguments)
{
	char text[LOG_LINE_MAX], line[LOG_LINE_MAX + LOG_AROUND];

	(void)vsnprintf(text, sizeof(text), format, arguments);
	log_text(level, text, line, sizeof(line));
}

void log_line(int level, const char *format, ...)
{
	va_list arguments;
	int saved = errno;

	if (level > log_state.level)
		return;
	va_start(arguments, format);
	log_arguments(level, format, arguments);
	va_end(arguments);
	errno = saved;
}

void log_limited(struct log_limit *limit, int level, const char *format, ...)
{
	uint64_t now_ns = clock_now_ns();
	va_list arguments;
	int saved = errno;

	if (level > log_state.level)
		return;
	if (limit->lines == 0 || now_ns - limit->window_ns >= LIMIT_WINDOW_NS) {
		limit->window_ns = now_ns;
		limit->lines = 0;
		if (limit->left_out > 0)
			log_line(level, "%u lines like the next one were left out",
				 limit->left_out);
		limit->left_out = 0;
	}
	if (limit->lines == LIMIT_LINES) {
		limit->left_out++;
		return;
	}
	limit->lines++;
	va_start(arguments, format);
	log_arguments(level, format, arguments);
	va_end(arguments);
	errno = saved;
}

/*
 * Sends fields to the journal (its native protocol: a field a line, none of ours has a line feed in
 * it). By hand, because sd_journal_sendv() waits when the journal is slow.
 */
static bool journal_send(int level, const char *message_id, const char *subject, const char *text)
{
	static const struct sockaddr_un journal = {
		.sun_family = AF_UNIX,
		.sun_path = "/run/systemd/journal/socket",
	};
	char fields[LOG_EVENT_MAX + 256];
	_cleanup_(fd_closep) int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int length = snprintf(fields, sizeof(fields),
			      "PRIORITY=%d\nSYSLOG_IDENTIFIER=laned\nMESSAGE_ID=%s\n"
			      "LANED_SUBJECT=%s\nMESSAGE=%s\n",
			      level, message_id, subject, text);

	return fd >= 0 && sendto(fd, fields, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL,
				 (const struct sockaddr *)&journal, sizeof(journal)) == length;
}

void log_event(int level, const char *message_id, const char *subject, const char *format, ...)
{
	char text[LOG_EVENT_MAX], line[LOG_EVENT_MAX + LOG_AROUND];
	va_list arguments;
	int saved = errno;

	if (level > log_state.level)
		return;
	va_start(arguments, format);
	(void)vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (!log_state.journal || !journal_send(level, message_id, subject, text))
		log_text(level, text, line, sizeof(line));
	errno = saved;
}
