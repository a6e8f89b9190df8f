/*
 * Overrides: keys that the command line sets, after all files.
 */
#ifndef LANED_CONFIG_OVERRIDE_H
#define LANED_CONFIG_OVERRIDE_H

#include "config/config.h"

/*
 * Sets what the overrides of the source say, in their order: "KEY=VALUE", the key as
 * config_dump_key() takes it, the value as in a file but without quotes; what is several has commas
 * between. What is wrong goes to the report. Returns 0 or -ENOMEM.
 */
int override_apply(const struct config_source *source, struct settings *settings,
		   struct report *report);

#endif
