#include "worker/worker.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/title.h"
#include "engine/engine.h"

/*
 * How long a draining worker goes on accepting although the master lets nobody new in: handshakes
 * that had begun must get through, wherever the client is.
 */
#define LEAVE_AFTER_MS 200U

struct self {
	const struct worker_start *start;
	struct worker_line *line;
	struct engine engine;
	char tag[WORKER_NAME_MAX + 2]; /* " NAME\n" */
	uint32_t listen_turn;          /* the last one obeyed */
	bool retired;
	bool draining;
	uint32_t drain_ms; /* since when */
};

_Noreturn static void worker_fail(const struct worker_start *start, const char *what, int error)
{
	log_error("%s (pid %d): %s: %s", start->name, (int)getpid(), what, strerror(error));
	_exit(error == EPERM || error == EACCES ? EX_NOPERM : EX_OSERR);
}

/* Ends with the master. A change of account takes the wish back, so this comes again after it. */
static void die_with_master(const struct worker_start *start)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		worker_fail(start, "cannot be tied to the master's life", errno);
	if (getppid() != start->master) /* it died before we asked */
		_exit(EX_OSERR);
}

/* Keeps what is the worker's: the lane's descriptors, the way to the master, probe, the log. */
static void keep_descriptors(const struct worker_start *start)
{
	const struct lane *lane = start->lane;
	size_t n = 0;
	_cleanup_(freep) int *keep = calloc(lane->n_listeners + 4, sizeof(*keep));

	if (!keep)
		worker_fail(start, "cannot start", ENOMEM);
	for (size_t i = 0; i < lane->n_listeners; i++)
		keep[n++] = lane->listeners[i];
	keep[n++] = lane->look_fd;
	keep[n++] = lane->notice_fd;
	keep[n++] = start->probe_fd;
	keep[n++] = log_fd();

	int r = fd_close_all_but(keep, n);

	if (r < 0)
		worker_fail(start, "cannot close the master's descriptors", -r);
}

static void on_order(int signal_number)
{
	(void)signal_number; /* it ends the wait; the order stands on the scoreboard */
}

static void worker_become(const struct worker_start *start)
{
	const struct sigaction order = {.sa_handler = on_order};
	struct rlimit nofile;

	die_with_master(start);
	keep_descriptors(start);
	title_set("laned-worker", "laned: worker %s %s", start->name,
		  worker_role_name(start->role));
	(void)unsetenv("NOTIFY_SOCKET"); /* only the master speaks to the service manager */

	if (getrlimit(RLIMIT_NOFILE, &nofile) < 0)
		worker_fail(start, "cannot read RLIMIT_NOFILE", errno);
	/* The master's may have been lowered since; then accepting ends at EMFILE. */
	nofile.rlim_cur = start->nofile < nofile.rlim_max ? start->nofile : nofile.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &nofile) < 0)
		worker_fail(start, "cannot set RLIMIT_NOFILE", errno);

	int r = account_become(start->account);

	if (r < 0)
		worker_fail(start, "cannot change to the account of key user", -r);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		worker_fail(start, "cannot give up new privileges", errno);
	die_with_master(start);

	/* Unblocked only while the engine waits, so it interrupts nothing but a wait. */
	if (sigaction(SIGUSR2, &order, NULL) < 0)
		worker_fail(start, "cannot take orders", errno);
}

static enum engine_rank rank_of(const struct worker_start *start)
{
	if (start->plan->primaries > 1)
		return ENGINE_EQUAL;
	if (start->role != WORKER_PRIMARY)
		return ENGINE_BEHIND;
	return start->lane->shape.workers > 1 ? ENGINE_FIRST : ENGINE_ALONE;
}

/* Tells the master. */
static void worker_enter(struct self *self, enum worker_phase phase)
{
	atomic_store(&self->line->phase, phase);
	(void)eventfd_write(self->start->lane->notice_fd, 1);
}

/* The lane has no listener any more: what is left are connections. */
static void worker_leave(struct self *self)
{
	title_set("laned-worker", "laned: worker %s leaving", self->start->name);
	worker_enter(self, WORKER_LEFT);
}

/* Goes to the listeners, away from them, or behind the others there. */
static void worker_take_place(struct self *self)
{
	uint32_t turn = atomic_load(&self->line->listen_turn);
	bool retired = atomic_load(&self->line->retire);

	if (atomic_load(&self->line->phase) == WORKER_LEFT)
		return;
	if (retired && !self->retired)
		engine_retire(&self->engine);
	self->retired = retired;
	if (retired || turn == self->listen_turn)
		return;
	self->listen_turn = turn;
	engine_listen_anew(&self->engine);
}

/* Looks at what the master wants, and does it. */
static void worker_obey(struct self *self)
{
	/* First how many orders there were, then what they say: one that comes now is for later. */
	uint32_t asked = atomic_load(&self->line->asked);
	uint32_t level;
	bool gave_up;

	if (asked == atomic_load_explicit(&self->line->answered, memory_order_relaxed))
		return;
	if (!self->draining && atomic_load(&self->line->drain)) {
		self->draining = true;
		self->drain_ms = clock_coarse_ms();
		engine_drain(&self->engine);
	}
	gave_up = engine_give_up(&self->engine);
	if (gave_up && !lane_has_listener(self->start->lane))
		worker_leave(self);
	worker_take_place(self);
	level = atomic_load(&self->start->lane->board->log_level);
	if (level > 0)
		log_set_level((int)level);
	atomic_store(&self->line->answered, asked);
	if (gave_up) /* the master waits for that */
		(void)eventfd_write(self->start->lane->notice_fd, 1);
}

/* Whether a draining worker has nothing left to do. */
static bool worker_drained(struct self *self)
{
	if (atomic_load(&self->line->phase) != WORKER_LEFT) {
		if (clock_coarse_ms() - self->drain_ms < LEAVE_AFTER_MS ||
		    !engine_empty_queues(&self->engine))
			return false;
		engine_leave(&self->engine);
		worker_leave(self);
	}
	return self->engine.held == 0;
}

/* Whether there is nothing left to do, now or later. */
static bool worker_is_done(struct self *self)
{
	if (self->draining)
		return worker_drained(self);
	return self->engine.held == 0 &&
	       (self->retired || atomic_load(&self->line->phase) == WORKER_LEFT);
}

static int worker_loop(struct self *self)
{
	int r = 0;

	for (worker_obey(self); r == 0 && !worker_is_done(self); worker_obey(self))
		r = engine_pass(&self->engine);
	return r;
}

/* Returns 0 or -errno. */
static int worker_open(struct self *self)
{
	const struct worker_start *start = self->start;
	struct engine_setup setup = {
		.group = start->group,
		.lane = start->lane,
		.owner = start->owner,
		.name = start->name,
		.rank = rank_of(start),
		.tag = self->tag,
	};
	int r = fault_plan_make(&setup.faults, start->group,
				&(struct fault_place){
					.lane = start->lane->number,
					.worker = start->owner.worker,
					.role = 1U << start->role,
					.generation = start->owner.generation,
				});

	return r < 0 ? r : engine_open(&self->engine, engine_find(start->group->engine), &setup);
}

static_assert(FAULT_PRIMARY == 1 << WORKER_PRIMARY && FAULT_STANDBY == 1 << WORKER_STANDBY &&
		      FAULT_EXTRA == 1 << WORKER_EXTRA,
	      "a fault names roles by the bits of their numbers");

/*
 * Serves the probe as it will serve clients: who waits on the listeners or says that it is ready has
 * echoed something.
 */
static int worker_probe(struct self *self)
{
	/* The lowest number, as accepted ones have: there is a record for it. */
	int fd = fcntl(self->start->probe_fd, F_DUPFD_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	fd_close(self->start->probe_fd);
	return engine_probe(&self->engine, fd);
}

_Noreturn void worker_run(const struct worker_start *start)
{
	struct self self = {
		.start = start,
		.line = lane_worker(start->lane, start->owner.worker),
	};

	worker_become(start);
	(void)snprintf(self.tag, sizeof(self.tag), " %s\n", start->name);

	int r = worker_open(&self);

	if (r == 0)
		r = worker_probe(&self);
	/* It waits on the listeners, if it is to, before it says that it is ready. */
	self.listen_turn = atomic_load(&self.line->listen_turn);
	if (r == 0 && self.listen_turn > 0)
		r = engine_listen(&self.engine);
	if (r < 0)
		worker_fail(start, "cannot start its engine", -r);
	worker_enter(&self, WORKER_READY);

	r = worker_loop(&self);
	if (r < 0)
		worker_fail(start, "its engine failed", -r);
	_exit(EX_OK);
}
