/*
 * The choices of the schema are the tables of those who implement them, plus what stands for one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "config/schema.h"
#include "engine/engine.h"
#include "topology/topology.h"

static size_t count_choices(const char *path)
{
	const struct schema_key *key = schema_find(SCHEMA_GROUP, path);
	size_t n = 0;

	assert_non_null(key);
	while (key->choices[n].text)
		n++;
	return n;
}

static bool is_choice(const char *path, const char *name)
{
	const struct schema_choice *choice = schema_find(SCHEMA_GROUP, path)->choices;

	while (choice->text && strcmp(choice->text, name) != 0)
		choice++;
	return choice->text;
}

static void test_topologies(void **state)
{
	size_t n = 0;

	(void)state;
	for (; topologies[n]; n++)
		assert_true(is_choice("topology", topologies[n]->name));
	assert_int_equal(count_choices("topology"), n);
}

static void test_engines(void **state)
{
	size_t n = 0;

	(void)state;
	for (; engine_kinds[n]; n++) {
		assert_true(is_choice("engine", engine_kinds[n]->name));
		assert_ptr_equal(engine_find(engine_kinds[n]->name), engine_kinds[n]);
	}
	assert_true(is_choice("engine", "auto"));
	assert_ptr_equal(engine_find("auto"), engine_kinds[0]);
	assert_int_equal(count_choices("engine"), n + 1);
	assert_null(engine_find("kqueue"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_topologies),
		cmocka_unit_test(test_engines),
	};

	return cmocka_run_group_tests_name("names", tests, NULL, NULL);
}
