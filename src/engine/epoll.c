/*
 * "epoll": readiness from a kernel set.
 *
 * Connections are edge-triggered and registered once, for everything: what is known of a socket
 * stands in its record, so the set need never be told again. Listeners are level-triggered, since a
 * worker takes a few clients and leaves the others waiting, and exclusive, so that one client wakes
 * one worker.
 */
#include <errno.h>
#include <sys/epoll.h>

#include "engine/kinds.h"

#define EVENTS_PER_PASS 64

/* Tags of what is no connection: below 2^32, as a connection's generation is never 0. */
#define TAG_LOOK UINT64_C(0xffffffff) /* look_fd; else the number of a listener */

struct epoll_state {
	int set;
	struct epoll_event events[EVENTS_PER_PASS];
	uint64_t others[EVENTS_PER_PASS]; /* tags of those that are no connections */
};

static int epoll_add(struct engine *engine, int fd, uint32_t events, uint64_t tag)
{
	struct epoll_state *state = engine->state;
	struct epoll_event event = {.events = events, .data.u64 = tag};

	return epoll_ctl(state->set, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int epoll_open(struct engine *engine)
{
	struct epoll_state *state = engine->state;

	state->set = epoll_create1(EPOLL_CLOEXEC);
	if (state->set < 0)
		return -errno;

	/* Each write is an edge for every worker; nobody has to read it. */
	return epoll_add(engine, engine->lane->look_fd, EPOLLIN | EPOLLET, TAG_LOOK);
}

static void epoll_unlisten(struct engine *engine)
{
	struct epoll_state *state = engine->state;

	/* ENOENT: it did not wait on that one; EBADF: the lane has given it up. */
	for (size_t i = 0; i < engine->lane->n_listeners; i++)
		(void)epoll_ctl(state->set, EPOLL_CTL_DEL, engine->lane->listeners[i], NULL);
}

static int epoll_listen(struct engine *engine)
{
	int r = 0;

	/*
	 * An exclusive waiter is woken in the order of registration, so adding again is going to
	 * the end of the line. Adding looks at the queue, too: whoever waits there is reported.
	 */
	epoll_unlisten(engine);
	for (size_t i = 0; i < engine->lane->n_listeners && r == 0; i++) {
		if (engine->lane->listeners[i] >= 0)
			r = epoll_add(engine, engine->lane->listeners[i], EPOLLIN | EPOLLEXCLUSIVE,
				      i);
	}
	return r;
}

#define CONN_EVENTS (EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI | EPOLLET)

static uint64_t conn_tag(int fd, uint32_t generation)
{
	return (uint64_t)generation << 32 | (uint32_t)fd;
}

static uint32_t tag_generation(uint64_t tag)
{
	return (uint32_t)(tag >> 32);
}

static int epoll_watch(struct engine *engine, int fd, uint32_t generation)
{
	return epoll_add(engine, fd, CONN_EVENTS, conn_tag(fd, generation));
}

static void epoll_rearm(struct engine *engine, int fd, uint32_t generation)
{
	struct epoll_state *state = engine->state;
	struct epoll_event event = {.events = CONN_EVENTS, .data.u64 = conn_tag(fd, generation)};

	/* Changing a registration reports at once what is there, as an edge would. */
	if (epoll_ctl(state->set, EPOLL_CTL_MOD, fd, &event) < 0)
		engine->failed = -errno;
}

static unsigned conn_flags(uint32_t events)
{
	unsigned flags = 0;

	if (events & EPOLLIN)
		flags |= CONN_READABLE;
	if (events & EPOLLOUT)
		flags |= CONN_WRITABLE;
	if (events & (EPOLLRDHUP | EPOLLPRI))
		flags |= CONN_READABLE | CONN_DRAIN;
	/* An error is told by whichever call comes next. */
	if (events & (EPOLLERR | EPOLLHUP))
		flags |= CONN_READABLE | CONN_WRITABLE | CONN_DRAIN;
	return flags;
}

static int epoll_pass(struct engine *engine, int timeout_ms)
{
	struct epoll_state *state = engine->state;
	size_t others = 0;

	engine_waits(engine);

	int n = epoll_pwait(state->set, state->events, EVENTS_PER_PASS, timeout_ms,
			    &engine->wait_mask);
	int error = errno;

	engine_wakes(engine);
	if (n < 0)
		return error == EINTR ? 0 : -error;
	for (int i = 0; i < n; i++) {
		const struct epoll_event *event = &state->events[i];
		uint32_t generation = tag_generation(event->data.u64);

		if (generation > 0)
			engine_serve(engine, (int)(uint32_t)event->data.u64, generation,
				     conn_flags(event->events));
		else
			state->others[others++] = event->data.u64;
	}
	for (size_t i = 0; i < others; i++) {
		if (state->others[i] == TAG_LOOK)
			engine_look(engine);
		else
			engine_accept(engine, (size_t)state->others[i]);
	}
	return 0;
}

const struct engine_kind engine_epoll = {
	.name = "epoll",
	.state_bytes = sizeof(struct epoll_state),
	.open = epoll_open,
	.listen = epoll_listen,
	.unlisten = epoll_unlisten,
	.watch = epoll_watch,
	.rearm = epoll_rearm,
	.pass = epoll_pass,
};
