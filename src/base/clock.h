/*
 * Time that only goes forward: no step of the wall clock may end a connection or a worker.
 */
#ifndef LANED_BASE_CLOCK_H
#define LANED_BASE_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t clock_now_ns(void);

/*
 * The same in milliseconds, from the clock that costs no more than reading a variable
 * (CLOCK_MONOTONIC_COARSE, behind by at most one kernel tick). For stamps on the data path; they
 * are 32 bits wide, wrap after 49 days, and are only ever compared by subtraction.
 */
uint32_t clock_coarse_ms(void);

#endif
