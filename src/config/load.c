#include "config/config.h"

#include <dirent.h>
#include <errno.h>
#include <libconfig.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "config/check.h"
#include "config/input.h"
#include "config/override.h"
#include "config/scan.h"
#include "config/tree.h"
#include "config/value.h"

static void settings_freep(struct settings **settings)
{
	settings_free(*settings);
}

/* What to do about an error of libconfig, whose own words are few. */
static const char *hint_syntax(const char *error)
{
	if (strcmp(error, "syntax error") == 0)
		return "one of these, usually, here or in the line before:\n"
		       "- a quote, a comma, or a closing ), ] or } is missing\n"
		       "- text stands without quotes\n"
		       "- there is no \"=\" between a key and its value";
	if (strstr(error, "duplicate"))
		return "a key can stand once between two braces";
	return NULL;
}

/*
 * Parses the scanned text. An error of the syntax is told only if the scan has found nothing: else
 * it is most likely the same error once more.
 */
static int parse(const struct scan *scan, bool scan_is_clean, struct settings *settings,
		 struct report *report)
{
	config_t config;
	int r = 0;

	config_init(&config);
	if (config_read_string(&config, scan->text)) {
		r = tree_load(config_root_setting(&config), scan, settings, report);
	} else if (scan_is_clean) {
		struct origin origin = scan_origin(scan, (unsigned)config_error_line(&config));
		const char *error = config_error_text(&config);

		report_add_syntax(report, &origin, hint_syntax(error), "%s", error);
	}
	config_destroy(&config);
	return r;
}

/* What all files of a configuration share. */
struct loading {
	struct settings *settings;
	struct report *report;
	size_t n_read; /* bytes so far */
};

/* The names become the settings': origins point into them. */
static int take_files(struct settings *settings, struct scan *scan)
{
	size_t n = settings->n_files + scan->n_files;
	char **files = reallocarray(settings->files, n, sizeof(*files));

	if (!files)
		return -ENOMEM;
	memcpy(files + settings->n_files, scan->files, scan->n_files * sizeof(*files));
	settings->files = files;
	settings->n_files = n;
	scan->n_files = 0;
	return 0;
}

/* Reads the text of a file, and all that it includes, into the settings. */
static int load_text(struct loading *loading, const char *file, const char *text, size_t length)
{
	_cleanup_(scan_fini) struct scan scan = {
		.n_before = loading->settings->n_files,
		.n_read = loading->n_read,
	};
	unsigned errors = loading->report->errors;
	int r;

	r = scan_run(&scan, file, text, length, loading->report);
	if (r < 0)
		return r;
	loading->n_read = scan.n_read;
	if (!scan.broken) {
		r = parse(&scan, loading->report->errors == errors, loading->settings,
			  loading->report);
		if (r < 0)
			return r;
	}
	return take_files(loading->settings, &scan);
}

/* Reads one file, or standard input, and tells if it cannot. Returns 0 or -errno. */
static int load_file(struct loading *loading, const char *file, bool may_be_missing)
{
	_cleanup_(freep) char *text = NULL;
	bool is_stdin = strcmp(file, "-") == 0;
	size_t length;
	int r = input_read(is_stdin ? NULL : file, INPUT_MAX - loading->n_read, &text, &length);

	if (may_be_missing && (r == -ENOENT || r == -ENOTDIR))
		return r;
	if (is_stdin)
		file = CONFIG_STDIN_NAME;
	if (r < 0) {
		report_add(loading->report, REPORT_ERROR, NULL, NULL, "cannot read %s: %s", file,
			   input_problem(r));
		return r;
	}
	return load_text(loading, file, text, length);
}

/* Leaves out hidden files, and what editors and package managers put beside a file. */
static int is_wanted(const struct dirent *entry)
{
	size_t length = strlen(entry->d_name);

	return *entry->d_name != '.' && length > strlen(".conf") &&
	       strcmp(entry->d_name + length - strlen(".conf"), ".conf") == 0;
}

/* By bytes, whatever the locale. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/* Reads one file of the folder. Returns 0 (what is wrong is in the report) or -ENOMEM. */
static int load_entry(struct loading *loading, const char *folder, const char *name)
{
	_cleanup_(freep) char *path = NULL;

	if (asprintf(&path, "%s/%s", folder, name) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	if (loading->settings->n_files >= SCAN_FILES_MAX) {
		report_add(loading->report, REPORT_ERROR, NULL, NULL,
			   "cannot read %s: a configuration has at most %d files", path,
			   SCAN_FILES_MAX);
		return 0;
	}
	return load_file(loading, path, false);
}

/* Reads conf.d/?*.conf beside the main file, which need not be there. Returns 0 or -errno. */
static int load_folder(struct loading *loading, const char *main_file)
{
	const char *slash = strrchr(main_file, '/');
	int length = slash ? (int)(slash + 1 - main_file) : 0;
	_cleanup_(freep) char *folder = NULL;
	struct dirent **entries;
	int result = 0;
	int n;

	if (asprintf(&folder, "%.*sconf.d", length, main_file) < 0) {
		folder = NULL;
		return -ENOMEM;
	}
	n = scandir(folder, &entries, is_wanted, by_name);
	if (n < 0) {
		result = -errno;
		if (result == -ENOENT)
			return 0;
		report_add(loading->report, REPORT_ERROR, NULL, NULL, "cannot read %s: %s", folder,
			   strerror(-result));
		return result;
	}
	for (int i = 0; i < n; i++) {
		int r = result == -ENOMEM ? 0 : load_entry(loading, folder, entries[i]->d_name);

		if (result == 0 || r == -ENOMEM)
			result = r;
		free(entries[i]);
	}
	free(entries);
	return result;
}

/* Reads all files. Returns 0 or -errno: the first that something could not be read with. */
static int load_files(struct loading *loading, const char *path)
{
	const char *file = path ? path : CONFIG_INSTALLED_FILE;
	bool is_stdin = strcmp(file, "-") == 0;
	int r = load_file(loading, file, !path);

	/* Without the folder that it should be in, there is none beside it either. */
	if (r == -ENOTDIR && !path)
		return 0;
	if (r < 0 && (path || r != -ENOENT))
		return r;
	if (!is_stdin) {
		r = load_folder(loading, file);
		if (r < 0)
			return r;
	}
	if (loading->settings->n_files == 0)
		return 0;
	loading->settings->file = strdup(is_stdin ? CONFIG_STDIN_NAME : file);
	return loading->settings->file ? 0 : -ENOMEM;
}

static int add_builtin_group(struct settings *settings)
{
	settings->groups = calloc(1, sizeof(*settings->groups));
	if (!settings->groups)
		return -ENOMEM;
	settings->n_groups = 1;
	return value_set_builtin(settings->groups);
}

static int load(const struct config_source *source, struct settings *settings,
		struct report *report)
{
	struct loading loading = {.settings = settings, .report = report};
	unsigned errors = report->errors;
	int r;

	r = value_set_defaults(SCHEMA_TOP, settings);
	if (r < 0)
		return r;
	r = load_files(&loading, source->path);
	if (r < 0)
		return r;
	if (!settings->groups_origin.file && loading.report->errors == errors) {
		r = add_builtin_group(settings);
		if (r < 0)
			return r;
	}
	r = override_apply(source, settings, report);
	if (r < 0)
		return r;
	r = check_settings(settings, report);
	if (r < 0)
		return r;
	return report->errors > errors ? -EBADMSG : 0;
}

int config_load(const struct config_source *source, struct report *report, struct settings **ret)
{
	_cleanup_(settings_freep) struct settings *settings = calloc(1, sizeof(*settings));
	int r;

	if (!settings)
		return -ENOMEM;
	r = load(source, settings, report);
	if (r < 0)
		return r;
	*ret = settings;
	settings = NULL; /* now the caller's */
	return 0;
}
