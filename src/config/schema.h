/*
 * The schema: the one table of all keys of laned.conf(5).
 *
 * Loading, checking, dumping and the suggestions for unknown keys are driven by it; the list of
 * keys in the manual page and the installed file are compared with it by a test. A key is one row,
 * and nothing else knows a key by its name.
 */
#ifndef LANED_CONFIG_SCHEMA_H
#define LANED_CONFIG_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where a key stands, and so which structure its offsets are in. */
enum schema_scope {
	SCHEMA_TOP,   /* the file itself: struct settings */
	SCHEMA_GROUP, /* an entry of `groups`: struct group_settings */
	SCHEMA_FAULT, /* an entry of a group's `faults`: struct fault_settings */
};

/* What a value is, and in the settings it is ... */
enum schema_type {
	SCHEMA_STRING,      /* char * */
	SCHEMA_NAME,        /* char *, GROUP_NAME_MAX of A-Z a-z 0-9 _ - */
	SCHEMA_CHOICE,      /* char *, one of `choices` */
	SCHEMA_LEVEL,       /* int, the value of one of `choices`; -1: none */
	SCHEMA_BOOL,        /* bool */
	SCHEMA_INTEGER,     /* unsigned */
	SCHEMA_COUNT,       /* unsigned, 0 for "auto" */
	SCHEMA_TIME,        /* uint64_t, nanoseconds */
	SCHEMA_SIZE,        /* uint64_t, bytes */
	SCHEMA_PROBABILITY, /* double */
	SCHEMA_FLAGS,       /* unsigned, the values of some of `choices`, or-ed */
	SCHEMA_NUMBERS,     /* an array of unsigned */
	SCHEMA_LISTEN,      /* an array of struct listen_setting */
	SCHEMA_LIST,        /* an array of the structure of the scope `entry` */
};

enum schema_reload {
	SCHEMA_RELOAD,  /* a reload applies it; not written in the table */
	SCHEMA_RESTART, /* it is read at start alone */
};

struct schema_choice {
	const char *text; /* NULL: the end */
	int value;
};

struct schema_key {
	const char *path; /* within its scope: "log.level", "echo.tag" */
	enum schema_scope scope;
	enum schema_type type;
	enum schema_scope entry;  /* of SCHEMA_LIST */
	const char *unit;         /* what a number counts; NULL: it has none */
	const char *default_text; /* as in the file, without quotes; NULL: must be written */
	const char *builtin_text; /* in the built-in group; NULL: the default there, too */
	uint64_t min, max;        /* of numbers, times and sizes; max 0: it is none of these */
	bool zero;                /* 0 is fine, too, and is special */
	bool optional;            /* without a default it may be left out: then it is 0 */
	const struct schema_choice *choices;
	enum schema_reload reload;
	const char *help;
	size_t offset;        /* of the value; of an array: its address, and behind it its length */
	size_t origin_offset; /* of its struct origin */
};

/* In the order in which they are dumped; a list stands before all keys of its entries. */
extern const struct schema_key schema_keys[];
extern const size_t schema_n_keys;

/* What the structures of a scope are, but for SCHEMA_TOP, of which there is one. */
struct schema_entry {
	const char *noun; /* "group"; their list is called "groups" */
	size_t size;
	size_t origin_offset; /* of its own struct origin */
};

extern const struct schema_entry schema_entries[];

/* The keys of a scope in their order: begins with NULL, ends with NULL. */
const struct schema_key *schema_next(enum schema_scope scope, const struct schema_key *key);

/* The key with that path, or NULL. */
const struct schema_key *schema_find(enum schema_scope scope, const char *path);

/* The first key whose path begins with `prefix`, which ends with a dot ("log."), or NULL. */
const struct schema_key *schema_find_below(enum schema_scope scope, const char *prefix);

/* Whether a value is any number of values, between brackets: all types of arrays, and flags. */
bool schema_is_several(const struct schema_key *key);

/* "integer", "time", ... */
const char *schema_type_name(const struct schema_key *key);

/* Whether values are in quotes in the file. `text`: the value. */
bool schema_is_quoted(const struct schema_key *key, const char *text);

#define SCHEMA_RANGE_MAX 128

/*
 * Writes which values are fine: "1s to 30d, or 0", "\"queue\"", "true or false"; "any" if all are.
 * Returns `text`.
 */
const char *schema_format_range(const struct schema_key *key, char text[static SCHEMA_RANGE_MAX]);

#endif
