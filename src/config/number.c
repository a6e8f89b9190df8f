#include "config/number.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS     "0123456789"
#define HEX_DIGITS DIGITS "abcdefABCDEF"

static bool is_sign(char c)
{
	return c == '+' || c == '-';
}

static uint64_t read_digits(const char *p, size_t length, unsigned base)
{
	uint64_t value = 0;

	for (; length > 0; length--, p++) {
		unsigned digit = (unsigned)(isdigit((unsigned char)*p) ? *p - '0'
								       : (*p | 0x20) - 'a' + 10);

		if (__builtin_mul_overflow(value, (uint64_t)base, &value) ||
		    __builtin_add_overflow(value, (uint64_t)digit, &value))
			return UINT64_MAX;
	}
	return value;
}

/* The length of "e-5" at p, 0: there is none. */
static size_t exponent_length(const char *p)
{
	size_t sign, digits;

	if (*p != 'e' && *p != 'E')
		return 0;
	sign = is_sign(p[1]) ? 1 : 0;
	digits = strspn(p + 1 + sign, DIGITS);
	return digits > 0 ? 1 + sign + digits : 0;
}

/* Reads "-12", "1.5", ".5e3". Returns what follows, or `p` if there is no number. */
static const char *read_decimal(const char *p, struct number *number)
{
	const char *begin = p;
	size_t digits, exponent;

	number->negative = *p == '-';
	p += is_sign(*p) ? 1 : 0;
	digits = strspn(p, DIGITS);
	if (digits == 0 && *p != '.')
		return begin;
	number->value = read_digits(p, digits, 10);
	number->integer = p[digits] != '.';
	p += digits;
	if (*p == '.')
		p += 1 + strspn(p + 1, DIGITS);
	exponent = exponent_length(p);
	number->integer = number->integer && exponent == 0;
	return p + exponent;
}

static const char *read_hex(const char *p, struct number *number)
{
	size_t digits = strspn(p + 2, HEX_DIGITS);

	number->integer = true;
	number->value = read_digits(p + 2, digits, 16);
	return p + 2 + digits;
}

struct number number_read(const char *text)
{
	struct number number = {.length = 0};
	const char *p;

	if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X') &&
	    isxdigit((unsigned char)text[2]))
		p = read_hex(text, &number);
	else
		p = read_decimal(text, &number);
	if (number.integer && *p == 'L') {
		number.wide = true;
		p += p[1] == 'L' ? 2 : 1;
	}
	number.length = (size_t)(p - text);
	return number;
}

bool number_is_too_large(const struct number *number)
{
	if (number->wide)
		return number->value > INT64_MAX;
	return number->value > (uint64_t)INT32_MAX + (number->negative ? 1 : 0);
}

const char *number_format(double value, char text[static NUMBER_TEXT_MAX])
{
	char digits[NUMBER_TEXT_MAX - 2] = ""; /* or "inf" */
	const char *point;
	size_t length;

	/* 17 digits tell any two apart. */
	for (int precision = 1; precision <= 17; precision++) {
		snprintf(digits, sizeof(digits), "%.*g", precision, value);
		if (strtod(digits, NULL) == value)
			break;
	}

	/* Without a point, libconfig would take it for an integer. */
	length = strspn(digits, "-" DIGITS);
	point = strchr(digits, '.') || strchr(digits, 'n') ? "" : ".0";
	snprintf(text, NUMBER_TEXT_MAX, "%.*s%s%s", (int)length, digits, point, digits + length);
	return text;
}
