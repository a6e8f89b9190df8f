/*
 * laned: a TCP echo daemon whose worker topology is a configuration key. This file reads the
 * command line and hands over.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <gnu/libc-version.h>
#include "base/fd.h"
#include "base/libraries.h"
#include "base/log.h"
#include "base/malloc.h"
#include "base/options.h"
#include "base/title.h"
#include "config/config.h"
#include "engine/engine.h"
#include "master/limits.h"
#include "master/master.h"

enum verb { VERB_RUN, VERB_CHECK, VERB_DUMP, VERB_VERSION, VERB_BUILD, VERB_HELP };

struct command_line {
	enum verb verb;
	struct config_source source;
	const char **overrides; /* of the source: room for one in each argument */
	const char *key;        /* of VERB_DUMP; NULL: all */
	bool quiet;
	bool changed;
	bool origin;
};

/* Short letter, long name, argument, what it does: the table that getopt and --help come from. */
static const struct option_row options[] = {
	{'c', "config", "FILE", "read this configuration (\"-\": standard input)"},
	{'o', "override", "KEY=VALUE", "set a key, whatever the files say; several times"},
	{'t', "check", NULL, "check the configuration and exit"},
	{'q', "quiet", NULL, "with -t: say nothing if it is right"},
	{'T', "dump", NULL, "write the configuration in effect, or the value of KEY, and exit"},
	{'n', "changed", NULL, "with -T: only what differs from the default"},
	{'w', "origin", NULL, "with -T: where each value was written"},
	{'V', "version", NULL, "write the version and exit; twice: how this program was built"},
	{'h', "help", NULL, "write this help and exit"},
};

#define N_OPTIONS (sizeof(options) / sizeof(options[0]))

static int write_help(void)
{
	printf("Usage: laned [-c FILE] [-o KEY=VALUE]...\n"
	       "       laned -t [-q] [-c FILE] [-o KEY=VALUE]...\n"
	       "       laned -T [-c FILE] [-o KEY=VALUE]... [[-n] [-w] | KEY]\n"
	       "       laned -V | -VV | -h\n"
	       "\n"
	       "TCP echo daemon (RFC 862) with a choice of worker topologies.\n"
	       "\n");
	options_write_help(options, N_OPTIONS);
	printf("\nSee laned(8) and laned.conf(5).\n");
	return EX_OK;
}

static int write_build(void)
{
	printf("laned %s\n", PACKAGE_VERSION);
	printf("compiler: %s\n", BUILD_COMPILER);
	printf("configure: %s\n", BUILD_CONFIGURE_ARGS);
	printf("configuration file: %s\n", SYSCONFDIR "/laned/laned.conf");
	printf("built with: libconfig %s, libsystemd %s, jansson %s\n", BUILD_LIBCONFIG,
	       BUILD_LIBSYSTEMD, BUILD_JANSSON);
	printf("running with: %s, glibc %s,", malloc_version(), gnu_get_libc_version());
	libraries_write(stdout);
	printf("\n");
	printf("engines:");
	for (const struct engine_kind *const *kind = engine_kinds; *kind; kind++)
		printf(" %s", (*kind)->name);
	printf("\n");
	return EX_OK;
}

static int usage_error(void)
{
	fprintf(stderr, "Try 'laned --help'.\n");
	return EX_USAGE;
}

/* Two verbs at once are a mistake, but for -V, of which two are one. */
static bool choose_verb(struct command_line *line, enum verb verb)
{
	if (verb == VERB_VERSION && line->verb >= VERB_VERSION)
		verb = VERB_BUILD;
	else if (line->verb != VERB_RUN && line->verb != verb) {
		fprintf(stderr, "laned: only one of -t, -T, -V and -h can be given\n");
		return false;
	}
	line->verb = verb;
	return true;
}

/* Whether what only goes with something else does. */
static bool options_go_together(const struct command_line *line)
{
	bool dumps_all = line->verb == VERB_DUMP && !line->key;

	if (line->quiet && line->verb != VERB_CHECK) {
		fprintf(stderr, "laned: -q goes with -t\n");
		return false;
	}
	if (line->changed && !dumps_all) {
		fprintf(stderr, "laned: -n goes with -T, without a key\n");
		return false;
	}
	if (line->origin && !dumps_all) {
		fprintf(stderr, "laned: --origin goes with -T, without a key\n");
		return false;
	}
	return true;
}

/* Returns EX_OK or the exit status; the overrides are to be freed in any case. */
static int command_line_parse(int argc, char **argv, struct command_line *ret)
{
	struct getopt_tables tables = {0};
	bool good = true;
	int letter;

	ret->overrides = calloc((size_t)argc + 1, sizeof(*ret->overrides));
	if (!ret->overrides) {
		fprintf(stderr, "laned: %s\n", strerror(ENOMEM));
		return EX_OSERR;
	}
	ret->source.overrides = ret->overrides;
	options_for_getopt(options, N_OPTIONS, &tables);
	while (good &&
	       (letter = getopt_long(argc, argv, tables.letters, tables.longs, NULL)) != -1) {
		switch (letter) {
		case 'c':
			ret->source.path = optarg;
			break;
		case 'o':
			ret->overrides[ret->source.n_overrides++] = optarg;
			break;
		case 't':
			good = choose_verb(ret, VERB_CHECK);
			break;
		case 'T':
			good = choose_verb(ret, VERB_DUMP);
			break;
		case 'V':
			good = choose_verb(ret, VERB_VERSION);
			break;
		case 'h':
			good = choose_verb(ret, VERB_HELP);
			break;
		case 'q':
			ret->quiet = true;
			break;
		case 'n':
			ret->changed = true;
			break;
		case 'w':
			ret->origin = true;
			break;
		default: /* getopt has said what is wrong */
			return usage_error();
		}
	}
	if (good && ret->verb == VERB_DUMP && optind < argc)
		ret->key = argv[optind++];
	if (good && optind < argc) {
		fprintf(stderr, "laned: '%s': no argument is expected here\n", argv[optind]);
		good = false;
	}
	return good && options_go_together(ret) ? EX_OK : usage_error();
}

/* What is being spoken of; `settings` is NULL when they are wrong. */
static const char *configuration_name(const struct command_line *line,
				      const struct settings *settings)
{
	if (settings)
		return settings->file ? settings->file : "the built-in default";
	if (!line->source.path)
		return CONFIG_INSTALLED_FILE;
	return strcmp(line->source.path, "-") == 0 ? CONFIG_STDIN_NAME : line->source.path;
}

/* Loads and checks, the same for every verb. Returns 0 or an exit status; *ret is the caller's. */
static int configuration_load(const struct command_line *line, struct report *report,
			      struct settings **ret)
{
	struct host_limits host;
	int r = config_load(&line->source, report, ret);

	if (r == 0) {
		host_limits_read(&host);
		limits_check(*ret, &host, report);
	}
	report_summary(report, configuration_name(line, *ret));
	if (r == -ENOMEM)
		fprintf(stderr, "laned: cannot read the configuration: %s\n", strerror(ENOMEM));
	if (r == -EACCES || r == -EPERM)
		return EX_NOPERM;
	if (r == -ENOMEM)
		return EX_OSERR;
	return r < 0 || report->errors > 0 ? EX_CONFIG : EX_OK;
}

static int verb_dump(const struct command_line *line, const struct settings *settings,
		     struct report *report)
{
	if (line->key)
		return config_dump_key(settings, line->key, report, stdout) < 0 ? EX_USAGE : EX_OK;
	config_dump(settings,
		    (line->changed ? CONFIG_DUMP_CHANGED : 0U) |
			    (line->origin ? CONFIG_DUMP_ORIGIN : 0U),
		    stdout);
	return EX_OK;
}

static int verb_with_configuration(const struct command_line *line)
{
	struct report report = {.stream = stderr};
	struct settings *settings = NULL;
	int status = configuration_load(line, &report, &settings);

	if (status == EX_OK && line->verb == VERB_CHECK && !line->quiet)
		fprintf(stderr, "laned: %s: configuration ok\n",
			configuration_name(line, settings));
	if (status == EX_OK && line->verb == VERB_DUMP)
		status = verb_dump(line, settings, &report);
	report_fini(&report);
	if (status == EX_OK && line->verb == VERB_RUN) {
		log_open(settings->log_target, settings->log_level);
		status = master_run(settings, &line->source);
	}
	settings_free(settings);
	return status;
}

static int verb_do(const struct command_line *line)
{
	switch (line->verb) {
	case VERB_HELP:
		return write_help();
	case VERB_VERSION:
		printf("laned %s\n", PACKAGE_VERSION);
		return EX_OK;
	case VERB_BUILD:
		return write_build();
	default:
		return verb_with_configuration(line);
	}
}

/*
 * From the first instruction: no signal may end what has not begun to understand it. Those that
 * tell of a crash, whoever sends them, and the one of Control-Z stay as they are.
 */
static void signals_block(void)
{
	static const int left[] = {SIGABRT, SIGBUS, SIGFPE,  SIGILL,
				   SIGSEGV, SIGSYS, SIGTRAP, SIGTSTP};
	sigset_t blocked;

	/* What an ignored SIGCHLD, which exec hands down, does to its children is of no use. */
	(void)signal(SIGCHLD, SIG_DFL);
	sigfillset(&blocked);
	for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++)
		sigdelset(&blocked, left[i]);
	(void)sigprocmask(SIG_SETMASK, &blocked, NULL);
}

/* What does not serve ends as any program does. */
static void signals_unblock(void)
{
	sigset_t none;

	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

int main(int argc, char **argv)
{
	struct command_line line = {0};

	signals_block();

	int r = fd_fill_standard();

	if (r < 0) {
		fprintf(stderr, "laned: cannot open /dev/null: %s\n", strerror(-r));
		return EX_OSERR;
	}
	argv = title_init(argc, argv);

	int status = command_line_parse(argc, argv, &line);

	if (status == EX_OK && line.verb != VERB_RUN)
		signals_unblock();
	if (status == EX_OK)
		status = verb_do(&line);
	free(line.overrides);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		fprintf(stderr, "laned: cannot write to standard output: %s\n", strerror(errno));
		return EX_OSERR;
	}
	return status;
}
