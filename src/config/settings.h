/*
 * The settings: what laned.conf(5) says, checked and complete, as plain values.
 *
 * Filled by config_load() through the table of schema.h, never by hand, and constant afterwards.
 */
#ifndef LANED_CONFIG_SETTINGS_H
#define LANED_CONFIG_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "net/address.h"

/* The `file` of what an option of the command line sets; `line` is the number of the option. */
extern const char origin_command_line[];

/* Where a value was written. */
struct origin {
	const char
		*file; /* owned by the settings, or the above; NULL: nowhere, it is the default */
	unsigned line;
	unsigned overridden_line;
	const char *overridden_file; /* where an earlier file has another value; NULL: none has */
};

/* One address of a group's `listen`. */
struct listen_setting {
	struct address address;
	struct origin origin;
};

#define GROUP_NAME_MAX 32 /* bytes, without the NUL */

/* What a fault for rehearsal does to a worker. */
enum fault_kind {
	FAULT_SLEEP, /* sleeps for `duration` */
	FAULT_SPIN,  /* uses the CPU for `duration` */
	FAULT_STOP,  /* stops, as by SIGSTOP, until somebody continues or kills it */
	FAULT_CRASH, /* ends by SIGABRT */
	FAULT_EXIT,  /* ends with an exit status other than 0 */
};

/* When. */
enum fault_on {
	FAULT_ON_ACCEPT,  /* a client has been accepted, nothing has been read */
	FAULT_ON_MESSAGE, /* a message has been read, nothing has been answered */
};

/* Bits of the roles of workers: 1 << enum worker_role. */
enum fault_role { FAULT_PRIMARY = 1 << 0, FAULT_STANDBY = 1 << 1, FAULT_EXTRA = 1 << 2 };

/* Some of the lanes of a group, or of the workers of a lane, by number. */
struct numbers_setting {
	unsigned *numbers;
	size_t n; /* 0: all */
};

/* The keys of a fault, in the order of laned.conf(5): index of its origins. */
enum fault_key {
	FAULT_KEY_KIND,
	FAULT_KEY_ON,
	FAULT_KEY_PROBABILITY,
	FAULT_KEY_DURATION,
	FAULT_KEY_SEED,
	FAULT_KEY_LANES,
	FAULT_KEY_WORKERS,
	FAULT_KEY_ROLES,
	FAULT_KEYS
};

/* Whether a number is one of them; all are of an empty one. */
bool numbers_have(const struct numbers_setting *setting, unsigned number);

/* One entry of a group's `faults`. */
struct fault_settings {
	int kind;             /* enum fault_kind */
	int on;               /* enum fault_on */
	double probability;   /* 0 to 1 */
	uint64_t duration_ns; /* 0 where the kind has none */
	unsigned seed;
	struct numbers_setting lanes;
	struct numbers_setting workers;
	unsigned roles; /* enum fault_role; 0: all */

	struct origin origin; /* of the entry itself */
	struct origin origins[FAULT_KEYS];
};

/* `supervision`: when the master does what about a worker that does not go on. */
struct supervision_settings {
	uint64_t rescue_after_ns;
	uint64_t extra_after_ns;
	uint64_t steer_after_ns; /* 0: never */
	uint64_t abort_after_ns; /* 0: never */
	uint64_t kill_after_ns;
	uint64_t check_interval_ns;
	unsigned extra_max; /* per lane; 0: none */
	unsigned restart_limit;
	uint64_t restart_interval_ns;
};

/* The keys of it, in the order of laned.conf(5): index of their origins. */
enum supervision_key {
	SUPERVISION_KEY_RESCUE_AFTER,
	SUPERVISION_KEY_EXTRA_AFTER,
	SUPERVISION_KEY_STEER_AFTER,
	SUPERVISION_KEY_ABORT_AFTER,
	SUPERVISION_KEY_KILL_AFTER,
	SUPERVISION_KEY_CHECK_INTERVAL,
	SUPERVISION_KEY_EXTRA_MAX,
	SUPERVISION_KEY_RESTART_LIMIT,
	SUPERVISION_KEY_RESTART_INTERVAL,
	SUPERVISION_KEYS
};

/* The keys of a group, in the order of laned.conf(5): index of its origins. */
enum group_key {
	GROUP_KEY_NAME,
	GROUP_KEY_LISTEN,
	GROUP_KEY_TOPOLOGY,
	GROUP_KEY_WORKERS,
	GROUP_KEY_STANDBY,
	GROUP_KEY_ENGINE,
	GROUP_KEY_SHARE,
	GROUP_KEY_BACKLOG,
	GROUP_KEY_MAX_CONNECTIONS,
	GROUP_KEY_BUFFER_MEMORY,
	GROUP_KEY_NOFILE,
	GROUP_KEY_IDLE_TIMEOUT,
	GROUP_KEY_SEND_TIMEOUT,
	GROUP_KEY_ECHO_TAG,
	GROUP_KEY_ECHO_CLOSE_AFTER,
	GROUP_KEY_FAULTS,
	GROUP_KEYS
};

struct group_settings {
	char *name;
	struct listen_setting *listen;
	size_t n_listen;
	char *topology;
	unsigned workers; /* 0: "auto" */
	unsigned standby;
	char *engine; /* "auto" or an engine's name */
	char *share;
	unsigned backlog;
	unsigned max_connections;
	uint64_t buffer_memory_bytes;
	unsigned nofile;          /* 0: what the limits need */
	uint64_t idle_timeout_ns; /* 0: none */
	uint64_t send_timeout_ns; /* 0: none */
	bool echo_tag;
	unsigned echo_close_after; /* messages; 0: never */
	struct fault_settings *faults;
	size_t n_faults;

	struct origin origin; /* of the group itself */
	struct origin origins[GROUP_KEYS];
};

struct settings {
	char *user; /* "": no change */
	uint64_t drain_timeout_ns;
	enum log_target log_target;
	int log_level; /* LOG_ERR to LOG_DEBUG of syslog.h */
	struct supervision_settings supervision;
	unsigned max_generations;
	bool allow_faults;
	struct group_settings *groups;
	size_t n_groups;

	struct origin user_origin;
	struct origin drain_timeout_origin;
	struct origin log_target_origin;
	struct origin log_level_origin;
	struct origin supervision_origins[SUPERVISION_KEYS];
	struct origin max_generations_origin;
	struct origin allow_faults_origin;
	struct origin groups_origin;
	unsigned references; /* beside the first */
	char *file; /* the main file as it was named, even if only conf.d was there; "<stdin>"; NULL: none read */
	char **files; /* every file read; what origins point into */
	size_t n_files;
};

/* Takes one more reference to the settings, for settings_free(). Returns them. */
struct settings *settings_ref(struct settings *settings);

/* Drops a reference; the last one releases the settings. NULL is fine. Returns NULL, to be assigned. */
struct settings *settings_free(struct settings *settings);

/*
 * Makes the settings own a copy of the name of a file, for origins to point into. Returns it, or NULL
 * without memory.
 */
const char *settings_add_file(struct settings *settings, const char *file);

/* The group of that name; NULL: there is none. */
const struct group_settings *settings_find_group(const struct settings *settings, const char *name);

#endif
