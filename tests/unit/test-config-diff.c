/*
 * What differs between two settings, each kind of key; what is kept until a restart; references.
 */
#include "config-fixture.h"

#include "config/diff.h"

#define GROUP(rest) "groups = ( { name = \"a\"; listen = \"127.0.0.1:7001\"; " rest " } );\n"

static struct settings *load(const char *text)
{
	fixture_write_text("x.conf", text);
	return fixture_load_good("x.conf");
}

/* Compares what diff_make() says of two texts: a line for each entry. */
static void check_diff(const char *old_text, const char *new_text, const char *expected)
{
	struct settings *old = load(old_text);
	struct settings *new = load(new_text);
	struct diff diff;
	char *text = NULL;
	size_t length;
	FILE *stream = open_memstream(&text, &length);

	assert_int_equal(diff_make(old, new, &diff), 0);
	for (size_t i = 0; i < diff.n; i++) {
		const struct diff_entry *entry = &diff.entries[i];

		fprintf(stream, "%s: %s -> %s%s\n", entry->path,
			entry->old_text ? entry->old_text : "none",
			entry->new_text ? entry->new_text : "none", entry->restart ? " !" : "");
	}
	assert_int_equal(fclose(stream), 0);
	assert_string_equal(text, expected);
	free(text);
	diff_fini(&diff);
	settings_free(old);
	settings_free(new);
}

static void test_top_level(void **state)
{
	(void)state;
	check_diff("", "", "");
	check_diff("drain_timeout = \"1500ms\";", "drain_timeout = \"1.5s\";", "");
	check_diff("log = { target = \"stderr\"; };", "log = { level = \"debug\"; };",
		   "log.target: \"stderr\" -> \"auto\" !\n"
		   "log.level: \"info\" -> \"debug\"\n");
	check_diff("max_generations = 2;", "allow_faults = true; supervision = { extra_max = 1; };",
		   "max_generations: 2 -> 8\n"
		   "supervision.extra_max: 4 -> 1\n"
		   "allow_faults: false -> true\n");
}

static void test_keys_of_groups(void **state)
{
	(void)state;
	check_diff(GROUP("workers = 2;"),
		   GROUP("backlog = 5; echo = { tag = true; }; buffer_memory = \"1MiB\";"),
		   "groups.a.workers: 2 -> \"auto\"\n"
		   "groups.a.backlog: 4096 -> 5\n"
		   "groups.a.buffer_memory: \"64MiB\" -> \"1MiB\"\n"
		   "groups.a.echo.tag: false -> true\n");
	check_diff(
		GROUP(""),
		"groups = ( { name = \"a\"; listen = [ \"127.0.0.1:7001\", \"[::1]:7001\" ]; } );",
		"groups.a.listen: [ \"127.0.0.1:7001\" ] -> [ \"127.0.0.1:7001\", "
		"\"[::1]:7001\" ]\n");
}

static void test_faults(void **state)
{
	(void)state;
	check_diff("allow_faults = true;" GROUP(""),
		   "allow_faults = true;" GROUP(
			   "faults = ( { kind = \"sleep\"; duration = \"2s\"; lanes = [ 0, 1 ]; }, "
			   "{ kind = \"exit\"; roles = [ \"extra\" ]; } );"),
		   "groups.a.faults: ( ) -> ( { kind = \"sleep\"; duration = \"2s\"; "
		   "lanes = [ 0, 1 ]; }, { kind = \"exit\"; roles = [ \"extra\" ]; } )\n");
}

static void test_groups_come_and_go_in_any_order(void **state)
{
	static const char two[] =
		"groups = ( { name = \"a\"; listen = \"127.0.0.1:7001\"; },\n"
		"{ name = \"b\"; listen = \"127.0.0.1:7002\"; echo = { close_after = 3; }; } );";
	static const char turned[] =
		"groups = ( { name = \"b\"; listen = \"127.0.0.1:7002\"; echo = { close_after = 3; }; },\n"
		"{ name = \"a\"; listen = \"127.0.0.1:7001\"; } );";
	static const char b[] = "{ name = \"b\"; listen = [ \"127.0.0.1:7002\" ]; "
				"echo = { close_after = 3; }; }";
	char expected[256];

	(void)state;
	check_diff(two, turned, "");
	snprintf(expected, sizeof(expected), "groups.b: none -> %s\n", b);
	check_diff(GROUP(""), two, expected);
	snprintf(expected, sizeof(expected), "groups.b: %s -> none\n", b);
	check_diff(two, GROUP(""), expected);
}

static void test_equal_groups(void **state)
{
	struct settings *a = load(GROUP("workers = 2;"));
	struct settings *b = load("\n\n" GROUP("backlog = 0x1000;\nworkers = 2;"));
	struct settings *c = load(GROUP("workers = 3;"));

	(void)state;
	assert_true(diff_groups_equal(&a->groups[0], &b->groups[0]));
	assert_false(diff_groups_equal(&a->groups[0], &c->groups[0]));
	settings_free(a);
	settings_free(b);
	settings_free(c);
}

/* What takes a restart keeps its value, and its place outlives the settings that it came from. */
static void test_keys_that_take_a_restart_are_kept(void **state)
{
	struct settings *running = load("\nlog = { target = \"stderr\"; level = \"debug\"; };\n");
	struct settings *next = load("user = \"root\"; log = { target = \"journal\"; };\n");

	(void)state;
	assert_int_equal(settings_keep(next, running), 0);
	settings_free(running);
	assert_int_equal(next->log_target, LOG_TARGET_STDERR);
	assert_string_equal(next->log_target_origin.file, "x.conf");
	assert_int_equal(next->log_target_origin.line, 2);
	assert_string_equal(next->user, "");
	assert_null(next->user_origin.file);
	assert_int_equal(next->log_level, LOG_INFO);
	settings_free(next);
}

static void test_references(void **state)
{
	struct settings *settings = load(GROUP(""));
	struct settings *more = settings_ref(settings);

	(void)state;
	assert_ptr_equal(more, settings);
	assert_null(settings_free(settings));
	assert_string_equal(more->groups[0].name, "a");
	assert_null(settings_free(more));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_top_level),
		cmocka_unit_test(test_keys_of_groups),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_groups_come_and_go_in_any_order),
		cmocka_unit_test(test_equal_groups),
		cmocka_unit_test(test_keys_that_take_a_restart_are_kept),
		cmocka_unit_test(test_references),
	};

	return cmocka_run_group_tests_name("config-diff", tests, fixture_enter, fixture_leave);
}
