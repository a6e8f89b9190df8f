#include "master/change.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <systemd/sd-daemon.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "config/config.h"
#include "master/state.h"

#define READY_NS     (30 * NS_PER_S) /* for new workers to be ready */
#define HAND_OVER_NS (1 * NS_PER_S) /* for old ones to leave the queues, then one goes on without */

/* Somebody who asked for a change. */
struct asked {
	struct asked *next;
	struct change_request request;
	char *group; /* the request's; NULL: all */
};

struct change {
	struct asked *asked;       /* who waits for it: several, if all want a reload */
	struct settings *before;   /* in effect when it began */
	struct settings *settings; /* that are to be */
	struct report report;
	FILE *stream; /* to `text` */
	char *text;
	size_t length;
	struct diff diff;
	struct change_step *steps;
	size_t n_steps;
	uint64_t begun_ns;
	sd_event_source *timer_source;
	bool timed_out;
	bool failed;
	bool made; /* clients come to the new groups */
};

static const struct change_request *request_of(const struct change *change)
{
	return &change->asked->request;
}

void change_explain(struct master *master, const struct origin *origin, const char *format, ...)
{
	const struct change *change = master->change;
	_cleanup_(freep) char *text = NULL;
	char place[REPORT_PLACE_MAX];
	va_list arguments;
	int r;

	va_start(arguments, format);
	r = vasprintf(&text, format, arguments);
	va_end(arguments);
	if (r < 0) {
		text = NULL;
		log_error("%s", strerror(ENOMEM));
		return;
	}
	log_error("%s", text);
	if (change && change->stream && origin && origin->file)
		fprintf(change->stream, "%s: %s\n", report_place(origin, place), text);
	else if (change && change->stream)
		fprintf(change->stream, "%s\n", text);
}

/* --- What is asked for ------------------------------------------------------------------------- */

static void asked_free(struct asked *asked)
{
	free(asked->group);
	free(asked);
}

static void asked_answer(const struct asked *asked, const struct change_result *result)
{
	if (asked->request.done)
		asked->request.done(asked->request.userdata, result);
}

/* What was asked for is not even begun. */
static void asked_fail(struct master *master, struct asked *asked, const char *why)
{
	const struct change_result result = {
		.outcome = CHANGE_FAILED,
		.text = why,
		.number = master->changes,
	};

	while (asked) {
		struct asked *next = asked->next;

		asked_answer(asked, &result);
		asked_free(asked);
		asked = next;
	}
}

void change_ask(struct master *master, const struct change_request *request)
{
	struct asked *asked = calloc(1, sizeof(*asked));
	struct asked **link = &master->asked;

	if (asked && request->group)
		asked->group = strdup(request->group);
	if (!asked)
		return; /* unanswered; whoever waits has a time-out */
	asked->request = *request;
	if (request->group && !asked->group) {
		asked_fail(master, asked, "out of memory\n");
		return;
	}
	asked->request.group = asked->group;
	while (*link)
		link = &(*link)->next;
	*link = asked;
	master_settle(master);
}

static void asked_forget(struct asked *asked, const void *userdata)
{
	for (; asked; asked = asked->next) {
		if (asked->request.done && asked->request.userdata == userdata)
			asked->request.done = NULL;
	}
}

void change_forget(struct master *master, const void *userdata)
{
	asked_forget(master->asked, userdata);
	if (master->change)
		asked_forget(master->change->asked, userdata);
}

static bool wants_reload(const struct asked *asked)
{
	return asked->request.kind == CHANGE_RELOAD && !asked->request.dry_run;
}

/* The first one, and with a reload all that want another one right after it. */
static struct asked *asked_take(struct master *master)
{
	struct asked *first = master->asked, *last = first;

	while (wants_reload(first) && last->next && wants_reload(last->next))
		last = last->next;
	master->asked = last->next;
	last->next = NULL;
	return first;
}

/* --- Its end ----------------------------------------------------------------------------------- */

static const char *kind_name(const struct change *change)
{
	switch (request_of(change)->kind) {
	case CHANGE_RELOAD:
		return request_of(change)->dry_run ? "check" : "reload";
	case CHANGE_RESTART:
		return "restart";
	case CHANGE_DRAIN:
		return "drain";
	}
	return "change";
}

/* "echo replaced, web added" */
static const char *steps_text(const struct change *change, char *text, size_t size)
{
	static const char *const did[] = {[CHANGE_ADDS] = "added",
					  [CHANGE_REPLACES] = "replaced",
					  [CHANGE_REMOVES] = "removed"};
	size_t length = 0;

	(void)snprintf(text, size, "no group replaced");
	for (size_t i = 0; i < change->n_steps && length < size; i++) {
		const struct change_step *step = &change->steps[i];

		if (step->action != CHANGE_KEEPS)
			length += (size_t)snprintf(text + length, size - length, "%s%s %s",
						   length > 0 ? ", " : "", step->group,
						   did[step->action]);
	}
	return text;
}

/* Line by line: what stands in a report is for people. */
static void log_text(const char *text)
{
	while (*text) {
		size_t length = strcspn(text, "\n");

		log_error("%.*s", (int)length, text);
		text += length + (text[length] == '\n');
	}
}

static void change_log(const struct change *change, const struct change_result *result)
{
	char steps[256];

	if (result->outcome == CHANGE_REFUSED)
		log_text(result->text); /* who failed has been logged already */
	if (result->outcome != CHANGE_DONE) {
		log_error("%s %s; all is as before", kind_name(change),
			  result->outcome == CHANGE_REFUSED ? "refused" : "failed");
		return;
	}
	if (request_of(change)->dry_run)
		return;
	log_notice("%s done in %u ms: %s", kind_name(change),
		   (unsigned)(result->duration_ns / NS_PER_MS),
		   steps_text(change, steps, sizeof(steps)));
	for (size_t i = 0; i < change->diff.n; i++) {
		const struct diff_entry *entry = &change->diff.entries[i];

		if (entry->restart)
			log_warning("%s: %s takes effect when laned is started anew; until then it "
				    "is %s",
				    entry->path, entry->new_text, entry->old_text);
	}
}

/* The first line of a text alone. */
static int first_line(const char *text)
{
	return (int)strcspn(text, "\n");
}

/* The service manager is told that a reload is over, whatever came of it. */
static void change_notify(const struct change *change, const struct change_result *result)
{
	if (!wants_reload(change->asked))
		return;
	if (result->outcome == CHANGE_DONE)
		(void)sd_notify(false, "READY=1\nSTATUS=Serving; last reload done");
	else
		(void)sd_notifyf(false, "READY=1\nSTATUS=Serving; last reload %s: %.*s",
				 result->outcome == CHANGE_REFUSED ? "refused" : "failed",
				 first_line(result->text), result->text);
}

static void change_free(struct change *change)
{
	sd_event_source_disable_unref(change->timer_source);
	if (change->stream)
		fclose(change->stream);
	report_fini(&change->report);
	settings_free(change->before);
	settings_free(change->settings);
	diff_fini(&change->diff);
	free(change->steps);
	free(change->text);
	for (struct asked *asked = change->asked, *next; asked; asked = next) {
		next = asked->next;
		asked_free(asked);
	}
	free(change);
}

/* Everybody who asked is answered. */
static void change_finish(struct master *master, enum change_outcome outcome)
{
	struct change *change = master->change;
	bool written = change->stream && fflush(change->stream) == 0;
	const struct change_result result = {
		.outcome = outcome,
		.text = written && change->text ? change->text : "",
		.diff = &change->diff,
		.steps = change->steps,
		.n_steps = change->n_steps,
		.number = master->changes,
		.duration_ns = clock_now_ns() - change->begun_ns,
	};

	change_log(change, &result);
	change_notify(change, &result);
	master->change = NULL;
	for (const struct asked *asked = change->asked; asked; asked = asked->next)
		asked_answer(asked, &result);
	change_free(change);
}

/* --- Its plan ---------------------------------------------------------------------------------- */

/* Whether a request is about a group at all. */
static bool is_meant(const struct change_request *request, const char *name)
{
	return !request->group || strcmp(request->group, name) == 0;
}

/* Whether a group that serves may go on as it is. */
static bool group_may_stay(const struct group *group, const struct settings *settings,
			   const struct group_settings *next)
{
	const struct master *master = group->master;
	struct plan plan = topology_plan(next, master->host.cpus);

	return diff_groups_equal(group->settings, next) && plan.lanes == group->plan.lanes &&
	       plan.primaries == group->plan.primaries && plan.standbys == group->plan.standbys &&
	       plan_workers(&plan) + settings->supervision.extra_max == group->places &&
	       limits_nofile(next, &plan, &master->host) == group->nofile;
}

/* What becomes of one of the groups that are to serve. */
static enum change_action action_for(const struct master *master, const struct change *change,
				     const struct group_settings *next)
{
	const struct change_request *request = request_of(change);
	const struct group *group = group_find(master, next->name, GROUP_SERVING);

	if (!group)
		return CHANGE_ADDS;
	if (request->kind == CHANGE_RESTART)
		return is_meant(request, next->name) ? CHANGE_REPLACES : CHANGE_KEEPS;
	if (request->kind == CHANGE_DRAIN)
		return is_meant(request, next->name) ? CHANGE_REMOVES : CHANGE_KEEPS;
	return group_may_stay(group, change->settings, next) ? CHANGE_KEEPS : CHANGE_REPLACES;
}

/* Whether a group that does not serve stays so: it has been drained, and nobody reloads. */
static bool stays_drained(const struct change *change, enum change_action action)
{
	return action == CHANGE_ADDS && request_of(change)->kind != CHANGE_RELOAD;
}

static void add_step(struct change *change, const char *group, enum change_action action)
{
	change->steps[change->n_steps++] = (struct change_step){group, action};
}

/* Returns 0 or -ENOMEM. */
static int change_plan(struct master *master, struct change *change)
{
	const struct settings *settings = change->settings;
	size_t room = settings->n_groups;

	for (const struct group *group = master->groups; group; group = group->next)
		room++;
	change->steps = calloc(room, sizeof(*change->steps));
	if (!change->steps)
		return -ENOMEM;
	for (size_t i = 0; i < settings->n_groups; i++) {
		const struct group_settings *next = &settings->groups[i];
		enum change_action action = action_for(master, change, next);

		if (!stays_drained(change, action))
			add_step(change, next->name, action);
	}
	for (const struct group *group = master->groups; group; group = group->next) {
		if (group->state == GROUP_SERVING &&
		    !settings_find_group(settings, group->settings->name))
			add_step(change, group->settings->name, CHANGE_REMOVES);
	}
	return 0;
}

/* --- Making it -------------------------------------------------------------------------------- */

/* Clients come to the new groups, or nothing has changed. Returns 0 or -errno. */
static int change_make(struct master *master, struct change *change)
{
	for (struct group *group = master->groups; group; group = group->next) {
		int r = group->state == GROUP_NEW ? endpoints_begin(group) : 0;

		if (r < 0) {
			change_explain(master, NULL, "%s: cannot listen: %s", group->settings->name,
				       strerror(-r));
			return r;
		}
	}
	change->made = true;
	groups_take_over(master, change->settings, change->steps, change->n_steps);
	return 0;
}

/* --- Step by step ------------------------------------------------------------------------------ */

static int change_timed_out(sd_event_source *source, uint64_t now_us, void *userdata)
{
	struct master *master = userdata;

	(void)source;
	(void)now_us;
	master->change->timed_out = true;
	change_go_on(master);
	return 0;
}

/* Not longer than this. */
static void change_limit(struct master *master, struct change *change, uint64_t limit_ns)
{
	int r;

	sd_event_source_disable_unref(change->timer_source);
	change->timer_source = NULL;
	r = sd_event_add_time_relative(master->event, &change->timer_source, CLOCK_MONOTONIC,
				       limit_ns / NS_PER_US, 1, change_timed_out, master);
	if (r < 0)
		log_warning("cannot set a timer: %s; what is asked for may wait", strerror(-r));
}

/* Reads and checks what is to be. Returns 0 or -errno, with a reason in the text. */
static int change_load(struct master *master, struct change *change)
{
	const char *path = master->source->path;
	int r;

	if (path && strcmp(path, "-") == 0) {
		fprintf(change->stream,
			"nothing to reload: the configuration is from standard input\n");
		return -ENOENT;
	}
	r = config_load(master->source, &change->report, &change->settings);
	if (r == -ENOMEM)
		fprintf(change->stream, "the configuration cannot be read: %s\n", strerror(ENOMEM));
	if (r < 0)
		return r;
	/* The built-in default is for whoever has no file yet, not for whoever has lost it. */
	if (change->settings->n_files == 0) {
		fprintf(change->stream, "nothing to reload: there is no configuration file\n");
		return -ENOENT;
	}
	if (master->settings->groups_origin.file && !change->settings->groups_origin.file) {
		fprintf(change->stream, "%s: error: no groups: it is empty, or not yet written\n",
			change->settings->files[0]);
		return -EBADMSG;
	}
	host_limits_read(&master->host);
	limits_check(change->settings, &master->host, &change->report);
	if (change->report.errors > 0)
		return -EBADMSG;
	r = diff_make(master->settings, change->settings, &change->diff);
	return r < 0 ? r : settings_keep(change->settings, master->settings);
}

/* The same configuration again. Returns 0, or -ENOENT with a reason in the text. */
static int change_keep(struct master *master, struct change *change)
{
	const char *name = request_of(change)->group;

	change->settings = settings_ref(master->settings);
	if (!name || group_find(master, name, GROUP_SERVING))
		return 0;
	fprintf(change->stream, "%s \"%s\"\n",
		settings_find_group(master->settings, name) ? "drained already: group"
							    : "there is no group",
		name);
	return -ENOENT;
}

/* Returns 0, or -errno if it is over before it begins. */
static int change_prepare(struct master *master, struct change *change)
{
	bool reload = request_of(change)->kind == CHANGE_RELOAD;
	int r;

	change->stream = open_memstream(&change->text, &change->length);
	if (!change->stream)
		return -ENOMEM;
	change->report.stream = change->stream;
	r = reload ? change_load(master, change) : change_keep(master, change);
	return r < 0 ? r : change_plan(master, change);
}

static void change_begin(struct master *master)
{
	struct change *change = calloc(1, sizeof(*change));
	struct asked *asked = asked_take(master);
	int r;

	if (!change) {
		log_error("what was asked for cannot be done: %s", strerror(ENOMEM));
		asked_fail(master, asked, "out of memory\n");
		return;
	}
	change->asked = asked;
	change->before = settings_ref(master->settings);
	change->begun_ns = clock_now_ns();
	master->change = change;
	if (wants_reload(asked))
		(void)sd_notifyf(false, "RELOADING=1\nMONOTONIC_USEC=%llu",
				 (unsigned long long)(change->begun_ns / NS_PER_US));
	r = change_prepare(master, change);
	if (r < 0)
		change_finish(master, r == -ENOMEM ? CHANGE_FAILED : CHANGE_REFUSED);
	else if (asked->request.dry_run)
		change_finish(master, CHANGE_DONE);
	else if (asked->request.kind == CHANGE_DRAIN && !asked->request.group) {
		change_finish(master, CHANGE_DONE);
		master_stop(master);
	} else {
		change_limit(master, change, READY_NS);
		change->failed = !groups_come(master, change->settings, change->steps,
					      change->n_steps);
	}
}

/* Whether everybody has left the queues that others have inherited. */
static bool all_is_handed_over(const struct master *master)
{
	for (const struct group *group = master->groups; group; group = group->next) {
		if (group->state == GROUP_LEAVING && group->left_with == master->changes &&
		    !group_has_handed_over(group))
			return false;
	}
	return true;
}

/* One that is not ready yet; NULL: all are. */
static const struct worker *first_unready(const struct master *master)
{
	for (struct worker *worker = NULL; (worker = worker_next(master, worker));) {
		if (worker->group->state == GROUP_NEW && worker->role != WORKER_EXTRA &&
		    !worker->ready)
			return worker;
	}
	return NULL;
}

/* Before clients come to the new groups. Returns whether it got on. */
static bool change_get_ready(struct master *master, struct change *change)
{
	const struct worker *unready = first_unready(master);

	if (unready && !change->failed && !change->timed_out)
		return false;
	if (unready && !change->failed) {
		change->failed = true;
		change_explain(master, NULL, "%s (pid %d): not ready after %u s", unready->name,
			       (int)unready->pid, (unsigned)(READY_NS / NS_PER_S));
	}
	if (change->failed || change_make(master, change) < 0) {
		groups_abandon(master);
		change_finish(master, CHANGE_FAILED);
		return true;
	}
	change->timed_out = false;
	change_limit(master, change, HAND_OVER_NS);
	return true;
}

void change_go_on(struct master *master)
{
	while (master->phase == MASTER_SERVING) {
		struct change *change = master->change;

		if (!change && !master->asked)
			return;
		if (!change)
			change_begin(master);
		else if (change->made && !change->timed_out && !all_is_handed_over(master))
			return;
		else if (change->made)
			change_finish(master, CHANGE_DONE);
		else if (!change_get_ready(master, change))
			return;
	}
}

void change_worker_ended(struct worker *worker, const char *end)
{
	struct master *master = worker->master;

	change_explain(master, NULL, "%s: %s before it was ready", worker->name, end);
	if (master->change)
		master->change->failed = true;
	master_settle(master);
}

void change_cancel(struct master *master)
{
	groups_abandon(master);
	if (master->change) {
		fprintf(master->change->stream, "laned stops\n");
		change_finish(master, master->change->made ? CHANGE_DONE : CHANGE_FAILED);
	}
	asked_fail(master, master->asked, "laned stops\n");
	master->asked = NULL;
}
