/*
 * A call as it comes over the control socket: Varlink, JSON objects that end with NUL.
 *
 * Whoever may connect may send anything, so nothing is believed that has not been checked here.
 */
#ifndef LANED_CONTROL_CALL_H
#define LANED_CONTROL_CALL_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "control/verb.h"

#define CALL_MAX (64U * 1024) /* bytes, without the NUL */

struct call {
	json_t *message;    /* owned; the others lie in it */
	const char *method; /* with its interface */
	json_t *parameters; /* an object; NULL: none */
	bool more;
	bool oneway; /* no reply is wanted */
};

/* The end of a call in `length` bytes. */
enum call_end {
	CALL_WHOLE,      /* `*ret_size` bytes are one, its NUL included */
	CALL_INCOMPLETE, /* there is more to come */
	CALL_TOO_LONG,   /* it will never be one */
};
enum call_end call_find(const char *bytes, size_t length, size_t *ret_size);

/* What is wrong with a call, for its sender. */
#define CALL_ERROR_MAX 256
struct call_error {
	char text[CALL_ERROR_MAX];
	bool garbage; /* it is no Varlink at all, and no reply would be understood */
};

/*
 * Reads a call of `length` bytes, its NUL not included. Returns 0, or -EINVAL with `error` filled.
 * call_fini() releases it either way.
 */
int call_parse(struct call *call, const char *bytes, size_t length, struct call_error *error);
void call_fini(struct call *call);

/*
 * Checks the parameters against those of the verb. Returns NULL if all is well, else the name of the
 * one that is wrong: unknown, of another type, or missing. It lies in `call` or in the table.
 */
const char *call_check(const struct call *call, const struct verb *verb);

/*
 * A reply, or an error with its full name: text to be sent with its NUL, the caller's to free.
 * Takes `parameters`, an object, or NULL for none. NULL: out of memory.
 */
char *call_reply(json_t *parameters);
char *call_reply_error(const char *name, json_t *parameters);

#endif
