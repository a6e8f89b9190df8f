#include "config/scan.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "config/input.h"
#include "config/number.h"

#define DEPTH_MAX    10 /* includes within each other, as libconfig has it */
#define SHOWN_MAX    64 /* bytes of a token in a message */
#define REFUSED_TEXT "-9223372036854775808L"

#define DIGITS  "0123456789"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

enum token {
	TOKEN_OTHER,
	TOKEN_STRING,
	TOKEN_COMMA,
};

/* Where the scan is in one file. */
struct place {
	const char *file;
	const char *p; /* ends with a NUL, the only one */
	unsigned line;
	bool line_start; /* nothing but blanks since the last line break */
	unsigned depth;
};

/* Makes room for one more item after `n` in an array that grows by doubling. */
static void *grow(struct scan *scan, void *items, size_t n, size_t item_size)
{
	void *larger;

	if ((n & (n - 1)) != 0)
		return items;
	larger = realloc(items, (n > 0 ? n * 2 : 1) * item_size);
	if (!larger) {
		scan->error = -ENOMEM;
		return items;
	}
	return larger;
}

static void append(struct scan *scan, const char *bytes, size_t length)
{
	if (scan->size - scan->length <= length) {
		size_t size = (scan->size + length + 64) * 2;
		char *larger = realloc(scan->text, size);

		if (!larger) {
			scan->error = -ENOMEM;
			return;
		}
		scan->text = larger;
		scan->size = size;
	}
	for (size_t i = 0; i < length; i++) {
		scan->text[scan->length++] = bytes[i];
		scan->line += bytes[i] == '\n';
	}
	scan->text[scan->length] = '\0';
}

static void append_text(struct scan *scan, const char *text)
{
	append(scan, text, strlen(text));
}

static void add_segment(struct scan *scan, const struct place *place)
{
	scan->segments = grow(scan, scan->segments, scan->n_segments, sizeof(*scan->segments));
	if (scan->error < 0)
		return;
	scan->segments[scan->n_segments++] = (struct scan_segment){
		.text_line = scan->line,
		.file = place->file,
		.file_line = place->line,
	};
}

static void add_string(struct scan *scan)
{
	scan->strings = grow(scan, scan->strings, scan->n_strings, sizeof(*scan->strings));
	if (scan->error == 0)
		scan->strings[scan->n_strings++] = scan->line;
}

/* Returns the scan's own copy of the name, NULL without memory. */
static const char *add_file(struct scan *scan, const char *file, const char *text, size_t length)
{
	char *copy = NULL;

	scan->files = grow(scan, scan->files, scan->n_files, sizeof(*scan->files));
	if (scan->error < 0)
		return NULL;
	copy = strdup(file);
	if (!copy) {
		scan->error = -ENOMEM;
		return NULL;
	}
	scan->files[scan->n_files++] = copy;
	scan->n_read += length;
	if (report_add_source(scan->report, file, text, length) < 0) {
		scan->error = -ENOMEM;
		return NULL;
	}
	return copy;
}

static void skip(struct place *place, size_t length)
{
	for (; length > 0; length--, place->p++) {
		if (*place->p == '\n') {
			place->line++;
			place->line_start = true;
		} else if (*place->p != ' ' && *place->p != '\t') {
			place->line_start = false;
		}
	}
}

static void pass(struct scan *scan, struct place *place, size_t length)
{
	append(scan, place->p, length);
	skip(place, length);
}

static bool starts_with(const struct place *place, const char *text)
{
	return strncmp(place->p, text, strlen(text)) == 0;
}

static bool in(char c, const char *set)
{
	return c != '\0' && strchr(set, c);
}

static void refuse(struct scan *scan, const struct place *place, const char *hint, const char *text)
{
	struct origin origin = {.file = place->file, .line = place->line};

	report_add(scan->report, REPORT_ERROR, &origin, hint, "%s", text);
}

/* Nothing behind this can be told from what it seems to be. */
static void give_up(struct scan *scan, struct place *place)
{
	scan->broken = true;
	place->p += strlen(place->p);
}

static void scan_comment(struct scan *scan, struct place *place)
{
	const char *end;

	if (!starts_with(place, "/*")) {
		pass(scan, place, strcspn(place->p, "\n"));
		return;
	}
	end = strstr(place->p + 2, "*/");
	if (end) {
		pass(scan, place, (size_t)(end + 2 - place->p));
		return;
	}
	refuse(scan, place, "write */ where it ends", "the comment that begins here never ends");
	give_up(scan, place);
}

/* The length of the string at p with both quotes; 0: it does not end on its line. */
static size_t string_length(const char *p)
{
	const char *begin = p++;

	for (; *p && *p != '\n'; p++) {
		if (*p == '"')
			return (size_t)(p + 1 - begin);
		if (*p == '\\' && in(p[1], "\"\\"))
			p++;
	}
	return 0;
}

/* Whether a string holds "\x00", which libconfig drops or ends the string at. */
static bool holds_nul(const char *string, size_t length)
{
	for (size_t i = 0; i + 4 <= length; i++) {
		if (string[i] != '\\')
			continue;
		if (in(string[i + 1], "xX") && string[i + 2] == '0' && string[i + 3] == '0')
			return true;
		if (in(string[i + 1], "\"\\"))
			i++;
	}
	return false;
}

static void scan_string(struct scan *scan, struct place *place)
{
	size_t length = string_length(place->p);

	if (length == 0) {
		refuse(scan, place, "close it with a \" on the same line",
		       "the string that begins on this line does not end on it");
		give_up(scan, place);
		return;
	}
	if (holds_nul(place->p, length))
		refuse(scan, place, NULL, "a string cannot hold a NUL");
	if (scan->last_token != TOKEN_STRING)
		add_string(scan);
	scan->last_token = TOKEN_STRING;
	pass(scan, place, length);
}

/*
 * Reports the `length` bytes at the place, and puts the mark for a refused value in their stead.
 * The hint, if `before` is not NULL, is to write them between `before` and `after`.
 */
static void refuse_number(struct scan *scan, struct place *place, size_t length, const char *what,
			  const char *before, const char *after)
{
	int shown = length <= SHOWN_MAX ? (int)length : SHOWN_MAX;
	char text[SHOWN_MAX + 64];
	char hint[SHOWN_MAX + 64];

	snprintf(text, sizeof(text), "%.*s%s %s", shown, place->p, length > SHOWN_MAX ? "..." : "",
		 what);
	if (before)
		snprintf(hint, sizeof(hint), "write %s%.*s%s", before, shown, place->p, after);
	refuse(scan, place, before && length <= SHOWN_MAX ? hint : NULL, text);
	append_text(scan, REFUSED_TEXT);
	skip(place, length);
}

static bool scan_number(struct scan *scan, struct place *place)
{
	struct number number = number_read(place->p);
	const char *rest = place->p + number.length;

	if (number.length == 0)
		return false;
	scan->last_token = TOKEN_OTHER;
	if (in(*rest, LETTERS "_*.")) {
		size_t length = number.length + strspn(rest, LETTERS DIGITS "_*.:+-");

		refuse_number(scan, place, length, "is not a number", "\"", "\"");
	} else if (!number.integer || !number_is_too_large(&number)) {
		pass(scan, place, number.length);
	} else if (number.wide || number.value > INT64_MAX) {
		refuse_number(scan, place, number.length, "does not fit into 64 bits", NULL, NULL);
	} else {
		refuse_number(scan, place, number.length,
			      "does not fit into the 32 bits of an integer without L", "", "L");
	}
	return true;
}

static void scan_text(struct scan *scan, struct place *place);

/* Makes a file part of the text, from its first line to its last. */
static void scan_file(struct scan *scan, const char *file, const char *text, size_t length,
		      unsigned depth)
{
	struct place place = {
		.p = text,
		.line = 1,
		.line_start = true,
		.depth = depth,
	};
	const char *nul = memchr(text, '\0', length);

	place.file = add_file(scan, file, text, length);
	if (!place.file)
		return;
	add_segment(scan, &place);
	if (nul) {
		skip(&place, (size_t)(nul - text));
		refuse(scan, &place, "is it a text file?", "there is a NUL on this line");
		scan->broken = true;
		return;
	}
	if (starts_with(&place, "\xef\xbb\xbf")) {
		refuse(scan, &place, "save it as UTF-8 without BOM",
		       "the file begins with a byte order mark");
		place.p += 3;
	}
	scan_text(scan, &place);
	if (length > 0 && text[length - 1] != '\n')
		append_text(scan, "\n");
}

/* Writes the path of an included file: relative to the folder of the file that includes it. */
static int include_path(const struct place *place, const char *name, char **ret)
{
	const char *slash = strrchr(place->file, '/');
	int folder = slash && *name != '/' ? (int)(slash + 1 - place->file) : 0;

	return asprintf(ret, "%.*s%s", folder, place->file, name) < 0 ? -ENOMEM : 0;
}

static void include(struct scan *scan, struct place *place, const char *name)
{
	struct origin origin = {.file = place->file, .line = place->line};
	_cleanup_(freep) char *path = NULL;
	_cleanup_(freep) char *hint = NULL;
	_cleanup_(freep) char *text = NULL;
	size_t length;
	int r;

	if (place->depth == DEPTH_MAX || scan->n_before + scan->n_files >= SCAN_FILES_MAX) {
		refuse(scan, place, "does a file include itself?",
		       place->depth == DEPTH_MAX ? "more than 10 files include each other"
						 : "a configuration has at most 100 files");
		scan->broken = true;
		return;
	}
	if (include_path(place, name, &path) < 0) {
		path = NULL;
		scan->error = -ENOMEM;
		return;
	}
	r = input_read(path, INPUT_MAX - scan->n_read, &text, &length);
	if (r == -ENOMEM) {
		scan->error = r;
		return;
	}
	if (r < 0) {
		if (asprintf(
			    &hint,
			    "looked for %s; names are relative to the folder of the file they stand in",
			    path) < 0) {
			hint = NULL;
			scan->error = -ENOMEM;
			return;
		}
		report_add(scan->report, REPORT_ERROR, &origin, hint,
			   "cannot read the included file \"%s\": %s", name, input_problem(r));
		scan->broken = true;
		return;
	}
	append_text(scan, "\n");
	scan_file(scan, path, text, length, place->depth + 1);
	add_segment(scan, place);
}

/*
 * At an "@": the one thing that it may begin is an include, which libconfig knows at the start of a
 * line alone.
 */
static void scan_include(struct scan *scan, struct place *place)
{
	const char *p = place->p;
	_cleanup_(freep) char *name = NULL;
	size_t blanks = 0;
	size_t length = 0;
	char *out;

	if (place->line_start && starts_with(place, "@include")) {
		p += strlen("@include");
		blanks = strspn(p, " \t");
	}
	p += blanks;
	if (blanks > 0 && *p == '"')
		length = string_length(p);
	if (length == 0) {
		refuse(scan, place, "write @include \"FILE\" alone on a line",
		       "\"@\" does not begin an include");
		scan->broken = true;
		skip(place, strcspn(place->p, "\n"));
		return;
	}

	name = malloc(length);
	if (!name) {
		scan->error = -ENOMEM;
		return;
	}
	out = name;
	for (const char *in_name = p + 1; in_name < p + length - 1; in_name++) {
		if (*in_name == '\\' && in(in_name[1], "\"\\"))
			in_name++;
		*out++ = *in_name;
	}
	*out = '\0';
	skip(place, (size_t)(p + length - place->p));
	include(scan, place, name);
}

/* A name; with a dot in it somebody has written a key as the manual names it. */
static void scan_name(struct scan *scan, struct place *place)
{
	size_t length = strspn(place->p, LETTERS DIGITS "_*-");
	size_t dotted = strspn(place->p, LETTERS DIGITS "_*-.");
	char text[SHOWN_MAX + 64];
	char hint[2 * SHOWN_MAX + 64];

	scan->last_token = TOKEN_OTHER;
	if (place->p[length] == '.' && dotted > length + 1 && dotted <= SHOWN_MAX) {
		snprintf(text, sizeof(text), "\"%.*s\" is written with braces, not with a dot",
			 (int)dotted, place->p);
		snprintf(hint, sizeof(hint), "write %.*s = { %.*s = ...; };", (int)length, place->p,
			 (int)(dotted - length - 1), place->p + length + 1);
		refuse(scan, place, hint, text);
		scan->broken = true;
		length = dotted;
	}
	pass(scan, place, length);
}

/* A character that is a token, or none at all. */
static void scan_character(struct scan *scan, struct place *place)
{
	char c = *place->p;

	/* libconfig takes a comma behind the last value since 1.7 only. */
	if (in(c, "])") && scan->last_token == TOKEN_COMMA) {
		refuse(scan, place, "leave out the comma before it",
		       "a comma must be followed by a value");
		scan->text[scan->comma] = ' ';
	}
	if (c == ',')
		scan->comma = scan->length;
	if (!in(c, " \t\r\n\f"))
		scan->last_token = c == ',' ? TOKEN_COMMA : TOKEN_OTHER;
	pass(scan, place, 1);
}

static void scan_text(struct scan *scan, struct place *place)
{
	while (*place->p && scan->error == 0) {
		char c = *place->p;

		if (c == '#' || starts_with(place, "//") || starts_with(place, "/*")) {
			scan_comment(scan, place);
		} else if (c == '"') {
			scan_string(scan, place);
		} else if (c == '@') {
			scan_include(scan, place);
		} else if (in(c, LETTERS "*")) {
			scan_name(scan, place);
		} else if (!in(c, DIGITS "+-.") || !scan_number(scan, place)) {
			scan_character(scan, place);
		}
	}
}

int scan_run(struct scan *scan, const char *file, const char *text, size_t length,
	     struct report *report)
{
	scan->report = report;
	scan->line = 1;
	append_text(scan, "");
	scan_file(scan, file, text, length, 0);
	return scan->error;
}

void scan_fini(struct scan *scan)
{
	for (size_t i = 0; i < scan->n_files; i++)
		free(scan->files[i]);
	free(scan->files);
	free(scan->strings);
	free(scan->segments);
	free(scan->text);
	*scan = (struct scan){.text = NULL};
}

struct origin scan_origin(const struct scan *scan, unsigned line)
{
	size_t i = scan->n_segments;

	while (i > 0 && scan->segments[--i].text_line > line)
		;
	if (scan->n_segments == 0)
		return (struct origin){.file = NULL};
	return (struct origin){
		.file = scan->segments[i].file,
		.line = scan->segments[i].file_line + (line - scan->segments[i].text_line),
	};
}
