#include "worker/account.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

int account_find(const char *user, struct account *ret)
{
	*ret = (struct account){0};
	if (user[0] == '\0' || geteuid() != 0)
		return 0;

	errno = 0;

	const struct passwd *entry = getpwnam(user);

	if (!entry)
		return errno == 0 ? -ENOENT : -errno;

	ret->uid = entry->pw_uid;
	ret->gid = entry->pw_gid;

	/* The first call fails, and says how many there are (getgrouplist(3)). */
	(void)getgrouplist(user, entry->pw_gid, NULL, &ret->n_groups);
	ret->groups = calloc((size_t)ret->n_groups + 1, sizeof(*ret->groups));
	if (!ret->groups)
		return -ENOMEM;
	if (getgrouplist(user, entry->pw_gid, ret->groups, &ret->n_groups) < 0)
		return -EAGAIN; /* the group file changed in between */
	ret->change = true;
	return 0;
}

void account_fini(struct account *account)
{
	free(account->groups);
	*account = (struct account){0};
}

int account_become(const struct account *account)
{
	if (!account->change)
		return 0;
	if (setgroups((size_t)account->n_groups, account->groups) < 0 ||
	    setresgid(account->gid, account->gid, account->gid) < 0 ||
	    setresuid(account->uid, account->uid, account->uid) < 0)
		return -errno;
	return 0;
}
