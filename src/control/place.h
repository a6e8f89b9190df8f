/*
 * The place of the control socket in the file system, and the lock beside it: one laned at one place.
 */
#ifndef LANED_CONTROL_PLACE_H
#define LANED_CONTROL_PLACE_H

#include <sys/stat.h>
#include <sys/types.h>
#include <sys/un.h>

#define PLACE_MAX sizeof(((struct sockaddr_un *)NULL)->sun_path)

struct place {
	char path[PLACE_MAX];
	int lock_fd;  /* -1: none */
	dev_t device; /* of the socket that was made, to be told from another one */
	ino_t inode;  /* 0: none was made */
};

/*
 * Takes the lock PATH.lock, which holds the pid, and makes a socket at the path that listens, open
 * to all users; a socket that a dead process has left is replaced. Returns its descriptor, the
 * caller's, or -errno with nothing held: -EALREADY (another process has the lock, `*ret_pid` is its
 * pid, 0: not known), -EEXIST (there is something else at the path, or a socket that somebody
 * serves), -ENAMETOOLONG, or what open(2), bind(2) and others say.
 */
int place_take(struct place *place, const char *path, pid_t *ret_pid);

/*
 * Removes the socket, if it is still the one that was made, and gives the lock up. The lock's file
 * stays: whoever removed it could remove that of the next one. One that was not taken is fine if its
 * `lock_fd` is -1.
 */
void place_leave(struct place *place);

#endif
