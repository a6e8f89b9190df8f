#include "control/server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"

#define US_PER_S UINT64_C(1000000)

struct client {
	struct server *server;
	struct client *next;
	int fd;
	uid_t uid;
	bool trusted;
	bool open;    /* its call has not been answered yet */
	bool oneway;  /* and will not be */
	bool busy;    /* client_go_on() is at it: it must not be freed */
	bool ended;   /* to be freed as soon as it may */
	bool closing; /* when the reply is out */
	sd_event_source *source;
	sd_event_source *idle_source;
	char *out; /* the reply that is being sent; NULL: none */
	size_t out_size, out_sent;
	size_t in_size;
	char in[CALL_MAX + 1];
};

struct server {
	struct server_handlers handlers;
	sd_event *event;
	sd_event_source *source;
	int fd;
	struct client *clients;
	unsigned n_clients;
	struct log_limit log_limit;
};

static void client_free(struct client *client)
{
	struct client **link = &client->server->clients;

	while (*link != client)
		link = &(*link)->next;
	*link = client->next;
	client->server->n_clients--;
	sd_event_source_disable_unref(client->source);
	sd_event_source_disable_unref(client->idle_source);
	fd_close(client->fd);
	free(client->out);
	free(client);
}

/* The client is served no more. */
static void client_end(struct client *client)
{
	struct server *server = client->server;

	client->ended = true;
	if (client->open) {
		client->open = false;
		server->handlers.gone(server->handlers.userdata, client);
	}
	if (!client->busy)
		client_free(client);
}

static int client_idle(sd_event_source *source, uint64_t due_us, void *userdata)
{
	struct client *client = userdata;

	(void)source;
	(void)due_us;
	if (!client->open) /* one that waits for us is not idle */
		client_end(client);
	return 0;
}

/* It has done something: the time in which it has to do the next thing begins. */
static bool client_stirs(struct client *client)
{
	return sd_event_source_set_time_relative(client->idle_source, SERVER_IDLE_S * US_PER_S) >=
		       0 &&
	       sd_event_source_set_enabled(client->idle_source, SD_EVENT_ONESHOT) >= 0;
}

/* Sends what there is. False: the client is to end. */
static bool client_send(struct client *client)
{
	while (client->out) {
		ssize_t n = send(client->fd, client->out + client->out_sent,
				 client->out_size - client->out_sent, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR;
		client->out_sent += (size_t)n;
		if (client->out_sent < client->out_size)
			continue;
		free(client->out);
		client->out = NULL;
		if (client->closing || !client_stirs(client))
			return false;
	}
	return true;
}

/* Holds a reply for sending. */
static void client_put(struct client *client, char *text)
{
	client->out = text;
	client->out_size = text ? strlen(text) + 1 : 0;
	client->out_sent = 0;
	if (!text || client->out_size > SERVER_REPLY_MAX)
		client->ended = true;
}

/* The error of whoever does not keep to the protocol, after which it is closed. */
static void client_refuse(struct client *client, const char *why)
{
	client->closing = true;
	client_put(client, call_reply_error(CONTROL_INTERFACE ".InvalidCall",
					    json_pack("{s:s}", "text", why)));
}

static void client_call(struct client *client, size_t size)
{
	struct server *server = client->server;
	struct call_error error;
	struct call call;

	if (call_parse(&call, client->in, size - 1, &error) < 0) {
		client_refuse(client, error.text);
	} else {
		client->open = true;
		client->oneway = call.oneway;
		server->handlers.answer(server->handlers.userdata, client, &call);
	}
	call_fini(&call);
	client->in_size -= size;
	memmove(client->in, client->in + size, client->in_size);
}

/* Reads once. False: the client is to end. */
static bool client_read(struct client *client)
{
	ssize_t n = recv(client->fd, client->in + client->in_size,
			 sizeof(client->in) - client->in_size, MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	client->in_size += (size_t)n;
	return n > 0;
}

/* Answers what is there, one call after another. */
static void client_answer(struct client *client)
{
	while (!client->ended && !client->open && !client->out) {
		size_t size;
		enum call_end end = call_find(client->in, client->in_size, &size);

		if (end == CALL_INCOMPLETE)
			return;
		if (end == CALL_WHOLE)
			client_call(client, size);
		else
			client_refuse(client, "a call is longer than 64 KiB");
		if (!client->ended && !client_send(client))
			client->ended = true;
	}
}

/* Goes on after something has been read or sent, and frees the client if it is done. */
static void client_go_on(struct client *client)
{
	uint32_t events;

	client->busy = true;
	client_answer(client);
	client->busy = false;
	/* With an open call only its end is of interest, and that is always reported. */
	events = client->out ? EPOLLOUT : client->open ? 0 : EPOLLIN;
	if (client->ended || sd_event_source_set_io_events(client->source, events) < 0)
		client_end(client);
}

static int client_event(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct client *client = userdata;

	(void)source;
	(void)fd;
	if (events & EPOLLOUT && !client_send(client))
		client->ended = true;
	else if (events & EPOLLIN && !client_read(client))
		client->ended = true;
	else if (!(events & (EPOLLIN | EPOLLOUT)) && events & (EPOLLHUP | EPOLLERR))
		client->ended = true;
	client_go_on(client);
	return 0;
}

bool client_is_trusted(const struct client *client)
{
	return client->trusted;
}

uid_t client_uid(const struct client *client)
{
	return client->uid;
}

void client_reply(struct client *client, char *text)
{
	client->open = false;
	if (client->oneway) {
		free(text);
		if (!client_stirs(client))
			client->ended = true;
	} else {
		client_put(client, text);
	}
	if (client->busy)
		return;
	if (!client->ended && !client_send(client))
		client->ended = true;
	client_go_on(client);
}

static unsigned clients_of(const struct server *server, uid_t uid)
{
	unsigned n = 0;

	for (const struct client *client = server->clients; client; client = client->next)
		n += client->uid == uid && !client->trusted;
	return n;
}

/* Says that there is no room for another client; if that does not go out, it just sees the end. */
static void turn_away(int fd)
{
	_cleanup_(freep) char *text = call_reply_error(CONTROL_INTERFACE ".TooManyClients", NULL);

	if (text)
		(void)send(fd, text, strlen(text) + 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Takes a client. Returns 0, or -errno with `fd` still the caller's. */
static int server_add(struct server *server, int fd, uid_t uid, bool trusted)
{
	struct client *client = calloc(1, sizeof(*client));
	int r;

	if (!client)
		return -ENOMEM;
	client->server = server;
	client->fd = -1;
	client->uid = uid;
	client->trusted = trusted;
	client->next = server->clients;
	server->clients = client;
	server->n_clients++;
	r = sd_event_add_io(server->event, &client->source, fd, EPOLLIN, client_event, client);
	if (r >= 0)
		r = sd_event_add_time_relative(server->event, &client->idle_source, CLOCK_MONOTONIC,
					       SERVER_IDLE_S * US_PER_S, US_PER_S, client_idle,
					       client);
	if (r < 0) {
		client_free(client);
		return r;
	}
	client->fd = fd;
	return 0;
}

static int server_event(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct server *server = userdata;
	_cleanup_(fd_closep) int peer = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct ucred credentials;
	socklen_t size = sizeof(credentials);
	bool trusted;
	int r;

	(void)source;
	(void)events;
	if (peer < 0 || getsockopt(peer, SOL_SOCKET, SO_PEERCRED, &credentials, &size) < 0)
		return 0; /* it has gone, or comes again when there are descriptors */
	trusted = server->handlers.trusts(server->handlers.userdata, peer, credentials.uid);
	if (server->n_clients >= SERVER_CLIENTS ||
	    (!trusted && clients_of(server, credentials.uid) >= SERVER_CLIENTS / 2)) {
		turn_away(peer);
		return 0;
	}
	r = server_add(server, peer, credentials.uid, trusted);
	if (r < 0) {
		log_limited(&server->log_limit, LOG_WARNING, "control: a client is not served: %s",
			    strerror(-r));
		return 0;
	}
	peer = -1; /* now the client's */
	return 0;
}

int server_open(struct server **ret, sd_event *event, int fd,
		const struct server_handlers *handlers)
{
	struct server *server = calloc(1, sizeof(*server));
	int r;

	if (!server) {
		fd_close(fd);
		return -ENOMEM;
	}
	server->handlers = *handlers;
	server->event = sd_event_ref(event);
	server->fd = fd;
	r = sd_event_add_io(event, &server->source, fd, EPOLLIN, server_event, server);
	if (r >= 0) /* without descriptors, one who waits is reported again and again */
		r = sd_event_source_set_ratelimit(server->source, US_PER_S / 10, 100);
	if (r < 0) {
		server_close(server);
		return r;
	}
	*ret = server;
	return 0;
}

struct server *server_close(struct server *server)
{
	if (!server)
		return NULL;
	while (server->clients)
		client_end(server->clients);
	sd_event_source_disable_unref(server->source);
	sd_event_unref(server->event);
	fd_close(server->fd);
	free(server);
	return NULL;
}
