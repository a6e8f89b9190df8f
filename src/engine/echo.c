#include "engine/echo.h"

#include <assert.h>
#include <errno.h>
#include <sys/socket.h>

#define DISCARD_BYTES ((size_t)1 << 20) /* after our FIN, per step */

void echo_open(const struct echo *echo, struct conn *conn)
{
	conn->base = conn->in = conn->out = 0;
	conn->block = POOL_NONE;
	conn->stamp_ms = echo->now_ms;
	conn->messages = 0;
	conn->peeked = conn->taken = conn->unacked = 0;
	conn->flags = CONN_READABLE | CONN_WRITABLE;
	conn->tag_left = 0;
}

static void conn_forget(struct conn *conn, unsigned flags)
{
	conn->flags &= (uint8_t)~flags;
}

static struct echo_step step_send(const struct echo *echo, uint8_t *data, size_t length)
{
	return (struct echo_step){
		.action = ECHO_SEND,
		/* The tag comes right behind; one packet for both. */
		.flags = MSG_DONTWAIT | MSG_NOSIGNAL | (echo->tag_length > 0 ? MSG_MORE : 0),
		.data = data,
		.length = length,
	};
}

static struct echo_step step_send_tag(const struct echo *echo, const struct conn *conn)
{
	return (struct echo_step){
		.action = ECHO_SEND,
		.flags = MSG_DONTWAIT | MSG_NOSIGNAL,
		.data = (uint8_t *)echo->tag + (echo->tag_length - conn->tag_left),
		.length = conn->tag_left,
	};
}

static struct echo_step step_discard(size_t length)
{
	return (struct echo_step){
		.action = ECHO_DISCARD,
		/* Bytes go without being copied (tcp(7), MSG_TRUNC). */
		.flags = MSG_DONTWAIT | MSG_TRUNC,
		.length = length,
	};
}

/* Reads into the worker's block or, when there is none, looks without taking. */
static struct echo_step step_recv(struct echo *echo, struct conn *conn)
{
	struct echo_step step = {
		.action = ECHO_RECV,
		.flags = MSG_DONTWAIT,
		.length = POOL_BLOCK_BYTES,
	};

	if (echo->block == POOL_NONE)
		echo->block = pool_take(echo->pool, echo->owner);
	if (echo->block == POOL_NONE) {
		step.flags |= MSG_PEEK;
		step.data = pool_bytes(echo->pool, echo->own);
		return step;
	}

	/*
	 * Which block, and the place in the stream of what it will hold: before the bytes are
	 * taken.
	 */
	conn->base = conn->in;
	conn->block = echo->block;
	step.data = pool_bytes(echo->pool, echo->block);
	return step;
}

/* The end of a connection: whoever closes last is the peer, unless it takes too long. */
static struct echo_step step_end(const struct conn *conn)
{
	if (conn->flags & CONN_EOF)
		return (struct echo_step){.action = ECHO_CLOSE};
	if (!(conn->flags & CONN_SHUT))
		return (struct echo_step){.action = ECHO_SHUTDOWN};
	if (conn->flags & CONN_READABLE)
		return step_discard(DISCARD_BYTES);
	return (struct echo_step){.action = ECHO_WAIT};
}

struct echo_step echo_next(struct echo *echo, struct conn *conn)
{
	static const struct echo_step wait = {.action = ECHO_WAIT};

	/* What a peer that takes nothing has not taken would stay in the kernel for long. */
	if (conn->flags & CONN_BROKEN)
		return (struct echo_step){.action = echo_is_blocked(conn) ? ECHO_RESET
									  : ECHO_CLOSE};
	if (conn->taken > 0)
		return step_discard(conn->taken);
	if (!(conn->flags & CONN_WRITABLE))
		return wait;
	if (conn->block != POOL_NONE)
		return step_send(echo,
				 pool_bytes(echo->pool, conn->block) + (conn->out - conn->base),
				 conn->in - conn->out);
	if (conn->peeked > 0)
		return step_send(echo, pool_bytes(echo->pool, echo->own), conn->peeked);
	if (conn->tag_left > 0)
		return step_send_tag(echo, conn);
	if (conn->flags & CONN_ENDING)
		return step_end(conn);
	if (conn->flags & CONN_READABLE)
		return step_recv(echo, conn);
	return wait;
}

bool echo_in_hand(const struct echo *echo, const struct conn *conn)
{
	return conn->taken > 0 || conn->peeked > 0 ||
	       (conn->block != POOL_NONE && conn->block == echo->block);
}

/* A message is on its way back. */
static void message_done(const struct echo *echo, struct conn *conn)
{
	conn->messages++;
	conn->tag_left = echo->tag_length;
	if (echo->close_after > 0 && conn->messages >= echo->close_after)
		conn->flags |= CONN_ENDING;
}

static void recv_done(struct echo *echo, struct conn *conn, const struct echo_step *step,
		      ssize_t result)
{
	bool peeked = step->flags & MSG_PEEK;

	if (result <= 0 && !peeked)
		conn->block = POOL_NONE; /* it stays the worker's */

	if (result > 0) {
		conn->stamp_ms = echo->now_ms;
		conn_forget(conn, CONN_LEAVING);
		/*
		 * A short read has emptied the buffer, and what comes later is a new edge; but a
		 * FIN, an error or an urgent mark that came with the data shows only when one reads
		 * on. What was only looked at is still there.
		 */
		if (!peeked && (size_t)result < step->length && !(conn->flags & CONN_DRAIN))
			conn_forget(conn, CONN_READABLE);
		if (peeked)
			conn->peeked = (uint32_t)result;
		else
			conn->in += (uint64_t)result;
	} else if (result == 0) {
		conn->flags |= CONN_EOF | CONN_ENDING;
	} else if (result == -EAGAIN) {
		conn_forget(conn, CONN_READABLE | CONN_DRAIN);
		if (conn->flags & CONN_LEAVING)
			conn->flags |= CONN_ENDING;
	} else if (result != -EINTR) {
		conn->flags |= CONN_BROKEN;
	}
}

/* `sent` bytes of the record's block are on their way. */
static void send_block_done(struct echo *echo, struct conn *conn, size_t sent)
{
	conn->out += sent;
	if (conn->out < conn->in) {
		/*
		 * The block stays with the record, and the worker takes another: no byte is copied.
		 */
		if (conn->block == echo->block)
			echo->block = POOL_NONE;
		return;
	}

	uint32_t block = conn->block;

	conn->block = POOL_NONE;
	if (echo->block == POOL_NONE)
		echo->block = block; /* the worker needs one anyway */
	else if (block != echo->block)
		pool_put(echo->pool, block);
	message_done(echo, conn);
}

/*
 * `sent` of the bytes that were looked at are on their way: only these are taken from the kernel.
 */
static void send_peeked_done(const struct echo *echo, struct conn *conn, size_t sent)
{
	bool whole = sent == conn->peeked;

	conn->peeked = 0;
	conn->taken = (uint32_t)sent;
	conn->in += sent;
	conn->out += sent;
	if (whole)
		message_done(echo, conn);
}

static void send_done(struct echo *echo, struct conn *conn, const struct echo_step *step,
		      ssize_t result)
{
	if (result == -EINTR)
		return;
	if (result == -EAGAIN)
		result = 0;
	if (result < 0) {
		conn->flags |= CONN_BROKEN;
		return;
	}
	if (result > 0)
		conn->stamp_ms = echo->now_ms;
	if ((size_t)result < step->length) {
		conn_forget(conn, CONN_WRITABLE);
		echo->blocked++;
	}

	if (conn->block != POOL_NONE)
		send_block_done(echo, conn, (size_t)result);
	else if (conn->peeked > 0)
		send_peeked_done(echo, conn, (size_t)result);
	else
		conn->tag_left -= (uint8_t)result;
}

static void discard_done(struct conn *conn, ssize_t result)
{
	if (conn->taken > 0) {
		/*
		 * They were there a moment ago and nobody else reads: none at all is a broken
		 * socket.
		 */
		if (result > 0)
			conn->taken -= (uint32_t)result;
		else if (result != -EINTR)
			conn->flags |= CONN_BROKEN;
		return;
	}
	if (result == 0)
		conn->flags |= CONN_EOF;
	else if (result == -EAGAIN)
		conn_forget(conn, CONN_READABLE | CONN_DRAIN);
	else if (result < 0 && result != -EINTR)
		conn->flags |= CONN_BROKEN;
}

static void shutdown_done(struct echo *echo, struct conn *conn, ssize_t result)
{
	if (result < 0) {
		/* ENOTCONN: the peer has reset the connection already. */
		conn->flags |= CONN_BROKEN;
		return;
	}
	conn->flags |= CONN_SHUT | CONN_READABLE;
	conn->stamp_ms = echo->now_ms;
	echo->shut++;
}

void echo_done(struct echo *echo, struct conn *conn, const struct echo_step *step, ssize_t result)
{
	switch (step->action) {
	case ECHO_RECV:
		recv_done(echo, conn, step, result);
		break;
	case ECHO_SEND:
		send_done(echo, conn, step, result);
		break;
	case ECHO_DISCARD:
		discard_done(conn, result);
		break;
	case ECHO_SHUTDOWN:
		shutdown_done(echo, conn, result);
		break;
	case ECHO_WAIT:
	case ECHO_CLOSE:
	case ECHO_RESET:
		assert(!"there is nothing to report of this step");
	}
}

void echo_unacked(const struct echo *echo, struct conn *conn, uint32_t bytes)
{
	if (bytes == conn->unacked)
		return;
	conn->unacked = bytes;
	conn->stamp_ms = echo->now_ms;
}

/* How long a connection may be without a byte that moves, as things stand; 0: for ever. */
static uint32_t quiet_limit_ms(const struct echo *echo, const struct conn *conn)
{
	if (echo_is_blocked(conn))
		return echo->send_timeout_ms;
	if (conn->flags & CONN_SHUT)
		/*
		 * Our FIN is one of the unacknowledged; if there is more the peer still has to
		 * read.
		 */
		return conn->unacked > 1 && echo->send_timeout_ms > ECHO_LINGER_MS
			       ? echo->send_timeout_ms
			       : ECHO_LINGER_MS;
	if (echo->draining)
		return ECHO_QUIET_MS;
	return echo->idle_timeout_ms;
}

static bool is_over(const struct echo *echo, const struct conn *conn)
{
	uint32_t limit_ms = quiet_limit_ms(echo, conn);

	return limit_ms > 0 && echo->now_ms - conn->stamp_ms >= limit_ms;
}

bool echo_wants_unacked(const struct echo *echo, const struct conn *conn)
{
	return echo_is_blocked(conn) || (conn->flags & CONN_SHUT) || is_over(echo, conn);
}

bool echo_tick(const struct echo *echo, struct conn *conn)
{
	if (!is_over(echo, conn))
		return false;
	if (echo_is_blocked(conn) || (conn->flags & CONN_SHUT))
		conn->flags |= CONN_BROKEN;
	else /* A last look: what comes in this very moment is not lost. */
		conn->flags |= CONN_LEAVING | CONN_READABLE;
	return true;
}

void echo_close(struct echo *echo, struct conn *conn)
{
	if (conn->block != POOL_NONE && conn->block != echo->block)
		pool_put(echo->pool, conn->block);
	conn->block = POOL_NONE;
	if (echo_is_blocked(conn))
		echo->blocked--;
	if (conn->flags & CONN_SHUT)
		echo->shut--;
	conn_close(conn);
}
