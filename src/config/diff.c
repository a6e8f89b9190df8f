#include "config/diff.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "config/config.h"
#include "config/schema.h"
static char *text_of(const struct group_settings *g)
{
	struct settings s = {.groups = (struct group_settings *)g, .n_groups = 1};
	struct report report = {.stream = stderr};
	const struct schema_key *key = NULL;
	char *text = NULL, path[200];
	size_t n;
	FILE *f = open_memstream(&text, &n);
	while ((key = schema_next(SCHEMA_GROUP, key))) {
		snprintf(path, sizeof(path), "groups.%s.%s", g->name, key->path);
		fprintf(f, "%s=", key->path);
		config_dump_key(&s, path, &report, f);
	}
	fclose(f);
	return text;
}
int diff_make(const struct settings *old, const struct settings *new, struct diff *ret) { (void)old; (void)new; *ret = (struct diff){0}; return 0; }
void diff_fini(struct diff *diff) { (void)diff; }
bool diff_groups_equal(const struct group_settings *a, const struct group_settings *b)
{
	char *x = text_of(a), *y = text_of(b);
	bool equal = strcmp(x, y) == 0;
	free(x); free(y);
	return equal;
}
int settings_keep(struct settings *next, const struct settings *running) { (void)next; (void)running; return 0; }
