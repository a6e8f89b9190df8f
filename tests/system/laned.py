"""laned as a test sees it: starts it, watches its processes from outside, and ends what is left."""

import contextlib
import fcntl
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

PROGRAM = os.path.abspath(os.environ.get("LANED", "laned"))
SOURCES = Path(__file__).resolve().parents[2]
SANITIZED = b"__asan_init" in Path(PROGRAM).read_bytes()
SHIM = Path(PROGRAM).parent / "tests/system/shim.so"
FULL = os.environ.get("LANED_TEST_FULL") == "1"  # the large figures, which take long
PATIENCE_S = 60 if SANITIZED else 30  # an event that takes longer does not come any more

TOPOLOGIES = ["shared-listener", "reuseport", "reuseport+standby"]
TOP_KEYS = {"user", "drain_timeout", "max_generations", "log", "supervision", "allow_faults"}
NOBODY = 65534
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
COMPLAINTS = ("runtime error:", "AddressSanitizer", "LeakSanitizer", "Assertion")


# --- Configurations ------------------------------------------------------------------------------


def value_text(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, str):
        return '"%s"' % value.replace("\\", "\\\\").replace('"', '\\"')
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "( %s )" % ", ".join(map(value_text, value))
    if isinstance(value, list):
        return "[ %s ]" % ", ".join(map(value_text, value))
    return "{ %s }" % " ".join(f"{key} = {value_text(part)};" for key, part in value.items())


def configuration(groups=None, **keys):
    """The text of a configuration: of these groups, or of one with all keys that are a group's."""
    if groups is None:
        groups = [{key: value for key, value in keys.items() if key not in TOP_KEYS}]
    lines = [f"{key} = {value_text(keys[key])};" for key in keys if key in TOP_KEYS]
    lines.append("groups = (")
    default = {"name": "echo", "listen": "127.0.0.1:@0"}
    lines.append(",\n".join("  " + value_text({**default, **group}) for group in groups))
    lines.append(");")
    return "\n".join(lines) + "\n"


def port_is_free(port):
    """Whether nothing has it, on any address of either family."""
    for family, host in (socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::"):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind((host, port))
        except OSError as error:
            if family == socket.AF_INET or error.errno == 98:  # EADDRINUSE; else: no IPv6 here
                return False
    return True


def free_port():
    """
    A port that the kernel gives to nobody by itself: one of the range that it takes clients' ports
    from could be a client's by the time it is bound.
    """
    with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        first, last = map(int, file.read().split())
    candidates = [port for port in range(5000, 65536) if not first <= port <= last]
    while True:
        port = random.choice(candidates)
        if port_is_free(port):
            return port


class Ports:
    """Free ports for the places "@0", "@1", ... of a text."""

    def __init__(self):
        self.numbers = {}

    def __getitem__(self, index):
        if index not in self.numbers:
            self.numbers[index] = free_port()
        return self.numbers[index]

    def fill(self, text):
        return re.sub(r"@(\d)", lambda place: str(self[int(place[1])]), text)


# --- Processes -----------------------------------------------------------------------------------


class Stat:
    """What /proc says of a process; `state` is None if there is none (a zombie is one)."""

    def __init__(self, pid):
        try:
            with open(f"/proc/{pid}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            fields = [None, 0, 0, 0, *[0] * 20]
        self.state = fields[0]
        self.parent, self.session = int(fields[1]), int(fields[3])
        self.cpu_s = (int(fields[11]) + int(fields[12])) / TICKS_PER_S
        self.start_s = int(fields[19]) / TICKS_PER_S


def status_field(pid, name):
    with open(f"/proc/{pid}/status") as file:
        for line in file:
            if line.startswith(name + ":"):
                return line.partition(":")[2].strip()
    raise KeyError(name)


def comm(pid):
    return Path(f"/proc/{pid}/comm").read_text().rstrip("\n")


def title(pid):
    return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode()


def descriptors(pid):
    """What each descriptor of a process is: "socket:[4711]", "anon_inode:[eventfd]" and so on."""
    found = {}
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/{pid}/fd/{name}")
        except FileNotFoundError:
            continue
    return found


def sockets(pid):
    return {what for what in descriptors(pid).values() if what.startswith("socket:")}


def switches(pid):
    """How often the process has begun to run."""
    kinds = "voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"
    return sum(int(status_field(pid, kind)) for kind in kinds)


def pids_of_session(session):
    """Those that have not ended; a zombie has."""
    pids = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            stat = Stat(name)
            if stat.session == session and stat.state not in ("Z", "X", None):
                pids.append(int(name))
    return pids


def eventually(condition, what, patience_s=PATIENCE_S):
    """Waits until a condition holds of which nobody gives notice, and returns what it returned."""
    deadline = time.monotonic() + patience_s
    while True:
        result = condition()
        if result:
            return result
        assert time.monotonic() < deadline, f"{what}: not after {patience_s} s"
        time.sleep(0.002)


def send_signal(pid, number):
    """To a process that may have ended meanwhile."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def stop_process(pid):
    """SIGSTOP, and waits until it is obeyed."""
    os.kill(pid, signal.SIGSTOP)
    eventually(lambda: Stat(pid).state == "T", f"{pid} is stopped")


def become_nobody():
    """To be called in a new process before its program: gives root up, if it is root."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)


class Worker:
    def __init__(self, pid, title):
        self.pid = pid
        self.title = title
        _, _, self.name, self.role = title.split(" ")

    def __repr__(self):
        return f"{self.name} (pid {self.pid})"


class StartError(Exception):
    """laned ended before it was ready."""

    def __init__(self, status, log):
        super().__init__(f"laned did not start, exit status {status}:\n{log}")
        self.status = status
        self.log = log


class Daemon:
    """A laned that was started; `close` must be called."""

    def __init__(
        self, folder, text, ports, *, command=None, preexec=None, environment=None, stderr=None
    ):
        """
        `stderr`: a descriptor that takes the place of ours; then the log is not seen here.
        `command`: what starts laned, if not the program itself; "@" in it is the configuration,
        "@0" a port.
        """
        self.ports = ports
        self.text = text
        own = Path(tempfile.mkdtemp(dir=folder))
        own.chmod(0o755)
        self.file = own / "laned.conf"
        self.file.write_text(text)
        self.lines = []
        self.notices = []  # (pid, text)
        self.changed = threading.Condition()
        self.returncode = None

        path = own / "notify"
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.notify.bind(str(path))
        path.chmod(0o777)

        command = command or [PROGRAM, "-c", "@"]
        self.process = subprocess.Popen(
            [str(self.file) if word == "@" else ports.fill(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE if stderr is None else stderr,
            cwd=own,
            env={**os.environ, "NOTIFY_SOCKET": str(path), **(environment or {})},
            preexec_fn=preexec,
            start_new_session=True,  # all its processes can be told from others by their session
        )
        self.pid = self.process.pid
        self.threads = [
            threading.Thread(target=self._await_end),
            threading.Thread(target=self._read_notices),
        ]
        if self.process.stderr:
            self.threads.append(threading.Thread(target=self._read_log))
        for thread in self.threads:
            thread.daemon = True
            thread.start()

    def _await_end(self):
        status = self.process.wait()
        with self.changed:
            self.returncode = status
            self.changed.notify_all()

    def _read_log(self):
        for line in self.process.stderr:
            with self.changed:
                self.lines.append(line.decode(errors="replace").rstrip("\n"))
                self.changed.notify_all()

    def _read_notices(self):
        while True:
            room = socket.CMSG_SPACE(struct.calcsize("3i"))
            data, ancillary, _, _ = self.notify.recvmsg(4096, room)
            if data == b"close":
                return
            (pid, _, _) = struct.unpack("3i", ancillary[0][2])
            with self.changed:
                self.notices.append((pid, data.decode()))
                self.changed.notify_all()

    def wait_until(self, condition, what, patience_s=PATIENCE_S):
        """Waits for something that the log, the notify socket or the end of the master tells."""
        with self.changed:
            assert self.changed.wait_for(condition, patience_s), (
                f"{what}: not after {patience_s} s; the log:\n{self.log()}"
            )

    def wait_ready(self):
        """Raises StartError if it ends instead."""
        self.wait_until(lambda: self.is_ready() or self.returncode is not None, "ready")
        if not self.is_ready():
            self.threads[-1].join(PATIENCE_S)  # the rest of the log
            raise StartError(self.returncode, self.log())

    def is_ready(self):
        return any("READY=1" in text.splitlines() for _, text in self.notices)

    def wait_log(self, pattern):
        self.wait_until(lambda: self.log_lines(pattern), f"a log line like {pattern!r}")
        return self.log_lines(pattern)[0]

    def log_lines(self, pattern=""):
        return [line for line in self.lines if re.search(pattern, line)]

    def log(self):
        return "\n".join(self.lines)

    def incidents(self):
        """Those that the log tells of, in the order in which they ended."""
        parts = [line.partition(": incident {") for line in self.lines]
        return [json.loads("{" + text) for _, mark, text in parts if mark]

    def wait_incident(self, condition=lambda incident: True, what="an incident"):
        """Waits until an incident that is as wanted has ended, and returns it."""

        def wanted():
            return next(filter(condition, self.incidents()), None)

        self.wait_until(wanted, what)
        return wanted()

    def reports(self):
        """What has been said of reloads so far: "RELOADING=1" and "READY=1", in their order."""
        lines = [line for _, text in self.notices for line in text.splitlines()]
        return [line for line in lines if line in ("RELOADING=1", "READY=1")]

    def rewrite(self, text=None, **keys):
        """Changes the configuration file, all of it. Ports are what they were."""
        self.text = self.ports.fill(text or configuration(**keys))
        self.file.write_text(self.text)

    def reload(self, text=None, **keys):
        """Changes the file, if anything is given, and waits until that is in effect or refused."""
        if text or keys:
            self.rewrite(text, **keys)
        before = self.reports().count("READY=1")
        self.signal(signal.SIGHUP)
        self.wait_until(
            lambda: self.reports().count("READY=1") > before or self.returncode is not None,
            "the end of a reload",
        )
        assert self.returncode is None, self.log()

    def wait_end(self, patience_s=PATIENCE_S):
        """Waits for the end of the master and returns its exit status."""
        self.wait_until(lambda: self.returncode is not None, "the end of the master", patience_s)
        return self.returncode

    def signal(self, number):
        os.kill(self.pid, number)

    def stop(self):
        """Drains it, and returns its exit status."""
        self.signal(signal.SIGTERM)
        return self.wait_end()

    @property
    def port(self):
        return self.ports[0]

    def workers(self):
        """The workers that there are at this moment, by name."""
        found = {}
        for pid in pids_of_session(self.pid):
            try:
                text = title(pid)
            except (FileNotFoundError, ProcessLookupError):
                continue
            if re.fullmatch(r"laned: worker \S+ (primary|standby|extra)", text):  # written to its end
                worker = Worker(pid, text)
                found[worker.name] = worker
        return found

    def wait_workers(self, condition, what):
        """Waits until the workers are as wanted, and returns them."""
        found = {}

        def look():
            found.clear()
            found.update(self.workers())
            return condition(found)

        eventually(look, what)
        return found

    def wait_replaced(self, worker):
        """Waits until another process has a worker's place, and returns it."""
        found = self.wait_workers(
            lambda now: worker.name in now and now[worker.name].pid != worker.pid,
            f"{worker} is replaced",
        )
        return found[worker.name]

    def wait_asleep(self):
        """Waits until every worker waits for something to do, or is stopped."""
        for pid in [worker.pid for worker in self.workers().values()]:
            eventually(lambda: Stat(pid).state in ("S", "T", None), f"{pid} sleeps")

    def pids(self):
        return pids_of_session(self.pid)

    def close(self):
        """Ends what is left. Returns what was wrong, a line each."""
        wrong = []
        if self.returncode is None:
            for pid in self.pids():
                send_signal(pid, signal.SIGCONT)
            send_signal(self.pid, signal.SIGINT)
            try:
                if self.wait_end() != 0:
                    wrong.append(f"exit status {self.returncode} after SIGINT")
            except AssertionError as error:
                wrong.append(str(error))
        for pid in self.pids():
            wrong.append(f"process {pid} was left")
            send_signal(pid, signal.SIGKILL)
        self.notify_close()
        for thread in self.threads:
            thread.join(PATIENCE_S)
            if thread.is_alive():
                wrong.append("somebody still has the log open")
        if self.process.stderr:
            self.process.stderr.close()
        wrong += complaints(self.log())
        return wrong

    def notify_close(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
            own.sendto(b"close", self.notify.getsockname())
        self.threads[1].join()
        self.notify.close()


def complaints(log):
    """What the sanitizers, or an assertion, have said."""
    return [
        f"in the log: {line}"
        for line in log.splitlines()
        if any(word in line for word in COMPLAINTS)
    ]


def run(*arguments, program=PROGRAM, stdin="", wrap=(), **options):
    """Runs laned to its end: what does not serve. Returns the CompletedProcess, as text."""
    done = subprocess.run(
        [*wrap, program, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        **options,
    )
    assert not complaints(done.stderr)
    return done


class Gate:
    """
    Holds up the processes of a laned that is started with `process=gate.process`, in the midst of
    their work: see shim.c. `close` must be called.
    """

    def __init__(self, folder):
        self.folder = Path(tempfile.mkdtemp(dir=folder))
        self.folder.chmod(0o777)
        self.possible = SHIM.exists() and not SANITIZED  # a sanitizer wants to be the first library
        self.process = {
            "environment": {"LD_PRELOAD": str(SHIM), "LANED_TEST_GATE": str(self.folder)}
        }
        self.lock_file = open(self.folder / "lock", "wb")
        self.opened = []

    def shut(self, worker):
        """From now on the worker does not get past the call of accept4."""
        (self.folder / f"at.{worker.pid}").unlink(missing_ok=True)
        os.mkfifo(self.folder / f"accept.{worker.pid}", 0o666)

    def is_reached(self, worker):
        """Whether it stands there: it was woken for a client, and has not taken it."""
        return (self.folder / f"at.{worker.pid}").exists()

    def wait_reached(self, worker):
        eventually(lambda: self.is_reached(worker), f"{worker} is at the gate")

    def open(self, worker):
        """Lets a worker that stands there go on, for good."""
        fifo = self.folder / f"accept.{worker.pid}"

        def somebody_is_there():
            with contextlib.suppress(OSError):  # ENXIO: nobody reads
                self.opened.append(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
                return True
            return False

        eventually(somebody_is_there, f"{worker} waits for the gate")
        fifo.unlink()

    def lock(self):
        """Whoever receives a message that begins with LOCK waits until unlock() or the end."""
        for path in self.folder.glob("at.*"):
            path.unlink()
        fcntl.flock(self.lock_file, fcntl.LOCK_EX)

    def probe(self, what):
        """How workers that start fare: "wait" for unlock(), "spoil" what they are to echo, or well."""
        path = self.folder / "probe"
        if what:
            path.write_text(what)
        else:
            path.unlink()

    def wait_held(self, laned):
        """Waits until a worker stands at the gate or the lock, and returns it."""

        def look():
            return next(filter(self.is_reached, laned.workers().values()), None)

        return eventually(look, "a worker is held up")

    def unlock(self):
        fcntl.flock(self.lock_file, fcntl.LOCK_UN)

    def close(self):
        self.lock_file.close()
        for fd in self.opened:
            os.close(fd)


class Network:
    """A network of its own for laned, without IPv6, where nobody else has a port."""

    SET_UP = "ip link set lo up && echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6"
    CLIENT = (
        "import socket, sys;"
        "sock = socket.create_connection(('127.0.0.1', sys.argv[1]));"
        "sock.sendall(sys.argv[2].encode());"
        "print(sock.recv(4096).decode(), end='')"
    )

    def __init__(self):
        root = os.geteuid() == 0
        make = ["unshare", "-n"] if root else ["unshare", "-rn"]
        self.enter = ["nsenter", "-n"]
        if not root:
            self.enter += ["-U", "--preserve-credentials"]
        self.possible = all(map(shutil.which, ("unshare", "nsenter", "ip"))) and (
            subprocess.run([*make, "sh", "-c", self.SET_UP], capture_output=True).returncode == 0
        )
        self.command = [*make, "sh", "-c", self.SET_UP + ' && exec "$@"', "sh", PROGRAM, "-c", "@"]

    def echo(self, pid, port, text):
        """What a client in the network of process `pid` has back."""
        return subprocess.check_output(
            [*self.enter, "-t", str(pid), sys.executable, "-c", self.CLIENT, str(port), text],
            text=True,
        )


def raise_nofile():
    """As many descriptors for this process as it may have; returns how many."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
