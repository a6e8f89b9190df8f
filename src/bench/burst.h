/*
 * The clients of a burst: all connect at once, each sends one request, has it back, and reads on to
 * the end of the stream. What became of each is kept; nothing is judged or printed here.
 *
 * They open one after another without waiting for any answer: as many connections wait in the
 * server's queues as it leaves there. A client's clock starts right before its own connect(), so
 * whatever it waits for counts, the handshake included.
 */
#ifndef LANED_BENCH_BURST_H
#define LANED_BENCH_BURST_H

#include <stddef.h>
#include <stdint.h>

#include "bench/target.h"

#define BURST_TAG_MAX 64 /* bytes: " GROUP/LANE.WORKER\n" */

struct burst_options {
	struct target target;
	unsigned connections;
	size_t request_bytes;
	uint64_t timeout_ns; /* of each client, from its connect() */
};

enum burst_stage {
	BURST_CONNECTING,
	BURST_SENDING,
	BURST_RECEIVING,
	BURST_ENDING, /* the request is back; the tag and the end of the stream are to come */
};

/* Why a client failed. */
enum burst_reason {
	BURST_OK,
	BURST_CONNECT, /* with an errno, as are the next two */
	BURST_SEND,
	BURST_RECV,
	BURST_RECV_END, /* the stream ended before the whole request was back */
	BURST_TIMEOUT_CONNECT,
	BURST_TIMEOUT_SEND,
	BURST_TIMEOUT_RECV,
	BURST_TIMEOUT_END,
	BURST_MISMATCH,      /* a byte is not what was sent */
	BURST_MISMATCH_TAIL, /* what came after the request is no tag */
	BURST_REASONS,
};

struct burst_client {
	int fd; /* -1: it has none, or none any more */
	enum burst_stage stage;
	enum burst_reason reason;
	int error; /* errno of the reason; 0: it has none */
	uint64_t start_ns;
	uint64_t latency_ns; /* from start_ns until the whole request was back; 0: it never was */
	uint64_t end_ns;     /* when it failed or all was over; 0: before it started */
	size_t sent;         /* of the request */
	size_t received;     /* of the request, and right */
	size_t tag_length;
	char tag[BURST_TAG_MAX + 1]; /* in the end the name in it, "GROUP/LANE.WORKER", or "" */
};

struct burst {
	struct burst_client *clients; /* in the order of their connect() */
	unsigned n;
	uint64_t start_ns;  /* right before the first connect() */
	uint64_t opened_ns; /* when the last one had been made */
};

/*
 * Lets all clients run to their ends. Returns 0, whatever became of them; or -errno, if the burst
 * could not be made. In both cases burst_fini() is due.
 */
int burst_run(const struct burst_options *options, struct burst *ret);

void burst_fini(struct burst *burst);

#endif
