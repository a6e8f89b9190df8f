/*
 * Configurations that are wrong: each finding word by word, where it is, and that all come in one
 * pass.
 */
#include <errno.h>
#include <sys/stat.h>

#include "config-fixture.h"

#define HEAD  "groups = ( { name = \"a\"; listen = \"127.0.0.1:7\";\n"
#define TAIL  "\n} );\n"
#define PLACE "x.conf:2: error: "

/* A text with `n` times the character in the middle; the caller's. */
static char *repeated(const char *before, char c, size_t n, const char *after)
{
	char *text = NULL;
	size_t length;
	FILE *stream = open_memstream(&text, &length);

	assert_non_null(stream);
	fputs(before, stream);
	while (n-- > 0)
		fputc(c, stream);
	fputs(after, stream);
	assert_int_equal(fclose(stream), 0);
	return text;
}

/* The same for one line in a group, which is line 2. */
static void check_key(const char *line, const char *expected)
{
	char text[4096], findings[4096];

	snprintf(text, sizeof(text), HEAD "%s" TAIL, line);
	snprintf(findings, sizeof(findings), PLACE "%s", expected);
	check_findings(text, findings);
}

static void test_wrong_types(void **state)
{
	(void)state;
	check_key("echo = { tag = 1; };", "echo.tag: expected bool, got integer\n"
					  "        echo = { tag = 1; };\n"
					  "        write true or false\n");
	check_key("echo = { tag = \"true\"; };", "echo.tag: expected bool, got string\n"
						 "        echo = { tag = \"true\"; };\n"
						 "        write true or false, without quotes\n");
	check_key("backlog = \"4096\";", "backlog: expected integer, got string\n"
					 "        backlog = \"4096\";\n"
					 "        write 1 to 2147483647, without quotes\n");
	check_key("backlog = 4096.0;", "backlog: expected integer, got float\n"
				       "        backlog = 4096.0;\n"
				       "        write 1 to 2147483647\n");
	check_key("backlog = true;", "backlog: expected integer, got bool\n"
				     "        backlog = true;\n"
				     "        write 1 to 2147483647\n");
	check_key("backlog = [ 1 ];", "backlog: expected integer, got array\n"
				      "        backlog = [ 1 ];\n"
				      "        write 1 to 2147483647\n");
	check_key("workers = \"4\";", "workers: expected integer or \"auto\", got string\n"
				      "        workers = \"4\";\n"
				      "        write 1 to 512, or \"auto\", without quotes\n");
	check_key("topology = 5;", "topology: expected string, got integer\n"
				   "        topology = 5;\n"
				   "        write \"shared-listener\", \"reuseport\" or "
				   "\"reuseport+standby\"\n");
	check_key("topology = ( );", "topology: expected string, got list\n"
				     "        topology = ( );\n"
				     "        write \"shared-listener\", \"reuseport\" or "
				     "\"reuseport+standby\"\n");
	check_key("buffer_memory = 1.5;", "buffer_memory: expected size, got float\n"
					  "        buffer_memory = 1.5;\n"
					  "        write a size such as \"64MiB\"\n");
	check_key("echo = 5;", "echo: expected group, got integer\n"
			       "        echo = 5;\n"
			       "        write its keys between { and }\n");
	check_findings("user = { };", "x.conf:1: error: user: expected string, got group\n"
				      "        user = { };\n"
				      "        write text in quotes\n");
	check_findings("log = \"debug\";", "x.conf:1: error: log: expected group, got string\n"
					   "        log = \"debug\";\n"
					   "        write its keys between { and }\n");
}

static void test_numbers_out_of_range(void **state)
{
	(void)state;
	check_key("backlog = 0;", "backlog must be 1 to 2147483647, not 0\n"
				  "        backlog = 0;\n");
	check_key("backlog = -1;", "backlog must be 1 to 2147483647, not -1\n"
				   "        backlog = -1;\n");
	check_key("backlog = 4294967297L;", "backlog must be 1 to 2147483647, not 4294967297\n"
					    "        backlog = 4294967297L;\n");
	check_key("workers = 0;", "workers must be 1 to 512, or \"auto\", not 0\n"
				  "        workers = 0;\n");
	check_key("workers = 513;", "workers must be 1 to 512, or \"auto\", not 513\n"
				    "        workers = 513;\n");
	check_key("standby = 17;", "standby must be 0 to 16, not 17\n"
				   "        standby = 17;\n");
	check_key("nofile = 63;", "nofile must be 64 to 1000000000, or 0, not 63\n"
				  "        nofile = 63;\n");
	check_key("max_connections = 10000001;",
		  "max_connections must be 1 to 10000000, not 10000001\n"
		  "        max_connections = 10000001;\n");
	check_key("buffer_memory = 65535;", "buffer_memory must be 128KiB to 1TiB, not 65535\n"
					    "        buffer_memory = 65535;\n");
	check_key("buffer_memory = \"1025GiB\";",
		  "buffer_memory must be 128KiB to 1TiB, not \"1025GiB\"\n"
		  "        buffer_memory = \"1025GiB\";\n");
	check_key("buffer_memory = \"99999999999TiB\";",
		  "buffer_memory must be 128KiB to 1TiB, not \"99999999999TiB\"\n"
		  "        buffer_memory = \"99999999999TiB\";\n");
	check_key("idle_timeout = \"500ms\";",
		  "idle_timeout must be 1s to 30d, or 0, not \"500ms\"\n"
		  "        idle_timeout = \"500ms\";\n");
	check_findings("drain_timeout = \"61min\";",
		       "x.conf:1: error: drain_timeout must be 0 to 1h, not \"61min\"\n"
		       "        drain_timeout = \"61min\";\n");
}

/* The scan has refused it: one finding, and not a second one about the range. */
static void test_integers_that_libconfig_wraps(void **state)
{
	(void)state;
	check_key("backlog = 4294967297;", "4294967297 does not fit into the 32 bits of an integer "
					   "without L\n"
					   "        backlog = 4294967297;\n"
					   "        write 4294967297L\n");
	check_key("nofile = 0x1ffffffff;",
		  "0x1ffffffff does not fit into the 32 bits of an integer "
		  "without L\n"
		  "        nofile = 0x1ffffffff;\n"
		  "        write 0x1ffffffffL\n");
	check_key("idle_timeout = 5s;", "5s is not a number\n"
					"        idle_timeout = 5s;\n"
					"        write \"5s\"\n");
	check_key("echo = 5s;", "5s is not a number\n"
				"        echo = 5s;\n"
				"        write \"5s\"\n");
	check_findings("groups = ( { name = \"a\"; listen = 127.0.0.1:7; } );",
		       "x.conf:1: error: 127.0.0.1:7 is not a number\n"
		       "        groups = ( { name = \"a\"; listen = 127.0.0.1:7; } );\n"
		       "        write \"127.0.0.1:7\"\n");
}

static void test_times_and_sizes(void **state)
{
	(void)state;
	check_key("idle_timeout = 5;", "idle_timeout: expected time, got integer\n"
				       "        idle_timeout = 5;\n"
				       "        write \"5s\"\n");
	check_key("idle_timeout = \"5\";", "idle_timeout: \"5\" is not a time\n"
					   "        idle_timeout = \"5\";\n"
					   "        write \"5s\"\n");
	check_key("idle_timeout = -5;", "idle_timeout: expected time, got integer\n"
					"        idle_timeout = -5;\n"
					"        write a time such as \"5s\"\n");
	check_key("idle_timeout = 0.5;", "idle_timeout: expected time, got float\n"
					 "        idle_timeout = 0.5;\n"
					 "        write a time such as \"5s\"\n");
	check_key("idle_timeout = \"5 s\";",
		  "idle_timeout: \"5 s\" is not a time\n"
		  "        idle_timeout = \"5 s\";\n"
		  "        write a number and ns, us, ms, s, min, h or d, such as \"1.5s\"\n");
	check_key("buffer_memory = \"64M\";",
		  "buffer_memory: \"64M\" is not a size\n"
		  "        buffer_memory = \"64M\";\n"
		  "        write a number and B, KiB, MiB, GiB, TiB, kB, MB, GB or TB, such as "
		  "\"64MiB\"\n");
}

static void test_choices(void **state)
{
	(void)state;
	check_key(
		"topology = \"reuse_port\";",
		"topology must be \"shared-listener\", \"reuseport\" or \"reuseport+standby\", not "
		"\"reuse_port\"\n"
		"        topology = \"reuse_port\";\n"
		"        did you mean \"reuseport\"?\n");
	check_key("share = \"connections\";", "share must be \"queue\", not \"connections\"\n"
					      "        share = \"connections\";\n");
	check_key("engine = \"\";", "engine must be \"auto\" or \"epoll\", not \"\"\n"
				    "        engine = \"\";\n");
	check_findings("log = { level = \"INFO\" };",
		       "x.conf:1: error: log.level must be \"error\", \"warning\", \"notice\", "
		       "\"info\" or \"debug\", not \"INFO\"\n"
		       "        log = { level = \"INFO\" };\n");
}

static void test_unknown_keys(void **state)
{
	(void)state;
	check_key("max_conections = 5;", "unknown key \"max_conections\" in a group\n"
					 "        max_conections = 5;\n"
					 "        did you mean \"max_connections\"?\n");
	check_key("echo = { tags = true; };", "unknown key \"echo.tags\" in a group\n"
					      "        echo = { tags = true; };\n"
					      "        did you mean \"tag\"?\n");
	check_key("ehco = { };", "unknown key \"ehco\" in a group\n"
				 "        ehco = { };\n"
				 "        did you mean \"echo\"?\n");
	check_key("tag = true;", "unknown key \"tag\" in a group\n"
				 "        tag = true;\n"
				 "        \"tag\" belongs in \"echo\" of a group\n");
	check_key("drain_timeot = \"5s\";",
		  "unknown key \"drain_timeot\" in a group\n"
		  "        drain_timeot = \"5s\";\n"
		  "        \"drain_timeout\" belongs at the top level, outside of all braces\n");
	check_key("nonsense = 5;", "unknown key \"nonsense\" in a group\n"
				   "        nonsense = 5;\n");
	check_findings("backlog = 5;\nlevel = \"debug\";\nlog = { backlog = 5; };\necho = { };\n"
		       "usr = \"\";\n",
		       "x.conf:1: error: unknown key \"backlog\"\n"
		       "        backlog = 5;\n"
		       "        \"backlog\" belongs in a group of \"groups\"\n"
		       "x.conf:2: error: unknown key \"level\"\n"
		       "        level = \"debug\";\n"
		       "        \"level\" belongs in \"log\"\n"
		       "x.conf:3: error: unknown key \"log.backlog\"\n"
		       "        log = { backlog = 5; };\n"
		       "        \"backlog\" belongs in a group of \"groups\"\n"
		       "x.conf:4: error: unknown key \"echo\"\n"
		       "        echo = { };\n"
		       "        \"echo\" belongs in a group of \"groups\"\n"
		       "x.conf:5: error: unknown key \"usr\"\n"
		       "        usr = \"\";\n"
		       "        did you mean \"user\"?\n");
}

/* A path of table and file is put together in a buffer of limited size. */
static void test_a_very_long_key(void **state)
{
	char *text = repeated("", 'k', 5000, " = 1;\n");
	struct loaded loaded = fixture_load_text(text);

	(void)state;
	assert_int_equal(loaded.result, -EBADMSG);
	assert_int_equal(loaded.errors, 1);
	assert_non_null(strstr(loaded.findings, "x.conf:1: error: unknown key \"kkk"));
	assert_true(loaded.length < 1000);
	fixture_release(&loaded);
	free(text);
}

static void test_groups(void **state)
{
	(void)state;
	check_findings("\ngroups = ( );\n",
		       "x.conf:2: error: groups must have at least one group\n"
		       "        groups = ( );\n"
		       "        leave it out for the built-in group on 127.0.0.1:7007\n");
	check_findings("groups = { };",
		       "x.conf:1: error: groups: expected list of groups, got group\n"
		       "        groups = { };\n"
		       "        write ( { name = \"echo\"; listen = "
		       "\"127.0.0.1:7\"; } )\n");
	check_findings("groups = [ 1 ];",
		       "x.conf:1: error: groups: expected list of groups, got array\n"
		       "        groups = [ 1 ];\n"
		       "        write ( { name = \"echo\"; listen = \"127.0.0.1:7\"; } )\n");
	check_findings("groups = (\n5,\n\"x\"\n);",
		       "x.conf:2: error: groups: expected list of groups, got integer\n"
		       "        5,\n"
		       "        write ( { name = \"echo\"; listen = \"127.0.0.1:7\"; } )\n"
		       "x.conf:3: error: groups: expected list of groups, got string\n"
		       "        \"x\"\n"
		       "        write ( { name = \"echo\"; listen = \"127.0.0.1:7\"; } )\n");
	check_findings("groups = (\n{ } );", "x.conf:2: error: the group has no \"name\"\n"
					     "        { } );\n"
					     "        write for instance name = \"echo\"\n"
					     "x.conf:2: error: the group has no \"listen\"\n"
					     "        { } );\n"
					     "        write for instance listen = "
					     "\"127.0.0.1:7007\"\n");
}

static void test_names(void **state)
{
	static const char *const names[] = {
		"", "a b", "a.b", "a/0", "\xc3\xa4", "012345678901234567890123456789012",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char text[256], findings[512];

		snprintf(text, sizeof(text),
			 "groups = ( {\nname = \"%s\";\nlisten = \"127.0.0.1:7\" } )", names[i]);
		snprintf(findings, sizeof(findings),
			 "x.conf:2: error: name must be 1 to 32 of A-Z a-z 0-9 _ -, not \"%s\"\n"
			 "        name = \"%s\";\n",
			 names[i], names[i]);
		check_findings(text, findings);
	}
	check_findings("groups = (\n{ name = \"a\"; listen = \"127.0.0.1:7\" },\n"
		       "{ name = \"a\"; listen = \"127.0.0.1:8\" } );",
		       "x.conf:3: error: another group is called \"a\", too: x.conf:2\n"
		       "        { name = \"a\"; listen = \"127.0.0.1:8\" } );\n");
}

static void test_addresses(void **state)
{
	(void)state;
	check_findings("groups = ( { name = \"a\"; listen = [ ] } );",
		       "x.conf:1: error: a group needs an address to listen on\n"
		       "        groups = ( { name = \"a\"; listen = [ ] } );\n"
		       "        write listen = \"127.0.0.1:7\"\n");
	check_findings(
		"groups = ( { name = \"a\";\nlisten = (\n5,\n\"127.0.0.1:0\",\n\"::1\"\n)} );",
		"x.conf:3: error: listen: expected string or array of strings, got integer\n"
		"        5,\n"
		"        write \"127.0.0.1:7\" or [ \"127.0.0.1:7\", \"[::1]:7\" ]\n"
		"x.conf:4: error: cannot listen on \"127.0.0.1:0\"\n"
		"        \"127.0.0.1:0\",\n"
		"        port 0 would be another one at each start; write one from 1 to 65535\n"
		"x.conf:5: error: cannot listen on \"::1\"\n"
		"        \"::1\"\n"
		"        an IPv6 address stands in brackets; write \"[::1]:7\"\n");
	check_findings("groups = ( { name = \"a\"; listen = 7; } );",
		       "x.conf:1: error: listen: expected string or array of strings, got integer\n"
		       "        groups = ( { name = \"a\"; listen = 7; } );\n"
		       "        write \"127.0.0.1:7\" or [ \"127.0.0.1:7\", \"[::1]:7\" ]\n");
}

static void test_overlapping_addresses_name_both_places(void **state)
{
	(void)state;
	check_findings(
		"groups = ( { name = \"a\"; listen = [\n\"127.0.0.1:7\",\n\"127.0.0.1:7\"\n]; },\n"
		"{ name = \"b\"; listen = [\n\"[::1]:7\",\n\"0.0.0.0:7\"\n]; } );\n",
		"x.conf:3: error: \"127.0.0.1:7\" takes clients away from \"127.0.0.1:7\" of "
		"group a: x.conf:2\n"
		"        \"127.0.0.1:7\"\n"
		"        each address can be listened on once; take another port\n"
		"x.conf:7: error: \"0.0.0.0:7\" takes clients away from \"127.0.0.1:7\" of "
		"group a: x.conf:2\n"
		"        \"0.0.0.0:7\"\n"
		"        each address can be listened on once; take another port\n");
}

static void test_overlap_with_a_group_without_a_name(void **state)
{
	struct loaded loaded = fixture_load_text("groups = ( { listen = \"127.0.0.1:7\"; },\n"
						 "{ name = \"b\"; listen = \"127.0.0.1:7\"; } );");

	(void)state;
	assert_int_equal(loaded.errors, 2);
	assert_non_null(strstr(loaded.findings, "of group without a name: x.conf:1\n"));
	fixture_release(&loaded);
}

static void test_an_account_that_is_not_there(void **state)
{
	(void)state;
	check_findings("\nuser = \"no-such-account\";\n",
		       "x.conf:2: error: there is no account \"no-such-account\"\n"
		       "        user = \"no-such-account\";\n"
		       "        `getent passwd` lists the accounts\n");
}

/* Only root can change to another account; for root it is fine. */
static void test_another_account(void **state)
{
	struct loaded loaded = fixture_load_text("user = \"root\";\n");

	(void)state;
	assert_int_equal(loaded.result, 0);
	if (geteuid() == 0)
		assert_string_equal(loaded.findings, "");
	else
		assert_string_equal(loaded.findings,
				    "x.conf:1: warning: only root can become \"root\": all "
				    "processes keep the present account\n"
				    "        user = \"root\";\n"
				    "        start laned as root, or leave user out\n");
	fixture_release(&loaded);
}

#define SYNTAX_HINT                                                       \
	"        one of these, usually, here or in the line before:\n"    \
	"        - a quote, a comma, or a closing ), ] or } is missing\n" \
	"        - text stands without quotes\n"                          \
	"        - there is no \"=\" between a key and its value\n"

static void test_syntax_errors(void **state)
{
	(void)state;
	check_findings("a = 1;\nlog = { level = debug };\n",
		       "x.conf:2: error: syntax error\n"
		       "        a = 1;\n"
		       "        log = { level = debug };\n" SYNTAX_HINT);
	check_findings("groups = (\n{ name = \"a\"; }\n{ name = \"b\"; }\n);\n",
		       "x.conf:3: error: syntax error\n"
		       "        { name = \"a\"; }\n"
		       "        { name = \"b\"; }\n" SYNTAX_HINT);
	check_findings("groups = (\n{ name = \"a\";\n", "x.conf:3: error: syntax error\n"
							"        { name = \"a\";\n" SYNTAX_HINT);
	check_findings("log = {\nlevel 5 }", "x.conf:2: error: syntax error\n"
					     "        log = {\n"
					     "        level 5 }\n" SYNTAX_HINT);
	check_findings("user = \"\";\nlog = { };\nuser = \"\";\n",
		       "x.conf:3: error: duplicate setting name\n"
		       "        log = { };\n"
		       "        user = \"\";\n"
		       "        a key can stand once between two braces\n");
	check_findings("a = [ 1, true ];\n", "x.conf:1: error: mismatched element type in array\n"
					     "        a = [ 1, true ];\n");
}

static void test_syntax_errors_in_included_files(void **state)
{
	(void)state;
	fixture_write_text("a.inc", "a = 1;\nb = \n");
	check_findings("\n\n@include \"a.inc\"\n}\n", "x.conf:4: error: syntax error\n"
						      "        @include \"a.inc\"\n"
						      "        }\n" SYNTAX_HINT);
	fixture_write_text("a.inc", "a = 1;\nb = ;\n");
	check_findings("\n\n@include \"a.inc\"\n", "a.inc:2: error: syntax error\n"
						   "        a = 1;\n"
						   "        b = ;\n" SYNTAX_HINT);
}

/* What the scan has found makes an error of the syntax most of the time: it is told once. */
static void test_no_second_error_for_the_same_fault(void **state)
{
	(void)state;
	check_findings(
		"groups = ( { name = \"a\"; listen = [ 127.0.0.1:7, \"[::1]:7\" ]; } );",
		"x.conf:1: error: 127.0.0.1:7 is not a number\n"
		"        groups = ( { name = \"a\"; listen = [ 127.0.0.1:7, \"[::1]:7\" ]; } "
		");\n"
		"        write \"127.0.0.1:7\"\n");
}

static void test_deep_nesting(void **state)
{
	char *text = repeated("a = ", '(', 100000, "");
	struct loaded loaded = fixture_load_text(text);

	(void)state;
	assert_int_equal(loaded.result, -EBADMSG);
	assert_int_equal(loaded.errors, 1);
	fixture_release(&loaded);
	free(text);
}

/* About as deep as libconfig goes, and closed again: a tree to walk through. */
static void test_nesting_that_libconfig_takes(void **state)
{
	char *begin = repeated("a = ", '(', 2000, "");
	char *text = repeated(begin, ')', 2000, ";\n");
	struct loaded loaded = fixture_load_text(text);

	(void)state;
	assert_int_equal(loaded.errors, 1);
	assert_non_null(strstr(loaded.findings, "unknown key \"a\""));
	fixture_release(&loaded);
	free(begin);
	free(text);
}

static void test_a_dotted_key(void **state)
{
	(void)state;
	check_findings("log.level = \"info\";\n",
		       "x.conf:1: error: \"log.level\" is written with braces, not with a dot\n"
		       "        log.level = \"info\";\n"
		       "        write log = { level = ...; };\n");
}

static void test_all_errors_come_in_one_pass(void **state)
{
	struct loaded loaded = fixture_load_text(
		"user = \"no-such-account\";\n"
		"drain_timeout = 30;\n"
		"log = { level = 1; targt = \"auto\"; };\n"
		"nonsense = 4294967297;\n"
		"groups = (\n"
		"{ name = \"a b\"; listen = \"localhost:7\"; },\n"
		"{ name = \"a\"; listen = \"127.0.0.1:7\"; },\n"
		"{ name = \"a\"; listen = \"127.0.0.1:7\"; }, );\n");

	(void)state;
	assert_int_equal(loaded.result, -EBADMSG);
	assert_int_equal(loaded.errors, 11);
	fixture_release(&loaded);
}

static void check_unreadable(const char *path, int result, const char *findings)
{
	struct loaded loaded = fixture_load(path);

	assert_int_equal(loaded.result, result);
	assert_string_equal(loaded.findings, findings);
	fixture_release(&loaded);
}

static void test_files_that_cannot_be_read(void **state)
{
	(void)state;
	check_unreadable("none.conf", -ENOENT,
			 "error: cannot read none.conf: No such file or directory\n");
	check_unreadable(".", -EISDIR, "error: cannot read .: Is a directory\n");
	check_unreadable("/dev/zero", -ENODEV,
			 "error: cannot read /dev/zero: it is neither a file nor a pipe\n");
	fixture_write_text("y.conf", "");
	check_unreadable("y.conf/x.conf", -ENOTDIR,
			 "error: cannot read y.conf/x.conf: Not a directory\n");
	if (geteuid() != 0) {
		assert_int_equal(chmod("y.conf", 0), 0);
		check_unreadable("y.conf", -EACCES,
				 "error: cannot read y.conf: Permission denied\n");
	}
}

/* Writes a configuration of that many bytes: a comment that long. */
static void write_long(const char *file, size_t length)
{
	char *text = repeated("", '#', length, "");

	fixture_write(file, text, length);
	free(text);
}

static void test_the_limit_of_the_size(void **state)
{
	struct loaded loaded;

	(void)state;
	write_long("long.conf", 1 << 20);
	settings_free(fixture_load_good("long.conf"));
	write_long("long.conf", (1 << 20) + 1);
	check_unreadable("long.conf", -EFBIG,
			 "error: cannot read long.conf: a configuration has at most 1 MiB, all "
			 "its files together\n");

	write_long("half.conf", 1 << 19);
	loaded = fixture_load_text("@include \"half.conf\"\n@include \"half.conf\"\n");
	assert_int_equal(loaded.errors, 1);
	assert_non_null(strstr(loaded.findings,
			       "x.conf:2: error: cannot read the included file \"half.conf\": a "
			       "configuration has at most 1 MiB, all its files together\n"));
	fixture_release(&loaded);
}

static void test_a_nul_in_the_file(void **state)
{
	static const char text[] = "log = { };\n\0backlog = 5;\n";
	struct loaded loaded;

	(void)state;
	fixture_write("x.conf", text, sizeof(text) - 1);
	loaded = fixture_load("x.conf");
	assert_int_equal(loaded.result, -EBADMSG);
	assert_string_equal(loaded.findings, "x.conf:2: error: there is a NUL on this line\n"
					     "        ?backlog = 5;\n"
					     "        is it a text file?\n");
	fixture_release(&loaded);
}

static void test_a_huge_string(void **state)
{
	char *text = repeated("groups = ( { name = \"", 'x', 500000,
			      "\"; listen = \"127.0.0.1:7\"; } );");
	struct loaded loaded = fixture_load_text(text);

	(void)state;
	assert_int_equal(loaded.result, -EBADMSG);
	assert_int_equal(loaded.errors, 1);
	assert_true(loaded.length < 1000);
	fixture_release(&loaded);
	free(text);
}

/* Findings of others, after the load: the report still has the text. */
static void test_the_report_outlives_the_load(void **state)
{
	char *findings = NULL;
	size_t length;
	struct report report = {.stream = open_memstream(&findings, &length)};
	struct settings *settings = NULL;
	const struct config_source source = {.path = "x.conf"};

	(void)state;
	assert_non_null(report.stream);
	fixture_write_text("x.conf", HEAD "backlog = 5000;" TAIL);
	assert_int_equal(config_load(&source, &report, &settings), 0);
	unlink("x.conf");
	report_add(&report, REPORT_WARNING, &settings->groups[0].origins[GROUP_KEY_BACKLOG], "hint",
		   "cut");
	fclose(report.stream);
	assert_string_equal(findings, "x.conf:2: warning: cut\n"
				      "        backlog = 5000;\n"
				      "        hint\n");
	settings_free(settings);
	report_fini(&report);
	free(findings);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wrong_types),
		cmocka_unit_test(test_numbers_out_of_range),
		cmocka_unit_test(test_integers_that_libconfig_wraps),
		cmocka_unit_test(test_times_and_sizes),
		cmocka_unit_test(test_choices),
		cmocka_unit_test(test_unknown_keys),
		cmocka_unit_test(test_a_very_long_key),
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_overlapping_addresses_name_both_places),
		cmocka_unit_test(test_overlap_with_a_group_without_a_name),
		cmocka_unit_test(test_an_account_that_is_not_there),
		cmocka_unit_test(test_another_account),
		cmocka_unit_test(test_syntax_errors),
		cmocka_unit_test(test_syntax_errors_in_included_files),
		cmocka_unit_test(test_no_second_error_for_the_same_fault),
		cmocka_unit_test(test_deep_nesting),
		cmocka_unit_test(test_nesting_that_libconfig_takes),
		cmocka_unit_test(test_a_dotted_key),
		cmocka_unit_test(test_all_errors_come_in_one_pass),
		cmocka_unit_test(test_files_that_cannot_be_read),
		cmocka_unit_test(test_the_limit_of_the_size),
		cmocka_unit_test(test_a_nul_in_the_file),
		cmocka_unit_test(test_a_huge_string),
		cmocka_unit_test(test_the_report_outlives_the_load),
	};

	return cmocka_run_group_tests_name("config-bad", tests, fixture_enter, fixture_leave);
}
