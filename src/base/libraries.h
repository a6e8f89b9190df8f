/*
 * The shared libraries that this process runs with, which need not be those it was built with.
 */
#ifndef LANED_BASE_LIBRARIES_H
#define LANED_BASE_LIBRARIES_H

#include <stdio.h>

/* Writes the file names of all that are loaded, versions included: " libconfig.so.9.2.0 ...". */
void libraries_write(FILE *stream);

#endif
