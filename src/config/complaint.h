/*
 * Complaints: how a finding about a key is worded, and what is proposed instead.
 */
#ifndef LANED_CONFIG_COMPLAINT_H
#define LANED_CONFIG_COMPLAINT_H

#include <libconfig.h>

#include "config/report.h"
#include "config/schema.h"

/* The value has another type than the key: "echo.tag: expected bool, got integer". */
void complaint_type(struct report *report, const struct origin *origin,
		    const struct schema_key *key, const config_setting_t *setting);

/* The name stands for a group of keys, and the value is none. `path`: "log". */
void complaint_no_group(struct report *report, const struct origin *origin, const char *path,
			const config_setting_t *setting);

/*
 * The value was refused with that error: -EINVAL (another type, or text that does not read as one
 * of the type), -ERANGE ("backlog must be 1 to ..., not 0"), -EEXIST (it is there twice).
 */
void complaint_value(struct report *report, const struct origin *origin,
		     const struct schema_key *key, const config_setting_t *setting, int error);

/* There is nothing between the brackets of a key that needs something there. */
void complaint_empty(struct report *report, const struct origin *origin,
		     const struct schema_key *key);

/* An entry of a list is without a key that it must have. `origin`: of the entry. */
void complaint_missing(struct report *report, const struct origin *origin,
		       const struct schema_key *key);

/* There is no such key at that place. `prefix`: "", "log." */
void complaint_unknown(struct report *report, const struct origin *origin, enum schema_scope scope,
		       const char *prefix, const char *name);

/*
 * As complaint_unknown(), for a path that stands in no file (`origin` NULL: it was asked for): "log.levl",
 * "groups.echo.bcklog".
 */
void complaint_unknown_path(struct report *report, const struct origin *origin,
			    const struct settings *settings, const char *path);

#endif
