/*
 * Starting the process of a worker.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "master/state.h"

/* The child's side; does not return. */
_Noreturn static void worker_begin(struct worker *worker, pid_t master_pid)
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
	bool drain = worker->master->phase == MASTER_STOPPING;

	worker->generation++;
	worker->ready = false;
	worker->retiring = false;
	worker->started_ns = clock_now_ns();
	worker->heartbeat = (struct heartbeat){
		.beats = atomic_load(&line->beats),
		.moved_ns = worker->started_ns,
		.cpu_ns = UINT64_MAX,
	};
	atomic_store(&line->phase, WORKER_STARTING);
	atomic_store(&line->retire, 0);
	atomic_store(&line->drain, drain);
	/* A standby is told when to go to the listeners, the others go at once. */
	atomic_store(&line->listen_turn, worker->role == WORKER_STANDBY ? 0 : 1);
	atomic_store(&line->answered, atomic_load(&line->asked));
	if (drain)
		atomic_fetch_add(&line->asked, 1);
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
	int tried = descriptors_try(worker->master);

	if (tried < 0)
		return tried;

	worker_prepare(worker);

	pid_t pid = fork();

	if (pid < 0) {
		worker->generation--;
		atomic_store(&line->phase, WORKER_GONE);
		return -errno;
	}
	if (pid == 0)
		worker_begin(worker, master_pid);

	/* The number is the child's until it is reaped. */
	worker->pid = pid;
	worker->pidfd = pidfd_open(pid, 0);

	/* By its number: by a pidfd of ours libsystemd would ask a /proc that may be another's. */
	int r = worker->pidfd < 0 ? -errno
				  : sd_event_add_child(worker->master->event, &worker->exit_source,
						       pid, WEXITED, worker_exited, worker);

	if (r < 0) {
		/* Nobody would ever hear of its end. */
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
		worker->pid = 0;
		worker->pidfd = fd_close(worker->pidfd);
		lane_bury(worker->lane, (struct pool_owner){worker->number, worker->generation});
		return r;
	}
	log_debug("%s (pid %d): started, generation %u, %s", worker->name, (int)pid,
		  worker->generation, worker_role_name(worker->role));
	return 0;
}
