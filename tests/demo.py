"""Starts laned on a free port of this machine, shows echoes and how long they take, and stops it.
Part of ./quickstart. Usage: demo.py PROGRAM
"""

import os
import select
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ADDRESS_IN_USE = 69  # exit status
PATIENCE_S = 10

CONFIGURATION = """\
groups = (
  { name = "echo"; listen = [ "127.0.0.1:%d" ]; }
);
"""


def say(what, text):
    print(f"  {what:10} {text}", flush=True)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def start(program, port):
    """Returns the process when it is ready, or None if the port was taken meanwhile."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(
        socket.AF_UNIX, socket.SOCK_DGRAM
    ) as notify:
        notify.bind(f"{folder}/notify")
        daemon = subprocess.Popen(
            [program, "-c", "-"],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "NOTIFY_SOCKET": f"{folder}/notify"},
        )
        daemon.stdin.write((CONFIGURATION % port).encode())
        daemon.stdin.close()
        daemon.stdin = None

        # Whichever comes first: it is ready, or it has ended.
        ended = os.pidfd_open(daemon.pid)
        deadline = time.monotonic() + PATIENCE_S
        while daemon.poll() is None:
            readable, _, _ = select.select([notify, ended], [], [], deadline - time.monotonic())
            if notify in readable and b"READY=1" in notify.recv(4096).splitlines():
                os.close(ended)
                return daemon
            if not readable:
                daemon.kill()
                daemon.wait()
        os.close(ended)
        log = daemon.stderr.read().decode(errors="replace")
        if daemon.wait() == ADDRESS_IN_USE:
            return None
        sys.exit(f"laned did not start (exit status {daemon.returncode}):\n{log}")


def echo(client, message):
    """Returns how long it took, in microseconds."""
    begin = time.perf_counter()
    client.sendall(message)
    received = b""
    while len(received) < len(message):
        part = client.recv(65536)
        if not part:
            sys.exit("the connection ended before all had come back")
        received += part
    end = time.perf_counter()
    if received != message:
        sys.exit("what came back is not what was sent")
    return (end - begin) * 1e6


def show(port):
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for text in "hello", "which lane is shortest?", "bytes in, bytes out":
            say("echo", f"{text:24} {echo(client, text.encode()):6.0f} µs")
        times = [echo(client, os.urandom(64)) for _ in range(1000)]
    say(
        "echoes",
        f"1000 × 64 B: min {min(times):.0f}, median {statistics.median(times):.0f}, max {max(times):.0f} µs;"
        " all bytes right",
    )


def main():
    program = sys.argv[1]
    for _ in range(10):
        port = free_port()
        begin = time.monotonic()
        daemon = start(program, port)
        if daemon:
            break
    else:
        sys.exit("ten free ports in a row were taken by others before laned could listen")

    try:
        ready_ms = (time.monotonic() - begin) * 1e3
        say("started", f"pid {daemon.pid}, on 127.0.0.1:{port}, ready after {ready_ms:.0f} ms")
        show(port)
    finally:
        begin = time.monotonic()
        daemon.send_signal(signal.SIGTERM)
        try:
            _, log = daemon.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            daemon.kill()
            raise
    stop_ms = (time.monotonic() - begin) * 1e3
    say("stopped", f"by SIGTERM, exit status {daemon.returncode}, after {stop_ms:.0f} ms")
    if daemon.returncode != 0:
        sys.exit(log.decode(errors="replace"))


main()
