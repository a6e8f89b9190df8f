/*
 * jemalloc. laned allocates little, and never on the data path, so its processes are to be small:
 * one arena, no thread that cleans up behind, hardly any cache, freed pages given back at once.
 */
#include "base/malloc.h"

#include <stdio.h>
#include <string.h>

#include <jemalloc/jemalloc.h>

/* Read by the library when it starts (jemalloc(3), TUNING). */
const char *malloc_conf =
	"narenas:1,background_thread:false,tcache_max:1024,dirty_decay_ms:0,muzzy_decay_ms:0";

const char *malloc_version(void)
{
	static char text[64];
	const char *version = "?";
	size_t size = sizeof(version);

	(void)mallctl("version", &version, &size, NULL, 0);

	/* "5.3.0-0-g54eaed1d8b56...": the commit says nothing to a user. */
	(void)snprintf(text, sizeof(text), "jemalloc %.*s", (int)strcspn(version, "-"), version);
	return text;
}
