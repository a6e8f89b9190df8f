#include "lane/pool.h"

#define TAKE_LOOKS 64U

static uint64_t owner_word(struct pool_owner owner)
{
	return ((uint64_t)owner.worker + 1) << 32 | owner.generation;
}

uint32_t pool_take(struct pool *pool, struct pool_owner owner)
{
	uint32_t shared = pool->n_blocks - pool->n_own;

	for (uint32_t i = 0; i < shared && i < TAKE_LOOKS; i++) {
		uint32_t block = pool->cursor;
		uint64_t expected = 0;

		pool->cursor = block + 1 < pool->n_blocks ? block + 1 : pool->n_own;

		/*
		 * Acquire: what the one before did to the block comes before what we do. The plain
		 * look first keeps the owners' cache line shared while the pool is full.
		 */
		if (atomic_load_explicit(&pool->owner[block], memory_order_relaxed) == 0 &&
		    atomic_compare_exchange_strong_explicit(&pool->owner[block], &expected,
							    owner_word(owner), memory_order_acquire,
							    memory_order_relaxed))
			return block;
	}
	return POOL_NONE;
}

void pool_put(struct pool *pool, uint32_t block)
{
	assert(block >= pool->n_own && block < pool->n_blocks);

	/* Release: the next owner sees the block as we left it. */
	atomic_store_explicit(&pool->owner[block], 0, memory_order_release);

	/* Used again first: few pages are ever touched, and they are warm. */
	pool->cursor = block;
}

uint32_t pool_sweep(struct pool *pool, struct pool_owner dead)
{
	uint32_t swept = 0;

	for (uint32_t block = pool->n_own; block < pool->n_blocks; block++) {
		uint64_t expected = owner_word(dead);

		if (atomic_compare_exchange_strong(&pool->owner[block], &expected, 0))
			swept++;
	}
	return swept;
}
