/* Limits: even shares, descriptors, and what the check finds; each finding names both places. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "master/limits.h"

static struct group_settings group_of(const char *topology)
{
	return (struct group_settings){
		.name = (char *)"echo",
		.n_listen = 2,
		.topology = (char *)topology,
		.workers = 4,
		.standby = 1,
		.backlog = 4096,
		.max_connections = 10000,
		.buffer_memory_bytes = 64U << 20,
		.origin = {.file = "laned.conf", .line = 5},
	};
}

static const struct host_limits roomy = {.cpus = 4, .nofile = 1000000, .somaxconn = 4096};

/* Checks one group. Returns the text of the findings, to be freed. */
static char *check(struct group_settings *group, const struct host_limits *host, unsigned errors,
		   unsigned warnings)
{
	const struct settings settings = {.groups = group, .n_groups = 1};
	struct report report = {0};
	char *text = NULL;
	size_t size;

	report.stream = open_memstream(&text, &size);
	assert_non_null(report.stream);
	limits_check(&settings, host, &report);
	assert_int_equal(fclose(report.stream), 0);
	assert_int_equal(report.errors, errors);
	assert_int_equal(report.warnings, warnings);
	report_fini(&report);
	return text;
}

static void check_says(struct group_settings *group, const struct host_limits *host,
		       unsigned errors, unsigned warnings, const char *first, const char *second)
{
	char *text = check(group, host, errors, warnings);

	assert_non_null(strstr(text, first));
	assert_non_null(strstr(text, second));
	free(text);
}

static void test_shares_add_up(void **state)
{
	uint64_t sum = 0;

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		sum += limits_share(10000, 3, i);
	assert_int_equal(sum, 10000);
	assert_int_equal(limits_share(10000, 3, 0), 3334);
	assert_int_equal(limits_share(10000, 3, 2), 3333);
	assert_int_equal(limits_share(UINT64_MAX, 1, 0), UINT64_MAX);
}

static void test_nofile(void **state)
{
	struct group_settings group = group_of("reuseport");
	struct plan plan = topology_plan(&group, 1);
	struct host_limits tight = {.nofile = 1000};

	(void)state;
	assert_int_equal(limits_nofile(&group, &plan, &roomy), 2500 + 2 + LANE_SPARE_FDS);
	assert_int_equal(limits_nofile(&group, &plan, &tight), 1000);
	group.nofile = 9000;
	assert_int_equal(limits_nofile(&group, &plan, &roomy), 9000);
}

static void test_lane_shape(void **state)
{
	struct group_settings group = group_of("reuseport+standby");
	struct plan plan = topology_plan(&group, 1);
	struct lane_shape shape = limits_lane_shape(&group, &plan, 3, 5000);

	(void)state;
	assert_int_equal(shape.workers, 2);
	assert_int_equal(shape.conns, 5000);
	assert_int_equal(shape.blocks, 256);
	assert_int_equal(shape.max_connections, 2500);
}

static void test_nothing_to_say(void **state)
{
	struct group_settings group = group_of("reuseport+standby");
	char *text = check(&group, &roomy, 0, 0);

	(void)state;
	assert_string_equal(text, "");
	free(text);
}

static void test_standby_ignored(void **state)
{
	struct group_settings group = group_of("reuseport");

	(void)state;
	free(check(&group, &roomy, 0, 0)); /* the default is nobody's mistake, and in every dump */
	group.standby = 2;
	group.origins[GROUP_KEY_STANDBY] = (struct origin){.file = "laned.conf", .line = 9};
	check_says(&group, &roomy, 0, 1, "laned.conf:9", "\"reuseport\" has none");
}

static void test_backlog_cut(void **state)
{
	struct group_settings group = group_of("reuseport");

	(void)state;
	group.backlog = 4097;
	group.origins[GROUP_KEY_BACKLOG] = (struct origin){.file = "laned.conf", .line = 7};
	check_says(&group, &roomy, 0, 1, "laned.conf:7", "net.core.somaxconn");

	struct host_limits unknown = {.cpus = 4};

	free(check(&group, &unknown, 0, 0));
}

static void test_fewer_connections_than_lanes(void **state)
{
	struct group_settings group = group_of("reuseport");

	(void)state;
	group.max_connections = 3;
	group.origins[GROUP_KEY_WORKERS] = (struct origin){.file = "other.conf", .line = 2};
	check_says(&group, &roomy, 1, 0, "laned.conf:5", "other.conf:2");
}

static void test_too_little_buffer_memory(void **state)
{
	struct group_settings group = group_of("reuseport+standby");

	(void)state;
	/* 4 lanes of 2 workers with 2 blocks each. */
	group.buffer_memory_bytes = 16 * POOL_BLOCK_BYTES;
	free(check(&group, &roomy, 0, 0));
	group.buffer_memory_bytes--;
	check_says(&group, &roomy, 1, 0, "at least 1024 KiB", "its default");
}

static void test_nofile_below_max_connections(void **state)
{
	struct group_settings group = group_of("shared-listener");

	(void)state;
	group.nofile = 10000;
	group.origins[GROUP_KEY_NOFILE] = (struct origin){.file = "laned.conf", .line = 12};
	group.origins[GROUP_KEY_MAX_CONNECTIONS] = (struct origin){.file = "laned.conf",
								   .line = 11};
	check_says(&group, &roomy, 1, 0, "laned.conf:12", "(laned.conf:11)");
	group.nofile = 10000 + 2 + LANE_SPARE_FDS;
	free(check(&group, &roomy, 0, 0));
}

static void test_hard_limit(void **state)
{
	struct group_settings group = group_of("shared-listener");
	struct host_limits tight = {.cpus = 4, .nofile = 4096};
	struct host_limits hopeless = {.cpus = 4, .nofile = 2 + LANE_SPARE_FDS};

	(void)state;
	group.origins[GROUP_KEY_MAX_CONNECTIONS] = (struct origin){.file = "laned.conf",
								   .line = 11};
	check_says(&group, &tight, 0, 1, "laned.conf:11", "4096");
	check_says(&group, &hopeless, 2, 0, "laned.conf:11", "no descriptor"); /* nor the master */
}

static void test_descriptors_of_the_master(void **state)
{
	struct group_settings group = group_of("reuseport");
	struct host_limits tight = {.cpus = 4, .nofile = 3000};

	(void)state;
	group.workers = 500;
	group.max_connections = 500;
	free(check(&group, &tight, 0, 0)); /* 500 * (2 + 1 + 2) and some */
	tight.nofile = 2500;
	check_says(&group, &tight, 1, 0, "the master needs 2532 descriptors", "2500");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shares_add_up),
		cmocka_unit_test(test_nofile),
		cmocka_unit_test(test_lane_shape),
		cmocka_unit_test(test_nothing_to_say),
		cmocka_unit_test(test_standby_ignored),
		cmocka_unit_test(test_backlog_cut),
		cmocka_unit_test(test_fewer_connections_than_lanes),
		cmocka_unit_test(test_too_little_buffer_memory),
		cmocka_unit_test(test_nofile_below_max_connections),
		cmocka_unit_test(test_hard_limit),
		cmocka_unit_test(test_descriptors_of_the_master),
	};

	return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
