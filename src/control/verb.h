/*
 * What lanectl can ask of laned: one table, from which the server, the client's help and the shell's
 * completion come.
 */
#ifndef LANED_CONTROL_VERB_H
#define LANED_CONTROL_VERB_H

#include <stdbool.h>
#include <stddef.h>

#define CONTROL_INTERFACE "org.laned"

/* The type of a method's parameter. None has to be given but where it says so. */
enum verb_type {
	VERB_BOOL,
	VERB_STRING,
};

struct verb_parameter {
	const char *name; /* of the method */
	enum verb_type type;
	bool required;
	const char *argument; /* how it is given to lanectl: "--wait", "GROUP" */
};

#define VERB_PARAMETERS 2

struct verb {
	const char *name;   /* as lanectl's argument; two words for some: "config diff" */
	const char *method; /* of CONTROL_INTERFACE, without it; NULL: lanectl needs no daemon */
	bool acts;          /* not for everyone */
	struct verb_parameter parameters[VERB_PARAMETERS]; /* those without a name are none */
	const char *help;
};

/* The verbs, in the order in which help lists them. */
extern const struct verb verbs[];
extern const size_t n_verbs;

/* The verb of that name, or whose method it is; NULL: none. */
const struct verb *verb_find(const char *name);
const struct verb *verb_find_method(const char *method);

#endif
