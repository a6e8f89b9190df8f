#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <systemd/sd-journal.h>

#include "base/fd.h"

/* With what stands before it at most PIPE_BUF, so that a line is one write and never torn. */
#define LOG_LINE_MAX 1024

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

void log_line(int level, const char *format, ...)
{
	char text[LOG_LINE_MAX], line[LOG_LINE_MAX + 64];
	va_list arguments;
	int saved = errno;

	if (level > log_state.level)
		return;

	va_start(arguments, format);
	(void)vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);

	int length = log_state.dropped == 0
			     ? snprintf(line, sizeof(line), "%s%s\n", level_word(level), text)
			     : snprintf(line, sizeof(line),
					"%s%s (%u lines before this one are lost)\n",
					level_word(level), text, log_state.dropped);

	if (log_write(line, (size_t)length))
		log_state.dropped = 0;
	else
		log_state.dropped++;
	errno = saved;
}
