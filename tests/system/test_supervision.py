"""What is said of a worker that does not go on, and what is done about it."""

import contextlib
import datetime
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from client import Callers, close_all, connect, connect_all, echo, ends, receive
from laned import (
    FULL,
    PROGRAM,
    Stat,
    eventually,
    send_signal,
    sockets,
    stop_process,
    switches,
)
from trouble import QUICK, blaming, hogs, lock_worker, of, pids, step_ms, steps

WORKER = "echo/0.0"
SPIN = {"kind": "spin", "duration": "60s", "roles": ["primary"]}
TICK_MS = 20  # what the coarse clock and the kernel's own stamps may differ by, and a bit
LATE_MS = 1000  # how late a master, or this test, may be on a host that is busy


def test_stopped_worker(start):
    """A worker that somebody has stopped, and that a signal alone does not end, is killed."""
    laned = start(workers=1, supervision=QUICK)
    worker = laned.workers()[WORKER]
    with connect(laned.port) as client:
        echo(client, b"before")
        stop_process(worker.pid)
        incident = laned.wait_incident(of(worker))
        assert ends(client) in ("RST", "FIN")
    assert incident["state"] == "stopped"
    assert incident["end"] == "replaced"
    assert steps(incident) == ["abort", "kill", "ended"]
    assert step_ms(incident, "abort") >= 1000
    assert step_ms(incident, "kill") - step_ms(incident, "abort") >= 500
    laned.wait_log(rf"{WORKER} \(pid {worker.pid}\): stopped for .* SIGABRT")
    laned.wait_log(rf"{WORKER} \(pid {worker.pid}\): stopped for .* SIGKILL")
    assert laned.wait_replaced(worker).title == worker.title
    with connect(laned.port) as client:
        echo(client, b"after")


def test_looping_worker(start):
    """A worker that uses the CPU and gets nowhere is aborted, and need not be killed."""
    laned = start(workers=1, supervision=QUICK, allow_faults=True, faults=[SPIN])
    worker = laned.workers()[WORKER]
    with contextlib.suppress(PermissionError):  # else it is starved if other programs are busy
        os.sched_setscheduler(worker.pid, os.SCHED_RR, os.sched_param(1))
    with connect(laned.port) as client:
        client.sendall(b"go")
        incident = laned.wait_incident(of(worker))
        assert ends(client) in ("RST", "FIN")
    assert incident["state"] == "looping"
    assert incident["end"] == "replaced"
    assert steps(incident) == ["abort", "ended"]
    assert incident["cpu_ms"] >= 100
    assert incident["connection"]["bytes_in"] == 2
    laned.wait_log(rf"{WORKER} \(pid {worker.pid}\): killed by signal {signal.SIGABRT} ")


def test_blocked_worker(start, gate):
    """
    A worker that hangs in a system call is aborted; where it hung, and with which connection in its
    hands, is put down.
    """
    laned = start(workers=1, supervision=QUICK, process=gate.process)
    gate.lock()
    with connect(laned.port) as client:
        for _ in range(3):
            echo(client, b"well")
        worker = lock_worker(laned, client)
        incident = laned.wait_incident(of(worker))
        assert ends(client) in ("RST", "FIN")
    assert incident["state"] == "blocked"
    assert incident["end"] == "replaced"
    assert incident["syscall"] == "flock"
    assert "lock" in incident["wchan"]
    assert steps(incident) == ["abort", "ended"]
    connection = incident["connection"]
    assert connection["messages"] == 3
    assert connection["bytes_in"] == 3 * len("well")  # the call that hangs is that which reads
    assert connection["bytes_out"] == 3 * len("well")
    assert connection["quiet_ms"] >= 1000 - TICK_MS
    assert connection["quiet_ms"] <= incident["duration_ms"] + LATE_MS


@pytest.fixture
def frozen_group():
    """A function that freezes a process, in a cgroup that is gone afterwards."""
    roots = [Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")]
    root = next((root for root in roots if (root / "cgroup.procs").exists()), roots[-1])
    group = root / f"laned-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        pytest.skip("no cgroup can be made here")

    def freeze(pid):
        (group / "cgroup.procs").write_text(str(pid))
        (group / "cgroup.freeze").write_text("1")
        eventually(lambda: "frozen 1" in (group / "cgroup.events").read_text(), "it is frozen")

    if (group / "cgroup.freeze").exists():
        yield freeze
        (group / "cgroup.freeze").write_text("0")
    eventually(lambda: not (group / "cgroup.procs").read_text(), "nobody is in it")
    group.rmdir()


def test_frozen_worker(start, frozen_group):
    """A worker whose cgroup is frozen looks asleep to ps, and is known for what it is."""
    laned = start(workers=1, supervision=QUICK)
    worker = laned.workers()[WORKER]
    with connect(laned.port) as client:
        echo(client, b"before")
        frozen_group(worker.pid)
        incident = laned.wait_incident(of(worker))
    assert incident["state"] == "stopped"
    assert incident["end"] == "replaced"
    assert steps(incident) == ["abort", "kill", "ended"]
    with connect(laned.port) as client:
        echo(client, b"after")


def test_worker_that_comes_back(start, gate):
    """
    A worker that goes on in time is left alone; put down is for how long it had not, how many
    clients waited meanwhile, and for how long.
    """
    laned = start(
        workers=1,
        supervision={**QUICK, "abort_after": "30s", "extra_max": 0},
        process=gate.process,
    )
    before = pids(laned)
    held = len(sockets(before[WORKER]))
    gate.lock()
    sticky = connect(laned.port)
    stuck_s = time.monotonic()
    worker = lock_worker(laned, sticky)
    come_s = time.monotonic()
    clients = connect_all(laned.port, 5)
    laned.wait_log(rf"{WORKER} \(pid {worker.pid}\): blocked for .* in \w*lock\w*, 5 waiting")
    time.sleep(0.3)  # so that what was measured is more than the slack below
    gate.unlock()
    back_s = time.monotonic()
    assert receive(sticky, 4) == b"LOCK"
    eventually(lambda: len(sockets(worker.pid)) == held + 6, "all are accepted")
    served_s = time.monotonic()
    for client in clients:
        echo(client, b"at last")

    incident = laned.wait_incident(of(worker))
    assert incident["state"] == "blocked"
    assert incident["end"] == "recovered"
    assert steps(incident) == []
    assert incident["clients_waited"] == 5
    assert incident["worst_wait_ms"] >= (back_s - come_s) * 1000 - 4 * TICK_MS
    assert incident["worst_wait_ms"] <= (served_s - come_s) * 1000 + TICK_MS
    assert incident["duration_ms"] >= (back_s - stuck_s) * 1000 - 4 * TICK_MS
    assert incident["duration_ms"] <= (served_s - stuck_s) * 1000 + LATE_MS
    assert max(depth for _, depth in incident["queue"]) == 5
    assert pids(laned) == before
    close_all([sticky, *clients])


def test_nobody_is_ended(start):
    """With abort_after = "0" a worker may hang for as long as it likes."""
    laned = start(
        workers=1,
        supervision={**QUICK, "abort_after": "0"},
        allow_faults=True,
        faults=[{"kind": "sleep", "duration": "2500ms"}],
    )
    worker = laned.workers()[WORKER]
    with connect(laned.port) as client:
        echo(client, b"patience")
        incident = laned.wait_incident(of(worker))
    assert incident["state"] == "blocked"
    assert incident["end"] == "recovered"
    assert steps(incident) == []
    assert laned.workers()[WORKER].pid == worker.pid


def test_at_most_half_is_ended(start, gate):
    """If all workers hang, no more than half of them are ended within a minute, after a doubt."""
    laned = start(
        workers=4,
        supervision={**QUICK, "abort_after": "500ms", "extra_max": 0},
        process=gate.process,
    )
    workers = laned.workers()
    before = pids(laned)
    gate.lock()
    begin_s = time.monotonic()
    clients, stuck = [], set()
    for _ in workers:  # one after another: who hangs takes no other
        clients.append(connect(laned.port))
        stuck.add(lock_worker(laned, clients[-1]).name)
    assert stuck == set(workers)
    laned.wait_log("[34] of 4 workers do not go on: the host may be at fault")
    ended = [laned.wait_incident(lambda incident: "abort" in steps(incident))]
    assert time.monotonic() - begin_s >= 3 * 0.5  # as long as the doubt lasts
    laned.wait_until(lambda: len(laned.incidents()) == 2, "two are replaced")
    ended = laned.incidents()

    with Callers(laned.port) as callers:  # who stays hangs for many times abort_after
        patience_s = time.monotonic() + 2.5
        while time.monotonic() < patience_s:
            callers.wait_served(1)
    now = pids(laned)
    kept = [name for name in before if now[name] == before[name]]
    assert len(kept) == 2
    assert {incident["worker"] for incident in ended} == stuck - set(kept)
    gate.unlock()
    laned.wait_until(lambda: len(laned.incidents()) == 4, "the others go on")
    for incident in laned.incidents()[2:]:
        assert incident["end"] == "recovered"
        assert steps(incident) == []
    close_all(clients)


# --- Nobody's fault ------------------------------------------------------------------------------


def suspend(laned, seconds):
    """Stops all processes of laned for so long, as a host that is suspended does."""
    stopped = laned.pids()
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    for pid in stopped:
        eventually(lambda: Stat(pid).state == "T", f"{pid} is stopped")
    time.sleep(seconds)
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("topology", ["shared-listener", "reuseport+standby"])
def test_suspension(start, topology):
    """After all processes have stood still together nobody is to blame, and service goes on."""
    seconds = 60 if FULL else 3
    laned = start(topology=topology, workers=2, supervision=QUICK)
    before = pids(laned)
    clients = connect_all(laned.port, 8)
    for client in clients:
        echo(client, b"before")
    looks = switches(laned.pid) + 10
    eventually(lambda: switches(laned.pid) >= looks, "the master looks at its workers")
    suspend(laned, seconds)
    incident = laned.wait_incident(lambda incident: "worker" not in incident, "one of the host")
    assert incident["state"] == "suspended"
    assert incident["duration_ms"] >= seconds * 1000 - 2 * 50  # since the look that did not come
    assert incident["steps"] == []
    for client in clients:
        echo(client, b"after")
    until_s = time.monotonic() + 1.5  # in which whoever was to be ended would be
    with Callers(laned.port) as callers:
        while time.monotonic() < until_s:
            callers.wait_served(1)
    assert not callers.refused and not callers.broken
    assert pids(laned) == before
    assert not blaming(laned)
    close_all(clients)


def set_clock(gate, ahead_s):
    """Sets the clock of the day as laned sees it, in one stroke."""
    new = gate.folder / "clock.new"
    new.write_text(str(ahead_s))
    new.rename(gate.folder / "clock")


def began_s(incident):
    """When it began by laned's clock, in seconds since 1970."""
    text = incident["since"].replace("Z", "+00:00")
    return datetime.datetime.fromisoformat(text).timestamp()


@pytest.mark.parametrize("ahead_s", [3600, -3600])
def test_step_of_the_clock(start, gate, ahead_s):
    """A clock of the day that jumps by an hour, forth or back, is no reason for anything."""
    laned = start(workers=2, supervision=QUICK, process=gate.process)
    before = pids(laned)
    clients = connect_all(laned.port, 8)
    for client in clients:
        echo(client, b"before")
    set_clock(gate, ahead_s)
    until_s = time.monotonic() + 1.5  # in which whoever was to be ended would be
    with Callers(laned.port) as callers:
        while time.monotonic() < until_s:
            callers.wait_served(1)
    for client in clients:
        echo(client, b"after")
    assert not callers.refused and not callers.broken
    assert pids(laned) == before
    assert not blaming(laned)

    gate.lock()  # that laned has seen the jump, its stamps say
    worker = lock_worker(laned, clients[0])
    laned.wait_log(f"{worker.name} .*: blocked")
    gate.unlock()
    incident = laned.wait_incident(of(worker))
    assert incident["end"] == "recovered"
    assert abs(began_s(incident) - time.time() - ahead_s) < 60
    close_all(clients)


def test_starved_worker(start):
    """A worker that wants to run and is not let, for longer than abort_after, is left alone."""
    cpu = max(os.sched_getaffinity(0))
    laned = start(
        workers=1,
        supervision={**QUICK, "check_interval": "250ms"},
        allow_faults=True,
        faults=[{**SPIN, "duration": "3s"}],
    )
    worker = laned.workers()[WORKER]
    with connect(laned.port) as client, hogs(8, cpu):
        os.sched_setaffinity(worker.pid, {cpu})
        os.sched_setscheduler(worker.pid, os.SCHED_IDLE, os.sched_param(0))
        begin_s = time.monotonic()
        client.sendall(b"work")
        laned.wait_log(rf"{WORKER} \(pid {worker.pid}\): starved for .* left alone")
        assert receive(client, 4) == b"work"
        assert time.monotonic() - begin_s >= 3
    incident = laned.wait_incident(of(worker))
    assert incident["end"] == "recovered"
    assert steps(incident) == []
    assert laned.workers()[WORKER].pid == worker.pid


# --- The journal ---------------------------------------------------------------------------------

# Gives laned a journal of this test's own, and a stderr that leads there as systemd would have it.
IN_JOURNAL = """
mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/journal && mount --bind "$0" /run/systemd/journal
JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2) exec "$@"
"""


@pytest.fixture
def journal(folder):
    """The socket of a journal, in a folder of its own."""
    own = folder / "journal"
    own.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(own / "socket"))
        sock.settimeout(30)
        yield sock, own


def can_mount():
    make = ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/run"]
    if not shutil.which("unshare"):
        return False
    return subprocess.run(make, capture_output=True).returncode == 0


def test_incident_in_the_journal(start, journal, as_root):
    """Where the log is the journal's, an incident has a MESSAGE_ID to be found by."""
    if not can_mount():
        pytest.skip("no file system can be mounted here")
    sock, own = journal
    command = ["unshare", "-m", "sh", "-c", IN_JOURNAL, str(own), PROGRAM, "-c", "@"]
    laned = start(workers=1, supervision=QUICK, process={"command": command})
    worker = laned.workers()[WORKER]
    with connect(laned.port) as client:
        echo(client, b"before")
        stop_process(worker.pid)
        entry = sock.recv(65536).decode()
    fields = dict(line.partition("=")[::2] for line in entry.splitlines())
    assert fields["MESSAGE_ID"] == "3c1f0f2f6d0b4b6c9a1be4b0f7a5d2e8"
    assert fields["LANED_SUBJECT"] == WORKER
    assert fields["PRIORITY"] == "5"
    assert fields["SYSLOG_IDENTIFIER"] == "laned"
    assert fields["MESSAGE"].startswith(f'{WORKER}: incident {{"incident":1,')
    assert laned.log_lines("^<6>ready$")
    assert not laned.incidents()  # it is there once
    send_signal(worker.pid, signal.SIGCONT)
