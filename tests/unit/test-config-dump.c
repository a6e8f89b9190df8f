/*
 * The dump: it is a configuration, the same one, and it dumps to itself.
 */
#include <errno.h>

#include "config-fixture.h"

#include <libconfig.h>
#include <math.h>

#include "base/units.h"
#include "config/number.h"
#include "config/schema.h"
#include "config/value.h"

static const char builtin_dump[] = "user = \"\";\n"
				   "drain_timeout = \"30s\";\n"
				   "max_generations = 8;\n"
				   "log = {\n"
				   "\ttarget = \"auto\";\n"
				   "\tlevel = \"info\";\n"
				   "};\n"
				   "supervision = {\n"
				   "\trescue_after = \"5ms\";\n"
				   "\textra_after = \"20ms\";\n"
				   "\tsteer_after = \"1s\";\n"
				   "\tabort_after = \"10s\";\n"
				   "\tkill_after = \"2s\";\n"
				   "\tcheck_interval = \"250ms\";\n"
				   "\textra_max = 4;\n"
				   "\trestart_limit = 10;\n"
				   "\trestart_interval = \"60s\";\n"
				   "};\n"
				   "allow_faults = false;\n"
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
				   "\t\tfaults = ( );\n"
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

static const char faults_file[] =
	"allow_faults = true;\n"
	"supervision = { extra_max = 0; };\n"
	"groups = ( { name = \"a\"; listen = \"127.0.0.1:7\"; faults = (\n"
	"{ kind = \"crash\"; probability = 1; seed = 0x80000000L; },\n"
	"{ roles = [ \"extra\", \"primary\" ]; workers = [ 3, 1 ]; lanes = ( 0 );\n"
	"duration = \"1500ms\"; probability = 0.00001; on = \"accept\"; kind = \"spin\"; } ); } );";

static void test_faults(void **state)
{
	static const char changed[] = "supervision = {\n"
				      "\textra_max = 0;\n"
				      "};\n"
				      "allow_faults = true;\n"
				      "groups = (\n"
				      "\t{\n"
				      "\t\tname = \"a\";\n"
				      "\t\tlisten = [ \"127.0.0.1:7\" ];\n"
				      "\t\tfaults = (\n"
				      "\t\t\t{\n"
				      "\t\t\t\tkind = \"crash\";\n"
				      "\t\t\t\tseed = 2147483648L;\n"
				      "\t\t\t},\n"
				      "\t\t\t{\n"
				      "\t\t\t\tkind = \"spin\";\n"
				      "\t\t\t\ton = \"accept\";\n"
				      "\t\t\t\tprobability = 1.0e-05;\n"
				      "\t\t\t\tduration = \"1.5s\";\n"
				      "\t\t\t\tlanes = [ 0 ];\n"
				      "\t\t\t\tworkers = [ 3, 1 ];\n"
				      "\t\t\t\troles = [ \"primary\", \"extra\" ];\n"
				      "\t\t\t}\n"
				      "\t\t);\n"
				      "\t}\n"
				      ");\n";

	(void)state;
	check_dump(faults_file, CONFIG_DUMP_CHANGED, changed);
	check_dump(changed, CONFIG_DUMP_CHANGED, changed);
}

/* A probability in the shortest form that libconfig takes for a float. */
static void check_probability(double probability, const char *text)
{
	char written[NUMBER_TEXT_MAX];
	char line[64];
	config_t config;
	double read_back;

	number_format(probability, written);
	if (text)
		assert_string_equal(written, text);
	snprintf(line, sizeof(line), "p = %s;", written);
	config_init(&config);
	assert_int_equal(config_read_string(&config, line), CONFIG_TRUE);
	assert_int_equal(config_lookup_float(&config, "p", &read_back), CONFIG_TRUE);
	assert_int_equal(config_setting_type(config_lookup(&config, "p")), CONFIG_TYPE_FLOAT);
	assert_true(read_back == probability);
	config_destroy(&config);
}

static void test_probabilities_read_back_the_same(void **state)
{
	char text[NUMBER_TEXT_MAX];

	(void)state;
	check_probability(0, "0.0");
	check_probability(1, "1.0");
	check_probability(0.5, "0.5");
	check_probability(0.333, "0.333");
	check_probability(1.0 / 3, "0.3333333333333333");
	check_probability(0.0001, "0.0001");
	check_probability(0.00001, "1.0e-05");
	check_probability(0.000015, "1.5e-05");
	check_probability(5e-324, "5.0e-324");
	check_probability(0.1 + 0.2, "0.30000000000000004");
	check_probability(-2.2250738585072014e-308, "-2.2250738585072014e-308");
	assert_string_equal(number_format(HUGE_VAL, text), "inf");
	assert_string_equal(number_format(-HUGE_VAL, text), "-inf");
	srandom(2);
	for (int i = 0; i < 10000; i++)
		check_probability((double)random() / (double)random(), NULL);
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
			fprintf(stream, "%luL", (unsigned long)(key->zero && pick(2) ? 0 : value));
		break;
	case SCHEMA_PROBABILITY:
		fprintf(stream, "%.*f", (int)pick(20), (double)random() / (double)RAND_MAX);
		break;
	case SCHEMA_NUMBERS:
		fprintf(stream, pick(2) ? "[ %lu ]" : "( 0, 511, %lu )",
			(unsigned long)(value > 0 && value < 511 ? value : 7));
		break;
	case SCHEMA_FLAGS:
		fputs(pick(2) ? "[ \"extra\", \"primary\" ]" : "[ \"standby\" ]", stream);
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

static bool is_below(const struct schema_key *key, const char *prefix)
{
	return strncmp(key->path, prefix, strlen(prefix)) == 0;
}

/* Random keys of a scope with random values. */
static void write_keys(FILE *stream, enum schema_scope scope)
{
	const struct schema_key *key = NULL;

	while ((key = schema_next(scope, key))) {
		const char *dot = strchr(key->path, '.');

		/* Those whose values depend on each other are written by others. */
		if (!key->default_text || key->type == SCHEMA_LIST || pick(2) ||
		    is_below(key, "supervision.") || strcmp(key->path, "allow_faults") == 0)
			continue;
		/* Keys with a dot: only one of those that belong together. */
		if (dot && key != schema_find_below(scope, "log.") &&
		    key != schema_find_below(scope, "echo."))
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

/* Times in their order, if any. */
static void write_supervision(FILE *stream)
{
	unsigned ms = 1 + pick(1000);

	fprintf(stream, "supervision = { rescue_after = \"%ums\"; extra_after = \"%ums\";\n", ms,
		ms + pick(100000));
	fprintf(stream, "steer_after = \"%us\"; abort_after = \"%umin\"; kill_after = \"%ums\";\n",
		pick(2) * (102 + pick(100)), pick(2) * (5 + pick(50)), 100 + pick(600000));
	fprintf(stream, "check_interval = \"%uus\"; extra_max = %u; restart_limit = %u;\n",
		10000 + pick(1000000), pick(65), 1 + pick(10000));
	fprintf(stream, "restart_interval = \"%ums\"; };\n", 1000 + pick(86000000));
}

static void write_faults(FILE *stream, unsigned n)
{
	fputs("faults = (", stream);
	for (unsigned i = 0; i < n; i++) {
		const struct schema_choice *kind =
			&schema_find(SCHEMA_FAULT, "kind")->choices[pick(5)];

		fprintf(stream, "%s { kind = \"%s\";\n", i > 0 ? "," : "", kind->text);
		if (kind->value == FAULT_SLEEP || kind->value == FAULT_SPIN)
			fprintf(stream, "duration = \"%uus\";\n", 1000 + pick(1000000000));
		write_keys(stream, SCHEMA_FAULT);
		fputs("}", stream);
	}
	fputs(" );\n", stream);
}

static void write_random_file(const char *file)
{
	FILE *stream = fopen(file, "we");
	unsigned groups = 1 + pick(4);

	assert_non_null(stream);
	write_keys(stream, SCHEMA_TOP);
	if (pick(2))
		write_supervision(stream);
	fputs("allow_faults = true;\ngroups = (\n", stream);
	for (unsigned i = 0; i < groups; i++) {
		fprintf(stream, "{ name = \"g%u\"; listen = [ \"127.0.0.1:%u\"", i, 1000 + 2 * i);
		fprintf(stream, pick(2) ? ", \"[::]:%u\" ];\n" : " ]; # %u\n", 1000 + 2 * i);
		write_keys(stream, SCHEMA_GROUP);
		if (pick(2))
			write_faults(stream, pick(4));
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

/* What config_dump_key() writes of a key that there is; the caller's. */
static char *dump_key(const struct settings *settings, const char *path)
{
	char *text = NULL;
	size_t length;
	FILE *stream = open_memstream(&text, &length);
	struct report report = {.stream = NULL};

	assert_non_null(stream);
	assert_int_equal(config_dump_key(settings, path, &report, stream), 0);
	fclose(stream);
	return text;
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
	check_key(settings, "supervision.extra_max", 0, "4\n", "");
	check_key(settings, "allow_faults", 0, "false\n", "");
	check_key(settings, "groups.echo.faults", 0, "", "");
	settings_free(settings);
}

/* Of a list it is what stands between its parentheses. */
static void test_lists(void **state)
{
	struct settings *settings;
	char *groups, *dump;

	(void)state;
	fixture_write_text("x.conf", faults_file);
	settings = fixture_load_good("x.conf");
	check_key(settings, "groups.a.faults", 0,
		  "{\n"
		  "\tkind = \"crash\";\n"
		  "\ton = \"message\";\n"
		  "\tprobability = 1.0;\n"
		  "\tseed = 2147483648L;\n"
		  "\tlanes = [ ];\n"
		  "\tworkers = [ ];\n"
		  "\troles = [ ];\n"
		  "},\n"
		  "{\n"
		  "\tkind = \"spin\";\n"
		  "\ton = \"accept\";\n"
		  "\tprobability = 1.0e-05;\n"
		  "\tduration = \"1.5s\";\n"
		  "\tseed = 1;\n"
		  "\tlanes = [ 0 ];\n"
		  "\tworkers = [ 3, 1 ];\n"
		  "\troles = [ \"primary\", \"extra\" ];\n"
		  "}\n",
		  "");
	settings_free(settings);

	/* All groups, put between the parentheses again, are the same. */
	settings = load_builtin();
	groups = dump_key(settings, "groups");
	assert_int_equal(groups[0], '{');
	assert_true(asprintf(&dump, "groups = (%s);", groups) > 0);
	check_dump(dump, CONFIG_DUMP_ALL, builtin_dump);
	free(dump);
	free(groups);
	settings_free(settings);
}

static void test_single_values_that_are_not_there(void **state)
{
	static const char *const paths[][2] = {
		{"drain_timout", "drain_timeout"},
		{"log", "log.target"},
		{"log.levl", "log.level"},
		{"supervision", "supervision.rescue_after"},
		{"supervision.extra_mx", "supervision.extra_max"},
		{"groups.echo", "groups.echo.name"},
		{"groups.echo.echo", "groups.echo.echo.tag"},
		{"groups.ehco.backlog", "groups.echo.backlog"},
		{"groups.echo.backlg", "groups.echo.backlog"},
		{"backlog", "groups.echo.backlog"},
		{"echo.tag", "groups.echo.echo.tag"},
		{"groups.*.backlog", "groups.echo.backlog"},
		{"nonsense", NULL},
		{"", NULL},
		{".", NULL},
		{"groups.echo.fault", "groups.echo.faults"},
		{"faults", "groups.echo.faults"},
		{"kind", NULL},
		{"groups.", "groups"},
		{"groups..", "groups"},
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
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_probabilities_read_back_the_same),
		cmocka_unit_test(test_a_dump_dumps_to_itself),
		cmocka_unit_test(test_strings_are_escaped),
		cmocka_unit_test(test_single_values),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_single_values_that_are_not_there),
	};

	return cmocka_run_group_tests_name("config-dump", tests, fixture_enter, fixture_leave);
}
