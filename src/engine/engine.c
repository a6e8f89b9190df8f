#include "engine/engine.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/units.h"
#include "engine/kinds.h"
#include "net/sockinfo.h"

#define ACCEPTS_PER_PASS  4U  /* from one listener: the rest is left to whoever is free */
#define ACCEPTS_PER_DRAIN 64U /* from one listener, by a worker that is about to leave it */
#define ACCEPTS_PER_TURN  4U  /* then the worker goes behind the others that wait */
#define READS_PER_TURN    4U  /* of one connection: 256 KiB to be echoed, then the others */

#define SWEEP_MS        1000 /* idle and blocked connections */
#define SWEEP_LINGER_MS 250
#define SWEEP_DRAIN_MS  50

const struct engine_kind *const engine_kinds[] = {
	&engine_epoll,
	NULL,
};

const struct engine_kind *engine_find(const char *name)
{
	if (strcmp(name, "auto") == 0)
		return engine_kinds[0];
	for (const struct engine_kind *const *kind = engine_kinds; *kind; kind++) {
		if (strcmp((*kind)->name, name) == 0)
			return *kind;
	}
	return NULL;
}

int engine_open(struct engine *engine, const struct engine_kind *kind,
		const struct engine_setup *setup)
{
	const struct group_settings *group = setup->group;
	struct lane *lane = setup->lane;
	uint32_t reserved = (uint32_t)lane->n_listeners + LANE_SPARE_FDS;

	assert(lane->shape.conns > reserved);
	*engine = (struct engine){
		.kind = kind,
		.lane = lane,
		.worker = setup->owner.worker,
		.line = lane_worker(lane, setup->owner.worker),
		.name = setup->name,
		.table = lane_table(lane, setup->owner.worker),
		.echo = {.pool = &lane->pool,
			 .owner = setup->owner,
			 .own = pool_own(&lane->pool, setup->owner.worker),
			 .block = POOL_NONE,
			 .now_ms = clock_coarse_ms(),
			 .idle_timeout_ms = (uint32_t)(group->idle_timeout_ns / NS_PER_MS),
			 .send_timeout_ms = (uint32_t)(group->send_timeout_ns / NS_PER_MS),
			 .close_after = group->echo_close_after,
			 .tag = setup->tag,
			 .tag_length = (uint8_t)(group->echo_tag ? strlen(setup->tag) : 0)},
		.acceptor = {.lane = lane,
			     .worker = setup->owner.worker,
			     .name = setup->name,
			     .capacity = lane->shape.conns - reserved},
		.faults = setup->faults,
		.rank = setup->rank,
	};
	engine->swept_ms = engine->echo.now_ms;
	(void)sigprocmask(SIG_SETMASK, NULL, &engine->wait_mask);
	sigdelset(&engine->wait_mask, SIGUSR2);

	engine->state = calloc(1, kind->state_bytes);
	if (!engine->state)
		return -ENOMEM;
	return kind->open(engine);
}

/* Where the master can see it. */
static void engine_say_pause(const struct engine *engine)
{
	atomic_store_explicit(&engine->line->pause, engine->acceptor.pause, memory_order_relaxed);
}

int engine_listen(struct engine *engine)
{
	int r = engine->kind->listen(engine);

	engine->in_turn = 0;
	engine->listening = r == 0;
	if (r == 0) {
		engine->acceptor.pause = PAUSE_NONE;
		engine_say_pause(engine);
	}
	return r;
}

static void engine_unlisten(struct engine *engine)
{
	if (engine->listening)
		engine->kind->unlisten(engine);
	engine->listening = false;
}

void engine_retire(struct engine *engine)
{
	engine_unlisten(engine);
	engine->acceptor.pause = PAUSE_NONE; /* nothing brings it back by itself */
	engine_say_pause(engine);
}

void engine_leave(struct engine *engine)
{
	struct lane *lane = engine->lane;

	engine_retire(engine);

	/*
	 * Only this process's descriptors: the queue is there while the master has its own, and
	 * goes with that one, however long the last connection takes.
	 */
	for (size_t i = 0; i < lane->n_listeners; i++)
		lane->listeners[i] = fd_close(lane->listeners[i]);
}

/*
 * Takes a place behind the others; whoever waits in the queue is reported at once. If the host has
 * no place left (fs.epoll.max_user_watches), later: the connections that are there go on.
 */
static void engine_listen_again(struct engine *engine)
{
	int r = engine_listen(engine);

	if (r == 0)
		return;
	engine->kind->unlisten(engine);
	acceptor_back_off(&engine->acceptor, -r, engine->held, engine->echo.now_ms);
	engine_say_pause(engine);
}

/* Goes back to the listeners after a pause. */
static void engine_resume(struct engine *engine)
{
	engine_listen_again(engine);
	if (engine->rank == ENGINE_FIRST)
		lane_tell(engine->lane); /* so that the others go behind it */
}

void engine_listen_anew(struct engine *engine)
{
	/* Who can take nobody stays away, until room or time brings it back. */
	if (engine->acceptor.pause == PAUSE_NONE)
		engine_resume(engine);
}

/*
 * Leaves the listeners because it cannot take whoever waits there. The kernel has woken this worker
 * for that client, and will wake nobody else for it.
 */
static void engine_pause(struct engine *engine)
{
	bool listened = engine->listening;

	engine_unlisten(engine);
	engine_say_pause(engine);
	if (listened && engine->rank != ENGINE_ALONE && engine->acceptor.pause != PAUSE_ROOM)
		lane_tell(engine->lane);
}

void engine_look(struct engine *engine)
{
	/* Not on an edge that is this worker's own, or was for room that others have taken. */
	if (engine->acceptor.pause == PAUSE_ROOM && lane_has_room(engine->lane))
		engine_resume(engine);
	else if (engine->listening &&
		 (engine->rank == ENGINE_EQUAL || engine->rank == ENGINE_BEHIND))
		engine_listen_again(engine);
}

/* The end of a connection. Its descriptor goes last: from then on its record may be taken again. */
static void engine_end(struct engine *engine, int fd)
{
	struct conn *conn = &engine->table.conns[fd];

	echo_close(&engine->echo, conn);
	fd_close(fd);
	engine->held--;
	if (engine->probing)
		return;
	lane_release(engine->lane, engine->worker);
	if (engine->acceptor.pause == PAUSE_FULL)
		engine_resume(engine);
}

static ssize_t step_do(int fd, const struct echo_step *step)
{
	ssize_t r = 0;

	switch (step->action) {
	case ECHO_RECV:
	case ECHO_DISCARD:
		r = recv(fd, step->data, step->length, step->flags);
		break;
	case ECHO_SEND:
		r = send(fd, step->data, step->length, step->flags);
		break;
	case ECHO_SHUTDOWN:
		r = shutdown(fd, SHUT_WR);
		break;
	case ECHO_WAIT:
	case ECHO_CLOSE:
	case ECHO_RESET:
		assert(!"not a system call");
	}
	return r < 0 ? -errno : r;
}

enum turn_end {
	TURN_WAITS, /* for its socket */
	TURN_SPENT, /* it has had its share, and perhaps there is more */
	TURN_CLOSED,
};

/* What a step has come to, for the counters; and the moment for a fault that is to be rehearsed. */
static void engine_count(struct engine *engine, const struct echo_step *step, ssize_t result)
{
	if (result <= 0 || engine->probing)
		return;
	if (step->action == ECHO_SEND)
		counter_add(&engine->line->bytes_out, (uint64_t)result);
	else if (!(step->flags &
		   MSG_PEEK)) /* what is only looked at is taken by a step of its own */
		counter_add(&engine->line->bytes_in, (uint64_t)result);
	if (step->action == ECHO_RECV) {
		counter_add(&engine->line->messages, 1);
		fault_may_strike(&engine->faults, FAULT_ON_MESSAGE);
	}
}

/* One connection's turn. */
static enum turn_end engine_turn_in_hand(struct engine *engine, int fd)
{
	static const struct linger no_linger = {.l_onoff = 1, .l_linger = 0};
	struct conn *conn = &engine->table.conns[fd];
	unsigned reads = 0;

	while (reads < READS_PER_TURN || echo_in_hand(&engine->echo, conn)) {
		struct echo_step step = echo_next(&engine->echo, conn);

		if (step.action == ECHO_WAIT)
			return TURN_WAITS;
		if (step.action == ECHO_RESET)
			(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &no_linger, sizeof(no_linger));
		if (step.action == ECHO_CLOSE || step.action == ECHO_RESET) {
			engine_end(engine, fd);
			return TURN_CLOSED;
		}
		if (step.action == ECHO_RECV || step.action == ECHO_DISCARD)
			reads++;

		ssize_t result = step_do(fd, &step);

		echo_done(&engine->echo, conn, &step, result);
		engine_count(engine, &step, result);
	}
	return TURN_SPENT;
}

/* The same, where the master can see it. */
static enum turn_end engine_turn(struct engine *engine, int fd)
{
	_Atomic uint32_t *in_hand = &engine->line->fd_in_hand;

	atomic_store_explicit(in_hand, (uint32_t)fd, memory_order_relaxed);
	counter_add(&engine->line->beats, 1);

	enum turn_end end = engine_turn_in_hand(engine, fd);

	atomic_store_explicit(in_hand, 0, memory_order_relaxed);
	return end;
}

/* A turn of a connection that the engine watches. */
static void engine_turn_again(struct engine *engine, int fd)
{
	if (engine_turn(engine, fd) == TURN_SPENT)
		engine->kind->rearm(engine, fd, conn_generation(&engine->table.conns[fd]));
}

void engine_serve(struct engine *engine, int fd, uint32_t generation, unsigned flags)
{
	struct conn *conn = &engine->table.conns[fd];

	/* Of an earlier connection with this descriptor, which ended in the same pass. */
	if (!conn_is_open(conn) || conn_generation(conn) != generation)
		return;
	echo_event(&engine->echo, conn, flags);
	engine_turn_again(engine, fd);
}

void engine_waits(struct engine *engine)
{
	atomic_store_explicit(&engine->line->busy_since_ns, 0, memory_order_release);
}

void engine_wakes(struct engine *engine)
{
	uint64_t now_ns = clock_coarse_ns();

	engine->echo.now_ms = (uint32_t)(now_ns / NS_PER_MS);
	atomic_store_explicit(&engine->line->busy_since_ns, now_ns, memory_order_release);
}

/* While clients wait for too long: how long this one has, which was accepted just now. */
static void engine_measure(struct engine *engine, int fd)
{
	const struct scoreboard *board = engine->lane->board;
	uint32_t lateness = atomic_load_explicit(&board->lateness, memory_order_relaxed);
	struct worker_line *line = engine->line;

	if (lateness % 2 == 0)
		return;

	uint32_t waited_ms = sockinfo_quiet_ms(fd);

	if (waited_ms < atomic_load_explicit(&board->late_after_ms, memory_order_relaxed))
		return;
	if (atomic_load_explicit(&line->lateness, memory_order_relaxed) != lateness) {
		atomic_store_explicit(&line->late_clients, 0, memory_order_relaxed);
		atomic_store_explicit(&line->late_worst_ms, 0, memory_order_relaxed);
		atomic_store_explicit(&line->lateness, lateness, memory_order_release);
	}
	if (waited_ms > atomic_load_explicit(&line->late_worst_ms, memory_order_relaxed))
		atomic_store_explicit(&line->late_worst_ms, waited_ms, memory_order_relaxed);
	atomic_fetch_add_explicit(&line->late_clients, 1, memory_order_relaxed);
}

enum adoption {
	ADOPTED,         /* and served, if it had said something */
	ADOPTED_QUIET,   /* it has said nothing yet */
	ADOPTION_FAILED, /* it had to be ended, because the host refuses to have it watched */
};

/* Takes the record of a connection. Returns its generation. */
static uint32_t engine_begin(struct engine *engine, int fd)
{
	/* The lowest free number is given out, and capacity keeps below the table's size. */
	assert((uint32_t)fd < engine->table.n_conns);

	struct conn *conn = &engine->table.conns[fd];
	uint32_t generation = conn_open(conn);

	echo_open(&engine->echo, conn);
	engine->held++;
	if ((uint32_t)fd >= engine->high_fd)
		engine->high_fd = (uint32_t)fd + 1;
	return generation;
}

int engine_probe(struct engine *engine, int fd)
{
	uint32_t generation = engine_begin(engine, fd);
	int r = engine->kind->watch(engine, fd, generation);

	engine->probing = true;
	while (r == 0 && engine->held > 0)
		r = engine_pass(engine);
	engine->probing = false;
	return r;
}

/* Takes an accepted connection in, and serves at once what is there already. */
static enum adoption engine_adopt(struct engine *engine, int fd)
{
	struct conn *conn = &engine->table.conns[fd];
	uint32_t generation = engine_begin(engine, fd);

	/*
	 * Served before it is watched: the first bytes are usually there, and a client that leaves
	 * again at once is never watched at all. Watching reports what has come since, as rearm()
	 * does.
	 */
	if (engine_turn(engine, fd) == TURN_CLOSED)
		return ADOPTED;

	int r = engine->kind->watch(engine, fd, generation);

	if (r < 0) {
		acceptor_back_off(&engine->acceptor, -r, engine->held, engine->echo.now_ms);
		engine_end(engine, fd);
		return ADOPTION_FAILED;
	}
	return conn->in > 0 ? ADOPTED : ADOPTED_QUIET;
}

/*
 * Accepts at most `most` clients of a listener, each served before the next; `only_talkers`: and
 * none behind one that has said nothing yet. Its first message comes in a moment, and a worker that
 * hangs on that must not have taken others in whom it cannot serve.
 */
static enum accept_outcome engine_accept_some(struct engine *engine, size_t listener, unsigned most,
					      bool only_talkers)
{
	struct lane *lane = engine->lane;
	enum accept_outcome outcome = ACCEPT_TAKEN;

	for (unsigned i = 0; i < most; i++) {
		int fd;

		outcome = acceptor_take(&engine->acceptor, lane->listeners[listener], engine->held,
					engine->echo.now_ms, &fd);
		switch (outcome) {
		case ACCEPT_TAKEN:
			lane_count_accept(lane, engine->worker, listener);
			engine_measure(engine, fd);
			fault_may_strike(&engine->faults, FAULT_ON_ACCEPT);
			engine->in_turn++;
			switch (engine_adopt(engine, fd)) {
			case ADOPTED:
				break;
			case ADOPTED_QUIET:
				if (only_talkers)
					return outcome;
				break;
			case ADOPTION_FAILED:
				engine_pause(engine);
				return ACCEPT_PAUSED;
			}
			break;
		case ACCEPT_SKIPPED:
			break;
		case ACCEPT_FAILED:
			engine->failed = fd;
			return outcome;
		case ACCEPT_PAUSED:
			engine_pause(engine);
			return outcome;
		case ACCEPT_EMPTY:
			return outcome;
		}
	}
	return outcome;
}

/*
 * The kernel wakes the one who has waited longest in its queue of waiters, and leaves it in front:
 * without turns the first worker would get every client as long as it is quick. A worker that is
 * nearly full goes behind the others after every client.
 */
static bool turn_is_over(const struct engine *engine)
{
	uint32_t capacity = engine->acceptor.capacity;

	if (engine->rank != ENGINE_EQUAL || !engine->listening || engine->in_turn == 0)
		return false;
	return engine->in_turn >= ACCEPTS_PER_TURN || engine->held >= capacity - capacity / 8;
}

void engine_accept(struct engine *engine, size_t listener)
{
	/* An event from before a pause that began in the same pass. */
	if (!engine->listening)
		return;
	counter_add(&engine->line->beats, 1);
	engine_accept_some(engine, listener, ACCEPTS_PER_PASS, true);
	if (turn_is_over(engine))
		engine_listen_again(engine);
}

bool engine_empty_queues(struct engine *engine)
{
	bool empty = true;

	for (size_t i = 0; i < engine->lane->n_listeners; i++) {
		if (engine->lane->listeners[i] >= 0 &&
		    engine_accept_some(engine, i, ACCEPTS_PER_DRAIN, false) != ACCEPT_EMPTY)
			empty = false;
	}
	return empty;
}

void engine_drain(struct engine *engine)
{
	engine->echo.draining = true;
}

bool engine_give_up(struct engine *engine)
{
	struct lane *lane = engine->lane;
	bool listened = engine->listening, changed = false;

	for (size_t i = 0; i < lane->n_listeners; i++) {
		if (lane->listeners[i] < 0 || !atomic_load(&lane->given_up[i]))
			continue;
		changed = true;
		/* This one may be the only one that was woken for who waits there. */
		(void)engine_accept_some(engine, i, ACCEPTS_PER_DRAIN, false);
		/* One that ended at once may have brought it back to the listeners from a pause. */
		listened |= engine->listening;
		engine_unlisten(engine);
		lane->listeners[i] = fd_close(lane->listeners[i]);
	}
	if (changed && listened && lane_has_listener(lane))
		engine_listen_again(engine);
	return changed;
}

/* How often the clock is looked at for all connections; -1: it need not be. */
static int sweep_interval_ms(const struct engine *engine)
{
	if (engine->echo.draining)
		return SWEEP_DRAIN_MS;
	if (engine->echo.shut > 0)
		return SWEEP_LINGER_MS;
	if (engine->echo.idle_timeout_ms > 0 && engine->held > 0)
		return SWEEP_MS;
	if (engine->echo.send_timeout_ms > 0 && engine->echo.blocked > 0)
		return SWEEP_MS;
	return -1;
}

/* Bytes that the peer has not acknowledged yet. */
static uint32_t send_buffer_bytes(int fd)
{
	int bytes = 0;

	(void)ioctl(fd, SIOCOUTQ, &bytes);
	return (uint32_t)bytes;
}

static void engine_sweep(struct engine *engine)
{
	engine->swept_ms = engine->echo.now_ms;
	for (uint32_t fd = 0; fd < engine->high_fd; fd++) {
		struct conn *conn = &engine->table.conns[fd];

		if (!conn_is_open(conn))
			continue;
		if (echo_wants_unacked(&engine->echo, conn))
			echo_unacked(&engine->echo, conn, send_buffer_bytes((int)fd));
		if (echo_tick(&engine->echo, conn))
			engine_turn_again(engine, (int)fd);
	}
}

/* Milliseconds until the clock makes something due, -1: it never does. */
static int engine_timeout_ms(const struct engine *engine, uint32_t now_ms)
{
	int interval_ms = sweep_interval_ms(engine);
	int retry_ms = acceptor_timeout_ms(&engine->acceptor, now_ms);

	if (interval_ms < 0)
		return retry_ms;

	/* It may have been weeks since the last one. */
	uint32_t since_ms = now_ms - engine->swept_ms;
	int sweep_ms = since_ms < (uint32_t)interval_ms ? interval_ms - (int)since_ms : 0;

	return retry_ms >= 0 && retry_ms < sweep_ms ? retry_ms : sweep_ms;
}

int engine_pass(struct engine *engine)
{
	int r = engine->kind->pass(engine, engine_timeout_ms(engine, clock_coarse_ms()));

	if (r < 0)
		return r;

	int interval_ms = sweep_interval_ms(engine);

	engine->echo.now_ms = clock_coarse_ms();
	if (interval_ms >= 0 && engine->echo.now_ms - engine->swept_ms >= (uint32_t)interval_ms)
		engine_sweep(engine);
	if (acceptor_due(&engine->acceptor, engine->echo.now_ms))
		engine_resume(engine);
	return engine->failed;
}
