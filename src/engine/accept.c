#include "engine/accept.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"

#define BACK_OFF_FIRST_MS 50U
#define BACK_OFF_LAST_MS  1000U
#define LOG_INTERVAL_MS   10000U

/* One line per interval, however often a full table is met. */
static bool may_log(struct acceptor *acceptor, uint32_t now_ms)
{
	if (acceptor->logged && now_ms - acceptor->logged_ms < LOG_INTERVAL_MS)
		return false;
	acceptor->logged = true;
	acceptor->logged_ms = now_ms;
	return true;
}

static unsigned long descriptor_limit(void)
{
	struct rlimit limit = {0};

	(void)getrlimit(RLIMIT_NOFILE, &limit);
	return (unsigned long)limit.rlim_cur;
}

static void pause_room(struct acceptor *acceptor, uint32_t now_ms)
{
	acceptor->pause = PAUSE_ROOM;
	if (may_log(acceptor, now_ms))
		log_warning("%s (pid %d): the lane holds %u connections, all that max_connections "
			    "gives it; further clients wait in the queue",
			    acceptor->name, (int)getpid(), acceptor->lane->shape.max_connections);
}

static void pause_full(struct acceptor *acceptor, uint32_t held, uint32_t now_ms)
{
	acceptor->pause = PAUSE_FULL;
	if (may_log(acceptor, now_ms))
		log_warning("%s (pid %d): no descriptor left for another connection, %u held "
			    "(RLIMIT_NOFILE %lu, key nofile); further clients wait in the queue",
			    acceptor->name, (int)getpid(), held, descriptor_limit());
}

/* Which limit of the host an errno speaks of. */
static const char *limit_of(int error)
{
	switch (error) {
	case ENFILE:
		return " (fs.file-max)";
	case ENOSPC:
		return " (fs.epoll.max_user_watches)";
	default:
		return "";
	}
}

void acceptor_back_off(struct acceptor *acceptor, int error, uint32_t held, uint32_t now_ms)
{
	uint32_t wait_ms = acceptor->back_off_ms * 2;

	if (wait_ms < BACK_OFF_FIRST_MS)
		wait_ms = BACK_OFF_FIRST_MS;
	if (wait_ms > BACK_OFF_LAST_MS)
		wait_ms = BACK_OFF_LAST_MS;
	acceptor->back_off_ms = wait_ms;
	acceptor->retry_ms = now_ms + wait_ms;

	if (error == EMFILE) { /* by time, too: the limit may be raised from outside (prlimit(1)) */
		pause_full(acceptor, held, now_ms);
		return;
	}
	acceptor->pause = PAUSE_HOST;
	if (may_log(acceptor, now_ms))
		log_warning("%s (pid %d): cannot accept: %s%s; further clients wait in the queue, "
			    "next try in %u ms",
			    acceptor->name, (int)getpid(), strerror(error), limit_of(error),
			    wait_ms);
}

static enum accept_outcome accept_error(struct acceptor *acceptor, int error, uint32_t held,
					uint32_t now_ms)
{
	switch (error) {
	case EAGAIN:
		return ACCEPT_EMPTY;
	case EBADF:
	case EFAULT:
	case EINVAL:
	case ENOTSOCK:
	case EOPNOTSUPP:
		return ACCEPT_FAILED;
	case EINTR:
	case ECONNABORTED:
	case EPROTO:
	case ETIMEDOUT:
	case ENETDOWN:
	case ENETUNREACH:
	case EHOSTDOWN:
	case EHOSTUNREACH:
	case ENONET:
	case ENOPROTOOPT:
		/*
		 * What the new connection has met already, which Linux hands out here (accept(2),
		 * "Error handling"): it is gone, and none of it says anything about the next
		 * client.
		 */
		return ACCEPT_SKIPPED;
	default:
		/*
		 * EMFILE, ENFILE, ENOBUFS, ENOMEM: full tables. EPERM, EACCES, ENOSYS: a filter of
		 * system calls or a security module. The client is still in the queue.
		 */
		acceptor_back_off(acceptor, error, held, now_ms);
		return ACCEPT_PAUSED;
	}
}

enum accept_outcome acceptor_take(struct acceptor *acceptor, int listener, uint32_t held,
				  uint32_t now_ms, int *ret)
{
	/* First the lane: where both are full, max_connections is the key to change. */
	if (!lane_reserve(acceptor->lane, acceptor->worker)) {
		pause_room(acceptor, now_ms);
		return ACCEPT_PAUSED;
	}
	if (held >= acceptor->capacity) {
		lane_release(acceptor->lane, acceptor->worker);
		pause_full(acceptor, held, now_ms);
		return ACCEPT_PAUSED;
	}

	*ret = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (*ret >= 0) {
		acceptor->back_off_ms = 0;
		return ACCEPT_TAKEN;
	}

	int error = errno;

	*ret = -error;
	lane_release(acceptor->lane, acceptor->worker);
	return accept_error(acceptor, error, held, now_ms);
}

bool acceptor_due(const struct acceptor *acceptor, uint32_t now_ms)
{
	return acceptor_timeout_ms(acceptor, now_ms) == 0;
}

int acceptor_timeout_ms(const struct acceptor *acceptor, uint32_t now_ms)
{
	if (acceptor->pause == PAUSE_NONE || acceptor->pause == PAUSE_ROOM ||
	    acceptor->back_off_ms == 0)
		return -1;

	int32_t left_ms = (int32_t)(acceptor->retry_ms - now_ms);

	return left_ms > 0 ? left_ms : 0;
}
