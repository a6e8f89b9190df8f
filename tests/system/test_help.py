"""Help that would come too late, to the wrong ones, or do harm."""

import os
import resource
import signal
import time
from pathlib import Path

from client import close_all, connect, connect_all, echo, receive
from laned import eventually, stop_process
from trouble import QUICK, blaming, degrade, lock_worker, of

HANGS = {"kind": "sleep", "duration": "30s", "roles": ["primary"]}


def hangs(worker):
    return "nanosleep" in Path(f"/proc/{worker.pid}/wchan").read_text()


def wait_hangs(worker):
    eventually(lambda: hangs(worker), f"{worker} hangs")


def visit(port):
    with connect(port) as client:
        echo(client, b"x")


def test_stop_while_the_worker_hangs(start):
    """Who waits in the queue of a worker that hangs is served although laned was told to stop."""
    laned = start(
        topology="reuseport",
        workers=1,
        drain_timeout="2s",
        allow_faults=True,
        faults=[HANGS],
    )
    with connect(laned.port) as held:
        held.sendall(b"x")
        wait_hangs(laned.workers()["echo/0.0"])
        with connect(laned.port) as client:
            client.sendall(b"y")
            laned.signal(signal.SIGTERM)
            assert receive(client, 1) == b"y"
        assert laned.wait_end() == 0


def test_stopped_while_nobody_comes(start):
    """A worker that was stopped while idle is found, although its clients come and go in a moment."""
    laned = start(workers=2, supervision={**QUICK, "check_interval": "250ms"})
    laned.wait_asleep()
    worker = laned.workers()["echo/0.0"]
    stop_process(worker.pid)
    for _ in range(5):
        visit(laned.port)
    incident = laned.wait_incident(of(worker), "it is found")
    assert (incident["state"], incident["end"]) == ("stopped", "replaced")


def test_empty_place_while_nobody_comes(start):
    """A lane without a worker leaves the rotation before its first client, not after."""
    laned = start(
        topology="reuseport",
        workers=4,
        supervision={**QUICK, "extra_max": 0, "restart_limit": 1},
    )
    degrade(laned, "echo/0.0")
    laned.wait_log("echo/0.0: no process; new clients go to the other lanes")
    clients = connect_all(laned.port, 40)
    for client in clients:
        echo(client, b"x")
    close_all(clients)


def test_no_descriptor_for_an_extra_worker(start):
    """A master that could not hear of a process's end starts none, which would take clients."""
    laned = start(workers=1, supervision={"abort_after": "0"})
    worker = laned.workers()["echo/0.0"]
    used = {int(number) for number in os.listdir(f"/proc/{laned.pid}/fd")}
    free = min(set(range(1000)) - used)
    limits = resource.prlimit(laned.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(laned.pid, resource.RLIMIT_NOFILE, (free, limits[1]))
    stop_process(worker.pid)
    clients = connect_all(laned.port, 5)
    for client in clients:
        client.sendall(b"x")
    laned.wait_log("echo/0.1: cannot start a process")
    assert list(laned.workers()) == [worker.name]
    resource.prlimit(laned.pid, resource.RLIMIT_NOFILE, limits)
    for client in clients:
        assert receive(client, 1) == b"x"
    close_all(clients)
    os.kill(worker.pid, signal.SIGCONT)


def test_who_has_waited(start, gate):
    """Clients that are served at once are not counted among those who waited."""
    laned = start(workers=1, process=gate.process, supervision={"abort_after": "0"})
    gate.lock()
    with connect(laned.port) as held:
        worker = lock_worker(laned, held)
        for _ in range(100):
            visit(laned.port)
        gate.unlock()
        assert receive(held, 4) == b"LOCK"
        incident = laned.wait_incident(of(worker), "the worker is well again")
    assert 1 <= incident["clients_waited"] < 20
    assert incident["worst_wait_ms"] >= 4


def test_doubt_comes_first(start):
    """Where all workers hang at once the master doubts itself before it ends any of them."""
    laned = start(
        workers=4,
        echo={"close_after": 1},
        supervision={**QUICK, "steer_after": "0", "abort_after": "1.2s", "extra_max": 0},
        allow_faults=True,
        faults=[HANGS],
    )
    workers = laned.workers().values()
    clients = []
    for hanging in range(1, 5):  # one after another: who hangs takes no other
        clients.append(connect(laned.port))
        clients[-1].sendall(b"x")
        eventually(lambda: sum(map(hangs, workers)) == hanging, "one more hangs")
    line = laned.wait_log("the host may be at fault")
    assert "of 4 workers" in line
    assert not laned.log_lines("SIGABRT")
    laned.wait_log("SIGABRT")  # it does not doubt for ever
    assert len(blaming(laned)) <= 2
    close_all(clients)


def test_extra_workers_that_leave(start):
    """Extra workers come as quickly the tenth time as the first: one that leaves is no crash."""
    laned = start(
        workers=1,
        supervision={"extra_max": 1, "restart_limit": 3},
        allow_faults=True,
        faults=[{"kind": "sleep", "duration": "300ms", "roles": ["primary"]}],
    )
    for _ in range(5):
        with connect(laned.port) as held:
            held.sendall(b"x")
            wait_hangs(laned.workers()["echo/0.0"])
            begin_s = time.monotonic()
            visit(laned.port)
            assert time.monotonic() - begin_s < 0.29
            assert receive(held, 1) == b"x"
        eventually(lambda: list(laned.workers()) == ["echo/0.0"], "the extra worker leaves")
