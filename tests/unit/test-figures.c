/*
 * What the clients of a burst come to: percentiles only where they mean something, who served, what
 * failed.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/units.h"
#include "bench/figures.h"

#define CLIENTS_MAX 1000
#define START_NS    (5 * NS_PER_S)

static struct burst_client clients[CLIENTS_MAX];

/* A burst of clients that all start at START_NS and that nothing has become of yet. */
static struct burst fresh(unsigned n)
{
	memset(clients, 0, sizeof(clients));
	for (unsigned i = 0; i < n; i++) {
		clients[i].fd = -1;
		clients[i].start_ns = START_NS;
	}
	return (struct burst){.clients = clients, .n = n, .start_ns = START_NS};
}

static void answered(unsigned index, uint64_t latency_ns, const char *name)
{
	clients[index].latency_ns = latency_ns;
	clients[index].end_ns = START_NS + latency_ns + NS_PER_MS;
	clients[index].tag_length = strlen(name);
	(void)snprintf(clients[index].tag, sizeof(clients[index].tag), "%s", name);
}

static void went_wrong(unsigned index, enum burst_reason reason, int error, uint64_t after_ns)
{
	clients[index].reason = reason;
	clients[index].error = error;
	clients[index].end_ns = START_NS + after_ns;
}

static void test_percentiles(void **state)
{
	static const struct {
		unsigned n; /* latencies of 1, 2, ... n ms */
		unsigned percent;
		unsigned wanted_ms; /* 0: it means nothing */
	} cases[] = {
		{1, 50, 0},   {10, 50, 0},     {19, 50, 0},     {20, 50, 10}, {21, 50, 11},
		{99, 90, 0},  {100, 50, 50},   {100, 90, 90},   {100, 99, 0}, {101, 90, 91},
		{999, 99, 0}, {1000, 99, 990}, {1000, 50, 500}, {1000, 0, 0}, {1000, 100, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		unsigned n = cases[i].n;
		struct burst burst = fresh(n);
		struct figures figures;

		print_message("# p%u of %u\n", cases[i].percent, n);
		/* 7 and no n have a common divisor: all of them, in no order. */
		for (unsigned k = 0; k < n; k++)
			answered(k, (n % 7 == 0 ? k + 1 : k * 7 % n + 1) * NS_PER_MS, "");
		assert_int_equal(figures_make(&burst, &figures), 0);
		assert_int_equal(figures.n_answered, n);
		assert_int_equal(figures_percentile(&figures, cases[i].percent),
				 cases[i].wanted_ms * NS_PER_MS);
		assert_int_equal(figures.latency_ns[0], NS_PER_MS);
		assert_int_equal(figures.latency_ns[n - 1], n * NS_PER_MS);
		figures_fini(&figures);
	}
}

static void test_slow_ones(void **state)
{
	struct burst burst = fresh(5);
	struct figures figures;

	(void)state;
	answered(0, 50 * NS_PER_MS, "");
	answered(1, 50 * NS_PER_MS + 1, "");
	answered(2, NS_PER_S, "");
	answered(3, NS_PER_S + 1, "");
	answered(4, 1, "");
	assert_int_equal(figures_make(&burst, &figures), 0);
	assert_int_equal(figures.n_over_50ms, 3);
	assert_int_equal(figures.n_over_1s, 1);
	/* To the last answer: what a client then waits for is not in it. */
	assert_int_equal(figures.total_ns, NS_PER_S + 1);
	figures_fini(&figures);
}

static void test_who_served(void **state)
{
	static const char *const names[] = {"echo/10.0", "",          "echo/9.0", "echo/9.1",
					    "echo/9.0",  "echo/10.0", "echo/9.0"};
	static const struct figures_served wanted[] = {
		{"echo/9.0", 3}, {"echo/9.1", 1}, {"echo/10.0", 2}, {NULL, 1}};
	struct burst burst = fresh(7);
	struct figures figures;

	(void)state;
	for (unsigned i = 0; i < 7; i++)
		answered(i, NS_PER_MS, names[i]);
	assert_int_equal(figures_make(&burst, &figures), 0);
	assert_int_equal(figures.n_served, 4);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(figures.served[i].count, wanted[i].count);
		if (wanted[i].name)
			assert_string_equal(figures.served[i].name, wanted[i].name);
		else
			assert_null(figures.served[i].name);
	}
	figures_fini(&figures);
}

static void test_failures(void **state)
{
	static const struct figures_failure wanted[] = {
		{BURST_CONNECT, EMFILE, 1, 7},  {BURST_CONNECT, ECONNREFUSED, 2, 2},
		{BURST_RECV, ECONNRESET, 1, 3}, {BURST_TIMEOUT_END, 0, 1, 5},
		{BURST_MISMATCH, 0, 1, 1},
	};
	struct burst burst = fresh(8);
	struct figures figures;

	(void)state;
	answered(0, 3 * NS_PER_MS, "echo/0.0");
	went_wrong(1, BURST_MISMATCH, 0, NS_PER_MS);
	went_wrong(2, BURST_CONNECT, ECONNREFUSED, NS_PER_MS);
	went_wrong(3, BURST_RECV, ECONNRESET, 9 * NS_PER_MS);
	answered(4, 2 * NS_PER_MS, "echo/0.0");
	/* Answered, then failed: both are said, and nobody is said to have served it. */
	answered(5, 4 * NS_PER_MS, "echo/0.0");
	went_wrong(5, BURST_TIMEOUT_END, 0, 60 * NS_PER_S);
	went_wrong(6, BURST_CONNECT, ECONNREFUSED, NS_PER_MS);
	went_wrong(7, BURST_CONNECT, EMFILE, 0);
	clients[7].end_ns = 0; /* it had no socket before the burst began */
	assert_int_equal(figures_make(&burst, &figures), 0);
	assert_int_equal(figures.n_answered, 3);
	assert_int_equal(figures.n_failed, 6);
	assert_int_equal(figures.n_served, 1);
	assert_int_equal(figures.served[0].count, 2);
	assert_int_equal(figures.n_failures, 5);
	assert_memory_equal(figures.failures, wanted, sizeof(wanted));
	assert_int_equal(figures.total_ns, 9 * NS_PER_MS);
	figures_fini(&figures);
}

static void test_nobody_is_answered(void **state)
{
	struct burst burst = fresh(1);
	struct figures figures;

	(void)state;
	went_wrong(0, BURST_CONNECT, EMFILE, 0);
	clients[0].end_ns = 0;
	assert_int_equal(figures_make(&burst, &figures), 0);
	assert_int_equal(figures.n_answered, 0);
	assert_int_equal(figures.total_ns, 0);
	assert_int_equal(figures_percentile(&figures, 50), 0);
	figures_fini(&figures);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_percentiles),        cmocka_unit_test(test_slow_ones),
		cmocka_unit_test(test_who_served),         cmocka_unit_test(test_failures),
		cmocka_unit_test(test_nobody_is_answered),
	};

	return cmocka_run_group_tests_name("figures", tests, NULL, NULL);
}
