/*
 * The words for what can go wrong with a client: one row for each reason, one for each errno.
 */
#ifndef LANED_BENCH_TROUBLE_H
#define LANED_BENCH_TROUBLE_H

#include <stddef.h>

#include "bench/burst.h"

#define TROUBLE_NAME_MAX 24

/* "connect", "send", "recv", "timeout" or "mismatch". */
const char *trouble_phase(enum burst_reason reason);

/* What happened, for people; `error` is an errno or 0. */
const char *trouble_text(enum burst_reason reason, int error);

/* What to do about it; NULL: that depends. */
const char *trouble_hint(enum burst_reason reason, int error);

/* "ECONNREFUSED"; "errno 4711" if the errno is not one of those that a client can meet. */
const char *trouble_errno(int error, char text[static TROUBLE_NAME_MAX]);

#endif
