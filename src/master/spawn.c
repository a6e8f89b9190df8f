/*
 * Starting the process of a worker.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "master/state.h"

/* The child's side; does not return. */
_Noreturn static void worker_begin(struct worker *worker, int probe_fd, pid_t master_pid)
{
	struct master *master = worker->master;
	struct group *group = worker->group;
	const struct worker_start start = {
		.name = worker->name,
		.group = group->settings,
		.lane = worker->lane,
		.owner = {.worker = worker->number, .generation = worker->generation},
		.role = worker->role,
		.plan = &group->plan,
		.nofile = group->nofile,
		.probe_fd = probe_fd,
		.account = &master->account,
		.master = master_pid,
	};

	/*
	 * A lane is one trust domain: what happens in one is out of reach of the others' workers.
	 */
	groups_forget_others(master, worker->lane);
	worker_run(&start);
}

/* Orders for the new process, as it finds them. */
static void worker_prepare(struct worker *worker)
{
	struct worker_line *line = worker_line(worker);
	bool drain = worker->master->phase == MASTER_STOPPING || worker->group->draining;

	worker->generation++;
	worker->ready = false;
	worker->retiring = false;
	worker->leave_order = 0;
	worker->started_ns = clock_now_ns();
	worker->heartbeat = (struct heartbeat){
		.beats = atomic_load(&line->beats),
		.moved_ns = worker->started_ns,
		.cpu_ns = UINT64_MAX,
	};
	atomic_store(&line->phase, WORKER_STARTING);
	atomic_store(&line->retire, 0);
	atomic_store(&line->drain, drain);
	/* Others are told when to go to the listeners, primaries go at once if there are clients. */
	atomic_store(&line->listen_turn,
		     worker->role != WORKER_STANDBY && worker->group->state != GROUP_NEW);
	atomic_store(&line->answered, atomic_load(&line->asked));
	if (drain)
		atomic_fetch_add(&line->asked, 1);
}

static const char probe[] = "laned\n";

/*
 * A connection of a socket pair on which the probe has been said, and nothing else will be. Returns 0
 * or -errno; both ends are the caller's.
 */
static int probe_open(int ret_ends[2])
{
	int r = 0;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ret_ends) < 0)
		return -errno;
	if (send(ret_ends[0], probe, strlen(probe), MSG_NOSIGNAL) != (ssize_t)strlen(probe) ||
	    shutdown(ret_ends[0], SHUT_WR) < 0)
		r = errno > 0 ? -errno : -EIO;
	return r;
}

bool worker_has_echoed(struct worker *worker)
{
	char reply[sizeof(probe)];
	ssize_t length = recv(worker->probe_fd, reply, strlen(probe), 0);

	worker->probe_fd = fd_close(worker->probe_fd);
	return length == (ssize_t)strlen(probe) && memcmp(reply, probe, (size_t)length) == 0;
}

/*
 * Whether the two descriptors for a child can be had: one of whom the master could not hear would
 * take clients and have to be killed.
 */
static int descriptors_try(const struct master *master)
{
	_cleanup_(fd_closep) int first = fcntl(master->notice_fd, F_DUPFD_CLOEXEC, 0);
	_cleanup_(fd_closep) int second = fcntl(master->notice_fd, F_DUPFD_CLOEXEC, 0);

	return first < 0 || second < 0 ? -errno : 0;
}

int worker_spawn(struct worker *worker)
{
	struct worker_line *line = worker_line(worker);
	pid_t master_pid = getpid();
	_cleanup_(fd_closep) int its_end = -1;
	int ends[2] = {-1, -1};
	int r = probe_open(ends);

	worker->probe_fd = ends[0];
	its_end = ends[1];
	if (r == 0)
		r = descriptors_try(worker->master);
	if (r < 0) {
		worker->probe_fd = fd_close(worker->probe_fd);
		return r;
	}

	worker_prepare(worker);

	pid_t pid = fork();

	if (pid < 0) {
		r = -errno;
		worker->probe_fd = fd_close(worker->probe_fd);
		worker->generation--;
		atomic_store(&line->phase, WORKER_GONE);
		return r;
	}
	if (pid == 0)
		worker_begin(worker, its_end, master_pid);

	/* The number is the child's until it is reaped. */
	worker->pid = pid;
	worker->pidfd = pidfd_open(pid, 0);

	/* By its number: by a pidfd of ours libsystemd would ask a /proc that may be another's. */
	r = worker->pidfd < 0 ? -errno
			      : sd_event_add_child(worker->master->event, &worker->exit_source, pid,
						   WEXITED, worker_exited, worker);

	if (r < 0) {
		/* Nobody would ever hear of its end. */
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
		worker->pid = 0;
		worker->pidfd = fd_close(worker->pidfd);
		worker->probe_fd = fd_close(worker->probe_fd);
		lane_bury(worker->lane, (struct pool_owner){worker->number, worker->generation});
		return r;
	}
	log_debug("%s (pid %d): started, generation %u, %s", worker->name, (int)pid,
		  worker->generation, worker_role_name(worker->role));
	return 0;
}
