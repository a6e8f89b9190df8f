/*
 * The control socket's place: one process at a time, and nothing of others is removed.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/place.h"

static char folder[] = "/tmp/laned-place.XXXXXX";
static char path[64], lock[64];

static int setup(void **state)
{
	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/laned-place.XXXXXX");
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/socket", folder);
	snprintf(lock, sizeof(lock), "%s/socket.lock", folder);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(path);
	unlink(lock);
	return rmdir(folder);
}

static int take(struct place *place)
{
	pid_t pid;

	return place_take(place, path, &pid);
}

static void test_taken_once(void **state)
{
	struct place first, second;
	pid_t pid;
	int fd = place_take(&first, path, &pid);

	(void)state;
	assert_return_code(fd, -fd);
	assert_int_equal(place_take(&second, path, &pid), -EALREADY);
	assert_int_equal(pid, getpid());
	assert_int_equal(access(path, F_OK), 0);
	close(fd);
	place_leave(&first);
	assert_int_equal(access(path, F_OK), -1);
	fd = take(&second);
	assert_return_code(fd, -fd);
	close(fd);
	place_leave(&second);
}

static void test_stale_socket_is_replaced(void **state)
{
	struct place dead, place;
	int fd = take(&dead);

	(void)state;
	assert_return_code(fd, -fd);
	close(fd);
	dead.inode = 0; /* it could not remove it */
	place_leave(&dead);
	assert_int_equal(access(path, F_OK), 0);
	fd = take(&place);
	assert_return_code(fd, -fd);
	close(fd);
	place_leave(&place);
}

static void test_other_things_stay(void **state)
{
	struct place place;
	int fd = open(path, O_CREAT | O_WRONLY, 0600);

	(void)state;
	close(fd);
	assert_int_equal(take(&place), -EEXIST);
	assert_int_equal(place.lock_fd, -1);
	assert_int_equal(access(path, F_OK), 0);
}

/* Somebody has put something else at the path of one that leaves. */
static void test_only_its_own_is_removed(void **state)
{
	struct place place;
	int fd = take(&place);

	(void)state;
	assert_return_code(fd, -fd);
	assert_int_equal(unlink(path), 0);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	place_leave(&place);
	close(fd);
	assert_int_equal(access(path, F_OK), 0);
}

static void test_served_socket_stays(void **state)
{
	struct place first, second;
	int fd = take(&first);

	(void)state;
	assert_return_code(fd, -fd);
	assert_int_equal(unlink(lock), 0); /* so that the second one gets a lock of its own */
	assert_int_equal(take(&second), -EEXIST);
	close(fd);
	place_leave(&first);
}

static void test_long_path(void **state)
{
	char text[PLACE_MAX + 1];
	struct place place;
	pid_t pid;

	(void)state;
	memset(text, '/', sizeof(text));
	text[PLACE_MAX] = '\0';
	assert_int_equal(place_take(&place, text, &pid), -ENAMETOOLONG);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_taken_once),          TEST(test_stale_socket_is_replaced),
		TEST(test_other_things_stay),   TEST(test_only_its_own_is_removed),
		TEST(test_served_socket_stays), TEST(test_long_path),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
