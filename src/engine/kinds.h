/*
 * The kinds of engine: private to this folder; engine.c lists them.
 */
#ifndef LANED_ENGINE_KINDS_H
#define LANED_ENGINE_KINDS_H

#include "engine/engine.h"

extern const struct engine_kind engine_epoll;

#endif
