"""
Faults that others have met in daemons of this kind, each provoked on purpose: nobody who comes, and
nobody who is there, is to notice.
"""

import itertools
import collections
import os
import random
import re
import resource
import signal
import statistics
import threading
import time

from client import Callers, close_all, connect, connect_all, echo, receive, who
from laned import FULL, PATIENCE_S, SANITIZED, Stat, descriptors, eventually
from trouble import QUICK, TAG, blaming, hogs, lock_worker, of, pids, steps

SLEEP = {"kind": "sleep", "duration": "60s"}


def visit(port):
    """How many seconds a client takes that connects, has an echo and leaves."""
    begin_s = time.monotonic()
    with connect(port) as client:
        echo(client, b"hello")
    return time.monotonic() - begin_s


def visits(port, count, at_a_time=4):
    """The same of many clients, so many at a time."""
    taken, left = [], list(range(count))

    def run():
        while left:
            left.pop()
            taken.append(visit(port))

    threads = [threading.Thread(target=run, daemon=True) for _ in range(at_a_time)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(taken) == count
    return taken


def p95(times):
    return statistics.quantiles(times, n=20)[-1]


def test_nobody_waits_behind_a_busy_worker(start, gate):
    """While one of two workers hangs with a client, all others are served by the free one."""
    laned = start(workers=2, supervision={**QUICK, "abort_after": "30s"}, process=gate.process)
    usual_s = p95(visits(laned.port, 80))
    gate.lock()
    with connect(laned.port) as client:
        lock_worker(laned, client)
        # As quick as 50 ms, or as it was before, if other programs have the CPUs.
        assert p95(visits(laned.port, 80)) < max(0.05, 4 * usual_s)


def test_beating_is_not_accepting(start):
    """
    A worker that serves those whom it has, but cannot accept anybody, is not mistaken for one that
    is well: another one is started for those who wait.
    """
    laned = start(workers=1, echo=TAG)
    worker = laned.workers()["echo/0.0"]
    beating = threading.Event()
    with connect(laned.port) as held:
        assert who(held) == "0.0"
        _, hard = resource.prlimit(worker.pid, resource.RLIMIT_NOFILE)
        open_ones = descriptors(worker.pid)
        full = next(number for number in itertools.count() if number not in open_ones)
        resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (full, hard))

        def beat():
            while not beating.wait(0.002):
                assert who(held) == "0.0"

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        for _ in range(20):
            begin_s = time.monotonic()
            with connect(laned.port) as client:
                assert who(client) == "0.1"
            # 20 ms, and the start of a process on a host that may be busy.
            assert time.monotonic() - begin_s < (10 if SANITIZED else 2)
        assert thread.is_alive()
        beating.set()
        thread.join(PATIENCE_S)
        assert who(held) == "0.0"
    laned.wait_log(r"echo/0: nobody takes clients, 1 waiting for .*; 1 extra worker")


def test_full_queue_brings_help(start):
    """Clients in the queue of a worker that hangs are served, and the log says how and why."""
    laned = start(workers=1, allow_faults=True, faults=[{**SLEEP, "roles": ["primary"]}])
    worker = laned.workers()["echo/0.0"]
    with connect(laned.port) as sticky:
        sticky.sendall(b"x")
        clients = connect_all(laned.port, 10)
        for client in clients:
            echo(client, b"served")
        close_all(clients)
    laned.wait_log(rf"echo/0\.0 \(pid {worker.pid}\): no progress for .*waiting; 1 extra worker")


def test_full_queue_ends_who_hangs(start, gate):
    """Where nobody may help, who hangs is ended, the log says why, and its successor serves."""
    laned = start(workers=1, supervision={**QUICK, "extra_max": 0}, process=gate.process)
    gate.lock()
    with connect(laned.port) as sticky:
        worker = lock_worker(laned, sticky)
        clients = connect_all(laned.port, 10)
        for client in clients:
            client.sendall(b"x")
        laned.wait_log(
            rf"echo/0\.0 \(pid {worker.pid}\): blocked for 1\.\d s in \w+, 10 waiting; SIGABRT"
        )
        for client in clients:
            assert receive(client, 1) == b"x"
        close_all(clients)
    assert laned.wait_incident(of(worker))["clients_waited"] == 10


def test_idle_is_not_stuck(start, topology):
    """Connections on which nothing is said for many times abort_after are no reason to act."""
    limits = {"steer_after": "100ms", "abort_after": "200ms", "check_interval": "20ms"}
    laned = start(topology=topology, workers=2, supervision=limits)
    before = pids(laned)
    clients = connect_all(laned.port, 20)
    for client in clients:
        echo(client, b"before")
    time.sleep(10 * 0.2)
    for client in clients:
        echo(client, b"after")
    assert pids(laned) == before
    assert not blaming(laned)
    assert all(steps(incident) == [] for incident in laned.incidents())
    close_all(clients)


def test_starved_host(start, topology):
    """
    On a host that is so busy that everything takes many times longer than usual, nobody is ended
    for it; not even one that is still starting.
    """
    cpu = max(os.sched_getaffinity(0))
    limits = {**QUICK, "steer_after": "100ms", "abort_after": "300ms", "kill_after": "100ms"}
    with hogs(30, cpu):
        laned = start(
            topology=topology,
            workers=2,
            supervision=limits,
            process={"preexec": lambda: os.sched_setaffinity(0, {cpu})},
        )
        with Callers(laned.port, threads=3) as callers:
            callers.wait_served(20)
            victim = laned.workers()["echo/0.0"]
            os.kill(victim.pid, signal.SIGKILL)
            successor = laned.wait_replaced(victim)
            callers.wait_served(20)
    assert not callers.refused
    assert len(callers.broken) <= 3  # those whom the killed one had in hand
    assert laned.workers()["echo/0.0"].pid == successor.pid
    assert not laned.log_lines("SIGABRT|SIGKILL")
    killed = laned.log_lines("killed by signal")
    assert len(killed) == 1 and f"(pid {victim.pid})" in killed[0]


def test_killed_while_evidence_is_gathered(start):
    """Workers may die at any moment while the master looks into what ails them."""
    rounds = 50 if FULL else 8
    laned = start(
        workers=4,
        supervision={
            "extra_after": "10ms",
            "steer_after": "10ms",
            "abort_after": "0",
            "check_interval": "10ms",
            "extra_max": 0,
            "restart_limit": 10000,
        },
        allow_faults=True,
        faults=[{"kind": "stop"}],
    )
    killed = []
    for _ in range(rounds):
        workers = laned.wait_workers(lambda now: len(now) == 4, "all are there").values()
        clients = []
        for _ in workers:  # one after another: who is stopped takes no other
            stopped = sum(Stat(worker.pid).state == "T" for worker in workers)
            clients.append(connect(laned.port))
            clients[-1].sendall(b"x")
            eventually(
                lambda: sum(Stat(worker.pid).state == "T" for worker in workers) > stopped,
                "one more is stopped",
            )
        for worker in workers:
            time.sleep(random.uniform(0, 0.03))  # anywhere between two looks, and within one
            os.kill(worker.pid, signal.SIGKILL)
            killed.append(worker.pid)
        for worker in workers:
            laned.wait_replaced(worker)
        close_all(clients)
    assert laned.returncode is None
    laned.wait_until(lambda: len(laned.incidents()) >= len(killed) / 2, "what was found out")
    for incident in laned.incidents():
        if "pid" not in incident:
            continue  # the master was not run for a while, on a host that is busy
        assert incident["pid"] in killed
        assert incident["end"] == "replaced"
        assert steps(incident) == ["ended"]


# How many times the mean the busiest worker, or lane, may have. Which lane a client comes to is the
# kernel's hash, that is chance: its bound is five standard deviations away.
SHARES = {"shared-listener": 1.5, "reuseport": 1.7, "reuseport+standby": 1.7}


def test_long_lived_connections_are_spread(start, topology):
    """Clients who come one by one and stay do not pile up on a few workers."""
    count, places = 400, 8
    laned = start(topology=topology, workers=places, echo=TAG)
    clients = []
    for _ in range(count):
        clients.append(connect(laned.port))
        clients[-1].sendall(b"who")
        time.sleep(0.005 if FULL else 0.001)
    shared = topology == "shared-listener"
    names = [client.recv(100).decode().split("/")[1].strip() for client in clients]
    counts = collections.Counter(name if shared else name.split(".")[0] for name in names)
    assert len(counts) == places
    assert max(counts.values()) / (count / places) < SHARES[topology], counts
    close_all(clients)


def test_a_crash_is_its_own(start):
    """While a worker crashes, not one of a hundred busy sessions on others breaks or stops."""
    laned = start(workers=4, echo=TAG)
    victim = laned.workers()["echo/0.1"]
    clients = [connect(laned.port) for _ in range(160)]
    home = {client: who(client) for client in clients}
    others = [client for client in clients if home[client] != "0.1"][:100]
    assert len(others) == 100
    wrong, rounds, enough = [], collections.Counter(), threading.Event()

    def talk(number):
        while not enough.is_set():
            for client in others[number::4]:
                try:
                    if who(client) != home[client]:
                        wrong.append("another worker")
                except (OSError, EOFError) as error:
                    wrong.append(error)
                    return
            rounds[number] += 1

    threads = [threading.Thread(target=talk, args=[number], daemon=True) for number in range(4)]
    for thread in threads:
        thread.start()

    def wait_rounds(more):
        goal = {number: rounds[number] + more for number in range(4)}
        eventually(
            lambda: wrong or all(rounds[number] >= goal[number] for number in goal), "rounds"
        )

    wait_rounds(3)
    # As a crash would; but what a sanitizer says of one is no news.
    os.kill(victim.pid, signal.SIGKILL if SANITIZED else signal.SIGSEGV)
    laned.wait_replaced(victim)
    wait_rounds(3)
    enough.set()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not wrong
    close_all(clients)


def test_replacing_under_load(start, topology):
    """
    While workers are killed and replaced one after another under load, nobody is refused, and the
    only clients who lose their connections are those whom a killed worker had accepted.
    """
    kills = 8  # the log has a line for each of so few
    laned = start(topology=topology, workers=2, supervision={"restart_limit": 10000})
    planned = set(laned.workers())
    with Callers(laned.port, threads=4) as callers:
        callers.wait_served(50)
        for i in range(kills):
            workers = laned.wait_workers(lambda now: planned <= set(now), "all are there")
            victim = workers[sorted(planned)[i % len(planned)]]
            os.kill(victim.pid, signal.SIGKILL)
            laned.wait_replaced(victim)
            callers.wait_served(50)
    ended = laned.log_lines(r"killed by signal 9")
    assert len(ended) == kills
    in_hand = sum(int(re.search(r", (\d+) connections ended", line)[1]) for line in ended)
    assert not callers.refused
    assert len(callers.broken) <= in_hand
