/*
 * Starting the process of a worker.
 */
#include <errno.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

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
		.notice_fd = master->notice_fd,
		.master = master_pid,
	};

	/*
	 * A lane is one trust domain: what happens in one is out of reach of the others' workers.
	 */
	groups_forget_others(master, worker->lane);
	worker_run(&start);
}

int worker_spawn(struct worker *worker)
{
	struct worker_line *line = lane_worker(worker->lane, worker->number);
	pid_t master_pid = getpid();

	worker->generation++;
	worker->ready = false;
	worker->started_ns = clock_now_ns();
	atomic_store(&line->phase, WORKER_STARTING);
	atomic_store(&line->drain, worker->master->phase == MASTER_STOPPING);
	/* A standby is told when to go to the listeners, a primary goes at once. */
	atomic_store(&line->listen_turn, worker->role == WORKER_PRIMARY ? 1 : 0);

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
