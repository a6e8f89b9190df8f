/*
 * The configurations that are shipped: each is fine, without a warning, and the installed one says
 * what it says about itself. `srcdir` in the environment is the top of the source.
 */
#include "config-fixture.h"

static const char *const examples[] = {
	"shared-listener",
	"reuseport",
	"reuseport-standby",
};

/* The path of a file of the source; the caller's. Skips the test if nobody says where it is. */
static char *source(const char *file)
{
	const char *srcdir = getenv("srcdir");
	char *path = NULL;

	if (!srcdir)
		skip();
	assert_true(asprintf(&path, "%s/%s", srcdir, file) > 0);
	return path;
}

static void check_changed(const char *path, const char *expected)
{
	struct settings *settings = fixture_load_good(path);
	char *dump = fixture_dump(settings, CONFIG_DUMP_CHANGED);

	assert_string_equal(dump, expected);
	free(dump);
	settings_free(settings);
}

static void test_the_installed_file_changes_nothing(void **state)
{
	char *path = source("etc/laned.conf");

	(void)state;
	check_changed(path, "");
	free(path);
}

/* All that is switched off, switched on: the defaults, and one group with a name and an address. */
static void test_the_installed_file_switched_on(void **state)
{
	char *path = source("etc/laned.conf");
	FILE *from = fopen(path, "re");
	FILE *to = fopen("x.conf", "we");
	char line[256];

	(void)state;
	assert_true(from && to);
	while (fgets(line, sizeof(line), from)) {
		bool off = line[0] == '#' && line[1] != ' ' && line[1] != '\n';

		fputs(off ? line + 1 : line, to);
	}
	fclose(from);
	assert_int_equal(fclose(to), 0);
	check_changed("x.conf", "groups = (\n"
				"\t{\n"
				"\t\tname = \"echo\";\n"
				"\t\tlisten = [ \"127.0.0.1:7007\" ];\n"
				"\t}\n"
				");\n");
	free(path);
}

static void test_examples(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
		char file[64];
		char *path;
		struct settings *settings;
		const char *topology;

		snprintf(file, sizeof(file), "etc/examples/%s.conf", examples[i]);
		path = source(file);
		settings = fixture_load_good(path);
		topology = settings->groups[0].topology;
		assert_memory_equal(topology, examples[i], strlen("reuseport"));
		assert_int_equal(strchr(topology, '+') != NULL,
				 strstr(examples[i], "-standby") != NULL);
		settings_free(settings);
		free(path);
	}
}

/* The examples of the manual page, as they stand there. */
static void test_examples_of_the_manual(void **state)
{
	char *path = source("man/laned.conf.5");
	FILE *page = fopen(path, "re");
	bool in_examples = false;
	FILE *to = NULL;
	char line[256];
	int n = 0;

	(void)state;
	assert_non_null(page);
	while (fgets(line, sizeof(line), page)) {
		if (strncmp(line, ".Sh ", 4) == 0)
			in_examples = strcmp(line, ".Sh EXAMPLES\n") == 0;
		if (in_examples && strncmp(line, ".Bd ", 4) == 0) {
			to = fopen("x.conf", "we");
			assert_non_null(to);
		} else if (to && strcmp(line, ".Ed\n") == 0) {
			struct loaded loaded;

			assert_int_equal(fclose(to), 0);
			to = NULL;
			loaded = fixture_load("x.conf");
			assert_int_equal(loaded.errors, 0);
			fixture_release(&loaded);
			n++;
		} else if (to) {
			fputs(line, to);
		}
	}
	fclose(page);
	assert_int_equal(n, 3);
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_installed_file_changes_nothing),
		cmocka_unit_test(test_the_installed_file_switched_on),
		cmocka_unit_test(test_examples),
		cmocka_unit_test(test_examples_of_the_manual),
	};

	return cmocka_run_group_tests_name("config-files", tests, fixture_enter, fixture_leave);
}
