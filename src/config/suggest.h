/*
 * "Did you mean": the word that was most likely meant, of those that are offered.
 */
#ifndef LANED_CONFIG_SUGGEST_H
#define LANED_CONFIG_SUGGEST_H

#include <stddef.h>

struct suggest {
	const char *word;       /* as it was written */
	const char *best;       /* NULL: nothing is close */
	size_t best_length;     /* `best` need not end there */
	unsigned best_distance; /* 0 to 2 */
};

/* Offers a candidate, which must live as long as `best` is looked at. The first of equals stays. */
void suggest_offer(struct suggest *suggest, const char *candidate, size_t length);

/*
 * Letters to insert, remove, replace or swap with their neighbour to make `a` of `b`; anything
 * beyond 2 counts as 3. Lengths in bytes.
 */
unsigned suggest_distance(const char *a, size_t a_length, const char *b, size_t b_length);

#endif
