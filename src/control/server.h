/*
 * The control socket's server: clients, what they send, what they get, in an event loop.
 *
 * It never blocks, and what a client can make it hold is bounded: a call of CALL_MAX bytes, one
 * reply, SERVER_CLIENTS clients. What a call means is not known here.
 */
#ifndef LANED_CONTROL_SERVER_H
#define LANED_CONTROL_SERVER_H

#include <sys/types.h>
#include <systemd/sd-event.h>

#include "control/call.h"

#define SERVER_CLIENTS   64U
#define SERVER_IDLE_S    60U
#define SERVER_REPLY_MAX (16U * 1024 * 1024) /* bytes; a client with more to get is dropped */

struct server;
struct client;

/*
 * Answers a call, by client_reply() before it returns or later; until then nothing more is read from
 * that client. `call` is gone when it returns.
 */
typedef void (*server_answer_t)(void *userdata, struct client *client, const struct call *call);

/* A client with an open call has gone away: it must not be replied to. */
typedef void (*server_gone_t)(void *userdata, struct client *client);

/* Who may act, of those who may connect: all that is known of a client. */
typedef bool (*server_trusts_t)(void *userdata, int fd, uid_t uid);

struct server_handlers {
	server_answer_t answer;
	server_gone_t gone;
	server_trusts_t trusts;
	void *userdata;
};

/*
 * Serves a socket that listens, non-blocking and close-on-exec: the server's from now on, also if
 * this fails. Returns 0 or -errno.
 */
int server_open(struct server **ret, sd_event *event, int fd,
		const struct server_handlers *handlers);

/* Closes all, without a word. Returns NULL, to be assigned. */
struct server *server_close(struct server *server);

/* Whether the client may act: `trusts` said so when it connected. */
bool client_is_trusted(const struct client *client);
uid_t client_uid(const struct client *client);

/*
 * Sends what a call is answered with, from call_reply() or call_reply_error(); takes it. NULL, for
 * want of memory, ends the client. The client may be gone when this returns.
 */
void client_reply(struct client *client, char *text);

#endif
