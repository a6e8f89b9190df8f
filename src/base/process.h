/*
 * What the kernel says of a process, and of the host around it. Everything is read from /proc and
 * the cgroup as any user may read it: no process is attached to, stopped or waited for. What cannot
 * be read is unknown and never an error.
 */
#ifndef LANED_BASE_PROCESS_H
#define LANED_BASE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct process_word {
	char state;  /* of /proc/PID/stat: R, S, D, T, t, Z, X, I; '?': unknown */
	bool frozen; /* by cgroup v2, itself or one above; false: no, or unknown */
	/*
	 * CPU time used by its main thread; by all of its threads, and in clock ticks, on a kernel
	 * that does not count the other. UINT64_MAX: unknown.
	 */
	uint64_t cpu_ns;
	uint64_t wait_ns; /* for which the main thread was ready and was not let run; likewise */
	char wchan[64];   /* where in the kernel it sleeps, as a symbol; "": unknown, or it runs */
	/*
	 * The system call it is in: a name, or "number 512" if it is none of those in which workers
	 * are wont to wait; "restart_syscall" (one that was interrupted and goes on), "none"
	 * (asleep outside any call: a page fault, stopped), "running"; "": unknown.
	 */
	char call[24];
};

/*
 * Reads the kernel's word on a process. It must be a child that has not been reaped yet, or the
 * word may be on another process with the same pid. One that ends meanwhile leaves unknowns.
 *
 * A task that cgroup v2 has frozen is in state S with a `wchan` that says nothing (it waits in
 * get_signal(), Linux 6.18), even if it was also sent SIGSTOP: only `frozen` tells. `wchan` and
 * `call` are for those who may trace the process: not for another user's, nor one that has changed
 * its user and not become dumpable again, unless with CAP_SYS_PTRACE. Costs half a dozen short
 * reads; that of /proc/PID/cgroup waits for changes of cgroups anywhere on the host, so look only
 * at those who are suspect.
 */
void process_look(pid_t pid, struct process_word *ret);

/* The contents of the files of /proc/PID of that name; "": could not be read. */
struct process_text {
	const char *stat;
	const char *schedstat;
	const char *wchan;
	const char *syscall;
};

/* What these say, all but `frozen`, which is false. */
void process_parse(const struct process_text *text, struct process_word *ret);

/*
 * For how long the own cgroup and those above it were held back by a CPU quota, added up over them
 * and over all CPUs, in nanoseconds: its growth means something. UINT64_MAX: unknown, or no quota can
 * be set here.
 */
uint64_t host_throttled_ns(void);

/* What the text of cpu.stat of a cgroup says; UINT64_MAX: nothing. */
uint64_t host_parse_throttled_ns(const char *cpu_stat);

#endif
