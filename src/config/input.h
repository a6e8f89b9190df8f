/*
 * Reading a configuration's files whole, before anything looks at them.
 */
#ifndef LANED_CONFIG_INPUT_H
#define LANED_CONFIG_INPUT_H

#include <stddef.h>

#define INPUT_MAX (1U << 20) /* bytes of a configuration, with all that it includes */

/*
 * Reads a regular file, a pipe or /dev/null, or standard input for NULL, of at most `limit` bytes.
 * Returns 0 and the text (the caller's, free()) with a NUL behind its `*ret_length` bytes, or
 * -errno: -ENODEV for a device or a socket, -EISDIR, -EFBIG, ...
 */
int input_read(const char *path, size_t limit, char **ret_text, size_t *ret_length);

/* What an error of input_read() means, to follow "cannot read FILE: ". */
const char *input_problem(int error);

#endif
