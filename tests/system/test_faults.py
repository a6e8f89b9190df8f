"""Faults on purpose: each kind does what it says, when, where and as often as it says."""

import os
import re
import select
import signal
import time
from pathlib import Path

import pytest

from client import TAG, close_all, connect, connect_all, ends, receive, receive_all, sender, who
from laned import (
    PATIENCE_S,
    StartError,
    Stat,
    configuration,
    eventually,
    run,
    sockets,
    stop_process,
)

# Nobody else interferes: what is seen here is the fault and nothing else.
ALONE = {"extra_max": 0, "abort_after": "0", "steer_after": "0"}
BAD_CONFIGURATION = 78  # exit status
DURATION_S = 1
SLACK_S = 1  # of a host that is busy
MIB = 1 << 20
LAST_WORDS = {"crash": r"killed by signal 6 ", "exit": r"exited with status 70\b"}


def fault(kind, **keys):
    timed = {"duration": f"{DURATION_S}s"} if kind in ("sleep", "spin") else {}
    return {"kind": kind, **timed, **keys}


def sleeps_in(pid, pattern):
    """Whether a process sleeps in such a function of the kernel."""
    try:
        return bool(re.search(pattern, Path(f"/proc/{pid}/wchan").read_text()))
    except OSError:
        return False


def waits_for_events(pid):
    return sleeps_in(pid, "ep_poll|epoll")


class Victim:
    """The one worker of a laned with a fault, as it is seen from outside."""

    def __init__(self, laned):
        self.laned = laned
        self.worker = laned.workers()["echo/0.0"]
        self.pid = self.worker.pid
        self.cpu_s = Stat(self.pid).cpu_s
        self.sockets = len(sockets(self.pid))
        try:
            eventually(lambda: waits_for_events(self.pid), f"{self.worker} rests", 5)
        except AssertionError:
            pytest.skip("/proc does not say what a process waits for")

    def is_struck(self, kind):
        if kind == "sleep":
            return sleeps_in(self.pid, "nanosleep")
        if kind == "spin":
            return Stat(self.pid).cpu_s - self.cpu_s > 0.2
        if kind == "stop":
            return Stat(self.pid).state == "T"
        return bool(self.laned.log_lines(LAST_WORDS[kind]))

    def wait_struck(self, kind):
        eventually(lambda: self.is_struck(kind), f"{kind} strikes {self.worker}")

    def wait_accepted(self, kind):
        """Waits until it has a client and waits for more, or is struck."""

        def look():
            taken = len(sockets(self.pid)) > self.sockets
            return (taken and waits_for_events(self.pid)) or self.is_struck(kind)

        eventually(look, f"{self.worker} has taken the client")


@pytest.fixture
def victim(start):
    """A function that starts laned with one worker, and a fault of it."""

    def make(kind, **keys):
        return Victim(
            start(workers=1, supervision=ALONE, allow_faults=True, faults=[fault(kind, **keys)])
        )

    return make


@pytest.mark.parametrize("on", ["accept", "message"])
@pytest.mark.parametrize("kind", ["sleep", "spin"])
def test_hangs_for_a_while(victim, kind, on):
    """sleep and spin hold a client up once, for the duration, without and with use of the CPU."""
    struck = victim(kind, on=on)
    begin = time.monotonic()
    with connect(struck.laned.port) as client:
        if on == "message":
            struck.wait_accepted(kind)
            assert not struck.is_struck(kind)
            begin = time.monotonic()
        client.sendall(b"1")
        struck.wait_struck(kind)
        assert receive(client, 1) == b"1"
        assert DURATION_S <= time.monotonic() - begin < DURATION_S + SLACK_S
        used_s = Stat(struck.pid).cpu_s - struck.cpu_s
        assert used_s < 0.2 if kind == "sleep" else used_s <= DURATION_S + 0.2

        begin = time.monotonic()
        client.sendall(b"2")
        assert receive(client, 1) == b"2"
        # The next message is held up as well; but it was accepted once.
        assert (time.monotonic() - begin >= DURATION_S) == (on == "message")
    assert struck.laned.workers()["echo/0.0"].pid == struck.pid


@pytest.mark.parametrize("on", ["accept", "message"])
def test_stops(victim, on):
    """stop stops the worker until somebody continues it; nothing is lost by that."""
    struck = victim("stop", on=on)
    with connect(struck.laned.port) as client:
        if on == "message":
            struck.wait_accepted("stop")
            assert not struck.is_struck("stop")
        client.sendall(b"1")
        struck.wait_struck("stop")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(1)
        client.settimeout(PATIENCE_S)
        os.kill(struck.pid, signal.SIGCONT)
        assert receive(client, 1) == b"1"


@pytest.mark.parametrize("on", ["accept", "message"])
@pytest.mark.parametrize("kind", ["crash", "exit"])
def test_ends_the_worker(victim, kind, on):
    """crash and exit end the worker, its connections with it; its place is filled again."""
    struck = victim(kind, on=on)
    with connect(struck.laned.port) as client:
        if on == "message":
            struck.wait_accepted(kind)
            assert not struck.is_struck(kind)
            client.sendall(b"1")
        struck.laned.wait_log(LAST_WORDS[kind])
        try:
            assert client.recv(1) == b""
        except ConnectionResetError:
            pass
    struck.laned.wait_replaced(struck.worker)


def serve_all(laned, names):
    """Clients until these workers have served one each; returns all who have, by their tags."""
    served = set()
    while not names <= served:
        clients = connect_all(laned.port, 4)
        for client in clients:
            client.sendall(b"who")
        ready, _, _ = select.select(clients, [], [], 0.05)  # some may have met one that is stopped
        for client in ready:
            tag = TAG.fullmatch(client.recv(100)[3:])
            served.add("echo/" + tag[1].decode())
        close_all(clients)
    return served


def stopped(laned):
    return {worker.name for worker in laned.workers().values() if Stat(worker.pid).state == "T"}


@pytest.mark.parametrize(
    "topology, places, struck",
    [
        ("shared-listener", {"workers": [1]}, {"echo/0.1"}),
        ("shared-listener", {"workers": [0, 2]}, {"echo/0.0", "echo/0.2"}),
        ("shared-listener", {"lanes": [0], "workers": [2]}, {"echo/0.2"}),
        ("reuseport", {"lanes": [1]}, {"echo/1.0"}),
        ("reuseport", {"lanes": [0, 2], "workers": [0]}, {"echo/0.0", "echo/2.0"}),
    ],
)
def test_only_whom_it_names(start, topology, places, struck):
    """A fault strikes the lanes and workers that it names, and serves no other's clients worse."""
    laned = start(
        topology=topology,
        workers=3,
        supervision=ALONE,
        allow_faults=True,
        faults=[fault("stop", **places)],
        echo={"tag": True},
    )
    others = set(laned.workers()) - struck
    served = serve_all(laned, others)
    clients = []
    while stopped(laned) != struck:
        assert stopped(laned) <= struck
        clients.append(connect(laned.port))
        clients[-1].sendall(b"who")
    assert served == others
    assert serve_all(laned, others) == others
    close_all(clients)


@pytest.mark.parametrize("role", ["primary", "standby", "extra"])
def test_only_the_role_that_it_names(start, role):
    """A fault for a role strikes no worker of another one."""
    laned = start(
        topology="reuseport+standby",
        workers=1,
        supervision={**ALONE, "extra_max": 1},
        allow_faults=True,
        faults=[fault("stop", roles=[role])],
        echo={"tag": True},
    )
    # Each in its turn, as the one before does not go on.
    for number, turn in enumerate(["primary", "standby", "extra"]):
        laned.wait_asleep()
        with connect(laned.port) as client:
            if turn == role:
                client.sendall(b"who")
                name = f"echo/0.{number}"
                laned.wait_workers(lambda now: name in now, f"{name} comes")
                eventually(lambda: name in stopped(laned), f"{name} is struck")
            else:
                assert who(client) == f"0.{number}"
                stop_process(laned.workers()[f"echo/0.{number}"].pid)


def sequence(struck, count):
    """Which of so many messages of one client the fault "stop" has struck."""
    struck_by = []
    with connect(struck.laned.port) as client:
        for _ in range(count):
            client.sendall(b"x")
            while not select.select([client], [], [], 0.001)[0] and not struck.is_struck("stop"):
                pass
            struck_by.append(struck.is_struck("stop"))
            os.kill(struck.pid, signal.SIGCONT)
            assert receive(client, 1) == b"x"
    return struck_by


def test_probability(victim):
    """0 is never, 1 is always, and 0.5 is about half of the times, the same ones for a seed."""
    assert sequence(victim("stop", probability=0.0), 50) == [False] * 50
    assert sequence(victim("stop", probability=1.0), 50) == [True] * 50
    first = sequence(victim("stop", probability=0.5, seed=7), 50)
    assert 8 <= first.count(True) <= 42  # five standard deviations
    assert sequence(victim("stop", probability=0.5, seed=7), 50) == first
    assert sequence(victim("stop", probability=0.5, seed=8), 50) != first


def echoes(client):
    """Whether a message is answered; else the connection is at its end."""
    try:
        client.sendall(b"x")
        return bool(client.recv(1))
    except (ConnectionResetError, BrokenPipeError):
        return False


def test_probability_of_ends(victim):
    """A process that takes the place of one that was struck has a sequence of its own."""
    struck = victim("exit", probability=0.5, seed=3)
    served = []
    for _ in range(4):  # lives
        count = 0
        with connect(struck.laned.port) as client:
            worker = struck.laned.workers()["echo/0.0"]
            while echoes(client):
                count += 1
        served.append(count)
        struck.laned.wait_replaced(worker)
    assert len(set(served)) > 1


def test_several_faults(start):
    """Each fault strikes for itself, in the order in which they are written."""
    laned = start(
        workers=1,
        supervision=ALONE,
        allow_faults=True,
        faults=[fault("stop", on="accept"), fault("sleep"), fault("exit")],
    )
    struck = Victim(laned)
    with connect(laned.port) as client:
        struck.wait_struck("stop")
        client.sendall(b"x")
        begin = time.monotonic()
        os.kill(struck.pid, signal.SIGCONT)
        struck.wait_struck("sleep")
        laned.wait_log(LAST_WORDS["exit"])
        assert time.monotonic() - begin >= DURATION_S
    laned.wait_replaced(struck.worker)


def test_refused_unless_allowed(start, folder):
    """Without allow_faults laned does not start with a fault, and -t says why."""
    text = configuration(faults=[fault("sleep")])
    with pytest.raises(StartError) as refused:
        start(text)
    assert refused.value.status == BAD_CONFIGURATION
    assert "allow_faults" in refused.value.log
    path = folder / "faults.conf"
    path.write_text(text.replace("@0", "7007"))
    checked = run("-t", "-c", path)
    assert checked.returncode == BAD_CONFIGURATION
    assert "allow_faults" in checked.stderr
    path.write_text("allow_faults = true;\n" + text.replace("@0", "7007"))
    assert run("-t", "-c", path).returncode == 0


def test_end_while_much_comes(start, topology):
    """
    With close_after = 1 clients that go on sending, 1 MiB each and all at once, have their answer
    whole and then FIN: no reset comes that would take the answer away.
    """
    laned = start(topology=topology, workers=2, echo={"tag": True, "close_after": 1})
    clients = connect_all(laned.port, 20)
    threads = []
    for client in clients:
        client.sendall(b"who")
        threads.append(sender(client, b"y" * MIB))
    for client, thread in zip(clients, threads):
        answer = receive_all(client)
        thread.join(PATIENCE_S)
        # What came in the same moment may be part of the message.
        message, _, tag = answer.rpartition(b" ")
        assert TAG.fullmatch(b" " + tag)
        assert message.startswith(b"who") and set(message[3:]) <= {ord("y")}
    close_all(clients)


def test_end_before_much_comes(start):
    """The same for a client that has its answer before it sends the rest."""
    laned = start(workers=1, echo={"tag": True, "close_after": 1})
    for _ in range(20):
        with connect(laned.port) as client:
            assert who(client) == "0.0"
            thread = sender(client, b"y" * MIB)
            assert ends(client) == "FIN"
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
