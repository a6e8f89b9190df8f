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
	assert_true(settings->supervision.rescue_after_ns == 5 * NS_PER_MS);
	assert_true(settings->supervision.extra_after_ns == 20 * NS_PER_MS);
	assert_true(settings->supervision.steer_after_ns == NS_PER_S);
	assert_true(settings->supervision.abort_after_ns == 10 * NS_PER_S);
	assert_true(settings->supervision.kill_after_ns == 2 * NS_PER_S);
	assert_true(settings->supervision.check_interval_ns == 250 * NS_PER_MS);
	assert_int_equal(settings->supervision.extra_max, 4);
	assert_int_equal(settings->supervision.restart_limit, 10);
	assert_true(settings->supervision.restart_interval_ns == 60 * NS_PER_S);
	assert_false(settings->allow_faults);
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
	assert_int_equal(group->n_faults, 0);
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
				"supervision = {\n"
				"  rescue_after = \"1ms\";\n"
				"  extra_after = \"10min\";\n"
				"  steer_after = \"59min\";\n"
				"  abort_after = \"1h\";\n"
				"  kill_after = \"100ms\";\n"
				"  check_interval = \"10s\";\n"
				"  extra_max = 64;\n"
				"  restart_limit = 10000;\n"
				"  restart_interval = \"1d\";\n"
				"};\n"
				"allow_faults = true;\n"
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
				"    faults = (\n"
				"      {\n"
				"        kind = \"spin\";\n"
				"        on = \"accept\";\n"
				"        probability = 0.333;\n"
				"        duration = \"1h\";\n"
				"        seed = 4294967295L;\n"
				"        lanes = [ 511, 0 ];\n"
				"        workers = [ 591 ];\n"
				"        roles = [ \"extra\", \"primary\" ];\n"
				"      },\n"
				"      { kind = \"exit\"; }\n"
				"    );\n"
				"  }\n"
				");\n";

static void check_every_key_of_supervision(const struct supervision_settings *supervision)
{
	assert_true(supervision->rescue_after_ns == NS_PER_MS);
	assert_true(supervision->extra_after_ns == 600 * NS_PER_S);
	assert_true(supervision->steer_after_ns == 59 * 60 * NS_PER_S);
	assert_true(supervision->abort_after_ns == 3600 * NS_PER_S);
	assert_true(supervision->kill_after_ns == 100 * NS_PER_MS);
	assert_true(supervision->check_interval_ns == 10 * NS_PER_S);
	assert_int_equal(supervision->extra_max, 64);
	assert_int_equal(supervision->restart_limit, 10000);
	assert_true(supervision->restart_interval_ns == 86400 * NS_PER_S);
}

static void check_every_key_of_faults(const struct fault_settings *faults)
{
	assert_int_equal(faults[0].kind, FAULT_SPIN);
	assert_int_equal(faults[0].on, FAULT_ON_ACCEPT);
	assert_true(faults[0].probability == 0.333);
	assert_true(faults[0].duration_ns == 3600 * NS_PER_S);
	assert_int_equal(faults[0].seed, UINT32_MAX);
	assert_int_equal(faults[0].lanes.n, 2);
	assert_int_equal(faults[0].lanes.numbers[0], 511);
	assert_int_equal(faults[0].lanes.numbers[1], 0);
	assert_int_equal(faults[0].workers.n, 1);
	assert_int_equal(faults[0].workers.numbers[0], 591);
	assert_int_equal(faults[0].roles, FAULT_PRIMARY | FAULT_EXTRA);

	assert_int_equal(faults[1].kind, FAULT_EXIT);
	assert_int_equal(faults[1].on, FAULT_ON_MESSAGE);
	assert_true(faults[1].probability == 1);
	assert_true(faults[1].duration_ns == 0);
	assert_int_equal(faults[1].seed, 1);
	assert_int_equal(faults[1].lanes.n, 0);
	assert_int_equal(faults[1].workers.n, 0);
	assert_int_equal(faults[1].roles, 0);
}

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
	check_every_key_of_supervision(&settings->supervision);
	assert_true(settings->allow_faults);
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
	assert_int_equal(group->n_faults, 2);
	check_every_key_of_faults(group->faults);
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
	static const unsigned lines[GROUP_KEYS] = {21, 22, 25, 26, 27, 28, 29, 30,
						   31, 32, 33, 34, 35, 37, 38, 40};

	(void)state;
	check_origin(&settings->user_origin, 1);
	check_origin(&settings->drain_timeout_origin, 2);
	check_origin(&settings->log_target_origin, 4);
	check_origin(&settings->log_level_origin, 5);
	for (unsigned i = 0; i < SUPERVISION_KEYS; i++)
		check_origin(&settings->supervision_origins[i], 8 + i);
	check_origin(&settings->allow_faults_origin, 18);
	check_origin(&settings->groups_origin, 19);
	check_origin(&group->origin, 20);
	for (int i = 0; i < GROUP_KEYS; i++)
		check_origin(&group->origins[i], lines[i]);
	check_origin(&group->listen[0].origin, 22);
	check_origin(&group->listen[1].origin, 23);
	check_origin(&group->faults[0].origin, 41);
	for (unsigned i = 0; i < FAULT_KEYS; i++)
		check_origin(&group->faults[0].origins[i], 42 + i);
	check_origin(&group->faults[1].origin, 51);
	assert_null(group->faults[1].origins[FAULT_KEY_DURATION].file);
	fixture_release(&loaded);
}

/* The table and the lists of origins in settings.h are in the same order. */
static void test_every_key_has_its_own_origin(void **state)
{
	const struct schema_key *key = NULL;
	struct settings settings;
	struct group_settings group;
	struct fault_settings fault;
	int n_supervision = 0, n_group = 0, n_fault = 0;

	(void)state;
	while ((key = schema_next(SCHEMA_TOP, key))) {
		if (strncmp(key->path, "supervision.", strlen("supervision.")) == 0)
			assert_ptr_equal(value_origin(key, &settings),
					 &settings.supervision_origins[n_supervision++]);
	}
	while ((key = schema_next(SCHEMA_GROUP, key)))
		assert_ptr_equal(value_origin(key, &group), &group.origins[n_group++]);
	while ((key = schema_next(SCHEMA_FAULT, key)))
		assert_ptr_equal(value_origin(key, &fault), &fault.origins[n_fault++]);
	assert_int_equal(n_supervision, SUPERVISION_KEYS);
	assert_int_equal(n_group, GROUP_KEYS);
	assert_int_equal(n_fault, FAULT_KEYS);
}

/* value_is() compares with the text of the table. */
static void test_defaults_are_in_the_form_in_which_they_are_dumped(void **state)
{
	struct settings *settings;
	struct fault_settings fault = {0};

	(void)state;
	settings = load_group("");
	assert_int_equal(value_set_defaults(SCHEMA_FAULT, &fault), 0);
	for (size_t i = 0; i < schema_n_keys; i++) {
		const struct schema_key *key = &schema_keys[i];
		const void *bases[] = {
			[SCHEMA_TOP] = settings,
			[SCHEMA_GROUP] = &settings->groups[0],
			[SCHEMA_FAULT] = &fault,
		};
		char text[UNITS_TEXT_MAX];

		if (key->default_text)
			assert_string_equal(value_text(key, bases[key->scope], text),
					    key->default_text);
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

/* A file with one fault that has these keys, too. */
static struct settings *load_fault(const char *keys)
{
	char text[2048];

	snprintf(text, sizeof(text),
		 "allow_faults = true; groups = ( { " GROUP_HEAD
		 "faults = ( { kind = \"stop\"; %s } ); } );",
		 keys);
	fixture_write_text("x.conf", text);
	return fixture_load_good("x.conf");
}

static void test_ways_to_write_faults(void **state)
{
	static const struct {
		const char *text;
		double probability;
	} cases[] = {{"0", 0},     {"1", 1},        {"1L", 1},     {"0.0", 0},
		     {"1.0", 1},   {".5", 0.5},     {"5e-1", 0.5}, {"1.0e-05", 0.00001},
		     {"1.0E0", 1}, {"+0.25", 0.25}, {"0.1", 0.1}};
	struct settings *settings;
	const struct fault_settings *fault;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char keys[64];

		snprintf(keys, sizeof(keys), "probability = %s;", cases[i].text);
		settings = load_fault(keys);
		assert_true(settings->groups[0].faults[0].probability == cases[i].probability);
		settings_free(settings);
	}

	settings = load_fault("lanes = ( 2, 0x1 ); workers = [ 1L, 0L ]; roles = ( \"standby\" );");
	fault = &settings->groups[0].faults[0];
	assert_int_equal(fault->lanes.n, 2);
	assert_int_equal(fault->lanes.numbers[1], 1);
	assert_int_equal(fault->workers.n, 2);
	assert_int_equal(fault->roles, FAULT_STANDBY);
	settings_free(settings);
	settings = load_fault("lanes = [ ]; workers = ( ); roles = [ ]; seed = 0;");
	fault = &settings->groups[0].faults[0];
	assert_int_equal(fault->lanes.n + fault->workers.n + fault->roles + fault->seed, 0);
	settings_free(settings);
}

/* No faults need no permission, and the permission alone does nothing. */
static void test_no_faults(void **state)
{
	(void)state;
	settings_free(load_group("faults = ( );"));
	fixture_write_text("x.conf", "allow_faults = true;");
	settings_free(fixture_load_good("x.conf"));
}

static void test_steps_of_supervision_that_are_left_out(void **state)
{
	static const char *const texts[] = {
		"steer_after = 0;",
		"abort_after = \"0\";",
		"steer_after = 0; abort_after = 0; extra_after = \"10min\"; rescue_after = \"10s\";",
		"abort_after = 0; check_interval = \"10s\"; steer_after = \"1h\";",
		"steer_after = 0; abort_after = \"250ms\";",
		"rescue_after = \"20ms\"; steer_after = \"20ms\"; abort_after = \"1s\";",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		char text[256];

		snprintf(text, sizeof(text), "supervision = { %s };", texts[i]);
		fixture_write_text("x.conf", text);
		settings_free(fixture_load_good("x.conf"));
	}
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
		cmocka_unit_test(test_every_key_has_its_own_origin),
		cmocka_unit_test(test_defaults_are_in_the_form_in_which_they_are_dumped),
		cmocka_unit_test(test_ways_to_write_addresses),
		cmocka_unit_test(test_ways_to_write_numbers),
		cmocka_unit_test(test_ways_to_write_faults),
		cmocka_unit_test(test_no_faults),
		cmocka_unit_test(test_steps_of_supervision_that_are_left_out),
		cmocka_unit_test(test_separators_and_line_ends),
		cmocka_unit_test(test_addresses_that_do_not_overlap),
		cmocka_unit_test(test_origins_in_included_files),
		cmocka_unit_test(test_standard_input),
		cmocka_unit_test(test_a_pipe),
	};

	return cmocka_run_group_tests_name("config-good", tests, fixture_enter, fixture_leave);
}
