"""Workers that end again and again."""

import os
import random
import signal
import time

from client import Callers, connect, echo, who
from laned import FULL, SANITIZED, Stat, eventually
from test_kill import master_bytes, master_state
from trouble import TAG, Pesterers, degrade

CRASH = {"kind": "crash", "on": "accept"}
EX_UNAVAILABLE = 69
NOBODY_LEFT = "no worker of any group can be made to run; stopping"


def test_degraded(start):
    """
    A place that loses one process after the other is left empty until restart_interval is over, and
    is then tried again; meanwhile the others serve.
    """
    supervision = {"restart_limit": 2, "restart_interval": "4s"}
    laned = start(workers=2, echo=TAG, supervision=supervision)
    begin_s = time.monotonic()
    degrade(laned, "echo/0.1")
    degraded_s = time.monotonic()
    line = laned.wait_log(r"^laned: error: echo/0\.1: degraded: ")
    assert int(line.split()[-2]) <= 4  # "next try in 3 s"
    assert "echo/0.1" not in laned.workers()
    for _ in range(20):
        with connect(laned.port) as client:
            assert who(client) == "0.0"
    worker = laned.wait_workers(lambda now: "echo/0.1" in now, "it is tried again")["echo/0.1"]
    # Either limit: no sooner than the window ends that began with the first restart.
    now_s = time.monotonic()
    assert now_s - begin_s >= 4
    assert now_s - degraded_s >= 1
    assert worker.role == "primary"


def test_nobody_can_be_made_to_run(start):
    """When every place is given up laned ends, so that the service manager hears of it."""
    laned = start(
        workers=2,
        supervision={"restart_limit": 1},
        allow_faults=True,
        faults=[CRASH],
    )
    with Pesterers(laned.port):
        assert laned.wait_end() == EX_UNAVAILABLE
    laned.wait_log(NOBODY_LEFT)


def test_another_group_is_well(start):
    """As long as one group is served laned stays, whatever becomes of the others."""
    laned = start(
        supervision={"restart_limit": 1, "extra_max": 1},
        allow_faults=True,
        groups=[
            {"name": "ill", "listen": "127.0.0.1:@0", "workers": 2, "faults": [CRASH]},
            {"name": "well", "listen": "127.0.0.1:@1", "workers": 1},
        ],
    )
    with Pesterers(laned.port), connect(laned.ports[1]) as client:
        echo(client, b"before")
        laned.wait_log(r"ill/0\.0: degraded")
        laned.wait_log(r"ill/0\.1: degraded")
        for _ in range(20):
            echo(client, b"after")
            with connect(laned.ports[1]) as another:
                echo(another, b"another")
    assert not laned.log_lines(NOBODY_LEFT)
    assert [name for name in laned.workers() if "well" in name] == ["well/0.0"]


def test_crash_loop(start):
    """
    Workers that crash with every client are started a few times and no more; the log stays short,
    and it costs next to no CPU.
    """
    seconds = 60 if FULL else 5
    limit = 4
    laned = start(
        log={"level": "debug"},
        supervision={"restart_limit": limit, "restart_interval": "10min", "extra_max": 1},
        allow_faults=True,
        groups=[
            {"name": "ill", "listen": "127.0.0.1:@0", "workers": 2, "faults": [CRASH]},
            {"name": "well", "listen": "127.0.0.1:@1", "workers": 1},
        ],
    )
    with Pesterers(laned.port):
        laned.wait_log("ill/0.*: degraded")
        before_s = Stat(laned.pid).cpu_s
        time.sleep(seconds)
        used_s = Stat(laned.pid).cpu_s - before_s
    started = laned.log_lines("started, generation")
    assert len(started) <= 3 * (1 + limit) + 1  # two primaries, an extra worker; and the well one
    assert len(laned.lines) - len(started) < 100
    assert used_s / seconds < (0.2 if SANITIZED else 0.05)
    with connect(laned.ports[1]) as client:
        echo(client, b"all is well")


def test_random_kills(start, topology):
    """
    After many kills of random workers, extra ones too, while clients come, there is as much of
    everything as before.
    """
    kills = 200 if FULL else 40
    laned = start(
        topology=topology,
        workers=2,
        log={"level": "error"},
        supervision={"restart_limit": 10000},
    )
    planned = set(laned.workers())

    def kill_some(count):
        with Callers(laned.port, threads=2) as callers:
            for _ in range(count):
                workers = laned.wait_workers(bool, "there is one")
                victim = random.choice(list(workers.values()))
                os.kill(victim.pid, signal.SIGKILL)
                eventually(lambda: Stat(victim.pid).state in ("Z", "X", None), f"{victim} is dead")
            callers.wait_served(20)
        assert not callers.refused
        laned.wait_workers(lambda now: set(now) == planned, "all are back, and nobody else")
        laned.wait_asleep()

    kill_some(10)  # what is made once and kept is there now
    before, bytes_before = master_state(laned), master_bytes(laned)
    kill_some(kills)
    eventually(lambda: master_state(laned) == before, "descriptors and mappings are as before")
    if not SANITIZED:
        assert master_bytes(laned) <= bytes_before + 64 * 1024
    assert len(laned.pids()) == 1 + len(planned)
