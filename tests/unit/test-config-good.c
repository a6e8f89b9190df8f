/*
 * Configurations that are fine: every key, every way to write it, and where it was written.
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "config-fixture.h"

#include "base/units.h"
#include "config/schema.h"
#include "config/value.h"

#define GROUP_HEAD "name = \"a\"; listen = \"127.0.0.1:7\"; "

/* A file with one group that has these keys, too. */
static struct settings *load_group(const char *keys)
{
	char text[2048];

	snprintf(text, sizeof(text), "groups = ( { " GROUP_HEAD "%s } );", keys);
	fixture_write_text("x.conf", text);
	return fixture_load_good("x.conf");
}

static void check_builtin(const struct settings *settings)
{
	const struct group_settings *group = &settings->groups[0];

	assert_string_equal(settings->user, "");
	assert_true(settings->drain_timeout_ns == 30 * NS_PER_S);
	assert_int_equal(settings->log_target, LOG_TARGET_AUTO);
	assert_int_equal(settings->log_level, LOG_INFO);
	assert_int_equal(settings->n_groups, 1);
	assert_string_equal(group->name, "echo");
	assert_int_equal(group->n_listen, 1);
	assert_string_equal(group->listen[0].address.text, "127.0.0.1:7007");
	assert_string_equal(group->topology, "shared-listener");
	assert_int_equal(group->workers, 2);
	assert_int_equal(group->standby, 1);
	assert_string_equal(group->engine, "auto");
	assert_string_equal(group->share, "queue");
	assert_int_equal(group->backlog, 4096);
	assert_int_equal(group->max_connections, 10000);
	assert_true(group->buffer_memory_bytes == UINT64_C(64) << 20);
	assert_int_equal(group->nofile, 0);
	assert_true(group->idle_timeout_ns == 0);
	assert_true(group->send_timeout_ns == 60 * NS_PER_S);
	assert_false(group->echo_tag);
	assert_int_equal(group->echo_close_after, 0);
}

/* SYSCONFDIR of the build has no such file, unless laned is installed there. */
static void test_without_a_file(void **state)
{
	struct settings *settings;

	(void)state;
	if (access(SYSCONFDIR "/laned/laned.conf", F_OK) == 0)
		skip();
	settings = fixture_load_good(NULL);
	check_builtin(settings);
	assert_null(settings->file);
	assert_int_equal(settings->n_files, 0);
	assert_null(settings->groups[0].origin.file);
	settings_free(settings);
}

static void test_without_groups(void **state)
{
	static const char *const texts[] = {"", "\n", "# nothing", "/* nothing */", "\r\n\r\n"};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct settings *settings;

		fixture_write_text("x.conf", texts[i]);
		settings = fixture_load_good("x.conf");
		check_builtin(settings);
		assert_string_equal(settings->file, "x.conf");
		settings_free(settings);
	}
}

static const char every_key[] = "user = \"root\";\n"
				"drain_timeout = \"1min\";\n"
				"log = {\n"
				"  target = \"journal\";\n"
				"  level = \"debug\";\n"
				"};\n"
				"groups = (\n"
				"  {\n"
				"    name = \"Echo_1-x\";\n"
				"    listen = [ \"127.0.0.1:7\",\n"
				"               \"[::1]:7\"\n"
				"    ];\n"
				"    topology = \"reuseport+standby\";\n"
				"    workers = 512;\n"
				"    standby = 16;\n"
				"    engine = \"epoll\";\n"
				"    share = \"queue\";\n"
				"    backlog = 2147483647;\n"
				"    max_connections = 10000000;\n"
				"    buffer_memory = \"1TiB\";\n"
				"    nofile = 1000000000;\n"
				"    idle_timeout = \"30d\";\n"
				"    send_timeout = \"1s\";\n"
				"    echo = {\n"
				"      tag = true;\n"
				"      close_after = 7;\n"
				"    };\n"
				"  }\n"
				");\n";

static void test_every_key(void **state)
{
	struct loaded loaded = fixture_load_text(every_key);
	const struct settings *settings = loaded.settings;
	const struct group_settings *group;

	(void)state;
	assert_int_equal(loaded.result, 0);
	assert_string_equal(settings->user, "root");
	assert_true(settings->drain_timeout_ns == 60 * NS_PER_S);
	assert_int_equal(settings->log_target, LOG_TARGET_JOURNAL);
	assert_int_equal(settings->log_level, LOG_DEBUG);
	assert_int_equal(settings->n_groups, 1);
	group = &settings->groups[0];
	assert_string_equal(group->name, "Echo_1-x");
	assert_int_equal(group->n_listen, 2);
	assert_string_equal(group->listen[0].address.text, "127.0.0.1:7");
	assert_string_equal(group->listen[1].address.text, "[::1]:7");
	assert_string_equal(group->topology, "reuseport+standby");
	assert_int_equal(group->workers, 512);
	assert_int_equal(group->standby, 16);
	assert_string_equal(group->engine, "epoll");
	assert_string_equal(group->share, "queue");
	assert_int_equal(group->backlog, INT32_MAX);
	assert_int_equal(group->max_connections, 10000000);
	assert_true(group->buffer_memory_bytes == UINT64_C(1) << 40);
	assert_int_equal(group->nofile, 1000000000);
	assert_true(group->idle_timeout_ns == 30 * 86400 * NS_PER_S);
	assert_true(group->send_timeout_ns == NS_PER_S);
	assert_true(group->echo_tag);
	assert_int_equal(group->echo_close_after, 7);
	fixture_release(&loaded);
}

static void check_origin(const struct origin *origin, unsigned line)
{
	assert_string_equal(origin->file, "x.conf");
	assert_int_equal(origin->line, line);
}

static void test_every_value_knows_its_line(void **state)
{
	struct loaded loaded = fixture_load_text(every_key);
	struct settings *settings = loaded.settings;
	struct group_settings *group = &settings->groups[0];
	static const unsigned lines[GROUP_KEYS] = {9,  10, 13, 14, 15, 16, 17, 18,
						   19, 20, 21, 22, 23, 25, 26};

	(void)state;
	check_origin(&settings->user_origin, 1);
	check_origin(&settings->drain_timeout_origin, 2);
	check_origin(&settings->log_target_origin, 4);
	check_origin(&settings->log_level_origin, 5);
	check_origin(&settings->groups_origin, 7);
	check_origin(&group->origin, 8);
	for (int i = 0; i < GROUP_KEYS; i++)
		check_origin(&group->origins[i], lines[i]);
	check_origin(&group->listen[0].origin, 10);
	check_origin(&group->listen[1].origin, 11);
	fixture_release(&loaded);
}

/* The table and the list of origins in settings.h are in the same order. */
static void test_every_key_of_a_group_has_its_own_origin(void **state)
{
	const struct schema_key *key = NULL;
	struct group_settings group;
	int n = 0;

	(void)state;
	while ((key = schema_next(SCHEMA_GROUP, key)))
		assert_ptr_equal(value_origin(key, &group), &group.origins[n++]);
	assert_int_equal(n, GROUP_KEYS);
}

/* value_is() compares with the text of the table. */
static void test_defaults_are_in_the_form_in_which_they_are_dumped(void **state)
{
	struct settings *settings = load_group("");

	(void)state;
	for (size_t i = 0; i < schema_n_keys; i++) {
		const struct schema_key *key = &schema_keys[i];
		const void *base = settings;
		char text[UNITS_TEXT_MAX];

		if (key->scope == SCHEMA_GROUP)
			base = &settings->groups[0];
		if (key->default_text)
			assert_string_equal(value_text(key, base, text), key->default_text);
	}
	settings_free(settings);
}

static void test_ways_to_write_addresses(void **state)
{
	static const char *const texts[] = {
		"\"127.0.0.1:7\"",
		"[ \"127.0.0.1:7\" ]",
		"( \"127.0.0.1:7\" )",
		"\"127.0.\" \"0.1:7\"",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		char text[256];
		struct loaded loaded;

		snprintf(text, sizeof(text), "groups = ( { name = \"a\"; listen = %s; } );",
			 texts[i]);
		loaded = fixture_load_text(text);
		assert_int_equal(loaded.result, 0);
		assert_int_equal(loaded.settings->groups[0].n_listen, 1);
		assert_string_equal(loaded.settings->groups[0].listen[0].address.text,
				    "127.0.0.1:7");
		fixture_release(&loaded);
	}
}

static void test_ways_to_write_numbers(void **state)
{
	struct settings *settings;

	(void)state;
	settings = load_group("backlog = 0x10; max_connections = 100L; workers = \"auto\"; "
			      "standby = 0; nofile = 64; buffer_memory = 3000000000L; "
			      "idle_timeout = 0; send_timeout = \"0\";");
	assert_int_equal(settings->groups[0].backlog, 16);
	assert_int_equal(settings->groups[0].max_connections, 100);
	assert_int_equal(settings->groups[0].workers, 0);
	assert_int_equal(settings->groups[0].standby, 0);
	assert_int_equal(settings->groups[0].nofile, 64);
	assert_true(settings->groups[0].buffer_memory_bytes == UINT64_C(3000000000));
	assert_true(settings->groups[0].idle_timeout_ns == 0);
	assert_true(settings->groups[0].send_timeout_ns == 0);
	settings_free(settings);

	settings = load_group("buffer_memory = 131072; echo = { tag = TRUE; };");
	assert_true(settings->groups[0].buffer_memory_bytes == 131072);
	assert_true(settings->groups[0].echo_tag);
	settings_free(settings);
}

static void test_separators_and_line_ends(void **state)
{
	struct settings *settings;

	(void)state;
	fixture_write_text("x.conf", "drain_timeout : \"5s\"\r\nlog : { level = \"error\", }\r\n"
				     "groups = ( { name = \"a\" listen = \"127.0.0.1:7\" },\r\n"
				     "# comment\r\n"
				     "{ name = \"b\", listen = \"127.0.0.1:8\" } )");
	settings = fixture_load_good("x.conf");
	assert_true(settings->drain_timeout_ns == 5 * NS_PER_S);
	assert_int_equal(settings->log_level, LOG_ERR);
	assert_int_equal(settings->n_groups, 2);
	assert_int_equal(settings->groups[1].origin.line, 5);
	settings_free(settings);
}

static void test_addresses_that_do_not_overlap(void **state)
{
	struct settings *settings;

	(void)state;
	fixture_write_text("x.conf", "groups = (\n"
				     "{ name = \"a\"; listen = [ \"0.0.0.0:7\", \"[::]:7\" ]; },\n"
				     "{ name = \"A\"; listen = [ \"0.0.0.0:8\", \"[::1]:8\" ]; },\n"
				     "{ name = \"b\"; listen = [ \"127.0.0.1:9\", "
				     "\"127.0.0.2:9\" ]; } );\n");
	settings = fixture_load_good("x.conf");
	assert_int_equal(settings->n_groups, 3);
	settings_free(settings);
}

static void test_origins_in_included_files(void **state)
{
	struct settings *settings;

	(void)state;
	assert_int_equal(mkdir("sub", 0700), 0);
	fixture_write_text("sub/x.conf", "drain_timeout = \"5s\";\n"
					 "@include \"groups.inc\"\n"
					 "log = { level = \"notice\"; };\n");
	fixture_write_text("sub/groups.inc",
			   "groups = (\n@include \"one.inc\"\n,\n@include \"two.inc\"\n);");
	fixture_write_text("sub/one.inc", "{ name = \"a\";\n  listen = \"127.0.0.1:7\"; }");
	fixture_write_text("sub/two.inc", "\n{ name = \"b\";\n  listen = [\n\"127.0.0.1:8\"\n] }");
	settings = fixture_load_good("sub/x.conf");
	assert_string_equal(settings->file, "sub/x.conf");
	assert_int_equal(settings->n_files, 4);
	assert_string_equal(settings->log_level_origin.file, "sub/x.conf");
	assert_int_equal(settings->log_level_origin.line, 3);
	assert_string_equal(settings->groups_origin.file, "sub/groups.inc");
	assert_int_equal(settings->groups_origin.line, 1);
	assert_string_equal(settings->groups[0].listen[0].origin.file, "sub/one.inc");
	assert_int_equal(settings->groups[0].listen[0].origin.line, 2);
	assert_string_equal(settings->groups[1].origin.file, "sub/two.inc");
	assert_int_equal(settings->groups[1].origin.line, 2);
	assert_int_equal(settings->groups[1].listen[0].origin.line, 4);
	settings_free(settings);
	unlink("sub/x.conf");
	unlink("sub/groups.inc");
	unlink("sub/one.inc");
	unlink("sub/two.inc");
}

/* Puts a file in the place of standard input for one load. */
static struct settings *load_from_stdin(const char *file)
{
	int saved = dup(STDIN_FILENO);
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	struct settings *settings;

	assert_true(saved >= 0 && fd >= 0);
	assert_int_equal(dup2(fd, STDIN_FILENO), STDIN_FILENO);
	settings = fixture_load_good("-");
	assert_int_equal(dup2(saved, STDIN_FILENO), STDIN_FILENO);
	close(saved);
	close(fd);
	return settings;
}

static void test_standard_input(void **state)
{
	struct settings *settings;

	(void)state;
	fixture_write_text("level.inc", "log = { level = \"debug\"; };\n");
	fixture_write_text("x.conf", "@include \"level.inc\"\ndrain_timeout = \"5s\";\n");
	settings = load_from_stdin("x.conf");
	assert_string_equal(settings->file, "<stdin>");
	assert_string_equal(settings->drain_timeout_origin.file, "<stdin>");
	assert_int_equal(settings->drain_timeout_origin.line, 2);
	assert_int_equal(settings->log_level, LOG_DEBUG);
	settings_free(settings);

	settings = load_from_stdin("/dev/null");
	check_builtin(settings);
	settings_free(settings);
}

static void test_a_pipe(void **state)
{
	static const char text[] = "drain_timeout = \"5s\";\n";
	int fds[2];
	char path[64];
	struct settings *settings;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(write(fds[1], text, strlen(text)), strlen(text));
	close(fds[1]);
	snprintf(path, sizeof(path), "/dev/fd/%d", fds[0]);
	settings = fixture_load_good(path);
	assert_true(settings->drain_timeout_ns == 5 * NS_PER_S);
	settings_free(settings);
	close(fds[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without_a_file),
		cmocka_unit_test(test_without_groups),
		cmocka_unit_test(test_every_key),
		cmocka_unit_test(test_every_value_knows_its_line),
		cmocka_unit_test(test_every_key_of_a_group_has_its_own_origin),
		cmocka_unit_test(test_defaults_are_in_the_form_in_which_they_are_dumped),
		cmocka_unit_test(test_ways_to_write_addresses),
		cmocka_unit_test(test_ways_to_write_numbers),
		cmocka_unit_test(test_separators_and_line_ends),
		cmocka_unit_test(test_addresses_that_do_not_overlap),
		cmocka_unit_test(test_origins_in_included_files),
		cmocka_unit_test(test_standard_input),
		cmocka_unit_test(test_a_pipe),
	};

	return cmocka_run_group_tests_name("config-good", tests, fixture_enter, fixture_leave);
}
