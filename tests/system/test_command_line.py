"""The command line, what is written to whom, and exit statuses."""

import os
import re
import resource
import select
import shutil
import socket
import subprocess
import time

import pytest

from client import connect, echo
from laned import (
    PATIENCE_S,
    PROGRAM,
    SANITIZED,
    SOURCES,
    Daemon,
    Ports,
    StartError,
    become_nobody,
    complaints,
    configuration,
    run,
)
from trouble import pids

OK, USAGE, UNAVAILABLE, OSERR, NOPERM, CONFIG = 0, 64, 69, 71, 77, 78
SHIPPED = sorted([*SOURCES.glob("etc/*.conf"), *SOURCES.glob("etc/examples/*.conf")])
GOOD = configuration(listen="127.0.0.1:7007")
NO_LEAK_CHECK = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}  # where it cannot look for them


# --- Usage ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help(option):
    """Help goes to stdout and names every option."""
    done = run(option)
    assert (done.returncode, done.stderr) == (OK, "")
    for name in ("-c, --config FILE", "-t, --check", "-q, --quiet", "-T, --dump", "-n, --changed"):
        assert name in done.stdout
    assert "-o, --override KEY=VALUE" in done.stdout and "-w, --origin" in done.stdout
    assert "-V, --version" in done.stdout and "-h, --help" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["-x"],
        ["--nonsense"],
        ["-c"],
        ["extra"],
        ["-t", "extra"],
        ["-T", "user", "extra"],
        ["-t", "-T"],
        ["-q"],
        ["-n"],
        ["-T", "-n", "user"],
        ["-o"],
        ["--origin"],
        ["-T", "--origin", "user"],
        ["-T", "-q"],
        ["--quiet=1", "-t"],
    ],
    ids=" ".join,
)
def test_usage_error(arguments):
    """A wrong command line is an error that leads to the help."""
    done = run(*arguments)
    assert done.returncode == USAGE
    assert done.stdout == ""
    assert done.stderr.endswith("Try 'laned --help'.\n")
    assert len(done.stderr.splitlines()) == 2


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_version(option):
    """-V is one line: name and version."""
    done = run(option)
    assert (done.returncode, done.stderr) == (OK, "")
    assert re.fullmatch(r"laned \d\S*\n", done.stdout)


def test_build():
    """-VV says how it was built and what it can do here."""
    done = run("-VV")
    assert (done.returncode, done.stderr) == (OK, "")
    assert done.stdout.startswith(run("-V").stdout)
    for word in "compiler: ", "configure:", "glibc ", "libconfig ", "libsystemd ", "engines: epoll":
        assert word in done.stdout


# --- Several sources -----------------------------------------------------------------------------


def test_files_and_options(tmp_path):
    """Files of conf.d come after the main one, options last; the dump says so and loads again."""
    main = tmp_path / "laned.conf"
    later = tmp_path / "conf.d" / "50-x.conf"
    later.parent.mkdir()
    main.write_text('\ndrain_timeout = "1s";\n')
    later.write_text('drain_timeout = "2s"; max_generations = 3;\n')
    arguments = ["-c", str(main), "-o", "log.level=debug", "--override=groups.echo.backlog=5"]
    done = run("-T", "-n", "--origin", *arguments)
    assert (done.returncode, done.stderr) == (OK, "")
    lines = done.stdout.splitlines()
    assert f'drain_timeout = "2s"; # {later}:1, overrides {main}:2' in lines
    assert f"max_generations = 3; # {later}:1" in lines
    assert '\tlevel = "debug"; # command line' in lines
    assert "\t\tbacklog = 5; # command line" in lines
    plain = run("-T", *arguments).stdout
    assert run("-T", "-c", "-", stdin=done.stdout).stdout == plain
    assert run("-T", *arguments, "groups.echo.backlog").stdout == "5\n"


def test_standard_input_has_no_folder(tmp_path):
    """conf.d of the current folder does not count for standard input."""
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "x.conf").write_text("nonsense\n")
    done = subprocess.run(
        [PROGRAM, "-t", "-q", "-c", "-"], input="", text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == OK


def test_reload_reads_all_again(start):
    """A reload reads what a start reads: files that have come meanwhile, and the options last."""
    process = {"command": [PROGRAM, "-c", "@", "-o", "groups.echo.workers=2"]}
    laned = start(workers=1, process=process)
    folder = laned.file.parent / "conf.d"
    folder.mkdir()
    text = configuration(name="later", listen="127.0.0.1:@1")
    (folder / "later.conf").write_text(laned.ports.fill(text))
    laned.reload()
    laned.wait_log(r"reload done in \d+ ms: later added$")
    with connect(laned.ports[1]) as client:
        echo(client, b"x")
    assert {"echo/0.0", "echo/0.1"} <= set(pids(laned))


def test_wrong_options():
    """All that is wrong with options is told, each with itself and a hint, without a line number."""
    done = run("-t", "-c", "-", "-o", "log.levl=debug", "-o", "groups.ecko.backlog=5", stdin="")
    assert (done.returncode, done.stdout) == (CONFIG, "")
    assert done.stderr == (
        'command line: error: no key "log.levl"\n'
        "        log.levl=debug\n"
        '        did you mean "log.level"?\n'
        'command line: error: no key "groups.ecko.backlog"\n'
        "        groups.ecko.backlog=5\n"
        '        did you mean "groups.echo.backlog"?\n'
        "2 errors in <stdin>\n"
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every folder")
def test_unreadable_folder(tmp_path):
    """A folder that may not be read is an error, and no key of it is lost in silence."""
    (tmp_path / "laned.conf").write_text("")
    (tmp_path / "conf.d").mkdir(mode=0)
    done = run("-t", "-c", str(tmp_path / "laned.conf"))
    assert done.returncode == NOPERM
    assert "conf.d: Permission denied" in done.stderr


# --- Check and dump ------------------------------------------------------------------------------


def test_there_are_shipped_configurations():
    """laned.conf and an example for each topology are there."""
    assert {file.name for file in SHIPPED} >= {
        "laned.conf",
        "shared-listener.conf",
        "reuseport.conf",
        "reuseport-standby.conf",
    }


def test_check_ok():
    """-t of a good configuration says so on stderr, with -q nothing."""
    done = run("-t", "-c", "-", stdin=GOOD)
    assert (done.returncode, done.stdout, done.stderr) == (OK, "", "laned: <stdin>: configuration ok\n")
    done = run("-t", "-q", "-c", "-", stdin=GOOD)
    assert (done.returncode, done.stdout, done.stderr) == (OK, "", "")


def test_check_shows_all_errors(folder):
    """-t reports everything in one pass, with place, line and hint, and then counts."""
    file = folder / "bad.conf"
    file.write_text(
        'groups = (\n  { name = "echo";\n    listen = "127.0.0.1:7007";\n    max_conections = 5;\n'
        '    backlog = "many";\n    topology = "reuse"; }\n);\n'
    )
    done = run("-t", "-c", file)
    assert done.returncode == CONFIG
    assert re.findall(r":(\d): error:", done.stderr) == ["4", "5", "6"]
    assert f"{file}:4: error: " in done.stderr
    assert "    max_conections = 5;\n" in done.stderr
    assert 'did you mean "max_connections"' in done.stderr
    assert done.stderr.endswith(f"3 errors in {file}\n")


@pytest.mark.parametrize("arguments", [[], ["-t"], ["-T"], ["-t", "-q"]], ids=" ".join)
def test_bad_configuration(arguments):
    """A bad configuration is refused in the same words, whatever it was read for."""
    bad = configuration(listen="127.0.0.1:7007", workers=0)
    done = run(*arguments, "-c", "-", stdin=bad)
    assert done.returncode == CONFIG
    assert done.stderr == run("-t", "-c", "-", stdin=bad).stderr
    assert done.stderr.startswith("<stdin>:2: error:")


@pytest.mark.parametrize("arguments", [[], ["-t"], ["-T"]], ids=" ".join)
def test_missing_file(arguments, folder):
    """A file that does not exist is a configuration error that names it."""
    done = run(*arguments, "-c", folder / "nowhere.conf")
    assert done.returncode == CONFIG
    assert f"{folder}/nowhere.conf" in done.stderr and os.strerror(2) in done.stderr


def test_folder_instead_of_file(folder):
    """A folder is no configuration."""
    done = run("-t", "-c", folder)
    assert done.returncode == CONFIG
    assert str(folder) in done.stderr


def test_unreadable_file(folder, public_program):
    """A file that may not be read is a matter of permission."""
    file = folder / "laned.conf"
    file.write_text(GOOD)
    file.chmod(0)
    done = run("-t", "-c", file, program=public_program, preexec_fn=become_nobody)
    assert done.returncode == NOPERM
    assert str(file) in done.stderr


def test_check_as_nobody(public_program):
    """-t needs no privilege, not even for a privileged port."""
    text = configuration(listen="127.0.0.1:7", user="nobody")
    done = run(
        "-t", "-c", "-", stdin=text, program=public_program, preexec_fn=become_nobody, cwd="/"
    )
    assert done.returncode == OK
    assert done.stderr.endswith("laned: <stdin>: configuration ok\n")


# What changes something on the host, unless the third column says that it does not.
SIDE_EFFECTS = re.compile(
    r"\b(bind|listen|connect|setsockopt|mkdir|mkdirat|rmdir|chown|fchown|fchownat|chmod|fchmod"
    r"|fchmodat|unlink|unlinkat|rename|renameat2?|link|linkat|symlink|symlinkat|mknod|mknodat"
    r"|truncate|ftruncate|kill|tgkill|fork|vfork|clone3?|execve|setrlimit|setuid|setgid"
    r"|setgroups|setresuid|prctl)\("
    r"|\bopen(at)?\(.*O_(CREAT|WRONLY|RDWR|TRUNC)|\bsocket\(AF_INET|prlimit64\(\d+, \w+, \{"
)


def test_check_has_no_side_effect(folder, public_program):
    """-t makes no system call that changes anything."""
    if not shutil.which("strace"):
        pytest.skip("there is no strace here")
    trace = folder / "trace"
    trace.touch()
    trace.chmod(0o666)
    done = run(
        "-t", "-c", "-",
        stdin=configuration(listen=["127.0.0.1:7007", "[::1]:7007"]),
        program=public_program,
        wrap=["strace", "-f", "-o", str(trace)],
        preexec_fn=become_nobody,
        env=NO_LEAK_CHECK,
    )  # fmt: skip
    assert done.returncode == OK, done.stderr
    calls = trace.read_text().splitlines()
    begin = next(i for i, call in enumerate(calls) if "rt_sigprocmask(SIG_SETMASK, ~[" in call)
    effects = [call for call in calls[begin:] if SIDE_EFFECTS.search(call)]
    assert [call for call in effects if '"/dev/null"' not in call] == []


def dump(*arguments, stdin=""):
    done = run("-T", *arguments, stdin=stdin)
    assert done.returncode == OK, done.stderr
    return done.stdout


@pytest.mark.parametrize("file", [*SHIPPED, "-"], ids=lambda file: str(file).rpartition("/")[2])
def test_dump_is_a_configuration(file):
    """What -T writes passes -t without a word, and dumps to itself; of no text, too."""
    text = dump("-c", file)
    done = run("-t", "-q", "-c", "-", stdin=text)
    assert (done.returncode, done.stderr) == (OK, "")
    assert dump("-c", "-", stdin=text) == text
    assert dump("-c", "-", stdin=dump("-n", "-c", file)) == text


def test_dump_of_every_key():
    """What is not as by default survives a dump, in all keys."""
    text = configuration(
        user="nobody",
        drain_timeout="1.5s",
        log={"target": "stderr", "level": "debug"},
        groups=[
            {
                "name": "a-b_C9",
                "listen": ["127.0.0.1:7001", "[::1]:7002", "[::]:7003"],
                "topology": "reuseport+standby",
                "workers": 3,
                "standby": 2,
                "engine": "epoll",
                "share": "queue",
                "backlog": 17,
                "max_connections": 123,
                "buffer_memory": "3MiB",
                "nofile": 200,
                "idle_timeout": "90s",
                "send_timeout": "2min",
                "echo": {"tag": True, "close_after": 4},
            },
            {"name": "second", "listen": "127.0.0.1:7004"},
        ],
    )
    dumped = dump("-c", "-", stdin=text)
    assert dump("-c", "-", stdin=dumped) == dumped
    words = '"nobody" "1.5s" "stderr" "debug" "[::]:7003" "epoll" "3MiB" "90s" "2min" "second"'
    numbers = "standby = 2", "= 17", "= 123", "= 200", "tag = true", "close_after = 4"
    for part in [*words.split(), *numbers]:
        assert part in dumped, part


def test_dump_of_the_default(folder):
    """Nothing at all, in a file or otherwise, is the built-in default."""
    empty = folder / "empty.conf"
    empty.touch()
    assert '"127.0.0.1:7007"' in dump("-c", "-")
    assert dump("-c", empty) == dump("-c", "/dev/null") == dump("-c", "-")
    assert dump("-n", "-c", "-") == ""


@pytest.mark.parametrize(
    "key, value",
    [
        ("drain_timeout", "30s"),
        ("log.level", "info"),
        ("groups.echo.backlog", "99"),
        ("groups.echo.echo.tag", "true"),
    ],
)
def test_dump_of_a_key(key, value):
    """-T KEY writes the value alone."""
    text = configuration(listen="127.0.0.1:7007", backlog=99, echo={"tag": True})
    assert dump("-c", "-", key, stdin=text) == value + "\n"


def test_dump_of_an_unknown_key():
    """-T of a key that does not exist is a usage error."""
    done = run("-T", "-c", "-", "groups.echo.backlogs", stdin=GOOD)
    assert (done.returncode, done.stdout) == (USAGE, "")
    assert "backlogs" in done.stderr


def test_dump_to_a_full_disk():
    """A dump that cannot be written is an error."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [PROGRAM, "-T", "-c", "-"],
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == OSERR
    assert "cannot write" in done.stderr


# --- Warnings ------------------------------------------------------------------------------------


def test_backlog_that_is_cut(folder):
    """A backlog beyond somaxconn is a warning that names both."""
    with open("/proc/sys/net/core/somaxconn") as limit:
        somaxconn = int(limit.read())
    file = folder / "laned.conf"
    backlog = f"backlog = {somaxconn + 1};"
    file.write_text(f'groups = ( {{ name = "echo"; listen = "127.0.0.1:7007";\n{backlog} }} );\n')
    done = run("-t", "-c", file)
    assert done.returncode == OK
    assert done.stderr.startswith(f"{file}:2: warning: ")
    assert backlog in done.stderr and "net.core.somaxconn" in done.stderr
    assert str(somaxconn) in done.stderr and "\n1 warning in " in done.stderr


def test_standby_that_is_ignored(start):
    """standby in a topology that has none is a warning, and no reason not to serve."""
    laned = start(topology="reuseport", workers=1, standby=2)
    assert list(laned.workers()) == ["echo/0.0"]
    line = laned.wait_log('standby = 2 is ignored: topology "reuseport" has none')
    assert line.startswith(f"{laned.file}:2: warning: ")


def test_family_that_the_host_lacks(start, network):
    """Without IPv6 an IPv6 address is left out with a warning, and the group serves the others."""
    laned = start(listen=["[::1]:@1", "127.0.0.1:@0"], process={"command": network.command})
    laned.wait_log(rf"echo: this host has no IPv6; \[::1\]:{laned.ports[1]} is left out")
    assert network.echo(laned.pid, laned.port, "here") == "here"


def test_no_family_left(start, network):
    """A group whose addresses are all of a family that the host lacks cannot serve."""
    with pytest.raises(StartError) as error:
        start(listen="[::1]:@0", process={"command": network.command})
    assert error.value.status == UNAVAILABLE
    assert "echo: no address is left to listen on" in error.value.log


# --- What keeps it from starting -----------------------------------------------------------------


def fails(folder, text, **process):
    """Starts laned, which must end before it is ready. Returns its exit status and log."""
    ports = Ports()
    laned = Daemon(folder, ports.fill(text), ports, **process)
    try:
        with pytest.raises(StartError) as error:
            laned.wait_ready()
    finally:
        wrong = laned.close()
    assert not wrong
    return error.value.status, error.value.log


def test_address_of_somebody_else(folder, topology):
    """An address that another program has: unavailable, and named."""
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as other:
        address = "127.0.0.1:%d" % other.getsockname()[1]
        text = configuration(listen=["127.0.0.1:@0", address], topology=topology)
        status, log = fails(folder, text)
    assert status == UNAVAILABLE
    assert f"cannot listen on {address}: {os.strerror(98)}" in log


def test_address_of_another_host(folder):
    """An address that no interface has: unavailable, and named."""
    status, log = fails(folder, configuration(listen="192.0.2.1:@0"))
    assert status == UNAVAILABLE
    assert "cannot listen on 192.0.2.1:" in log


def test_second_instance(start, folder, topology):
    """A second laned on the same configuration ends within a second, and the first serves on."""
    first = start(topology=topology, workers=2)
    text = configuration(listen=f"127.0.0.1:{first.port}", topology=topology, workers=2)
    begin = time.monotonic()
    status, log = fails(folder, text)
    assert time.monotonic() - begin < (5 if SANITIZED else 1)
    assert status == UNAVAILABLE
    assert f"cannot listen on 127.0.0.1:{first.port}" in log and "another laned" in log
    for _ in range(20):
        with connect(first.port) as client:
            echo(client, b"the first one")


def test_two_at_the_same_moment(folder, topology):
    """Of two that are started at the same moment, exactly one serves."""
    for _ in range(10):
        ports = Ports()
        text = configuration(listen=f"127.0.0.1:{ports[0]}", topology=topology, workers=2)
        rivals = [Daemon(folder, text, Ports()) for _ in range(2)]
        statuses = []
        for laned in rivals:
            laned.wait_until(
                lambda: laned.is_ready() or laned.returncode is not None, "it serves, or ends"
            )
            statuses.append(laned.returncode)
        served = None in statuses
        if served:
            with connect(ports[0]) as client:
                echo(client, b"the winner")
        wrong = [line for laned in rivals for line in laned.close()]
        assert not wrong
        assert sorted(statuses, key=str) == [UNAVAILABLE, None]


def test_no_process_to_be_had(folder, public_program):
    """When no process can be started: an error of the system."""

    def alone():
        become_nobody()
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))

    status, log = fails(
        folder,
        configuration(workers=2),
        command=[public_program, "-c", "@"],
        preexec=alone,
        environment=NO_LEAK_CHECK,
    )
    assert status == OSERR
    assert "echo/0.0: cannot start a process: " + os.strerror(11) in log


@pytest.mark.skipif(SANITIZED, reason="the sanitizer needs the address space for itself")
def test_no_memory_to_be_had(folder):
    """When the memory for the buffers cannot be had: an error of the system."""
    gib = 1 << 30
    status, log = fails(
        folder,
        configuration(buffer_memory="8GiB"),
        preexec=lambda: resource.setrlimit(resource.RLIMIT_AS, (gib, gib)),
    )
    assert status == OSERR
    assert "echo/0: cannot be set up: " + os.strerror(12) in log


def test_privileged_port(folder, public_program):
    """A port for which the privilege is missing: permission denied, and what would help."""
    with open("/proc/sys/net/ipv4/ip_unprivileged_port_start") as file:
        unprivileged = int(file.read())
    if unprivileged <= 7:
        pytest.skip("no port is privileged here")
    status, log = fails(
        folder,
        configuration(listen="127.0.0.1:7"),
        command=[public_program, "-c", "@"],
        preexec=become_nobody,
    )
    assert status == NOPERM
    assert "cannot listen on 127.0.0.1:7: " + os.strerror(13) in log
    assert "CAP_NET_BIND_SERVICE" in log


def test_unknown_user(folder):
    """A user that does not exist is a configuration error."""
    status, log = fails(folder, configuration(user="no-such-account"))
    assert status == CONFIG
    assert log.startswith(str(folder))
    assert 'laned.conf:1: error: there is no account "no-such-account"' in log


def test_standard_input():
    """With -c - the configuration comes from standard input, and laned serves it."""
    ports = Ports()
    laned = subprocess.Popen(
        [PROGRAM, "-c", "-"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        laned.stdin.write(configuration(listen=f"127.0.0.1:{ports[0]}"))
        laned.stdin.close()
        while not (line := laned.stderr.readline()).endswith("ready\n"):
            assert line, "it ended"
        with connect(ports[0]) as client:
            echo(client, b"x")
    finally:
        laned.terminate()
        log = laned.stderr.read()
        assert laned.wait(PATIENCE_S) == OK
        laned.stderr.close()
    assert not complaints(log)


def test_closed_standard_descriptors(folder):
    """Started without stdin, stdout and stderr it serves, and no client gets its log."""
    ports = Ports()
    file = folder / "laned.conf"
    file.write_text(configuration(listen=f"127.0.0.1:{ports[0]}", workers=1))
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notify.bind(str(folder / "notify"))
    laned = subprocess.Popen(
        ["sh", "-c", 'exec "$0" -c "$1" <&- >&- 2>&-', PROGRAM, str(file)],
        env={**os.environ, "NOTIFY_SOCKET": str(folder / "notify")},
    )
    try:
        readable, _, _ = select.select([notify], [], [], PATIENCE_S)
        assert readable and notify.recv(100) == b"READY=1"
        with connect(ports[0]) as client:
            laned.send_signal(1)  # a line for the log
            echo(client, b"only this")
    finally:
        notify.close()
        laned.terminate()
        assert laned.wait(PATIENCE_S) == OK
