/*
 * The tree: from what libconfig has parsed to settings, key by key through the schema.
 */
#ifndef LANED_CONFIG_TREE_H
#define LANED_CONFIG_TREE_H

#include <libconfig.h>

#include "config/report.h"
#include "config/scan.h"
#include "config/settings.h"

/*
 * Reads all of `root`, the tree of the scanned text, into settings that have their defaults, or the
 * values of earlier files: those of later ones take their places, and groups are added. What is wrong
 * goes to the report, and leaves the earlier value in place. Returns 0 or -ENOMEM.
 */
int tree_load(config_setting_t *root, const struct scan *scan, struct settings *settings,
	      struct report *report);

#endif
