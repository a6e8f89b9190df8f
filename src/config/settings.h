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

/* Where a value was written. */
struct origin {
	const char *file; /* owned by the settings; NULL: nowhere, it is the default */
	unsigned line;
};

/* One address of a group's `listen`. */
struct listen_setting {
	struct address address;
	struct origin origin;
};

#define GROUP_NAME_MAX 32 /* bytes, without the NUL */

/* The keys of a group, in the order in which laned.conf(5) has them: index of its origins. */
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

	struct origin origin; /* of the group itself */
	struct origin origins[GROUP_KEYS];
};

struct settings {
	char *user; /* "": no change */
	uint64_t drain_timeout_ns;
	enum log_target log_target;
	int log_level; /* LOG_ERR to LOG_DEBUG of syslog.h */
	struct group_settings *groups;
	size_t n_groups;

	struct origin user_origin;
	struct origin drain_timeout_origin;
	struct origin log_target_origin;
	struct origin log_level_origin;
	struct origin groups_origin;
	char *file;   /* the main file as it was named; "<stdin>"; NULL: the built-in default */
	char **files; /* every file read; what origins point into */
	size_t n_files;
};

/* Releases the settings. NULL is fine. Returns NULL, to be assigned. */
struct settings *settings_free(struct settings *settings);

#endif
