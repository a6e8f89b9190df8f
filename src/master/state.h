/*
 * The master's state: private to this folder.
 */
#ifndef LANED_MASTER_STATE_H
#define LANED_MASTER_STATE_H

#include <systemd/sd-event.h>

#include "config/settings.h"
#include "lane/lane.h"
#include "master/change.h"
#include "master/health.h"
#include "master/incident.h"
#include "master/limits.h"
#include "master/throttle.h"
#include "topology/topology.h"
#include "worker/account.h"
#include "worker/worker.h"

/* What the master has seen of a worker's heartbeat. Times are clock_now_ns(). */
struct heartbeat {
	uint64_t beats;         /* of the scoreboard, when last looked at */
	uint64_t busy_since_ns; /* likewise */
	uint64_t moved_ns;      /* when one of the two was first seen to have changed */
	uint64_t asked_ns;      /* the first order that it has not answered; 0: it has all */
	uint64_t told_ns;       /* its last order */
	uint64_t still_ns;      /* how long it had made no progress at the last look; 0: it does */
	uint64_t cpu_ns;        /* CPU time used, when last looked at; UINT64_MAX: never looked */
	uint64_t cpu_wait_ns;   /* time in which it was ready to run and was not let, likewise */
	uint64_t cpu_look_ns;   /* when that was */
	uint64_t well_ns;       /* since when it goes on again; 0: it does not */
	unsigned judged;        /* looks in a row at which it was suspect */
	uint64_t aborted_ns;    /* when it was sent SIGABRT; 0: not */
	bool killed;            /* it was sent SIGKILL */
	bool spared;            /* it would have been ended, but for the limit; said once */
	bool recovered;         /* its incident may end */
	enum worker_state state;
};

/* A place in a lane and the process that is in it now. */
struct worker {
	struct master *master;
	struct group *group;
	struct lane *lane;
	struct watch *watch; /* of the lane */
	uint32_t number;     /* in the lane */
	enum worker_role role;
	char name[WORKER_NAME_MAX];
	uint32_t generation;  /* how many processes have held the place */
	pid_t pid;            /* 0: no process */
	int pidfd;            /* -1: no process */
	int probe_fd;         /* on which it is to echo something before it is ready; else -1 */
	bool ready;           /* it has said so, and the master has seen it */
	uint32_t leave_order; /* the order to give listeners up; 0: it was not told to */
	bool retiring;        /* an extra worker that is to wait on no listener and to end */
	bool degraded;        /* its processes end so often that the place is left empty for long */
	uint64_t started_ns;  /* clock_now_ns() */
	uint64_t ended_ns;    /* when its last process has ended */
	uint64_t spare_ns;    /* an extra worker's: the place is not filled again before that */
	struct throttle throttle;
	struct heartbeat heartbeat;
	struct incident *incident; /* that goes on, in the lane's ring; NULL: none */
	sd_event_source *exit_source;
	sd_event_source *restart_source;
};

/* The watch over one listener. */
struct queue {
	sd_event_source *source; /* reports that somebody waits, while the watch is armed */
	uint64_t mark;           /* clients, accepted or waiting, that had come */
	uint64_t mark_ns; /* at this time, and not all of them are accepted; 0: nobody waits */
};

/* The watch over a lane: see watch.c. */
struct watch {
	struct master *master;
	struct group *group;
	struct lane *lane;
	struct worker *workers; /* all places of the lane */
	unsigned n_workers;
	struct queue *queues; /* one for each listener */
	bool looking;         /* false: armed */
	bool full;            /* the lane has as many connections as it may, at the last look */
	bool steered;         /* new clients are kept away from the lane */
	uint32_t depth;       /* clients waiting, at the last look */
	uint64_t accepted;    /* so far, at the last look */
	uint64_t wait_ns;     /* how long one of them had certainly waited, at the last look */
	uint64_t stirred_ns;  /* when a client was last seen to come or to wait */
	uint64_t taken_ns;    /* when one was last seen to have been accepted, or none to wait */
	uint64_t late_ns;     /* when one had last waited for too long */
	uint64_t called_ns;   /* when a worker was first called since it began; 0: none was */
	uint64_t helped_ns;   /* when extra workers were last needed */
	uint64_t retry_ns;    /* no extra worker is started before that: none could be */
	uint64_t helped_accepted; /* `accepted` then, */
	uint64_t helped_itself;   /* and how many of them by the lane's own workers */
};

/* A socket that listens on an endpoint: a listener of the lane that serves it. */
struct member {
	struct watch *watch; /* of the lane; NULL: none */
	size_t listener;     /* of the lane */
};

/* An address that clients connect to: see endpoint.c. */
struct endpoint {
	struct endpoint *next;
	struct address address;
	bool muted;             /* it lets nobody new in, for good */
	struct member *members; /* in the kernel's order */
	size_t n_members;
	size_t room; /* for members */
};

enum group_state {
	GROUP_NEW, /* its workers start; until all of them are ready, others serve its addresses */
	GROUP_SERVING,
	GROUP_LEAVING, /* nobody new comes to it; when its connections have ended it is gone */
};

struct group {
	struct master *master;
	struct group *next;
	enum group_state state;
	struct settings *owner; /* a reference, for the sake of `settings` */
	const struct group_settings *settings;
	struct endpoint **endpoints; /* one for each listener of a lane */
	size_t n_endpoints;
	struct member *inherited; /* lane by lane: whose socket a listener is until this serves */
	unsigned left_with;       /* the number of the change by which it leaves */
	uint64_t leave_ns;        /* since when it does */
	uint64_t drain_ns;        /* when its connections are to end, if it leaves */
	bool draining;            /* they were told to */
	struct plan plan;
	unsigned places; /* of workers in each lane, those of extra ones included */
	rlim_t nofile;   /* of each worker */
	struct lane *lanes;
	struct watch *watches;  /* one for each lane */
	struct worker *workers; /* lane by lane */
	size_t n_workers;
	uint64_t *aborts_ns; /* when workers were last ended: a ring with n_workers entries */
	size_t next_abort;
};

enum master_phase {
	MASTER_STARTING, /* not every worker has been ready yet */
	MASTER_SERVING,
	MASTER_STOPPING, /* workers drain */
	MASTER_ENDING,   /* workers are killed */
};

struct master {
	struct settings *settings;
	const struct config_source *source; /* where they come from: see config_load() */
	struct host_limits host;
	struct account account;
	sd_event *event;
	int notice_fd;        /* eventfd: a worker has changed its phase, or wakes the master */
	struct group *groups; /* those that serve first, in the order of the configuration */
	struct endpoint *endpoints;
	enum master_phase phase;

	/* change.c, leave.c */
	struct change *change;          /* that goes on; NULL: none */
	struct asked *asked;            /* for later */
	unsigned changes;               /* made so far: the number of the configuration */
	sd_event_source *settle_source; /* what is to be done when nothing else is */
	sd_event_source *leave_source;  /* when groups that leave are looked at */

	/* supervise.c */
	sd_event_source *tick_source;
	bool ticking;
	uint64_t due_ns;            /* when the next tick is to come */
	uint64_t checked_ns;        /* when all workers were last looked at */
	uint64_t woken_ns;          /* when ticking last began */
	uint64_t suspended_ns;      /* clock_suspended_ns() at the last tick */
	bool stalled;               /* the host stood still before the last tick */
	uint64_t throttled_ns;      /* of the own cgroup, at the last look; UINT64_MAX: unknown */
	uint64_t throttled_look_ns; /* when that was */
	bool throttled;             /* it was, since the look before */
	uint64_t doubt_ns;          /* since when most workers are suspect; 0: they are not */
	uint64_t last_incident;     /* its number */
};

/* group.c */

/* All lanes, all places of workers: begins with NULL, ends with NULL. */
struct watch *watch_next(const struct master *master, const struct watch *watch);
struct worker *worker_next(const struct master *master, const struct worker *worker);

/*
 * Makes a group's plan, maps its lanes, opens or inherits their listeners, and adds it to the others
 * as GROUP_NEW; no worker yet. `settings` are a part of `owner`. Returns NULL after it has logged
 * why, with an exit status.
 */
struct group *group_open(struct master *master, struct settings *owner,
			 const struct group_settings *settings, int *ret_status);

/* Takes a group away, with processes that are still there, and frees it. */
void group_free(struct group *group);

/* The group of that name and state; NULL: none. */
struct group *group_find(const struct master *master, const char *name, enum group_state state);

/* Starts its workers. Returns 0, or an exit status after it has logged why. */
int group_start(struct group *group);

/* In a new process: lets go of all lanes but its own. */
void groups_forget_others(struct master *master, const struct lane *own);

/* spawn.c */

/* Fills a place with a new process. Returns 0 or -errno. */
int worker_spawn(struct worker *worker);

/* Of one that says it is ready: whether it has echoed what it was sent, to the last byte. */
bool worker_has_echoed(struct worker *worker);

/* reap.c */

/* Fills an empty place as soon as that is allowed. */
void worker_restart(struct worker *worker);

/* Called by the event loop when a worker's process has ended. */
int worker_exited(sd_event_source *source, const siginfo_t *info, void *userdata);

/* orders.c */

/* A worker's line of the scoreboard. */
struct worker_line *worker_line(const struct worker *worker);

/* Makes a worker look at its orders. */
void worker_tell(struct worker *worker);

/* Makes a worker look at the queue, and wait there anew. */
void worker_call(struct worker *worker);

/* Ends a worker. */
void worker_kill(struct worker *worker, int signal_number);

/*
 * Lets the others of a lane wait behind its primaries, if it has one only: the kernel turns to them
 * when no primary is waiting. Whenever a worker has come or gone.
 */
void lane_line_up(const struct watch *watch);

/*
 * Soon, when nothing else is to be done, a change goes on and groups that leave are looked at: not in
 * the middle of something that such a group may be part of.
 */
void master_settle(struct master *master);

/* Called by the event loop when workers have changed their phase, or want to be looked at. */
int workers_noticed(sd_event_source *source, int fd, uint32_t events, void *userdata);

/* watch.c */

/* Prepares the watch over a lane whose listeners listen. Returns 0 or -errno. */
int watch_open(struct watch *watch);
void watch_close(struct watch *watch);

/* Clients come to the lane from now on, or the settings are others. */
void watch_begin(struct watch *watch);

/* One of its listeners is about to be closed. */
void watch_drop(struct watch *watch, size_t listener);

/* Sleeps until the kernel reports that somebody waits. */
void watch_arm(struct watch *watch);

/* Looks whether clients have come, who may have been served before anybody saw them wait. */
void watch_notice(struct watch *watch, uint64_t now_ns);

/* Looks whether somebody waits for too long, and sees to it that somebody comes. */
void watch_look(struct watch *watch, uint64_t now_ns);

/* Whether clients of the lane wait for too long, or did so a moment ago. */
bool lane_is_late(const struct watch *watch);

/* Whether a worker waits for clients, as far as one can see. */
bool worker_is_free(const struct worker *worker);

/* extra.c */

/*
 * Starts an extra worker in a lane, or calls one back that was about to leave. False: the lane may
 * not have another one.
 */
bool extra_start(struct watch *watch, uint64_t now_ns);

/* The lane needs its extra workers now. */
void extras_are_needed(struct watch *watch, uint64_t now_ns);

/* Lets extra workers go that have not been needed for a while. */
void extras_retire(struct watch *watch, uint64_t now_ns);

/* evidence.c */

/* Looks at a worker's heartbeat: whether, and since when, it does not go on. */
void worker_observe(struct worker *worker, uint64_t now_ns);

/* Asks the kernel about a worker that does not go on. */
void worker_examine(struct worker *worker, uint64_t now_ns, struct evidence *ret);

/* Asks a worker that waits whether it hears, now and then. */
void worker_ping(struct worker *worker, uint64_t now_ns);

/* The time between the two did not count: the master could not look. */
void worker_excuse(struct worker *worker, uint64_t from_ns, uint64_t to_ns);

/* A stamp of before `from_ns`, moved on by what did not count. */
uint64_t excused(uint64_t stamp_ns, uint64_t from_ns, uint64_t to_ns);

/* escalate.c */

/* Looks closer at a worker that has been observed, if it has not gone on for long. */
void worker_judge(struct worker *worker, uint64_t now_ns);

/* Does what is due about a worker that has been judged. `doubt`: nobody is to be ended now. */
void worker_escalate(struct worker *worker, uint64_t now_ns, bool doubt);

/* Ends the incident of a worker that goes on, or has been replaced, for long enough. */
void worker_settle(struct worker *worker);

/* Takes a lane out of rotation, or brings it back, if that is due. */
void lane_check_rotation(struct watch *watch, uint64_t now_ns);

/* Extra workers have come because those of the lane that are stuck let clients wait. */
void lane_helped(struct watch *watch, unsigned extras, uint64_t now_ns);

/* record.c */

/* An incident of a worker begins, if there is none. */
void worker_incident_begins(struct worker *worker, uint64_t now_ns);

/* The incident of a worker, if there is one, is over. */
void worker_incident_ends(struct worker *worker, enum incident_end end, uint64_t now_ns);

/* Adds a step to the incident of a worker, or to all of a lane, that go on. */
void worker_add_step(struct worker *worker, enum incident_step_kind kind, uint64_t now_ns);
void lane_add_step(struct watch *watch, enum incident_step_kind kind, uint64_t now_ns);

/* "22 ms", "2.4 s" */
#define DURATION_MAX 32
const char *duration_text(uint64_t ns, char text[static DURATION_MAX]);

/* The host has stood still: an incident of its own. */
void host_stalled(struct master *master, uint64_t now_ns, const struct host_evidence *evidence);

/* endpoint.c */

/*
 * Finds or makes the endpoints of a new group, with room for its sockets, and opens the listeners of
 * its lanes: those that serve an address now are inherited, further ones beside them are held.
 * Returns 0, or an exit status after it has logged why.
 */
int endpoints_open(struct group *group, const struct listen_setting *const *addresses);

/*
 * A group's held listeners begin to listen, and what it inherits gets its backlog. Returns 0, or
 * -errno with none of them listening.
 */
int endpoints_begin(struct group *group);

/* From now on new clients come to the lanes of this group, and to nobody else's sockets that it inherits. */
void endpoints_take(struct group *group);

/*
 * Clients are kept away from sockets of groups that leave, and let in to all others. Whenever a group
 * has come or begins to leave.
 */
void endpoints_settle(struct master *master);

/* Nobody new comes in anywhere; whoever is in a queue, or on the way into it, is still served. */
void endpoints_mute(struct master *master);

/* Whether the lane's socket is its own alone: nobody has inherited it. */
bool endpoint_has(const struct watch *watch, size_t listener);

/* Closes a listener of a lane, and with it the socket, if nobody has inherited that. */
void endpoint_close(struct watch *watch, size_t listener);

/* Forgets endpoints that have no socket and belong to no group. */
void endpoints_sweep(struct master *master);

/*
 * Takes a lane out of the rotation of new clients, or brings it back; not if no other one would be
 * left. Returns whether it could be done.
 */
bool lane_steer(struct watch *watch, bool away);

/* takeover.c */

/* Sets up new groups and starts their workers. False after it has said why; groups_abandon() then. */
bool groups_come(struct master *master, struct settings *settings, const struct change_step *steps,
		 size_t n_steps);

/* Takes all new groups back, of which clients have seen nothing. */
void groups_abandon(struct master *master);

/*
 * Clients come to the new groups, whose listeners have begun, and only then are the workers of old
 * ones asked to go; and the settings are in effect. Nothing of this can fail.
 */
void groups_take_over(struct master *master, struct settings *settings,
		      const struct change_step *steps, size_t n_steps);

/* leave.c */

/*
 * A group that is GROUP_LEAVING begins to go: its workers give up what others have inherited, and the
 * rest when it is empty.
 */
void group_leave(struct group *group);

/* A group that never served leaves at once. */
void group_abandon(struct group *group);

/* Whether nobody waits any more on a listener that another group has inherited. */
bool group_has_handed_over(const struct group *group);

/* Does what is due about groups that leave, and frees those that are gone. */
void groups_leave_go_on(struct master *master);

/* supervise.c */

/* Prepares the supervision of all workers. Returns 0 or -errno. */
int supervise_begin(struct master *master);

/* There is something to look at. */
void supervise_wake(struct master *master);

/* Workers are looked at no more. */
void supervise_end(struct master *master);

/* stop.c */

/* Lets all workers drain, and ends when they have; or at once when it has been called before. */
void master_stop(struct master *master);

/* Ends at once. */
void master_stop_now(struct master *master);

/* While stopping: closes what nobody waits on any longer, and ends when no process is left. */
void master_stop_go_on(struct master *master);

/* Lets a worker end its connections, as soon as they are quiet. */
void worker_drain(struct worker *worker);

#endif
