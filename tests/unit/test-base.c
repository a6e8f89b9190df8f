/* The small things below everything: descriptors, CPUs, the log. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/fd.h"
#include "base/log.h"

static void test_cpu_quota(void **state)
{
	(void)state;
	assert_int_equal(cpu_quota_parse("max 100000"), 0);
	assert_int_equal(cpu_quota_parse("200000 100000"), 2);
	assert_int_equal(cpu_quota_parse("150000 100000"), 2);
	assert_int_equal(cpu_quota_parse("1000 100000"), 1);
	assert_int_equal(cpu_quota_parse(""), 0);
	assert_int_equal(cpu_quota_parse("1 0"), 0);
	assert_int_equal(cpu_quota_parse("0 100000"), 0);
	assert_true(cpu_usable() >= 1);
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void test_close_all_but(void **state)
{
	int fds[6];
	int keep[] = {0, 0, STDERR_FILENO};

	(void)state;
	for (size_t i = 0; i < 6; i++)
		fds[i] = open("/dev/null", O_RDONLY);
	keep[0] = fds[4];
	keep[1] = fds[1];

	/* In a child: the test runner has descriptors of its own. */
	pid_t child = fork();

	if (child == 0) {
		bool good = fd_close_all_but(keep, 3) == 0 && is_open(0) && is_open(2) &&
			    !is_open(fds[0]) && is_open(fds[1]) && !is_open(fds[2]) &&
			    !is_open(fds[3]) && is_open(fds[4]) && !is_open(fds[5]);

		_exit(good ? 0 : 1);
	}

	int status = -1;

	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	for (size_t i = 0; i < 6; i++)
		fd_close(fds[i]);
}

static void test_close_keeps_errno(void **state)
{
	(void)state;
	errno = EXDEV;
	assert_int_equal(fd_close(-1), -1);
	assert_int_equal(fd_close(1000000), -1); /* not open: EBADF stays inside */
	assert_int_equal(errno, EXDEV);
}

static void test_fill_standard(void **state)
{
	(void)state;

	pid_t child = fork();

	if (child == 0) {
		close(0);
		close(2);
		_exit(fd_fill_standard() == 0 && is_open(0) && is_open(1) && is_open(2) ? 0 : 1);
	}

	int status = -1;

	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void test_clocks_agree(void **state)
{
	(void)state;

	uint64_t before_ns = clock_now_ns();
	uint32_t coarse_ms = clock_coarse_ms();

	uint64_t after_ns = clock_now_ns();

	/* The coarse one is behind by a kernel tick at most: 10 ms at 100 Hz. */
	assert_true(after_ns >= before_ns);
	assert_true((int32_t)((uint32_t)(after_ns / 1000000) - coarse_ms) >= 0);
	assert_true((int32_t)(coarse_ms - (uint32_t)(before_ns / 1000000)) >= -20);
}

/* Logs into a pipe that nobody reads, in a child, which must end all the same; then reads it. */
static void test_log_never_blocks(void **state)
{
	int ends[2];
	char text[4096], last[65536 + 4096];
	size_t n_last = 0;
	ssize_t n;

	(void)state;
	assert_int_equal(pipe(ends), 0);

	pid_t child = fork();

	if (child == 0) {
		char line[500];

		dup2(ends[1], STDERR_FILENO);
		log_open(LOG_TARGET_STDERR, LOG_INFO);
		memset(line, 'x', sizeof(line));
		line[sizeof(line) - 1] = '\0';
		for (int i = 0; i < 1000; i++)
			log_info("%s", line);
		/* Somebody reads again: what was lost is said. */
		while (read(ends[0], text, sizeof(text)) == sizeof(text))
			;
		log_error("after");
		log_debug("never");
		_exit(0);
	}

	int status = -1;

	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	close(ends[1]);
	while ((n = read(ends[0], last + n_last, sizeof(last) - 1 - n_last)) > 0)
		n_last += (size_t)n;
	last[n_last] = '\0';
	close(ends[0]);
	assert_non_null(strstr(last, "laned: error: after ("));
	assert_non_null(strstr(last, "lines before this one are lost)\n"));
	assert_null(strstr(last, "never"));
}

/* The same with a terminal, where being writable does not mean that a line fits. */
static void test_log_never_blocks_on_a_terminal(void **state)
{
	int terminal = posix_openpt(O_RDWR | O_NOCTTY);

	(void)state;
	if (terminal < 0 || grantpt(terminal) < 0 || unlockpt(terminal) < 0)
		skip(); /* no devpts here, as in a plain chroot */

	int other_side = open(ptsname(terminal), O_RDWR | O_NOCTTY);

	if (other_side < 0)
		skip();

	pid_t child = fork();

	if (child == 0) {
		alarm(20);
		dup2(other_side, STDERR_FILENO);
		log_open(LOG_TARGET_STDERR, LOG_INFO);
		for (int i = 0; i < 1000; i++)
			log_info("line %d of those that nobody reads", i);
		_exit(0);
	}

	int status = -1;

	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	close(other_side);
	close(terminal);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cpu_quota),
		cmocka_unit_test(test_close_all_but),
		cmocka_unit_test(test_close_keeps_errno),
		cmocka_unit_test(test_fill_standard),
		cmocka_unit_test(test_clocks_agree),
		cmocka_unit_test(test_log_never_blocks),
		cmocka_unit_test(test_log_never_blocks_on_a_terminal),
	};

	return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
