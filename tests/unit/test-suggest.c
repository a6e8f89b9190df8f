/*
 * "Did you mean": distances, and which candidate wins.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "config/suggest.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void test_distances(void **state)
{
	static const struct {
		const char *a, *b;
		unsigned distance;
	} pairs[] = {
		{"", "", 0},
		{"backlog", "backlog", 0},
		{"baklog", "backlog", 1},   /* left out */
		{"backlogs", "backlog", 1}, /* too many */
		{"bucklog", "backlog", 1},  /* another */
		{"abcklog", "backlog", 1},  /* swapped */
		{"max_conections", "max_connections", 1},
		{"levle", "level", 1},
		{"bakclogs", "backlog", 2},
		{"", "ab", 2},
		{"", "abc", 3},
		{"echo", "user", 3},
		{"abcdef", "ghijkl", 3},
		{"a", "max_connections", 3},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(pairs); i++) {
		const char *a = pairs[i].a;
		const char *b = pairs[i].b;

		assert_int_equal(suggest_distance(a, strlen(a), b, strlen(b)), pairs[i].distance);
		assert_int_equal(suggest_distance(b, strlen(b), a, strlen(a)), pairs[i].distance);
	}
}

static void test_long_words_resemble_nothing(void **state)
{
	char word[1000];

	(void)state;
	memset(word, 'a', sizeof(word));
	assert_int_equal(suggest_distance(word, sizeof(word), word, sizeof(word)), 3);
	assert_int_equal(suggest_distance(word, 64, word, 64), 0);
	assert_int_equal(suggest_distance(word, 65, word, 64), 3);
}

static void test_the_closest_wins(void **state)
{
	struct suggest suggest = {.word = "leve"};

	(void)state;
	suggest_offer(&suggest, "target", 6);
	assert_null(suggest.best);
	suggest_offer(&suggest, "lever.x", 5); /* up to the dot */
	assert_int_equal(suggest.best_length, 5);
	assert_int_equal(suggest.best_distance, 1);
	suggest_offer(&suggest, "level", 5); /* not closer */
	assert_memory_equal(suggest.best, "lever", 5);
	suggest_offer(&suggest, "leve", 4);
	assert_string_equal(suggest.best, "leve");
}

static void test_a_word_without_a_letter_left_is_not_meant(void **state)
{
	struct suggest suggest = {.word = "xy"};

	(void)state;
	suggest_offer(&suggest, "ab", 2);
	suggest_offer(&suggest, "", 0);
	assert_null(suggest.best);
	suggest_offer(&suggest, "xa", 2);
	assert_string_equal(suggest.best, "xa");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_distances),
		cmocka_unit_test(test_long_words_resemble_nothing),
		cmocka_unit_test(test_the_closest_wins),
		cmocka_unit_test(test_a_word_without_a_letter_left_is_not_meant),
	};

	return cmocka_run_group_tests_name("suggest", tests, NULL, NULL);
}
