"""Stopping: nobody who waits, or is in the middle of something, is sent away."""

import os
import signal
import socket
import time

import pytest

from client import (
    Callers,
    close_all,
    connect,
    connect_all,
    echo,
    ends,
    fill,
    noise,
    receive,
    receive_all,
    sender,
)
from laned import FULL, PATIENCE_S, SANITIZED, become_nobody, eventually, stop_process

MIB = 1 << 20
AT_ONCE_S = 5 if SANITIZED else 1
REPEATS = 20 if FULL else 3


def never_quiet(laned):
    """A client for whom bytes wait that it never takes."""
    client = connect(laned.port, receive_buffer=4096)
    data = noise(64 * MIB)
    assert fill(client, data) < len(data)
    client.settimeout(PATIENCE_S)
    return client


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT])
def test_idle_clients(start, topology, number):
    """Idle clients have the end of the stream, and laned ends although none of them closes."""
    laned = start(topology=topology, workers=2)
    clients = connect_all(laned.port, 50)
    for client in clients[:25]:  # the others have never said anything
        echo(client, b"x")
    begin = time.monotonic()
    laned.signal(number)
    for client in clients:
        assert receive_all(client) == b""
    assert laned.wait_end() == 0
    assert time.monotonic() - begin < 2.5 * AT_ONCE_S
    close_all(clients)


def test_client_in_the_middle(start, topology):
    """A client in the middle of sending has everything back, and its end when it is quiet."""
    laned = start(topology=topology, workers=2)
    data = noise(96 * MIB)
    with connect(laned.port) as client:
        thread = sender(client, data, shut=False)
        received = receive(client, 8 * MIB)
        laned.signal(signal.SIGTERM)
        received += receive(client, len(data) - len(received))
        assert received == data
        assert receive_all(client) == b""
        thread.join(PATIENCE_S)
    assert laned.wait_end() == 0


def test_client_that_half_closed(start):
    """A client that has half-closed and is slow to read has everything, although laned stops."""
    laned = start()
    data = noise(64 * MIB)
    with connect(laned.port, receive_buffer=8192) as client:
        size = fill(client, data)
        laned.signal(signal.SIGTERM)
        laned.wait_log("stopping")
        client.settimeout(PATIENCE_S)
        client.shutdown(socket.SHUT_WR)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MIB)
        assert receive_all(client) == data[:size]
    assert laned.wait_end() == 0


def test_clients_in_the_queue(start, topology):
    """Clients that wait in the queue when laned is told to stop are served."""
    laned = start(topology=topology, workers=2)
    workers = laned.workers().values()
    for worker in workers:
        stop_process(worker.pid)
    clients = connect_all(laned.port, 60)
    for i, client in enumerate(clients):
        client.sendall(b"%d" % i)
    laned.signal(signal.SIGTERM)
    laned.wait_log("stopping")
    for worker in workers:
        os.kill(worker.pid, signal.SIGCONT)
    for i, client in enumerate(clients):
        assert receive_all(client) == b"%d" % i
    close_all(clients)
    assert laned.wait_end() == 0


def test_clients_in_the_queue_of_killed_workers(start, topology):
    """They are served even if their workers die while laned stops."""
    laned = start(topology=topology, workers=2)
    workers = laned.workers().values()
    for worker in workers:
        stop_process(worker.pid)
    clients = connect_all(laned.port, 60)
    for i, client in enumerate(clients):
        client.sendall(b"%d" % i)
    laned.signal(signal.SIGTERM)
    laned.wait_log("stopping")
    for worker in workers:
        os.kill(worker.pid, signal.SIGKILL)
    for i, client in enumerate(clients):
        assert receive_all(client) == b"%d" % i
    close_all(clients)
    assert laned.wait_end() == 0


@pytest.mark.parametrize("repeat", range(REPEATS))
def test_storm_of_clients(start, topology, public_program, repeat):
    """While clients keep coming, nobody who has connected is reset; it takes no privilege."""
    laned = start(
        topology=topology,
        workers=2,
        process={"command": [public_program, "-c", "@"], "preexec": become_nobody},
    )
    with Callers(laned.port, threads=4) as callers:
        callers.wait_served(200)
        laned.signal(signal.SIGTERM)
        callers.wait_refused()
    assert laned.wait_end() == 0
    assert not callers.broken
    for error in callers.refused:
        assert isinstance(error, (ConnectionRefusedError, TimeoutError))


@pytest.mark.parametrize("numbers", [[15, 15], [15, 3], [3, 15], [15, 2], [2]], ids=str)
def test_at_once(start, numbers):
    """A second order to stop ends it at once, SIGINT the first time; neither is a failure."""
    laned = start(workers=2)
    with never_quiet(laned) as client:
        *before, last = numbers
        for number in before:
            laned.signal(number)
            laned.wait_log("stopping")
        begin = time.monotonic()
        laned.signal(last)
        assert laned.wait_end() == 0
        assert time.monotonic() - begin < AT_ONCE_S
        assert ends(client) == "RST"
    assert not laned.pids()


def test_drain_timeout(start):
    """A client that never falls quiet is cut after drain_timeout, which is no failure."""
    laned = start(drain_timeout="1s")
    with never_quiet(laned) as client:
        begin = time.monotonic()
        assert laned.stop() == 0
        assert 0.9 < time.monotonic() - begin < 1 + 2 * AT_ONCE_S
        assert ends(client) == "RST"
    laned.wait_log("not done when drain_timeout was over, connections left: 1; killed")


def test_no_drain_timeout(start):
    """drain_timeout = "0" is a stop at once."""
    laned = start(drain_timeout="0")
    with never_quiet(laned):
        begin = time.monotonic()
        assert laned.stop() == 0
        assert time.monotonic() - begin < AT_ONCE_S


def test_stopped_worker(start, topology):
    """A worker that is stopped (SIGSTOP) does not keep laned longer than drain_timeout."""
    laned = start(topology=topology, workers=2, drain_timeout="1s")
    stop_process(laned.workers()["echo/0.0"].pid)
    begin = time.monotonic()
    assert laned.stop() == 0
    assert 0.9 < time.monotonic() - begin < 1 + 2 * AT_ONCE_S
    assert not laned.pids()


def test_no_new_clients(start, topology):
    """While a client is busy to its end, nobody else is let in, and laned ends when it is done."""
    laned = start(topology=topology, workers=2)
    with never_quiet(laned) as busy:
        laned.signal(signal.SIGTERM)
        eventually(lambda: refused(laned.port), "new clients are refused")
        busy.shutdown(socket.SHUT_WR)
        busy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MIB)
        assert receive_all(busy)
    assert laned.wait_end() == 0


def refused(port):
    try:
        # A client's kernel repeats the first packet after 1, 3 and 7 seconds.
        connect(port, patience_s=10).close()
        return False
    except ConnectionRefusedError:
        return True


def test_nobody_is_there(start, topology):
    """Without clients it ends in a moment."""
    laned = start(topology=topology, workers=2)
    begin = time.monotonic()
    assert laned.stop() == 0
    assert time.monotonic() - begin < AT_ONCE_S
    assert not laned.pids()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_notices(start, number):
    """The service manager is told READY=1, then STOPPING=1, by the master and nobody else."""
    laned = start(topology="reuseport+standby", workers=2)
    for worker in laned.workers().values():
        os.kill(worker.pid, signal.SIGKILL)
        laned.wait_replaced(worker)
    laned.signal(number)
    assert laned.wait_end() == 0
    laned.wait_until(lambda: len(laned.notices) >= 2, "two notices")
    assert [text for _, text in laned.notices] == ["READY=1", "STOPPING=1"]
    assert {pid for pid, _ in laned.notices} == {laned.pid}
