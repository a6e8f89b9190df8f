/*
 * Endpoints: the addresses that clients connect to, their sockets, and which of these get new
 * clients.
 *
 * A lane has one socket for each address of its group, so an endpoint has as many as there are lanes.
 * A group that takes the place of another one inherits its sockets, lane by lane, and with them
 * whoever waits there; sockets are added or left over only if the number of lanes changes. An
 * endpoint that no group serves any more is muted, and goes when its queues are empty.
 *
 * Where every socket is to get new clients the kernel chooses by its hash. One whose lane does not go
 * on, or leaves, is taken out by a program that chooses among the others. It knows a socket by its
 * place in the kernel's array, which `members` mirrors. The first one of an endpoint that is not muted
 * always serves: who inherits begins with it, and it moves nowhere.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/fd.h"
#include "base/log.h"
#include "master/change.h"
#include "master/state.h"
#include "net/listener.h"
#include "net/steer.h"

static struct log_limit steer_lines;

static int *watch_listener(const struct watch *watch, size_t listener)
{
	return &watch->lane->listeners[listener];
}

static bool member_serves(const struct member *member)
{
	return member->watch->group->state == GROUP_SERVING;
}

/* The n-th of those that serve; NULL: there are not so many. */
static const struct member *endpoint_serving(const struct endpoint *endpoint, size_t n)
{
	for (size_t i = 0; i < endpoint->n_members; i++) {
		if (member_serves(&endpoint->members[i]) && n-- == 0)
			return &endpoint->members[i];
	}
	return NULL;
}

/* --- Which get new clients ------------------------------------------------------------------- */

/* Sends new clients to those that serve and are not steered away from, all but `but`. */
static int endpoint_rotate(const struct endpoint *endpoint, size_t but)
{
	unsigned indexes[STEER_MEMBERS_MAX];
	size_t n = 0;
	int fd = -1;

	for (size_t i = 0; i < endpoint->n_members; i++) {
		const struct member *member = &endpoint->members[i];

		fd = *watch_listener(member->watch, member->listener);
		if (i == but || !member_serves(member) || member->watch->steered)
			continue;
		assert(n < STEER_MEMBERS_MAX); /* the schema lets no more workers through */
		indexes[n++] = (unsigned)i;
	}
	if (n == 0)
		return -ESRCH;
	return n == endpoint->n_members ? steer_detach(fd) : steer_attach(fd, indexes, n);
}

#define BUT_NONE SIZE_MAX

bool lane_steer(struct watch *watch, bool away)
{
	const struct group *group = watch->group;
	int r = 0;

	watch->steered = away;
	for (size_t i = 0; i < group->n_endpoints && r == 0; i++)
		r = endpoint_rotate(group->endpoints[i], BUT_NONE);
	if (r == 0)
		return true;
	watch->steered = !away;
	if (r == -ESRCH) /* no other lane would be left */
		return false;
	log_limited(&steer_lines, LOG_ERR, "%s: new clients cannot be %s: %s", watch->lane->name,
		    away ? "kept away from it" : "let in again", strerror(-r));
	/* As it was, at the addresses that were changed already. */
	for (size_t i = 0; i < group->n_endpoints; i++)
		(void)endpoint_rotate(group->endpoints[i], BUT_NONE);
	return false;
}

static void endpoint_mute(struct endpoint *endpoint)
{
	endpoint->muted = true;
	for (size_t i = 0; i < endpoint->n_members; i++) {
		const struct member *member = &endpoint->members[i];
		int r = listener_mute(*watch_listener(member->watch, member->listener));

		if (r < 0)
			log_warning("%s: new clients cannot be kept out of %s while it is emptied: "
				    "%s",
				    member->watch->lane->name, endpoint->address.text,
				    strerror(-r));
	}
}

void endpoints_mute(struct master *master)
{
	for (struct endpoint *endpoint = master->endpoints; endpoint; endpoint = endpoint->next) {
		if (!endpoint->muted)
			endpoint_mute(endpoint);
	}
}

void endpoints_settle(struct master *master)
{
	for (struct endpoint *endpoint = master->endpoints; endpoint; endpoint = endpoint->next) {
		int r;

		if (endpoint->muted || endpoint->n_members == 0)
			continue;
		if (!endpoint_serving(endpoint, 0)) {
			endpoint_mute(endpoint);
			continue;
		}
		r = endpoint_rotate(endpoint, BUT_NONE);
		if (r ==
		    -ESRCH) { /* all that serve are steered away from: better they than nobody */
			for (size_t i = 0; i < endpoint->n_members; i++)
				endpoint->members[i].watch->steered = false;
			r = endpoint_rotate(endpoint, BUT_NONE);
		}
		if (r < 0)
			log_limited(&steer_lines, LOG_ERR,
				    "%s: new clients cannot be kept to the lanes that serve: %s",
				    endpoint->address.text, strerror(-r));
	}
}

/* --- Coming ---------------------------------------------------------------------------------- */

/* The endpoint that a group is to serve, new or not. NULL: out of memory. */
static struct endpoint *endpoint_get(struct master *master, const struct address *address,
				     size_t lanes)
{
	struct endpoint *endpoint = master->endpoints;
	struct member *members;

	while (endpoint && (endpoint->muted || strcmp(endpoint->address.text, address->text) != 0))
		endpoint = endpoint->next;
	if (!endpoint) {
		endpoint = calloc(1, sizeof(*endpoint));
		if (!endpoint)
			return NULL;
		endpoint->address = *address;
		endpoint->next = master->endpoints;
		master->endpoints = endpoint;
	}
	/* Now, so that nothing is wanting when it serves. */
	members = realloc(endpoint->members, (endpoint->n_members + lanes) * sizeof(*members));
	if (!members)
		return NULL;
	endpoint->members = members;
	return endpoint;
}

/* Whether sockets of ours would refuse one that claims the address for itself. */
static bool endpoint_is_beside_ours(const struct master *master, const struct endpoint *endpoint)
{
	for (const struct endpoint *other = master->endpoints; other; other = other->next) {
		if (other->n_members > 0 && address_overlaps(&other->address, &endpoint->address))
			return true;
	}
	return false;
}

/* What the service manager is told about an address that cannot be had. */
static int bind_status(int error)
{
	switch (error) {
	case EADDRINUSE:
	case EADDRNOTAVAIL:
	case EAFNOSUPPORT:
		return EX_UNAVAILABLE;
	case EACCES:
	case EPERM:
		return EX_NOPERM;
	default:
		return EX_OSERR;
	}
}

static const char *bind_hint(int error)
{
	switch (error) {
	case EADDRINUSE:
		return ": another process, perhaps another laned, has it";
	case EADDRNOTAVAIL:
		return ": no interface of this host has it";
	case EACCES:
		return ": ports below net.ipv4.ip_unprivileged_port_start need CAP_NET_BIND_SERVICE";
	default:
		return "";
	}
}

static struct member *inherited_by(const struct group *group, unsigned lane, size_t listener)
{
	return &group->inherited[lane * group->n_endpoints + listener];
}

/* Returns a descriptor, the lane's, or -errno. */
static int lane_get_listener(struct group *group, unsigned lane, size_t listener)
{
	const struct endpoint *endpoint = group->endpoints[listener];
	const struct member *member = endpoint_serving(endpoint, lane);
	enum listener_place place = lane == 0 ? LISTENER_FIRST : LISTENER_FURTHER;

	if (member) {
		int fd = fcntl(*watch_listener(member->watch, member->listener), F_DUPFD_CLOEXEC,
			       0);

		*inherited_by(group, lane, listener) = *member;
		return fd < 0 ? -errno : fd;
	}
	if (endpoint_is_beside_ours(group->master, endpoint))
		place = LISTENER_HELD;
	return listener_open(&endpoint->address, place, (int)group->settings->backlog);
}

int endpoints_open(struct group *group, const struct listen_setting *const *addresses)
{
	for (size_t i = 0; i < group->n_endpoints; i++) {
		group->endpoints[i] = endpoint_get(group->master, &addresses[i]->address,
						   group->plan.lanes);
		if (!group->endpoints[i]) {
			change_explain(group->master, NULL, "%s: cannot be set up: %s",
				       group->settings->name, strerror(ENOMEM));
			return EX_OSERR;
		}
	}
	for (unsigned lane = 0; lane < group->plan.lanes; lane++) {
		for (size_t i = 0; i < group->n_endpoints; i++) {
			int fd = lane_get_listener(group, lane, i);

			if (fd < 0) {
				change_explain(group->master, &addresses[i]->origin,
					       "%s: cannot listen on %s: %s%s",
					       group->lanes[lane].name, addresses[i]->address.text,
					       strerror(-fd), bind_hint(-fd));
				return bind_status(-fd);
			}
			group->lanes[lane].listeners[i] = fd;
		}
	}
	return 0;
}

/* What is inherited, or what is not. */
static int listeners_begin(struct group *group, bool inherited)
{
	for (unsigned lane = 0; lane < group->plan.lanes; lane++) {
		for (size_t i = 0; i < group->n_endpoints; i++) {
			int r = 0;

			if (inherited == (inherited_by(group, lane, i)->watch != NULL))
				r = listener_begin(group->lanes[lane].listeners[i],
						   (int)group->settings->backlog);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

int endpoints_begin(struct group *group)
{
	int r = listeners_begin(group, false);

	return r < 0 ? r : listeners_begin(group, true);
}

static struct member *endpoint_member(const struct endpoint *endpoint, const struct watch *watch,
				      size_t listener)
{
	for (size_t i = 0; i < endpoint->n_members; i++) {
		struct member *member = &endpoint->members[i];

		if (member->watch == watch && member->listener == listener)
			return member;
	}
	return NULL;
}

void endpoints_take(struct group *group)
{
	for (unsigned lane = 0; lane < group->plan.lanes; lane++) {
		for (size_t i = 0; i < group->n_endpoints; i++) {
			struct endpoint *endpoint = group->endpoints[i];
			struct member *from = inherited_by(group, lane, i);
			struct member *member = NULL;

			if (from->watch)
				member = endpoint_member(endpoint, from->watch, from->listener);
			if (!member)
				member = &endpoint->members[endpoint->n_members++];
			*member = (struct member){&group->watches[lane], i};
			*from = (struct member){0};
		}
	}
}

/* --- Going ----------------------------------------------------------------------------------- */

bool endpoint_has(const struct watch *watch, size_t listener)
{
	return endpoint_member(watch->group->endpoints[listener], watch, listener) != NULL;
}

/*
 * Its socket goes: the last one moves into its place. Until that has happened, and the program knows
 * it, the last one gets nobody.
 */
static void endpoint_remove(struct endpoint *endpoint, struct member *member)
{
	struct member *last = &endpoint->members[endpoint->n_members - 1];
	int *fd = watch_listener(member->watch, member->listener);

	if (!endpoint->muted && member != last)
		(void)endpoint_rotate(endpoint, endpoint->n_members - 1);
	*fd = fd_close(*fd);
	*member = *last;
	endpoint->n_members--;
	if (!endpoint->muted && endpoint->n_members > 0)
		(void)endpoint_rotate(endpoint, BUT_NONE);
}

void endpoint_close(struct watch *watch, size_t listener)
{
	struct endpoint *endpoint = watch->group->endpoints[listener];
	int *fd = watch_listener(watch, listener);
	struct member *member;

	if (*fd < 0)
		return;
	watch_drop(watch, listener);
	member = endpoint_member(endpoint, watch, listener);
	if (member)
		endpoint_remove(endpoint, member);
	else
		*fd = fd_close(*fd);
}

static bool endpoint_is_needed(const struct master *master, const struct endpoint *endpoint)
{
	if (endpoint->n_members > 0)
		return true;
	for (const struct group *group = master->groups; group; group = group->next) {
		for (size_t i = 0; i < group->n_endpoints; i++) {
			if (group->endpoints[i] == endpoint)
				return true;
		}
	}
	return false;
}

void endpoints_sweep(struct master *master)
{
	struct endpoint **link = &master->endpoints;

	while (*link) {
		struct endpoint *endpoint = *link;

		if (endpoint_is_needed(master, endpoint)) {
			link = &endpoint->next;
			continue;
		}
		*link = endpoint->next;
		free(endpoint->members);
		free(endpoint);
	}
}
