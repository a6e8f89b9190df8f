/*
 * The account that all processes but the master run as: key `user`.
 */
#ifndef LANED_WORKER_ACCOUNT_H
#define LANED_WORKER_ACCOUNT_H

#include <stdbool.h>
#include <sys/types.h>

struct account {
	bool change; /* false: stay who we are */
	uid_t uid;
	gid_t gid;
	gid_t *groups; /* supplementary ones */
	int n_groups;
};

/*
 * Looks an account up, in the master and once: what this opens must not end up in a worker. "" and a
 * process that is not root: no change. Returns 0 or -errno: -ENOENT (no such account), -EPERM (without
 * CAP_KILL processes of another account could be neither told anything nor ended, not even by the
 * kernel when the master dies).
 */
int account_find(const char *user, struct account *ret);

/* Releases what account_find() has filled. */
void account_fini(struct account *account);

/* Becomes the account, for good. Returns 0 or -errno; then the process must end. */
int account_become(const struct account *account);

#endif
