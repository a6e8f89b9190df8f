#include <errno.h>
#include <inttypes.h>
#include <jansson.h>

#include "bench/report.h"
#include "bench/trouble.h"

/* NULL, as ever where memory is short, passes through json_pack() and json_object_set_new(). */
static json_t *time_or_null(uint64_t ns)
{
	return ns > 0 ? json_integer((json_int_t)ns) : json_null();
}

static json_t *text_or_null(const char *text)
{
	return text ? json_string(text) : json_null();
}

static json_t *latency_json(const struct figures *figures)
{
	const unsigned n = figures->n_answered;

	return json_pack("{s:o, s:o, s:o, s:o, s:o}", "min",
			 time_or_null(n > 0 ? figures->latency_ns[0] : 0), "p50",
			 time_or_null(figures_percentile(figures, 50)), "p90",
			 time_or_null(figures_percentile(figures, 90)), "p99",
			 time_or_null(figures_percentile(figures, 99)), "max",
			 time_or_null(n > 0 ? figures->latency_ns[n - 1] : 0));
}

static json_t *served_json(const struct figures *figures)
{
	json_t *object = json_object();

	for (unsigned i = 0; i < figures->n_served && object; i++) {
		const struct figures_served *served = &figures->served[i];

		if (served->name &&
		    json_object_set_new(object, served->name, json_integer(served->count)) < 0) {
			json_decref(object);
			return NULL;
		}
	}
	return object;
}

/* An object with the members that every error has. */
static json_t *error_json(enum burst_reason reason, int error)
{
	char name[TROUBLE_NAME_MAX];

	return json_pack("{s:s, s:o, s:s}", "phase", trouble_phase(reason), "errno",
			 text_or_null(error > 0 ? trouble_errno(error, name) : NULL), "text",
			 trouble_text(reason, error));
}

static json_t *errors_json(const struct figures *figures)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < figures->n_failures && array; i++) {
		const struct figures_failure *failure = &figures->failures[i];
		json_t *object = error_json(failure->reason, failure->error);

		if (json_object_set_new(object, "count", json_integer(failure->count)) < 0 ||
		    json_array_append(array, object) < 0) {
			json_decref(array);
			array = NULL;
		}
		json_decref(object);
	}
	return array;
}

static json_t *client_json(const struct burst_client *client)
{
	bool good = client->reason == BURST_OK;

	return json_pack("{s:o, s:o, s:o}", "latency_ns", time_or_null(client->latency_ns),
			 "worker",
			 text_or_null(good && client->tag_length > 0 ? client->tag : NULL), "error",
			 good ? json_null() : error_json(client->reason, client->error));
}

static json_t *clients_json(const struct burst *burst)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < burst->n && array; i++) {
		if (json_array_append_new(array, client_json(&burst->clients[i])) < 0) {
			json_decref(array);
			array = NULL;
		}
	}
	return array;
}

static json_t *report_json(const struct report_input *input)
{
	const struct burst_options *options = input->options;
	const struct burst *burst = input->burst;
	const struct figures *figures = input->figures;

	return json_pack("{s:i, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:I, "
			 "s:o, s:I, s:o}",
			 "schema", REPORT_SCHEMA, "lanebench", PACKAGE_VERSION, "verb", "burst",
			 "model", "closed", "server", options->target.text, "connections",
			 (json_int_t)burst->n, "request_bytes", (json_int_t)options->request_bytes,
			 "timeout_ns", (json_int_t)options->timeout_ns, "total_ns",
			 (json_int_t)figures->total_ns, "opened_ns",
			 (json_int_t)(burst->opened_ns - burst->start_ns), "answered",
			 (json_int_t)figures->n_answered, "latency_ns", latency_json(figures),
			 "over_50ms", (json_int_t)figures->n_over_50ms, "over_1s",
			 (json_int_t)figures->n_over_1s, "served_by", served_json(figures),
			 "failed", (json_int_t)figures->n_failed, "errors", errors_json(figures));
}

int report_write_json(const struct report_input *input, FILE *stream)
{
	json_auto_t *root = report_json(input);

	if (!root ||
	    (!input->quiet && json_object_set_new(root, "clients", clients_json(input->burst)) < 0))
		return -ENOMEM;
	(void)json_dumpf(root, stream, JSON_COMPACT);
	(void)fputc('\n', stream);
	return 0;
}
