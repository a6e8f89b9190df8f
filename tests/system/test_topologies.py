"""Who serves whom."""

import collections
import os
import signal

import pytest

from client import close_all, connect, connect_all, who, who_serve
from laned import eventually, stop_process


def share(names, workers):
    """The largest share, as a multiple of the fair one; each worker must have one."""
    counts = collections.Counter(names)
    assert set(counts) == set(workers)
    return max(counts.values()) * len(workers) / len(names)


def test_shared_listener_is_fair(start):
    """Clients that come one after another are spread over all workers."""
    laned = start(topology="shared-listener", workers=4, echo={"tag": True})
    names = []
    for _ in range(60):
        with connect(laned.port) as client:
            names.append("echo/" + who(client))
    assert share(names, laned.workers()) < 1.6


def test_shared_listener_is_fair_to_who_stays(start):
    """Connections that are held are spread over all workers, too."""
    laned = start(topology="shared-listener", workers=4, echo={"tag": True})
    assert share(who_serve(laned, 60), laned.workers()) < 1.6


def test_shared_listener_passes_a_stopped_worker(start):
    """Nobody waits for a worker that is stopped while others are free."""
    laned = start(topology="shared-listener", workers=3, echo={"tag": True})
    stopped = laned.workers()["echo/0.1"]
    stop_process(stopped.pid)
    assert set(who_serve(laned, 30)) == {"echo/0.0", "echo/0.2"}
    os.kill(stopped.pid, signal.SIGCONT)
    assert stopped.name in who_serve(laned, 30)


def test_reuseport_uses_every_lane(start):
    """Clients are spread over all lanes."""
    laned = start(topology="reuseport", workers=4, echo={"tag": True})
    assert set(who_serve(laned, 200)) == {f"echo/{lane}.0" for lane in range(4)}


@pytest.mark.parametrize("standby", [0, 1, 3])
def test_standby_plan(start, standby):
    """Each lane has a primary and as many standbys as were asked for."""
    laned = start(topology="reuseport+standby", workers=2, standby=standby)
    roles = {name: worker.role for name, worker in laned.workers().items()}
    assert roles == {
        f"echo/{lane}.{number}": "standby" if number else "primary"
        for lane in range(2)
        for number in range(1 + standby)
    }


@pytest.fixture
def one_lane(start):
    return start(topology="reuseport+standby", workers=1, standby=1, echo={"tag": True})


PRIMARY, STANDBY = "echo/0.0", "echo/0.1"


def wait_primary_serves(laned):
    eventually(lambda: set(who_serve(laned, 40)) == {PRIMARY}, "the primary serves alone")


def test_primary_serves_alone(one_lane):
    """While the primary is free, the standby gets nobody."""
    assert set(who_serve(one_lane, 40)) == {PRIMARY}


def test_standby_takes_over_at_once(one_lane):
    """The standby serves the clients of a stopped primary, until that goes on."""
    primary = one_lane.workers()[PRIMARY]
    stop_process(primary.pid)
    assert set(who_serve(one_lane, 20)) == {STANDBY}
    os.kill(primary.pid, signal.SIGCONT)
    wait_primary_serves(one_lane)


def test_standby_stands_behind_a_new_primary(one_lane):
    """A primary that has replaced a killed one serves, and not the standby that was there first."""
    primary = one_lane.workers()[PRIMARY]
    os.kill(primary.pid, signal.SIGKILL)
    one_lane.wait_replaced(primary)
    wait_primary_serves(one_lane)


def test_new_standby_stands_behind_the_primary(one_lane):
    """A replaced standby does not take the primary's clients."""
    standby = one_lane.workers()[STANDBY]
    for _ in range(3):
        os.kill(standby.pid, signal.SIGKILL)
        standby = one_lane.wait_replaced(standby)
        assert set(who_serve(one_lane, 40)) == {PRIMARY}
    stop_process(one_lane.workers()[PRIMARY].pid)
    assert set(who_serve(one_lane, 20)) == {STANDBY}


def test_killed_primary_and_standby(one_lane):
    """Killed at the same time, both come back in their roles."""
    workers = one_lane.workers()
    for worker in workers.values():
        os.kill(worker.pid, signal.SIGKILL)
    for worker in workers.values():
        assert one_lane.wait_replaced(worker).role == worker.role
    wait_primary_serves(one_lane)


def test_standby_shares_a_burst(one_lane):
    """While the primary is away with clients in its queue, the standby serves them."""
    primary = one_lane.workers()[PRIMARY]
    stop_process(primary.pid)
    clients = connect_all(one_lane.port, 30)
    assert {who(client) for client in clients} == {"0.1"}
    os.kill(primary.pid, signal.SIGCONT)
    with connect(one_lane.port) as client:
        who(client)
    close_all(clients)
