/*
 * What ps(1) and top(1) show of a process.
 */
#ifndef LANED_BASE_TITLE_H
#define LANED_BASE_TITLE_H

/*
 * Remembers where the kernel keeps the command line, and moves arguments and environment out of its
 * way. Once, first thing in main(), while there is one thread. Returns the arguments, which live as
 * long as the process. If memory is short they stay where they are, and so do titles.
 */
char **title_init(int argc, char **argv);

/*
 * Sets comm (15 bytes are kept) and command line of this process, which is cut to the room that
 * arguments and environment took at the start.
 */
void title_set(const char *comm, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
