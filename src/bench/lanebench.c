/*
 * lanebench: clients that measure how long they wait. This file reads the command line and hands
 * over.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/fd.h"
#include "base/options.h"
#include "base/units.h"
#include "bench/burst.h"
#include "bench/figures.h"
#include "bench/report.h"
#include "bench/target.h"

#define CONNECTIONS_MAX   1000000
#define REQUEST_BYTES_MAX 65536
#define TIMEOUT_MIN_NS    NS_PER_MS
#define TIMEOUT_MAX_NS    (86400 * NS_PER_S)

#define EXIT_SOME_FAILED 1

struct command_line {
	int (*run)(const struct command_line *line); /* returns the exit status */
	const char *server;
	struct burst_options burst;
	bool json;
	bool quiet;
};

static int verb_burst(const struct command_line *line);

static const struct {
	const char *name;
	const char *help;
	int (*run)(const struct command_line *line);
} verbs[] = {
	{"burst", "many clients at once, one request each", verb_burst},
};

#define N_VERBS (sizeof(verbs) / sizeof(verbs[0]))

/* Short letter, long name, argument, what it does: the table that getopt and --help come from. */
static const struct option_row options[] = {
	{'n', "connections", "N", "so many clients (100)"},
	{'s', "size", "SIZE", "bytes of each client's request (16)"},
	{'t', "timeout", "TIME", "how long each client waits for all of it (60s)"},
	{'j', "json", NULL, "write one JSON object instead of text"},
	{'q', "quiet", NULL, "leave out what is said of each client"},
	{'V', "version", NULL, "write the version and exit"},
	{'h', "help", NULL, "write this help and exit"},
};

#define N_OPTIONS (sizeof(options) / sizeof(options[0]))

static int write_help(const struct command_line *line)
{
	(void)line;
	printf("Usage: lanebench VERB [OPTIONS] HOST:PORT\n"
	       "       lanebench -V | -h\n"
	       "\n"
	       "Measures how long clients of an echo server wait, and checks every byte.\n"
	       "\n"
	       "Verbs:\n");
	for (size_t i = 0; i < N_VERBS; i++)
		printf("  %-22s  %s\n", verbs[i].name, verbs[i].help);
	printf("\nOptions:\n");
	options_write_help(options, N_OPTIONS);
	printf("\nSee lanebench(1).\n");
	return EX_OK;
}

static int write_version(const struct command_line *line)
{
	(void)line;
	printf("lanebench %s\n", PACKAGE_VERSION);
	return EX_OK;
}

static int usage_error(void)
{
	fprintf(stderr, "Try 'lanebench --help'.\n");
	return EX_USAGE;
}

static bool complain(char letter, const char *text, const char *wanted)
{
	fprintf(stderr, "lanebench: -%c: '%s' is not %s\n", letter, text, wanted);
	return false;
}

static bool read_connections(const char *text, unsigned *ret)
{
	uint64_t value = 0;

	/* A size without a unit is a number. */
	if (text[strspn(text, "0123456789")] != '\0' || units_parse_size(text, &value) < 0 ||
	    value < 1 || value > CONNECTIONS_MAX)
		return complain('n', text, "a number from 1 to 1000000");
	*ret = (unsigned)value;
	return true;
}

static bool read_size(const char *text, size_t *ret)
{
	uint64_t value;

	if (units_parse_size(text, &value) < 0 || value < 1 || value > REQUEST_BYTES_MAX)
		return complain('s', text, "a size from 1 to 64KiB");
	*ret = (size_t)value;
	return true;
}

static bool read_timeout(const char *text, uint64_t *ret_ns)
{
	uint64_t value;

	if (units_parse_time(text, &value) < 0 || value < TIMEOUT_MIN_NS || value > TIMEOUT_MAX_NS)
		return complain('t', text, "a time from 1ms to 1d, with its unit");
	*ret_ns = value;
	return true;
}

static bool option_take(struct command_line *line, int letter, const char *argument)
{
	switch (letter) {
	case 'n':
		return read_connections(argument, &line->burst.connections);
	case 's':
		return read_size(argument, &line->burst.request_bytes);
	case 't':
		return read_timeout(argument, &line->burst.timeout_ns);
	case 'j':
		line->json = true;
		return true;
	case 'q':
		line->quiet = true;
		return true;
	case 'V':
		line->run = write_version;
		return true;
	case 'h':
		line->run = write_help;
		return true;
	default: /* getopt has said what is wrong */
		return false;
	}
}

/* What is left when the options are gone: a verb and its argument. */
static bool words_take(struct command_line *line, int n, char **words)
{
	size_t i = 0;

	if (n == 0) {
		fprintf(stderr, "lanebench: a verb is missing\n");
		return false;
	}
	while (i < N_VERBS && strcmp(words[0], verbs[i].name) != 0)
		i++;
	if (i == N_VERBS) {
		fprintf(stderr, "lanebench: '%s': no such verb\n", words[0]);
		return false;
	}
	if (n != 2) {
		fprintf(stderr, "lanebench: %s takes one argument, HOST:PORT\n", verbs[i].name);
		return false;
	}
	line->run = verbs[i].run;
	line->server = words[1];
	return true;
}

/* Returns EX_OK or EX_USAGE. */
static int command_line_parse(int argc, char **argv, struct command_line *ret)
{
	struct getopt_tables tables = {0};
	bool good = true;
	int letter;

	options_for_getopt(options, N_OPTIONS, &tables);
	while (good && (letter = getopt_long(argc, argv, tables.letters, tables.longs, NULL)) != -1)
		good = option_take(ret, letter, optarg);
	if (good && !ret->run)
		good = words_take(ret, argc - optind, argv + optind);
	return good ? EX_OK : usage_error();
}

static int os_error(const char *what, int error)
{
	fprintf(stderr, "lanebench: %s: %s\n", what, strerror(error));
	return EX_OSERR;
}

static int burst_report(const struct command_line *line, const struct burst_options *burst_options,
			const struct burst *burst)
{
	struct figures figures;
	struct report_input input = {
		.options = burst_options,
		.burst = burst,
		.figures = &figures,
		.quiet = line->quiet,
	};
	int r = figures_make(burst, &figures);
	bool all = figures.n_failed == 0;

	if (r == 0 && line->json)
		r = report_write_json(&input, stdout);
	else if (r == 0)
		report_write_text(&input, stdout);
	figures_fini(&figures);
	if (r < 0)
		return os_error("cannot report", -r);
	return all ? EX_OK : EXIT_SOME_FAILED;
}

static int verb_burst(const struct command_line *line)
{
	struct burst_options burst_options = line->burst;
	struct burst burst;
	const char *problem = NULL;
	int r = target_find(line->server, &burst_options.target, &problem);
	int status;

	if (r < 0 && problem) {
		fprintf(stderr, "lanebench: '%s': %s\n", line->server, problem);
		return r == -EINVAL ? usage_error() : EX_NOHOST;
	}
	if (r < 0)
		return os_error(line->server, -r);

	fd_raise_limit(); /* as many clients as this process may have */
	r = burst_run(&burst_options, &burst);
	status = r < 0 ? os_error("cannot make the clients", -r)
		       : burst_report(line, &burst_options, &burst);
	burst_fini(&burst);
	return status;
}

int main(int argc, char **argv)
{
	struct command_line line = {
		.burst = {.connections = 100, .request_bytes = 16, .timeout_ns = 60 * NS_PER_S},
	};
	int r = fd_fill_standard();

	if (r < 0)
		return os_error("/dev/null", -r);

	int status = command_line_parse(argc, argv, &line);

	if (status == EX_OK)
		status = line.run(&line);
	if (fflush(stdout) != 0 || ferror(stdout))
		return os_error("cannot write to standard output", errno);
	return status;
}
