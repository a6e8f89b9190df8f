/* The pool of blocks: taking, putting back, and what a dead process leaves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lane/pool.h"

#define MANY 1000U

static _Atomic uint64_t owners[MANY];

static struct pool pool_of(uint32_t n_blocks, uint32_t n_own)
{
	memset((void *)owners, 0, sizeof(owners));
	return (struct pool){
		.owner = owners, .n_blocks = n_blocks, .n_own = n_own, .cursor = n_own};
}

static void test_own_blocks_are_never_given(void **state)
{
	struct pool pool = pool_of(5, 3);
	struct pool_owner me = {.worker = 1, .generation = 1};

	(void)state;
	assert_int_equal(pool_own(&pool, 2), 2);
	assert_int_equal(pool_take(&pool, me), 3);
	assert_int_equal(pool_take(&pool, me), 4);
	assert_int_equal(pool_take(&pool, me), POOL_NONE);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(owners[i], 0);
}

static void test_last_put_is_first_taken(void **state)
{
	struct pool pool = pool_of(10, 1);
	struct pool_owner me = {.worker = 0, .generation = 1};

	(void)state;
	for (int i = 0; i < 5; i++)
		pool_take(&pool, me);
	pool_put(&pool, 2);
	assert_int_equal(pool_take(&pool, me), 2);
}

/* One free block among very many is found, though each call looks at a few only. */
static void test_a_free_block_is_found(void **state)
{
	struct pool pool = pool_of(MANY, 1);
	struct pool_owner me = {.worker = 0, .generation = 1},
			  other = {.worker = 1, .generation = 1};
	uint32_t taken = 0;

	(void)state;
	while (pool_take(&pool, me) != POOL_NONE)
		taken++;
	assert_int_equal(taken, MANY - 1);

	struct pool view = pool; /* another process's */

	pool_put(&view, MANY / 2);
	view.cursor = 1;

	uint32_t found = POOL_NONE;

	for (unsigned calls = 0; found == POOL_NONE && calls < MANY; calls++)
		found = pool_take(&pool, other);
	assert_int_equal(found, MANY / 2);
}

static void test_sweep_takes_the_dead_generation_only(void **state)
{
	struct pool pool = pool_of(20, 2);
	struct pool_owner dead = {.worker = 1, .generation = 7};
	struct pool_owner next = {.worker = 1, .generation = 8};
	struct pool_owner peer = {.worker = 0, .generation = 7};

	(void)state;

	uint32_t a = pool_take(&pool, dead), b = pool_take(&pool, next);
	uint32_t c = pool_take(&pool, peer), d = pool_take(&pool, dead);

	assert_int_equal(pool_sweep(&pool, dead), 2);
	assert_int_equal(owners[a], 0);
	assert_int_equal(owners[d], 0);
	assert_int_not_equal(owners[b], 0);
	assert_int_not_equal(owners[c], 0);
	assert_int_equal(pool_sweep(&pool, dead), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own_blocks_are_never_given),
		cmocka_unit_test(test_last_put_is_first_taken),
		cmocka_unit_test(test_a_free_block_is_found),
		cmocka_unit_test(test_sweep_takes_the_dead_generation_only),
	};

	return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
