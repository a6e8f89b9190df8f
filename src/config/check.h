/*
 * The checks that need more than one value, or the host's accounts.
 */
#ifndef LANED_CONFIG_CHECK_H
#define LANED_CONFIG_CHECK_H

#include "config/report.h"
#include "config/settings.h"

/*
 * Checks that names of groups are unique, that no two addresses take each other's clients, that
 * faults are allowed and have a duration where they need one, that the steps of supervision come in
 * their order, and that `user` exists. Fine with settings of which some values were refused. Returns 0 (whatever is wrong
 * is in the report), or -ENOMEM.
 */
int check_settings(const struct settings *settings, struct report *report);

#endif
