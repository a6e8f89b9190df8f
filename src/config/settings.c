#include "config/settings.h"

#include <stdlib.h>
#include <string.h>

const char origin_command_line[] = "command line";

bool numbers_have(const struct numbers_setting *setting, unsigned number)
{
	for (size_t i = 0; i < setting->n; i++) {
		if (setting->numbers[i] == number)
			return true;
	}
	return setting->n == 0;
}

static void group_fini(struct group_settings *group)
{
	for (size_t i = 0; i < group->n_faults; i++) {
		free(group->faults[i].lanes.numbers);
		free(group->faults[i].workers.numbers);
	}
	free(group->faults);
	free(group->name);
	free(group->listen);
	free(group->topology);
	free(group->engine);
	free(group->share);
}

struct settings *settings_ref(struct settings *settings)
{
	settings->references++;
	return settings;
}

const char *settings_add_file(struct settings *settings, const char *file)
{
	char **files = reallocarray(settings->files, settings->n_files + 1, sizeof(*files));

	if (!files)
		return NULL;
	settings->files = files;
	files[settings->n_files] = strdup(file);
	return files[settings->n_files] ? files[settings->n_files++] : NULL;
}

struct settings *settings_free(struct settings *settings)
{
	if (!settings || settings->references-- > 0)
		return NULL;
	for (size_t i = 0; i < settings->n_groups; i++)
		group_fini(&settings->groups[i]);
	for (size_t i = 0; i < settings->n_files; i++)
		free(settings->files[i]);
	free(settings->user);
	free(settings->groups);
	free(settings->file);
	free(settings->files);
	free(settings);
	return NULL;
}

const struct group_settings *settings_find_group(const struct settings *settings, const char *name)
{
	for (size_t i = 0; i < settings->n_groups; i++) {
		if (strcmp(settings->groups[i].name, name) == 0)
			return &settings->groups[i];
	}
	return NULL;
}
