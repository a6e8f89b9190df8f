"""What happens when processes of laned are killed."""

import os
import signal
import socket
import threading
import time
from pathlib import Path

import pytest

from client import Callers, close_all, connect, connect_all, echo, ends, receive
from laned import (
    SANITIZED,
    Daemon,
    Ports,
    Stat,
    configuration,
    descriptors,
    eventually,
    status_field,
    stop_process,
)

# How soon nothing is left of a laned whose master was killed.
END_S = 5 if SANITIZED else 1


def kill_all(workers):
    for worker in workers:
        os.kill(worker.pid, signal.SIGKILL)


def test_clients_in_the_queue_survive(start, topology):
    """Whoever waits in a queue whose workers are killed is served by their successors."""
    laned = start(topology=topology, workers=2)
    workers = laned.workers()
    for worker in workers.values():
        stop_process(worker.pid)
    clients = connect_all(laned.port, 60)
    for i, client in enumerate(clients):
        client.sendall(b"%d" % i)
    kill_all(workers.values())
    for i, client in enumerate(clients):
        assert receive(client, len(b"%d" % i)) == b"%d" % i
    close_all(clients)
    for worker in workers.values():
        assert laned.wait_replaced(worker).title == worker.title


def test_kills_while_clients_connect(start, topology):
    """While workers are killed, nobody is refused; a kill ends the connections of its worker."""
    laned = start(topology=topology, workers=2)
    threads, kills = 3, 12
    planned = len(laned.workers())
    with Callers(laned.port, threads) as callers:
        callers.wait_served(50)
        for i in range(kills):
            workers = laned.wait_workers(lambda now: len(now) == planned, "workers")
            victim = workers[sorted(workers)[i % len(workers)]]
            os.kill(victim.pid, signal.SIGKILL)
            laned.wait_replaced(victim)
            callers.wait_served(50)
    assert not callers.refused
    assert len(callers.broken) <= kills * threads


def test_one_death_touches_no_other_worker(start):
    """The connections of other workers go on when one is killed; its own end."""
    laned = start(workers=3, echo={"tag": True})
    clients = connect_all(laned.port, 60)
    served_by = {}
    for client in clients:
        client.sendall(b"x")
        served_by[client] = client.recv(100)
    victim = laned.workers()["echo/0.1"]
    # As a crash would; but what the sanitizer says of one is no news.
    os.kill(victim.pid, signal.SIGKILL if SANITIZED else signal.SIGSEGV)
    laned.wait_replaced(victim)
    for client in clients:
        if served_by[client] == b"x echo/0.1\n":
            assert ends(client) in ("RST", "FIN")
        else:
            client.sendall(b"x")
            assert client.recv(100) == served_by[client]
    close_all(clients)
    laned.wait_log(r"echo/0\.1 \(pid %d\): killed by signal" % victim.pid)


def test_pace_of_restarts(start):
    """A place is filled again, but not sooner than 100 ms after the last start in it."""
    laned = start(workers=1)
    worker = laned.workers()["echo/0.0"]
    starts = [Stat(worker.pid).start_s]
    for _ in range(8):
        os.kill(worker.pid, signal.SIGKILL)
        worker = laned.wait_replaced(worker)
        starts.append(Stat(worker.pid).start_s)
    assert starts[-1] - starts[0] >= 8 * 0.1 - 0.03  # the clock's grain, and a late first start
    assert all(later - sooner >= 0.05 for sooner, later in zip(starts, starts[1:]))
    with connect(laned.port) as client:
        echo(client, b"as before")


def test_restart_is_quick(start):
    """A worker that has lived for a while is replaced at once."""
    laned = start(workers=1)
    worker = laned.workers()["echo/0.0"]
    time.sleep(0.15)
    with connect(laned.port):
        os.kill(worker.pid, signal.SIGKILL)
        begin = time.monotonic()
        with connect(laned.port) as client:
            echo(client, b"who is there?")
        assert time.monotonic() - begin < (2 if SANITIZED else 0.5)


def master_state(laned):
    mappings = Path(f"/proc/{laned.pid}/maps").read_text().count("\n")
    return len(descriptors(laned.pid)), mappings


def master_bytes(laned):
    return int(status_field(laned.pid, "RssAnon").split()[0]) * 1024


def test_kills_leave_nothing_behind(start, topology):
    """After 50 kills the master has as many descriptors, mappings and bytes as before."""
    laned = start(
        topology=topology,
        workers=2,
        log={"level": "error"},
        supervision={"restart_limit": 10000},  # as quick as it can
    )

    def round_of_kills():
        workers = laned.workers()
        kill_all(workers.values())
        for worker in workers.values():
            laned.wait_replaced(worker)
        return len(workers)

    round_of_kills()
    laned.wait_asleep()
    before, bytes_before = master_state(laned), master_bytes(laned)
    kills = 0
    while kills < 50:
        kills += round_of_kills()
    eventually(lambda: master_state(laned) == before, "descriptors and mappings are as before")
    if not SANITIZED:
        assert master_bytes(laned) <= bytes_before + 64 * 1024
    for worker in laned.workers().values():
        # The standard ones, a listener, two eventfds, the epoll set.
        assert len(descriptors(worker.pid)) == 3 + 1 + 2 + 1


def bind_again(port):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", port))
        sock.listen()


def test_everything_ends_with_the_master(start, topology):
    """When the master is killed, within a second no process is left and the address is free."""
    laned = start(topology=topology, workers=2)
    clients = connect_all(laned.port, 10)
    for client in clients:
        echo(client, b"x")
    stop_process(list(laned.workers().values())[-1].pid)  # this one, too
    laned.signal(signal.SIGKILL)
    eventually(lambda: not laned.pids(), "no process is left", END_S)
    assert laned.wait_end() == -signal.SIGKILL
    bind_again(laned.port)
    for client in clients:
        assert ends(client) in ("RST", "FIN")
    close_all(clients)


def test_master_killed_while_it_starts(folder):
    """Whenever the master is killed during its start, nothing is left."""
    text = configuration(topology="reuseport", workers=8)
    for i in range(20):
        ports = Ports()
        laned = Daemon(folder, ports.fill(text), ports)
        killer = threading.Timer(i * (0.02 if SANITIZED else 0.001), laned.signal, [signal.SIGKILL])
        killer.start()
        killer.join()
        eventually(lambda: not laned.pids(), "no process is left", END_S)
        assert laned.wait_end() == -signal.SIGKILL
        bind_again(laned.port)
        assert not laned.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_asked_to_stop_while_it_starts(folder, number):
    """Whenever it is asked to stop during its start, it ends well, and nothing is left."""
    text = configuration(topology="reuseport", workers=4)
    for i in range(10):
        ports = Ports()
        laned = Daemon(folder, ports.fill(text), ports)
        # Before main has begun, no program can do anything about a signal.
        eventually(lambda: int(status_field(laned.pid, "SigBlk"), 16), "signals are blocked")
        time.sleep(i * 0.001)
        laned.signal(number)
        assert laned.wait_end() == 0
        assert not laned.close()
