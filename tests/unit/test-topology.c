/* Topologies: the plan of each, and that all names agree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "topology/topology.h"

static void check_plan(const char *topology, unsigned workers, unsigned standby, unsigned cpus,
		       struct plan expected)
{
	struct group_settings group = {
		.topology = (char *)topology, .workers = workers, .standby = standby};
	struct plan plan = topology_plan(&group, cpus);

	assert_int_equal(plan.lanes, expected.lanes);
	assert_int_equal(plan.primaries, expected.primaries);
	assert_int_equal(plan.standbys, expected.standbys);
}

static void test_plans(void **state)
{
	(void)state;
	check_plan("shared-listener", 4, 1, 8, (struct plan){1, 4, 0});
	check_plan("shared-listener", 1, 3, 8, (struct plan){1, 1, 0});
	check_plan("reuseport", 4, 1, 8, (struct plan){4, 1, 0});
	check_plan("reuseport+standby", 4, 1, 8, (struct plan){4, 1, 1});
	check_plan("reuseport+standby", 4, 3, 8, (struct plan){4, 1, 3});
	check_plan("reuseport+standby", 4, 0, 8, (struct plan){4, 1, 0});
}

static void test_auto_is_the_cpus(void **state)
{
	(void)state;
	check_plan("shared-listener", 0, 1, 8, (struct plan){1, 8, 0});
	check_plan("reuseport", 0, 1, 8, (struct plan){8, 1, 0});
	check_plan("reuseport+standby", 0, 2, 1, (struct plan){1, 1, 2});
}

static void test_primaries_come_first(void **state)
{
	const struct plan plan = {.lanes = 2, .primaries = 2, .standbys = 1};

	(void)state;
	assert_int_equal(plan_workers(&plan), 3);
	assert_int_equal(plan_role(&plan, 0), WORKER_PRIMARY);
	assert_int_equal(plan_role(&plan, 1), WORKER_PRIMARY);
	assert_int_equal(plan_role(&plan, 2), WORKER_STANDBY);
	assert_string_equal(worker_role_name(WORKER_PRIMARY), "primary");
	assert_string_equal(worker_role_name(WORKER_STANDBY), "standby");
}

/* Extra workers are none of the plan: their places come behind those that it has. */
static void test_extra_workers_come_last(void **state)
{
	const struct plan plan = {.lanes = 2, .primaries = 2, .standbys = 1};
	const struct plan alone = {.lanes = 1, .primaries = 1};

	(void)state;
	assert_int_equal(plan_role(&plan, 3), WORKER_EXTRA);
	assert_int_equal(plan_role(&plan, 66), WORKER_EXTRA);
	assert_int_equal(plan_role(&alone, 1), WORKER_EXTRA);
	assert_string_equal(worker_role_name(WORKER_EXTRA), "extra");
}

static void test_names(void **state)
{
	(void)state;
	for (const struct topology *const *kind = topologies; *kind; kind++)
		assert_ptr_equal(topology_find((*kind)->name), *kind);
	assert_null(topology_find("ring"));
	assert_null(topology_find(""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plans),
		cmocka_unit_test(test_auto_is_the_cpus),
		cmocka_unit_test(test_primaries_come_first),
		cmocka_unit_test(test_extra_workers_come_last),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests_name("topology", tests, NULL, NULL);
}
