#include "config/report.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/cleanup.h"

#define TEXT_MAX       512 /* of a finding */
#define LINE_MAX_SHOWN 160
#define INDENT         "        "

struct report_source {
	struct report_source *next;
	char *file;
	char *text;
	size_t length;
};

static void source_free(struct report_source *source)
{
	if (!source)
		return;
	free(source->file);
	free(source->text);
	free(source);
}

void report_fini(struct report *report)
{
	struct report_source *source = report->sources;

	while (source) {
		struct report_source *next = source->next;

		source_free(source);
		source = next;
	}
	report->sources = NULL;
}

int report_add_source(struct report *report, const char *file, const char *text, size_t length)
{
	struct report_source *source = calloc(1, sizeof(*source));

	if (!source)
		return -ENOMEM;
	source->file = strdup(file);
	source->text = malloc(length + 1);
	if (!source->file || !source->text) {
		source_free(source);
		return -ENOMEM;
	}
	memcpy(source->text, text, length);
	source->text[length] = '\0';
	source->length = length;
	source->next = report->sources;
	report->sources = source;
	return 0;
}

/* Writes `length` bytes so that they can neither move a terminal's cursor nor begin a line. */
static void print_clean(FILE *stream, const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c == '\t')
			c = ' ';
		fputc(c < ' ' || c == 0x7f ? '?' : c, stream);
	}
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* Writes a line of a file, indented; nothing if it is unknown or blank. */
static void print_line(const struct report *report, const struct origin *origin, unsigned number)
{
	const struct report_source *source = report->sources;

	while (source && strcmp(source->file, origin->file) != 0)
		source = source->next;
	if (!source || number == 0)
		return;

	const char *line = source->text;
	const char *end = source->text + source->length;

	for (; number > 1; number--) {
		line = memchr(line, '\n', (size_t)(end - line));
		if (!line)
			return;
		line++;
	}

	const char *line_end = memchr(line, '\n', (size_t)(end - line));

	if (!line_end)
		line_end = end;
	while (line < line_end && is_blank(*line))
		line++;
	while (line < line_end && is_blank(line_end[-1]))
		line_end--;
	if (line == line_end)
		return;

	size_t length = (size_t)(line_end - line);
	size_t shown = length <= LINE_MAX_SHOWN ? length : LINE_MAX_SHOWN;

	fputs(INDENT, report->stream);
	print_clean(report->stream, line, shown);
	fputs(shown < length ? "...\n" : "\n", report->stream);
}

static void print_hint(FILE *stream, const char *hint)
{
	while (*hint) {
		size_t length = strcspn(hint, "\n");

		fputs(INDENT, stream);
		print_clean(stream, hint, length);
		fputc('\n', stream);
		hint += length;
		if (*hint == '\n')
			hint++;
	}
}

/* The one place where a finding is counted and written, with the `n_lines` lines up to its own. */
__attribute__((format(printf, 6, 0))) static void add(struct report *report, enum report_kind kind,
						      const struct origin *origin, unsigned n_lines,
						      const char *hint, const char *format,
						      va_list args)
{
	FILE *stream = report->stream;
	char text[TEXT_MAX];

	if (kind == REPORT_ERROR)
		report->errors++;
	else
		report->warnings++;
	if (!stream)
		return;

	int length = vsnprintf(text, sizeof(text), format, args);

	if (origin && origin->file) {
		char place[REPORT_PLACE_MAX];

		report_place(origin, place);
		print_clean(stream, place, strlen(place));
		fputs(": ", stream);
	}
	fputs(kind == REPORT_ERROR ? "error: " : "warning: ", stream);
	print_clean(stream, text, strlen(text));
	fputs(length >= TEXT_MAX ? "...\n" : "\n", stream);
	if (origin && origin->file) {
		for (unsigned back = n_lines; back-- > 0;) {
			if (origin->line > back)
				print_line(report, origin, origin->line - back);
		}
	}
	if (hint)
		print_hint(stream, hint);
}

void report_add(struct report *report, enum report_kind kind, const struct origin *origin,
		const char *hint, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add(report, kind, origin, 1, hint, format, args);
	va_end(args);
}

void report_add_syntax(struct report *report, const struct origin *origin, const char *hint,
		       const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add(report, REPORT_ERROR, origin, 2, hint, format, args);
	va_end(args);
}

const char *report_place(const struct origin *origin, char text[static REPORT_PLACE_MAX])
{
	if (origin->file == origin_command_line)
		(void)snprintf(text, REPORT_PLACE_MAX, "%s", origin->file);
	else if (origin->file)
		(void)snprintf(text, REPORT_PLACE_MAX, "%s:%u", origin->file, origin->line);
	else
		(void)snprintf(text, REPORT_PLACE_MAX, "its default");
	return text;
}

void report_summary(const struct report *report, const char *file)
{
	FILE *stream = report->stream;
	const char *comma = report->errors > 0 && report->warnings > 0 ? ", " : "";

	if (!stream || (report->errors == 0 && report->warnings == 0))
		return;
	if (report->errors > 0)
		fprintf(stream, "%u error%s", report->errors, report->errors == 1 ? "" : "s");
	fputs(comma, stream);
	if (report->warnings > 0)
		fprintf(stream, "%u warning%s", report->warnings, report->warnings == 1 ? "" : "s");
	fputs(" in ", stream);
	print_clean(stream, file, strlen(file));
	fputc('\n', stream);
}
