/*
 * The kinds of topology: private to this folder; topology.c lists them.
 */
#ifndef LANED_TOPOLOGY_KINDS_H
#define LANED_TOPOLOGY_KINDS_H

#include "topology/topology.h"

extern const struct topology topology_shared_listener;
extern const struct topology topology_reuseport;
extern const struct topology topology_reuseport_standby;

#endif
