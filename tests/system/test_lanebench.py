"""lanebench burst: what it says of servers that are right, slow, wrong, or not there at all."""

import contextlib
import json
import os
import re
import resource
import socket
import struct
import subprocess
import threading
import time

import pytest

from client import receive, receive_all, reset
from laned import PATIENCE_S, PROGRAM, eventually, free_port, run, stop_process

LANEBENCH = os.environ.get("LANEBENCH", os.path.join(os.path.dirname(PROGRAM), "lanebench"))
OK, SOME_FAILED, USAGE, NOHOST, OSERR = 0, 1, 64, 68, 71
TAGS = {"tag": True, "close_after": 1}
SIZE = 16  # of a request, if nothing else is said


def bench(*arguments, **options):
    return run(*arguments, program=LANEBENCH, **options)


def burst(port, *arguments, host="127.0.0.1", **options):
    """The exit status, and what the JSON says."""
    done = bench("burst", "-j", *arguments, f"{host}:{port}", **options)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def error(phase, text, count, name=None):
    return {"phase": phase, "errno": name, "text": text, "count": count}


class Server:
    """Calls a function with each client's socket, in a thread of its own."""

    def __init__(self, handle, backlog=4096, before=lambda listener: None):
        """`before` is called when the port is open and before anybody is accepted."""
        self.handle = handle
        self.before = before
        self.release = threading.Event()  # set at the end: who still waits goes
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(backlog)
        self.port = self.listener.getsockname()[1]
        self.threads = [threading.Thread(target=self._accept)]

    def _accept(self):
        self.before(self.listener)
        with contextlib.suppress(OSError):  # the listener is shut down
            while True:
                client, _ = self.listener.accept()
                self.threads.append(threading.Thread(target=self._serve, args=[client]))
                self.threads[-1].start()

    def _serve(self, client):
        with client, contextlib.suppress(OSError):
            self.handle(client)

    def __enter__(self):
        self.threads[0].start()
        return self

    def __exit__(self, *_):
        self.release.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join(PATIENCE_S)
        self.listener.close()


def echo_all(client):
    client.sendall(receive_all(client))


def queue_length(listener):
    """How many wait to be accepted: tcpi_unacked of a listener (tcp_get_info())."""
    info = listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    return struct.unpack_from("I", info, 24)[0]


# --- A server that is right ----------------------------------------------------------------------


def test_all_are_answered(start, topology):
    """Each client has its request back and is told who served it; the figures are the clients'."""
    laned = start(topology=topology, workers=2, echo=TAGS)
    status, said = burst(laned.port, "-n", 100)
    clients = said["clients"]
    latencies = sorted(client["latency_ns"] for client in clients)
    assert status == OK
    assert (said["schema"], said["verb"], said["model"]) == (1, "burst", "closed")
    assert said["server"] == f"127.0.0.1:{laned.port}"
    assert (said["connections"], said["request_bytes"]) == (100, SIZE)
    assert (said["answered"], said["failed"], said["errors"]) == (100, 0, [])
    assert len(clients) == 100 and all(client["error"] is None for client in clients)
    assert said["latency_ns"] == {
        "min": latencies[0],
        "p50": latencies[49],
        "p90": latencies[89],
        "p99": None,  # one client lies beyond it
        "max": latencies[-1],
    }
    assert said["over_50ms"] == sum(latency > 50e6 for latency in latencies)
    assert said["over_1s"] == sum(latency > 1e9 for latency in latencies)
    assert latencies[0] > 0 and said["total_ns"] >= latencies[-1]
    assert said["total_ns"] >= said["opened_ns"] - latencies[-1]

    names = [client["worker"] for client in clients]
    assert said["served_by"] == {name: names.count(name) for name in set(names)}
    assert set(names) <= set(laned.workers())


@pytest.mark.parametrize("host", ["[::1]", "localhost"])
def test_other_hosts(start, host):
    """An IPv6 address in brackets, a name."""
    laned = start(listen=["127.0.0.1:@0", "[::1]:@0"], echo=TAGS)
    status, said = burst(laned.port, host=host)
    assert (status, said["answered"]) == (OK, 100)
    if host == "[::1]":
        assert said["server"] == f"[::1]:{laned.port}"


@pytest.mark.parametrize("size, bytes_", [("1", 1), ("1460", 1460), ("64KiB", 65536)])
def test_sizes(start, size, bytes_):
    """Any size comes back, without tags."""
    laned = start()
    status, said = burst(laned.port, "-s", size, "-n", 200)
    assert (status, said["answered"], said["request_bytes"]) == (OK, 200, bytes_)
    assert said["served_by"] == {}


def test_requests_are_each_clients_own():
    """Who has another one's answer is told from who has its own."""
    requests = []

    def note(client):
        requests.append(receive_all(client))
        client.sendall(requests[-1])

    with Server(note) as server:
        assert burst(server.port, "-n", 200)[0] == OK
    assert len(set(requests)) == 200
    assert {len(request) for request in requests} == {SIZE}


def test_all_at_once():
    """All have connected and sent before anybody is answered."""
    all_are_here = threading.Barrier(100)

    def meet(client):
        request = receive(client, SIZE)
        all_are_here.wait(PATIENCE_S)
        client.sendall(request)

    with Server(meet) as server:
        status, said = burst(server.port)
    assert (status, said["answered"]) == (OK, 100)


def test_the_wait_in_the_queue_counts():
    """A client's clock runs from its connect(), not from when it is accepted."""

    def let_them_wait(listener):
        eventually(lambda: queue_length(listener) == 20, "all clients are in the queue")
        time.sleep(0.2)

    with Server(echo_all, before=let_them_wait) as server:
        status, said = burst(server.port, "-n", 20)
    assert (status, said["over_50ms"]) == (OK, 20)
    assert said["latency_ns"]["min"] >= 200e6
    assert said["opened_ns"] < said["latency_ns"]["min"]


def test_a_handshake_that_takes_long():
    """Who finds the queue full connects when the SYN is sent again, and is served then."""

    def until_it_is_full(listener):
        eventually(lambda: queue_length(listener) == 1, "the queue is full")
        time.sleep(0.2)  # the other one's first SYN is lost

    # Two, and not more: those whose SYNs are sent again at once would find it full again.
    with Server(echo_all, backlog=0, before=until_it_is_full) as server:
        status, said = burst(server.port, "-n", 2)
    assert (status, said["answered"]) == (OK, 2)
    assert said["latency_ns"]["max"] > 900e6  # TCP_TIMEOUT_INIT, 1 s


@pytest.fixture
def narrow(start, network):
    """laned where the kernel holds little between it and clients; what leads into its network."""
    narrow = "for i in r w; do echo 4096 4096 4096 >/proc/sys/net/ipv4/tcp_${i}mem; done"
    command = [*network.command[:-3], "sh", "-c", narrow + ' && exec "$@"', "sh"]
    laned = start(
        workers=2,
        supervision={"extra_max": 0},  # nobody comes in place of those that the test stops
        process={"command": command + network.command[-3:]},
    )
    return laned, [*network.enter, "-t", str(laned.pid)]


def test_a_request_in_parts(narrow):
    """What does not fit into the buffers goes and comes in parts, both at once."""
    laned, inside = narrow
    status, said = burst(laned.port, "-s", "64KiB", "-n", 50, wrap=inside)
    assert (status, said["answered"]) == (OK, 50)


def test_a_request_that_is_not_taken(narrow):
    """It is told from an answer that does not come."""
    laned, inside = narrow
    for worker in laned.workers().values():
        stop_process(worker.pid)
    arguments = laned.port, "-n", 5, "-t", "300ms"
    status, said = burst(*arguments, "-s", "64KiB", wrap=inside)
    assert status == SOME_FAILED
    assert said["errors"] == [error("timeout", "not all of the request was taken", 5)]
    assert burst(*arguments, wrap=inside)[1]["errors"] == [
        error("timeout", "not all of the request was back", 5)
    ]


# --- A server that is wrong ----------------------------------------------------------------------


def flip_a_byte(client):
    request = receive_all(client)
    client.sendall(request[:-1] + bytes([request[-1] ^ 1]))


def answer_half(client):
    client.sendall(receive_all(client)[: SIZE // 2])


def answer_twice(client):
    client.sendall(receive_all(client) * 2)


def answer_for_ever(client):
    client.sendall(receive_all(client))
    while True:
        client.sendall(b"more" * 1000)


def reset_at_once(client):
    receive(client, SIZE)
    reset(client)


def reset_after_half(client):
    client.sendall(receive_all(client)[: SIZE // 2])
    reset(client)


def with_tag(tag):
    def answer(client):
        client.sendall(receive_all(client) + tag)

    return answer


BACK_TOO_LITTLE = "the stream ended before all was back"
WRONG_BYTE = "a byte is not what was sent"
NO_TAG = "more came back than was sent, and no tag"


@pytest.mark.parametrize(
    "handle, answered, phase, text, name",
    [
        (flip_a_byte, 0, "mismatch", WRONG_BYTE, None),
        (answer_half, 0, "recv", BACK_TOO_LITTLE, None),
        (answer_twice, 5, "mismatch", NO_TAG, None),
        (answer_for_ever, 5, "mismatch", NO_TAG, None),
        (reset_at_once, 0, "recv", "Connection reset by peer", "ECONNRESET"),
        (reset_after_half, 0, "recv", "Connection reset by peer", "ECONNRESET"),
    ],
)
def test_wrong_answers(handle, answered, phase, text, name):
    with Server(handle) as server:
        status, said = burst(server.port, "-n", 5)
    assert status == SOME_FAILED
    assert said["errors"] == [error(phase, text, 5, name)]
    assert (said["answered"], said["failed"]) == (answered, 5)
    wanted = {"phase": phase, "errno": name, "text": text}
    assert [client["error"] for client in said["clients"]] == [wanted] * 5
    assert said["served_by"] == {}


@pytest.mark.parametrize(
    "tag, good",
    [
        (b"", True),
        (b" echo/0.0\n", True),
        (b" a/b/12.345\n", True),
        (b" echo/0.0", False),
        (b"echo/0.0\n", False),
        (b" echo/0\n", False),
        (b" echo/.0\n", False),
        (b" echo/0.\n", False),
        (b" /0.0\n", False),
        (b" echo/0.0\n\n", False),
        (b" ec\0ho/0.0\n", False),
        (b" echo/0.0\n echo/0.0\n", False),
        (b" %s/0.0\n" % (b"x" * 58), True),
        (b" %s/0.0\n" % (b"x" * 59), False),
    ],
)
def test_tags(tag, good):
    """What comes after the request is a whole tag or a mistake."""
    with Server(with_tag(tag)) as server:
        status, said = burst(server.port, "-n", 2)
    assert said["answered"] == 2
    if good:
        assert status == OK
        assert said["served_by"] == ({tag.decode()[1:-1]: 2} if tag else {})
    else:
        assert status == SOME_FAILED
        assert said["errors"] == [error("mismatch", NO_TAG, 2)]


def test_no_answer():
    """A server that never answers is waited for no longer than -t, from each client's connect()."""
    with Server(lambda client: server.release.wait(PATIENCE_S)) as server:
        status, said = burst(server.port, "-n", 5, "-t", "200ms")
    assert status == SOME_FAILED
    assert said["errors"] == [error("timeout", "not all of the request was back", 5)]
    assert said["timeout_ns"] == 200e6 <= said["total_ns"] < PATIENCE_S * 1e9
    assert set(said["latency_ns"].values()) == {None}


def test_some_answers():
    """Those who were answered count, whatever became of the others."""
    lucky = iter([True] * 30 + [False] * 10)

    def handle(client):
        request = receive_all(client)
        if next(lucky):
            client.sendall(request)
        else:
            server.release.wait(PATIENCE_S)

    with Server(handle) as server:
        status, said = burst(server.port, "-n", 40, "-t", "2s")
    assert status == SOME_FAILED
    assert (said["answered"], said["failed"]) == (30, 10)
    assert said["errors"] == [error("timeout", "not all of the request was back", 10)]
    assert said["latency_ns"]["p50"] > 0 and said["latency_ns"]["p90"] is None
    assert sum(client["latency_ns"] is None for client in said["clients"]) == 10


def test_no_end():
    """A server that answers and does not end its stream has answered, and not done well."""

    def handle(client):
        client.sendall(receive_all(client))
        server.release.wait(PATIENCE_S)

    with Server(handle) as server:
        status, said = burst(server.port, "-n", 5, "-t", "300ms")
    assert status == SOME_FAILED
    assert said["errors"] == [error("timeout", "answered, but the stream was not ended", 5)]
    assert said["answered"] == 5
    assert said["total_ns"] < said["timeout_ns"]  # to the last answer


def test_no_room_in_the_queue():
    """Who cannot even connect is told from who connects and is not answered."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        status, said = burst(listener.getsockname()[1], "-n", 5, "-t", "300ms")
    assert status == SOME_FAILED
    assert said["errors"] == [
        error("timeout", "no connection", 3),
        error("timeout", "not all of the request was back", 2),
    ]


# --- No server, no room --------------------------------------------------------------------------


def test_refused():
    """Nobody listens: said by errno, in words, and with a hint."""
    port = free_port()
    status, said = burst(port, "-n", 3)
    assert status == SOME_FAILED
    assert said["errors"] == [error("connect", "Connection refused", 3, "ECONNREFUSED")]
    assert (said["answered"], said["latency_ns"]["max"]) == (0, None)

    text = bench("burst", "-n", 3, f"127.0.0.1:{port}").stdout
    assert "connect  3: ECONNREFUSED, Connection refused\n" in text
    assert "nobody listens on that address" in text


def limit_files(soft, hard):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_limit_of_files_is_raised():
    """The soft limit does not matter."""
    with Server(echo_all) as server:
        status, said = burst(server.port, "-n", 100, preexec_fn=limit_files(20, 200))
    assert (status, said["answered"]) == (OK, 100)


def test_too_few_files():
    """The hard one does: some clients have no socket, the others are served."""
    with Server(echo_all) as server:
        status, said = burst(server.port, "-n", 100, preexec_fn=limit_files(50, 50))
        text = bench("burst", "-q", f"127.0.0.1:{server.port}", preexec_fn=limit_files(50, 50))
    assert status == SOME_FAILED
    assert 40 <= said["answered"] < 50
    missing = 100 - said["answered"]
    assert said["errors"] == [error("connect", "Too many open files", missing, "EMFILE")]
    assert "ulimit -Hn" in text.stdout


def test_too_few_ports(start, network):
    """When the ports for clients are used up, the rest is told so."""
    laned = start(process={"command": network.command})
    inside = [*network.enter, "-t", str(laned.pid)]
    ports = "echo 40000 40019 >/proc/sys/net/ipv4/ip_local_port_range"
    subprocess.run([*inside, "sh", "-c", ports], check=True)
    done = bench("burst", "-q", f"127.0.0.1:{laned.port}", wrap=inside)
    assert done.returncode == SOME_FAILED
    assert "answered   20 of 100\n" in done.stdout
    assert "connect  80: EADDRNOTAVAIL, Cannot assign requested address\n" in done.stdout
    assert "ip_local_port_range" in done.stdout


# --- What is written -----------------------------------------------------------------------------


def test_text(start):
    """A sorted list of all latencies, then the figures; nothing is wider than a terminal."""
    laned = start(topology="reuseport", workers=9, echo=TAGS)
    done = bench("burst", "-n", 105, f"127.0.0.1:{laned.port}")
    assert (done.returncode, done.stderr) == (OK, "")
    head, table, figures, note = done.stdout.split("\n\n")
    assert head.splitlines() == [
        f"lanebench burst: 105 connections to 127.0.0.1:{laned.port}",
        "all at once, one request of 16 bytes each (closed loop)",
    ]
    rows = table.splitlines()[1:]
    latencies = [float(word) for row in rows for word in row.split()]
    assert len(latencies) == 105 and latencies == sorted(latencies)
    assert [len(row.split()) for row in rows] == [10] * 10 + [5]
    assert all(len(line) < 80 for line in done.stdout.splitlines())

    words = {line.split("  ")[0]: line for line in figures.splitlines() if line[0] != " "}
    assert list(words) == ["total", "answered", "latency", "slow", "served by", "errors"]
    assert words["answered"].endswith("105 of 105")
    assert re.search(r"median \d+\.\d{3} m?s, p90 \d+\.\d{3} m?s, p99 -, max", words["latency"])
    assert sum(map(int, re.findall(r"echo/\d\.0 (\d+)", figures))) == 105
    assert words["errors"].endswith("none")
    assert note.startswith("-: ")


def test_quiet(start):
    """-q leaves out what is said of each client, in both forms."""
    laned = start()
    done = bench("burst", "-q", "-n", 1000, f"127.0.0.1:{laned.port}")
    assert done.returncode == OK
    assert len(done.stdout.splitlines()) == 8
    assert "served by" not in done.stdout  # nobody says
    status, said = burst(laned.port, "-q")
    assert status == OK and "clients" not in said


def test_the_first_wrong_byte():
    """A wrong answer is told by client and place."""
    with Server(flip_a_byte) as server:
        done = bench("burst", "-n", 2, f"127.0.0.1:{server.port}")
    assert done.returncode == SOME_FAILED
    assert f"mismatch 2: {WRONG_BYTE}\n" in done.stdout
    assert "first: client 0, after 15 of 16 bytes\n" in done.stdout


@pytest.mark.parametrize("form", [[], ["-j"]])
def test_output_that_cannot_be_written(form):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [LANEBENCH, "burst", "-n", "1", *form, f"127.0.0.1:{free_port()}"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE_S,
        )
    assert done.returncode == OSERR
    assert "standard output" in done.stderr


# --- The command line ----------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["-h"], ["--help"], ["burst", "-h"]], ids=" ".join)
def test_help(arguments):
    done = bench(*arguments)
    assert (done.returncode, done.stderr) == (OK, "")
    for name in ("burst", "--connections N", "--size SIZE", "--timeout TIME", "--json", "--quiet"):
        assert name in done.stdout
    assert "-V, --version" in done.stdout and "-h, --help" in done.stdout


def test_version():
    done = bench("-V")
    assert (done.returncode, done.stderr) == (OK, "")
    assert re.fullmatch(r"lanebench \d\S*\n", done.stdout)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["bust", "127.0.0.1:7007"],
        ["burst"],
        ["burst", "127.0.0.1:7007", "extra"],
        ["-x"],
        ["burst", "-n", "0", "127.0.0.1:7007"],
        ["burst", "-n", "1000001", "127.0.0.1:7007"],
        ["burst", "-n", "1KiB", "127.0.0.1:7007"],
        ["burst", "-n", "-1", "127.0.0.1:7007"],
        ["burst", "-n", "", "127.0.0.1:7007"],
        ["burst", "-s", "0", "127.0.0.1:7007"],
        ["burst", "-s", "65537", "127.0.0.1:7007"],
        ["burst", "-t", "5", "127.0.0.1:7007"],
        ["burst", "-t", "0", "127.0.0.1:7007"],
        ["burst", "-t", "2d", "127.0.0.1:7007"],
        ["burst", "127.0.0.1"],
        ["burst", "127.0.0.1:"],
        ["burst", ":7007"],
        ["burst", "127.0.0.1:0"],
        ["burst", "127.0.0.1:65536"],
        ["burst", "127.0.0.1:99999999999999999999"],
        ["burst", "127.0.0.1:echo"],
        ["burst", "::1:7007"],
        ["burst", "[::1]"],
        ["burst", "[::1:7007"],
        ["burst", "[]:7007"],
    ],
    ids=" ".join,
)
def test_usage_error(arguments):
    """A wrong command line is an error that leads to the help."""
    done = bench(*arguments)
    assert done.returncode == USAGE
    assert done.stdout == ""
    assert done.stderr.endswith("Try 'lanebench --help'.\n")
    assert len(done.stderr.splitlines()) == 2


def test_no_such_host():
    """A host that is none, which no server of names has to be asked for."""
    done = bench("burst", "[::1%none]:7007")
    assert (done.returncode, done.stdout) == (NOHOST, "")
    assert re.fullmatch(r"lanebench: '\[::1%none\]:7007': .+\n", done.stderr)
