/*
 * Time that only goes forward: no step of the wall clock may end a connection or a worker.
 */
#ifndef LANED_BASE_CLOCK_H
#define LANED_BASE_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t clock_now_ns(void);

/*
 * The same from the clock that costs no more than reading a variable (CLOCK_MONOTONIC_COARSE,
 * behind by at most one kernel tick). In milliseconds for stamps on the data path; they are 32 bits
 * wide, wrap after 49 days, and are only ever compared by subtraction.
 */
uint64_t clock_coarse_ns(void);
uint32_t clock_coarse_ms(void);

/* CLOCK_REALTIME in nanoseconds since 1970. Only to be written, for people to read. */
uint64_t clock_wall_ns(void);

/*
 * For how long the host has been suspended since it booted (CLOCK_BOOTTIME - CLOCK_MONOTONIC), in
 * nanoseconds. Its growth between two looks is what counts; without a suspend between them they
 * differ by up to a millisecond, either way, for the two clocks are read one after the other.
 */
uint64_t clock_suspended_ns(void);

#endif
