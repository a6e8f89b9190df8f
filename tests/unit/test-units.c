/*
 * Times and sizes: what is read, what is refused, and that what is written reads back.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/units.h"

struct reading {
	const char *text;
	int result;
	uint64_t value;
};

static void check_readings(const struct reading *reading, size_t n,
			   int (*parse)(const char *, uint64_t *))
{
	for (; n > 0; n--, reading++) {
		uint64_t value = 0;

		print_message("# \"%s\"\n", reading->text);
		assert_int_equal(parse(reading->text, &value), reading->result);
		if (reading->result == 0)
			assert_true(value == reading->value);
	}
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void test_reads_times(void **state)
{
	static const struct reading readings[] = {
		{"0", 0, 0},
		{"0s", 0, 0},
		{"0.0", 0, 0},
		{"00d", 0, 0},
		{"1ns", 0, 1},
		{"1us", 0, 1000},
		{"5ms", 0, 5000000},
		{"1.5s", 0, 1500000000},
		{"0.25ms", 0, 250000},
		{"0.1s", 0, 100000000},
		{"0.3s", 0, 300000000},
		{"0.000000001s", 0, 1},
		{"1.500000000000000000000000s", 0, 1500000000},
		{"2min", 0, UINT64_C(120000000000)},
		{"1.5h", 0, UINT64_C(5400000000000)},
		{"1d", 0, UINT64_C(86400000000000)},
		{"0.5d", 0, UINT64_C(43200000000000)},
		{"0030s", 0, UINT64_C(30000000000)},
		{"18446744073709551615ns", 0, UINT64_MAX},
		{"18446744073.709551615s", 0, UINT64_MAX},
		{"18446744073709551616ns", -ERANGE, 0},
		{"18446744073.709551616s", -ERANGE, 0},
		{"18446744074s", -ERANGE, 0},
		{"99999999999999999999999999999999s", -ERANGE, 0},
		{"213504d", -ERANGE, 0},
	};

	(void)state;
	check_readings(readings, COUNT(readings), units_parse_time);
}

static void test_refuses_what_is_no_time(void **state)
{
	static const struct reading readings[] = {
		{"", -EINVAL, 0},
		{"5", -EINVAL, 0},
		{"s", -EINVAL, 0},
		{"5 s", -EINVAL, 0},
		{" 5s", -EINVAL, 0},
		{"5s ", -EINVAL, 0},
		{"-5s", -EINVAL, 0},
		{"+5s", -EINVAL, 0},
		{"5S", -EINVAL, 0},
		{"5sec", -EINVAL, 0},
		{"5m", -EINVAL, 0},
		{".5s", -EINVAL, 0},
		{"5.s", -EINVAL, 0},
		{"1.2.3s", -EINVAL, 0},
		{"1,5s", -EINVAL, 0},
		{"1e3s", -EINVAL, 0},
		{"0x5s", -EINVAL, 0},
		{"1h30min", -EINVAL, 0},
		{"0.5", -EINVAL, 0},
		{"5MiB", -EINVAL, 0},
		{"never", -EINVAL, 0},
		{"0.5ns", -EINVAL, 0},
		{"1.0000000001s", -EINVAL, 0},
		{"99999999999999999999", -EINVAL, 0},
		{"0.00000000000000000001s", -EINVAL, 0},
	};

	(void)state;
	check_readings(readings, COUNT(readings), units_parse_time);
}

static void test_reads_sizes(void **state)
{
	static const struct reading readings[] = {
		{"0", 0, 0},
		{"1", 0, 1},
		{"512B", 0, 512},
		{"64KiB", 0, 65536},
		{"64MiB", 0, UINT64_C(64) << 20},
		{"1.5GiB", 0, UINT64_C(3) << 29},
		{"1TiB", 0, UINT64_C(1) << 40},
		{"1kB", 0, 1000},
		{"1MB", 0, 1000000},
		{"2.5GB", 0, UINT64_C(2500000000)},
		{"1TB", 0, UINT64_C(1000000000000)},
		{"0.5KiB", 0, 512},
		{"18446744073709551615", 0, UINT64_MAX},
		{"16777215TiB", 0, UINT64_C(16777215) << 40},
		{"16777216TiB", -ERANGE, 0},
		{"18446744073709551616", -ERANGE, 0},
		{"0.3KiB", -EINVAL, 0},
		{"1.5", -EINVAL, 0},
		{"64M", -EINVAL, 0},
		{"64mib", -EINVAL, 0},
		{"64 MiB", -EINVAL, 0},
		{"KiB", -EINVAL, 0},
		{"", -EINVAL, 0},
		{"5s", -EINVAL, 0},
	};

	(void)state;
	check_readings(readings, COUNT(readings), units_parse_size);
}

static void test_writes_the_shortest_text(void **state)
{
	static const struct {
		uint64_t value;
		const char *text;
	} times[] =
		{
			{0, "0"},
			{1, "1ns"},
			{1500, "1.5us"},
			{250000, "250us"},
			{5 * NS_PER_MS, "5ms"},
			{500 * NS_PER_MS, "500ms"},
			{1500 * NS_PER_MS, "1.5s"},
			{30 * NS_PER_S, "30s"},
			{60 * NS_PER_S, "60s"},
			{90 * NS_PER_S, "90s"},
			{3600 * NS_PER_S, "1h"},
			{5400 * NS_PER_S, "1.5h"},
			{86400 * NS_PER_S, "1d"},
			{30 * 86400 * NS_PER_S, "30d"},
			{NS_PER_S + 1, "1000000001ns"},
			{UINT64_MAX, "18446744073709551615ns"},
		},
	  sizes[] = {
		  {0, "0"},
		  {1, "1"},
		  {512, "512"},
		  {1000, "1kB"},
		  {1024, "1KiB"},
		  {1500, "1500"},
		  {65536, "64KiB"},
		  {UINT64_C(64) << 20, "64MiB"},
		  {UINT64_C(3) << 29, "1.5GiB"},
		  {UINT64_C(1) << 40, "1TiB"},
		  {10000000, "10MB"},
		  {UINT64_MAX, "18446744073709551615"},
	  };
	char text[UNITS_TEXT_MAX];

	(void)state;
	for (size_t i = 0; i < COUNT(times); i++)
		assert_string_equal(units_format_time(times[i].value, text), times[i].text);
	for (size_t i = 0; i < COUNT(sizes); i++)
		assert_string_equal(units_format_size(sizes[i].value, text), sizes[i].text);
}

/* A value of a random number of bits, now and then times a round number. */
static uint64_t some_value(void)
{
	static const uint64_t factors[] = {1, 1, 1000, 1024, 60000000000, 86400000000000};
	uint64_t value = (uint64_t)random() << 33 ^ (uint64_t)random() << 11 ^ (uint64_t)random();

	return (value >> (random() % 64)) * factors[random() % (long)COUNT(factors)];
}

static void test_what_is_written_reads_back(void **state)
{
	char text[UNITS_TEXT_MAX];

	(void)state;
	srandom(1);
	for (int i = 0; i < 100000; i++) {
		uint64_t value = some_value();
		uint64_t back = ~value;

		assert_int_equal(units_parse_time(units_format_time(value, text), &back), 0);
		assert_true(back == value);
		back = ~value;
		assert_int_equal(units_parse_size(units_format_size(value, text), &back), 0);
		assert_true(back == value);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads_times),
		cmocka_unit_test(test_refuses_what_is_no_time),
		cmocka_unit_test(test_reads_sizes),
		cmocka_unit_test(test_writes_the_shortest_text),
		cmocka_unit_test(test_what_is_written_reads_back),
	};

	return cmocka_run_group_tests_name("units", tests, NULL, NULL);
}
