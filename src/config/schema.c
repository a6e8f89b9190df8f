#include "config/schema.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "config/settings.h"

#define KIB (UINT64_C(1) << 10)
#define TIB (UINT64_C(1) << 40)
#define S   NS_PER_S
#define H   (3600 * NS_PER_S)
#define D   (24 * H)

#define TOP(field, origin)                                               \
	.scope = SCHEMA_TOP, .offset = offsetof(struct settings, field), \
	.origin_offset = offsetof(struct settings, origin)
#define GROUP(field, index)                                                      \
	.scope = SCHEMA_GROUP, .offset = offsetof(struct group_settings, field), \
	.origin_offset = offsetof(struct group_settings, origins) +              \
			 (index) * sizeof(struct origin)

/* clang-format off */
static const struct schema_choice targets[] = {
	{"auto", LOG_TARGET_AUTO},
	{"stderr", LOG_TARGET_STDERR},
	{"journal", LOG_TARGET_JOURNAL},
	{NULL, 0},
};
static const struct schema_choice levels[] = {
	{"error", LOG_ERR},
	{"warning", LOG_WARNING},
	{"notice", LOG_NOTICE},
	{"info", LOG_INFO},
	{"debug", LOG_DEBUG},
	{NULL, 0},
};
static const struct schema_choice topologies[] = {
	{"shared-listener", 0},
	{"reuseport", 0},
	{"reuseport+standby", 0},
	{NULL, 0},
};
static const struct schema_choice engines[] = {
	{"auto", 0},
	{"epoll", 0},
	{NULL, 0},
};
static const struct schema_choice shares[] = {
	{"queue", 0},
	{NULL, 0},
};

const struct schema_key schema_keys[] = {
	{
		.path = "user", TOP(user, user_origin),
		.type = SCHEMA_STRING, .unit = "-", .default_text = "",
		.reload = SCHEMA_RESTART, .since = "0.1",
		.help = "account of all processes but the master, when started as root; empty: no change",
	}, {
		.path = "drain_timeout", TOP(drain_timeout_ns, drain_timeout_origin),
		.type = SCHEMA_TIME, .unit = "-", .default_text = "30s", .max = 1 * H,
		.reload = SCHEMA_RELOAD, .since = "0.1",
		.help = "how long connections that are busy may go on when laned stops",
	}, {
		.path = "log.target", TOP(log_target, log_target_origin),
		.type = SCHEMA_LEVEL, .unit = "-", .default_text = "auto", .choices = targets,
		.reload = SCHEMA_RELOAD, .since = "0.1",
		.help = "where the log goes; auto: the journal if stderr leads there, else stderr",
	}, {
		.path = "log.level", TOP(log_level, log_level_origin),
		.type = SCHEMA_LEVEL, .unit = "-", .default_text = "info", .choices = levels,
		.reload = SCHEMA_RELOAD, .since = "0.1",
		.help = "the least urgent lines that are written",
	}, {
		.path = "groups", TOP(groups, groups_origin),
		.type = SCHEMA_GROUPS, .unit = "-",
		.reload = SCHEMA_RELOAD, .since = "0.1",
		.help = "the groups that are served; none written: one on 127.0.0.1:7007",
	}, {
		.path = "name", GROUP(name, GROUP_KEY_NAME),
		.type = SCHEMA_NAME, .unit = "-", .builtin_text = "echo",
		.reload = SCHEMA_RELOAD, .since = "0.1",
		.help = "what the group is called in logs and process titles; unique",
	}, {
		.path = "listen", GROUP(listen, GROUP_KEY_LISTEN),
		.type = SCHEMA_LISTEN, .unit = "-", .builtin_text = "127.0.0.1:7007",
		.reload = SCHEMA_RELOAD, .since = "0.1",
		.help = "the addresses that clients connect to",
	}, {
		.path = "topology", GROUP(topology, GROUP_KEY_TOPOLOGY),
		.type = SCHEMA_CHOICE, .unit = "-", .default_text = "shared-listener",
		.choices = topologies,
		.reload = SCHEMA_RELOAD, .since = "0.1",
		.help = "where clients wait, and who serves them",
	}, {
		.path = "workers", GROUP(workers, GROUP_KEY_WORKERS),
		.type = SCHEMA_COUNT, .unit = "processes", .default_text = "auto",
		.builtin_text = "2", .min = 1, .max = 512,
		.reload = SCHEMA_RELOAD, .since = "0.1",
		.help = "primaries of the group; auto: as many as CPUs may be used",
	}, {
		.path = "standby", GROUP(standby, GROUP_KEY_STANDBY),
		.type = SCHEMA_INTEGER, .unit = "processes", .default_text = "1", .max = 16,
		.reload = SCHEMA_RELOAD, .since = "0.1",
		.help = "standbys of each lane, where the topology has them",
	}, {
		.path = "engine", GROUP(engine, GROUP_KEY_ENGINE),
		.type = SCHEMA_CHOICE, .unit = "-", .default_text = "auto", .choices = engines,
		.reload = SCHEMA_RELOAD, .since = "0.1",
		.help = "how a worker moves bytes; auto: the best of this host",
	}, {
		.path = "share", GROUP(share, GROUP_KEY_SHARE),
		.type = SCHEMA_CHOICE, .unit = "-", .default_text = "queue", .choices = shares,
		.reload = SCHEMA_RELOAD, .since = "0.1",
		.help = "what the workers of a lane share; queue: its listening sockets",
	}, {
		.path = "backlog", GROUP(backlog, GROUP_KEY_BACKLOG),
		.type = SCHEMA_INTEGER, .unit = "connections", .default_text = "4096",
		.min = 1, .max = INT32_MAX,
		.reload = SCHEMA_RELOAD, .since = "0.1",
		.help = "how many clients may wait in each accept queue",
	}, {
		.path = "max_connections", GROUP(max_connections, GROUP_KEY_MAX_CONNECTIONS),
		.type = SCHEMA_INTEGER, .unit = "connections", .default_text = "10000",
		.min = 1, .max = 10000000,
		.reload = SCHEMA_RELOAD, .since = "0.1",
		.help = "connections of the group at a time, split evenly over its lanes",
	}, {
		.path = "buffer_memory", GROUP(buffer_memory_bytes, GROUP_KEY_BUFFER_MEMORY),
		.type = SCHEMA_SIZE, .unit = "bytes", .default_text = "64MiB",
		.min = 128 * KIB, .max = 1 * TIB,
		.reload = SCHEMA_RELOAD, .since = "0.1",
		.help = "memory for bytes on their way, split evenly over the lanes",
	}, {
		.path = "nofile", GROUP(nofile, GROUP_KEY_NOFILE),
		.type = SCHEMA_INTEGER, .unit = "descriptors", .default_text = "0",
		.min = 64, .max = 1000000000, .zero = true,
		.reload = SCHEMA_RELOAD, .since = "0.1",
		.help = "limit of open files of each worker; 0: what the other limits need",
	}, {
		.path = "idle_timeout", GROUP(idle_timeout_ns, GROUP_KEY_IDLE_TIMEOUT),
		.type = SCHEMA_TIME, .unit = "-", .default_text = "0",
		.min = 1 * S, .max = 30 * D, .zero = true,
		.reload = SCHEMA_RELOAD, .since = "0.1",
		.help = "a connection on which no byte has moved for that long is ended; 0: never",
	}, {
		.path = "send_timeout", GROUP(send_timeout_ns, GROUP_KEY_SEND_TIMEOUT),
		.type = SCHEMA_TIME, .unit = "-", .default_text = "60s",
		.min = 1 * S, .max = 30 * D, .zero = true,
		.reload = SCHEMA_RELOAD, .since = "0.1",
		.help = "a connection whose peer takes nothing for that long is reset; 0: never",
	}, {
		.path = "echo.tag", GROUP(echo_tag, GROUP_KEY_ECHO_TAG),
		.type = SCHEMA_BOOL, .unit = "-", .default_text = "false",
		.reload = SCHEMA_RELOAD, .since = "0.1",
		.help = "append which worker served it to each message",
	}, {
		.path = "echo.close_after", GROUP(echo_close_after, GROUP_KEY_ECHO_CLOSE_AFTER),
		.type = SCHEMA_INTEGER, .unit = "messages", .default_text = "0",
		.max = 1000000000,
		.reload = SCHEMA_RELOAD, .since = "0.1",
		.help = "end a connection after that many messages; 0: never",
	},
};
/* clang-format on */

const size_t schema_n_keys = sizeof(schema_keys) / sizeof(schema_keys[0]);

const struct schema_key *schema_next(enum schema_scope scope, const struct schema_key *key)
{
	const struct schema_key *end = schema_keys + schema_n_keys;

	for (key = key ? key + 1 : schema_keys; key < end; key++) {
		if (key->scope == scope)
			return key;
	}
	return NULL;
}

const struct schema_key *schema_find(enum schema_scope scope, const char *path)
{
	const struct schema_key *key = NULL;

	while ((key = schema_next(scope, key))) {
		if (strcmp(key->path, path) == 0)
			return key;
	}
	return NULL;
}

const struct schema_key *schema_find_below(enum schema_scope scope, const char *prefix)
{
	const struct schema_key *key = NULL;

	while ((key = schema_next(scope, key))) {
		if (strncmp(key->path, prefix, strlen(prefix)) == 0)
			return key;
	}
	return NULL;
}

const char *schema_type_name(const struct schema_key *key)
{
	switch (key->type) {
	case SCHEMA_STRING:
	case SCHEMA_NAME:
	case SCHEMA_CHOICE:
	case SCHEMA_LEVEL:
		return "string";
	case SCHEMA_BOOL:
		return "bool";
	case SCHEMA_INTEGER:
		return "integer";
	case SCHEMA_COUNT:
		return "integer or \"auto\"";
	case SCHEMA_TIME:
		return "time";
	case SCHEMA_SIZE:
		return "size";
	case SCHEMA_LISTEN:
		return "string or array of strings";
	case SCHEMA_GROUPS:
		return "list of groups";
	}
	return "unknown";
}

bool schema_is_quoted(const struct schema_key *key, const char *text)
{
	switch (key->type) {
	case SCHEMA_BOOL:
	case SCHEMA_INTEGER:
		return false;
	case SCHEMA_COUNT:
		return strcmp(text, "auto") == 0;
	default:
		return true;
	}
}

static void format_number(const struct schema_key *key, uint64_t value,
			  char text[static UNITS_TEXT_MAX])
{
	if (key->type == SCHEMA_TIME)
		units_format_time(value, text);
	else if (key->type == SCHEMA_SIZE)
		units_format_size(value, text);
	else
		snprintf(text, UNITS_TEXT_MAX, "%" PRIu64, value);
}

static void format_choices(const struct schema_choice *choice, char text[static SCHEMA_RANGE_MAX])
{
	size_t length = 0;

	for (; choice->text; choice++) {
		const char *separator = choice[1].text ? ", " : " or ";

		length += (size_t)snprintf(text + length, SCHEMA_RANGE_MAX - length, "%s\"%s\"",
					   length > 0 ? separator : "", choice->text);
		if (length >= SCHEMA_RANGE_MAX)
			return;
	}
}

const char *schema_format_range(const struct schema_key *key, char text[static SCHEMA_RANGE_MAX])
{
	char min[UNITS_TEXT_MAX], max[UNITS_TEXT_MAX];

	switch (key->type) {
	case SCHEMA_STRING:
		snprintf(text, SCHEMA_RANGE_MAX, "any");
		break;
	case SCHEMA_NAME:
		snprintf(text, SCHEMA_RANGE_MAX, "1 to %d of A-Z a-z 0-9 _ -", GROUP_NAME_MAX);
		break;
	case SCHEMA_CHOICE:
	case SCHEMA_LEVEL:
		format_choices(key->choices, text);
		break;
	case SCHEMA_BOOL:
		snprintf(text, SCHEMA_RANGE_MAX, "true or false");
		break;
	case SCHEMA_INTEGER:
	case SCHEMA_COUNT:
	case SCHEMA_TIME:
	case SCHEMA_SIZE:
		format_number(key, key->min, min);
		format_number(key, key->max, max);
		snprintf(text, SCHEMA_RANGE_MAX, "%s to %s%s", min, max,
			 key->zero                   ? ", or 0"
			 : key->type == SCHEMA_COUNT ? ", or \"auto\""
						     : "");
		break;
	case SCHEMA_LISTEN:
		snprintf(text, SCHEMA_RANGE_MAX, "ADDRESS:PORT, [ADDRESS]:PORT");
		break;
	case SCHEMA_GROUPS:
		snprintf(text, SCHEMA_RANGE_MAX, "at least one");
		break;
	}
	return text;
}
