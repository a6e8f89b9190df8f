/*
 * Addresses to listen on: what is read, how it is written, what is refused with which words, and
 * which take each other's clients.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "net/address.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct address parsed(const char *text)
{
	struct address address;
	const char *problem = NULL;

	print_message("# \"%s\"\n", text);
	assert_int_equal(address_parse(text, &address, &problem), 0);
	return address;
}

static void test_reads_ipv4(void **state)
{
	struct address address = parsed("192.0.2.1:65535");

	(void)state;
	assert_int_equal(address.in.sin_family, AF_INET);
	assert_int_equal(address.length, sizeof(struct sockaddr_in));
	assert_int_equal(ntohl(address.in.sin_addr.s_addr), 0xc0000201);
	assert_int_equal(ntohs(address.in.sin_port), 65535);
	assert_string_equal(address.text, "192.0.2.1:65535");
}

static void test_reads_ipv6(void **state)
{
	struct address address = parsed("[::1]:7");

	(void)state;
	assert_int_equal(address.in6.sin6_family, AF_INET6);
	assert_int_equal(address.length, sizeof(struct sockaddr_in6));
	assert_memory_equal(&address.in6.sin6_addr, &in6addr_loopback, sizeof(in6addr_loopback));
	assert_int_equal(ntohs(address.in6.sin6_port), 7);
	assert_int_equal(address.in6.sin6_scope_id, 0);
}

static void test_text_is_canonical(void **state)
{
	static const char *const texts[][2] = {
		{"127.0.0.1:7", "127.0.0.1:7"},
		{"0.0.0.0:00007", "0.0.0.0:7"},
		{"[0:0:0:0:0:0:0:0]:1", "[::]:1"},
		{"[2001:DB8:0::1]:7007", "[2001:db8::1]:7007"},
		{"[fe80::1%lo]:7", "[fe80::1%lo]:7"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(texts); i++)
		assert_string_equal(parsed(texts[i][0]).text, texts[i][1]);
	assert_true(parsed("[fe80::1%lo]:7").in6.sin6_scope_id > 0);
}

static void test_refuses_with_a_hint(void **state)
{
	static const char *const texts[][2] = {
		{"", "port is missing"},
		{"7", "port is missing"},
		{"127.0.0.1", "port is missing"},
		{"[::1]", "port is missing"},
		{"[::1]7", "port is missing"},
		{"[::1", "bracket is not closed"},
		{"::1:7", "in brackets"},
		{"127.0.0.1:7:8", "in brackets"},
		{"127.0.0.1:0", "port 0"},
		{"127.0.0.1:", "not a number"},
		{"127.0.0.1:x", "not a number"},
		{"127.0.0.1:7 ", "not a number"},
		{"127.0.0.1:-7", "not a number"},
		{"127.0.0.1:65536", "too large"},
		{"127.0.0.1:99999999999999999999", "too large"},
		{"[::1]:0", "port 0"},
		{"localhost:7", "host names are not looked up"},
		{":7", "host names are not looked up"},
		{"*:7", "\"0.0.0.0:7\""},
		{"127.1:7", "not a numeric address"},
		{"127.0.0.256:7", "not a numeric address"},
		{" 127.0.0.1:7", "not a numeric address"},
		{"[127.0.0.1]:7", "not a numeric IPv6"},
		{"[::g]:7", "not a numeric IPv6"},
		{"[]:7", "not a numeric IPv6"},
		{"[::ffff:127.0.0.1]:7", "IPv4 address as it is"},
		{"224.0.0.1:7", "multicast"},
		{"255.255.255.255:7", "broadcast"},
		{"[ff02::1]:7", "multicast"},
		{"[fe80::1]:7", "needs its interface"},
		{"[::1%lo]:7", "leave out the %"},
		{"[fe80::1%no-such-if]:7", "no such interface"},
		{"[fe80::1%]:7", "no such interface"},
		{"11111111111111111111111111111111111111111111111111111111111111111111111111111111",
		 "too long"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(texts); i++) {
		struct address address;
		const char *problem = NULL;

		print_message("# \"%s\"\n", texts[i][0]);
		assert_int_equal(address_parse(texts[i][0], &address, &problem), -EINVAL);
		assert_non_null(problem);
		if (!strstr(problem, texts[i][1]))
			fail_msg("\"%s\" says \"%s\"", texts[i][0], problem);
	}
}

static void test_overlaps(void **state)
{
	static const struct {
		const char *a, *b;
		bool overlap;
	} pairs[] = {
		{"127.0.0.1:7", "127.0.0.1:7", true},
		{"127.0.0.1:7", "0.0.0.0:7", true},
		{"0.0.0.0:7", "0.0.0.0:7", true},
		{"127.0.0.1:7", "127.0.0.1:8", false},
		{"0.0.0.0:7", "127.0.0.1:8", false},
		{"127.0.0.1:7", "127.0.0.2:7", false},
		{"[::1]:7", "[::1]:7", true},
		{"[::]:7", "[::1]:7", true},
		{"[::]:7", "[::]:8", false},
		{"[::1]:7", "[::2]:7", false},
		{"0.0.0.0:7", "[::]:7", false},
		{"127.0.0.1:7", "[::1]:7", false},
		{"[fe80::1%lo]:7", "[fe80::1%lo]:7", true},
		{"[fe80::1%lo]:7", "[::]:7", true},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(pairs); i++) {
		struct address a = parsed(pairs[i].a);
		struct address b = parsed(pairs[i].b);

		assert_int_equal(address_overlaps(&a, &b), pairs[i].overlap);
		assert_int_equal(address_overlaps(&b, &a), pairs[i].overlap);
	}
}

/* The same link-local address on two interfaces is two addresses. */
static void test_interfaces_do_not_overlap(void **state)
{
	struct address a = parsed("[fe80::1%lo]:7");
	struct address b = a;

	(void)state;
	b.in6.sin6_scope_id++;
	assert_false(address_overlaps(&a, &b));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads_ipv4),
		cmocka_unit_test(test_reads_ipv6),
		cmocka_unit_test(test_text_is_canonical),
		cmocka_unit_test(test_refuses_with_a_hint),
		cmocka_unit_test(test_overlaps),
		cmocka_unit_test(test_interfaces_do_not_overlap),
	};

	return cmocka_run_group_tests_name("address", tests, NULL, NULL);
}
