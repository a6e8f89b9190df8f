"""SIGHUP: another configuration, while clients come and go and nobody of them notices."""

import contextlib
import itertools
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from client import Callers, close_all, connect, connect_all, echo, who
from crowd import CrowdProcess
from laned import (
    FULL,
    PROGRAM,
    SANITIZED,
    Stat,
    TOPOLOGIES,
    configuration,
    descriptors,
    eventually,
    status_field,
    stop_process,
    title,
)
from trouble import QUICK, TAG, pids

DONE = r"reload done in \d+ ms: "
EVERYBODY = {"ping-pong": 60, "bulk": 10, "short": 30, "idle": 100}


def leaving(laned):
    """Processes of groups that have been replaced, and still have connections."""
    found = []
    for pid in laned.pids():
        try:
            found += [pid] if title(pid).endswith(" leaving") else []
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def wait_left(laned):
    eventually(lambda: not leaving(laned), "the old ones have left")


def is_refused(port, host="127.0.0.1"):
    try:
        connect(port, host).close()
    except ConnectionRefusedError:
        return True
    return False


# --- What changes --------------------------------------------------------------------------------


@pytest.mark.parametrize("before, after", itertools.permutations(TOPOLOGIES, 2))
def test_topology(start, before, after):
    """New clients come to the new workers at once; who was there stays where he is."""
    laned = start(topology=before, workers=3, echo=TAG)
    old = set(pids(laned).values())
    with connect(laned.port) as there:
        first = who(there)
        laned.reload(topology=after, workers=3, echo=TAG)
        laned.wait_log(DONE + "echo replaced")
        # Lanes that go are served for a while: lane 0 has other workers now.
        new = {name: pid for name, pid in pids(laned).items() if pid not in old}
        clients = connect_all(laned.port, 20)
        assert {"echo/" + who(client) for client in clients} <= set(new)
        close_all(clients)
        assert who(there) == first
        eventually(lambda: len(leaving(laned)) == 1, "one is left, for the sake of one connection")
    wait_left(laned)


@pytest.mark.parametrize(
    "change",
    [
        {"workers": 1},
        {"workers": 5},
        {"backlog": 1000},
        {"max_connections": 300},
        {"buffer_memory": "1MiB"},
        {"idle_timeout": "1h"},
        {"echo": {"tag": True, "close_after": 2}},
        {"listen": ["127.0.0.1:@0", "127.0.0.2:@0"]},
        {"allow_faults": True, "faults": [{"kind": "sleep", "duration": "10ms"}]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_key_of_a_group(start, topology, change):
    """A group whose keys change is replaced, and nobody is refused meanwhile."""
    keys = {"topology": topology, "workers": 2, "echo": TAG}
    laned = start(**keys)
    with Callers(laned.port, message=b"") as callers, connect(laned.port) as there:
        assert who(there)
        laned.reload(**{**keys, **change})
        laned.wait_log(DONE + "echo replaced")
        assert who(there)
        laned.reload(**keys)
        laned.wait_until(
            lambda: len(laned.log_lines(DONE + "echo replaced")) == 2, "the second reload"
        )
    assert not callers.refused and not callers.broken
    for client in connect_all(laned.port, 3):
        with client:
            assert [who(client), who(client), who(client)]


@pytest.mark.skipif(not shutil.which("ss"), reason="ss(8) is not here")
def test_backlog_is_in_effect(start):
    """The queue that new workers inherit has the new length."""
    laned = start(workers=1, backlog=50)
    laned.reload(workers=1, backlog=7)
    listeners = subprocess.check_output(["ss", "-Hltn", f"sport = :{laned.port}"], text=True)
    assert [line.split()[2] for line in listeners.splitlines()] == ["7"]


def test_same_configuration(start, topology):
    """A group that is the same keeps its workers, and so does one of two."""
    groups = [
        {"name": "a", "topology": topology, "workers": 2},
        {"name": "b", "listen": "127.0.0.1:@1", "topology": topology, "workers": 2},
    ]
    laned = start(groups=groups)
    before = pids(laned)
    laned.reload()
    laned.wait_log(DONE + "no group replaced")
    assert pids(laned) == before
    groups[1]["workers"] = 3
    laned.reload(groups=groups[::-1])
    after = pids(laned)
    laned.wait_log(DONE + "b replaced")
    assert {name: pid for name, pid in after.items() if name[0] == "a"} == {
        name: pid for name, pid in before.items() if name[0] == "a"
    }
    assert not set(after.values()) & {pid for name, pid in before.items() if name[0] == "b"}


def test_groups_come_and_go(start):
    """A group that is gone refuses new clients and serves those it has; it may come back."""
    one = {"name": "one"}
    two = {"name": "two", "listen": "127.0.0.1:@1", "workers": 2}
    laned = start(groups=[one])
    laned.reload(groups=[one, two])
    laned.wait_log(DONE + "two added")
    with connect(laned.ports[1]) as there:
        echo(there, b"before")
        laned.reload(groups=[one])
        laned.wait_log(DONE + "two removed")
        assert is_refused(laned.ports[1])
        echo(there, b"after")
        laned.reload(groups=[one, two])
        with connect(laned.ports[1]) as again:
            echo(again, b"again")
        echo(there, b"and still there")
    wait_left(laned)


def test_address_moves_to_another_group(start, topology):
    """Whoever waits for a group is served by the one that has the address now."""
    keys = {"topology": topology, "workers": 2, "echo": TAG}
    laned = start(groups=[{"name": "old", **keys}], supervision={"extra_max": 0})
    for worker in laned.workers().values():
        stop_process(worker.pid)
    clients = connect_all(laned.port, 20)
    laned.reload(groups=[{"name": "new", **keys}], supervision={"extra_max": 0})
    laned.wait_log(DONE + "new added, old removed")
    for client in clients:
        client.sendall(b"x")
        assert re.fullmatch(rb"x new/\d\.\d\n", client.recv(100))
    close_all(clients)


@pytest.mark.parametrize("target", ["0.0.0.0:@0", "[::]:@0"])
def test_address_moves(start, topology, target):
    """From one address of a host to all of them and back; whoever connects is served."""
    keys = {"topology": topology, "workers": 2}
    laned = start(**keys)
    with Callers(laned.port, threads=2) as callers:
        for listen in [target, "127.0.0.1:@0"] * 3:
            both = [listen] if listen[0] != "[" else [listen, "127.0.0.1:@0"]
            callers.wait_served(20)
            laned.reload(listen=both, **keys)
        callers.wait_served(20)
    assert not callers.refused and not callers.broken
    laned.wait_until(lambda: len(laned.log_lines(DONE + "echo replaced")) == 6, "six reloads")


def test_supervision(start):
    """Its keys are in effect at once, for workers that were there before."""
    laned = start(workers=1, supervision={**QUICK, "abort_after": "1h"})
    worker = laned.workers()["echo/0.0"]
    laned.reload(workers=1, supervision=QUICK)
    assert pids(laned) == {"echo/0.0": worker.pid}
    stop_process(worker.pid)
    with connect(laned.port) as client:
        echo(client, b"x")
    laned.wait_replaced(worker)


def test_log_level(start):
    """It is in effect at once, for the master and for a worker that was there before."""
    keys = {"workers": 1, "max_connections": 1, "supervision": {"extra_max": 0}}
    laned = start(log={"level": "error"}, **keys)
    before = pids(laned)
    laned.reload(log={"level": "info"}, **keys)
    laned.wait_log(DONE)
    with connect(laned.port) as held, connect(laned.port):
        echo(held, b"x")
        laned.wait_log("echo/0.0 .*: the lane holds 1 connections")
    laned.reload(log={"level": "error"}, **keys)
    laned.reload(log={"level": "info"}, **keys)
    laned.wait_until(lambda: len(laned.log_lines(DONE)) == 2, "what is said of the last one")
    assert pids(laned) == before


# --- What is refused -----------------------------------------------------------------------------

BAD = {
    "syntax": ('groups = ( { name = "echo" ', r"laned\.conf:2: error: syntax error"),
    "key": ("drain_timout = 5;", r"laned\.conf:1: error: unknown key"),
    "value": ('\ndrain_timeout = "soon";', r"laned\.conf:2: error: drain_timeout"),
    "user": ('user = "nobody-has-this-name";', r"laned\.conf:1: error: there is no account"),
    "twice": (
        configuration(groups=[{"name": "a"}, {"name": "b", "listen": "127.0.0.1:@0"}]),
        r"laned\.conf:\d: error: \"127",
    ),
    "empty": ("\n", r"laned\.conf: error: no groups"),
    "gone": (None, "cannot read .*laned.conf"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_configuration(start, kind):
    """It is refused with file and line, nothing has changed, and the next good one is not."""
    text, pattern = BAD[kind]
    laned = start(workers=2)
    before = pids(laned)
    with Callers(laned.port) as callers:
        callers.wait_served(10)
        if text is None:
            laned.file.unlink()
            laned.reload()
        else:
            laned.reload(text)
        laned.wait_log(pattern)
        laned.wait_log("reload refused; all is as before")
        assert any("last reload refused" in note for _, note in laned.notices)
        assert pids(laned) == before
        callers.wait_served(10)
        laned.reload(workers=1)
        laned.wait_log(DONE + "echo replaced")
        callers.wait_served(10)
    assert not callers.refused and not callers.broken


def test_taken_port(start):
    """Somebody else has an address: the file and line say which, and all is as before."""
    laned = start(groups=[{"name": "a"}])
    before = pids(laned)
    with socket.socket() as other:
        other.bind(("127.0.0.1", laned.ports[1]))
        other.listen()
        laned.reload(groups=[{"name": "a", "workers": 3}, {"name": "b", "listen": "127.0.0.1:@1"}])
        laned.wait_log(r"b/0: cannot listen on 127\.0\.0\.1:\d+: Address already in use")
        laned.wait_log("reload failed; all is as before")
        assert any(re.search(r"laned.conf:\d: b/0: cannot", note) for _, note in laned.notices)
        assert pids(laned) == before
    laned.reload()
    laned.wait_log(DONE + "a replaced, b added")
    with connect(laned.ports[1]) as client:
        echo(client, b"x")


def test_new_workers_fail(start, gate, topology):
    """What new workers echo is wrong: the old ones never notice."""
    laned = start(topology=topology, workers=2, process=gate.process)
    before = pids(laned)
    gate.probe("spoil")
    with Callers(laned.port) as callers:
        laned.reload(topology=topology, workers=4)
        laned.wait_log("did not echo what it was sent; killed")
        laned.wait_log("reload failed; all is as before")
        callers.wait_served(10)
        assert pids(laned) == before
        gate.probe(None)
        laned.reload()
        laned.wait_log(DONE + "echo replaced")
    assert not callers.refused and not callers.broken


def test_new_worker_dies(start, gate):
    """One is killed before it is ready: the old ones serve on, and the next reload may succeed."""
    laned = start(workers=2, process=gate.process)
    before = pids(laned)
    gate.lock()
    gate.probe("wait")
    laned.rewrite(workers=3)
    laned.signal(signal.SIGHUP)
    held = eventually(
        lambda: [w for w in laned.workers().values() if gate.is_reached(w)], "a new one is held"
    )
    os.kill(held[0].pid, signal.SIGKILL)
    laned.wait_log(r"killed by signal 9 \(Killed\) before it was ready")
    laned.wait_log("reload failed; all is as before")
    laned.wait_until(lambda: laned.reports()[1:] == ["RELOADING=1", "READY=1"], "its report")
    gate.unlock()
    gate.probe(None)
    assert pids(laned) == before
    laned.reload()
    assert len(laned.workers()) == 3


def test_nothing_to_reload(start):
    """What came from standard input cannot be read again."""
    command = ["sh", "-c", 'exec "$0" -c - <"$1"', PROGRAM, "@"]
    laned = start(workers=1, process={"command": command})
    before = pids(laned)
    laned.reload()
    laned.wait_log("nothing to reload: the configuration is from standard input")
    assert pids(laned) == before


def test_no_file_to_reload(start):
    """Nor is there anything to read where there is no file: the built-in group serves on."""
    build = subprocess.check_output([PROGRAM, "-VV"], text=True)
    installed = Path(re.search("^configuration file: (.*)$", build, re.M)[1])
    if installed.exists() or (installed.parent / "conf.d").exists():
        pytest.skip("there is an installed file")
    command = [PROGRAM, "-o", "groups.echo.listen=127.0.0.1:@0"]
    laned = start(process={"command": command})
    before = pids(laned)
    laned.reload()
    laned.wait_log("nothing to reload: there is no configuration file")
    assert pids(laned) == before


# --- One after another ---------------------------------------------------------------------------


def test_reports_to_the_service_manager(start):
    """RELOADING=1 with its time, then READY=1 with a status, in success and in failure."""
    laned = start(workers=1)
    laned.reload(workers=2)
    laned.reload("groups = 1;")
    assert laned.reports() == ["READY=1"] + ["RELOADING=1", "READY=1"] * 2
    begins = [note for _, note in laned.notices if "RELOADING=1" in note]
    for note in begins:
        now_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        assert 0 < now_us - int(re.search(r"^MONOTONIC_USEC=(\d+)$", note, re.M)[1]) < 60e6
    ends = [note for _, note in laned.notices if "STATUS=" in note]
    assert "last reload done" in ends[0]
    assert "last reload refused: " in ends[1] and "laned.conf:1: error" in ends[1]
    assert {pid for pid, _ in laned.notices} == {laned.pid}


def test_signals_while_one_goes_on(start, gate):
    """Reloads that come while one goes on are one, which reads what the file says then."""
    laned = start(workers=1, process=gate.process)
    gate.lock()
    gate.probe("wait")
    laned.rewrite(workers=2)
    laned.signal(signal.SIGHUP)
    gate.wait_held(laned)
    for workers in range(3, 20):
        laned.rewrite(workers=workers)
        laned.signal(signal.SIGHUP)
        time.sleep(0.001)  # a signal that is pending already is one signal
    gate.probe(None)
    gate.unlock()
    laned.wait_until(lambda: laned.reports().count("READY=1") == 3, "the end of two reloads")
    assert len(laned.workers()) == 19
    laned.reload()
    assert laned.reports() == ["READY=1"] + ["RELOADING=1", "READY=1"] * 3


def test_stop_while_one_goes_on(start, gate):
    """laned is told to stop while new workers start: it stops, and leaves nothing."""
    laned = start(workers=2, process=gate.process)
    gate.lock()
    gate.probe("wait")
    laned.rewrite(workers=3)
    laned.signal(signal.SIGHUP)
    gate.wait_held(laned)
    assert laned.stop() == 0
    assert not laned.pids()


def test_stuck_worker_holds_up_nothing(start, topology):
    """An old worker that does not go on cannot leave; the new ones serve, and the reload ends."""
    laned = start(topology=topology, workers=1, echo=TAG, supervision={"abort_after": "0"})
    worker = laned.workers()["echo/0.0"]
    with connect(laned.port) as there:
        assert who(there)
        stop_process(worker.pid)
        laned.reload(topology=topology, workers=2, echo=TAG, supervision={"abort_after": "0"})
        laned.wait_log(DONE)
        for client in connect_all(laned.port, 20):
            with client:
                assert who(client)
        os.kill(worker.pid, signal.SIGCONT)
        assert who(there)
    wait_left(laned)


# --- The old ones --------------------------------------------------------------------------------


def test_queue_of_a_lane_that_goes(start):
    """Who waits in the queue of a lane that goes is served, though its worker is stopped."""
    laned = start(topology="reuseport", workers=4)
    for worker in laned.workers().values():
        stop_process(worker.pid)
    clients = connect_all(laned.port, 100)
    laned.reload(topology="reuseport", workers=1)
    for client in clients:
        echo(client, b"x")
    close_all(clients)


def test_drain_timeout(start):
    """Connections of old workers end when drain_timeout is over: quiet ones in good order."""
    keys = {"workers": 2, "drain_timeout": "500ms"}
    laned = start(**keys)
    quiet = connect_all(laned.port, 10)
    for client in quiet:
        echo(client, b"x")
    begin_s = time.monotonic()
    laned.reload(**keys, backlog=9)
    for client in quiet:
        assert client.recv(1) == b""
    assert time.monotonic() - begin_s >= 0.5
    close_all(quiet)
    wait_left(laned)
    assert not laned.log_lines("killed")


def test_drained_worker_has_no_successor(start):
    """One that has ended as it was told is not started again while another one holds up its lane."""
    keys = {"workers": 2, "drain_timeout": "300ms"}
    laned = start(**keys)
    slow = laned.workers()["echo/0.1"]
    stop_process(slow.pid)
    laned.reload(listen="127.0.0.1:@1", **keys)
    laned.wait_log(rf"echo/0\.1 \(pid {slow.pid}\): not done when drain_timeout was over")
    eventually(lambda: len(laned.pids()) == 3, "the old ones have left")
    assert not laned.log_lines("filled again")


def test_busy_after_drain_timeout(start):
    """One that never falls quiet is ended with its worker, and the log says so."""
    keys = {"workers": 1, "drain_timeout": "200ms"}
    laned = start(**keys)
    with connect(laned.port) as busy:
        echo(busy, b"x")
        laned.reload(**keys, backlog=9)
        with pytest.raises((EOFError, ConnectionError)):
            while True:
                echo(busy, b"x")
    laned.wait_log("echo/0.0 .*: not done when drain_timeout was over, connections left: 1; killed")
    wait_left(laned)


def test_queue_of_a_full_lane_that_goes(start):
    """
    Who waits for room in a lane that goes has no more time than those who have it: then the lane is
    gone, and nobody is started for it again and again.
    """
    keys = {"topology": "reuseport", "max_connections": 2, "drain_timeout": "200ms"}
    laned = start(workers=2, echo=TAG, **keys)
    held = {}
    while len(held) < 2:
        client = connect(laned.port)
        client.settimeout(0.2)
        with contextlib.suppress(TimeoutError):  # its lane is full
            held[who(client)] = client

    def talk(client):
        with contextlib.suppress(OSError, EOFError, ValueError):
            while True:
                who(client)

    threads = [threading.Thread(target=talk, args=[client]) for client in held.values()]
    for thread in threads:
        thread.start()
    waiting = connect_all(laned.port, 20)
    laned.reload(workers=1, echo=TAG, **keys)
    eventually(lambda: len(laned.pids()) == 2, "a master and one worker are left")
    for thread in threads:
        thread.join()
    close_all([*waiting, *held.values()])
    assert len(laned.log_lines("killed")) <= 4


def test_max_generations(start):
    """The oldest ends its connections when there are more."""
    keys = {"workers": 1, "max_generations": 2}
    laned = start(**keys)
    clients = []
    for backlog in range(10, 14):
        clients.append(connect(laned.port))
        echo(clients[-1], b"x")
        laned.reload(**keys, backlog=backlog)
    for client in clients[:2]:
        assert client.recv(1) == b""
    for client in clients[2:]:
        echo(client, b"y")
    eventually(lambda: len(leaving(laned)) == 2, "two generations are left")
    close_all(clients)
    wait_left(laned)


def test_stop_ends_old_ones_too(start):
    """Stopping drains the workers that leave like all others."""
    laned = start(workers=2)
    client = connect(laned.port)
    echo(client, b"x")
    laned.reload(workers=3)
    assert laned.stop() == 0
    assert client.recv(1) == b""
    client.close()


def test_crowd(start):
    """
    Topologies and worker counts go round while clients of all kinds come, talk and go: nobody is
    refused, nobody is cut off, every byte is right, and the master is afterwards as it was.
    """
    rounds = 300 if FULL else 25
    keys = {"drain_timeout": "120s", "max_generations": 100}
    laned = start(topology="shared-listener", workers=2, **keys)

    def traces():
        names = sorted(re.sub(r"\[\d+\]", "", name) for name in descriptors(laned.pid).values())
        with open(f"/proc/{laned.pid}/maps") as maps:
            lanes = sum("/dev/zero" in line for line in maps)
        return names, lanes

    # Asleep: what it reports with is closed again.
    eventually(lambda: Stat(laned.pid).state == "S", "the master waits")
    before, rss = traces(), int(status_field(laned.pid, "VmRSS").split()[0])
    assert before[1] > 0, "the memory of a lane is not seen"
    chance = random.Random(1)
    with CrowdProcess(laned.port, EVERYBODY) as crowd:
        for _ in range(rounds):
            laned.reload(
                topology=chance.choice(TOPOLOGIES),
                workers=chance.randrange(1, 5),
                standby=chance.randrange(1, 3),
                **keys,
            )
            # Each generation has a process at least: so none is the oldest of too many.
            eventually(lambda: len(laned.pids()) < 90, "old ones leave")
        seen = crowd.leave()
    assert not seen["faults"], seen
    assert all(count > 0 for count in seen["ended"].values()), seen
    laned.reload(topology="shared-listener", workers=2, **keys)
    eventually(lambda: traces()[1] == before[1], "the memory of old lanes is given back")
    eventually(lambda: traces()[0] == before[0], "descriptors are as before")
    if not SANITIZED:  # it keeps what was freed
        assert int(status_field(laned.pid, "VmRSS").split()[0]) < rss + 4096
