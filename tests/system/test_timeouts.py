"""What is ended because time has passed, and what is not."""

import contextlib
import errno
import select
import socket
import time

import pytest

from client import (
    close_all,
    connect,
    connect_all,
    echo,
    ends,
    fill,
    fill_all,
    noise,
    receive_all,
    who,
)
from laned import PATIENCE_S

MIB = 1 << 20


def test_idle_timeout(start, topology):
    """A connection on which no byte moves is ended by FIN, one that talks is not."""
    limit_s = 2
    laned = start(topology=topology, workers=2, idle_timeout=f"{limit_s}s")
    with connect(laned.port) as idle, connect(laned.port) as talker:
        echo(idle, b"once")
        begin = time.monotonic()
        ended_after_s = None
        while time.monotonic() - begin < limit_s + 1.5 or not ended_after_s:
            echo(talker, b"and on")
            readable, _, _ = select.select([] if ended_after_s else [idle], [], [], 0.1)
            if readable:
                assert idle.recv(1) == b""
                ended_after_s = time.monotonic() - begin
            assert time.monotonic() - begin < PATIENCE_S
        assert ended_after_s > limit_s - 0.1
        assert ends(idle) == "FIN"


def test_idle_before_the_first_byte(start):
    """A client that has never sent anything is ended, too."""
    laned = start(idle_timeout="1s")
    with connect(laned.port) as client:
        assert ends(client) == "FIN"


def test_idle_timeout_waits_for_the_reader(start):
    """A client that is slow to take what waits for it is not idle."""
    laned = start(idle_timeout="1s")
    with connect(laned.port, receive_buffer=4096) as client:
        data = noise(64 * MIB)
        size = fill(client, data)
        time.sleep(2.5)
        client.settimeout(PATIENCE_S)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MIB)
        client.shutdown(socket.SHUT_WR)
        assert receive_all(client) == data[:size]


def test_no_idle_timeout(start):
    """Without idle_timeout a quiet connection stays."""
    laned = start(echo={"tag": True}, idle_timeout="0")
    with connect(laned.port) as client:
        name = who(client)
        client.settimeout(2.5)
        with pytest.raises(TimeoutError):
            client.recv(1)
        client.settimeout(PATIENCE_S)
        assert who(client) == name


def test_send_timeout(start):
    """A peer that takes nothing while bytes wait for it loses its connection."""
    laned = start(send_timeout="1s")
    with connect(laned.port) as other, connect(laned.port, receive_buffer=4096) as client:
        data = noise(64 * MIB)
        assert fill(client, data) < len(data)
        poll = select.poll()
        poll.register(client, 0)  # POLLERR and POLLHUP come unasked
        assert poll.poll(15_000)
        error = client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        assert error in (errno.ECONNRESET, errno.EPIPE)
        echo(other, b"others are as before")


def test_slow_readers_are_not_timed_out(start):
    """Peers that read slowly but steadily, for longer than send_timeout, have everything."""
    laned = start(send_timeout="1s")
    clients = connect_all(laned.port, 6, receive_buffer=32768)
    data = noise(64 * MIB)
    sizes = fill_all(clients, data)
    received = [bytearray() for _ in clients]
    begin = time.monotonic()
    while time.monotonic() - begin < 4:
        for client, part in zip(clients, received):
            with contextlib.suppress(BlockingIOError):
                part += client.recv(16384)
        time.sleep(0.02)  # the slowness
    for client, part, size in zip(clients, received, sizes):
        client.settimeout(PATIENCE_S)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MIB)
        client.shutdown(socket.SHUT_WR)
        part += receive_all(client)
        assert part == data[:size]
    close_all(clients)
