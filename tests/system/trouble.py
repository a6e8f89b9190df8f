"""Workers in trouble: how a test brings them there, and what it looks for afterwards."""

import contextlib
import os
import signal
import subprocess
import threading
import time

from client import close_all, connect, echo, who
from laned import PATIENCE_S, Stat, eventually

# So quick that a test need not wait for long; other keys as by default.
QUICK = {
    "steer_after": "200ms",
    "abort_after": "1s",
    "kill_after": "500ms",
    "check_interval": "50ms",
}
TAG = {"tag": True}


def pids(laned):
    """Which process is in which place."""
    return {name: worker.pid for name, worker in laned.workers().items()}


def of(worker):
    """For Daemon.wait_incident(): whether an incident is this process's."""
    return lambda incident: incident.get("pid") == worker.pid


def steps(incident):
    """
    What was done about it, but for calls to other workers to look at the queue: that may happen at
    any time on a busy host.
    """
    return [step["step"] for step in incident["steps"] if step["step"] != "call"]


def step_ms(incident, name):
    """When a step was taken, since the incident's begin."""
    return next(step["at_ms"] for step in incident["steps"] if step["step"] == name)


def blaming(laned):
    """
    Incidents that say that a worker is at fault. On a loaded host one may well be starved, or all
    may stand still with the host: that is said, too, but nobody is blamed.
    """
    innocent = "starved", "suspended", "unknown"
    return [incident for incident in laned.incidents() if incident["state"] not in innocent]


def client_of(laned, name):
    """A connection that worker `name` serves; answers must be tagged."""
    others = []
    try:
        for _ in range(1000):
            client = connect(laned.port)
            if "echo/" + who(client) == name:
                return client
            others.append(client)
    finally:
        close_all(others)
    raise AssertionError(f"{name} serves nobody")


def degrade(laned, name):
    """Kills whatever is in a place until it is degraded."""
    deadline_s = time.monotonic() + PATIENCE_S

    def is_degraded():
        return laned.log_lines(f"{name}: degraded")

    while not is_degraded():
        assert time.monotonic() < deadline_s, f"{name} is started again and again"
        worker = laned.workers().get(name)
        if worker:
            os.kill(worker.pid, signal.SIGKILL)
            eventually(lambda: Stat(worker.pid).state in ("Z", "X", None), f"{worker} is dead")
        time.sleep(0.002)


def lock_waiters():
    """Processes that wait for a lock of a file."""
    with open("/proc/locks") as file:
        waiting = [line.split() for line in file if "->" in line]
    return {int(fields[fields.index("->") + 4]) for fields in waiting}


def lock_worker(laned, client):
    """Blocks the worker that has a connection, or will have it, and returns it: see Gate.lock()."""
    before = lock_waiters()
    client.sendall(b"LOCK")
    eventually(lambda: lock_waiters() - before, "a worker waits for the lock")
    (pid,) = lock_waiters() - before
    return next(worker for worker in laned.workers().values() if worker.pid == pid)


@contextlib.contextmanager
def hogs(count, cpu):
    """
    So many processes that want nothing but that CPU. Each has a session of its own, for which the
    kernel may count as much as for all of laned (sched(7), "autogroup").
    """
    loop = ["sh", "-c", "while :; do :; done"]

    def pin():
        os.sched_setaffinity(0, {cpu})

    running = [
        subprocess.Popen(loop, preexec_fn=pin, start_new_session=True) for _ in range(count)
    ]
    try:
        yield
    finally:
        for process in running:
            process.kill()
        for process in running:
            process.wait()


class Pesterers:
    """Clients that come again and again, whatever becomes of them, and wait for nobody for long."""

    def __init__(self, port, threads=2):
        self.port = port
        self.enough = threading.Event()
        self.threads = [threading.Thread(target=self._run, daemon=True) for _ in range(threads)]

    def _run(self):
        while not self.enough.is_set():
            with contextlib.suppress(OSError, EOFError):
                with connect(self.port, patience_s=0.2) as client:
                    echo(client, b"anybody there?")
            self.enough.wait(0.001)  # refused at once, it would keep a CPU busy

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.enough.set()
        for thread in self.threads:
            thread.join(PATIENCE_S)
