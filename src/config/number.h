/*
 * A number as libconfig's lexer reads it, with its true value: libconfig 1.5 wraps what is too
 * large for its type without a word.
 */
#ifndef LANED_CONFIG_NUMBER_H
#define LANED_CONFIG_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NUMBER_TEXT_MAX 32 /* longest text that number_format() writes, with its NUL */

struct number {
	size_t length; /* 0: there is none */
	bool integer;
	bool negative;
	bool wide;      /* has an L: 64 bits, else 32 */
	uint64_t value; /* of an integer, without its sign; UINT64_MAX: that or more */
};

/* Reads the longest number that `text` begins with. */
struct number number_read(const char *text);

/*
 * Whether libconfig would take an integer for another one. The least of 64 bits counts as too large
 * as well: it is SCAN_REFUSED.
 */
bool number_is_too_large(const struct number *number);

/*
 * Writes the shortest text that libconfig reads as that float: "0.333", "1.0", "1.0e-05". Returns
 * `text`.
 */
const char *number_format(double value, char text[static NUMBER_TEXT_MAX]);

#endif
