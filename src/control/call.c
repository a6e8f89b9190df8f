#include "control/call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum call_end call_find(const char *bytes, size_t length, size_t *ret_size)
{
	size_t looked_at = length < CALL_MAX + 1 ? length : CALL_MAX + 1;
	const char *end = memchr(bytes, '\0', looked_at);

	if (end) {
		*ret_size = (size_t)(end - bytes) + 1;
		return CALL_WHOLE;
	}
	return length > CALL_MAX ? CALL_TOO_LONG : CALL_INCOMPLETE;
}

static int refuse(struct call_error *error, const char *text)
{
	snprintf(error->text, sizeof(error->text), "%s", text);
	return -EINVAL;
}

/* One member of a call. Returns 0 or -EINVAL. */
static int call_set(struct call *call, const char *key, json_t *value, struct call_error *error)
{
	if (strcmp(key, "method") == 0) {
		call->method = json_string_value(value);
		return call->method ? 0 : refuse(error, "\"method\" is not a string");
	}
	if (strcmp(key, "parameters") == 0) {
		call->parameters = json_is_null(value) ? NULL : value;
		return !call->parameters || json_is_object(value)
			       ? 0
			       : refuse(error, "\"parameters\" is not an object");
	}
	if (strcmp(key, "more") == 0 || strcmp(key, "oneway") == 0) {
		*(key[0] == 'm' ? &call->more : &call->oneway) = json_is_true(value);
		return json_is_boolean(value)
			       ? 0
			       : refuse(error, "\"more\" and \"oneway\" are true or false");
	}
	return refuse(error, "members of a call are method, parameters, more and oneway");
}

int call_parse(struct call *call, const char *bytes, size_t length, struct call_error *error)
{
	json_error_t fault;
	const char *key;
	json_t *value;

	*call = (struct call){0};
	*error = (struct call_error){0};
	call->message = json_loadb(bytes, length, JSON_REJECT_DUPLICATES, &fault);
	if (!call->message) {
		error->garbage = true;
		snprintf(error->text, sizeof(error->text), "not JSON: %s", fault.text);
		return -EINVAL;
	}
	if (!json_is_object(call->message)) {
		error->garbage = true;
		return refuse(error, "a call is a JSON object");
	}
	json_object_foreach(call->message, key, value)
	{
		int r = call_set(call, key, value, error);

		if (r < 0)
			return r;
	}
	return call->method ? 0 : refuse(error, "a call needs a \"method\"");
}

void call_fini(struct call *call)
{
	json_decref(call->message);
	*call = (struct call){0};
}

static const struct verb_parameter *parameter_find(const struct verb *verb, const char *name)
{
	for (size_t i = 0; i < VERB_PARAMETERS && verb->parameters[i].name; i++)
		if (strcmp(verb->parameters[i].name, name) == 0)
			return &verb->parameters[i];
	return NULL;
}

const char *call_check(const struct call *call, const struct verb *verb)
{
	const char *key;
	json_t *value;

	json_object_foreach(call->parameters, key, value)
	{
		const struct verb_parameter *parameter = parameter_find(verb, key);

		if (!parameter)
			return key;
		/* null stands for what is not given */
		if (json_is_null(value) && !parameter->required)
			continue;
		if (parameter->type == VERB_BOOL ? !json_is_boolean(value) : !json_is_string(value))
			return key;
	}
	for (size_t i = 0; i < VERB_PARAMETERS && verb->parameters[i].name; i++)
		if (verb->parameters[i].required &&
		    !json_object_get(call->parameters, verb->parameters[i].name))
			return verb->parameters[i].name;
	return NULL;
}

static char *reply_text(json_t *reply)
{
	char *text = json_dumps(reply, JSON_COMPACT);

	json_decref(reply);
	return text;
}

char *call_reply(json_t *parameters)
{
	return reply_text(
		json_pack("{s:o}", "parameters", parameters ? parameters : json_object()));
}

char *call_reply_error(const char *name, json_t *parameters)
{
	return reply_text(json_pack("{s:s, s:o}", "error", name, "parameters",
				    parameters ? parameters : json_object()));
}
