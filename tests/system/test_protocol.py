"""What goes back on one connection, and how it ends."""

import os
import re
import signal
import socket
import time

import pytest

from client import (
    TAG,
    close_all,
    connect,
    connect_all,
    echo,
    ends,
    fill,
    noise,
    receive,
    receive_all,
    reset,
    round_trip,
    sender,
    who,
)
from laned import PATIENCE_S, eventually, stop_process

MIB = 1 << 20


def held(laned):
    """Connections that the workers hold, as far as descriptors tell."""
    return sum(len(os.listdir(f"/proc/{worker.pid}/fd")) for worker in laned.workers().values())


def send_with_fin(sock, data):
    """Sends data whose last packet is the end of the stream at the same time."""
    sock.send(data, socket.MSG_MORE)
    sock.shutdown(socket.SHUT_WR)


def test_data_and_fin_in_one_packet(start, topology):
    """300 clients at once that send and half-close in one packet have their data and the end."""
    laned = start(topology=topology, workers=2)
    clients = connect_all(laned.port, 300)
    for i, client in enumerate(clients):
        send_with_fin(client, b"%d" % i)
    for i, client in enumerate(clients):
        assert receive_all(client) == b"%d" % i
    close_all(clients)


def test_data_and_fin_before_accept(start, topology):
    """The same when all of it is there before a worker takes the client from the queue."""
    laned = start(topology=topology, workers=2)
    for worker in laned.workers().values():
        stop_process(worker.pid)
    clients = connect_all(laned.port, 300)
    for i, client in enumerate(clients):
        send_with_fin(client, b"%d" % i)
    for worker in laned.workers().values():
        os.kill(worker.pid, signal.SIGCONT)
    for i, client in enumerate(clients):
        assert receive_all(client) == b"%d" % i
    close_all(clients)


@pytest.mark.parametrize("size", [65535, 65536, 65537, 4 * 65536, MIB + 1, 20 * MIB])
def test_around_the_size_of_a_block(start, size):
    """Streams that fill blocks exactly, and nearly, come back whole, and end."""
    laned = start()
    with connect(laned.port) as client:
        round_trip(client, noise(size))


def test_urgent_data(start):
    """Data that is marked urgent comes back at its place in the stream."""
    laned = start()
    with connect(laned.port) as client:
        for i in range(20):
            client.send(b"abc")
            client.send(b"X", socket.MSG_OOB)
            client.send(b"def")
        client.send(b"Z", socket.MSG_OOB)
        client.shutdown(socket.SHUT_WR)
        assert receive_all(client) == b"abcXdef" * 20 + b"Z"


def test_reset_harms_nobody_else(start):
    """Clients that reset their connections, with and without bytes on the way, harm no other."""
    laned = start(workers=2)
    others = connect_all(laned.port, 10)
    before = held(laned)
    data = noise(4 * MIB)
    for i in range(100):
        victim = connect(laned.port)
        if i % 3 == 1:
            victim.sendall(b"half of an echo")
        elif i % 3 == 2:
            victim.setblocking(False)
            victim.send(data)
        reset(victim)
        echo(others[i % 10], b"%d" % i)
    eventually(lambda: held(laned) == before, "the connections are gone")
    for other in others:
        echo(other, noise(65536))
    close_all(others)


def test_tiny_receive_buffer(start):
    """A client with the smallest receive buffer there is has everything back."""
    laned = start()
    with connect(laned.port, receive_buffer=1) as client:
        round_trip(client, noise(200_000))


def test_tiny_send_buffer(start):
    """A client with the smallest send buffer there is has everything back."""
    laned = start()
    with connect(laned.port, send_buffer=1) as client:
        round_trip(client, noise(MIB))


def test_never_reads_then_closes(start):
    """Clients that send, never read and go leave nothing behind."""
    laned = start(workers=2)
    with connect(laned.port) as other:
        echo(other, b"before")
        before = held(laned)
        clients = connect_all(laned.port, 20)
        data = noise(64 * MIB)
        for client in clients[:3]:
            assert fill(client, data) < len(data)
        for client in clients[3:]:
            client.sendall(data[:100_000])
        close_all(clients)
        eventually(lambda: held(laned) == before, "the connections are gone")
        echo(other, b"after")


def test_empty_connections(start):
    """A client that sends nothing is sent nothing, and its end is answered with the end."""
    laned = start(workers=2)
    with connect(laned.port) as patient:
        echo(patient, b"first")
        before = held(laned)
        for _ in range(50):
            with connect(laned.port) as client:
                client.shutdown(socket.SHUT_WR)
                assert receive_all(client) == b""
            connect(laned.port).close()
        eventually(lambda: held(laned) == before, "the connections are gone")


def test_no_greeting(start):
    """Nothing is sent before the client has sent something."""
    laned = start(echo={"tag": True})
    with connect(laned.port) as client:
        client.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.recv(1)


def test_small_messages(start):
    """Messages of one byte come back one by one, at once."""
    laned = start()
    with connect(laned.port) as client:
        begin = time.monotonic()
        for i in range(2000):
            echo(client, bytes([i % 256]))
        # 40 ms each if an echo waited for the acknowledgement of the one before.
        assert time.monotonic() - begin < 2000 * 0.02


def test_tag(start):
    """The tag is appended to each message, and names the worker."""
    laned = start(workers=3, echo={"tag": True})
    for _ in range(20):
        with connect(laned.port) as client:
            names = {"echo/" + who(client, b"message %d" % i) for i in range(5)}
            assert len(names) == 1
            assert names <= set(laned.workers())


def test_tag_in_one_packet(start):
    """A small message and its tag come in one packet."""
    laned = start(workers=1, echo={"tag": True})
    with connect(laned.port) as client:
        for _ in range(20):
            client.sendall(b"hello")
            assert client.recv(4096) == b"hello echo/0.0\n"


def test_tag_of_large_messages(start):
    """Messages larger than a block, and that the client is slow to take, lose nothing to tags."""
    laned = start(workers=1, echo={"tag": True})
    data = re.sub(rb"[ \n]", b"_", noise(5 * MIB))
    with connect(laned.port, receive_buffer=8192) as client:
        thread = sender(client, data)
        received = receive_all(client)
        thread.join(PATIENCE_S)
    tags = TAG.findall(received)
    assert TAG.sub(b"", received) == data
    assert set(tags) == {b"0.0"}
    assert received.endswith(b" echo/0.0\n")
    assert len(tags) >= len(data) // 65536


def test_close_after_one(start, topology):
    """close_after ends a connection by FIN after its message."""
    laned = start(topology=topology, workers=2, echo={"close_after": 1})
    for i in range(100):
        with connect(laned.port) as client:
            echo(client, b"%d" % i)
            assert ends(client) == "FIN"


def test_close_after_three(start):
    """close_after counts messages."""
    laned = start(echo={"close_after": 3})
    with connect(laned.port) as client:
        for i in range(3):
            echo(client, b"%d" % i)
        assert ends(client) == "FIN"


def test_close_after_with_tag(start):
    """The tag is still appended to the last message."""
    laned = start(workers=1, echo={"close_after": 2, "tag": True})
    with connect(laned.port) as client:
        assert who(client) == who(client) == "0.0"
        assert receive_all(client) == b""


def test_closed_while_the_client_sends(start):
    """A client that has been ended and still sends has its reply and the end, and no reset."""
    laned = start(echo={"close_after": 1})
    for late in (False, True):
        with connect(laned.port) as client:
            client.sendall(b"x" * 100)
            reply = receive(client, 100) if late else b""
            client.sendall(b"y" * MIB)
            client.shutdown(socket.SHUT_WR)
            reply += receive_all(client)
            assert reply.startswith(b"x" * 100)
            assert late or set(reply[100:]) <= {ord("y")}
            assert not late or len(reply) == 100


def test_client_that_does_not_leave(start):
    """A connection that has been ended is closed after a second, though the client stays."""
    laned = start(workers=1, echo={"close_after": 1})
    before = held(laned)
    with connect(laned.port) as client:
        echo(client, b"bye")
        assert ends(client) == "FIN"
        assert held(laned) == before + 1
        eventually(lambda: held(laned) == before, "its descriptor is free")
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            client.sendall(b"x")
            assert not client.recv(1)
            client.sendall(b"x")
