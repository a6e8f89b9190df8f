/*
 * For tests of the configuration: a folder of their own to work in, and what config_load() says of
 * a text.
 */
#ifndef LANED_TESTS_CONFIG_FIXTURE_H
#define LANED_TESTS_CONFIG_FIXTURE_H

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/config.h"

static char fixture_folder[] = "/tmp/laned-test-XXXXXX";

/* Group setup: makes a folder and goes there, so that files have short names. */
static int fixture_enter(void **state)
{
	(void)state;
	return mkdtemp(fixture_folder) && chdir(fixture_folder) == 0 ? 0 : -1;
}

/* Group teardown: removes the folder and the files in it. */
static int fixture_leave(void **state)
{
	DIR *folder = opendir(".");
	struct dirent *entry;

	(void)state;
	if (!folder)
		return -1;
	while ((entry = readdir(folder))) {
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			remove(entry->d_name);
	}
	closedir(folder);
	return chdir("/") == 0 && rmdir(fixture_folder) == 0 ? 0 : -1;
}

static inline void fixture_write(const char *file, const void *bytes, size_t length)
{
	FILE *stream = fopen(file, "we");

	assert_non_null(stream);
	assert_int_equal(fwrite(bytes, 1, length, stream), length);
	assert_int_equal(fclose(stream), 0);
}

static inline void fixture_write_text(const char *file, const char *text)
{
	fixture_write(file, text, strlen(text));
}

/* What came of a load. */
struct loaded {
	int result;
	struct settings *settings; /* NULL unless the result is 0 */
	char *findings;            /* all that was reported */
	size_t length;
	unsigned errors, warnings;
};

static inline struct loaded fixture_load_source(const struct config_source *source)
{
	struct loaded loaded = {.settings = NULL};
	struct report report = {.stream = open_memstream(&loaded.findings, &loaded.length)};

	assert_non_null(report.stream);
	loaded.result = config_load(source, &report, &loaded.settings);
	loaded.errors = report.errors;
	loaded.warnings = report.warnings;
	report_fini(&report);
	assert_int_equal(fclose(report.stream), 0);
	return loaded;
}

static inline struct loaded fixture_load(const char *path)
{
	const struct config_source from = {.path = path};

	return fixture_load_source(&from);
}

/* Loads a text as "x.conf". */
static inline struct loaded fixture_load_text(const char *text)
{
	fixture_write_text("x.conf", text);
	return fixture_load("x.conf");
}

static inline void fixture_release(struct loaded *loaded)
{
	loaded->settings = settings_free(loaded->settings);
	free(loaded->findings);
	loaded->findings = NULL;
}

/* Loads a file that must be fine, without a warning. */
static inline struct settings *fixture_load_good(const char *path)
{
	struct loaded loaded = fixture_load(path);

	assert_string_equal(loaded.findings, "");
	assert_int_equal(loaded.result, 0);
	free(loaded.findings);
	return loaded.settings;
}

/* Loads a text as "x.conf" that is wrong, and compares all that is said of it. */
static inline void check_findings(const char *text, const char *expected)
{
	struct loaded loaded = fixture_load_text(text);

	assert_string_equal(loaded.findings, expected);
	assert_int_equal(loaded.result, -EBADMSG);
	assert_null(loaded.settings);
	fixture_release(&loaded);
}

/* The settings as config_dump() writes them; the caller's. */
static inline char *fixture_dump(const struct settings *settings, unsigned what)
{
	char *text = NULL;
	size_t length;
	FILE *stream = open_memstream(&text, &length);

	assert_non_null(stream);
	config_dump(settings, what, stream);
	assert_int_equal(fclose(stream), 0);
	return text;
}

#endif
