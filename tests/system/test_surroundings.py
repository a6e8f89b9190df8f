"""Odd surroundings: what a parent process, a container or an operator leaves laned with."""

import os
import resource
import shutil
import signal
import time

import pytest

from client import close_all, connect, connect_all, echo
from laned import PROGRAM, Stat

SPIN = 0.2  # CPUs; what does not spin needs a hundredth of it


def cpu_used(laned, seconds):
    """CPUs that all processes of laned used together for that long."""
    pids = laned.pids()
    before = sum(Stat(pid).cpu_s for pid in pids)
    time.sleep(seconds)
    return (sum(Stat(pid).cpu_s for pid in pids) - before) / seconds


def test_full_lane_does_not_spin(start):
    """A primary and its standby that find the lane full wait for room and nothing else."""
    laned = start(topology="reuseport+standby", workers=1, max_connections=4)
    held = connect_all(laned.port, 4)
    for client in held:
        echo(client, b"held")
    waiting = connect_all(laned.port, 4)
    held.pop().close()
    echo(waiting[0], b"there was room for one")
    assert cpu_used(laned, 1) < SPIN
    close_all(held + waiting)


def test_drain_without_a_descriptor_does_not_spin(start):
    """Workers that have no descriptor left when they are to drain wait for one."""
    laned = start(workers=2)
    for worker in laned.workers().values():
        _, hard = resource.prlimit(worker.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (12, hard))
    clients = connect_all(laned.port, 40)
    laned.wait_log("no descriptor left")
    laned.signal(signal.SIGTERM)
    laned.wait_log("stopping")
    assert cpu_used(laned, 0.5) < SPIN
    close_all(clients)
    assert laned.wait_end() == 0


def ignore_children():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def test_ignored_sigchld(start):
    """An ignored SIGCHLD, which exec hands down, does not keep the master from seeing deaths."""
    laned = start(workers=2, process={"preexec": ignore_children})
    worker = laned.workers()["echo/0.0"]
    os.kill(worker.pid, signal.SIGKILL)
    laned.wait_replaced(worker)
    assert laned.stop() == 0


def test_proc_of_another_namespace(start, as_root):
    """In a PID namespace whose /proc is somebody else's, dead workers are replaced."""
    laned = start(workers=2, process={"command": ["unshare", "-p", "-f", PROGRAM, "-c", "@"]})
    for pid in laned.pids():
        if Stat(pid).parent not in (os.getpid(), laned.pid):
            os.kill(pid, signal.SIGKILL)
            break
    else:
        pytest.fail("no worker was found")
    laned.wait_log("its place is filled again")
    with connect(laned.port) as client:
        echo(client, b"there is somebody")
    (master,) = [pid for pid in laned.pids() if Stat(pid).parent == laned.pid]
    os.kill(master, signal.SIGTERM)
    laned.wait_log("stopped")
    assert laned.wait_end() == 0


def test_lowered_hard_limit(start):
    """When the master's limit of open files is lowered, workers that are replaced have that."""
    laned = start(workers=1)
    resource.prlimit(laned.pid, resource.RLIMIT_NOFILE, (500, 500))
    worker = laned.workers()["echo/0.0"]
    os.kill(worker.pid, signal.SIGKILL)
    laned.wait_replaced(worker)
    with connect(laned.port) as client:
        echo(client, b"still")


def low_soft_limit():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))


def test_low_soft_limit(start):
    """The usual low soft limit does not bound how many workers the master can have."""
    laned = start(
        topology="reuseport", workers=40, max_connections=400, process={"preexec": low_soft_limit}
    )
    assert len(laned.workers()) == 40


def test_no_right_to_signal_workers(start, as_root):
    """Without CAP_KILL the workers of another account could not be stopped: it does not start."""
    if not shutil.which("setpriv"):
        pytest.skip("setpriv is not here")
    drop = ["setpriv", "--bounding-set=-kill", "--inh-caps=-kill", "--", PROGRAM, "-c", "@"]
    laned = start(user="nobody", ready=False, process={"command": drop})
    assert laned.wait_end() == 77
    assert "CAP_KILL" in laned.log()


def test_nobody_reads_a_terminal(start):
    """A terminal that has stopped does not stop the service."""
    try:
        terminal, slave = os.openpty()
    except OSError as error:
        pytest.skip(f"no terminal can be made here: {error}")
    laned = start(workers=1, process={"stderr": slave})
    os.close(slave)
    for _ in range(400):
        laned.signal(signal.SIGHUP)
        time.sleep(0.001)  # a signal that is pending already is one signal
    worker = laned.workers()["echo/0.0"]
    os.kill(worker.pid, signal.SIGKILL)
    laned.wait_replaced(worker)
    assert laned.stop() == 0
    os.close(terminal)


def test_owed_bytes_are_not_cut(start):
    """A client that reads slowly, and says something now and then, is not idle: it has everything."""
    laned = start(idle_timeout="1s")
    with connect(laned.port, receive_buffer=4096) as client:
        owed = 100_000
        client.sendall(bytes(owed))
        reads, begin = 0, time.monotonic()
        while owed:
            data = client.recv(32768)
            assert data, f"ended with {owed} bytes owed"
            owed -= len(data)
            reads += 1
            if reads % 8 == 0 and owed:
                client.sendall(b"\0")  # were it half closed, this would be answered with a reset
                owed += 1
            time.sleep(0.25)
        assert time.monotonic() - begin > 2
