#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <systemd/sd-journal.h>

#include "base/fd.h"

/* With what stands before it at most PIPE_BUF, so that a line is one write and never torn. */
#define LOG_LINE_MAX 1024

static struct {
	int fd;
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
	if (log_state.fd != STDERR_FILENO)
		fd_close(log_state.fd);
	log_state.fd = fd;
	log_state.journal = journal;
}

void log_open(enum log_target target, int level)
{
	log_state.level = level;
	log_use(STDERR_FILENO, target != LOG_TARGET_STDERR && stderr_is_journal());
	if (target != LOG_TARGET_JOURNAL || log_state.journal)
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

/* Whether a line can be written without waiting: who reads the log may have stopped to. */
static bool log_writable(void)
{
	struct pollfd stream = {.fd = log_state.fd, .events = POLLOUT};

	return poll(&stream, 1, 0) == 1 && (stream.revents & POLLOUT);
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

	if (log_writable() && write(log_state.fd, line, (size_t)length) == length)
		log_state.dropped = 0;
	else
		log_state.dropped++;
	errno = saved;
}
