#include "config/config.h"

#include <errno.h>
#include <libconfig.h>
#include <string.h>

#include "base/cleanup.h"
#include "config/check.h"
#include "config/input.h"
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

/* Reads the main file's text, and all that it leads to, into settings that have their defaults. */
static int load_text(const char *file, const char *text, size_t length, struct settings *settings,
		     struct report *report)
{
	_cleanup_(scan_fini) struct scan scan = {.text = NULL};
	unsigned errors = report->errors;
	int r;

	r = scan_run(&scan, file, text, length, report);
	if (r < 0)
		return r;
	settings->file = strdup(file);
	if (!settings->file)
		return -ENOMEM;
	if (!scan.broken) {
		r = parse(&scan, report->errors == errors, settings, report);
		if (r < 0)
			return r;
	}

	/* Now the settings': origins point into them. */
	settings->files = scan.files;
	settings->n_files = scan.n_files;
	scan.files = NULL;
	scan.n_files = 0;
	return 0;
}

static int add_builtin_group(struct settings *settings)
{
	settings->groups = calloc(1, sizeof(*settings->groups));
	if (!settings->groups)
		return -ENOMEM;
	settings->n_groups = 1;
	return value_set_builtin(settings->groups);
}

static int load(const char *path, struct settings *settings, struct report *report)
{
	_cleanup_(freep) char *text = NULL;
	const char *file = path ? path : CONFIG_INSTALLED_FILE;
	bool is_stdin = strcmp(file, "-") == 0;
	unsigned errors = report->errors;
	size_t length;
	int r;

	r = value_set_defaults(SCHEMA_TOP, settings);
	if (r < 0)
		return r;
	if (is_stdin)
		file = CONFIG_STDIN_NAME;
	r = input_read(is_stdin ? NULL : file, INPUT_MAX, &text, &length);
	if (r < 0 && (path || (r != -ENOENT && r != -ENOTDIR))) {
		report_add(report, REPORT_ERROR, NULL, NULL, "cannot read %s: %s", file,
			   input_problem(r));
		return r;
	}
	if (r == 0) {
		r = load_text(file, text, length, settings, report);
		if (r < 0)
			return r;
	}
	if (!settings->groups_origin.file && report->errors == errors) {
		r = add_builtin_group(settings);
		if (r < 0)
			return r;
	}
	r = check_settings(settings, report);
	if (r < 0)
		return r;
	return report->errors > errors ? -EBADMSG : 0;
}

int config_load(const char *path, struct report *report, struct settings **ret)
{
	_cleanup_(settings_freep) struct settings *settings = calloc(1, sizeof(*settings));
	int r;

	if (!settings)
		return -ENOMEM;
	r = load(path, settings, report);
	if (r < 0)
		return r;
	*ret = settings;
	settings = NULL; /* now the caller's */
	return 0;
}
