/*
 * Times and sizes as people write them: "250ms", "64MiB".
 */
#ifndef LANED_BASE_UNITS_H
#define LANED_BASE_UNITS_H

#include <stddef.h>
#include <stdint.h>

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S  UINT64_C(1000000000)

#define UNITS_TEXT_MAX 32 /* longest text that a format function writes, with its NUL */

/*
 * Reads a time: a decimal number, at once followed by one of ns, us, ms, s, min, h, d ("1.5s" is
 * fine, "5" is not, "0" is). Returns 0 and the nanoseconds, -EINVAL (not a time, or not a whole
 * number of nanoseconds), -ERANGE (beyond 64 bits).
 */
int units_parse_time(const char *text, uint64_t *ret_ns);

/*
 * Reads a size: a decimal number, at once followed by nothing or B (bytes), KiB, MiB, GiB, TiB
 * (powers of 1024), kB, MB, GB, TB (powers of 1000). Returns 0 and the bytes, -EINVAL (not a size,
 * or not a whole number of bytes), -ERANGE.
 */
int units_parse_size(const char *text, uint64_t *ret_bytes);

/*
 * Writes the shortest text that reads back as the same value, e.g. "30s", "1.5GiB", "0"; "500ms"
 * and not "0.5s": no number below 1 is written. Of two equally short ones that without a fraction
 * wins, then that of the larger unit. Returns `text`.
 */
const char *units_format_time(uint64_t ns, char text[static UNITS_TEXT_MAX]);
const char *units_format_size(uint64_t bytes, char text[static UNITS_TEXT_MAX]);

#endif
