/*
 * Connection records: all that laned knows of a connection, indexed by its descriptor.
 *
 * A table lies in the lane's shared mapping. With `share = "queue"` each worker has a table of its
 * own, as it has descriptors of its own, and is the only one to write it. What a process means to
 * do with a connection's bytes stands here before it does it: block and stream offset before recv.
 */
#ifndef LANED_LANE_CONN_H
#define LANED_LANE_CONN_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What is known of a connection's socket, and what is to become of it. */
enum conn_flag {
	CONN_READABLE = 1 << 0, /* recv may find something */
	CONN_WRITABLE = 1 << 1, /* send may take something */
	CONN_DRAIN = 1 << 2,    /* a short read may have left something: read until EAGAIN */
	CONN_LEAVING = 1 << 3,  /* quiet: ends when a last recv finds nothing */
	CONN_ENDING = 1 << 4,   /* nothing more is echoed; ends when all is sent */
	CONN_EOF = 1 << 5,      /* the peer's FIN came */
	CONN_SHUT = 1 << 6,     /* our FIN is out; what still comes is read and dropped */
	CONN_BROKEN = 1 << 7,   /* nothing to be done but close */
};

struct conn {
	/*
	 * Upper half: generation, how many connections have had this record, 0 for none; an event
	 * carries the one it was meant for. Lower half: 1 while a connection has it. Written by the
	 * worker that accepts and closes.
	 */
	_Atomic uint64_t word;
	uint64_t base;  /* stream offset of the block's first byte */
	uint64_t in;    /* stream offset up to which was read */
	uint64_t out;   /* stream offset up to which was written; out <= in */
	uint32_t block; /* holds the bytes from base to in; POOL_NONE: out == in, nothing to hold */
	uint32_t stamp_ms; /* when the last byte moved, or our FIN went out (clock_coarse_ms()) */
	uint32_t messages; /* echoed so far */
	uint32_t peeked;   /* bytes looked at in the worker's own block, still in the kernel */
	uint32_t taken;    /* of these, sent: to be removed from the kernel's buffer */
	uint32_t
		unacked; /* bytes in the kernel's send buffer when a blocked one was last looked at */
	uint8_t flags;   /* enum conn_flag */
	uint8_t tag_left; /* bytes of the tag that are still to be sent */
};

static_assert(sizeof(struct conn) <= 64, "an idle connection costs one cache line");

/* One process's view of a table. */
struct conn_table {
	struct conn *conns;
	uint32_t n_conns; /* no descriptor is as high */
};

/*
 * Takes the record for a new connection; the caller fills the rest. Returns its generation, never
 * 0.
 */
static inline uint32_t conn_open(struct conn *conn)
{
	uint64_t word = atomic_load_explicit(&conn->word, memory_order_relaxed);
	uint32_t generation = (uint32_t)(word >> 32) + 1;

	if (generation == 0)
		generation = 1;
	atomic_store_explicit(&conn->word, (uint64_t)generation << 32 | 1, memory_order_relaxed);
	return generation;
}

/* Gives the record back; its generation stays. */
static inline void conn_close(struct conn *conn)
{
	uint64_t word = atomic_load_explicit(&conn->word, memory_order_relaxed);

	atomic_store_explicit(&conn->word, word & ~UINT64_C(1), memory_order_relaxed);
}

/* Whether a connection has the record. */
static inline bool conn_is_open(const struct conn *conn)
{
	return atomic_load_explicit(&conn->word, memory_order_relaxed) & 1;
}

/* The generation of the connection that has it, or of the last one that had; 0: none. */
static inline uint32_t conn_generation(const struct conn *conn)
{
	return (uint32_t)(atomic_load_explicit(&conn->word, memory_order_relaxed) >> 32);
}

#endif
