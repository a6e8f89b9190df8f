/*
 * The log: one line per fact, to the journal or to stderr.
 *
 * A line reads "subject: fact, numbers; action", e.g.
 *
 *	echo/0.1 (pid 4711): killed by signal 9 (Killed), 3 connections ended with it; ...
 *
 * Writing never blocks: a process that cannot get rid of its log must go on serving. A line that a
 * full pipe does not take is dropped, and the next line that goes through says how many were.
 */
#ifndef LANED_BASE_LOG_H
#define LANED_BASE_LOG_H

#include <stdint.h>
#include <syslog.h>

enum log_target {
	LOG_TARGET_AUTO, /* the journal if stderr leads there, else stderr */
	LOG_TARGET_STDERR,
	LOG_TARGET_JOURNAL,
};

/*
 * Chooses the target, and the least urgent level that is written (LOG_ERR to LOG_DEBUG of
 * syslog.h). Until the first call: stderr, LOG_INFO. A journal that does not exist is an error line
 * on stderr, which is then used instead.
 */
void log_open(enum log_target target, int level);

/* Changes the least urgent level that is written. */
void log_set_level(int level);

/* The descriptor that lines are written to: what a child keeps open to log. */
int log_fd(void);

/* Writes a line, printf-like, without a newline; errno is left as it was. */
void log_line(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Allows a few lines of one kind in ten seconds; the first one after those that were left out says
 * how many they were. All zero: none written yet.
 */
struct log_limit {
	uint64_t window_ns; /* when the ten seconds began */
	unsigned lines;     /* since then */
	unsigned left_out;
};

void log_limited(struct log_limit *limit, int level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Writes an event that programs look for: in the journal with MESSAGE_ID= (32 hexadecimal digits,
 * sd-id128(3)) and LANED_SUBJECT=, else as any line. It may be longer than others: LOG_EVENT_MAX.
 */
void log_event(int level, const char *message_id, const char *subject, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

#define LOG_EVENT_MAX 4000

#define log_error(...)   log_line(LOG_ERR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_WARNING, __VA_ARGS__)
#define log_notice(...)  log_line(LOG_NOTICE, __VA_ARGS__)
#define log_info(...)    log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...)   log_line(LOG_DEBUG, __VA_ARGS__)

#endif
