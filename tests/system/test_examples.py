"""The configurations that are shipped."""

import re

import pytest

from client import connect, echo, receive
from laned import SOURCES, run

EXAMPLES = sorted(SOURCES.glob("etc/examples/*.conf"))
SHIPPED = SOURCES / "etc" / "laned.conf"


def with_free_ports(text):
    """The same with another port for each that it listens on, and how many there are."""
    ports = sorted(set(re.findall(r'^[^#\n]*listen = .*:(\d+)"', text, re.M)))
    for i, port in enumerate(ports):
        text = text.replace(f':{port}"', f':@{i}"')
    return text, len(ports)


def all_served(laned, ports):
    for i in range(ports):
        with connect(laned.ports[i]) as client:
            client.sendall(b"hello")
            assert receive(client, 5) == b"hello"


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_example(start, file):
    """The example is right, without a warning, and serves on all of its addresses."""
    done = run("-t", "-q", "-c", file)
    assert (done.returncode, done.stderr) == (0, "")
    text, ports = with_free_ports(file.read_text())
    assert ports >= 1
    laned = start(text)
    all_served(laned, ports)
    assert laned.stop() == 0


def test_shipped_as_it_is(start, network):
    """laned.conf as it is shipped is right, and serves like the built-in default."""
    done = run("-t", "-q", "-c", SHIPPED)
    assert (done.returncode, done.stderr) == (0, "")
    assert run("-T", "-c", SHIPPED).stdout == run("-T", "-c", "-").stdout
    laned = start(SHIPPED.read_text(), process={"command": network.command})
    assert len(laned.workers()) == 2
    assert network.echo(laned.pid, 7007, "hello") == "hello"


def test_shipped_with_all_keys(start):
    """With all keys switched on, laned.conf is right, changes no default, and serves."""
    text, ports = with_free_ports(re.sub("^#(?! )", "", SHIPPED.read_text(), flags=re.M))
    assert ports == 1
    laned = start(text)
    all_served(laned, ports)
    with connect(laned.port) as client:
        echo(client, b"hello again")
    changed = run("-T", "-n", "-c", laned.file).stdout
    keys = set(re.findall(r"(\w+) = ", changed))
    # These have no default, or another one without a file.
    assert keys <= {"groups", "name", "listen", "workers"}
