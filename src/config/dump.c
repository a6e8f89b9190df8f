#include "config/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/complaint.h"
#include "config/schema.h"
#include "config/value.h"

struct dump {
	FILE *stream;
	unsigned what; /* enum config_dump, or-ed */
	bool on_one_line;
	unsigned depth; /* of braces */
};

static void begin_line(const struct dump *dump)
{
	for (unsigned i = 0; i < dump->depth && !dump->on_one_line; i++)
		fputc('\t', dump->stream);
}

static void end_line(const struct dump *dump, const char *text)
{
	fputs(text, dump->stream);
	fputc(dump->on_one_line ? ' ' : '\n', dump->stream);
}

/* Writes a string in quotes, as libconfig reads it. */
static void write_quoted(FILE *stream, const char *text)
{
	fputc('"', stream);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			fprintf(stream, "\\%c", c);
		else if (c < ' ' || c == 0x7f)
			fprintf(stream, "\\x%02x", c);
		else
			fputc(c, stream);
	}
	fputc('"', stream);
}

/* Writes a place that ends with its line, whatever the name of the file. */
static void write_place(FILE *stream, const struct origin *origin)
{
	char place[REPORT_PLACE_MAX];

	for (const char *c = report_place(origin, place); *c; c++)
		fputc((unsigned char)*c < ' ' || *c == 0x7f ? '?' : *c, stream);
}

/* Writes where something comes from, as a comment. `at`: a struct origin. */
static void write_origin(const struct dump *dump, const void *at)
{
	struct origin origin, before;

	if (!(dump->what & CONFIG_DUMP_ORIGIN))
		return;
	memcpy(&origin, at, sizeof(origin));
	before = (struct origin){.file = origin.overridden_file, .line = origin.overridden_line};
	fputs(" # ", dump->stream);
	if (origin.file)
		write_place(dump->stream, &origin);
	else
		fputs("default", dump->stream);
	if (before.file) {
		fputs(", overrides ", dump->stream);
		write_place(dump->stream, &before);
	}
}

static void dump_scope(struct dump *dump, enum schema_scope scope, const void *base);

/* What stands between the parentheses of a list. */
static void dump_entries(struct dump *dump, const struct schema_key *key, const void *base)
{
	const void *entry;

	for (size_t i = 0; (entry = value_item(key, base, i)); i++) {
		begin_line(dump);
		fputc('{', dump->stream);
		write_origin(dump, (const char *)entry + schema_entries[key->entry].origin_offset);
		end_line(dump, "");
		dump->depth++;
		dump_scope(dump, key->entry, entry);
		dump->depth--;
		begin_line(dump);
		end_line(dump, value_item(key, base, i + 1) ? "}," : "}");
	}
}

static void write_list(struct dump *dump, const struct schema_key *key, const void *base)
{
	end_line(dump, "(");
	dump->depth++;
	dump_entries(dump, key, base);
	dump->depth--;
	begin_line(dump);
	fputc(')', dump->stream);
}

static void write_listen(FILE *stream, const struct group_settings *group)
{
	for (size_t i = 0; i < group->n_listen; i++) {
		fputs(i > 0 ? ", " : "[ ", stream);
		write_quoted(stream, group->listen[i].address.text);
	}
	fputs(" ]", stream);
}

static void write_numbers(FILE *stream, const struct schema_key *key, const void *base)
{
	const unsigned *number;

	for (size_t i = 0; (number = value_item(key, base, i)); i++)
		fprintf(stream, "%s%u", i > 0 ? ", " : "[ ", *number);
	fputs(" ]", stream);
}

static void write_flags(FILE *stream, const struct schema_key *key, const void *base)
{
	const char *separator = "[ ";

	for (const struct schema_choice *choice = key->choices; choice->text; choice++) {
		if (!value_has_flag(key, base, choice->value))
			continue;
		fprintf(stream, "%s\"%s\"", separator, choice->text);
		separator = ", ";
	}
	fputs(" ]", stream);
}

/* Whether an integer needs an L. */
static bool is_wide(const struct schema_key *key, const char *text)
{
	return key->type == SCHEMA_INTEGER && strtoull(text, NULL, 10) > INT32_MAX;
}

/* Writes a value as it stands in a file. */
static void write_value(struct dump *dump, const struct schema_key *key, const void *base)
{
	char buffer[UNITS_TEXT_MAX];
	const char *text = value_text(key, base, buffer);

	if (key->type == SCHEMA_LISTEN)
		write_listen(dump->stream, base);
	else if (text && schema_is_quoted(key, text))
		write_quoted(dump->stream, text);
	else if (text)
		fprintf(dump->stream, "%s%s", text, is_wide(key, text) ? "L" : "");
	else if (key->type == SCHEMA_LIST)
		write_list(dump, key, base);
	else if (key->type == SCHEMA_NUMBERS)
		write_numbers(dump->stream, key, base);
	else
		write_flags(dump->stream, key, base);
}

/* Whether a key is written at all. */
static bool is_wanted(const struct dump *dump, const struct schema_key *key, const void *base)
{
	const struct settings *settings = base;

	if (key->optional)
		return !value_is(key, base, "0");
	if (!(dump->what & CONFIG_DUMP_CHANGED))
		return true;
	if (key->scope == SCHEMA_TOP && key->type == SCHEMA_LIST)
		return settings->n_groups != 1 || !value_is_builtin(settings->groups);
	return !key->default_text || !value_is(key, base, key->default_text);
}

static void dump_key(struct dump *dump, const struct schema_key *key, const void *base)
{
	const char *dot = strchr(key->path, '.');

	begin_line(dump);
	fprintf(dump->stream, "%s = ", dot ? dot + 1 : key->path);
	write_value(dump, key, base);
	fputc(';', dump->stream);
	/* The entries of a list say it each by itself. */
	if (key->type != SCHEMA_LIST || !value_item(key, base, 0))
		write_origin(dump, (const char *)base + key->origin_offset);
	end_line(dump, "");
}

/* All keys of a scope; those with the same "log." before their names stand in braces together. */
static void dump_scope(struct dump *dump, enum schema_scope scope, const void *base)
{
	const struct schema_key *key = NULL;
	const char *open = NULL; /* the path of the first key between the open braces */
	size_t open_length = 0;

	while ((key = schema_next(scope, key))) {
		const char *dot = strchr(key->path, '.');

		if (!is_wanted(dump, key, base))
			continue;
		if (open && strncmp(key->path, open, open_length) != 0) {
			dump->depth--;
			begin_line(dump);
			end_line(dump, "};");
			open = NULL;
		}
		if (!open && dot) {
			open = key->path;
			open_length = (size_t)(dot + 1 - key->path);
			begin_line(dump);
			fprintf(dump->stream, "%.*s = ", (int)open_length - 1, key->path);
			end_line(dump, "{");
			dump->depth++;
		}
		dump_key(dump, key, base);
	}
	if (open) {
		dump->depth--;
		begin_line(dump);
		end_line(dump, "};");
	}
}

void config_dump(const struct settings *settings, unsigned what, FILE *stream)
{
	struct dump dump = {.stream = stream, .what = what};

	dump_scope(&dump, SCHEMA_TOP, settings);
}

void config_dump_value(const struct schema_key *key, const void *base, FILE *stream)
{
	struct dump dump = {.stream = stream, .what = CONFIG_DUMP_CHANGED, .on_one_line = true};

	write_value(&dump, key, base);
}

void config_dump_group(const struct group_settings *group, FILE *stream)
{
	struct dump dump = {.stream = stream, .what = CONFIG_DUMP_CHANGED, .on_one_line = true};

	end_line(&dump, "{");
	dump_scope(&dump, SCHEMA_GROUP, group);
	fputc('}', stream);
}

int config_dump_key(const struct settings *settings, const char *path, struct report *report,
		    FILE *stream)
{
	const void *base;
	const struct schema_key *key = value_find(settings, path, &base);
	struct dump dump = {.stream = stream, .what = CONFIG_DUMP_ALL};
	const struct listen_setting *listen;
	char buffer[UNITS_TEXT_MAX];

	if (!key) {
		complaint_unknown_path(report, NULL, settings, path);
		return -ENOENT;
	}
	if (key->type == SCHEMA_LIST)
		dump_entries(&dump, key, base);
	else if (key->type == SCHEMA_LISTEN)
		for (size_t i = 0; (listen = value_item(key, base, i)); i++)
			fprintf(stream, "%s\n", listen->address.text);
	else
		fprintf(stream, "%s\n", value_text(key, base, buffer));
	return 0;
}
