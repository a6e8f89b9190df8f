/*
 * The pool: a lane's buffer memory in blocks of 64 KiB, shared by its workers.
 *
 * The first blocks belong to the workers by number, one each, for good: a worker can always read,
 * however many connections hold blocks because their peers do not read. All others are taken and
 * put back. The owner word of a block names the worker and the generation of the process that took
 * it, so that blocks of a dead process can be told from those of its replacement; taking is a
 * compare-and-swap on that word, and nothing links blocks to each other: a process may be killed
 * between any two instructions and leaves nothing half done.
 */
#ifndef LANED_LANE_POOL_H
#define LANED_LANE_POOL_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define POOL_BLOCK_BYTES ((size_t)65536)
#define POOL_NONE        UINT32_MAX /* no block */

/* A place and the process in it: who owns a block. */
struct pool_owner {
	uint32_t worker;
	uint32_t generation;
};

/* One process's view; `owner` and `blocks` lie in the lane's shared mapping. */
struct pool {
	/*
	 * 0: free. Else worker + 1 in the upper half, generation in the lower. Written by whoever
	 * takes a free block, then only by the owner, or by the master once the owner is dead.
	 */
	_Atomic uint64_t *owner;
	uint8_t *blocks;
	uint32_t n_blocks;
	uint32_t n_own;  /* the first ones: the workers' own */
	uint32_t cursor; /* where this process looks first */
};

/* The number of a worker's own block. */
static inline uint32_t pool_own(const struct pool *pool, uint32_t worker)
{
	assert(worker < pool->n_own);
	return worker;
}

/* Where its POOL_BLOCK_BYTES are. */
static inline uint8_t *pool_bytes(const struct pool *pool, uint32_t block)
{
	return pool->blocks + (size_t)block * POOL_BLOCK_BYTES;
}

/*
 * Takes a free block. Looks at a bounded number of blocks, going on from where it stopped, so a
 * full pool costs little and a free block is found a few calls later at worst. POOL_NONE: none
 * found.
 */
uint32_t pool_take(struct pool *pool, struct pool_owner owner);

/* Puts a block back that pool_take() gave to this process. */
void pool_put(struct pool *pool, uint32_t block);

/* Frees all that a dead process had taken. Only once it is known to be dead. Returns how many. */
uint32_t pool_sweep(struct pool *pool, struct pool_owner dead);

#endif
