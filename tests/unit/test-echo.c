/*
 * The echo state machine against every way in which a small stream can arrive and leave.
 *
 * A run is a sequence of choices: when which bytes arrive, how much a send takes. The explorer goes
 * through all of them, depth first. The socket is modelled as an edge-triggered set shows it: an
 * event comes once for what is new, so a machine that misses something waits for ever, which the
 * model sees.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "engine/echo.h"

/*
 * --- The explorer ------------------------------------------------------------------------------
 */

#define CHOICES_MAX 256

static struct {
	unsigned taken[CHOICES_MAX], of[CHOICES_MAX];
	unsigned depth, length;
} path;

/* One of 0 .. n - 1; over all runs, each of them. */
static unsigned choose(unsigned n)
{
	assert_in_range(path.depth, 0, CHOICES_MAX - 1);
	if (path.depth == path.length) {
		path.taken[path.depth] = 0;
		path.of[path.depth] = n;
		path.length++;
	}
	assert_int_equal(path.of[path.depth], n); /* a run depends on nothing but its choices */
	return path.taken[path.depth++];
}

static void explore_begin(void)
{
	memset(&path, 0, sizeof(path));
}

/* Goes to the next run; false: there is none. */
static bool explore_next(void)
{
	path.depth = 0;
	while (path.length > 0) {
		unsigned last = path.length - 1;

		if (++path.taken[last] < path.of[last])
			return true;
		path.length--;
	}
	return false;
}

/*
 * --- The world of one connection ---------------------------------------------------------------
 */

#define STALLS_MAX 2 /* sends that take nothing, per run */
#define TAG        "#"

enum peer_end { PEER_FIN, PEER_RESET };

struct scenario {
	unsigned bytes;  /* that the peer sends */
	unsigned mark;   /* one of them is urgent: a read stops before it; 0: none */
	unsigned blocks; /* in the pool beside the worker's own */
	unsigned close_after;
	bool tag;
	enum peer_end end;
};

struct world {
	const struct scenario *scenario;
	unsigned arrived, read; /* bytes */
	bool end_arrived, end_read;
	unsigned events; /* that the set has not told yet */
	char out[64];
	unsigned n_out;
	bool shut, interrupted;
	unsigned stalls; /* sends that took nothing */
	unsigned steps;

	struct pool pool;
	struct echo echo;
	struct conn conn;
};

static _Atomic uint64_t owners[4];
static uint8_t blocks[4 * POOL_BLOCK_BYTES];

static void world_init(struct world *world, const struct scenario *scenario)
{
	memset(world, 0, sizeof(*world));
	memset((void *)owners, 0, sizeof(owners));
	world->scenario = scenario;
	world->pool = (struct pool){
		.owner = owners,
		.blocks = blocks,
		.n_blocks = 1 + scenario->blocks,
		.n_own = 1,
		.cursor = 1,
	};
	world->echo = (struct echo){
		.pool = &world->pool,
		.owner = {.worker = 0, .generation = 1},
		.own = 0,
		.block = POOL_NONE,
		.now_ms = 1000,
		.close_after = scenario->close_after,
		.tag = TAG,
		.tag_length = scenario->tag ? sizeof(TAG) - 1 : 0,
	};
	conn_open(&world->conn);
	echo_open(&world->echo, &world->conn);
}

static bool world_is_over(const struct world *world)
{
	return world->arrived == world->scenario->bytes && world->end_arrived;
}

/* Something new comes from the peer: bytes, its end, or both at once. */
static void world_arrive(struct world *world)
{
	unsigned rest = world->scenario->bytes - world->arrived;

	if (rest > 0)
		world->arrived += 1 + choose(rest);
	if (world->arrived == world->scenario->bytes && (rest == 0 || choose(2) == 1))
		world->end_arrived = true;
	world->events |= CONN_READABLE;
	if (world->end_arrived ||
	    (world->scenario->mark && world->arrived >= world->scenario->mark))
		world->events |= CONN_DRAIN;
	if (world->end_arrived && world->scenario->end == PEER_RESET)
		world->events |= CONN_WRITABLE;
}

static uint8_t byte_at(unsigned place)
{
	return (uint8_t)('a' + place);
}

/* recv() as the kernel does it: all that is there, up to the urgent mark. */
static ssize_t world_recv(struct world *world, const struct echo_step *step)
{
	unsigned there = world->arrived - world->read;
	unsigned mark = world->scenario->mark;

	if (!world->interrupted && choose(2) == 1) {
		world->interrupted = true; /* once is enough */
		return -EINTR;
	}
	if (world->end_arrived && world->scenario->end == PEER_RESET)
		return -ECONNRESET;
	if (there == 0) {
		if (!world->end_arrived)
			return -EAGAIN;
		world->end_read = true;
		return 0;
	}
	if (mark > world->read && mark < world->read + there)
		there = mark - world->read;
	if (there > step->length)
		there = (unsigned)step->length;
	for (unsigned i = 0; i < there && !(step->flags & MSG_TRUNC); i++)
		step->data[i] = byte_at(world->read + i);
	if (!(step->flags & MSG_PEEK))
		world->read += there;
	return there;
}

/* send() takes something, all, or nothing, and says later when it takes more. */
static ssize_t world_send(struct world *world, const struct echo_step *step)
{
	if (world->end_arrived && world->scenario->end == PEER_RESET)
		return -EPIPE;
	assert_true(step->length > 0);
	assert_false(world->shut);

	size_t least = world->stalls < STALLS_MAX ? 0 : 1;
	size_t length = least + choose((unsigned)(step->length - least + 1));

	assert_true(world->n_out + length <= sizeof(world->out));
	memcpy(world->out + world->n_out, step->data, length);
	world->n_out += (unsigned)length;
	if (length < step->length)
		world->events |= CONN_WRITABLE;
	if (length == 0)
		world->stalls++;
	return length == 0 ? -EAGAIN : (ssize_t)length;
}

static void world_step(struct world *world, const struct echo_step *step)
{
	ssize_t result = 0;

	assert_true(step->flags & MSG_DONTWAIT || step->action == ECHO_SHUTDOWN);
	switch (step->action) {
	case ECHO_RECV:
	case ECHO_DISCARD:
		result = world_recv(world, step);
		break;
	case ECHO_SEND:
		assert_true(step->flags & MSG_NOSIGNAL);
		result = world_send(world, step);
		break;
	case ECHO_SHUTDOWN:
		assert_false(world->shut);
		assert_false(world->end_read); /* close() says it all then */
		world->shut = true;
		break;
	default:
		fail();
	}
	echo_done(&world->echo, &world->conn, step, result);
}

/*
 * The machine waits: tell what is new, or let something new come. False: that is all there ever is.
 */
static bool world_wait(struct world *world)
{
	assert_false(echo_in_hand(&world->echo, &world->conn));
	if (world->events == 0) {
		if (world_is_over(world))
			return false;
		world_arrive(world);
	}
	echo_event(&world->echo, &world->conn, world->events);
	world->events = 0;
	return true;
}

/* Runs the connection to its end. */
static void world_run(struct world *world)
{
	for (;;) {
		assert_true(++world->steps < 1000);
		/* The peer does not wait for us to wait. */
		if (!world_is_over(world) && choose(2) == 1)
			world_arrive(world);

		struct echo_step step = echo_next(&world->echo, &world->conn);

		if (step.action == ECHO_CLOSE || step.action == ECHO_RESET)
			break;
		if (step.action != ECHO_WAIT)
			world_step(world, &step);
		else if (!world_wait(world))
			fail_msg("it waits for ever: %u of %u bytes read, %u sent, flags 0x%x",
				 world->read, world->scenario->bytes, world->n_out,
				 world->conn.flags);
	}
	echo_close(&world->echo, &world->conn);
	assert_int_equal(world->echo.blocked, 0);
	assert_int_equal(world->echo.shut, 0);
}

/* What went back is what came, in order, with a tag behind each message if wanted. */
static void check_stream(const struct world *world, bool to_the_end)
{
	unsigned place = 0, tags = 0;

	for (unsigned i = 0; i < world->n_out; i++) {
		if (world->out[i] == TAG[0])
			tags++;
		else
			assert_int_equal(world->out[i], byte_at(place++));
	}
	assert_true(place <= world->arrived);
	if (!to_the_end)
		return;
	assert_int_equal(world->conn.out, place);
	assert_int_equal(world->conn.in, place);
	assert_int_equal(tags, world->scenario->tag ? world->conn.messages : 0);
	if (tags > 0)
		assert_int_equal(world->out[world->n_out - 1], TAG[0]);
}

static void check_blocks(const struct world *world)
{
	for (uint32_t block = 1; block < world->pool.n_blocks; block++) {
		if (block != world->echo.block)
			assert_int_equal(owners[block], 0);
	}
	assert_false(conn_is_open(&world->conn));
}

/* Goes through all runs of a scenario. Returns how many there were. */
static unsigned long explore(const struct scenario *scenario)
{
	unsigned long runs = 0;

	explore_begin();
	do {
		struct world world;

		world_init(&world, scenario);
		world_run(&world);
		check_stream(&world, scenario->end == PEER_FIN);
		check_blocks(&world);
		if (scenario->end == PEER_FIN) {
			assert_true(world.end_read); /* nothing unread is destroyed by the close */
			if (scenario->close_after == 0) {
				assert_int_equal(world.read, scenario->bytes);
				assert_int_equal(world.conn.out, scenario->bytes);
			}
		}
		runs++;
	} while (explore_next());
	return runs;
}

/*
 * --- Tests ---------------------------------------------------------------------------------------
 */

static void test_all_ways(void **state)
{
	(void)state;
	for (unsigned pool = 0; pool <= 1; pool++) {
		for (unsigned bytes = 0; bytes <= 3; bytes++) {
			unsigned long runs = explore(&(struct scenario){
				.bytes = bytes, .blocks = pool, .end = PEER_FIN});

			assert_true(runs > (bytes == 0 ? 2 : 20)); /* the explorer does explore */
		}
	}
}

static void test_all_ways_urgent(void **state)
{
	(void)state;
	for (unsigned pool = 0; pool <= 1; pool++) {
		for (unsigned mark = 1; mark <= 2; mark++)
			explore(&(struct scenario){
				.bytes = 3, .mark = mark, .blocks = pool, .end = PEER_FIN});
	}
}

static void test_all_ways_tagged(void **state)
{
	(void)state;
	for (unsigned pool = 0; pool <= 1; pool++)
		explore(&(struct scenario){
			.bytes = 2, .blocks = pool, .tag = true, .end = PEER_FIN});
}

static void test_all_ways_close_after(void **state)
{
	(void)state;
	for (unsigned pool = 0; pool <= 1; pool++) {
		for (unsigned messages = 1; messages <= 2; messages++)
			explore(&(struct scenario){.bytes = 3,
						   .blocks = pool,
						   .close_after = messages,
						   .tag = true,
						   .end = PEER_FIN});
	}
}

static void test_all_ways_reset(void **state)
{
	(void)state;
	for (unsigned pool = 0; pool <= 1; pool++)
		explore(&(struct scenario){
			.bytes = 2, .blocks = pool, .tag = true, .end = PEER_RESET});
}

/* Runs until it waits. */
static void run_to_wait(struct world *world)
{
	for (;;) {
		struct echo_step step = echo_next(&world->echo, &world->conn);

		if (step.action == ECHO_WAIT)
			return;
		world_step(world, &step);
	}
}

static void test_blocked_is_not_read(void **state)
{
	const struct scenario scenario = {.bytes = 4, .blocks = 2, .end = PEER_FIN};
	struct world world;

	(void)state;
	explore_begin(); /* the first choice everywhere: sends take nothing */
	world_init(&world, &scenario);
	world.interrupted = true;
	world.arrived = 2;
	run_to_wait(&world);
	assert_int_equal(world.read, 2);
	assert_int_not_equal(world.conn.block, POOL_NONE);
	assert_int_not_equal(world.conn.block, world.echo.block);

	world.arrived = 4;
	echo_event(&world.echo, &world.conn, CONN_READABLE);
	run_to_wait(&world);
	assert_int_equal(world.read, 2); /* the peer must take the first two before */
}

static void test_peeked_stays_in_the_kernel(void **state)
{
	const struct scenario scenario = {.bytes = 4, .blocks = 0, .end = PEER_FIN};
	struct world world;

	(void)state;
	explore_begin();
	world_init(&world, &scenario);
	world.interrupted = true;
	world.arrived = 4;
	run_to_wait(&world);
	assert_int_equal(world.read, 0); /* nothing was taken that could not be sent */
	assert_int_equal(world.conn.block, POOL_NONE);
	assert_true(world.conn.flags & CONN_READABLE); /* no edge will come for what is there */
}

/* A message that is sent in parts is one message. */
static void test_peeked_parts_are_one_message(void **state)
{
	const struct scenario scenario = {.blocks = 0, .tag = true};
	struct world world;

	(void)state;
	explore_begin();
	world_init(&world, &scenario);

	struct echo_step step = echo_next(&world.echo, &world.conn);

	assert_true(step.flags & MSG_PEEK);
	echo_done(&world.echo, &world.conn, &step, 10);
	step = echo_next(&world.echo, &world.conn);
	assert_int_equal(step.action, ECHO_SEND);
	echo_done(&world.echo, &world.conn, &step, 4);
	step = echo_next(&world.echo, &world.conn);
	assert_int_equal(step.action, ECHO_DISCARD);
	assert_int_equal(step.length, 4);
	echo_done(&world.echo, &world.conn, &step, 3); /* an urgent mark came in between */
	step = echo_next(&world.echo, &world.conn);
	assert_int_equal(step.action, ECHO_DISCARD);
	assert_int_equal(step.length, 1);
	echo_done(&world.echo, &world.conn, &step, 1);
	assert_int_equal(echo_next(&world.echo, &world.conn).action, ECHO_WAIT);
	assert_int_equal(world.conn.messages, 0);
	assert_int_equal(world.conn.tag_left, 0);
}

/* The block of a slow connection goes back to the pool when the worker reads into another. */
static void test_block_goes_back(void **state)
{
	const struct scenario scenario = {.bytes = 2, .blocks = 2};
	struct world world;
	struct conn other = {0};

	(void)state;
	explore_begin();
	world_init(&world, &scenario);
	world.interrupted = true;
	world.arrived = 2;
	run_to_wait(&world);

	uint32_t kept = world.conn.block;

	conn_open(&other);
	echo_open(&world.echo, &other);

	struct echo_step step = echo_next(&world.echo, &other);

	echo_done(&world.echo, &other, &step, 1);
	assert_int_not_equal(other.block, kept);
	step = echo_next(&world.echo, &other);
	echo_done(&world.echo, &other, &step, 1);

	echo_event(&world.echo, &world.conn, CONN_WRITABLE);
	step = echo_next(&world.echo, &world.conn);
	echo_done(&world.echo, &world.conn, &step, 2);
	assert_int_equal(owners[kept], 0);
	assert_int_not_equal(owners[world.echo.block], 0);
}

static void test_full_blocks(void **state)
{
	struct scenario scenario = {.blocks = 2, .end = PEER_FIN};
	struct world world;

	(void)state;
	explore_begin();
	world_init(&world, &scenario);

	struct echo_step step = echo_next(&world.echo, &world.conn);

	assert_int_equal(step.action, ECHO_RECV);
	assert_int_equal(step.length, POOL_BLOCK_BYTES);
	echo_done(&world.echo, &world.conn, &step, POOL_BLOCK_BYTES);
	step = echo_next(&world.echo, &world.conn);
	assert_int_equal(step.action, ECHO_SEND);
	assert_int_equal(step.length, POOL_BLOCK_BYTES);
	echo_done(&world.echo, &world.conn, &step, POOL_BLOCK_BYTES - 1);
	assert_int_equal(echo_next(&world.echo, &world.conn).action, ECHO_WAIT);
	echo_event(&world.echo, &world.conn, CONN_WRITABLE);
	step = echo_next(&world.echo, &world.conn);
	assert_int_equal(step.action, ECHO_SEND);
	assert_int_equal(step.length, 1);
	assert_ptr_equal(step.data,
			 pool_bytes(&world.pool, world.conn.block) + POOL_BLOCK_BYTES - 1);
	echo_done(&world.echo, &world.conn, &step, 1);

	/* A full read says nothing about what is left. */
	step = echo_next(&world.echo, &world.conn);
	assert_int_equal(step.action, ECHO_RECV);
	assert_int_equal(world.conn.base, POOL_BLOCK_BYTES);
}

static void test_idle_timeout(void **state)
{
	const struct scenario scenario = {.blocks = 1};
	struct world world;

	(void)state;
	explore_begin();
	world_init(&world, &scenario);
	world.interrupted = true;
	run_to_wait(&world);
	world.echo.now_ms += 5000;
	assert_false(echo_tick(&world.echo, &world.conn)); /* none is configured */

	world.echo.idle_timeout_ms = 6000;
	assert_false(echo_tick(&world.echo, &world.conn));
	world.echo.now_ms += 1000;
	assert_true(echo_tick(&world.echo, &world.conn));
	run_to_wait(&world);
	assert_true(world.shut);

	/* Our FIN is out: the peer has a second for its own. */
	world.echo.now_ms += ECHO_LINGER_MS - 1;
	assert_false(echo_tick(&world.echo, &world.conn));
	world.echo.now_ms += 1;
	assert_true(echo_tick(&world.echo, &world.conn));
	assert_int_equal(echo_next(&world.echo, &world.conn).action, ECHO_CLOSE);
}

static void test_last_look_before_fin(void **state)
{
	const struct scenario scenario = {.bytes = 2, .blocks = 1};
	struct world world;

	(void)state;
	explore_begin();
	world_init(&world, &scenario);
	world.interrupted = true;
	run_to_wait(&world);
	world.echo.draining = true;
	world.echo.now_ms += ECHO_QUIET_MS;
	assert_true(echo_tick(&world.echo, &world.conn));

	world.arrived = 2; /* in the very moment; no event has told of it yet */

	struct echo_step step = echo_next(&world.echo, &world.conn);

	assert_int_equal(step.action, ECHO_RECV);
	world_step(&world, &step);
	step = echo_next(&world.echo, &world.conn);
	assert_int_equal(step.action, ECHO_SEND);
	echo_done(&world.echo, &world.conn, &step, 2);
	run_to_wait(&world);
	assert_false(world.shut); /* it was not quiet after all */
}

/* Not idle and not quiet: what is to be said of a blocked connection is send_timeout's. */
static void test_blocked(void **state)
{
	const struct scenario scenario = {.bytes = 2, .blocks = 1};
	struct world world;

	(void)state;
	explore_begin();
	world_init(&world, &scenario);
	world.interrupted = true;
	world.arrived = 2;
	run_to_wait(&world); /* the send took nothing */
	assert_int_equal(world.echo.blocked, 1);
	world.echo.draining = true;
	world.echo.idle_timeout_ms = 1000;
	world.echo.now_ms += 100000;
	assert_false(echo_tick(&world.echo, &world.conn));

	/* The peer takes a little now and then: too little for a send, but it is alive. */
	world.echo.send_timeout_ms = 5000;
	for (uint32_t unacked = 9000; unacked > 0; unacked -= 1000) {
		world.echo.now_ms += 4999;
		echo_unacked(&world.echo, &world.conn, unacked);
		assert_false(echo_tick(&world.echo, &world.conn));
	}
	world.echo.now_ms += 4999;
	echo_unacked(&world.echo, &world.conn, 1000);
	assert_false(echo_tick(&world.echo, &world.conn));
	world.echo.now_ms += 1;
	assert_true(echo_tick(&world.echo, &world.conn));
	assert_int_equal(echo_next(&world.echo, &world.conn).action, ECHO_RESET);
	echo_close(&world.echo, &world.conn);
	assert_int_equal(world.echo.blocked, 0);
}

/* Bytes that the peer still takes from the kernel's buffer move, though none goes through us. */
static void test_quiet_needs_an_empty_buffer(void **state)
{
	const struct scenario scenario = {.blocks = 1};
	struct world world;

	(void)state;
	explore_begin();
	world_init(&world, &scenario);
	world.interrupted = true;
	run_to_wait(&world);
	world.echo.idle_timeout_ms = 1000;
	world.echo.send_timeout_ms = 5000;
	assert_false(echo_wants_unacked(&world.echo, &world.conn)); /* it costs a system call */
	for (uint32_t unacked = 9; unacked >= 5; unacked--) {
		world.echo.now_ms += 1000;
		assert_true(echo_wants_unacked(&world.echo, &world.conn));
		echo_unacked(&world.echo, &world.conn, unacked);
		assert_false(echo_tick(&world.echo, &world.conn));
	}
	world.echo.now_ms += 1000;
	echo_unacked(&world.echo, &world.conn, 5);
	assert_true(echo_tick(&world.echo, &world.conn));
	run_to_wait(&world);
	assert_true(world.shut);

	/* Not closed before the peer has had what it is owed, or takes nothing for too long. */
	echo_unacked(&world.echo, &world.conn, 6);
	world.echo.now_ms += 4999;
	assert_true(echo_wants_unacked(&world.echo, &world.conn));
	assert_false(echo_tick(&world.echo, &world.conn));
	echo_unacked(&world.echo, &world.conn, 1); /* our FIN alone */
	world.echo.now_ms += ECHO_LINGER_MS;
	assert_true(echo_tick(&world.echo, &world.conn));
	assert_int_equal(echo_next(&world.echo, &world.conn).action, ECHO_CLOSE);
}

static void test_clock_wraps(void **state)
{
	const struct scenario scenario = {.blocks = 1};
	struct world world;

	(void)state;
	explore_begin();
	world_init(&world, &scenario);
	world.echo.idle_timeout_ms = 6000;
	world.conn.stamp_ms = UINT32_MAX - 1000;
	world.echo.now_ms = 4998;
	assert_false(echo_tick(&world.echo, &world.conn));
	world.echo.now_ms = 4999;
	assert_true(echo_tick(&world.echo, &world.conn));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_ways),
		cmocka_unit_test(test_all_ways_urgent),
		cmocka_unit_test(test_all_ways_tagged),
		cmocka_unit_test(test_all_ways_close_after),
		cmocka_unit_test(test_all_ways_reset),
		cmocka_unit_test(test_blocked_is_not_read),
		cmocka_unit_test(test_peeked_stays_in_the_kernel),
		cmocka_unit_test(test_peeked_parts_are_one_message),
		cmocka_unit_test(test_block_goes_back),
		cmocka_unit_test(test_full_blocks),
		cmocka_unit_test(test_idle_timeout),
		cmocka_unit_test(test_last_look_before_fin),
		cmocka_unit_test(test_blocked),
		cmocka_unit_test(test_quiet_needs_an_empty_buffer),
		cmocka_unit_test(test_clock_wraps),
	};

	return cmocka_run_group_tests_name("echo", tests, NULL, NULL);
}
