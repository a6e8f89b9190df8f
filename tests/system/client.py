"""Clients of laned, as a test has them."""

import random
import re
import socket
import struct
import threading
import time

from laned import PATIENCE_S

TAG = re.compile(rb" echo/(\d+\.\d+)\n")


def connect(
    port, host="127.0.0.1", receive_buffer=None, send_buffer=None, patience_s=PATIENCE_S
):
    """A connection to laned; `port` may be an address, (host, port)."""
    address = port if isinstance(port, tuple) else (host, port)
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Before connecting: the window that is offered at first depends on it.
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        if send_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(patience_s)
        sock.connect(address)
    except BaseException:
        sock.close()
        raise
    return sock


def connect_all(port, count, **options):
    return [connect(port, **options) for _ in range(count)]


def close_all(socks):
    for sock in socks:
        sock.close()


def reset(sock):
    """Ends a connection the hard way, with RST."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def noise(size, seed=None):
    return random.Random(seed).randbytes(size)


def receive(sock, size):
    """Exactly that much, or EOFError."""
    parts, left = [], size
    while left:
        part = sock.recv(min(left, 1 << 20))
        if not part:
            raise EOFError(f"the connection ended {left} bytes too early")
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def receive_all(sock):
    """All until the end of the stream."""
    parts = []
    while part := sock.recv(1 << 20):
        parts.append(part)
    return b"".join(parts)


def echo(sock, data):
    """Sends and has it back. Not for more than the buffers of a connection hold."""
    sock.sendall(data)
    received = receive(sock, len(data))
    assert received == data


def sender(sock, data, shut=True):
    """A thread that sends while the caller receives; started, to be joined."""

    def send():
        sock.sendall(data)
        if shut:
            sock.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    return thread


def round_trip(sock, data):
    """Sends any amount, half-closes, and has it all back and the end of the stream."""
    thread = sender(sock, data)
    received = receive_all(sock)
    thread.join(PATIENCE_S)
    assert received == data


def who(sock, message=b"who"):
    """Which worker serves the connection, as the tag says."""
    sock.sendall(message)
    received = b""
    while not received.endswith(b"\n"):
        part = sock.recv(4096)
        if not part:
            raise EOFError("the connection ended without a tag")
        received += part
    assert received.startswith(message)
    return TAG.fullmatch(received[len(message) :])[1].decode()


def call(port):
    """How long it takes until a client that comes is served, in seconds, and who serves it."""
    begin = time.monotonic()
    with connect(port) as client:
        name = "echo/" + who(client)
        return time.monotonic() - begin, name


def who_serve(laned, count):
    """
    The workers that serve so many clients who come one after another, and stay until all have
    come. Each comes when every worker waits: who is chosen tells the order in which they wait.
    """
    names, clients = [], []
    for _ in range(count):
        laned.wait_asleep()
        clients.append(connect(laned.port))
        names.append("echo/" + who(clients[-1]))
    close_all(clients)
    return names


def fill(sock, data):
    """
    Sends until nothing more is taken, for as long as that may change by itself; returns how much
    was sent. The socket does not block any more afterwards.
    """
    sock.setblocking(False)
    sent, quiet_since = 0, time.monotonic()
    while time.monotonic() - quiet_since < 0.3 and sent < len(data):
        try:
            sent += sock.send(data[sent : sent + 65536])
            quiet_since = time.monotonic()
        except BlockingIOError:
            time.sleep(0.01)
    return sent


def fill_all(socks, data):
    """The same for many connections that are sent the same; returns how much each was sent."""
    sent = [0] * len(socks)
    quiet_since = time.monotonic()
    for sock in socks:
        sock.setblocking(False)
    while time.monotonic() - quiet_since < 0.3:
        for i, sock in enumerate(socks):
            try:
                while sent[i] < len(data):
                    sent[i] += sock.send(data[sent[i] : sent[i] + 65536])
                    quiet_since = time.monotonic()
            except BlockingIOError:
                continue
        time.sleep(0.01)
    return sent


def ends(sock):
    """Waits for the end of a connection: "FIN" or "RST". What comes before is dropped."""
    try:
        receive_all(sock)
        return "FIN"
    except (ConnectionResetError, BrokenPipeError):
        return "RST"


class Callers:
    """Clients that connect, echo and leave, one after another in each of some threads."""

    def __init__(self, port, threads=1, message=b"are you there?"):
        self.port = port
        self.message = message
        self.served = 0
        self.refused = []  # errors of connect
        self.broken = []  # errors after it
        self.lock = threading.Condition()
        self.enough = False
        self.threads = [threading.Thread(target=self._run, daemon=True) for _ in range(threads)]

    def _call(self):
        try:
            sock = connect(self.port)
        except OSError as error:
            return self.refused.append(error)
        try:
            with sock:
                echo(sock, self.message)
        except (OSError, EOFError) as error:
            return self.broken.append(error)
        with self.lock:
            self.served += 1
            self.lock.notify_all()

    def _run(self):
        while not self.enough and not self.refused:
            self._call()

    def wait_served(self, more):
        """Waits until that many more were served."""
        with self.lock:
            goal = self.served + more
            assert self.lock.wait_for(lambda: self.served >= goal or self.refused, PATIENCE_S)

    def wait_refused(self):
        """Waits until every thread has met the closed door."""
        for thread in self.threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.enough = True
        for thread in self.threads:
            thread.join(PATIENCE_S)
