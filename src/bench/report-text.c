#include <inttypes.h>
#include <string.h>

#include "base/units.h"
#include "bench/report.h"
#include "bench/trouble.h"

#define COLUMNS      79
#define LABEL_WIDTH  11
#define PER_ROW      10
#define NUMBER_WIDTH 7 /* of a latency in the list: PER_ROW of them and spaces between */
#define TIME_MAX     32
#define SHORT_BYTES  1024 /* a request that any network carries in one packet */

/* A paragraph that goes on in its own column, whatever was written before it in the line. */
struct paragraph {
	FILE *stream;
	int indent;
	int at; /* column */
};

static void paragraph_begin(struct paragraph *paragraph, FILE *stream, const char *label,
			    int indent)
{
	*paragraph = (struct paragraph){.stream = stream, .indent = indent, .at = indent};
	fprintf(stream, "%-*s", indent, label);
}

/* Writes what must not be torn apart: on the next line, if this one has no room. */
static void paragraph_add(struct paragraph *paragraph, const char *text, int length)
{
	bool first = paragraph->at == paragraph->indent;

	if (!first && paragraph->at + 1 + length > COLUMNS) {
		fprintf(paragraph->stream, "\n%*s", paragraph->indent, "");
		paragraph->at = paragraph->indent;
		first = true;
	}
	paragraph->at += fprintf(paragraph->stream, "%s%.*s", first ? "" : " ", length, text);
}

static void paragraph_add_words(struct paragraph *paragraph, const char *text)
{
	while (*text) {
		size_t length = strcspn(text, " ");

		paragraph_add(paragraph, text, (int)length);
		text += length;
		text += strspn(text, " ");
	}
}

static void paragraph_end(struct paragraph *paragraph)
{
	fputc('\n', paragraph->stream);
}

static const char *time_text(uint64_t ns, char text[static TIME_MAX])
{
	bool seconds = ns >= NS_PER_S;

	(void)snprintf(text, TIME_MAX, "%.3f %s", (double)ns / (seconds ? NS_PER_S : NS_PER_MS),
		       seconds ? "s" : "ms");
	return text;
}

static void write_head(const struct report_input *input, FILE *stream)
{
	const struct burst_options *options = input->options;

	fprintf(stream, "lanebench burst: %u connection%s to %s\n", options->connections,
		options->connections == 1 ? "" : "s", options->target.text);
	fprintf(stream, "all at once, one request of %zu byte%s each (closed loop)\n",
		options->request_bytes, options->request_bytes == 1 ? "" : "s");
}

/* As many digits as the longest number has room for. */
static int list_decimals(double max_ms)
{
	static const double limits[] = {999.9995, 9999.995, 99999.95};
	int decimals = 3;

	for (size_t i = 0; decimals > 0 && max_ms >= limits[i]; i++)
		decimals--;
	return decimals;
}

static void write_list(const struct figures *figures, FILE *stream)
{
	const unsigned n = figures->n_answered;
	const int decimals = list_decimals((double)figures->latency_ns[n - 1] / NS_PER_MS);

	fprintf(stream, "\nlatency of each, from connect() to its last byte back, in ms:\n");
	for (unsigned i = 0; i < n; i++)
		fprintf(stream, "%*.*f%c", NUMBER_WIDTH, decimals,
			(double)figures->latency_ns[i] / NS_PER_MS,
			i % PER_ROW == PER_ROW - 1 || i == n - 1 ? '\n' : ' ');
}

static void write_times(const struct report_input *input, FILE *stream)
{
	const struct burst *burst = input->burst;
	char total[TIME_MAX], opened[TIME_MAX];

	fprintf(stream, "%-*s%s; the last connect() was made after %s\n", LABEL_WIDTH, "total",
		time_text(input->figures->total_ns, total),
		time_text(burst->opened_ns - burst->start_ns, opened));
	fprintf(stream, "%-*s%u of %u\n", LABEL_WIDTH, "answered", input->figures->n_answered,
		burst->n);
}

/* Returns false if one of them means nothing. */
static bool write_percentiles(const struct figures *figures, FILE *stream)
{
	static const struct {
		unsigned percent;
		const char *name;
	} percentiles[] = {{50, "median"}, {90, "p90"}, {99, "p99"}};
	char text[TIME_MAX];
	bool all = true;

	fprintf(stream, "%-*s", LABEL_WIDTH, "latency");
	for (size_t i = 0; i < sizeof(percentiles) / sizeof(percentiles[0]); i++) {
		uint64_t ns = figures_percentile(figures, percentiles[i].percent);

		fprintf(stream, "%s %s, ", percentiles[i].name, ns > 0 ? time_text(ns, text) : "-");
		all = all && ns > 0;
	}
	fprintf(stream, "max %s\n", time_text(figures->latency_ns[figures->n_answered - 1], text));
	fprintf(stream, "%-*s%u over 50 ms, %u over 1 s\n", LABEL_WIDTH, "slow",
		figures->n_over_50ms, figures->n_over_1s);
	return all;
}

static void write_served(const struct figures *figures, FILE *stream)
{
	struct paragraph paragraph;
	char text[BURST_TAG_MAX + 32];

	/* Nobody says who: a server without tags. */
	if (figures->n_served == 0 || !figures->served[0].name)
		return;
	paragraph_begin(&paragraph, stream, "served by", LABEL_WIDTH);
	for (unsigned i = 0; i < figures->n_served; i++) {
		const struct figures_served *served = &figures->served[i];
		int length = snprintf(text, sizeof(text), "%s %u%s",
				      served->name ? served->name : "without a tag", served->count,
				      i + 1 < figures->n_served ? "," : "");

		paragraph_add(&paragraph, text, length);
	}
	paragraph_end(&paragraph);
}

static void write_hint(const char *text, FILE *stream)
{
	struct paragraph paragraph;

	paragraph_begin(&paragraph, stream, "", LABEL_WIDTH);
	paragraph_add_words(&paragraph, text);
	paragraph_end(&paragraph);
}

static void write_failure(const struct report_input *input, const struct figures_failure *failure,
			  FILE *stream)
{
	const size_t wanted = input->options->request_bytes;
	const size_t received = input->burst->clients[failure->first].received;
	const char *hint = trouble_hint(failure->reason, failure->error);
	char name[TROUBLE_NAME_MAX];

	fprintf(stream, "  %-*s%u: ", LABEL_WIDTH - 2, trouble_phase(failure->reason),
		failure->count);
	if (failure->error > 0)
		fprintf(stream, "%s, ", trouble_errno(failure->error, name));
	fprintf(stream, "%s\n", trouble_text(failure->reason, failure->error));
	if (failure->reason == BURST_MISMATCH || failure->reason == BURST_RECV_END)
		fprintf(stream, "%*sfirst: client %u, after %zu of %zu bytes\n", LABEL_WIDTH, "",
			failure->first, received, wanted);
	if (failure->reason == BURST_MISMATCH && wanted > SHORT_BYTES)
		write_hint("does the server tag each message (echo.tag)? Then a request must be "
			   "short (-s), so that it is one",
			   stream);
	if (hint)
		write_hint(hint, stream);
}

static void write_failures(const struct report_input *input, FILE *stream)
{
	const struct figures *figures = input->figures;
	const unsigned n_others = input->options->target.n_others;

	if (figures->n_failed == 0) {
		fprintf(stream, "%-*snone\n", LABEL_WIDTH, "errors");
		return;
	}
	fprintf(stream, "%-*s%u\n", LABEL_WIDTH, "errors", figures->n_failed);
	for (unsigned i = 0; i < figures->n_failures; i++)
		write_failure(input, &figures->failures[i], stream);
	if (n_others > 0 && figures->n_answered == 0)
		write_hint("the name has other addresses too, which were not tried: write the one "
			   "that is meant",
			   stream);
}

void report_write_text(const struct report_input *input, FILE *stream)
{
	const struct figures *figures = input->figures;
	bool all = true;

	write_head(input, stream);
	if (!input->quiet && figures->n_answered > 0)
		write_list(figures, stream);
	fputc('\n', stream);
	write_times(input, stream);
	if (figures->n_answered > 0)
		all = write_percentiles(figures, stream);
	write_served(figures, stream);
	write_failures(input, stream);
	if (!all)
		fprintf(stream, "\n-: fewer than %d clients lie beyond it, which says nothing\n",
			FIGURES_BEYOND_MIN);
}
