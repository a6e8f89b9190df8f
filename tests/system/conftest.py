"""What all system tests have: a folder that everybody can read, a laned that leaves nothing."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from laned import PROGRAM, TOPOLOGIES, Daemon, Gate, Network, Ports, StartError, configuration

ADDRESS_TAKEN = 69  # exit status
TRIES = 5


@pytest.fixture
def folder():
    path = Path(tempfile.mkdtemp(prefix="laned-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture(params=TOPOLOGIES)
def topology(request):
    return request.param


@pytest.fixture
def public_program(folder):
    """laned where every account can run it."""
    return str(shutil.copy(PROGRAM, folder / "laned"))


@pytest.fixture
def as_root():
    if os.geteuid() != 0:
        pytest.skip("only root can do this")


@pytest.fixture
def network():
    network = Network()
    if not network.possible:
        pytest.skip("no network without IPv6 can be made here")
    return network


@pytest.fixture
def gate(folder):
    gate = Gate(folder)
    if not gate.possible:
        pytest.skip("nothing can be loaded before laned's own libraries")
    yield gate
    gate.close()


@pytest.fixture
def start(folder):
    """
    A function that starts laned and waits until it is ready. Keys as in laned.conf(5), or the whole
    `text`; "@0" to "@9" stand for free ports, and without `listen` the group has 127.0.0.1:@0.
    """
    daemons = []

    def start(text=None, *, ready=True, process=None, **keys):
        text = text or configuration(**keys)
        for left in reversed(range(TRIES)):
            ports = Ports()
            daemon = Daemon(folder, ports.fill(text), ports, **(process or {}))
            daemons.append(daemon)
            try:
                if ready:
                    daemon.wait_ready()
                return daemon
            except StartError as error:
                # Another test was quicker to take a port that was free a moment ago.
                if error.status != ADDRESS_TAKEN or left == 0:
                    raise

    yield start
    wrong = [line for daemon in daemons for line in daemon.close()]
    assert not wrong, "\n".join(wrong)
