"""Where clients connect to."""

import socket

import pytest

from client import close_all, connect, connect_all, echo, ends
from laned import configuration


@pytest.fixture
def ipv6():
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("there is no IPv6 here")


def test_several_addresses(start, topology, ipv6):
    """A group serves all of its addresses, of both families."""
    laned = start(topology=topology, workers=2, listen=["127.0.0.1:@0", "127.0.0.2:@1", "[::1]:@2"])
    for host, port in ("127.0.0.1", 0), ("127.0.0.2", 1), ("::1", 2):
        clients = connect_all((host, laned.ports[port]), 20)
        for client in clients:
            echo(client, host.encode())
        close_all(clients)


def test_only_where_it_listens(start):
    """An address that is not listed is not served."""
    laned = start(listen="127.0.0.2:@0")
    with pytest.raises(ConnectionRefusedError):
        connect(("127.0.0.1", laned.port))


@pytest.mark.parametrize(
    "order", [["[::]:@0", "0.0.0.0:@0"], ["0.0.0.0:@0", "[::]:@0"]], ids=["6-4", "4-6"]
)
def test_both_wildcards_on_one_port(start, topology, ipv6, order):
    """[::] and 0.0.0.0 stand side by side on one port, and each serves its family."""
    laned = start(topology=topology, workers=2, listen=order)
    for host in "127.0.0.1", "::1":
        with connect((host, laned.port)) as client:
            echo(client, host.encode())


def test_ipv6_wildcard_alone(start, ipv6):
    """[::] alone does not take IPv4 clients."""
    laned = start(listen="[::]:@0")
    with connect(("::1", laned.port)) as client:
        echo(client, b"6")
    with pytest.raises(ConnectionRefusedError):
        connect(("127.0.0.1", laned.port))


def test_several_groups(start):
    """Each group has its own topology, its own addresses and its own behaviour."""
    laned = start(
        groups=[
            {"name": "plain", "listen": "127.0.0.1:@0", "topology": "reuseport", "workers": 2},
            {"name": "once", "listen": "127.0.0.1:@1", "workers": 1, "echo": {"close_after": 1}},
        ]
    )
    assert sorted(laned.workers()) == ["once/0.0", "plain/0.0", "plain/1.0"]
    with connect(laned.ports[0]) as plain, connect(laned.ports[1]) as once:
        for client in plain, once, plain:
            echo(client, b"x")
        assert ends(once) == "FIN"
        echo(plain, b"still here")


def test_address_is_free_after_stop(start):
    """The next one can take the address at once, although connections are in TIME_WAIT."""
    laned = start(echo={"close_after": 1})
    with connect(laned.port) as client:
        echo(client, b"you end it")
        assert ends(client) == "FIN"
    assert laned.stop() == 0
    again = start(configuration(listen=f"127.0.0.1:{laned.port}"))
    with connect(laned.port) as client:
        echo(client, b"again")
    assert again.stop() == 0
