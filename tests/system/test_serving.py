"""Whoever connects has every byte back, in each topology, whatever the others do."""

import hashlib
import os
import select
import shutil
import socket
import statistics
import subprocess
import threading
import time

import pytest

from client import close_all, connect, connect_all, echo, fill_all, noise, receive, receive_all
from laned import FULL, PATIENCE_S, SANITIZED, Stat, eventually, raise_nofile, status_field

MIB = 1 << 20
BULK_BYTES = 1024 * MIB if FULL else 128 * MIB
IN_A_ROW = 10000
IDLE = 10000


def test_bulk(start, topology):
    """Random bytes sent through socat come back with the same checksum."""
    if not shutil.which("socat"):
        pytest.skip("there is no socat here")
    laned = start(topology=topology, workers=2)
    socat = subprocess.Popen(
        ["socat", "-b", "65536", "-t", str(PATIENCE_S), "-", f"TCP:127.0.0.1:{laned.port}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    sent, received, size = hashlib.sha256(), hashlib.sha256(), 0

    def send():
        for _ in range(BULK_BYTES // MIB):
            part = os.urandom(MIB)
            sent.update(part)
            socat.stdin.write(part)
        socat.stdin.close()

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    while part := socat.stdout.read1(MIB):
        received.update(part)
        size += len(part)
    thread.join()
    socat.stdout.close()
    assert socat.wait() == 0
    assert size == BULK_BYTES
    assert received.digest() == sent.digest()


def test_many_at_once(start, topology):
    """500 clients at once, each with a message on its way, have their own bytes back."""
    laned = start(topology=topology, workers=2)
    clients = connect_all(laned.port, 500)
    for round_number in range(4):
        messages = [noise(1 + (i * 37) % 16384, f"{round_number}/{i}") for i in range(len(clients))]
        for client, message in zip(clients, messages):
            client.sendall(message)
        for client, message in zip(clients, messages):
            assert receive(client, len(message)) == message
    close_all(clients)


def test_many_in_a_row(start, topology):
    """10,000 connections one after another, every byte verified."""
    laned = start(topology=topology, workers=2)
    for i in range(IN_A_ROW):
        with connect(laned.port) as client:
            echo(client, b"client %d" % i)


def test_half_closed_slow_reader(start, topology):
    """A client that sends 10 MB, half-closes and reads slowly has all of it back, then the end."""
    laned = start(topology=topology, workers=2)
    data = noise(10_000_000)
    received, sent = bytearray(), 0
    with connect(laned.port) as client:
        client.setblocking(False)
        while True:
            _, writable, _ = select.select([], [client], [], 0)
            if writable and sent < len(data):
                sent += client.send(data[sent : sent + MIB])
                if sent == len(data):
                    client.shutdown(socket.SHUT_WR)
            readable, _, _ = select.select([client], [], [], 0 if sent < len(data) else PATIENCE_S)
            if not readable:
                continue
            part = client.recv(65536)
            if not part:
                break
            received += part
            time.sleep(0.001)  # the slowness
    assert sent == len(data)
    assert received == data


def shared_bytes(worker):
    return int(status_field(worker.pid, "RssShmem").split()[0]) * 1024


def private_bytes(worker):
    return int(status_field(worker.pid, "RssAnon").split()[0]) * 1024


def test_clients_that_never_read(start, topology):
    """Clients that never read fill the pool and no more, use no CPU, and slow down nobody."""
    pool_bytes, max_connections = MIB, 400
    laned = start(
        topology=topology, workers=2, buffer_memory="1MiB", max_connections=max_connections
    )
    workers = laned.workers().values()
    private_before = sum(map(private_bytes, workers))

    # Twice as many as there are blocks: half of them must be served without one.
    silent = connect_all(
        laned.port, 2 * pool_bytes // 65536, receive_buffer=4096, send_buffer=65536
    )
    data = noise(64 * MIB)
    sent = fill_all(silent, data)
    assert max(sent) < len(data)

    cpu_before = sum(Stat(worker.pid).cpu_s for worker in workers)
    time.sleep(1)
    assert sum(Stat(worker.pid).cpu_s for worker in workers) - cpu_before < 0.1

    latencies = []
    others = connect_all(laned.port, 20)
    for size in (1, 64, 1000, 65536, 65537, 150_000):
        for other in others:
            begin = time.perf_counter()
            echo(other, noise(size))
            latencies.append(time.perf_counter() - begin)
    assert statistics.median(latencies) < 0.05

    records = len(workers) * (max_connections + 200) * 64
    for worker in workers:
        assert shared_bytes(worker) <= pool_bytes + records + 128 * 1024
    if not SANITIZED:
        assert sum(map(private_bytes, workers)) <= private_before + len(workers) * 256 * 1024

    # Nothing was lost meanwhile, and nothing is out of order.
    for client, size in zip(silent, sent):
        client.settimeout(PATIENCE_S)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MIB)  # or it would take long
        client.shutdown(socket.SHUT_WR)
        assert receive_all(client) == data[:size]
    close_all(silent + others)


def test_idle_connections(start, topology):
    """10,000 idle connections, or as many as can be had here, are held, and each is served."""
    count = min(IDLE, raise_nofile() - 200)
    laned = start(topology=topology, workers=2, max_connections=4 * count)
    clients = connect_all(laned.port, count)
    workers = laned.workers().values()
    eventually(
        lambda: sum(len(os.listdir(f"/proc/{worker.pid}/fd")) for worker in workers) > count,
        f"{count} connections are held",
    )
    for client in clients:
        echo(client, b"still there?")
    close_all(clients)
