#include "config/schema.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "config/settings.h"

#define KIB (UINT64_C(1) << 10)
#define TIB (UINT64_C(1) << 40)
#define MS  NS_PER_MS
#define S   NS_PER_S
#define MIN (60 * NS_PER_S)
#define H   (3600 * NS_PER_S)
#define D   (24 * H)

#define TOP(field, origin)                                               \
	.scope = SCHEMA_TOP, .offset = offsetof(struct settings, field), \
	.origin_offset = offsetof(struct settings, origin)
#define SUPERVISION(field, index) TOP(supervision.field, supervision_origins[index])
#define GROUP(field, index)                                                      \
	.scope = SCHEMA_GROUP, .offset = offsetof(struct group_settings, field), \
	.origin_offset = offsetof(struct group_settings, origins[index])
#define FAULT(field, index)                                                      \
	.scope = SCHEMA_FAULT, .offset = offsetof(struct fault_settings, field), \
	.origin_offset = offsetof(struct fault_settings, origins[index])

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
static const struct schema_choice fault_kinds[] = {
	{"sleep", FAULT_SLEEP},
	{"spin", FAULT_SPIN},
	{"stop", FAULT_STOP},
	{"crash", FAULT_CRASH},
	{"exit", FAULT_EXIT},
	{NULL, 0},
};
static const struct schema_choice fault_ons[] = {
	{"accept", FAULT_ON_ACCEPT},
	{"message", FAULT_ON_MESSAGE},
	{NULL, 0},
};
static const struct schema_choice fault_roles[] = {
	{"primary", FAULT_PRIMARY},
	{"standby", FAULT_STANDBY},
	{"extra", FAULT_EXTRA},
	{NULL, 0},
};

const struct schema_key schema_keys[] = {
	{
		.path = "user", TOP(user, user_origin),
		.type = SCHEMA_STRING, .default_text = "",
		.reload = SCHEMA_RESTART,
		.help = "account of all processes but the master, when started as root; empty: no change",
	}, {
		.path = "drain_timeout", TOP(drain_timeout_ns, drain_timeout_origin),
		.type = SCHEMA_TIME, .default_text = "30s", .max = 1 * H,
		.help = "how long busy connections may go on when laned stops or a reload replaces their group",
	}, {
		.path = "max_generations", TOP(max_generations, max_generations_origin),
		.type = SCHEMA_INTEGER, .unit = "generations", .default_text = "8", .min = 1, .max = 100,
		.help = "old generations of groups that may have connections left after reloads",
	}, {
		.path = "log.target", TOP(log_target, log_target_origin),
		.type = SCHEMA_LEVEL, .default_text = "auto", .choices = targets,
		.reload = SCHEMA_RESTART,
		.help = "where the log goes; auto: the journal if stderr leads there, else stderr",
	}, {
		.path = "log.level", TOP(log_level, log_level_origin),
		.type = SCHEMA_LEVEL, .default_text = "info", .choices = levels,
		.help = "the least urgent lines that are written",
	}, {
		.path = "supervision.rescue_after",
		SUPERVISION(rescue_after_ns, SUPERVISION_KEY_RESCUE_AFTER),
		.type = SCHEMA_TIME, .default_text = "5ms", .min = 1 * MS, .max = 10 * S,
		.help = "how long a client may wait until a free worker is called to the queue",
	}, {
		.path = "supervision.extra_after",
		SUPERVISION(extra_after_ns, SUPERVISION_KEY_EXTRA_AFTER),
		.type = SCHEMA_TIME, .default_text = "20ms", .min = 1 * MS, .max = 10 * MIN,
		.help = "how long they may wait with nobody free until an extra worker is started",
	}, {
		.path = "supervision.steer_after",
		SUPERVISION(steer_after_ns, SUPERVISION_KEY_STEER_AFTER),
		.type = SCHEMA_TIME, .default_text = "1s", .min = 10 * MS, .max = 1 * H, .zero = true,
		.help = "when new clients are kept away from a lane that nobody serves; 0: never",
	}, {
		.path = "supervision.abort_after",
		SUPERVISION(abort_after_ns, SUPERVISION_KEY_ABORT_AFTER),
		.type = SCHEMA_TIME, .default_text = "10s", .min = 100 * MS, .max = 1 * H, .zero = true,
		.help = "when a worker that does not go on is ended by SIGABRT; 0: never",
	}, {
		.path = "supervision.kill_after",
		SUPERVISION(kill_after_ns, SUPERVISION_KEY_KILL_AFTER),
		.type = SCHEMA_TIME, .default_text = "2s", .min = 100 * MS, .max = 10 * MIN,
		.help = "how long after SIGABRT it is ended by SIGKILL",
	}, {
		.path = "supervision.check_interval",
		SUPERVISION(check_interval_ns, SUPERVISION_KEY_CHECK_INTERVAL),
		.type = SCHEMA_TIME, .default_text = "250ms", .min = 10 * MS, .max = 10 * S,
		.help = "how often workers are looked at while there are connections",
	}, {
		.path = "supervision.extra_max",
		SUPERVISION(extra_max, SUPERVISION_KEY_EXTRA_MAX),
		.type = SCHEMA_INTEGER, .unit = "processes", .default_text = "4", .max = 64,
		.help = "extra workers of each lane at a time; 0: none",
	}, {
		.path = "supervision.restart_limit",
		SUPERVISION(restart_limit, SUPERVISION_KEY_RESTART_LIMIT),
		.type = SCHEMA_INTEGER, .unit = "starts", .default_text = "10",
		.min = 1, .max = 10000,
		.help = "how often a worker is started within restart_interval before it is given up",
	}, {
		.path = "supervision.restart_interval",
		SUPERVISION(restart_interval_ns, SUPERVISION_KEY_RESTART_INTERVAL),
		.type = SCHEMA_TIME, .default_text = "60s", .min = 1 * S, .max = 1 * D,
		.help = "the time of restart_limit; one that was given up is tried when it is over",
	}, {
		.path = "allow_faults", TOP(allow_faults, allow_faults_origin),
		.type = SCHEMA_BOOL, .default_text = "false",
		.help = "whether groups may have faults for rehearsals",
	}, {
		.path = "groups", TOP(groups, groups_origin),
		.type = SCHEMA_LIST, .entry = SCHEMA_GROUP,
		.help = "the groups that are served; none written: one on 127.0.0.1:7007",
	}, {
		.path = "name", GROUP(name, GROUP_KEY_NAME),
		.type = SCHEMA_NAME, .builtin_text = "echo",
		.help = "what the group is called in logs and process titles; unique",
	}, {
		.path = "listen", GROUP(listen, GROUP_KEY_LISTEN),
		.type = SCHEMA_LISTEN, .builtin_text = "127.0.0.1:7007",
		.help = "the addresses that clients connect to",
	}, {
		.path = "topology", GROUP(topology, GROUP_KEY_TOPOLOGY),
		.type = SCHEMA_CHOICE, .default_text = "shared-listener",
		.choices = topologies,
		.help = "where clients wait, and who serves them",
	}, {
		.path = "workers", GROUP(workers, GROUP_KEY_WORKERS),
		.type = SCHEMA_COUNT, .unit = "processes", .default_text = "auto",
		.builtin_text = "2", .min = 1, .max = 512,
		.help = "primaries of the group; auto: as many as CPUs may be used",
	}, {
		.path = "standby", GROUP(standby, GROUP_KEY_STANDBY),
		.type = SCHEMA_INTEGER, .unit = "processes", .default_text = "1", .max = 16,
		.help = "standbys of each lane, where the topology has them",
	}, {
		.path = "engine", GROUP(engine, GROUP_KEY_ENGINE),
		.type = SCHEMA_CHOICE, .default_text = "auto", .choices = engines,
		.help = "how a worker moves bytes; auto: the best of this host",
	}, {
		.path = "share", GROUP(share, GROUP_KEY_SHARE),
		.type = SCHEMA_CHOICE, .default_text = "queue", .choices = shares,
		.help = "what the workers of a lane share; queue: its listening sockets",
	}, {
		.path = "backlog", GROUP(backlog, GROUP_KEY_BACKLOG),
		.type = SCHEMA_INTEGER, .unit = "connections", .default_text = "4096",
		.min = 1, .max = INT32_MAX,
		.help = "how many clients may wait in each accept queue",
	}, {
		.path = "max_connections", GROUP(max_connections, GROUP_KEY_MAX_CONNECTIONS),
		.type = SCHEMA_INTEGER, .unit = "connections", .default_text = "10000",
		.min = 1, .max = 10000000,
		.help = "connections of the group at a time, split evenly over its lanes",
	}, {
		.path = "buffer_memory", GROUP(buffer_memory_bytes, GROUP_KEY_BUFFER_MEMORY),
		.type = SCHEMA_SIZE, .unit = "bytes", .default_text = "64MiB",
		.min = 128 * KIB, .max = 1 * TIB,
		.help = "memory for bytes on their way, split evenly over the lanes",
	}, {
		.path = "nofile", GROUP(nofile, GROUP_KEY_NOFILE),
		.type = SCHEMA_INTEGER, .unit = "descriptors", .default_text = "0",
		.min = 64, .max = 1000000000, .zero = true,
		.help = "limit of open files of each worker; 0: what the other limits need",
	}, {
		.path = "idle_timeout", GROUP(idle_timeout_ns, GROUP_KEY_IDLE_TIMEOUT),
		.type = SCHEMA_TIME, .default_text = "0",
		.min = 1 * S, .max = 30 * D, .zero = true,
		.help = "a connection on which no byte has moved for that long is ended; 0: never",
	}, {
		.path = "send_timeout", GROUP(send_timeout_ns, GROUP_KEY_SEND_TIMEOUT),
		.type = SCHEMA_TIME, .default_text = "60s",
		.min = 1 * S, .max = 30 * D, .zero = true,
		.help = "a connection whose peer takes nothing for that long is reset; 0: never",
	}, {
		.path = "echo.tag", GROUP(echo_tag, GROUP_KEY_ECHO_TAG),
		.type = SCHEMA_BOOL, .default_text = "false",
		.help = "append which worker served it to each message",
	}, {
		.path = "echo.close_after", GROUP(echo_close_after, GROUP_KEY_ECHO_CLOSE_AFTER),
		.type = SCHEMA_INTEGER, .unit = "messages", .default_text = "0",
		.max = 1000000000,
		.help = "end a connection after that many messages; 0: never",
	}, {
		.path = "faults", GROUP(faults, GROUP_KEY_FAULTS),
		.type = SCHEMA_LIST, .entry = SCHEMA_FAULT, .default_text = "( )",
		.help = "what shall go wrong, for rehearsals; needs allow_faults",
	}, {
		.path = "kind", FAULT(kind, FAULT_KEY_KIND),
		.type = SCHEMA_LEVEL, .choices = fault_kinds,
		.help = "what happens to the worker",
	}, {
		.path = "on", FAULT(on, FAULT_KEY_ON),
		.type = SCHEMA_LEVEL, .default_text = "message", .choices = fault_ons,
		.help = "when: a client was accepted, or a message was read",
	}, {
		.path = "probability", FAULT(probability, FAULT_KEY_PROBABILITY),
		.type = SCHEMA_PROBABILITY, .default_text = "1.0", .max = 1,
		.help = "how often of all times; 1.0: each time",
	}, {
		.path = "duration", FAULT(duration_ns, FAULT_KEY_DURATION),
		.type = SCHEMA_TIME, .optional = true, .min = 1 * MS, .max = 1 * H,
		.help = "how long it sleeps or spins",
	}, {
		.path = "seed", FAULT(seed, FAULT_KEY_SEED),
		.type = SCHEMA_INTEGER, .default_text = "1", .max = UINT32_MAX,
		.help = "where the random numbers begin: the same seed strikes the same times",
	}, {
		.path = "lanes", FAULT(lanes, FAULT_KEY_LANES),
		.type = SCHEMA_NUMBERS, .default_text = "[ ]", .max = 511,
		.help = "the lanes in which it strikes; none written: all",
	}, {
		.path = "workers", FAULT(workers, FAULT_KEY_WORKERS),
		.type = SCHEMA_NUMBERS, .default_text = "[ ]", .max = 591,
		.help = "the workers of these that it strikes; none written: all",
	}, {
		.path = "roles", FAULT(roles, FAULT_KEY_ROLES),
		.type = SCHEMA_FLAGS, .default_text = "[ ]", .choices = fault_roles,
		.help = "the roles of these that it strikes; none written: all",
	},
};

const struct schema_entry schema_entries[] = {
	[SCHEMA_GROUP] = {
		.noun = "group", .size = sizeof(struct group_settings),
		.origin_offset = offsetof(struct group_settings, origin),
	},
	[SCHEMA_FAULT] = {
		.noun = "fault", .size = sizeof(struct fault_settings),
		.origin_offset = offsetof(struct fault_settings, origin),
	},
};
/* clang-format on */

/* That an array's length stands behind its address, as value.c has it. */
#define IS_ARRAY(type, array, length) \
	(offsetof(type, length) == offsetof(type, array) + sizeof(void *))

_Static_assert(IS_ARRAY(struct settings, groups, n_groups) &&
		       IS_ARRAY(struct group_settings, listen, n_listen) &&
		       IS_ARRAY(struct group_settings, faults, n_faults) &&
		       IS_ARRAY(struct numbers_setting, numbers, n),
	       "an array's length must stand behind its address");

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
	case SCHEMA_PROBABILITY:
		return "number";
	case SCHEMA_FLAGS:
		return "array of strings";
	case SCHEMA_NUMBERS:
		return "array of integers";
	case SCHEMA_LISTEN:
		return "string or array of strings";
	case SCHEMA_LIST:
		return key->entry == SCHEMA_GROUP ? "list of groups" : "list of faults";
	}
	return "unknown";
}

bool schema_is_several(const struct schema_key *key)
{
	return key->type == SCHEMA_FLAGS || key->type == SCHEMA_NUMBERS ||
	       key->type == SCHEMA_LISTEN || key->type == SCHEMA_LIST;
}

bool schema_is_quoted(const struct schema_key *key, const char *text)
{
	switch (key->type) {
	case SCHEMA_BOOL:
	case SCHEMA_INTEGER:
	case SCHEMA_PROBABILITY:
	case SCHEMA_NUMBERS:
	case SCHEMA_LIST:
		return false;
	case SCHEMA_FLAGS:
		return *text != '[';
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
	case SCHEMA_FLAGS:
		format_choices(key->choices, text);
		break;
	case SCHEMA_BOOL:
		snprintf(text, SCHEMA_RANGE_MAX, "true or false");
		break;
	case SCHEMA_INTEGER:
	case SCHEMA_COUNT:
	case SCHEMA_TIME:
	case SCHEMA_SIZE:
	case SCHEMA_PROBABILITY:
	case SCHEMA_NUMBERS:
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
	case SCHEMA_LIST:
		snprintf(text, SCHEMA_RANGE_MAX, key->default_text ? "any number" : "at least one");
		break;
	}
	return text;
}
