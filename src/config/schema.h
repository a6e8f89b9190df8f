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
};

enum schema_type {                 /* in the settings it is ... */
		   SCHEMA_STRING,  /* char * */
		   SCHEMA_NAME,    /* char *, GROUP_NAME_MAX of A-Z a-z 0-9 _ - */
		   SCHEMA_CHOICE,  /* char *, one of `choices` */
		   SCHEMA_LEVEL,   /* int, the value of one of `choices` */
		   SCHEMA_BOOL,    /* bool */
		   SCHEMA_INTEGER, /* unsigned */
		   SCHEMA_COUNT,   /* unsigned, 0 for "auto" */
		   SCHEMA_TIME,    /* uint64_t, nanoseconds */
		   SCHEMA_SIZE,    /* uint64_t, bytes */
		   SCHEMA_LISTEN,  /* struct listen_setting * and n_listen */
		   SCHEMA_GROUPS,  /* struct group_settings * and n_groups */
};

enum schema_reload {
	SCHEMA_RELOAD,  /* a reload applies it */
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
	const char *unit;         /* what a number counts; "-": it has none */
	const char *default_text; /* as in the file, without quotes; NULL: must be written */
	const char *builtin_text; /* in the built-in group; NULL: the default there, too */
	uint64_t min, max;        /* of numbers, times and sizes */
	bool zero;                /* 0 is fine, too, and is special */
	const struct schema_choice *choices;
	enum schema_reload reload;
	const char *since; /* version */
	const char *help;
	size_t offset;        /* of the value */
	size_t origin_offset; /* of its struct origin */
};

/* In the order in which they are dumped; `groups` stands before all keys of a group. */
extern const struct schema_key schema_keys[];
extern const size_t schema_n_keys;

/* The keys of a scope in their order: begins with NULL, ends with NULL. */
const struct schema_key *schema_next(enum schema_scope scope, const struct schema_key *key);

/* The key with that path, or NULL. */
const struct schema_key *schema_find(enum schema_scope scope, const char *path);

/* The first key whose path begins with `prefix`, which ends with a dot ("log."), or NULL. */
const struct schema_key *schema_find_below(enum schema_scope scope, const char *prefix);

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
