#include "base/units.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct unit {
	const char *name;
	uint64_t factor;
};

/* The largest first, that of a bare number last; the end has no name. */
static const struct unit time_units[] = {
	{"d", 86400 * NS_PER_S},
	{"h", 3600 * NS_PER_S},
	{"min", 60 * NS_PER_S},
	{"s", NS_PER_S},
	{"ms", NS_PER_MS},
	{"us", NS_PER_US},
	{"ns", 1},
	{NULL, 0},
};

static const struct unit size_units[] = {
	{"TiB", UINT64_C(1) << 40},
	{"TB", UINT64_C(1000000000000)},
	{"GiB", UINT64_C(1) << 30},
	{"GB", UINT64_C(1000000000)},
	{"MiB", UINT64_C(1) << 20},
	{"MB", UINT64_C(1000000)},
	{"KiB", UINT64_C(1) << 10},
	{"kB", UINT64_C(1000)},
	{"B", 1},
	{"", 1},
	{NULL, 0},
};

#define FRACTION_DIGITS 19 /* as many nines still fit into 64 bits */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Reads the digits of a whole number at *text and moves on; -EINVAL: no digit. */
static int read_whole(const char **text, uint64_t *ret, bool *ret_overflow)
{
	const char *p = *text;

	*ret = 0;
	*ret_overflow = false;
	if (!is_digit(*p))
		return -EINVAL;
	for (; is_digit(*p); p++) {
		if (__builtin_mul_overflow(*ret, UINT64_C(10), ret) ||
		    __builtin_add_overflow(*ret, (uint64_t)(*p - '0'), ret))
			*ret_overflow = true;
	}
	*text = p;
	return 0;
}

/* Reads ".5" at *text, if it is there, as *ret / *ret_scale, and moves on. */
static int read_fraction(const char **text, uint64_t *ret, uint64_t *ret_scale)
{
	const char *p = *text;
	const char *end;

	*ret = 0;
	*ret_scale = 1;
	if (*p != '.')
		return 0;
	p++;
	if (!is_digit(*p))
		return -EINVAL;
	for (end = p; is_digit(*end); end++)
		;
	*text = end;
	while (end > p && end[-1] == '0')
		end--;
	if (end - p > FRACTION_DIGITS)
		return -EINVAL;
	for (; p < end; p++) {
		*ret = *ret * 10 + (uint64_t)(*p - '0');
		*ret_scale *= 10;
	}
	return 0;
}

static int parse(const struct unit *units, const char *text, uint64_t *ret)
{
	uint64_t whole, fraction, scale;
	bool overflow;

	if (read_whole(&text, &whole, &overflow) < 0 || read_fraction(&text, &fraction, &scale) < 0)
		return -EINVAL;

	while (units->name && strcmp(units->name, text) != 0)
		units++;
	if (!units->name) {
		/* Nothing needs no unit. */
		if (*text != '\0' || overflow || whole > 0 || fraction > 0)
			return -EINVAL;
		*ret = 0;
		return 0;
	}

	/* At most 10^19 times a unit below 2^47: it fits. */
	unsigned __int128 part = (unsigned __int128)fraction * units->factor;

	if (part % scale != 0)
		return -EINVAL;
	if (overflow || __builtin_mul_overflow(whole, units->factor, &whole) ||
	    __builtin_add_overflow(whole, (uint64_t)(part / scale), ret))
		return -ERANGE;
	return 0;
}

int units_parse_time(const char *text, uint64_t *ret_ns)
{
	return parse(time_units, text, ret_ns);
}

int units_parse_size(const char *text, uint64_t *ret_bytes)
{
	return parse(size_units, text, ret_bytes);
}

/* Writes the value in one unit. False: it would be below 1, or is too long to be the shortest. */
static bool format_in(const struct unit *unit, uint64_t value, char text[static UNITS_TEXT_MAX])
{
	const uint64_t factor = unit->factor;
	char fraction[FRACTION_DIGITS + 1];
	uint64_t rest = value % factor;
	size_t n = 0;

	if (value < factor)
		return false;
	for (; rest > 0 && n < FRACTION_DIGITS; n++) {
		rest *= 10; /* a unit is below 2^47 */
		fraction[n] = (char)('0' + rest / factor);
		rest %= factor;
	}
	if (rest > 0)
		return false;
	fraction[n] = '\0';
	return snprintf(text, UNITS_TEXT_MAX, "%" PRIu64 "%s%s%s", value / factor, n > 0 ? "." : "",
			fraction, unit->name) < UNITS_TEXT_MAX;
}

static const char *format(const struct unit *units, uint64_t value,
			  char text[static UNITS_TEXT_MAX])
{
	char best[UNITS_TEXT_MAX] = "0";
	char other[UNITS_TEXT_MAX];
	bool found = false;

	for (; units->name; units++) {
		if (!format_in(units, value, other))
			continue;

		size_t length = strlen(other);
		size_t best_length = strlen(best);

		if (!found || length < best_length ||
		    (length == best_length && strchr(best, '.') && !strchr(other, '.'))) {
			memcpy(best, other, sizeof(best));
			found = true;
		}
	}
	return memcpy(text, best, sizeof(best));
}

const char *units_format_time(uint64_t ns, char text[static UNITS_TEXT_MAX])
{
	return format(time_units, ns, text);
}

const char *units_format_size(uint64_t bytes, char text[static UNITS_TEXT_MAX])
{
	return format(size_units, bytes, text);
}
