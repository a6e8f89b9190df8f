/*
 * What is wrong with `supervision` and with faults: each finding word by word, and where it is.
 */
#include <errno.h>

#include "config-fixture.h"

#define HEAD "groups = ( { name = \"a\"; listen = \"127.0.0.1:7\";\n"
#define TAIL "\n} );\n"

/* What is said of one line in a group, which is line 2. */
static void check_group_key(const char *line, const char *expected)
{
	char text[1024], findings[1024];

	snprintf(text, sizeof(text), HEAD "%s" TAIL, line);
	snprintf(findings, sizeof(findings), "x.conf:2: error: %s", expected);
	check_findings(text, findings);
}

#define FAULT_HEAD "allow_faults = true;\n" HEAD "faults = ( {\nkind = \"stop\";\n"
#define FAULT_TAIL "\n} ); } );\n"

/* The same for one line in a fault of kind "stop", which is line 5. */
static void check_fault_key(const char *line, const char *expected)
{
	char text[1024], findings[1024];

	snprintf(text, sizeof(text), FAULT_HEAD "%s" FAULT_TAIL, line);
	snprintf(findings, sizeof(findings), "x.conf:5: error: %s", expected);
	check_findings(text, findings);
}

static void test_wrong_types_in_a_fault(void **state)
{
	(void)state;
	check_fault_key("probability = \"1\";", "probability: expected number, got string\n"
						"        probability = \"1\";\n"
						"        write 0 to 1, without quotes\n");
	check_fault_key("probability = true;", "probability: expected number, got bool\n"
					       "        probability = true;\n"
					       "        write 0 to 1\n");
	check_fault_key("lanes = 1;", "lanes: expected array of integers, got integer\n"
				      "        lanes = 1;\n"
				      "        write [ 0 ] or [ 0, 1 ]\n");
	check_fault_key("lanes = [ \"1\" ];", "lanes: expected array of integers, got string\n"
					      "        lanes = [ \"1\" ];\n"
					      "        write [ 0 ] or [ 0, 1 ]\n");
	check_fault_key("workers = [ 1.5 ];", "workers: expected array of integers, got float\n"
					      "        workers = [ 1.5 ];\n"
					      "        write [ 0 ] or [ 0, 1 ]\n");
	check_fault_key("workers = \"1\";", "workers: expected array of integers, got string\n"
					    "        workers = \"1\";\n"
					    "        write [ 0 ] or [ 0, 1 ]\n");
	check_fault_key("roles = \"extra\";", "roles: expected array of strings, got string\n"
					      "        roles = \"extra\";\n"
					      "        write [ \"primary\" ]\n");
	check_fault_key("roles = [ 1 ];", "roles: expected array of strings, got integer\n"
					  "        roles = [ 1 ];\n"
					  "        write [ \"primary\" ]\n");
	check_fault_key("roles = [ \"[ ]\" ];", "roles: expected array of strings, got string\n"
						"        roles = [ \"[ ]\" ];\n"
						"        write [ \"primary\" ]\n");
	check_fault_key("lanes = 5s;", "5s is not a number\n"
				       "        lanes = 5s;\n"
				       "        write \"5s\"\n");
	check_fault_key("on = 1;", "on: expected string, got integer\n"
				   "        on = 1;\n"
				   "        write \"accept\" or \"message\"\n");
}

static void test_values_of_a_fault_that_are_not_allowed(void **state)
{
	(void)state;
	check_fault_key("probability = 1.01;", "probability must be 0 to 1, not 1.01\n"
					       "        probability = 1.01;\n");
	check_fault_key("probability = -0.5;", "probability must be 0 to 1, not -0.5\n"
					       "        probability = -0.5;\n");
	check_fault_key("probability = 1.0e999;", "probability must be 0 to 1, not inf\n"
						  "        probability = 1.0e999;\n");
	check_fault_key("probability = 2;", "probability must be 0 to 1, not 2\n"
					    "        probability = 2;\n");
	check_fault_key("probability = -1;", "probability must be 0 to 1, not -1\n"
					     "        probability = -1;\n");
	check_fault_key("seed = 4294967296L;", "seed must be 0 to 4294967295, not 4294967296\n"
					       "        seed = 4294967296L;\n");
	check_fault_key("seed = 4294967295;",
			"4294967295 does not fit into the 32 bits of an integer without L\n"
			"        seed = 4294967295;\n"
			"        write 4294967295L\n");
	check_fault_key("lanes = [ 0, 512 ];", "lanes must be 0 to 511, not 512\n"
					       "        lanes = [ 0, 512 ];\n");
	check_fault_key("workers = ( 592 );", "workers must be 0 to 591, not 592\n"
					      "        workers = ( 592 );\n");
	check_fault_key("workers = [ 2, -1 ];", "workers must be 0 to 591, not -1\n"
						"        workers = [ 2, -1 ];\n");
	check_fault_key("lanes = [ 3, 1, 3 ];", "lanes: 3 stands there twice\n"
						"        lanes = [ 3, 1, 3 ];\n");
	check_fault_key("roles = [ \"extra\", \"extra\" ];",
			"roles: \"extra\" stands there twice\n"
			"        roles = [ \"extra\", \"extra\" ];\n");
	check_fault_key("roles = [ \"stanby\" ];",
			"roles must be \"primary\", \"standby\" or \"extra\", not \"stanby\"\n"
			"        roles = [ \"stanby\" ];\n"
			"        did you mean \"standby\"?\n");
	check_fault_key("on = \"msg\";", "on must be \"accept\" or \"message\", not \"msg\"\n"
					 "        on = \"msg\";\n");
}

static void test_unknown_keys_in_a_fault(void **state)
{
	(void)state;
	check_fault_key("durations = \"2s\";", "unknown key \"durations\" in a fault\n"
					       "        durations = \"2s\";\n"
					       "        did you mean \"duration\"?\n");
	check_fault_key("backlog = 5;", "unknown key \"backlog\" in a fault\n"
					"        backlog = 5;\n"
					"        \"backlog\" belongs in a group of \"groups\"\n");
	check_fault_key("kill_after = \"2s\";",
			"unknown key \"kill_after\" in a fault\n"
			"        kill_after = \"2s\";\n"
			"        \"kill_after\" belongs in \"supervision\"\n");
	check_group_key("probability = 0.5;",
			"unknown key \"probability\" in a group\n"
			"        probability = 0.5;\n"
			"        \"probability\" belongs in a fault of \"faults\"\n");
	check_findings("faults = ( );\nsupervision = { extramax = 1; };\n",
		       "x.conf:1: error: unknown key \"faults\"\n"
		       "        faults = ( );\n"
		       "        \"faults\" belongs in a group of \"groups\"\n"
		       "x.conf:2: error: unknown key \"supervision.extramax\"\n"
		       "        supervision = { extramax = 1; };\n"
		       "        did you mean \"extra_max\"?\n");
}

static void test_lists_of_faults(void **state)
{
	(void)state;
	check_group_key("faults = { };",
			"faults: expected list of faults, got group\n"
			"        faults = { };\n"
			"        write ( { kind = \"sleep\"; duration = \"2s\"; } )\n");
	check_group_key("faults = [ ];",
			"faults: expected list of faults, got array\n"
			"        faults = [ ];\n"
			"        write ( { kind = \"sleep\"; duration = \"2s\"; } )\n");
	check_group_key("faults = ( \"stop\" );",
			"faults: expected list of faults, got string\n"
			"        faults = ( \"stop\" );\n"
			"        write ( { kind = \"sleep\"; duration = \"2s\"; } )\n");
	check_findings("allow_faults = true;\n" HEAD "faults = (\n{ seed = 5; },\n{ } ); } );\n",
		       "x.conf:4: error: the fault has no \"kind\"\n"
		       "        { seed = 5; },\n"
		       "        write for instance kind = \"sleep\"\n"
		       "x.conf:5: error: the fault has no \"kind\"\n"
		       "        { } ); } );\n"
		       "        write for instance kind = \"sleep\"\n");
}

static void test_faults_that_are_not_allowed(void **state)
{
	static const char finding[] = "faults are for rehearsals: write allow_faults = true\n"
				      "        faults = ( { kind = \"stop\"; } );\n"
				      "        at the top level, outside of all braces\n";

	(void)state;
	check_group_key("faults = ( { kind = \"stop\"; } );", finding);
	check_findings("allow_faults = false; " HEAD "\n\nfaults = ( { kind = \"stop\"; } );" TAIL,
		       "x.conf:4: error: faults are for rehearsals: write allow_faults = true\n"
		       "        faults = ( { kind = \"stop\"; } );\n"
		       "        at the top level, outside of all braces\n");
	check_findings("allow_faults = 1;",
		       "x.conf:1: error: allow_faults: expected bool, got integer\n"
		       "        allow_faults = 1;\n"
		       "        write true or false\n");
}

/* A fault of that kind, with these other keys, which are line 4. */
static void check_kind(const char *kind, const char *keys, const char *expected)
{
	char text[1024];

	snprintf(text, sizeof(text),
		 "allow_faults = true;\n" HEAD "faults = ( { kind = \"%s\";\n%s } ); } );\n", kind,
		 keys);
	check_findings(text, expected);
}

static void test_durations(void **state)
{
	static const char *const without[] = {"stop", "crash", "exit"};
	static const char *const with[] = {"sleep", "spin"};

	(void)state;
	for (size_t i = 0; i < sizeof(without) / sizeof(without[0]); i++)
		check_kind(without[i], "duration = \"2s\";",
			   "x.conf:4: error: only \"sleep\" and \"spin\" have a duration\n"
			   "        duration = \"2s\"; } ); } );\n"
			   "        leave it out\n");
	for (size_t i = 0; i < sizeof(with) / sizeof(with[0]); i++) {
		char findings[512];

		snprintf(
			findings, sizeof(findings),
			"x.conf:3: error: the fault has no \"duration\": \"sleep\" and \"spin\" need "
			"one\n"
			"        faults = ( { kind = \"%s\";\n"
			"        write for instance duration = \"2s\"\n",
			with[i]);
		check_kind(with[i], "seed = 1;", findings);
	}
	check_kind("sleep", "duration = \"0\";",
		   "x.conf:4: error: duration must be 1ms to 1h, not \"0\"\n"
		   "        duration = \"0\"; } ); } );\n");
	check_kind("sleep", "duration = \"61min\";",
		   "x.conf:4: error: duration must be 1ms to 1h, not \"61min\"\n"
		   "        duration = \"61min\"; } ); } );\n");
	/* Whether an unknown kind has a duration is unknown. */
	check_kind("slep", "seed = 1;",
		   "x.conf:3: error: kind must be \"sleep\", \"spin\", \"stop\", \"crash\" or "
		   "\"exit\", not \"slep\"\n"
		   "        faults = ( { kind = \"slep\";\n"
		   "        did you mean \"sleep\"?\n");
}

static void test_supervision_out_of_range(void **state)
{
	static const char *const cases[][3] = {
		{"rescue_after", "\"0\"", "1ms to 10s"},
		{"rescue_after", "\"11s\"", "1ms to 10s"},
		{"extra_after", "\"601s\"", "1ms to 600s"},
		{"steer_after", "\"9ms\"", "10ms to 1h, or 0"},
		{"abort_after", "\"99ms\"", "100ms to 1h, or 0"},
		{"kill_after", "\"0\"", "100ms to 600s"},
		{"check_interval", "\"9ms\"", "10ms to 10s"},
		{"extra_max", "65", "0 to 64"},
		{"restart_limit", "0", "1 to 10000"},
		{"restart_interval", "\"25h\"", "1s to 1d"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *const *c = cases[i];
		char text[256], findings[512];

		snprintf(text, sizeof(text), "supervision = {\n%s = %s; };\n", c[0], c[1]);
		snprintf(findings, sizeof(findings),
			 "x.conf:2: error: supervision.%s must be %s, not %s\n"
			 "        %s = %s; };\n",
			 c[0], c[2], c[1], c[0], c[1]);
		check_findings(text, findings);
	}
}

#define STEPS_HINT                                                                               \
	"        rescue_after, extra_after, steer_after, abort_after: none is shorter than one " \
	"before it,\n"                                                                           \
	"        nor abort_after than check_interval\n"

/* Each points at a line that was written, and names both. */
static void test_steps_of_supervision_out_of_order(void **state)
{
	(void)state;
	check_findings(
		"supervision = { rescue_after = \"21ms\"; };",
		"x.conf:1: error: supervision.extra_after = 20ms (its default) is shorter than "
		"supervision.rescue_after = 21ms (x.conf:1)\n"
		"        supervision = { rescue_after = \"21ms\"; };\n" STEPS_HINT);
	check_findings("supervision = {\nsteer_after = \"15ms\";\n};",
		       "x.conf:2: error: supervision.steer_after = 15ms (x.conf:2) is shorter than "
		       "supervision.extra_after = 20ms (its default)\n"
		       "        steer_after = \"15ms\";\n" STEPS_HINT);
	check_findings("supervision = {\nabort_after = \"2s\";\nsteer_after = \"3s\";\n};",
		       "x.conf:2: error: supervision.abort_after = 2s (x.conf:2) is shorter than "
		       "supervision.steer_after = 3s (x.conf:3)\n"
		       "        abort_after = \"2s\";\n" STEPS_HINT);
	check_findings(
		"supervision = {\nsteer_after = 0;\nextra_after = \"11s\";\n};",
		"x.conf:3: error: supervision.abort_after = 10s (its default) is shorter than "
		"supervision.extra_after = 11s (x.conf:3)\n"
		"        extra_after = \"11s\";\n" STEPS_HINT);
	check_findings(
		"supervision = {\nsteer_after = 0;\nabort_after = \"200ms\";\n};",
		"x.conf:3: error: supervision.abort_after = 200ms (x.conf:3) is shorter than "
		"supervision.check_interval = 250ms (its default)\n"
		"        abort_after = \"200ms\";\n" STEPS_HINT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wrong_types_in_a_fault),
		cmocka_unit_test(test_values_of_a_fault_that_are_not_allowed),
		cmocka_unit_test(test_unknown_keys_in_a_fault),
		cmocka_unit_test(test_lists_of_faults),
		cmocka_unit_test(test_faults_that_are_not_allowed),
		cmocka_unit_test(test_durations),
		cmocka_unit_test(test_supervision_out_of_range),
		cmocka_unit_test(test_steps_of_supervision_out_of_order),
	};

	return cmocka_run_group_tests_name("config-faults", tests, fixture_enter, fixture_leave);
}
