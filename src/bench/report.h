/*
 * A burst as people read it, and as programs do.
 */
#ifndef LANED_BENCH_REPORT_H
#define LANED_BENCH_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "bench/burst.h"
#include "bench/figures.h"

#define REPORT_SCHEMA 1 /* of the JSON: one more when a member goes or changes its meaning */

struct report_input {
	const struct burst_options *options;
	const struct burst *burst;
	const struct figures *figures;
	bool quiet; /* without what is said of each client */
};

/* Text for a terminal of 80 columns. */
void report_write_text(const struct report_input *input, FILE *stream);

/* One JSON object in one line. Returns 0 or -ENOMEM; what `stream` refuses it remembers. */
int report_write_json(const struct report_input *input, FILE *stream);

#endif
