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
static unsigned extra_max; /* of the settings that are checked */

static int reset(void **state)
{
	(void)state;
	extra_max = 0;
	return 0;
}

/* Checks one group. Returns the text of the findings, to be freed. */
static char *check(struct group_settings *group, const struct host_limits *host, unsigned errors,
		   unsigned warnings)
{
	const struct settings settings = {
		.supervision = {.extra_max = extra_max},
		.groups = group,
		.n_groups = 1,
	};
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
	struct lane_shape shape = limits_lane_shape(&group, &plan, 3, 5000, 0);

	(void)state;
	assert_int_equal(shape.workers, 2);
	assert_int_equal(shape.conns, 5000);
	assert_int_equal(shape.blocks, 256);
	assert_int_equal(shape.max_connections, 2500);
}

/* Extra workers take nothing away from the others: their blocks come on top. */
static void test_lane_shape_with_extra_workers(void **state)
{
	struct group_settings group = group_of("reuseport+standby");
	struct plan plan = topology_plan(&group, 1);
	struct lane_shape shape = limits_lane_shape(&group, &plan, 0, 5000, 64);

	(void)state;
	assert_int_equal(shape.workers, 2 + 64);
	assert_int_equal(shape.conns, 5000);
	assert_int_equal(shape.blocks, 256 + 64);
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
	extra_max = 64; /* whose blocks are no part of that */
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
	struct host_limits tight = {.cpus = 4, .nofile = 3500};

	(void)state;
	group.workers = 500;
	group.max_connections = 500;
	free(check(&group, &tight, 0, 0)); /* 500 * (2 + 1 + 3) and some */
	tight.nofile = 3000;
	check_says(&group, &tight, 1, 0, "the master needs 3032 descriptors", "3000");
	extra_max = 4;
	tight.nofile = 9032; /* 500 * 4 * 3 more */
	free(check(&group, &tight, 0, 0));
	tight.nofile--;
	check_says(&group, &tight, 1, 0, "the master needs 9032 descriptors", "9031");
}

/* A group of 4 lanes of a primary, a standby and `extra_max` extra workers, with one fault. */
static struct group_settings group_with(struct fault_settings *fault)
{
	static const unsigned lines[][2] = {
		{FAULT_KEY_LANES, 21}, {FAULT_KEY_WORKERS, 22}, {FAULT_KEY_ROLES, 23}};
	struct group_settings group = group_of("reuseport+standby");

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		fault->origins[lines[i][0]] = (struct origin){.file = "laned.conf",
							      .line = lines[i][1]};
	group.faults = fault;
	group.n_faults = 1;
	return group;
}

static void test_faults_that_strike(void **state)
{
	unsigned lanes[] = {0, 3};
	unsigned workers[] = {1, 0, 5};
	struct fault_settings everywhere = {.kind = FAULT_CRASH};
	struct fault_settings somewhere = {
		.lanes = {lanes, 2},
		.workers = {workers, 3},
		.roles = FAULT_PRIMARY | FAULT_STANDBY | FAULT_EXTRA,
	};
	struct fault_settings extra = {.workers = {workers, 3}, .roles = FAULT_EXTRA};
	struct group_settings group = group_with(&everywhere);

	(void)state;
	free(check(&group, &roomy, 0, 0));
	extra_max = 4;
	group = group_with(&somewhere);
	free(check(&group, &roomy, 0, 0));
	group = group_with(&extra);
	free(check(&group, &roomy, 0, 0));
}

static void test_faults_in_lanes_and_workers_that_are_not_there(void **state)
{
	unsigned lanes[] = {0, 4, 7};
	unsigned workers[] = {0, 3};
	struct fault_settings in_lanes = {.lanes = {lanes, 3}};
	struct fault_settings of_workers = {.workers = {workers, 2}};
	struct group_settings group = group_with(&in_lanes);

	(void)state;
	check_says(&group, &roomy, 0, 1, "laned.conf:21", "in lane 4: lanes of the group: 4");
	group = group_with(&of_workers);
	extra_max = 1;
	check_says(&group, &roomy, 0, 1, "laned.conf:22",
		   "worker 3: workers of a lane, with all "
		   "extra ones: 3");
	extra_max = 2;
	free(check(&group, &roomy, 0, 0));
}

static void test_faults_of_roles_that_are_not_there(void **state)
{
	unsigned primary[] = {0};
	struct fault_settings standby = {.roles = FAULT_PRIMARY | FAULT_STANDBY};
	struct fault_settings extra = {.roles = FAULT_EXTRA};
	struct fault_settings neither = {.workers = {primary, 1}, .roles = FAULT_STANDBY};
	struct group_settings group = group_with(&standby);

	(void)state;
	free(check(&group, &roomy, 0, 0));
	group.standby = 0;
	group.origins[GROUP_KEY_STANDBY] = (struct origin){.file = "laned.conf", .line = 9};
	check_says(&group, &roomy, 0, 1, "laned.conf:23", "standby = 0 asks for none");
	group.standby = 1;
	group.topology = (char *)"reuseport";
	check_says(&group, &roomy, 0, 1, "laned.conf:23", "only topology");

	group = group_with(&extra);
	check_says(&group, &roomy, 0, 1, "laned.conf:23", "supervision.extra_max = 0");
	extra_max = 1;
	free(check(&group, &roomy, 0, 0));

	group = group_with(&neither);
	check_says(&group, &roomy, 0, 1, "laned.conf:23",
		   "none of its workers has one of its roles");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_shares_add_up, reset),
		cmocka_unit_test_setup(test_nofile, reset),
		cmocka_unit_test_setup(test_lane_shape, reset),
		cmocka_unit_test_setup(test_lane_shape_with_extra_workers, reset),
		cmocka_unit_test_setup(test_nothing_to_say, reset),
		cmocka_unit_test_setup(test_standby_ignored, reset),
		cmocka_unit_test_setup(test_backlog_cut, reset),
		cmocka_unit_test_setup(test_fewer_connections_than_lanes, reset),
		cmocka_unit_test_setup(test_too_little_buffer_memory, reset),
		cmocka_unit_test_setup(test_nofile_below_max_connections, reset),
		cmocka_unit_test_setup(test_hard_limit, reset),
		cmocka_unit_test_setup(test_descriptors_of_the_master, reset),
		cmocka_unit_test_setup(test_faults_that_strike, reset),
		cmocka_unit_test_setup(test_faults_in_lanes_and_workers_that_are_not_there, reset),
		cmocka_unit_test_setup(test_faults_of_roles_that_are_not_there, reset),
	};

	return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
