"""
The watch over the queues: whatever a worker does, or has done to it, nobody waits in a queue for
long, and nobody pays for that while all is well.

What is promised are times, so times are asserted here. Other programs, such as other tests, may
have the CPUs of this host at any moment, which no promise can cover: so each thing is tried several
times, half of the tries must keep the promise, and none may be far from it.
"""

import os
import shutil
import signal
import socket
import statistics
import subprocess
import threading
import time
from pathlib import Path

import pytest

from client import call, close_all, connect, connect_all, echo, who
from laned import (
    PATIENCE_S,
    SANITIZED,
    TOPOLOGIES,
    Stat,
    eventually,
    send_signal,
    status_field,
    stop_process,
)

PROMISE_S = 0.050 * (5 if SANITIZED else 1)  # a sanitizer makes a new process slow to start
WORST_S = 0.250 * (5 if SANITIZED else 1)
TRIES = 5
TAGGED = {"echo": {"tag": True}}
PATIENT = {"steer_after": "0", "abort_after": "0"}  # nobody leaves, nobody is ended


def check_waits(waits):
    """That those who waited so long, in seconds, had what was promised."""
    milliseconds = [round(1000 * wait) for wait in waits]
    assert statistics.median_low(waits) < PROMISE_S, milliseconds
    assert max(waits) < WORST_S, milliseconds


def extras(laned):
    return {name: w for name, w in laned.workers().items() if w.role == "extra"}


def wait_no_extra(laned):
    laned.wait_workers(lambda now: all(w.role != "extra" for w in now.values()), "extras leave")


# --- Who does not come for a client --------------------------------------------------------------


def strand(laned, gate, worker):
    """
    Clients, one after another, until the worker has been woken for one and stands at the gate
    before it has accepted. How long that one took to be served, and by whom it was.
    """
    gate.shut(worker)
    for _ in range(20):
        laned.wait_asleep()
        wait, name = call(laned.port)
        if gate.is_reached(worker):
            return wait, name
    pytest.fail(f"{worker} was woken for nobody")


@pytest.mark.parametrize(
    "topology, workers, rescuer",
    [
        ("shared-listener", 2, "echo/0.1"),
        ("reuseport", 1, "echo/0.1"),  # an extra worker
        ("reuseport+standby", 1, "echo/0.1"),
    ],
)
def test_stranded(start, gate, topology, workers, rescuer):
    """
    A client whose worker was woken and hangs before it accepts is served by another one: in its
    queue, by whoever shares it, and by an extra worker if nobody does.
    """
    laned = start(
        topology=topology,
        workers=workers,
        supervision={"extra_max": 1},  # the same place each time, however often it is needed
        process=gate.process,
        **TAGGED,
    )
    worker = laned.workers()["echo/0.0"]
    waits = []
    for _ in range(TRIES):
        wait, name = strand(laned, gate, worker)
        waits.append(wait)
        assert name == rescuer
        gate.open(worker)
        wait_no_extra(laned)
    check_waits(waits)
    assert laned.workers()["echo/0.0"].pid == worker.pid


def test_stranded_for_good(start, gate):
    """The same client waits for its worker where there may be no other: what the others prevent."""
    laned = start(
        topology="reuseport",
        workers=1,
        supervision={"extra_max": 0},
        process=gate.process,
    )
    worker = laned.workers()["echo/0.0"]
    gate.shut(worker)
    with connect(laned.port) as client:
        client.sendall(b"x")
        gate.wait_reached(worker)
        client.settimeout(0.5)
        with pytest.raises(TimeoutError):
            client.recv(1)
        client.settimeout(PATIENCE_S)
        gate.open(worker)
        assert client.recv(1) == b"x"


def test_stopped_while_idle(start, topology):
    """A worker is stopped while it waits: all clients that come are served by others."""
    laned = start(topology=topology, workers=2, supervision=PATIENT, **TAGGED)
    victim = laned.workers()["echo/0.0"]
    waits = []
    for _ in range(TRIES):
        laned.wait_asleep()
        stop_process(victim.pid)
        called = [call(laned.port) for _ in range(16)]
        waits.append(max(wait for wait, _ in called))
        assert victim.name not in {name for _, name in called}
        os.kill(victim.pid, signal.SIGCONT)
        wait_no_extra(laned)
    check_waits(waits)


def test_blocked_in_its_work(start, gate, topology):
    """A worker hangs with a connection in its hands: all clients that come are served by others."""
    laned = start(
        topology=topology, workers=2, supervision=PATIENT, process=gate.process, **TAGGED
    )
    waits = []
    for _ in range(TRIES):
        gate.lock()
        with connect(laned.port) as client:
            client.sendall(b"LOCK")
            victim = gate.wait_held(laned)
            called = [call(laned.port) for _ in range(16)]
            waits.append(max(wait for wait, _ in called))
            assert victim.name not in {name for _, name in called}
            gate.unlock()
            assert client.recv(4) == b"LOCK"
        wait_no_extra(laned)
    check_waits(waits)


class Quota:
    """A cgroup that has so many milliseconds of CPU time in each second."""

    def __init__(self, ms):
        name = f"laned-test-{os.getpid()}"
        kinds = {"/sys/fs/cgroup/cpu": 1, "/sys/fs/cgroup": 2, "/sys/fs/cgroup/unified": 2}
        self.folder = None
        for root, version in kinds.items():
            folder = Path(root, name)
            try:
                folder.mkdir()
            except OSError:
                continue
            try:
                if version == 1:
                    (folder / "cpu.cfs_period_us").write_text("1000000")
                    (folder / "cpu.cfs_quota_us").write_text(str(1000 * ms))
                else:
                    (folder / "cpu.max").write_text(f"{1000 * ms} 1000000")
            except OSError:
                folder.rmdir()
                continue
            self.folder = folder
            return

    def add(self, pid):
        (self.folder / "cgroup.procs").write_text(str(pid))

    def throttled(self):
        """In how many seconds it has been out of time."""
        text = (self.folder / "cpu.stat").read_text()
        return dict(line.split() for line in text.splitlines())["nr_throttled"]

    def close(self):
        eventually(lambda: not (self.folder / "cgroup.procs").read_text(), "its processes ended")
        self.folder.rmdir()


@pytest.fixture
def quota():
    quota = Quota(10)
    if not quota.folder:
        pytest.skip("no CPU quota can be given here")
    yield quota
    quota.close()


def flood(sock):
    """Keeps whoever has the other end as busy as it can be, until the connection is shut down."""

    def receive():
        try:
            while sock.recv(1 << 20):
                pass
        except OSError:
            pass

    def send():
        try:
            while True:
                sock.sendall(b"x" * (1 << 20))
        except OSError:
            pass

    threads = [threading.Thread(target=task, daemon=True) for task in (receive, send)]
    for thread in threads:
        thread.start()
    return threads


def connect_to(laned, name):
    """A connection that this worker has."""
    for _ in range(100):
        laned.wait_asleep()
        client = connect(laned.port)
        if "echo/" + who(client) == name:
            return client
        client.close()
    pytest.fail(f"{name} takes nobody")


def test_starved(quota, start, topology):
    """
    A worker that has work without end and 1 % of a CPU, in pieces that are far apart: clients who
    come are served by others, and it is left alone, however long that goes on.
    """
    laned = start(
        topology=topology,
        workers=1 if topology != "shared-listener" else 2,
        supervision={"abort_after": "200ms", "check_interval": "100ms", "steer_after": "0"},
        **TAGGED,
    )
    worker = laned.workers()["echo/0.0"]
    with connect_to(laned, worker.name) as client:
        quota.add(worker.pid)
        threads = flood(client)
        eventually(lambda: quota.throttled() != "0", f"{worker} is starved")
        waits = []
        for _ in range(12):
            wait, _ = call(laned.port)
            waits.append(wait)
            time.sleep(0.2)  # so that they come in all phases of its seconds
        check_waits(waits)
        client.shutdown(socket.SHUT_RDWR)
    for thread in threads:
        thread.join(PATIENCE_S)
    assert laned.workers()["echo/0.0"].pid == worker.pid
    assert laned.log_lines("starved .*left alone")
    assert not laned.log_lines("SIGABRT|SIGKILL|signal")


# --- Extra workers -------------------------------------------------------------------------------


def test_extra_worker(start):
    """
    The only worker is stuck: an extra worker comes, serves whoever comes while that lasts, and
    leaves about a second after it.
    """
    laned = start(
        topology="reuseport",
        workers=1,
        allow_faults=True,
        faults=[{"kind": "sleep", "duration": "3s", "roles": ["primary"]}],
        **TAGGED,
    )
    with connect(laned.port) as held_up:
        held_up.sendall(b"who")
        begin = time.monotonic()
        names = {call(laned.port)[1]}
        (extra,) = extras(laned).values()
        assert extra.title == "laned: worker echo/0.1 extra"
        while time.monotonic() - begin < 2.5:
            names.add(call(laned.port)[1])
            assert extras(laned)[extra.name].pid == extra.pid
            time.sleep(0.05)
        assert names == {"echo/0.1"}

        assert held_up.recv(100) == b"who echo/0.0\n"
        well = time.monotonic()
        wait_no_extra(laned)
        # Of the second, a look of check_interval may be missing, or come late.
        assert 0.7 < time.monotonic() - well < 1.5 + WORST_S
    assert not laned.log_lines("0.1 .*(signal|status)")


def test_extra_worker_serves_to_the_end(start):
    """
    An extra worker that is no longer needed serves its connections until they have ended, takes no
    new one, and is called back if it is needed again.
    """
    laned = start(topology="reuseport", workers=1, supervision=PATIENT, **TAGGED)
    primary = laned.workers()["echo/0.0"]
    stop_process(primary.pid)
    with connect(laned.port) as first, connect(laned.port) as second:
        assert who(first) == who(second) == "0.1"
        (extra,) = extras(laned).values()
        os.kill(primary.pid, signal.SIGCONT)
        laned.wait_log("echo/0.1 .*no longer needed.* 2 connections")
        for _ in range(20):
            laned.wait_asleep()
            assert call(laned.port)[1] == "echo/0.0"
        assert who(first) == who(second) == "0.1"

        stop_process(primary.pid)
        assert {call(laned.port)[1] for _ in range(5)} == {"echo/0.1"}
        assert extras(laned)["echo/0.1"].pid == extra.pid
        os.kill(primary.pid, signal.SIGCONT)
        laned.wait_until(
            lambda: len(laned.log_lines("echo/0.1 .*no longer needed")) == 2, "it may leave again"
        )
        first.close()
        assert who(second) == "0.1"
    wait_no_extra(laned)
    assert not laned.log_lines("0.1 .*(signal|status)")


def test_no_more_than_extra_max(start):
    """However many are stuck, each lane has extra_max extra workers at most."""
    laned = start(
        topology="reuseport", workers=2, supervision={**PATIENT, "extra_max": 2}, **TAGGED
    )
    stuck = {}
    clients = []

    def everybody_is_stuck():
        clients.append(connect(laned.port))
        clients[-1].settimeout(0.3)
        try:
            name = "echo/" + who(clients[-1])
        except TimeoutError:  # in this lane everybody is, or help takes long to come
            return False
        stuck[name] = laned.workers()[name]
        stop_process(stuck[name].pid)
        return len(stuck) == 6

    eventually(everybody_is_stuck, "both lanes have all the help that they may have")
    with connect(laned.port) as client:
        client.sendall(b"x")
        client.settimeout(1)
        with pytest.raises(TimeoutError):
            client.recv(1)
        assert set(laned.workers()) == set(stuck)
        close_all(clients)
        for worker in stuck.values():
            os.kill(worker.pid, signal.SIGCONT)
        client.settimeout(PATIENCE_S)
        assert client.recv(1) == b"x"
    wait_no_extra(laned)


def test_dead_extra_worker(start):
    """An extra worker that dies is not replaced before somebody waits again."""
    laned = start(topology="reuseport", workers=1, supervision=PATIENT, **TAGGED)
    primary = laned.workers()["echo/0.0"]
    stop_process(primary.pid)
    assert call(laned.port)[1] == "echo/0.1"
    (extra,) = extras(laned).values()
    os.kill(extra.pid, signal.SIGKILL)
    laned.wait_log("echo/0.1 .*killed by signal 9")
    deadline = time.monotonic() + 0.5
    while time.monotonic() < deadline:
        assert not extras(laned)
    assert call(laned.port)[1] == "echo/0.1"
    (second,) = extras(laned).values()
    assert second.pid != extra.pid
    os.kill(primary.pid, signal.SIGCONT)
    wait_no_extra(laned)


# --- What it costs -------------------------------------------------------------------------------


def wakeups(pid):
    """How often a process has gone to sleep."""
    return int(status_field(pid, "voluntary_ctxt_switches"))


class Meter:
    """How often processes wake up in a while, and what CPU time they use."""

    def __init__(self, pids):
        self.before = {pid: (wakeups(pid), Stat(pid).cpu_s) for pid in pids}

    def wakeups(self, pid):
        return wakeups(pid) - self.before[pid][0]

    def cpu_s(self, pid):
        return Stat(pid).cpu_s - self.before[pid][1]


def test_full_lane(start, topology):
    """
    That max_connections is reached is no reason for extra workers, and nobody looks at the queue
    all the time because of it; when there is room, who waits is served.
    """
    laned = start(topology=topology, workers=1, max_connections=3, **TAGGED)
    holders = connect_all(laned.port, 3)
    for holder in holders:
        who(holder)
    workers = set(laned.workers())
    waiting = connect_all(laned.port, 5)
    for client in waiting:
        client.sendall(b"who")
    time.sleep(0.5)  # whatever is done about it begins within that time
    meter = Meter(laned.pids())
    time.sleep(2)
    for pid in laned.pids():
        assert meter.wakeups(pid) <= 20  # 400 if it looked every rescue_after
        assert meter.cpu_s(pid) < 0.2
    assert set(laned.workers()) == workers

    for client in waiting:
        holders.pop(0).close()
        holders.append(client)
        assert client.recv(100).startswith(b"who echo/0.")
    close_all(holders)
    assert set(laned.workers()) == workers
    assert laned.stop() == 0
    assert not laned.incidents()


def test_a_look_does_not_disturb(start, topology):
    """That clients come is no reason for extra workers, nor for an incident."""
    for left in reversed(range(TRIES)):  # a worker may be held up by another program
        laned = start(topology=topology, workers=2, **TAGGED)
        workers = set(laned.workers())
        for _ in range(200):
            call(laned.port)
        undisturbed = set(laned.workers()) == workers
        assert laned.stop() == 0
        undisturbed &= not laned.log_lines("extra worker|incident")
        if undisturbed:
            return
    pytest.fail(f"each time somebody was disturbed; the last log:\n{laned.log()}")


def every_topology(count):
    """Groups, one of each topology, with a port of its own."""
    return [
        {"name": f"g{i}", "listen": f"127.0.0.1:@{i}", "topology": name, "workers": count}
        for i, name in enumerate(TOPOLOGIES)
    ]


def visit_all(laned):
    """A client at every port, one after another, that leaves again."""
    for i in range(len(TOPOLOGIES)):
        with connect(laned.ports[i]) as client:
            echo(client, b"x")


class Trace:
    """The system calls of some processes, by strace."""

    def __init__(self, folder, pids):
        self.file = folder / "trace"
        self.file.touch()
        words = [word for pid in pids for word in ("-p", str(pid))]
        self.process = subprocess.Popen(
            ["strace", "-f", "-o", str(self.file), *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.possible = all("attached" in self.process.stderr.readline() for _ in pids)

    def text(self):
        return self.file.read_text()

    def close(self):
        send_signal(self.process.pid, signal.SIGINT)
        self.process.wait(PATIENCE_S)
        self.process.stderr.close()


@pytest.fixture
def trace(folder):
    """A function that begins to trace processes."""
    traces = []

    def begin(pids):
        if not shutil.which("strace"):
            pytest.skip("there is no strace")
        traces.append(Trace(folder, pids))
        if not traces[-1].possible:
            pytest.skip("strace may not trace here")
        return traces[-1]

    yield begin
    for each in traces:
        each.close()


def test_no_system_call(start, trace):
    """Without connections no process makes a system call, after work, trouble and reloads."""
    laned = start(groups=every_topology(2))
    visit_all(laned)
    laned.reload(groups=every_topology(3))
    laned.reload(groups=every_topology(2))
    eventually(lambda: len(laned.pids()) == 1 + 2 + 2 + 4, "the old ones have left")
    victim = laned.workers()["g1/0.0"]
    stop_process(victim.pid)
    for _ in range(10):
        with connect(laned.ports[1]) as client:
            echo(client, b"x")
    os.kill(victim.pid, signal.SIGCONT)
    laned.wait_log("extra worker")
    wait_no_extra(laned)
    pids = laned.pids()
    assert len(pids) == 1 + 2 + 2 + 4

    calls = trace(pids)

    def rests():  # what is traced from now on has woken up once
        text = calls.text()
        time.sleep(1.5)
        return text if calls.text() == text else None

    before = eventually(rests, "nothing more is traced")
    time.sleep(10)
    assert calls.text() == before
    visit_all(laned)
    eventually(lambda: calls.text() != before, "the trace shows a client")


def test_wakeups_with_connections(start):
    """
    With quiet connections the master wakes up once in a check_interval to look at the workers, and
    each of them once a second to show that it hears.
    """
    laned = start(groups=every_topology(2))
    clients = [client for i in range(3) for client in connect_all(laned.ports[i], 5)]
    for client in clients:
        echo(client, b"x")
    workers = laned.workers().values()
    time.sleep(1)  # the watches calm down
    meter = Meter(laned.pids())
    time.sleep(4)
    assert 8 <= meter.wakeups(laned.pid) <= 4 * 4 + 4
    for worker in workers:
        assert 1 <= meter.wakeups(worker.pid) <= 4 + 2, worker
    close_all(clients)
