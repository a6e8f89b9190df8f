#include "bench/figures.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

static int compare_latency(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

/* Numbers in names by their value: echo/10.0 comes after echo/9.0. */
static int compare_served(const void *left, const void *right)
{
	const struct figures_served *a = left, *b = right;

	if (!a->name || !b->name)
		return !a->name - !b->name;
	return strverscmp(a->name, b->name);
}

static int compare_failure(const void *left, const void *right)
{
	const struct figures_failure *a = left, *b = right;

	if (a->reason != b->reason)
		return a->reason < b->reason ? -1 : 1;
	if (a->error != b->error)
		return a->error < b->error ? -1 : 1;
	return (a->first > b->first) - (a->first < b->first);
}

/* Makes one of those that are the same, which stand side by side. Returns how many are left. */
static unsigned served_merge(struct figures_served *served, unsigned n)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < n; i++) {
		if (kept > 0 && compare_served(&served[kept - 1], &served[i]) == 0)
			served[kept - 1].count += served[i].count;
		else
			served[kept++] = served[i];
	}
	return kept;
}

static unsigned failures_merge(struct figures_failure *failures, unsigned n)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < n; i++) {
		struct figures_failure *last = kept > 0 ? &failures[kept - 1] : NULL;

		if (last && last->reason == failures[i].reason && last->error == failures[i].error)
			last->count += failures[i].count;
		else
			failures[kept++] = failures[i];
	}
	return kept;
}

static void add_answer(struct figures *figures, const struct burst_client *client)
{
	figures->latency_ns[figures->n_answered++] = client->latency_ns;
	if (client->latency_ns > 50 * NS_PER_MS)
		figures->n_over_50ms++;
	if (client->latency_ns > NS_PER_S)
		figures->n_over_1s++;
}

static void add_served(struct figures *figures, const struct burst_client *client)
{
	figures->served[figures->n_served++] = (struct figures_served){
		.name = client->tag_length > 0 ? client->tag : NULL,
		.count = 1,
	};
}

static void add_failure(struct figures *figures, const struct burst_client *client, unsigned index)
{
	figures->failures[figures->n_failures++] = (struct figures_failure){
		.reason = client->reason,
		.error = client->error,
		.count = 1,
		.first = index,
	};
	figures->n_failed++;
}

/* How long it took until a client had its answer, or none was to come any more. */
static uint64_t client_total_ns(const struct burst *burst, const struct burst_client *client)
{
	uint64_t end_ns = client->latency_ns > 0 ? client->start_ns + client->latency_ns
						 : client->end_ns;

	return end_ns > burst->start_ns ? end_ns - burst->start_ns : 0;
}

static void add_client(struct figures *figures, const struct burst *burst, unsigned index)
{
	const struct burst_client *client = &burst->clients[index];
	uint64_t total_ns = client_total_ns(burst, client);

	if (total_ns > figures->total_ns)
		figures->total_ns = total_ns;
	if (client->latency_ns > 0)
		add_answer(figures, client);
	if (client->reason == BURST_OK)
		add_served(figures, client);
	else
		add_failure(figures, client, index);
}

int figures_make(const struct burst *burst, struct figures *ret)
{
	*ret = (struct figures){
		.latency_ns = calloc(burst->n, sizeof(*ret->latency_ns)),
		.served = calloc(burst->n, sizeof(*ret->served)),
		.failures = calloc(burst->n, sizeof(*ret->failures)),
	};
	if (!ret->latency_ns || !ret->served || !ret->failures)
		return -ENOMEM;
	for (unsigned i = 0; i < burst->n; i++)
		add_client(ret, burst, i);

	qsort(ret->latency_ns, ret->n_answered, sizeof(*ret->latency_ns), compare_latency);
	qsort(ret->served, ret->n_served, sizeof(*ret->served), compare_served);
	qsort(ret->failures, ret->n_failures, sizeof(*ret->failures), compare_failure);
	ret->n_served = served_merge(ret->served, ret->n_served);
	ret->n_failures = failures_merge(ret->failures, ret->n_failures);
	return 0;
}

void figures_fini(struct figures *figures)
{
	free(figures->latency_ns);
	free(figures->served);
	free(figures->failures);
	*figures = (struct figures){0};
}

uint64_t figures_percentile(const struct figures *figures, unsigned percent)
{
	uint64_t n = figures->n_answered;
	uint64_t rank = (n * percent + 99) / 100; /* from 1 */

	if (rank < 1 || rank + FIGURES_BEYOND_MIN > n)
		return 0;
	return figures->latency_ns[rank - 1];
}
