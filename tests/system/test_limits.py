"""What happens when there is no room for all."""

import os
import resource
import select
import signal
import time

import pytest

from client import close_all, connect, connect_all, echo, receive
from laned import PATIENCE_S, Stat, configuration, descriptors, run

DESCRIPTORS = 64


def answered(clients, patience_s):
    """Waits until nobody new has been answered for that long, and returns all who have."""
    poll = select.poll()
    for client in clients:
        poll.register(client, select.POLLIN)
    found = set()
    while ready := poll.poll(patience_s * 1000):
        for number, _ in ready:
            found.add(number)
            poll.unregister(number)
    return [client for client in clients if client.fileno() in found]


def call(clients):
    for i, client in enumerate(clients):
        client.sendall(b"%3d" % i)


@pytest.fixture
def one_lane(topology):
    """Keys of a group that has one lane, with several workers where the topology has that."""
    return {"topology": topology, "workers": 3 if topology == "shared-listener" else 1}


def test_max_connections(start, one_lane):
    """With more clients than max_connections, the others wait until some have left."""
    limit, extra = 20, 8
    laned = start(max_connections=limit, **one_lane)
    clients = connect_all(laned.port, limit + extra)
    call(clients)
    served = answered(clients, 0.5)
    waiting = [client for client in clients if client not in served]
    assert len(served) == limit

    while waiting:
        served.pop().close()
        ready, _, _ = select.select(waiting, [], [], PATIENCE_S)
        assert len(ready) == 1
        assert len(receive(ready[0], 3)) == 3
        waiting.remove(ready[0])
    # The key that keeps them waiting is named, and not another one that happens to fit.
    laned.wait_log(f"the lane holds {limit} connections, all that max_connections gives it")
    assert "nofile" not in laned.log()
    close_all(clients)


def test_max_connections_as_the_daemon_ends_them(start, one_lane):
    """The same when it is laned that ends connections."""
    limit = 20
    laned = start(max_connections=limit, idle_timeout="1s", **one_lane)
    clients = connect_all(laned.port, 2 * limit)
    call(clients)
    for client in clients:
        assert len(receive(client, 3)) == 3
    close_all(clients)


def test_max_connections_and_a_dead_worker(start, one_lane):
    """A killed worker's connections make room for those who wait."""
    limit = 20
    laned = start(max_connections=limit, **one_lane)
    clients = connect_all(laned.port, 2 * limit)
    call(clients)
    assert len(answered(clients, 0.5)) == limit
    for worker in laned.workers().values():
        os.kill(worker.pid, signal.SIGKILL)
    served = 0
    for client in clients:
        try:
            served += len(receive(client, 3)) == 3
        except (ConnectionResetError, EOFError):
            continue
    assert served >= limit
    close_all(clients)


def test_max_connections_again_and_again(start, one_lane):
    """Many clients go through a lane that has room for one."""
    laned = start(max_connections=1, **one_lane)
    for _ in range(10):
        clients = connect_all(laned.port, 20)
        call(clients)
        left = list(clients)
        while left:
            ready, _, _ = select.select(left, [], [], PATIENCE_S)
            assert len(ready) == 1
            assert len(receive(ready[0], 3)) == 3
            left.remove(ready[0])
            ready[0].close()


def test_no_descriptor_left(start):
    """A worker without a descriptor for more clients lets them wait, says so once, and recovers."""
    laned = start(workers=1, supervision={"extra_max": 0})
    worker = laned.workers()["echo/0.0"]
    _, hard = resource.prlimit(worker.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, hard))
    clients = connect_all(laned.port, 200)
    call(clients)
    served = answered(clients, 0.5)
    assert DESCRIPTORS // 2 < len(served) < DESCRIPTORS

    cpu_s, begin = Stat(worker.pid).cpu_s, time.monotonic()
    time.sleep(2)
    assert (Stat(worker.pid).cpu_s - cpu_s) / (time.monotonic() - begin) < 0.05
    lines = laned.log_lines("no descriptor left")
    assert len(lines) == 1
    assert f"RLIMIT_NOFILE {DESCRIPTORS}" in lines[0] and "nofile" in lines[0]
    for client in served:
        receive(client, 3)
        echo(client, b"whoever is served still is")

    waiting = [client for client in clients if client not in served]
    while waiting:
        close_all(served)
        served = answered(waiting, 0.2)
        for client in served:
            assert len(receive(client, 3)) == 3
        waiting = [client for client in waiting if client not in served]
    close_all(clients)


@pytest.mark.parametrize("shape", [("shared-listener", 2), ("reuseport+standby", 1)])
def test_a_full_worker_leaves_clients_to_others(start, shape):
    """A worker that is woken for a client and cannot take it lets another worker know."""
    topology, workers = shape
    laned = start(topology=topology, workers=workers, echo={"tag": True})
    full = laned.workers()["echo/0.0"].pid
    _, hard = resource.prlimit(full, resource.RLIMIT_NOFILE)
    resource.prlimit(full, resource.RLIMIT_NOFILE, (len(descriptors(full)) + 2, hard))
    clients = []
    for _ in range(40):
        time.sleep(0.03)  # the full worker tries again every now and then, and is woken then
        client = connect(laned.port)
        clients.append(client)
        client.settimeout(2)
        client.sendall(b"x")
        assert client.recv(100).startswith(b"x echo/0.")
    laned.wait_log(r"echo/0\.0 .*no descriptor left")
    close_all(clients)


def test_more_descriptors_from_outside(start):
    """When the limit is raised, those who wait are served although nobody has left."""
    laned = start(workers=1, supervision={"extra_max": 0})
    worker = laned.workers()["echo/0.0"]
    soft, hard = resource.prlimit(worker.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, hard))
    clients = connect_all(laned.port, 100)
    call(clients)
    assert len(answered(clients, 0.3)) < DESCRIPTORS
    resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (soft, hard))
    for client in clients:
        assert len(receive(client, 3)) == 3
    close_all(clients)


def test_nofile(start):
    """A worker has the limit of open files that its connections need, or that was asked for."""
    laned = start(
        groups=[
            {"name": "a", "workers": 1, "max_connections": 1000},
            {
                "name": "b",
                "listen": "127.0.0.1:@1",
                "workers": 1,
                "max_connections": 100,
                "nofile": 500,
            },
        ]
    )
    limits = {
        name: resource.prlimit(worker.pid, resource.RLIMIT_NOFILE)[0]
        for name, worker in laned.workers().items()
    }
    assert 1000 < limits["a/0.0"] < 1100
    assert limits["b/0.0"] == 500


def test_nofile_too_small(folder):
    """nofile that is too small for max_connections is an error that names both places."""
    file = folder / "laned.conf"
    file.write_text(
        'groups = ( { name = "echo"; listen = "127.0.0.1:7007";\n'
        "max_connections = 1000;\n"
        "nofile = 500; } );\n"
    )
    for verb in [], ["-t"]:
        done = run(*verb, "-c", file)
        assert done.returncode == 78
        assert f"{file}:3: error:" in done.stderr
        assert f"{file}:2" in done.stderr


def test_nofile_beyond_the_hard_limit(folder):
    """max_connections beyond the hard limit of open files is a warning that names both."""
    file = folder / "laned.conf"
    file.write_text(configuration(listen="127.0.0.1:7007", workers=1, max_connections=5000))
    few = (1000, 1000)
    done = run(
        "-t", "-c", file, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, few)
    )
    assert done.returncode == 0
    assert f"{file}:2: warning:" in done.stderr
    assert "max_connections = 5000" in done.stderr
    assert "RLIMIT_NOFILE of this process is 1000" in done.stderr
    assert "LimitNOFILE" in done.stderr
