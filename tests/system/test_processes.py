"""What laned's processes are called, may do, hold, and do when there is nothing to do."""

import os
import signal
import time

import pytest

from client import close_all, connect, connect_all, echo
from laned import (
    NOBODY,
    Stat,
    comm,
    descriptors,
    eventually,
    pids_of_session,
    sockets,
    status_field,
    switches,
    title,
)


def test_names(start, topology):
    """comm and title say which process is what."""
    laned = start(topology=topology, workers=2)
    assert comm(laned.pid) == "laned"
    assert title(laned.pid) == f"laned: master {laned.file}"
    places = {
        "shared-listener": ["echo/0.0 primary", "echo/0.1 primary"],
        "reuseport": ["echo/0.0 primary", "echo/1.0 primary"],
        "reuseport+standby": [
            "echo/0.0 primary",
            "echo/0.1 standby",
            "echo/1.0 primary",
            "echo/1.1 standby",
        ],
    }
    assert sorted(worker.title for worker in laned.workers().values()) == [
        f"laned: worker {place}" for place in places[topology]
    ]
    assert {comm(worker.pid) for worker in laned.workers().values()} == {"laned-worker"}
    assert len(laned.pids()) == 1 + len(places[topology])
    assert all(Stat(worker.pid).parent == laned.pid for worker in laned.workers().values())


def kinds(pid):
    """How many descriptors of which kind a process has, beside the standard ones."""
    found = [what.partition(":[")[0] for number, what in descriptors(pid).items() if number > 2]
    return {kind: found.count(kind) for kind in found}


def test_descriptors(start):
    """A worker holds the listeners of its lane and what it works with; nothing of another lane."""
    laned = start(
        groups=[
            {
                "name": "a",
                "listen": ["127.0.0.1:@0", "127.0.0.1:@1"],
                "topology": "reuseport+standby",
                "workers": 2,
            },
            {"name": "b", "listen": "127.0.0.1:@2", "workers": 2},
        ]
    )
    workers = laned.workers()
    given = {what for number, what in descriptors(laned.pid).items() if number <= 2}
    listeners = {name: sockets(worker.pid) - given for name, worker in workers.items()}
    lanes = [["a/0.0", "a/0.1"], ["a/1.0", "a/1.1"], ["b/0.0", "b/0.1"]]
    assert sorted(workers) == sorted(sum(lanes, []))
    seen = set()
    for lane in lanes:
        first = listeners[lane[0]]
        assert all(listeners[name] == first for name in lane)
        assert len(first) == (2 if lane[0].startswith("a") else 1)
        assert not seen & first
        seen |= first
    assert seen <= sockets(laned.pid)
    for name, worker in workers.items():
        addresses = 2 if name.startswith("a") else 1
        assert kinds(worker.pid) == {"socket": addresses, "anon_inode": 3}, name
        anonymous = [what for what in descriptors(worker.pid).values() if what.startswith("anon")]
        assert sorted(anonymous) == [
            "anon_inode:[eventfd]",
            "anon_inode:[eventfd]",
            "anon_inode:[eventpoll]",
        ]


def test_connections_are_not_inherited(start):
    """A worker that is started while others hold connections holds none of them."""
    laned = start(workers=2)
    clients = connect_all(laned.port, 20)
    for client in clients:
        echo(client, b"x")
    victim = laned.workers()["echo/0.0"]
    os.kill(victim.pid, signal.SIGKILL)
    replacement = laned.wait_replaced(victim)
    eventually(
        lambda: kinds(replacement.pid) == {"socket": 1, "anon_inode": 3},
        "it holds its own descriptors and no other",
    )
    close_all(clients)


def test_no_new_privileges(start):
    """Workers cannot gain privileges."""
    laned = start(workers=2)
    assert {status_field(worker.pid, "NoNewPrivs") for worker in laned.workers().values()} == {"1"}


def test_user(start, as_root):
    """With user, workers run under that account, with its groups and no capability."""
    laned = start(workers=2, user="nobody")
    workers = laned.workers().values()
    for worker in workers:
        assert status_field(worker.pid, "Uid").split() == [str(NOBODY)] * 4
        groups = {int(group) for group in status_field(worker.pid, "Groups").split()}
        assert set(map(int, status_field(worker.pid, "Gid").split())) | groups == set(
            os.getgrouplist("nobody", int(status_field(worker.pid, "Gid").split()[0]))
        )
        assert 0 not in groups
        for kind in "CapPrm", "CapEff", "CapAmb":
            assert int(status_field(worker.pid, kind), 16) == 0
        assert status_field(worker.pid, "NoNewPrivs") == "1"
    assert status_field(laned.pid, "Uid").split() == ["0"] * 4
    with connect(laned.port) as client:
        echo(client, b"x")

    # Changing the account takes the tie to the master away, unless it is made again.
    laned.signal(signal.SIGKILL)
    eventually(lambda: not pids_of_session(laned.pid), "no process is left", 5)


def test_user_is_replaced_as_user(start, as_root):
    """A replaced worker runs under that account, too."""
    laned = start(workers=1, user="nobody")
    victim = laned.workers()["echo/0.0"]
    os.kill(victim.pid, signal.SIGKILL)
    replacement = laned.wait_replaced(victim)
    ids = [str(NOBODY)] * 4
    eventually(lambda: status_field(replacement.pid, "Uid").split() == ids, "it is nobody")
    assert laned.stop() == 0


def rests(laned, seconds):
    """That none of its processes begins to run for so long, once all have come to rest."""

    def look():
        return {pid: switches(pid) for pid in laned.pids()}

    def at_rest():
        before = look()
        time.sleep(0.6)  # the master looks every 0.25 s until it has seen enough
        return look() == before

    eventually(at_rest, "all processes rest")
    before = look()
    time.sleep(seconds)
    assert look() == before


def test_idle_without_connections(start, topology):
    """Without clients nothing wakes up."""
    laned = start(topology=topology, workers=2)
    rests(laned, 2)


def test_idle_with_connections(start, topology):
    """With quiet connections nobody wakes up but to look, every check_interval, at the workers."""
    laned = start(
        supervision={"check_interval": "10s"},
        groups=[
            {"topology": topology, "workers": 2},
            {"name": "empty", "listen": "127.0.0.1:@1", "workers": 1, "idle_timeout": "1s"},
        ]
    )
    clients = connect_all(laned.port, 20)
    for client in clients[:10]:
        echo(client, b"x")
    with connect(laned.ports[1]) as gone:
        echo(gone, b"x")
    rests(laned, 2)
    close_all(clients)


def test_idle_after_work(start):
    """When the work is done, and workers were replaced, nothing wakes up either."""
    laned = start(workers=2, echo={"close_after": 1}, max_connections=5)
    clients = connect_all(laned.port, 20)
    for i, client in enumerate(clients):
        client.sendall(b"%2d" % i)
    for client in clients:
        assert len(client.recv(2)) == 2
        client.close()
    victim = laned.workers()["echo/0.0"]
    os.kill(victim.pid, signal.SIGKILL)
    laned.wait_replaced(victim)
    rests(laned, 1)


@pytest.mark.parametrize("name", ["x", "A" * 32, "a-b_c"])
def test_name_of_a_group(start, name):
    """The group's name stands in titles and tags, however long it may be."""
    laned = start(groups=[{"name": name, "workers": 1, "echo": {"tag": True}}])
    assert list(laned.workers()) == [f"{name}/0.0"]
    with connect(laned.port) as client:
        client.sendall(b"who")
        assert client.recv(100) == f"who {name}/0.0\n".encode()
