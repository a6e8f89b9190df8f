/*
 * Where values come from: several files, the command line, and what the dump says of it.
 */
#include "config-fixture.h"

#include <sys/stat.h>

#define GROUP(name, port) "{ name = \"" name "\"; listen = \"127.0.0.1:" port "\"; }"

static int enter(void **state)
{
	return fixture_enter(state) == 0 ? mkdir("conf.d", 0700) : -1;
}

static void remove_all(const char *path)
{
	DIR *folder = opendir(path);
	struct dirent *entry;
	char name[300];

	if (!folder)
		return;
	while ((entry = readdir(folder))) {
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			assert_int_equal(remove(name), 0);
	}
	closedir(folder);
}

/* After each test. */
static int clean(void **state)
{
	(void)state;
	remove_all("conf.d");
	return 0;
}

/* Loads x.conf, with options up to a NULL. */
static struct loaded load_with(const char *const *overrides)
{
	struct config_source source = {.path = "x.conf", .overrides = overrides};

	while (overrides[source.n_overrides])
		source.n_overrides++;
	return fixture_load_source(&source);
}

#define LOAD_WITH(...) load_with((const char *const[]){__VA_ARGS__, NULL})

static struct settings *good(struct loaded loaded)
{
	assert_string_equal(loaded.findings, "");
	assert_int_equal(loaded.result, 0);
	free(loaded.findings);
	return loaded.settings;
}

static void bad(struct loaded loaded, const char *expected)
{
	assert_string_equal(loaded.findings, expected);
	assert_int_equal(loaded.result, -EBADMSG);
	fixture_release(&loaded);
}

static void test_later_files_win_and_groups_add_up(void **state)
{
	struct settings *settings;

	(void)state;
	fixture_write_text("x.conf", "\ndrain_timeout = \"1s\"; log = { level = \"error\"; };\n"
				     "groups = ( " GROUP("a", "7001") " );\n");
	fixture_write_text("conf.d/B.conf", "drain_timeout = \"3s\";\n");
	fixture_write_text("conf.d/a.conf", "\n\ndrain_timeout = \"4s\";\n");
	fixture_write_text("conf.d/10.conf", "drain_timeout = \"2s\";\n"
					     "groups = ( " GROUP("b", "7002") " );\n");
	settings = fixture_load_good("x.conf");
	assert_int_equal(settings->drain_timeout_ns, 4000000000);
	assert_string_equal(settings->drain_timeout_origin.file, "conf.d/a.conf");
	assert_int_equal(settings->drain_timeout_origin.line, 3);
	assert_string_equal(settings->drain_timeout_origin.overridden_file, "conf.d/B.conf");
	assert_int_equal(settings->log_level, LOG_ERR);
	assert_int_equal(settings->n_groups, 2);
	assert_string_equal(settings->groups[0].name, "a");
	assert_string_equal(settings->groups[1].name, "b");
	assert_string_equal(settings->file, "x.conf");
	settings_free(settings);
}

static void test_which_files_are_skipped(void **state)
{
	static const char *const names[] = {"a.conf~", ".a.conf", "a.conf.dpkg-new",
					    "README",  ".conf",   "conf"};

	(void)state;
	fixture_write_text("x.conf", "");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char path[64];

		snprintf(path, sizeof(path), "conf.d/%s", names[i]);
		fixture_write_text(path, "no configuration\n");
	}
	settings_free(fixture_load_good("x.conf"));
}

static void test_duplicates(void **state)
{
	(void)state;
	fixture_write_text("x.conf", "groups = ( " GROUP("a", "7001") " );\n");
	fixture_write_text("conf.d/a.conf", "\ngroups = ( " GROUP("a", "7002") " );\n");
	bad(fixture_load("x.conf"),
	    "conf.d/a.conf:2: error: another group is called \"a\", too: x.conf:1\n"
	    "        groups = ( " GROUP("a", "7002") " );\n");
	fixture_write_text("conf.d/a.conf", "user = \"\";\nuser = \"\";\n");
	bad(fixture_load("x.conf"), "conf.d/a.conf:2: error: duplicate setting name\n"
				    "        user = \"\";\n        user = \"\";\n"
				    "        a key can stand once between two braces\n");
}

static void test_a_file_includes_from_its_own_folder(void **state)
{
	struct settings *settings;

	(void)state;
	fixture_write_text("x.conf", "");
	fixture_write_text("conf.d/a.conf", "@include \"level.inc\"\n");
	fixture_write_text("conf.d/level.inc", "log = { level = \"debug\"; };\n");
	settings = fixture_load_good("x.conf");
	assert_string_equal(settings->log_level_origin.file, "conf.d/level.inc");
	settings_free(settings);

	fixture_write_text("conf.d/a.conf", "\n@include \"none.inc\"\n");
	bad(fixture_load("x.conf"),
	    "conf.d/a.conf:2: error: cannot read the included file \"none.inc\": No such file or "
	    "directory\n"
	    "        @include \"none.inc\"\n"
	    "        looked for conf.d/none.inc; names are relative to the folder of the file they "
	    "stand in\n");
}

static void test_files_that_cannot_be_read(void **state)
{
	struct loaded loaded;

	(void)state;
	fixture_write_text("x.conf", "");
	assert_int_equal(mkdir("conf.d/a.conf", 0700), 0);
	loaded = fixture_load("x.conf");
	assert_string_equal(loaded.findings, "error: cannot read conf.d/a.conf: Is a directory\n");
	assert_int_equal(loaded.result, -EISDIR);
	fixture_release(&loaded);

	remove_all("conf.d");
	assert_int_equal(rmdir("conf.d"), 0);
	settings_free(fixture_load_good("x.conf"));
	fixture_write_text("conf.d", "");
	loaded = fixture_load("x.conf");
	assert_string_equal(loaded.findings, "error: cannot read conf.d: Not a directory\n");
	assert_int_equal(loaded.result, -ENOTDIR);
	fixture_release(&loaded);
	assert_int_equal(unlink("conf.d"), 0);
	assert_int_equal(mkdir("conf.d", 0700), 0);
}

/* The limits are those of all files together. */
static void test_limits(void **state)
{
	static char half[(1 << 19) + 1];
	struct loaded loaded;
	char path[32];

	(void)state;
	memset(half, '\n', sizeof(half));
	fixture_write("x.conf", half, sizeof(half));
	fixture_write("conf.d/a.conf", half, sizeof(half));
	loaded = fixture_load("x.conf");
	assert_int_equal(loaded.result, -EFBIG);
	assert_string_equal(loaded.findings,
			    "error: cannot read conf.d/a.conf: a configuration has "
			    "at most 1 MiB, all its files together\n");
	fixture_release(&loaded);

	remove_all("conf.d");
	fixture_write_text("x.conf", "");
	for (int i = 100; i < 199; i++) {
		snprintf(path, sizeof(path), "conf.d/%d.conf", i);
		fixture_write_text(path, "");
	}
	settings_free(fixture_load_good("x.conf"));
	fixture_write_text("conf.d/199.conf", "");
	bad(fixture_load("x.conf"),
	    "error: cannot read conf.d/199.conf: a configuration has at most 100 files\n");
}

static void test_overrides_of_each_type(void **state)
{
	struct settings *settings;

	(void)state;
	fixture_write_text("x.conf", "drain_timeout = \"1s\";\n"
				     "groups = ( " GROUP("a", "7001") " );\n");
	settings = good(LOAD_WITH("drain_timeout=1.5s", "log.level=debug", "allow_faults=true",
				  "supervision.extra_max=0", "groups.a.workers=auto",
				  "groups.a.workers=3", "groups.a.listen=127.0.0.1:8001,[::1]:8001",
				  "groups.a.buffer_memory=1MiB", "groups.a.echo.tag=true",
				  "groups.a.topology=reuseport", "groups.a.name=b", "user="));
	assert_int_equal(settings->drain_timeout_ns, 1500000000);
	assert_int_equal(settings->log_level, LOG_DEBUG);
	assert_true(settings->allow_faults);
	assert_int_equal(settings->supervision.extra_max, 0);
	assert_int_equal(settings->groups[0].workers, 3);
	assert_int_equal(settings->groups[0].n_listen, 2);
	assert_string_equal(settings->groups[0].listen[1].address.text, "[::1]:8001");
	assert_int_equal(settings->groups[0].buffer_memory_bytes, 1 << 20);
	assert_true(settings->groups[0].echo_tag);
	assert_string_equal(settings->groups[0].topology, "reuseport");
	assert_string_equal(settings->groups[0].name, "b");
	assert_ptr_equal(settings->drain_timeout_origin.file, origin_command_line);
	assert_string_equal(settings->drain_timeout_origin.overridden_file, "x.conf");
	settings_free(settings);
}

static void test_an_override_of_the_builtin_group(void **state)
{
	struct settings *settings;

	(void)state;
	fixture_write_text("x.conf", "");
	settings = good(LOAD_WITH("groups.echo.listen=127.0.0.1:7008"));
	assert_int_equal(settings->groups[0].n_listen, 1);
	assert_string_equal(settings->groups[0].listen[0].address.text, "127.0.0.1:7008");
	settings_free(settings);
}

static void test_wrong_overrides(void **state)
{
	static const char *const cases[][2] = {
		{"log.levl=debug", "no key \"log.levl\"\n        log.levl=debug\n"
				   "        did you mean \"log.level\"?\n"},
		{"groups.ecko.backlog=5",
		 "no key \"groups.ecko.backlog\"\n        groups.ecko.backlog=5\n"
		 "        did you mean \"groups.echo.backlog\"?\n"},
		{"groups.web.backlog=5",
		 "no key \"groups.web.backlog\"\n        groups.web.backlog=5\n"
		 "        did you mean \"groups.echo.backlog\"?\n"},
		{"groups.web.bklg=5", "no key \"groups.web.bklg\"\n        groups.web.bklg=5\n"},
		{"log.level=debgu",
		 "log.level must be \"error\", \"warning\", \"notice\", \"info\" "
		 "or \"debug\", not \"debgu\"\n        log.level=debgu\n"
		 "        did you mean \"debug\"?\n"},
		{"max_generations=many",
		 "max_generations: expected integer, got string\n        max_generations=many\n"
		 "        write 1 to 100\n"},
		{"max_generations=-1",
		 "max_generations must be 1 to 100, not -1\n        max_generations=-1\n"},
		{"drain_timeout=5", "drain_timeout: \"5\" is not a time\n        drain_timeout=5\n"
				    "        write \"5s\"\n"},
		{"groups=x", "groups cannot be set on the command line: it is a list of groups\n"
			     "        groups=x\n        write it in a file\n"},
		{"groups.echo.faults=",
		 "groups.echo.faults cannot be set on the command line: it is "
		 "a list of faults\n        groups.echo.faults=\n"
		 "        write it in a file\n"},
		{"groups.echo.listen=", "a group needs an address to listen on\n"
					"        groups.echo.listen=\n"
					"        write listen = \"127.0.0.1:7\"\n"},
		{"user", "\"user\" is not KEY=VALUE\n        user\n"
			 "        write for instance log.level=debug\n"},
		{"=5", "\"=5\" is not KEY=VALUE\n        =5\n"
		       "        write for instance log.level=debug\n"},
	};

	(void)state;
	fixture_write_text("x.conf", "");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char expected[512];

		snprintf(expected, sizeof(expected), "command line: error: %s", cases[i][1]);
		bad(LOAD_WITH("user=", cases[i][0]), expected);
	}
}

static void test_origins_are_comments(void **state)
{
	struct settings *settings, *again;
	char *dump, *plain, *plain_again;

	(void)state;
	fixture_write_text("x.conf", "\nmax_generations = 2;\nallow_faults = true;\ngroups = (\n"
				     "{ name = \"a\"; listen = \"127.0.0.1:7001\";\n"
				     "faults = ( { kind = \"exit\"; } ); } );\n");
	fixture_write_text("conf.d/5\n.conf", "max_generations = 3;\n");
	settings = good(LOAD_WITH("log.level=debug"));
	dump = fixture_dump(settings, CONFIG_DUMP_CHANGED | CONFIG_DUMP_ORIGIN);
	assert_string_equal(dump, "max_generations = 3; # conf.d/5?.conf:1, overrides x.conf:2\n"
				  "log = {\n"
				  "\tlevel = \"debug\"; # command line\n"
				  "};\n"
				  "allow_faults = true; # x.conf:3\n"
				  "groups = (\n"
				  "\t{ # x.conf:5\n"
				  "\t\tname = \"a\"; # x.conf:5\n"
				  "\t\tlisten = [ \"127.0.0.1:7001\" ]; # x.conf:5\n"
				  "\t\tfaults = (\n"
				  "\t\t\t{ # x.conf:6\n"
				  "\t\t\t\tkind = \"exit\"; # x.conf:6\n"
				  "\t\t\t}\n"
				  "\t\t);\n"
				  "\t}\n"
				  ");\n");
	free(dump);

	dump = fixture_dump(settings, CONFIG_DUMP_ORIGIN);
	assert_memory_equal(dump, "user = \"\"; # default\n", strlen("user = \"\"; # default\n"));
	plain = fixture_dump(settings, CONFIG_DUMP_ALL);
	remove_all("conf.d");
	fixture_write_text("x.conf", dump);
	again = fixture_load_good("x.conf");
	plain_again = fixture_dump(again, CONFIG_DUMP_ALL);
	assert_string_equal(plain_again, plain);
	settings_free(settings);
	settings_free(again);
	free(dump);
	free(plain);
	free(plain_again);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_later_files_win_and_groups_add_up, clean),
		cmocka_unit_test_teardown(test_which_files_are_skipped, clean),
		cmocka_unit_test_teardown(test_duplicates, clean),
		cmocka_unit_test_teardown(test_a_file_includes_from_its_own_folder, clean),
		cmocka_unit_test_teardown(test_files_that_cannot_be_read, clean),
		cmocka_unit_test_teardown(test_limits, clean),
		cmocka_unit_test_teardown(test_overrides_of_each_type, clean),
		cmocka_unit_test_teardown(test_an_override_of_the_builtin_group, clean),
		cmocka_unit_test_teardown(test_wrong_overrides, clean),
		cmocka_unit_test_teardown(test_origins_are_comments, clean),
	};

	return cmocka_run_group_tests_name("config-sources", tests, enter, fixture_leave);
}
