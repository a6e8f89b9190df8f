#include "lane/lane.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "base/fd.h"

#define PAGE_BYTES ((size_t)4096) /* alignment of the parts; a larger page does no harm */

static size_t page_align(size_t bytes)
{
	return (bytes + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
}

/* Where each part of the mapping begins; `end` is its size. */
struct lane_layout {
	size_t accepts, owners, tables, blocks, end;
};

static size_t table_bytes(const struct lane_shape *shape)
{
	return page_align(shape->conns * sizeof(struct conn));
}

/* Counts of a worker: whole cache lines of its own. */
static size_t accepts_stride(size_t n_listeners)
{
	return (n_listeners + 7) & ~(size_t)7;
}

static struct lane_layout lane_layout(const struct lane_shape *shape, size_t n_listeners)
{
	struct lane_layout at;

	at.accepts =
		page_align(sizeof(struct scoreboard) + shape->workers * sizeof(struct worker_line));
	at.owners = at.accepts + page_align((shape->workers + 1) * accepts_stride(n_listeners) *
					    sizeof(_Atomic uint64_t));
	at.tables = at.owners + page_align(shape->blocks * sizeof(_Atomic uint64_t));
	at.blocks = at.tables + shape->workers * table_bytes(shape);
	at.end = at.blocks + shape->blocks * POOL_BLOCK_BYTES;
	return at;
}

int lane_open(struct lane *lane, const char *group, unsigned number, const struct lane_shape *shape,
	      size_t n_listeners, int notice_fd)
{
	struct lane_layout at = lane_layout(shape, n_listeners);

	*lane = (struct lane){
		.number = number,
		.shape = *shape,
		.look_fd = -1,
		.notice_fd = notice_fd,
	};
	(void)snprintf(lane->name, sizeof(lane->name), "%s/%u", group, number);

	lane->listeners = malloc(n_listeners * sizeof(*lane->listeners));
	if (!lane->listeners)
		return -ENOMEM;
	for (size_t i = 0; i < n_listeners; i++)
		lane->listeners[i] = -1;
	lane->n_listeners = n_listeners;

	/* Not reserved: buffer_memory is a bound, not a need. */
	void *base = mmap(NULL, at.end, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (base == MAP_FAILED) {
		int r = -errno;

		lane_close(lane);
		return r;
	}
	lane->board = base;
	lane->size_bytes = at.end;
	lane->tables = (struct conn *)((char *)base + at.tables);
	lane->accepts = (_Atomic uint64_t *)((char *)base + at.accepts);
	lane->given_up = lane->accepts + shape->workers * accepts_stride(n_listeners);
	lane->pool = (struct pool){
		.owner = (_Atomic uint64_t *)((char *)base + at.owners),
		.blocks = (uint8_t *)base + at.blocks,
		.n_blocks = shape->blocks,
		.n_own = shape->workers,
		.cursor = shape->workers,
	};

	/* A core dump has no use for clients' bytes. */
	(void)madvise(lane->pool.blocks, shape->blocks * POOL_BLOCK_BYTES, MADV_DONTDUMP);

	lane->look_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (lane->look_fd < 0) {
		int r = -errno;

		lane_close(lane);
		return r;
	}
	return 0;
}

void lane_close(struct lane *lane)
{
	for (size_t i = 0; i < lane->n_listeners; i++)
		fd_close(lane->listeners[i]);
	free(lane->listeners);
	if (lane->board) {
		(void)munmap(lane->board, lane->size_bytes);
		fd_close(lane->look_fd);
	}
	*lane = (struct lane){.look_fd = -1, .notice_fd = -1};
}

bool lane_has_listener(const struct lane *lane)
{
	for (size_t i = 0; i < lane->n_listeners; i++) {
		if (lane->listeners[i] >= 0)
			return true;
	}
	return false;
}

bool lane_is_served(const struct lane *lane)
{
	for (size_t i = 0; i < lane->n_listeners; i++) {
		if (lane->listeners[i] >= 0 && !atomic_load(&lane->given_up[i]))
			return true;
	}
	return false;
}

struct conn_table lane_table(const struct lane *lane, uint32_t worker)
{
	char *tables = (char *)lane->tables;

	assert(worker < lane->shape.workers);
	return (struct conn_table){
		.conns = (struct conn *)(tables + worker * table_bytes(&lane->shape)),
		.n_conns = lane->shape.conns,
	};
}

static _Atomic uint64_t *accepts_of(const struct lane *lane, uint32_t worker, size_t listener)
{
	return &lane->accepts[worker * accepts_stride(lane->n_listeners) + listener];
}

void lane_count_accept(struct lane *lane, uint32_t worker, size_t listener)
{
	counter_add(accepts_of(lane, worker, listener), 1);

	/*
	 * The connection was counted before this look; the master says first that it goes to sleep
	 * and counts then (all of it sequentially consistent): one of the two sees the other.
	 */
	if (atomic_load(&lane->board->watched) == 0)
		(void)eventfd_write(lane->notice_fd, 1);
}

uint64_t lane_accepted(const struct lane *lane, size_t listener)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < lane->shape.workers; i++)
		sum += atomic_load_explicit(accepts_of(lane, i, listener), memory_order_relaxed);
	return sum;
}

uint64_t lane_accepted_by(const struct lane *lane, uint32_t worker)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < lane->n_listeners; i++)
		sum += atomic_load_explicit(accepts_of(lane, worker, i), memory_order_relaxed);
	return sum;
}

uint32_t lane_connections(const struct lane *lane)
{
	uint32_t sum = 0; /* never too low: each worker adds its own before it adds up */

	for (uint32_t i = 0; i < lane->shape.workers; i++)
		sum += atomic_load(&lane_worker(lane, i)->connections);
	return sum;
}

void lane_tell(const struct lane *lane)
{
	/* Fails only if 2^64 - 2 writes came before; all wait for the edge, nobody reads. */
	(void)eventfd_write(lane->look_fd, 1);
}

bool lane_has_room(struct lane *lane)
{
	/*
	 * Say so first, look then: whoever ends a connection counts first and looks for the wish
	 * then, so one of the two sees the other (all of it sequentially consistent).
	 */
	atomic_store(&lane->board->room_wanted, 1);
	return lane_connections(lane) < lane->shape.max_connections;
}

bool lane_reserve(struct lane *lane, uint32_t worker)
{
	_Atomic uint32_t *own = &lane_worker(lane, worker)->connections;

	atomic_fetch_add(own, 1);
	if (lane_connections(lane) <= lane->shape.max_connections)
		return true;

	atomic_fetch_sub(own, 1);
	if (!lane_has_room(lane))
		return false;
	atomic_fetch_add(own, 1);
	if (lane_connections(lane) <= lane->shape.max_connections)
		return true;
	lane_release(lane, worker);
	return false;
}

void lane_release(struct lane *lane, uint32_t worker)
{
	atomic_fetch_sub(&lane_worker(lane, worker)->connections, 1);
	if (atomic_load(&lane->board->room_wanted) == 0)
		return;
	atomic_store(&lane->board->room_wanted, 0);
	lane_tell(lane);
}

void lane_bury(struct lane *lane, struct pool_owner dead)
{
	struct conn_table table = lane_table(lane, dead.worker);
	struct worker_line *line = lane_worker(lane, dead.worker);

	/*
	 * The records of the dead are dropped with their pages. Generations start again at 0: no
	 * event of the dead process can reach another, its epoll set went with it.
	 */
	if (madvise(table.conns, table_bytes(&lane->shape), MADV_REMOVE) < 0)
		memset(table.conns, 0, table.n_conns * sizeof(*table.conns));
	pool_sweep(&lane->pool, dead);
	atomic_store(&line->phase, WORKER_GONE);
	atomic_store(&line->connections, 0);
	atomic_store(&line->pause, PAUSE_NONE);
	atomic_store(&line->busy_since_ns, 0);
	atomic_store(&line->fd_in_hand, 0);

	/*
	 * It may have died between counting a connection off and telling so, or between being woken
	 * for a client and taking it: the kernel wakes nobody else for that one.
	 */
	lane_tell(lane);
}
