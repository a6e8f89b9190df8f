"""The log."""

import os
import re
import signal

import pytest

from client import Callers, connect, echo
from laned import eventually

JOURNAL = "/run/systemd/journal/stdout"


def test_life_of_a_daemon(start):
    """The log says what is served, when it is ready, who died, when it stops and has stopped."""
    laned = start(topology="reuseport+standby", workers=2)
    victim = laned.workers()["echo/1.0"]
    os.kill(victim.pid, signal.SIGKILL)
    laned.wait_replaced(victim)
    assert laned.stop() == 0
    laned.wait_log("stopped")
    expected = [
        rf"laned: echo: 127\.0\.0\.1:{laned.port}: reuseport\+standby, lanes: 2,"
        r" workers in each: 1 \+ 1 standby",
        r"laned: ready",
        rf"laned: warning: echo/1\.0 \(pid {victim.pid}\): killed by signal 9 \(Killed\),"
        r" 0 connections ended with it; its place is filled again",
        r"laned: stopping: .*",
        r"laned: stopped",
    ]
    assert len(laned.lines) == len(expected), laned.log()
    for line, pattern in zip(laned.lines, expected):
        assert re.fullmatch(pattern, line)


def test_no_line_for_a_connection(start):
    """Connections, and how they end, are no news."""
    laned = start(workers=1)
    with Callers(laned.port) as callers:
        callers.wait_served(100)
    assert not [line for line in laned.lines if "ready" not in line and "lanes: 1" not in line]


def test_level(start):
    """log.level leaves out what is less urgent."""
    laned = start(log={"level": "error"}, workers=1)
    victim = laned.workers()["echo/0.0"]
    os.kill(victim.pid, signal.SIGKILL)
    laned.wait_replaced(victim)
    assert laned.stop() == 0
    laned.threads[-1].join()  # the whole log
    assert laned.lines == []


@pytest.mark.skipif(os.path.exists(JOURNAL), reason="there is a journal here")
def test_no_journal(start):
    """Without the journal that is wanted, stderr has the log, and an error that says so."""
    laned = start(log={"target": "journal"})
    laned.wait_log("^laned: ready$")
    error = r"laned: error: log: no journal here: .*; writing to stderr"
    assert re.fullmatch(error, laned.lines[0])
    with connect(laned.port) as client:
        echo(client, b"served all the same")


def test_stream_of_the_journal(start):
    """If stderr is the stream that leads to the journal, lines begin with their priority."""
    reader, writer = os.pipe()
    stat = os.fstat(writer)
    environment = {"JOURNAL_STREAM": f"{stat.st_dev}:{stat.st_ino}"}
    laned = start(workers=1, process={"stderr": writer, "environment": environment})
    os.close(writer)
    laned.signal(signal.SIGHUP)
    with open(reader) as log:
        lines = [log.readline() for _ in range(3)]
        assert re.fullmatch(r"<6>echo: .*\n", lines[0])
        assert lines[1] == "<6>ready\n"
        assert lines[2].startswith("<5>reload done")


def test_log_that_nobody_reads(start):
    """A log that takes nothing more does not hold up anything, and later says how much was lost."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(writer, b"#" * 4096)
    os.set_blocking(writer, True)
    laned = start(
        workers=2,
        process={"stderr": writer},
        supervision={"extra_max": 0, "restart_limit": 10000},
    )
    with Callers(laned.port) as callers:
        for _ in range(10):
            for worker in laned.workers().values():
                os.kill(worker.pid, signal.SIGKILL)
                laned.signal(signal.SIGHUP)
                laned.wait_replaced(worker)
            callers.wait_served(10)
    assert not callers.refused

    os.set_blocking(reader, False)
    with open(reader, "rb", buffering=0) as log:
        while log.read(65536):
            continue
        laned.signal(signal.SIGHUP)
        line = eventually(lambda: log.read(4096), "a line")
        lost = re.search(rb"reload done.* \((\d+) lines before this one are lost\)\n", line)
        assert int(lost[1]) >= 20
        laned.signal(signal.SIGHUP)
        line = eventually(lambda: log.read(4096), "another line")
        assert b"lost" not in line
    os.close(writer)
