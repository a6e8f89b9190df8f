/*
 * What comes over the control socket is believed only as far as it has been checked.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "control/call.h"

static void test_where_a_call_ends(void **state)
{
	static char bytes[CALL_MAX + 2];
	size_t size = 0;

	(void)state;
	assert_int_equal(call_find("{}\0{", 4, &size), CALL_WHOLE);
	assert_int_equal(size, 3);
	assert_int_equal(call_find("{", 1, &size), CALL_INCOMPLETE);
	assert_int_equal(call_find("", 0, &size), CALL_INCOMPLETE);
	memset(bytes, ' ', sizeof(bytes));
	assert_int_equal(call_find(bytes, CALL_MAX, &size), CALL_INCOMPLETE);
	assert_int_equal(call_find(bytes, CALL_MAX + 1, &size), CALL_TOO_LONG);
	bytes[CALL_MAX] = '\0';
	assert_int_equal(call_find(bytes, CALL_MAX + 2, &size), CALL_WHOLE);
	assert_int_equal(size, CALL_MAX + 1);
}

static void test_good_calls(void **state)
{
	static const char text[] =
		"{\"method\":\"org.laned.Reload\",\"parameters\":{\"wait\":true},"
		"\"more\":false,\"oneway\":true}";
	struct call_error error;
	struct call call;

	(void)state;
	assert_int_equal(call_parse(&call, text, strlen(text), &error), 0);
	assert_string_equal(call.method, "org.laned.Reload");
	assert_true(json_is_true(json_object_get(call.parameters, "wait")));
	assert_false(call.more);
	assert_true(call.oneway);
	call_fini(&call);
}

static void test_bad_calls(void **state)
{
	static const struct {
		const char *text;
		bool garbage;
	} bad[] = {
		{"", true},
		{"GET / HTTP/1.1", true},
		{"[]", true},
		{"{} {}", true},
		{"{\"method\":\"\xff\"}", true},
		{"{\"method\":\"a\",\"method\":\"b\"}", true},
		{"{}", false},
		{"{\"method\":1}", false},
		{"{\"method\":null}", false},
		{"{\"method\":\"a\",\"parameters\":[]}", false},
		{"{\"method\":\"a\",\"more\":1}", false},
		{"{\"method\":\"a\",\"oneway\":\"true\"}", false},
		{"{\"method\":\"a\",\"parameter\":{}}", false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct call_error error;
		struct call call;

		assert_true(call_parse(&call, bad[i].text, strlen(bad[i].text), &error) < 0);
		assert_int_equal(error.garbage, bad[i].garbage);
		assert_true(error.text[0] != '\0');
		call_fini(&call);
	}
}

static void test_depth_is_bounded(void **state)
{
	static char text[CALL_MAX];
	struct call_error error;
	struct call call;

	(void)state;
	memset(text, '[', sizeof(text));
	assert_true(call_parse(&call, text, sizeof(text), &error) < 0);
	assert_true(error.garbage);
	call_fini(&call);
}

/* The parameter that is wrong; "": none. */
static void check(const char *method, const char *parameters, const char *wrong)
{
	struct call call = {.parameters = json_loads(parameters, 0, NULL)};
	const char *name = call_check(&call, verb_find_method(method));

	assert_string_equal(name ? name : "", wrong);
	json_decref(call.parameters);
}

static void test_parameters(void **state)
{
	(void)state;
	check("Status", "{}", "");
	check("Status", "{\"x\":1}", "x");
	check("Reload", "{\"wait\":true,\"dry_run\":null}", "");
	check("Reload", "{\"wait\":1}", "wait");
	check("Restart", "{\"group\":true}", "group");
	check("LogLevel", "{}", "level");
	check("LogLevel", "{\"level\":null}", "level");
	check("LogLevel", "{\"level\":\"debug\"}", "");
}

static void test_replies(void **state)
{
	char *text = call_reply(NULL);

	(void)state;
	assert_string_equal(text, "{\"parameters\":{}}");
	free(text);
	text = call_reply_error("org.varlink.service.InvalidParameter",
				json_pack("{s:s}", "parameter", "x"));
	assert_string_equal(text, "{\"error\":\"org.varlink.service.InvalidParameter\","
				  "\"parameters\":{\"parameter\":\"x\"}}");
	free(text);
}

/* Verbs are found by either name, each by its own. */
static void test_verbs(void **state)
{
	(void)state;
	for (size_t i = 0; i < n_verbs; i++) {
		assert_ptr_equal(verb_find(verbs[i].name), &verbs[i]);
		if (verbs[i].method)
			assert_ptr_equal(verb_find_method(verbs[i].method), &verbs[i]);
		assert_true(verbs[i].help[0] != '\0');
	}
	assert_null(verb_find("config"));
	assert_null(verb_find_method("status"));
	assert_null(verb_find_method(""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_where_a_call_ends),
		cmocka_unit_test(test_good_calls),
		cmocka_unit_test(test_bad_calls),
		cmocka_unit_test(test_depth_is_bounded),
		cmocka_unit_test(test_parameters),
		cmocka_unit_test(test_replies),
		cmocka_unit_test(test_verbs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
