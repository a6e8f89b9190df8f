"""A lane that nobody serves: where its clients go."""

import os
import signal
import time

import pytest

from client import close_all, connect, connect_all, echo, who
from laned import PATIENCE_S, stop_process
from trouble import QUICK, TAG, client_of, degrade, of, pids, steps

PATIENT = {**QUICK, "abort_after": "0"}  # a worker that hangs stays
ALONE = {**PATIENT, "extra_max": 0}  # and nobody comes to help
AWAY = "new clients go to the other lanes"
BACK = "new clients come to it again"
MANY = 60  # by the kernel's hash over three lanes, each gets some of so many


def lanes_of(clients):
    """Which lanes serve these connections, each at once."""
    return {who(client).partition(".")[0] for client in clients}


def lanes_of_new_clients(laned):
    clients = connect_all(laned.port, MANY, patience_s=PATIENCE_S / 2)
    lanes = lanes_of(clients)
    close_all(clients)
    return lanes


@pytest.mark.parametrize("topology", ["reuseport", "reuseport+standby"])
def test_lane_of_a_stuck_primary(start, topology):
    """New clients keep away from a lane whose primary hangs, and come again when it goes on."""
    laned = start(topology=topology, workers=3, echo=TAG, supervision=ALONE)
    before = pids(laned)
    worker = laned.workers()["echo/1.0"]
    with client_of(laned, worker.name) as client:
        stop_process(worker.pid)
        laned.wait_log(rf"^laned: warning: {worker.name} \(pid {worker.pid}\): .*{AWAY}")
        assert lanes_of_new_clients(laned) == {"0", "2"}
        os.kill(worker.pid, signal.SIGCONT)
        laned.wait_log(f"^laned: echo/1: {BACK}")
        assert lanes_of_new_clients(laned) == {"0", "1", "2"}
        assert who(client) == "1.0"
    incident = laned.wait_incident(of(worker))
    assert incident["state"] == "stopped"
    assert incident["end"] == "recovered"
    assert steps(incident) == ["steer", "steer back"]
    assert pids(laned) == before


def test_no_lane_is_served(start):
    """Where nobody serves any lane none is left out: clients wait in all, and are served."""
    laned = start(topology="reuseport", workers=3, echo=TAG, supervision=ALONE)
    workers = laned.workers().values()
    held = [client_of(laned, worker.name) for worker in workers]
    for worker in list(workers)[:2]:
        stop_process(worker.pid)
        laned.wait_log(f"{worker.name} .*{AWAY}")
    stop_process(list(workers)[2].pid)
    laned.wait_until(lambda: len(laned.log_lines(BACK)) == 2, "no lane is left out")
    assert len(laned.log_lines(AWAY)) == 2
    clients = connect_all(laned.port, MANY)
    for worker in workers:
        os.kill(worker.pid, signal.SIGCONT)
    assert lanes_of(clients) == {"0", "1", "2"}
    close_all(held + clients)


def test_lane_without_a_worker(start):
    """
    New clients keep away from a lane whose only worker could not be started again, until one could.
    """
    laned = start(
        topology="reuseport",
        workers=3,
        echo=TAG,
        supervision={**ALONE, "restart_limit": 1, "restart_interval": "4s"},
    )
    with client_of(laned, "echo/0.0"):
        degrade(laned, "echo/1.0")
        laned.wait_log(rf"echo/1\.0: no process; {AWAY}")
        assert lanes_of_new_clients(laned) == {"0", "2"}
        laned.wait_log(f"^laned: echo/1: {BACK}")
        assert lanes_of_new_clients(laned) == {"0", "1", "2"}


def test_queue_without_a_worker(start):
    """
    Somebody serves who comes to a lane whose only worker cannot be started again: whoever is in its
    queue does not wait for the next attempt.
    """
    laned = start(
        topology="reuseport",
        workers=2,
        echo=TAG,
        supervision={**PATIENT, "restart_limit": 1, "restart_interval": "10min"},
    )
    degrade(laned, "echo/1.0")
    waits, names = [], set()
    for _ in range(MANY):
        begin_s = time.monotonic()
        with connect(laned.port) as client:
            names.add(who(client))
        waits.append(time.monotonic() - begin_s)
    assert "1.0" not in names
    # 20 ms in the queue, and the start of a process on a host that may be busy.
    assert max(waits) < 2, waits


def test_never_steered(start):
    """With steer_after = "0" a lane keeps its clients; extra workers serve them."""
    laned = start(
        topology="reuseport", workers=2, echo=TAG, supervision={**PATIENT, "steer_after": "0"}
    )
    worker = laned.workers()["echo/1.0"]
    with client_of(laned, worker.name) as client:
        stop_process(worker.pid)
        laned.wait_log(rf"{worker.name} .*: stopped for .*; nothing is done yet")
        assert lanes_of_new_clients(laned) == {"0", "1"}
        assert not laned.log_lines(AWAY)
        os.kill(worker.pid, signal.SIGCONT)
        echo(client, b"")
