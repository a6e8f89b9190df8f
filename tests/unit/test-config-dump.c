/*
 * The dump: it is a configuration, the same one, and it dumps to itself.
 */
#include <errno.h>

#include "config-fixture.h"

#include <libconfig.h>

#include "base/units.h"
#include "config/schema.h"
#include "config/value.h"

static const char builtin_dump[] = "user = \"\";\n"
				   "drain_timeout = \"30s\";\n"
				   "log = {\n"
				   "\ttarget = \"auto\";\n"
				   "\tlevel = \"info\";\n"
				   "};\n"
				   "groups = (\n"
				   "\t{\n"
				   "\t\tname = \"echo\";\n"
				   "\t\tlisten = [ \"127.0.0.1:7007\" ];\n"
				   "\t\ttopology = \"shared-listener\";\n"
				   "\t\tworkers = 2;\n"
				   "\t\tstandby = 1;\n"
				   "\t\tengine = \"auto\";\n"
				   "\t\tshare = \"queue\";\n"
				   "\t\tbacklog = 4096;\n"
				   "\t\tmax_connections = 10000;\n"
				   "\t\tbuffer_memory = \"64MiB\";\n"
				   "\t\tnofile = 0;\n"
				   "\t\tidle_timeout = \"0\";\n"
				   "\t\tsend_timeout = \"60s\";\n"
				   "\t\techo = {\n"
				   "\t\t\ttag = false;\n"
				   "\t\t\tclose_after = 0;\n"
				   "\t\t};\n"
				   "\t}\n"
				   ");\n";

static struct settings *load_builtin(void)
{
	fixture_write_text("x.conf", "");
	return fixture_load_good("x.conf");
}

static void check_dump(const char *text, enum config_dump what, const char *expected)
{
	struct settings *settings;
	char *dump;

	fixture_write_text("x.conf", text);
	settings = fixture_load_good("x.conf");
	dump = fixture_dump(settings, what);
	assert_string_equal(dump, expected);
	free(dump);
	settings_free(settings);
}

static void test_the_builtin_default(void **state)
{
	(void)state;
	check_dump("", CONFIG_DUMP_ALL, builtin_dump);
	check_dump(builtin_dump, CONFIG_DUMP_ALL, builtin_dump);
	check_dump("", CONFIG_DUMP_CHANGED, "");
	check_dump(builtin_dump, CONFIG_DUMP_CHANGED, "");
}

static void test_only_what_is_changed(void **state)
{
	(void)state;
	check_dump(
		"drain_timeout = \"30000ms\"; log = { target = \"auto\"; level = \"notice\"; };\n"
		"groups = ( { name = \"a\"; listen = \"[0::1]:7\"; backlog = 4096;\n"
		"echo = { close_after = 1 } },\n"
		"{ name = \"b\"; listen = [ \"127.0.0.1:7\", \"127.0.0.1:8\" ];\n"
		"workers = \"auto\"; nofile = 100; } );",
		CONFIG_DUMP_CHANGED,
		"log = {\n"
		"\tlevel = \"notice\";\n"
		"};\n"
		"groups = (\n"
		"\t{\n"
		"\t\tname = \"a\";\n"
		"\t\tlisten = [ \"[::1]:7\" ];\n"
		"\t\techo = {\n"
		"\t\t\tclose_after = 1;\n"
		"\t\t};\n"
		"\t},\n"
		"\t{\n"
		"\t\tname = \"b\";\n"
		"\t\tlisten = [ \"127.0.0.1:7\", \"127.0.0.1:8\" ];\n"
		"\t\tnofile = 100;\n"
		"\t}\n"
		");\n");
	/* One group that is not the built-in one, by a single value. */
	check_dump("groups = ( { name = \"echo\"; listen = \"127.0.0.1:7007\"; } );",
		   CONFIG_DUMP_CHANGED,
		   "groups = (\n"
		   "\t{\n"
		   "\t\tname = \"echo\";\n"
		   "\t\tlisten = [ \"127.0.0.1:7007\" ];\n"
		   "\t}\n"
		   ");\n");
}

static unsigned pick(unsigned n)
{
	return (unsigned)random() % n;
}

/* A value that the key may have, as it stands in a file. */
static void write_value(FILE *stream, const struct schema_key *key)
{
	uint64_t span = key->max - key->min;
	uint64_t value = key->min + (span > 0 ? (uint64_t)random() % span : 0);
	unsigned choices = 1;

	switch (key->type) {
	case SCHEMA_CHOICE:
	case SCHEMA_LEVEL:
		while (key->choices[choices].text)
			choices++;
		fprintf(stream, "\"%s\"", key->choices[pick(choices)].text);
		break;
	case SCHEMA_BOOL:
		fputs(pick(2) ? "true" : "false", stream);
		break;
	case SCHEMA_COUNT:
	case SCHEMA_INTEGER:
		if (key->type == SCHEMA_COUNT && pick(2))
			fputs("\"auto\"", stream);
		else
			fprintf(stream, "%lu", (unsigned long)(key->zero && pick(2) ? 0 : value));
		break;
	case SCHEMA_TIME:
		fprintf(stream, "\"%luns\"", (unsigned long)(key->zero && pick(2) ? 0 : value));
		break;
	case SCHEMA_SIZE:
		fprintf(stream, pick(2) ? "%luL" : "\"%luB\"", (unsigned long)value);
		break;
	default:
		fputs("\"\"", stream);
		break;
	}
}

/* Random keys of a scope with random values. */
static void write_keys(FILE *stream, enum schema_scope scope)
{
	const struct schema_key *key = NULL;

	while ((key = schema_next(scope, key))) {
		const char *dot = strchr(key->path, '.');

		/* Keys with a dot: only one of those that belong together. */
		if (!key->default_text || pick(2) ||
		    (dot && key != schema_find_below(scope, "log.") &&
		     key != schema_find_below(scope, "echo.")))
			continue;
		if (dot)
			fprintf(stream, "%.*s = { %s = ", (int)(dot - key->path), key->path,
				dot + 1);
		else
			fprintf(stream, "%s = ", key->path);
		write_value(stream, key);
		fputs(dot ? " };\n" : ";\n", stream);
	}
}

static void write_random_file(const char *file)
{
	FILE *stream = fopen(file, "we");
	unsigned groups = 1 + pick(4);

	assert_non_null(stream);
	write_keys(stream, SCHEMA_TOP);
	fputs("groups = (\n", stream);
	for (unsigned i = 0; i < groups; i++) {
		fprintf(stream, "{ name = \"g%u\"; listen = [ \"127.0.0.1:%u\"", i, 1000 + 2 * i);
		fprintf(stream, pick(2) ? ", \"[::]:%u\" ];\n" : " ]; # %u\n", 1000 + 2 * i);
		write_keys(stream, SCHEMA_GROUP);
		fputs(i + 1 < groups ? "},\n" : "}\n", stream);
	}
	fputs(");\n", stream);
	assert_int_equal(fclose(stream), 0);
}

static void test_a_dump_dumps_to_itself(void **state)
{
	(void)state;
	srandom(1);
	for (int i = 0; i < 300; i++) {
		struct settings *settings, *again, *from_changed;
		char *dump, *dump_again, *changed;

		write_random_file("x.conf");
		settings = fixture_load_good("x.conf");
		dump = fixture_dump(settings, CONFIG_DUMP_ALL);
		fixture_write_text("dump.conf", dump);
		again = fixture_load_good("dump.conf");
		dump_again = fixture_dump(again, CONFIG_DUMP_ALL);
		assert_string_equal(dump_again, dump);
		free(dump_again);

		/* And what is changed is all that it takes. */
		changed = fixture_dump(settings, CONFIG_DUMP_CHANGED);
		assert_true(strlen(changed) <= strlen(dump));
		fixture_write_text("dump.conf", changed);
		from_changed = fixture_load_good("dump.conf");
		dump_again = fixture_dump(from_changed, CONFIG_DUMP_ALL);
		assert_string_equal(dump_again, dump);

		free(dump_again);
		free(changed);
		free(dump);
		settings_free(settings);
		settings_free(again);
		settings_free(from_changed);
	}
}

static void test_strings_are_escaped(void **state)
{
	static const char user[] = "a\"b\\c\nd\te\x1b\x7f\xc3\xa4\\x41";
	struct settings *settings = load_builtin();
	const char *read_back;
	config_t config;
	char *dump;

	(void)state;
	free(settings->user);
	settings->user = strdup(user);
	dump = fixture_dump(settings, CONFIG_DUMP_CHANGED);
	assert_string_equal(dump, "user = \"a\\\"b\\\\c\\x0ad\\x09e\\x1b\\x7f\xc3\xa4\\\\x41\";\n");
	config_init(&config);
	assert_int_equal(config_read_string(&config, dump), CONFIG_TRUE);
	assert_int_equal(config_lookup_string(&config, "user", &read_back), CONFIG_TRUE);
	assert_string_equal(read_back, user);
	config_destroy(&config);
	free(dump);
	settings_free(settings);
}

static void check_key(const struct settings *settings, const char *path, int result,
		      const char *value, const char *finding)
{
	char *output = NULL, *findings = NULL;
	size_t output_length, findings_length;
	FILE *stream = open_memstream(&output, &output_length);
	struct report report = {.stream = open_memstream(&findings, &findings_length)};

	assert_true(stream && report.stream);
	assert_int_equal(config_dump_key(settings, path, &report, stream), result);
	fclose(stream);
	fclose(report.stream);
	assert_string_equal(output, value);
	assert_string_equal(findings, finding);
	free(output);
	free(findings);
	report_fini(&report);
}

static void test_single_values(void **state)
{
	struct settings *settings;

	(void)state;
	fixture_write_text("x.conf",
			   "groups = ( { name = \"a\"; listen = [ \"127.0.0.1:7\", \"[::1]:7\" ];\n"
			   "echo = { tag = true }; idle_timeout = \"90s\" },\n"
			   "{ name = \"echo\"; listen = \"127.0.0.1:8\"; workers = 3; } );");
	settings = fixture_load_good("x.conf");
	check_key(settings, "user", 0, "\n", "");
	check_key(settings, "drain_timeout", 0, "30s\n", "");
	check_key(settings, "log.level", 0, "info\n", "");
	check_key(settings, "groups.a.name", 0, "a\n", "");
	check_key(settings, "groups.a.listen", 0, "127.0.0.1:7\n[::1]:7\n", "");
	check_key(settings, "groups.a.workers", 0, "auto\n", "");
	check_key(settings, "groups.a.echo.tag", 0, "true\n", "");
	check_key(settings, "groups.a.idle_timeout", 0, "90s\n", "");
	check_key(settings, "groups.a.buffer_memory", 0, "64MiB\n", "");
	check_key(settings, "groups.echo.workers", 0, "3\n", "");
	check_key(settings, "groups.echo.echo.tag", 0, "false\n", "");
	check_key(settings, "groups.echo.listen", 0, "127.0.0.1:8\n", "");
	settings_free(settings);
}

static void test_single_values_that_are_not_there(void **state)
{
	static const char *const paths[][2] = {
		{"drain_timout", "drain_timeout"},
		{"log", "log.target"},
		{"log.levl", "log.level"},
		{"groups", "groups.echo.name"},
		{"groups.echo", "groups.echo.name"},
		{"groups.echo.echo", "groups.echo.echo.tag"},
		{"groups.ehco.backlog", "groups.echo.backlog"},
		{"groups.echo.backlg", "groups.echo.backlog"},
		{"backlog", "groups.echo.backlog"},
		{"echo.tag", "groups.echo.echo.tag"},
		{"groups.*.backlog", NULL},
		{"nonsense", NULL},
		{"", NULL},
		{".", NULL},
		{"groups.", NULL},
		{"groups..", NULL},
		{"log.", NULL},
	};
	struct settings *settings = load_builtin();

	(void)state;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		char finding[256];

		snprintf(finding, sizeof(finding),
			 paths[i][1] ? "error: no key \"%s\"\n        did you mean \"%s\"?\n"
				     : "error: no key \"%s\"\n",
			 paths[i][0], paths[i][1]);
		check_key(settings, paths[i][0], -ENOENT, "", finding);
	}
	settings_free(settings);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_builtin_default),
		cmocka_unit_test(test_only_what_is_changed),
		cmocka_unit_test(test_a_dump_dumps_to_itself),
		cmocka_unit_test(test_strings_are_escaped),
		cmocka_unit_test(test_single_values),
		cmocka_unit_test(test_single_values_that_are_not_there),
	};

	return cmocka_run_group_tests_name("config-dump", tests, fixture_enter, fixture_leave);
}
