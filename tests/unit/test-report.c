/*
 * The report: the form of findings, and that nothing in a file can spoil it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/report.h"

static struct report report;
static char *output;
static size_t length;

static int begin(void **state)
{
	(void)state;
	report = (struct report){.stream = open_memstream(&output, &length)};
	return report.stream ? 0 : -1;
}

static int end(void **state)
{
	(void)state;
	report_fini(&report);
	fclose(report.stream);
	free(output);
	return 0;
}

static void check_output(const char *expected)
{
	assert_int_equal(fflush(report.stream), 0);
	assert_string_equal(output, expected);
}

static void add_source(const char *text)
{
	assert_int_equal(report_add_source(&report, "x.conf", text, strlen(text)), 0);
}

static void test_a_finding_with_all_its_parts(void **state)
{
	struct origin origin = {.file = "x.conf", .line = 2};

	(void)state;
	add_source("a\n\t b = 1;  \t\r\nc\n");
	report_add(&report, REPORT_ERROR, &origin, "do this\nor that", "no \"%s\"", "b");
	report_add(&report, REPORT_WARNING, &origin, NULL, "is %d", 1);
	check_output("x.conf:2: error: no \"b\"\n"
		     "        b = 1;\n"
		     "        do this\n"
		     "        or that\n"
		     "x.conf:2: warning: is 1\n"
		     "        b = 1;\n");
	assert_int_equal(report.errors, 1);
	assert_int_equal(report.warnings, 1);
}

static void test_a_finding_without_a_place(void **state)
{
	struct origin nowhere = {.file = NULL};

	(void)state;
	report_add(&report, REPORT_ERROR, NULL, "hint", "text");
	report_add(&report, REPORT_ERROR, &nowhere, NULL, "text");
	check_output("error: text\n        hint\nerror: text\n");
}

static void test_lines_that_are_not_there(void **state)
{
	static const struct origin origins[] = {
		{.file = "x.conf", .line = 0}, {.file = "x.conf", .line = 2},
		{.file = "x.conf", .line = 4}, {.file = "x.conf", .line = 99},
		{.file = "y.conf", .line = 1},
	};

	(void)state;
	add_source("a\n \t\nc");
	for (size_t i = 0; i < sizeof(origins) / sizeof(origins[0]); i++)
		report_add(&report, REPORT_ERROR, &origins[i], NULL, "text");
	check_output("x.conf:0: error: text\nx.conf:2: error: text\nx.conf:4: error: text\n"
		     "x.conf:99: error: text\ny.conf:1: error: text\n");
}

static void test_the_last_line(void **state)
{
	struct origin origin = {.file = "x.conf", .line = 2};

	(void)state;
	add_source("a\nb");
	report_add(&report, REPORT_ERROR, &origin, NULL, "text");
	check_output("x.conf:2: error: text\n        b\n");
}

static void test_syntax_shows_the_line_before(void **state)
{
	struct origin second = {.file = "x.conf", .line = 2};
	struct origin first = {.file = "x.conf", .line = 1};

	(void)state;
	add_source("a = \nb = 1;\n");
	report_add_syntax(&report, &second, NULL, "bad");
	report_add_syntax(&report, &first, "hint", "bad");
	check_output("x.conf:2: error: bad\n        a =\n        b = 1;\n"
		     "x.conf:1: error: bad\n        a =\n        hint\n");
	assert_int_equal(report.errors, 2);
}

static void test_control_characters_are_not_written(void **state)
{
	struct origin origin = {.file = "x.conf", .line = 1};

	(void)state;
	add_source("a = \"\x1b[2J\t\x7f\xc3\xa4\";\n");
	report_add(&report, REPORT_ERROR, &origin, "\x1b", "%s", "b\nx.conf:9: error: c");
	check_output("x.conf:1: error: b?x.conf:9: error: c\n"
		     "        a = \"?[2J ?\xc3\xa4\";\n"
		     "        ?\n");
}

static void test_what_is_long_is_cut(void **state)
{
	struct origin origin = {.file = "x.conf", .line = 1};
	char text[5000];

	(void)state;
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	add_source(text);
	report_add(&report, REPORT_ERROR, &origin, NULL, "%s", text);
	assert_int_equal(fflush(report.stream), 0);
	assert_true(length < 1000);
	assert_non_null(strstr(output, "aaa...\n        aaa"));
	assert_string_equal(output + length - 7, "aaa...\n");
}

static void test_without_a_stream_it_counts(void **state)
{
	struct report silent = {.stream = NULL};
	struct origin origin = {.file = "x.conf", .line = 1};

	(void)state;
	report_add(&silent, REPORT_ERROR, &origin, NULL, "text");
	report_add(&silent, REPORT_WARNING, NULL, NULL, "text");
	report_summary(&silent, "x.conf");
	assert_int_equal(silent.errors, 1);
	assert_int_equal(silent.warnings, 1);
	report_fini(&silent);
}

static void test_summary(void **state)
{
	static const struct {
		unsigned errors, warnings;
		const char *text;
	} cases[] = {
		{0, 0, ""},
		{1, 0, "1 error in x.conf\n"},
		{2, 1, "2 errors, 1 warning in x.conf\n"},
		{0, 2, "2 warnings in x.conf\n"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *text = NULL;
		size_t size;
		struct report counted = {
			.stream = open_memstream(&text, &size),
			.errors = cases[i].errors,
			.warnings = cases[i].warnings,
		};

		assert_non_null(counted.stream);
		report_summary(&counted, "x.conf");
		fclose(counted.stream);
		assert_string_equal(text, cases[i].text);
		free(text);
	}
}

static void test_places(void **state)
{
	struct origin written = {.file = "x.conf", .line = 7};
	struct origin nowhere = {.file = NULL};
	char name[REPORT_PLACE_MAX * 2], text[REPORT_PLACE_MAX];

	(void)state;
	assert_string_equal(report_place(&written, text), "x.conf:7");
	assert_string_equal(report_place(&nowhere, text), "its default");
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	written.file = name;
	assert_int_equal(strlen(report_place(&written, text)), REPORT_PLACE_MAX - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_finding_with_all_its_parts, begin, end),
		cmocka_unit_test_setup_teardown(test_a_finding_without_a_place, begin, end),
		cmocka_unit_test_setup_teardown(test_lines_that_are_not_there, begin, end),
		cmocka_unit_test_setup_teardown(test_the_last_line, begin, end),
		cmocka_unit_test_setup_teardown(test_syntax_shows_the_line_before, begin, end),
		cmocka_unit_test_setup_teardown(test_control_characters_are_not_written, begin,
						end),
		cmocka_unit_test_setup_teardown(test_what_is_long_is_cut, begin, end),
		cmocka_unit_test(test_without_a_stream_it_counts),
		cmocka_unit_test(test_summary),
		cmocka_unit_test(test_places),
	};

	return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
