/*
 * A change of what is served, while it is served: by what the configuration file says now, or by the
 * same anew.
 *
 * It is a transaction. New groups are set up beside those that serve, their workers are started, and
 * only when each has echoed something do clients come to them; then the old ones are asked to go.
 * Until then any failure leaves all as it was. Changes are made one after another, in the order in
 * which they were asked for; reloads that come while another one waits are one.
 */
#ifndef LANED_MASTER_CHANGE_H
#define LANED_MASTER_CHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/diff.h"

struct master;
struct worker;

enum change_kind {
	CHANGE_RELOAD,  /* to what the file says */
	CHANGE_RESTART, /* of a group, or of all: other workers, the same configuration */
	CHANGE_DRAIN,   /* a group is served no more, until a reload brings it back */
};

enum change_outcome {
	CHANGE_DONE,
	CHANGE_REFUSED, /* the configuration, or what was asked for, is wrong */
	CHANGE_FAILED,  /* it could not be done */
};

enum change_action {
	CHANGE_KEEPS,
	CHANGE_ADDS,
	CHANGE_REPLACES,
	CHANGE_REMOVES,
};

/* What is done about a group. */
struct change_step {
	const char *group;
	enum change_action action;
};

struct change_result {
	enum change_outcome outcome;
	const char *text;        /* why it was refused or failed, or what one is warned of: lines */
	const struct diff *diff; /* of the configuration; NULL: there is none */
	const struct change_step *steps;
	size_t n_steps;
	unsigned number;      /* of the configuration that is in effect: counts changes */
	uint64_t duration_ns; /* from its begin */
};

typedef void (*change_done_t)(void *userdata, const struct change_result *result);

struct change_request {
	enum change_kind kind;
	const char *group;  /* of CHANGE_RESTART, CHANGE_DRAIN; NULL: all */
	bool dry_run;       /* of CHANGE_RELOAD: only says what would be done */
	change_done_t done; /* called once, perhaps before change_ask() returns; NULL: by nobody */
	void *userdata;
};

void change_ask(struct master *master, const struct change_request *request);

/* Whoever asked with that `userdata` no longer wants to know. */
void change_forget(struct master *master, const void *userdata);

/*
 * Logs an error; if a change goes on it is also the reason why that fails, with the place in the
 * configuration (NULL: there is none).
 */
void change_explain(struct master *master, const struct origin *origin, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* A worker of a new group has ended before its group served; `end` says how. */
void change_worker_ended(struct worker *worker, const char *end);

/* Does what is due now; whenever a worker is ready, has given something up, or has ended. */
void change_go_on(struct master *master);

/* laned stops: what is going on fails, and so does what was asked for. */
void change_cancel(struct master *master);

#endif
