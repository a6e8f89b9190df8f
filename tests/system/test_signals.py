"""Signals that are no order to stop."""

import os
import signal

import pytest

from client import Callers, connect, echo
from laned import Daemon, Ports, configuration, eventually, status_field


@pytest.mark.parametrize("number", [signal.SIGUSR1])
def test_ignored_by_the_master(start, number):
    """The master says in the log that it ignores the signal, and serves on."""
    laned = start(workers=2)
    before = {name: worker.pid for name, worker in laned.workers().items()}
    with connect(laned.port) as client:
        echo(client, b"before")
        laned.signal(number)
        laned.wait_log(rf"signal {int(number)} \(.*\) from pid {os.getpid()}: ignored")
        echo(client, b"after")
    assert {name: worker.pid for name, worker in laned.workers().items()} == before


def test_hangup_from_the_first_moment(folder):
    """SIGHUP, however early and often, does not end it."""
    text = configuration(workers=4)
    for _ in range(10):
        ports = Ports()
        laned = Daemon(folder, ports.fill(text), ports)
        try:
            # Before main has begun, no program can do anything about a signal.
            eventually(lambda: int(status_field(laned.pid, "SigBlk"), 16), "signals are blocked")
            while not laned.is_ready():
                assert laned.returncode is None
                laned.signal(signal.SIGHUP)
            with connect(laned.port) as client:
                echo(client, b"ready")
        finally:
            assert not laned.close()


@pytest.mark.parametrize("name", ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2"])
def test_ignored_by_workers(start, topology, name):
    """Workers obey nobody but the master: they ignore the signal, and serve on."""
    laned = start(topology=topology, workers=2)
    before = {name: worker.pid for name, worker in laned.workers().items()}
    with Callers(laned.port) as callers, connect(laned.port) as client:
        for _ in range(20):
            for pid in before.values():
                os.kill(pid, signal.Signals[name])
            echo(client, b"x")
        callers.wait_served(20)
    assert not callers.refused and not callers.broken
    laned.wait_asleep()
    assert {name: worker.pid for name, worker in laned.workers().items()} == before


def test_broken_pipe(start):
    """Nobody dies of SIGPIPE, not even when the log is read by nobody any more."""
    reader, writer = os.pipe()
    laned = start(workers=2, process={"stderr": writer})
    os.close(writer)
    os.close(reader)
    workers = laned.workers()
    laned.signal(signal.SIGHUP)  # a line for the log
    os.kill(workers["echo/0.0"].pid, signal.SIGKILL)  # and another
    laned.wait_replaced(workers["echo/0.0"])
    with connect(laned.port) as client:
        echo(client, b"x")
    assert laned.stop() == 0
