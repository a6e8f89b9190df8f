/*
 * The kernel's word on a process: what its files say, and real processes in each state. What a host
 * does not tell (a kernel without it, a stricter /proc) is left out.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/process.h"
#include "base/units.h"

#define UNKNOWN     UINT64_MAX
#define PATIENCE_NS (20 * NS_PER_S)

/* --- What files say --- */

static struct process_word parse(const char *stat, const char *schedstat, const char *wchan,
				 const char *call)
{
	struct process_word word;

	process_parse(&(struct process_text){stat, schedstat, wchan, call}, &word);
	assert_false(word.frozen);
	return word;
}

#define STAT_REST " 1 2 3 0 -1 4194304 5 6 7 8 150 50 0 0 20 0 1 0 9 10 11\n"

static void test_stat(void **state)
{
	static const struct {
		const char *stat;
		char process;
		bool cpu_known;
	} rows[] = {
		{"42 (laned) S" STAT_REST, 'S', true},
		{"42 (laned) R" STAT_REST, 'R', true},
		{"42 () D" STAT_REST, 'D', true},
		{"42 ()) Z 1 (a b) t" STAT_REST, 't', true},
		{"42 (a) R 1 2 3 4) T" STAT_REST, 'T', true},
		{"42 (a\\nb) Z" STAT_REST, 'Z', true},
		/* Cut off. */
		{"42 (laned) S 1 2 3", 'S', false},
		{"42 (laned)", '?', false},
		{"42 (laned", '?', false},
		{"", '?', false},
	};
	/* As many as a clock tick has nanoseconds. */
	uint64_t cpu_ns = 200 * (NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK));

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct process_word word = parse(rows[i].stat, "", "", "");

		assert_int_equal(word.state, rows[i].process);
		assert_int_equal(word.cpu_ns, rows[i].cpu_known ? cpu_ns : UNKNOWN);
		assert_int_equal(word.wait_ns, UNKNOWN);
	}
}

static void test_schedstat(void **state)
{
	struct process_word word = parse("42 (a) S" STAT_REST, "1234567 89 3\n", "", "");

	(void)state;
	assert_int_equal(word.cpu_ns, 1234567);
	assert_int_equal(word.wait_ns, 89);

	/* Uncounted, absent, cut off: the clock ticks have to do. */
	for (const char **text = (const char *[]){"0 0 0\n", "", "12", "a b c", NULL}; *text;
	     text++) {
		word = parse("42 (a) S" STAT_REST, *text, "", "");
		assert_int_equal(word.cpu_ns, 200 * (NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK)));
		assert_int_equal(word.wait_ns, UNKNOWN);
	}
	word = parse("", "0 0 1\n", "", "");
	assert_int_equal(word.cpu_ns, 0);
	assert_int_equal(word.wait_ns, 0);
}

static void test_wchan(void **state)
{
	char longest[600];

	(void)state;
	assert_string_equal(parse("", "", "hrtimer_nanosleep", "").wchan, "hrtimer_nanosleep");
	assert_string_equal(parse("", "", "ep_poll\n", "").wchan, "ep_poll");
	assert_string_equal(parse("", "", "0", "").wchan, "");
	assert_string_equal(parse("", "", "", "").wchan, "");

	memset(longest, 'x', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';

	struct process_word word = parse("", "", longest, "");

	assert_int_equal(strlen(word.wchan), sizeof(word.wchan) - 1);
}

static void test_call(void **state)
{
	static const struct {
		int number;
		const char *name;
	} rows[] = {
		{SYS_accept4, "accept4"},       {SYS_recvfrom, "recvfrom"},
		{SYS_sendto, "sendto"},         {SYS_epoll_pwait, "epoll_pwait"},
		{SYS_nanosleep, "nanosleep"},   {SYS_clock_nanosleep, "clock_nanosleep"},
		{SYS_futex, "futex"},           {SYS_read, "read"},
		{SYS_write, "write"},           {SYS_flock, "flock"},
		{SYS_fcntl, "fcntl"},           {SYS_openat, "openat"},
		{SYS_fsync, "fsync"},           {SYS_connect, "connect"},
		{SYS_close, "close"},           {99999, "number 99999"},
		{INT_MAX, "number 2147483647"}, {-1, "none"},
	};
	char text[256];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		(void)snprintf(text, sizeof(text), "%d 0x3 0x0 0x7ffd 0x7f\n", rows[i].number);
		assert_string_equal(parse("", "", "", text).call, rows[i].name);
	}
	assert_string_equal(parse("", "", "", "running\n").call, "running");
	assert_string_equal(parse("", "", "", "").call, "");
	assert_string_equal(parse("", "", "", "rubbish").call, "");
}

static void test_host_texts(void **state)
{
	(void)state;
	assert_int_equal(host_parse_throttled_ns("usage_usec 70\nuser_usec 30\nnr_periods 4\n"
						 "nr_throttled 3\nthrottled_usec 1500\n"
						 "nr_bursts 0\n"),
			 1500 * NS_PER_US);
	assert_int_equal(host_parse_throttled_ns("throttled_usec 0\n"), 0);
	assert_int_equal(host_parse_throttled_ns("usage_usec 70\nuser_usec 30\n"), UNKNOWN);
	assert_int_equal(host_parse_throttled_ns("xthrottled_usec 1\n"), UNKNOWN);
	assert_int_equal(host_parse_throttled_ns("throttled_usec "), UNKNOWN);
	assert_int_equal(host_parse_throttled_ns(""), UNKNOWN);
}

/* --- Real processes --- */

static pid_t children[2];

/* Starts a child that does what `act` does, then sleeps until it is killed. */
static pid_t child_start(size_t i, void (*act)(int), int argument)
{
	children[i] = fork();
	assert_true(children[i] >= 0);
	if (children[i] == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		act(argument);
		for (;;)
			(void)pause();
	}
	return children[i];
}

static int children_end(void **state)
{
	(void)state;
	for (size_t i = 0; i < 2; i++) {
		if (children[i] > 0) {
			(void)kill(children[i], SIGKILL);
			(void)waitpid(children[i], NULL, 0);
		}
		children[i] = 0;
	}
	return 0;
}

/*
 * Looks until `is` says yes. Nothing reports that another process has fallen asleep, so this asks
 * again and again.
 */
static struct process_word await(pid_t pid, bool (*is)(const struct process_word *, uint64_t),
				 uint64_t argument)
{
	uint64_t began_ns = clock_now_ns();
	struct process_word word;

	for (;;) {
		process_look(pid, &word);
		if (is(&word, argument))
			return word;
		if (clock_now_ns() - began_ns > PATIENCE_NS)
			fail_msg("state %c, call %s, CPU time %llu ns after %llu s", word.state,
				 word.call, (unsigned long long)word.cpu_ns,
				 (unsigned long long)(PATIENCE_NS / NS_PER_S));
		(void)poll(NULL, 0, 1);
	}
}

static bool is_in_state(const struct process_word *word, uint64_t state)
{
	return word->state == (char)state;
}

static bool is_frozen_in_state(const struct process_word *word, uint64_t state)
{
	return word->frozen && is_in_state(word, state);
}

static bool has_used(const struct process_word *word, uint64_t cpu_ns)
{
	return word->cpu_ns != UNKNOWN && word->cpu_ns >= cpu_ns;
}

static bool has_waited(const struct process_word *word, uint64_t wait_ns)
{
	return word->wait_ns != UNKNOWN && word->wait_ns >= wait_ns;
}

/* Whether a file of a process says anything to this user. */
static bool says(pid_t pid, const char *name)
{
	char path[64], byte;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);

	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool good = fd >= 0 && read(fd, &byte, 1) == 1;

	fd_close(fd);
	return good;
}

static void assert_call(pid_t pid, const struct process_word *word, const char *name)
{
	if (says(pid, "syscall"))
		assert_string_equal(word->call, name);
	else
		assert_string_equal(word->call, "");
}

static void test_own(void **state)
{
	struct process_word word;

	(void)state;
	process_look(getpid(), &word);
	assert_int_equal(word.state, 'R');
	assert_false(word.frozen);
	assert_true(word.cpu_ns != UNKNOWN);
	assert_string_equal(word.wchan, "");
	assert_call(getpid(), &word, "read");
}

static void act_sleep(int seconds)
{
	struct timespec duration = {.tv_sec = seconds};

	/* By its number: which of two calls the C library makes is its own affair. */
	(void)syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &duration, NULL);
}

static void test_asleep(void **state)
{
	pid_t pid = child_start(0, act_sleep, 1000);
	struct process_word word = await(pid, is_in_state, 'S');

	(void)state;
	assert_call(pid, &word, "clock_nanosleep");
	assert_true(word.cpu_ns < NS_PER_S);
	assert_false(word.frozen);
}

static void test_stopped(void **state)
{
	pid_t pid = child_start(0, act_sleep, 1000);
	struct process_word word;

	(void)state;
	assert_int_equal(kill(pid, SIGSTOP), 0);
	assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
	process_look(pid, &word);
	assert_int_equal(word.state, 'T');
	assert_false(word.frozen);

	assert_int_equal(kill(pid, SIGCONT), 0);
	word = await(pid, is_in_state, 'S');
	assert_true(word.call[0] != '\0' || !says(pid, "syscall"));
}

/* A name that looks like the rest of the line, as any process may give itself. */
static void act_bad_name(int unused)
{
	(void)unused;
	(void)prctl(PR_SET_NAME, ") T 1 (x) Z 2 3");
	(void)raise(SIGSTOP);
}

static void test_bad_name(void **state)
{
	pid_t pid = child_start(0, act_bad_name, 0);
	struct process_word word;

	(void)state;
	assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
	assert_int_equal(kill(pid, SIGCONT), 0);
	word = await(pid, is_in_state, 'S');
	assert_true(word.cpu_ns < PATIENCE_NS);
}

static void act_spin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((unsigned)cpu, &set);
	(void)sched_setaffinity(0, sizeof(set), &set);
	for (;;)
		atomic_signal_fence(memory_order_seq_cst);
}

static void test_spinning(void **state)
{
	uint64_t before_ns = clock_now_ns();
	pid_t pid = child_start(0, act_spin, sched_getcpu());
	struct process_word first = await(pid, has_used, 20 * NS_PER_MS);
	struct process_word second = await(pid, has_used, first.cpu_ns + 50 * NS_PER_MS);

	(void)state;
	assert_int_equal(second.state, 'R');
	assert_string_equal(second.wchan, "");
	/* No more than time has passed, but for one tick. */
	assert_true(second.cpu_ns <= clock_now_ns() - before_ns + 10 * NS_PER_MS);
}

/* Two on one CPU: each is ready and waits for the other's turn to end. */
static void test_waiting_for_a_cpu(void **state)
{
	int cpu = sched_getcpu();
	pid_t one = child_start(0, act_spin, cpu), other = child_start(1, act_spin, cpu);
	struct process_word word;

	(void)state;
	word = await(one, has_used, 1);
	if (word.wait_ns == UNKNOWN)
		skip();
	word = await(one, has_waited, 20 * NS_PER_MS);
	assert_int_equal(word.state, 'R');
	word = await(other, has_waited, 20 * NS_PER_MS);
	assert_int_equal(word.state, 'R');
}

static void act_lock(int fd)
{
	char path[64];

	/* Opened anew, for the lock belongs to what open() makes. */
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	(void)flock(open(path, O_RDWR | O_CLOEXEC), LOCK_EX);
}

static void test_blocked_in_a_lock(void **state)
{
	int fd = memfd_create("lock", MFD_CLOEXEC);

	(void)state;
	assert_int_equal(flock(fd, LOCK_EX), 0);

	pid_t pid = child_start(0, act_lock, fd);
	struct process_word word = await(pid, is_in_state, 'S');

	assert_call(pid, &word, "flock");
	fd_close(fd);
}

static void act_exit(int status)
{
	_exit(status);
}

static void test_zombie(void **state)
{
	pid_t pid = child_start(0, act_exit, 0);
	struct process_word word;
	siginfo_t info;

	(void)state;
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	process_look(pid, &word);
	assert_int_equal(word.state, 'Z');
	assert_string_equal(word.wchan, "");
}

static void assert_nothing_known(pid_t pid)
{
	struct process_word word;

	memset(&word, 'x', sizeof(word));
	process_look(pid, &word);
	assert_int_equal(word.state, '?');
	assert_false(word.frozen);
	assert_int_equal(word.cpu_ns, UNKNOWN);
	assert_int_equal(word.wait_ns, UNKNOWN);
	assert_string_equal(word.wchan, "");
	assert_string_equal(word.call, "");
}

static void test_no_such_process(void **state)
{
	pid_t pid = child_start(0, act_exit, 0);

	(void)state;
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	children[0] = 0;
	assert_nothing_known(pid);
	assert_nothing_known(0);
	assert_nothing_known(-1);
	assert_nothing_known(INT_MAX);
}

/* Processes that end while they are looked at; no descriptor stays behind. */
static void test_ends_meanwhile(void **state)
{
	int lowest = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);

	(void)state;
	fd_close(lowest);
	for (int i = 0; i < 100; i++) {
		pid_t pid = child_start(0, act_exit, 0);
		struct process_word word;
		int status;

		do {
			process_look(pid, &word);
			assert_non_null(strchr("RSDZX?", word.state));
		} while (waitpid(pid, &status, WNOHANG) == 0);
		children[0] = 0;
		assert_int_equal(status, 0);
	}

	int again = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);

	assert_int_equal(again, lowest);
	fd_close(again);
}

/* --- A frozen cgroup, where the test may make one --- */

static char cgroup[PATH_MAX];

/* Writes to a file of the test's cgroup. Returns whether it could. */
static bool cgroup_write(const char *name, const char *text)
{
	char path[PATH_MAX + 64];

	(void)snprintf(path, sizeof(path), "%s/%s", cgroup, name);

	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	fd_close(fd);
	return good;
}

/* Makes a cgroup v2 below the own one, with a child in it. */
static bool cgroup_make(pid_t pid)
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	char line[2048], own[2048] = "", number[16];

	while (file && fgets(line, sizeof(line), file))
		(void)sscanf(line, "0::%2047[^\n]", own);
	if (file)
		(void)fclose(file);
	for (int i = 0; i < 2 && own[0]; i++) {
		(void)snprintf(cgroup, sizeof(cgroup), "/sys/fs/cgroup%s%s/laned-test-%d",
			       i == 0 ? "" : "/unified", own, (int)getpid());
		(void)snprintf(number, sizeof(number), "%d", (int)pid);
		if (mkdir(cgroup, 0755) == 0) {
			if (cgroup_write("cgroup.procs", number))
				return true;
			(void)rmdir(cgroup);
		}
	}
	cgroup[0] = '\0';
	return false;
}

static int cgroup_end(void **state)
{
	(void)children_end(state);
	return cgroup[0] == '\0' || rmdir(cgroup) == 0 ? 0 : -1;
}

static void test_frozen(void **state)
{
	pid_t pid = child_start(0, act_sleep, 1000);

	(void)state;
	if (!cgroup_make(pid) || !cgroup_write("cgroup.freeze", "1"))
		skip();
	/* Nothing else tells: to all appearances it sleeps, even when it is stopped as well. */
	(void)await(pid, is_frozen_in_state, 'S');
	assert_int_equal(kill(pid, SIGSTOP), 0);
	(void)await(pid, is_frozen_in_state, 'S');
	assert_true(cgroup_write("cgroup.freeze", "0"));
	assert_false(await(pid, is_in_state, 'T').frozen);
}

/* --- The host --- */

static void assert_grows(uint64_t before, uint64_t after)
{
	assert_true((before == UNKNOWN) == (after == UNKNOWN));
	assert_true(after >= before);
}

static void test_host(void **state)
{
	(void)state;

	uint64_t before_ns = host_throttled_ns();

	assert_grows(before_ns, host_throttled_ns());
}

/* The two clocks as the test reads them, the second one within the first one's two readings. */
static void test_suspended(void **state)
{
	struct timespec boot;
	uint64_t before_ns = clock_now_ns();

	(void)state;
	assert_int_equal(clock_gettime(CLOCK_BOOTTIME, &boot), 0);

	uint64_t after_ns = clock_now_ns(), suspended_ns = clock_suspended_ns();
	uint64_t boot_ns = (uint64_t)boot.tv_sec * NS_PER_S + (uint64_t)boot.tv_nsec;

	assert_in_range(suspended_ns + NS_PER_MS, boot_ns + NS_PER_MS - after_ns,
			boot_ns + 2 * NS_PER_MS + (after_ns - before_ns) - before_ns);
}

#define TEST(function) cmocka_unit_test_teardown(function, children_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stat),
		cmocka_unit_test(test_schedstat),
		cmocka_unit_test(test_wchan),
		cmocka_unit_test(test_call),
		cmocka_unit_test(test_host_texts),
		TEST(test_own),
		TEST(test_asleep),
		TEST(test_stopped),
		TEST(test_bad_name),
		TEST(test_spinning),
		TEST(test_waiting_for_a_cpu),
		TEST(test_blocked_in_a_lock),
		TEST(test_zombie),
		TEST(test_no_such_process),
		TEST(test_ends_meanwhile),
		cmocka_unit_test_teardown(test_frozen, cgroup_end),
		cmocka_unit_test(test_host),
		cmocka_unit_test(test_suspended),
	};

	return cmocka_run_group_tests_name("process", tests, NULL, NULL);
}
