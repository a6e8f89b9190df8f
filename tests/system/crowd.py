"""
A crowd of clients of every kind, as a process of its own, which sees what a real client would see.

Ping-pong: message after message, each when the one before it has come back; then half-closes and
waits for the end. Bulk: megabytes there and back at once. Short: connects, one message, closes, and
again. Idle: one message, nothing for seconds, one message. Each byte that comes back is compared. A
connection ends only when its client has ended it: all else is a fault, and is told.
"""

import json
import random
import selectors
import signal
import socket
import subprocess
import sys
import time

from laned import PATIENCE_S

PERIOD = 1 << 19
PATTERN = random.Random(7).randbytes(PERIOD) * 2
LIMIT_S = 20  # nothing at all came back for that long


class Connection:
    """One connection: what it will send, and what it has had back."""

    def __init__(self, crowd, kind):
        self.crowd, self.kind = crowd, kind
        self.begin_s = self.moved_s = time.monotonic()
        self.at = random.randrange(PERIOD)  # of the pattern
        self.sent = self.received = 0
        self.goal = self.next_goal()
        self.shut = False
        self.wait_until_s = 0
        self.messages = 0
        self.rounds = {"ping-pong": random.randrange(50, 3000), "idle": 2}.get(kind, 1)
        self.sock = socket.socket()
        self.sock.setblocking(False)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.connect_ex(crowd.address)
        crowd.selector.register(self.sock, selectors.EVENT_WRITE, self)
        self.connected = False

    def next_goal(self):
        size = {"bulk": PERIOD, "ping-pong": 200, "short": 40, "idle": 8}[self.kind]
        return self.sent + random.randrange(1, size)

    def expected(self, start, length):
        start = (self.at + start) % PERIOD
        return PATTERN[start : start + length]

    def watch(self, events):
        self.crowd.selector.modify(self.sock, events, self)

    def event(self, mask):
        self.moved_s = time.monotonic()
        if not self.connected:
            error = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error:
                raise ConnectionError(f"connect: {error}")
            self.connected = True
            self.crowd.connect_s = max(self.crowd.connect_s, self.moved_s - self.begin_s)
        if mask & selectors.EVENT_READ:
            self.read()
        if not self.sock._closed:
            self.write()

    def write(self):
        if self.sent < self.goal and time.monotonic() >= self.wait_until_s:
            try:
                left = min(self.goal - self.sent, 1 << 16)
                self.sent += self.sock.send(self.expected(self.sent, left))
            except BlockingIOError:
                pass
        more = self.sent < self.goal and not self.wait_until_s
        self.watch(selectors.EVENT_READ | (selectors.EVENT_WRITE if more else 0))

    def read(self):
        data = self.sock.recv(1 << 16)
        if not data:
            if self.shut and self.received == self.sent:
                self.close()
                return
            raise ConnectionError(f"the end after {self.received} of {self.sent} bytes")
        if data != self.expected(self.received, len(data)):
            raise ValueError(f"wrong bytes at {self.received}")
        self.received += len(data)
        if self.received == self.goal:
            self.message_done()

    def message_done(self):
        now_s = time.monotonic()
        self.messages += 1
        self.crowd.messages += 1
        if self.messages == 1:
            self.crowd.first_s = max(self.crowd.first_s, now_s - self.begin_s)
        if self.messages < self.rounds:
            self.goal = self.next_goal()
            if self.kind == "idle":
                self.wait_until_s = now_s + random.uniform(1, self.crowd.idle_s)
        elif self.kind == "short" and random.random() < 0.5:
            self.close()  # without half-closing
        elif not self.shut:
            self.shut = True
            self.sock.shutdown(socket.SHUT_WR)

    def close(self):
        self.crowd.selector.unregister(self.sock)
        self.sock.close()
        self.crowd.over(self)

    def tick(self, now_s):
        if self.wait_until_s:
            if now_s < self.wait_until_s:
                self.moved_s = now_s
                return
            self.wait_until_s = 0
            self.write()
        if now_s - self.moved_s > LIMIT_S:
            raise TimeoutError(f"nothing came back for {LIMIT_S} s ({self.received} bytes so far)")


class Crowd:
    def __init__(self, address, kinds, idle_s):
        self.address, self.idle_s = address, idle_s
        self.selector = selectors.DefaultSelector()
        self.connections = set()
        self.faults = []
        self.ended = dict.fromkeys(kinds, 0)
        self.messages = 0
        self.connect_s = self.first_s = 0
        self.leaving = False
        for kind, count in kinds.items():
            for _ in range(count):
                self.begin(kind)

    def begin(self, kind):
        self.connections.add(Connection(self, kind))

    def over(self, connection):
        self.connections.discard(connection)
        self.ended[connection.kind] += 1
        if not self.leaving:
            self.begin(connection.kind)

    def fault(self, connection, error):
        age_s = time.monotonic() - connection.begin_s
        self.faults.append(
            f"{connection.kind}, {age_s:.3f} s old, {connection.messages} messages, "
            f"local port {connection.sock.getsockname()[1]}: {type(error).__name__} {error}"
        )
        self.selector.unregister(connection.sock)
        connection.sock.close()
        self.over(connection)

    def attempt(self, connection, action, *arguments):
        try:
            action(*arguments)
        except (OSError, ValueError) as error:
            self.fault(connection, error)

    def run(self):
        looked_s = 0
        while self.connections and len(self.faults) < 100:
            for key, mask in self.selector.select(0.1):
                self.attempt(key.data, key.data.event, mask)
            now_s = time.monotonic()
            if now_s - looked_s > 0.1:
                looked_s = now_s
                for connection in list(self.connections):
                    self.attempt(connection, connection.tick, now_s)
            if self.leaving:
                for connection in list(self.connections):
                    connection.rounds = 0  # it ends after the message that is on its way
                    connection.wait_until_s = connection.wait_until_s and 1e-9
        return {
            "faults": self.faults,
            "ended": self.ended,
            "messages": self.messages,
            "connect_s": self.connect_s,
            "first_s": self.first_s,
        }


class CrowdProcess:
    """A crowd that has begun: every client has had something back."""

    def __init__(self, port, kinds, idle_s=3):
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(port), json.dumps(kinds), str(idle_s)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout.readline() == "here\n"

    def __enter__(self):
        return self

    def leave(self):
        """Lets all end what they are at, and returns what they have seen."""
        self.process.send_signal(signal.SIGTERM)
        output, _ = self.process.communicate(timeout=PATIENCE_S + LIMIT_S)
        return json.loads(output)

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def main():
    port, kinds, idle_s = int(sys.argv[1]), json.loads(sys.argv[2]), float(sys.argv[3])
    crowd = Crowd(("127.0.0.1", port), kinds, idle_s)

    def leave(*_):
        crowd.leaving = True

    signal.signal(signal.SIGTERM, leave)
    print("here", flush=True)
    print(json.dumps(crowd.run()), flush=True)


if __name__ == "__main__":
    main()
