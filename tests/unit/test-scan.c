/*
 * The scan of a configuration's text: what becomes of it, what is refused, and that each line is
 * known by where it was written.
 */
#include "config-fixture.h"

#include <sys/stat.h>

#include "config/scan.h"

struct scanned {
	struct scan scan;
	struct report report;
	char *findings;
	size_t length;
};

static void scan_text(struct scanned *scanned, const char *text)
{
	*scanned = (struct scanned){.findings = NULL};
	scanned->report.stream = open_memstream(&scanned->findings, &scanned->length);
	assert_non_null(scanned->report.stream);
	assert_int_equal(scan_run(&scanned->scan, "x.conf", text, strlen(text), &scanned->report),
			 0);
	assert_int_equal(fflush(scanned->report.stream), 0);
}

static void release(struct scanned *scanned)
{
	scan_fini(&scanned->scan);
	report_fini(&scanned->report);
	fclose(scanned->report.stream);
	free(scanned->findings);
}

static void check_clean(const char *text, const char *result)
{
	struct scanned scanned;

	scan_text(&scanned, text);
	assert_string_equal(scanned.findings, "");
	assert_string_equal(scanned.scan.text, result);
	assert_false(scanned.scan.broken);
	release(&scanned);
}

static void test_clean_text_stays_as_it_is(void **state)
{
	static const char *const texts[] = {
		"",
		"\n",
		"a = 1;\n",
		"a = 2147483647; b = -2147483648; c = 0x7fffffff; d = 9223372036854775807L;\n",
		"a = 1.5e300; b = .5; c = 3000000000.0;\n",
		"a = \"3000000000\"; # 3000000000\n// 3000000000\n/* 3000000000\n3000000000 */\n",
		"a = \"/* // # @include \\\" \\\\\"; b = 1;\n",
		"name-3000000000 = 1; x3000000000 = 2; *3000000000 = 3;\n",
		"# \" ' /* @include\r\na = 1;\r\n",
		"/**/ a = 1; /***/\n",
		"a = ( 1, 2 ); b = [ \"x\" ];\n",
		"a = ( { b = 1, } );\n",
		"\"unknown\" ] } ) = nonsense\n", /* libconfig's to refuse */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		check_clean(texts[i], texts[i]);
}

/* libconfig 1.5 refuses a comment on a last line that does not end. */
static void test_the_last_line_is_ended(void **state)
{
	(void)state;
	check_clean("# no line break", "# no line break\n");
}

static void check_refused(const char *text, const char *result, const char *findings)
{
	struct scanned scanned;

	scan_text(&scanned, text);
	assert_string_equal(scanned.findings, findings);
	assert_string_equal(scanned.scan.text, result);
	assert_false(scanned.scan.broken);
	release(&scanned);
}

#define REFUSED "-9223372036854775808L"

static void test_integers_that_libconfig_wraps(void **state)
{
	(void)state;
	check_refused("a = 4294967297;\n", "a = " REFUSED ";\n",
		      "x.conf:1: error: 4294967297 does not fit into the 32 bits of an integer "
		      "without L\n"
		      "        a = 4294967297;\n"
		      "        write 4294967297L\n");
	check_refused("a = 0xffffffff;\n", "a = " REFUSED ";\n",
		      "x.conf:1: error: 0xffffffff does not fit into the 32 bits of an integer "
		      "without L\n"
		      "        a = 0xffffffff;\n"
		      "        write 0xffffffffL\n");
	check_refused("a = -18446744073709551617L;\n", "a = " REFUSED ";\n",
		      "x.conf:1: error: -18446744073709551617L does not fit into 64 bits\n"
		      "        a = -18446744073709551617L;\n");
	check_refused("a = 18446744073709551617;\n", "a = " REFUSED ";\n",
		      "x.conf:1: error: 18446744073709551617 does not fit into 64 bits\n"
		      "        a = 18446744073709551617;\n");
}

static void test_values_without_quotes(void **state)
{
	(void)state;
	check_refused("\na = 500ms; b = [127.0.0.1:7];\n",
		      "\na = " REFUSED "; b = [" REFUSED "];\n",
		      "x.conf:2: error: 500ms is not a number\n"
		      "        a = 500ms; b = [127.0.0.1:7];\n"
		      "        write \"500ms\"\n"
		      "x.conf:2: error: 127.0.0.1:7 is not a number\n"
		      "        a = 500ms; b = [127.0.0.1:7];\n"
		      "        write \"127.0.0.1:7\"\n");
	/* libconfig reads these since 1.8 only. */
	check_refused("a = 0b11; b = 0o17;\n", "a = " REFUSED "; b = " REFUSED ";\n",
		      "x.conf:1: error: 0b11 is not a number\n"
		      "        a = 0b11; b = 0o17;\n"
		      "        write \"0b11\"\n"
		      "x.conf:1: error: 0o17 is not a number\n"
		      "        a = 0b11; b = 0o17;\n"
		      "        write \"0o17\"\n");
}

static void test_a_long_number_is_cut(void **state)
{
	char text[4000];
	struct scanned scanned;

	(void)state;
	memset(text, '7', sizeof(text));
	memcpy(text + sizeof(text) - 3, "s;", 3);
	scan_text(&scanned, text);
	assert_int_equal(scanned.report.errors, 1);
	assert_true(strlen(scanned.findings) < 400);
	assert_string_equal(scanned.scan.text, REFUSED ";\n");
	release(&scanned);
}

static void test_a_comma_behind_the_last_value(void **state)
{
	(void)state;
	check_refused("a = [ 1, 2, /* , */\n];\n", "a = [ 1, 2  /* , */\n];\n",
		      "x.conf:2: error: a comma must be followed by a value\n"
		      "        ];\n"
		      "        leave out the comma before it\n");
}

static void test_nul_in_a_string(void **state)
{
	(void)state;
	check_refused("a = \"b\\x00\"; c = \"\\\\x00\";\n", "a = \"b\\x00\"; c = \"\\\\x00\";\n",
		      "x.conf:1: error: a string cannot hold a NUL\n"
		      "        a = \"b\\x00\"; c = \"\\\\x00\";\n");
}

static void test_byte_order_mark(void **state)
{
	(void)state;
	check_refused("\xef\xbb\xbf"
		      "a = 1;\n",
		      "a = 1;\n",
		      "x.conf:1: error: the file begins with a byte order mark\n"
		      "        \xef\xbb\xbf"
		      "a = 1;\n"
		      "        save it as UTF-8 without BOM\n");
}

static void check_broken(const char *text, const char *findings)
{
	struct scanned scanned;

	scan_text(&scanned, text);
	assert_string_equal(scanned.findings, findings);
	assert_true(scanned.scan.broken);
	release(&scanned);
}

static void test_what_never_ends(void **state)
{
	(void)state;
	check_broken("a = 1;\n/* b = 2;\nc = 3; *",
		     "x.conf:2: error: the comment that begins here never ends\n"
		     "        /* b = 2;\n"
		     "        write */ where it ends\n");
	check_broken("a = 1;\n/*/", "x.conf:2: error: the comment that begins here never ends\n"
				    "        /*/\n"
				    "        write */ where it ends\n");
	check_broken("a = \"x;\nb = \"y\";\n",
		     "x.conf:1: error: the string that begins on this line does not end on it\n"
		     "        a = \"x;\n"
		     "        close it with a \" on the same line\n");
	check_broken("a = \"x\\\"", "x.conf:1: error: the string that begins on this line does not "
				    "end on it\n"
				    "        a = \"x\\\"\n"
				    "        close it with a \" on the same line\n");
	check_broken("a = \"x\\", "x.conf:1: error: the string that begins on this line does not "
				  "end on it\n"
				  "        a = \"x\\\n"
				  "        close it with a \" on the same line\n");
}

static void test_nul_in_the_text(void **state)
{
	static const char text[] = "a = 1;\nb\0 = 2;\n";
	struct scan scan = {.text = NULL};
	struct report report = {.stream = NULL};

	(void)state;
	assert_int_equal(scan_run(&scan, "x.conf", text, sizeof(text) - 1, &report), 0);
	assert_int_equal(report.errors, 1);
	assert_true(scan.broken);
	scan_fini(&scan);
	report_fini(&report);
}

static void test_an_at_sign_is_an_include_or_nothing(void **state)
{
	static const char *const texts[] = {
		"@\n",
		"@include\n",
		"@include x.conf\n",
		"@include \"x.conf\n",
		"@include\"y.conf\"\n",
		"@includes \"y.conf\"\n",
		"a = 1; @include \"y.conf\"\n",
		"/**/ @include \"y.conf\"\n",
		"@include \"a.conf\" @include \"a.conf\"\n",
	};

	(void)state;
	fixture_write_text("a.conf", "a = 1;\n");
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct scanned scanned;

		scan_text(&scanned, texts[i]);
		assert_non_null(strstr(scanned.findings,
				       "x.conf:1: error: \"@\" does not begin an include\n"));
		assert_int_equal(scanned.report.errors, 1);
		assert_true(scanned.scan.broken);
		release(&scanned);
	}
}

static void check_origin(const struct scan *scan, const char *text, const char *file, unsigned line)
{
	const char *found = strstr(scan->text, text);
	unsigned text_line = 1;
	struct origin origin;

	assert_non_null(found);
	for (const char *p = scan->text; p < found; p++)
		text_line += *p == '\n';
	origin = scan_origin(scan, text_line);
	assert_string_equal(origin.file, file);
	assert_int_equal(origin.line, line);
}

static void test_includes_become_part_of_the_text(void **state)
{
	struct scanned scanned;

	(void)state;
	fixture_write_text("a.conf", "a1 = 1;\n \t@include  \t\"b\\\\\\\".conf\" a2 = 2; # end");
	fixture_write_text("b\\\".conf", "\nb2 = 2;\n");
	fixture_write_text("empty.conf", "");
	scan_text(&scanned, "x1 = 1;\n@include \"a.conf\"\nx3 = 3;\n@include \"empty.conf\"\n"
			    "x5 = 5;\n@include \"b\\\\\\\".conf\"\nx7 = 7;\n");
	assert_string_equal(scanned.findings, "");
	assert_false(scanned.scan.broken);
	assert_null(strstr(scanned.scan.text, "@include"));
	check_origin(&scanned.scan, "x1", "x.conf", 1);
	check_origin(&scanned.scan, "a1", "a.conf", 1);
	check_origin(&scanned.scan, "b2", "b\\\".conf", 2);
	check_origin(&scanned.scan, "a2", "a.conf", 2);
	check_origin(&scanned.scan, "x3", "x.conf", 3);
	check_origin(&scanned.scan, "x5", "x.conf", 5);
	check_origin(&scanned.scan, "x7", "x.conf", 7);
	assert_int_equal(scanned.scan.n_files, 5);
	release(&scanned);
}

static void test_numbers_of_included_files_are_looked_at(void **state)
{
	struct scanned scanned;

	(void)state;
	fixture_write_text("a.conf", "\na = 3000000000;\n");
	scan_text(&scanned, "@include \"a.conf\"\n");
	assert_string_equal(scanned.findings, "a.conf:2: error: 3000000000 does not fit into the "
					      "32 bits of an integer without L\n"
					      "        a = 3000000000;\n"
					      "        write 3000000000L\n");
	release(&scanned);
}

static void test_includes_are_relative_to_their_file(void **state)
{
	struct scan scan = {.text = NULL};
	struct report report = {.stream = NULL};
	static const char text[] = "@include \"folder/a.conf\"\n@include \"/dev/../etc/passwd\"\n";

	(void)state;
	assert_int_equal(mkdir("folder", 0700), 0);
	fixture_write_text("folder/a.conf", "@include \"b.conf\"\n");
	fixture_write_text("folder/b.conf", "b = 1;\n");
	assert_int_equal(scan_run(&scan, "././x.conf", text, strlen(text), &report), 0);
	assert_int_equal(scan.n_files, 4);
	assert_string_equal(scan.files[1], "././folder/a.conf");
	assert_string_equal(scan.files[2], "././folder/b.conf");
	assert_string_equal(scan.files[3], "/dev/../etc/passwd");
	unlink("folder/a.conf");
	unlink("folder/b.conf");
	scan_fini(&scan);
	report_fini(&report);
}

/* "-" is standard input for the main file alone. */
static void test_a_file_with_the_name_of_standard_input(void **state)
{
	struct scanned scanned;

	(void)state;
	fixture_write_text("-", "a = 1;\n");
	scan_text(&scanned, "@include \"-\"\n");
	assert_string_equal(scanned.findings, "");
	check_origin(&scanned.scan, "a = 1", "-", 1);
	release(&scanned);
}

static void test_a_missing_include(void **state)
{
	(void)state;
	check_broken("\n  @include \"none.conf\"\n",
		     "x.conf:2: error: cannot read the included file \"none.conf\": No such file "
		     "or directory\n"
		     "        @include \"none.conf\"\n"
		     "        looked for none.conf; names are relative to the folder of the file "
		     "they stand in\n");
	check_broken("@include \"/dev/zero\"\n",
		     "x.conf:1: error: cannot read the included file \"/dev/zero\": it is neither "
		     "a file nor a pipe\n"
		     "        @include \"/dev/zero\"\n"
		     "        looked for /dev/zero; names are relative to the folder of the file "
		     "they stand in\n");
}

static void test_includes_of_themselves_end(void **state)
{
	(void)state;
	fixture_write_text("self.conf", "@include \"self.conf\"\n");
	check_broken("@include \"self.conf\"\n",
		     "self.conf:1: error: more than 10 files include each other\n"
		     "        @include \"self.conf\"\n"
		     "        does a file include itself?\n");
}

static void test_many_includes_end(void **state)
{
	char text[4000] = "";
	struct scanned scanned;
	size_t length = 0;

	(void)state;
	fixture_write_text("empty.conf", "");
	for (int i = 0; i < 150; i++)
		length += (size_t)snprintf(text + length, sizeof(text) - length,
					   "@include \"empty.conf\"\n");
	assert_true(length < sizeof(text));
	scan_text(&scanned, text);
	assert_non_null(strstr(scanned.findings, "x.conf:100: error: a configuration has at most "
						 "100 files\n"));
	assert_true(scanned.scan.broken);
	release(&scanned);
}

/* libconfig knows the line of a string only by the token behind it. */
static void test_lines_of_strings(void **state)
{
	static const unsigned lines[] = {1, 2, 4, 6};
	struct scanned scanned;

	(void)state;
	scan_text(&scanned,
		  "a = \"1\";\nb = [ \"2\"\n\"3\",\n\"4\" /* \"no\" */ \"4\"\n,\n\"6\"\n];\n");
	assert_int_equal(scanned.scan.n_strings, 4);
	assert_memory_equal(scanned.scan.strings, lines, sizeof(lines));
	release(&scanned);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clean_text_stays_as_it_is),
		cmocka_unit_test(test_the_last_line_is_ended),
		cmocka_unit_test(test_integers_that_libconfig_wraps),
		cmocka_unit_test(test_values_without_quotes),
		cmocka_unit_test(test_a_long_number_is_cut),
		cmocka_unit_test(test_a_comma_behind_the_last_value),
		cmocka_unit_test(test_nul_in_a_string),
		cmocka_unit_test(test_byte_order_mark),
		cmocka_unit_test(test_what_never_ends),
		cmocka_unit_test(test_nul_in_the_text),
		cmocka_unit_test(test_an_at_sign_is_an_include_or_nothing),
		cmocka_unit_test(test_includes_become_part_of_the_text),
		cmocka_unit_test(test_numbers_of_included_files_are_looked_at),
		cmocka_unit_test(test_includes_are_relative_to_their_file),
		cmocka_unit_test(test_a_file_with_the_name_of_standard_input),
		cmocka_unit_test(test_a_missing_include),
		cmocka_unit_test(test_includes_of_themselves_end),
		cmocka_unit_test(test_many_includes_end),
		cmocka_unit_test(test_lines_of_strings),
	};

	return cmocka_run_group_tests_name("scan", tests, fixture_enter, fixture_leave);
}
