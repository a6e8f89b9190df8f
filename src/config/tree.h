/*
 * The tree: from what libconfig has parsed to settings, key by key through the schema.
 */
#ifndef LANED_CONFIG_TREE_H
#define LANED_CONFIG_TREE_H

#include <libconfig.h>

#include "config/report.h"
#include "config/scan.h"
#include "config/schema.h"
#include "config/settings.h"

/*
 * Reads all of `root`, the tree of the scanned text, into settings that have their defaults, or the
 * values of earlier files: those of later ones take their places, and groups are added. What is wrong
 * goes to the report, and leaves the earlier value in place. Returns 0 or -ENOMEM.
 */
int tree_load(config_setting_t *root, const struct scan *scan, struct settings *settings,
	      struct report *report);

/*
 * Sets one key as a setting says that stands in no text, in place of what was there. Complaints as
 * with tree_load(), about `origin`. Not for SCHEMA_LIST. Returns 0 or -ENOMEM.
 */
int tree_set(const struct schema_key *key, void *base, const config_setting_t *setting,
	     const struct origin *origin, struct report *report);

#endif
