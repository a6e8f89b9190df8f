#include "control/verb.h"

#include <string.h>

#define GROUP                                        \
	{                                            \
		"group", VERB_STRING, false, "GROUP" \
	}
#define WAIT                                       \
	{                                          \
		"wait", VERB_BOOL, false, "--wait" \
	}
#define DRY_RUN                                          \
	{                                                \
		"dry_run", VERB_BOOL, false, "--dry-run" \
	}
#define KEY                                      \
	{                                        \
		"key", VERB_STRING, false, "KEY" \
	}
#define LEVEL                                       \
	{                                           \
		"level", VERB_STRING, true, "LEVEL" \
	}
#define NOTHING                                      \
	{                                            \
		{                                    \
			NULL, VERB_BOOL, false, NULL \
		}                                    \
	}

/* clang-format off */
const struct verb verbs[] = {
	{"status", "Status", false, NOTHING, "what laned is doing, in a few lines"},
	{"workers", "Workers", false, NOTHING, "each worker: role, state, counters"},
	{"listeners", "Listeners", false, NOTHING, "each listening socket and its queue"},
	{"incidents", "Incidents", false, NOTHING, "the latest incidents, with their evidence"},
	{"health", "Health", false, NOTHING, "whether all is well, or why not"},
	{"metrics", "Metrics", false, NOTHING, "counters, in the text format of Prometheus"},
	{"version", "Version", false, NOTHING, "versions of lanectl and laned"},
	{"config show", "ConfigShow", false, {KEY}, "the configuration that is in effect"},
	{"config diff", "ConfigDiff", false, NOTHING, "how the file differs from it"},
	{"config check", "ConfigCheck", false, NOTHING, "whether the file could be loaded"},
	{"reload", "Reload", true, {WAIT, DRY_RUN}, "put the file into effect"},
	{"restart", "Restart", true, {GROUP, WAIT}, "other workers, same configuration"},
	{"drain", "Drain", true, {GROUP, WAIT}, "serve a group no more, until a reload"},
	{"log-level", "LogLevel", true, {LEVEL}, "change what is logged"},
	{"log-reopen", "LogReopen", true, NOTHING, "open the log anew"},
	{"top", NULL, false, NOTHING, "workers, live"},
	{"help", NULL, false, NOTHING, "this text"},
};
/* clang-format on */
const size_t n_verbs = sizeof(verbs) / sizeof(verbs[0]);

const struct verb *verb_find(const char *name)
{
	for (size_t i = 0; i < n_verbs; i++)
		if (strcmp(verbs[i].name, name) == 0)
			return &verbs[i];
	return NULL;
}

const struct verb *verb_find_method(const char *method)
{
	for (size_t i = 0; i < n_verbs; i++)
		if (verbs[i].method && strcmp(verbs[i].method, method) == 0)
			return &verbs[i];
	return NULL;
}
