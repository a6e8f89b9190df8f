/*
 * The master: opens the listeners, starts the workers, replaces those that die, and ends last.
 *
 * It never touches a byte from a client.
 */
#ifndef LANED_MASTER_MASTER_H
#define LANED_MASTER_MASTER_H

#include "config/config.h"

/* Serves until told to stop, all signals blocked. Returns the exit status (sysexits.h). */
int master_run(struct settings *settings, const struct config_source *source);

#endif
