/*
 * bench-load: clients that keep an echo server busy, and count.
 *
 * A closed loop in one thread: every connection sends a message, waits for all of it to come back,
 * compares every byte, and sends the next. It says what the server can do when it is always busy.
 * It must not be used to tell how long clients queue (a closed loop waits politely and hides that),
 * and nothing that it prints is ever compared with a limit.
 *
 * A run has two parts, a warm-up and the measured one, and nothing is on its way before, between or
 * after them: each ends by letting what was sent come back. With -g the program then stops until
 * somebody who looks at the server from outside has done so.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S        UINT64_C(1000000000)
#define WARM_UP_NS      (NS_PER_S / 2)
#define STALL_MS        10000 /* nothing came back for so long: it never will */
#define SPARE_FDS       16    /* beside the connections */
#define EVENTS_MAX      128
#define BUFFER_BYTES    UINT64_C(262144)
#define CONNECTIONS_MAX 1000000
#define SECONDS_MAX     3600
#define MESSAGE_MAX     UINT64_C(16777216)
#define PATTERN_BYTES   UINT64_C(65521) /* prime: messages start at every place of it in turn */
#define COMPLAINTS      5               /* failures described; the others are only counted */

/* 64 buckets per power of two: a value is told to 1.6 %. */
#define BUCKET_BITS 6
#define BUCKETS     ((64 - BUCKET_BITS + 1) << BUCKET_BITS)

enum mode {
	MODE_ECHO,    /* message after message over the same connections */
	MODE_CONNECT, /* connect, one message, close, and again */
	MODE_HOLD,    /* one message each, then idle */
};

struct options {
	struct sockaddr_in server;
	unsigned connections;
	size_t message_bytes;
	uint64_t duration_ns; /* of the measured part */
	enum mode mode;
	bool gated;
};

/* One connection after another in one place. */
struct slot {
	int fd;         /* -1: none */
	bool waiting;   /* for its message to come back */
	bool failed;    /* takes no further part */
	size_t pattern; /* where in the pattern its message starts */
	size_t sent;    /* of its message */
	size_t received;
	uint64_t start_ns;
};

struct figures {
	uint64_t operations;
	uint64_t bytes; /* there and back counted once */
	uint64_t errors;
	uint64_t latency_max_ns;
	uint64_t latency[BUCKETS];
};

struct load {
	struct options options;
	struct slot *slots;
	unsigned waiting;  /* slots that are */
	uint64_t until_ns; /* no message starts after this */
	int epoll_fd;
	uint8_t *pattern; /* PATTERN_BYTES that repeat, and a message more */
	uint8_t *buffer;
	struct figures figures;
};

static void die(const char *what)
{
	fprintf(stderr, "bench-load: %s: %s\n", what, strerror(errno));
	exit(EXIT_FAILURE);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static unsigned bucket_of(uint64_t value)
{
	unsigned shift;

	if (value < 1 << BUCKET_BITS)
		return value;
	shift = 63 - __builtin_clzll(value) - BUCKET_BITS;
	return (shift << BUCKET_BITS) + (value >> shift);
}

/* The middle of a bucket. */
static uint64_t bucket_value(unsigned bucket)
{
	unsigned shift;

	if (bucket < 2 << BUCKET_BITS)
		return bucket;
	shift = (bucket >> BUCKET_BITS) - 1;
	return ((uint64_t)(bucket - (shift << BUCKET_BITS)) << shift) + (UINT64_C(1) << shift) / 2;
}

static uint64_t figures_percentile(const struct figures *figures, unsigned percent)
{
	uint64_t wanted = figures->operations * percent / 100;
	uint64_t seen = 0;

	for (unsigned i = 0; i < BUCKETS; i++) {
		seen += figures->latency[i];
		if (seen > wanted)
			return bucket_value(i) < figures->latency_max_ns ? bucket_value(i)
									 : figures->latency_max_ns;
	}
	return figures->latency_max_ns;
}

static void slot_close(struct slot *slot)
{
	close(slot->fd);
	slot->fd = -1;
}

static void slot_wait(struct load *load, struct slot *slot, bool waiting)
{
	load->waiting += waiting - slot->waiting;
	slot->waiting = waiting;
}

static void slot_fail(struct load *load, struct slot *slot, const char *what)
{
	if (load->figures.errors++ < COMPLAINTS)
		fprintf(stderr, "bench-load: connection %td, %zu of %zu bytes back: %s\n",
			slot - load->slots, slot->received, load->options.message_bytes, what);
	slot->failed = true;
	slot_wait(load, slot, false);
	if (slot->fd >= 0)
		slot_close(slot);
}

/*
 * Returns false with errno. On loopback a connect does not block as long as the queue has room.
 *
 * Every connection ends with a reset, after all its bytes are back. After an orderly end the side
 * of the client lies in TIME_WAIT for a minute: connect mode then fills the kernel's table of those
 * within seconds (and runs out of ports), and the timers that end them run in the middle of later
 * measurements, on the server's CPU too. A reset leaves nothing behind.
 */
static bool slot_open(struct load *load, struct slot *slot)
{
	static const struct linger reset = {.l_onoff = 1, .l_linger = 0};
	static const int on = 1;
	struct epoll_event event = {
		.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
		.data.ptr = slot,
	};
	const struct sockaddr *server = (const struct sockaddr *)&load->options.server;

	slot->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return slot->fd >= 0 &&
	       setsockopt(slot->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)) == 0 &&
	       setsockopt(slot->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0 &&
	       connect(slot->fd, server, sizeof(load->options.server)) == 0 &&
	       epoll_ctl(load->epoll_fd, EPOLL_CTL_ADD, slot->fd, &event) == 0;
}

/* Sends what is left of the message, as far as it goes. Returns false when the slot has failed. */
static bool slot_send(struct load *load, struct slot *slot)
{
	ssize_t n = send(slot->fd, load->pattern + slot->pattern + slot->sent,
			 load->options.message_bytes - slot->sent, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n >= 0)
		slot->sent += n;
	else if (errno != EAGAIN) {
		slot_fail(load, slot, strerror(errno));
		return false;
	}
	return true;
}

static void slot_begin(struct load *load, struct slot *slot, uint64_t start_ns)
{
	slot->start_ns = start_ns;
	slot->sent = 0;
	slot->received = 0;
	slot_wait(load, slot, true);
	if (slot->fd < 0 && !slot_open(load, slot))
		slot_fail(load, slot, strerror(errno));
	else
		slot_send(load, slot);
}

/* The whole message is back. */
static void slot_complete(struct load *load, struct slot *slot)
{
	struct figures *figures = &load->figures;
	uint64_t now, latency;

	if (load->options.mode == MODE_CONNECT)
		slot_close(slot);
	now = now_ns();
	latency = now - slot->start_ns;
	if (latency > figures->latency_max_ns)
		figures->latency_max_ns = latency;
	figures->latency[bucket_of(latency)]++;
	figures->operations++;
	figures->bytes += load->options.message_bytes;
	slot->pattern = (slot->pattern + load->options.message_bytes) % PATTERN_BYTES;
	slot_wait(load, slot, false);
	if (now < load->until_ns)
		slot_begin(load, slot, now);
}

static void slot_receive(struct load *load, struct slot *slot)
{
	ssize_t n;

	do {
		n = recv(slot->fd, load->buffer, BUFFER_BYTES, MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0) {
			slot_fail(load, slot, strerror(errno));
			return;
		}
		if (n == 0) {
			slot_fail(load, slot, "closed by the server");
			return;
		}
		if ((size_t)n > slot->sent - slot->received) {
			slot_fail(load, slot, "more bytes came back than were sent");
			return;
		}
		if (memcmp(load->buffer, load->pattern + slot->pattern + slot->received, n) != 0) {
			slot_fail(load, slot, "other bytes came back than were sent");
			return;
		}
		slot->received += n;
		if (slot->received == load->options.message_bytes) {
			slot_complete(load, slot);
			return;
		}
	} while (n == BUFFER_BYTES);
}

/* Follows what happened to the slots. Returns how many it happened to: 0 after timeout_ms. */
static int load_events(struct load *load, int timeout_ms)
{
	struct epoll_event events[EVENTS_MAX];
	int n;

	do
		n = epoll_wait(load->epoll_fd, events, EVENTS_MAX, timeout_ms);
	while (n < 0 && errno == EINTR); /* stopped and continued */
	if (n < 0)
		die("epoll_wait");
	for (int i = 0; i < n; i++) {
		struct slot *slot = events[i].data.ptr;

		if (slot->sent < load->options.message_bytes && !slot_send(load, slot))
			continue;
		slot_receive(load, slot);
	}
	return n;
}

/*
 * One message in every slot that has not failed, and further ones until until_ns. Returns when
 * nothing is on its way any more.
 */
static void load_run(struct load *load, uint64_t until_ns)
{
	load->until_ns = until_ns;
	for (unsigned i = 0; i < load->options.connections; i++) {
		if (!load->slots[i].failed)
			slot_begin(load, &load->slots[i], now_ns());
	}
	while (load->waiting > 0) {
		if (load_events(load, STALL_MS) == 0) {
			fprintf(stderr, "bench-load: nothing came back for %d s, %u wait for it\n",
				STALL_MS / 1000, load->waiting);
			exit(EXIT_FAILURE);
		}
	}
}

/* Says how far things are, and if so asked waits for a line on stdin, or its end. */
static void gate(const char *line, bool wait)
{
	char c = '\0';

	puts(line);
	fflush(stdout);
	while (wait && c != '\n' && read(STDIN_FILENO, &c, 1) == 1)
		;
}

/* Returns the seconds that the measured part took. */
static double load_measure(struct load *load)
{
	const struct options *options = &load->options;
	uint64_t start_ns, took_ns;

	load_run(load, now_ns() + WARM_UP_NS);
	load->figures = (struct figures){.errors = load->figures.errors};
	gate("start", options->gated);
	start_ns = now_ns();
	load_run(load, start_ns + options->duration_ns);
	took_ns = now_ns() - start_ns;
	gate("end", options->gated);
	return (double)took_ns / (double)NS_PER_S;
}

/* Returns the seconds that it took until all connections were there and had been served. */
static double load_hold(struct load *load)
{
	uint64_t start_ns = now_ns();
	uint64_t took_ns;

	load_run(load, 0);
	took_ns = now_ns() - start_ns;
	gate("holding", true);
	return (double)took_ns / (double)NS_PER_S;
}

static void load_init(struct load *load)
{
	const struct options *options = &load->options;
	size_t pattern_bytes = PATTERN_BYTES + options->message_bytes;
	uint32_t random = 1;

	load->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (load->epoll_fd < 0)
		die("epoll_create1");
	load->slots = calloc(options->connections, sizeof(*load->slots));
	load->pattern = malloc(pattern_bytes);
	load->buffer = malloc(BUFFER_BYTES);
	if (!load->slots || !load->pattern || !load->buffer)
		die("malloc");
	for (size_t i = 0; i < pattern_bytes; i++) {
		random = random * 1664525 + 1013904223; /* Numerical Recipes */
		load->pattern[i] = i < PATTERN_BYTES ? random >> 24
						     : load->pattern[i - PATTERN_BYTES];
	}
	for (unsigned i = 0; i < options->connections; i++) {
		load->slots[i].fd = -1;
		load->slots[i].pattern = i * UINT64_C(7919) % PATTERN_BYTES;
	}
}

static void report(const struct figures *figures, double seconds)
{
	printf("{\"operations\": %" PRIu64 ", \"seconds\": %.6f, \"errors\": %" PRIu64
	       ", \"bytes\": %" PRIu64 ", \"latency_median_ns\": %" PRIu64
	       ", \"latency_p99_ns\": %" PRIu64 ", \"latency_max_ns\": %" PRIu64 "}\n",
	       figures->operations, seconds, figures->errors, figures->bytes,
	       figures_percentile(figures, 50), figures_percentile(figures, 99),
	       figures->latency_max_ns);
}

static void raise_nofile(unsigned connections)
{
	struct rlimit limit;
	rlim_t wanted = connections + SPARE_FDS;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		die("getrlimit");
	if (limit.rlim_cur >= wanted)
		return;
	limit.rlim_cur = wanted;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		die("so many connections need a higher limit of open files");
}

static void usage(void)
{
	fputs("usage: bench-load [-g] [-m MODE] [-c COUNT] [-s BYTES] [-d SECONDS] ADDR:PORT\n"
	      "  -m echo     message after message over the same connections (default)\n"
	      "  -m connect  connect, one message, close, and again in each place\n"
	      "  -m hold     one message each, then idle until a line on stdin, or its end\n"
	      "  -c          connections at a time (1)\n"
	      "  -s          bytes of a message (64)\n"
	      "  -d          seconds of the measured part (2), after a warm-up of 0.5 s\n"
	      "  -g          wait for a line on stdin at \"start\" and at \"end\"\n"
	      "One line of JSON says what was counted. Exit status 1: a connection failed, or\n"
	      "other bytes came back than were sent.\n",
	      stderr);
	exit(2);
}

/* Returns false if the text is not a number from 1 to max. */
static bool parse_count(const char *text, unsigned long max, unsigned long *ret)
{
	char *end;

	*ret = strtoul(text, &end, 10);
	return *text >= '0' && *text <= '9' && *end == '\0' && *ret >= 1 && *ret <= max;
}

static bool parse_seconds(const char *text, uint64_t *ret_ns)
{
	char *end;
	double seconds = strtod(text, &end);

	if (end == text || *end || !(seconds > 0 && seconds <= SECONDS_MAX))
		return false;
	*ret_ns = (uint64_t)(seconds * (double)NS_PER_S);
	return true;
}

static bool parse_mode(const char *text, enum mode *ret)
{
	static const char *const names[] = {
		[MODE_ECHO] = "echo",
		[MODE_CONNECT] = "connect",
		[MODE_HOLD] = "hold",
	};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(text, names[i]) == 0) {
			*ret = i;
			return true;
		}
	}
	return false;
}

/* Reads "127.0.0.1:7". */
static bool parse_address(const char *text, struct sockaddr_in *ret)
{
	char host[INET_ADDRSTRLEN];
	const char *colon = strrchr(text, ':');
	unsigned long port;

	if (!colon || (size_t)(colon - text) >= sizeof(host) ||
	    !parse_count(colon + 1, UINT16_MAX, &port))
		return false;
	memcpy(host, text, colon - text);
	host[colon - text] = '\0';
	*ret = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
	return inet_pton(AF_INET, host, &ret->sin_addr) == 1;
}

static struct options parse_options(int argc, char **argv)
{
	struct options options = {
		.connections = 1, .message_bytes = 64, .duration_ns = 2 * NS_PER_S};
	unsigned long count;
	bool good = true;
	int option;

	while (good && (option = getopt(argc, argv, "c:d:gm:s:")) != -1) {
		switch (option) {
		case 'c':
			good = parse_count(optarg, CONNECTIONS_MAX, &count);
			options.connections = count;
			break;
		case 'd':
			good = parse_seconds(optarg, &options.duration_ns);
			break;
		case 'g':
			options.gated = true;
			break;
		case 'm':
			good = parse_mode(optarg, &options.mode);
			break;
		case 's':
			good = parse_count(optarg, MESSAGE_MAX, &count);
			options.message_bytes = count;
			break;
		default:
			good = false;
		}
	}
	if (!good || optind != argc - 1 || !parse_address(argv[optind], &options.server))
		usage();
	return options;
}

int main(int argc, char **argv)
{
	static struct load load;
	double seconds;

	load.options = parse_options(argc, argv);
	raise_nofile(load.options.connections);
	load_init(&load);
	seconds = load.options.mode == MODE_HOLD ? load_hold(&load) : load_measure(&load);
	while (load_events(&load, 0) > 0)
		; /* nothing is expected: a byte too many, or a connection that has ended */
	report(&load.figures, seconds);
	return load.figures.errors > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
