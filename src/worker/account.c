#include "worker/account.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Whether this process may send signals to those of other accounts (capabilities(7), CAP_KILL). */
static bool can_kill_others(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};

	return syscall(SYS_capget, &header, data) == 0 &&
	       (data[CAP_TO_INDEX(CAP_KILL)].effective & CAP_TO_MASK(CAP_KILL));
}

int account_find(const char *user, struct account *ret)
{
	*ret = (struct account){0};
	if (user[0] == '\0' || geteuid() != 0)
		return 0;

	errno = 0;

	const struct passwd *entry = getpwnam(user);

	if (!entry)
		return errno == 0 ? -ENOENT : -errno;

	if (!can_kill_others())
		return -EPERM;
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
