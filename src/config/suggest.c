#include "config/suggest.h"

#include <string.h>

#define WORD_MAX 64 /* bytes; what is longer resembles no key */
#define FAR      3

static unsigned min(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

unsigned suggest_distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
	/* Rows of the distances between the beginnings of both, of which three are ever needed. */
	unsigned rows[3][WORD_MAX + 1];

	if (a_length > WORD_MAX || b_length > WORD_MAX || a_length >= b_length + FAR ||
	    b_length >= a_length + FAR)
		return FAR;

	for (unsigned j = 0; j <= b_length; j++)
		rows[0][j] = j;
	for (unsigned i = 1; i <= a_length; i++) {
		const unsigned *before = rows[(i + 1) % 3];
		const unsigned *above = rows[(i - 1) % 3];
		unsigned *row = rows[i % 3];

		row[0] = i;
		for (unsigned j = 1; j <= b_length; j++) {
			row[j] = min(above[j], row[j - 1]) + 1;
			row[j] = min(row[j], above[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = min(row[j], before[j - 2] + 1);
		}
	}
	return min(rows[a_length % 3][b_length], FAR);
}

void suggest_offer(struct suggest *suggest, const char *candidate, size_t length)
{
	size_t word_length = strlen(suggest->word);
	unsigned distance = suggest_distance(suggest->word, word_length, candidate, length);

	/* A word of which less than half is left was not meant. */
	if (distance >= FAR || 2 * distance > word_length + 1)
		return;
	if (suggest->best && suggest->best_distance <= distance)
		return;
	suggest->best = candidate;
	suggest->best_length = length;
	suggest->best_distance = distance;
}
