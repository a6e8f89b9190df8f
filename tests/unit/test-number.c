/*
 * Numbers in the text of a configuration: how far they reach, and which of them libconfig 1.5 would
 * wrap around.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "config/number.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void test_lengths(void **state)
{
	static const struct {
		const char *text;
		size_t length;
		bool integer;
	} numbers[] = {
		{"0", 1, true},     {"12;", 2, true},      {"-12 ", 3, true},  {"+12)", 3, true},
		{"12L", 3, true},   {"12LL", 4, true},     {"12LLL", 4, true}, {"0x1F", 4, true},
		{"0Xffg", 4, true}, {"0x1FLL", 6, true},   {"0x", 1, true},    {"0xg", 1, true},
		{"00x1", 2, true},  {"1.5", 3, false},     {"1.", 2, false},   {".5", 2, false},
		{"-.5", 3, false},  {".", 1, false},       {"1e5", 3, false},  {"1e", 1, true},
		{"1e+", 1, true},   {"1.5e-3x", 6, false}, {"1.5L", 3, false}, {"1.2.3", 3, false},
		{"500ms", 3, true}, {"-", 0, false},       {"+x", 0, false},   {"", 0, false},
		{"x1", 0, false},   {"1-2", 1, true},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(numbers); i++) {
		struct number number = number_read(numbers[i].text);

		print_message("# \"%s\"\n", numbers[i].text);
		assert_int_equal(number.length, numbers[i].length);
		if (number.length > 0)
			assert_int_equal(number.integer, numbers[i].integer);
	}
}

static void test_which_are_too_large(void **state)
{
	static const struct {
		const char *text;
		bool too_large;
	} numbers[] = {
		{"2147483647", false},
		{"2147483648", true},
		{"+2147483648", true},
		{"-2147483648", false},
		{"-2147483649", true},
		{"3000000000", true},
		{"4294967297", true},
		{"00000000000000000000000000007", false},
		{"0x7fffffff", false},
		{"0x80000000", true},
		{"0xffffffff", true},
		{"0x100000001", true},
		{"2147483648L", false},
		{"9223372036854775807L", false},
		{"9223372036854775808L", true},
		{"-9223372036854775807L", false},
		{"-9223372036854775808L", true},
		{"18446744073709551617L", true},
		{"0x7fffffffffffffffL", false},
		{"0x8000000000000000L", true},
		{"0xffffffffffffffffLL", true},
		{"0x10000000000000001L", true},
		{"99999999999999999999999999999999999999999", true},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(numbers); i++) {
		struct number number = number_read(numbers[i].text);

		print_message("# %s\n", numbers[i].text);
		assert_true(number.integer);
		assert_int_equal(number.length, strlen(numbers[i].text));
		assert_int_equal(number_is_too_large(&number), numbers[i].too_large);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_which_are_too_large),
	};

	return cmocka_run_group_tests_name("number", tests, NULL, NULL);
}
