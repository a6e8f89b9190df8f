#!/usr/bin/python3
"""`make bench`: laned beside a bare epoll loop, which is what the kernel alone costs.

Both servers run in turn on one CPU, a closed-loop client on another, so that what the machine does
meanwhile falls on both. The figure that counts is the server's CPU time per echo, as the scheduler
accounts it; a rate also depends on the client. Nothing is ever judged by time: the exit status says
whether the programs ran and every byte came back, and a table says the rest.
"""

import argparse
import contextlib
import json
import os
import platform
import resource
import select
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

MARK_ABOVE = 1.03  # what laned may cost, as a multiple of the bare loop
DISTURBED_ABOVE = 0.05  # of a run that server or client waited for a CPU; alone it is below 0.03
MAX_CONNECTIONS = 12000
HELD_CONNECTIONS = 10000
SPARE_FDS = 256  # of a server, beside its connections
PATIENCE_S = 20  # for whatever should happen at once; longer, and it never will

BUILDDIR = Path(os.environ.get("builddir", "."))
LANED = os.environ.get("LANED", str(BUILDDIR / "laned"))
BENCH_BARE = os.environ.get("BENCH_BARE", str(BUILDDIR / "tests/bench/bench-bare"))
BENCH_LOAD = os.environ.get("BENCH_LOAD", str(BUILDDIR / "tests/bench/bench-load"))


class Cell(NamedTuple):
    name: str
    title: str
    connections: int
    arguments: list  # of bench-load


CELLS = [
    Cell(f"{count}x{name}", f"{count} x {title}", count, ["-s", str(size)])
    for name, title, size in (("64", "64 B", 64), ("16k", "16 KiB", 16384))
    for count in (1, 50, 1000)
] + [
    Cell(f"connect{count}", f"connect, {count} at a time", count, ["-m", "connect"])
    for count in (1, 32)
]
MEMORY = "memory"


class Failure(Exception):
    """Something did not work; the text says what."""


class Process:
    """A program on one CPU (None: on any), ended when its block is left."""

    def __init__(self, command, cpu, environment=None):
        self.name = Path(command[0]).name
        self.text = b""
        self.stderr = tempfile.TemporaryFile()
        try:
            self.popen = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.stderr,
                bufsize=0, env={**os.environ, **(environment or {})},
                preexec_fn=lambda: cpu is not None and os.sched_setaffinity(0, {cpu}))
        except OSError as error:
            raise Failure(f"{command[0]}: {error.strerror}") from error
        self.pid = self.popen.pid

    def __enter__(self):
        return self

    def __exit__(self, exception_type, *_):
        self.popen.terminate()
        try:
            self.popen.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            if exception_type is None:  # else that comes first
                raise self.failure("did not end when asked to") from None
        finally:
            self.popen.kill()
            self.popen.wait()
            self.popen.stdin.close()
            self.popen.stdout.close()
            self.stderr.close()

    def failure(self, text):
        self.stderr.seek(0)
        said = self.stderr.read().decode(errors="replace").rstrip()
        return Failure(f"{self.name} {text}" + (f"; it said:\n{said}" if said else ""))

    def line(self, patience_s=PATIENCE_S):
        """The next line of its output."""
        deadline = time.monotonic() + patience_s
        poll = select.poll()
        poll.register(self.popen.stdout, select.POLLIN)
        while b"\n" not in self.text:
            if not poll.poll(max(0, deadline - time.monotonic()) * 1000):
                raise self.failure(f"said nothing for {patience_s:g} s")
            more = os.read(self.popen.stdout.fileno(), 4096)
            if not more:
                raise self.failure("ended too early")
            self.text += more
        line, _, self.text = self.text.partition(b"\n")
        return line.decode()

    def expect(self, wanted, patience_s=PATIENCE_S):
        line = self.line(patience_s)
        if line != wanted:
            raise self.failure(f'said "{line}" instead of "{wanted}"')

    def go_on(self):
        """Lets a client go on that waits for a line."""
        try:
            self.popen.stdin.write(b"\n")
        except BrokenPipeError:
            raise self.failure("ended too early") from None

    def result(self):
        """What a client says when it is done."""
        result = json.loads(self.line())
        if self.popen.wait(PATIENCE_S) != 0 or result["errors"]:
            raise self.failure(f"counted {result['errors']} errors")
        return result


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def bare_server(address, cpu):
    with Process([BENCH_BARE, address], cpu) as server:
        server.expect("ready")
        yield server


@contextlib.contextmanager
def laned_server(address, cpu):
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="laned-bench.")))
        configuration = folder / "laned.conf"
        configuration.write_text(f"""\
log = {{ target = "stderr"; }};
groups = (
  {{ name = "bench"; listen = "{address}"; topology = "shared-listener"; workers = 1;
    engine = "epoll"; max_connections = {max_connections()}; }}
);
""")
        notify_path = str(folder / "notify")
        notify = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        notify.bind(notify_path)
        server = stack.enter_context(
            Process([LANED, "-c", str(configuration)], cpu, {"NOTIFY_SOCKET": notify_path}))
        await_ready(server, notify)
        yield server


def await_ready(server, notify):
    pidfd = os.pidfd_open(server.pid)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            patience_s = max(0, deadline - time.monotonic())
            ready, _, _ = select.select([notify, pidfd], [], [], patience_s)
            if notify in ready:
                if b"READY=1" in notify.recv(65536).split(b"\n"):
                    return
            elif ready:
                raise server.failure("ended before it was ready")
            else:
                raise server.failure(f"was not ready after {PATIENCE_S} s")
    finally:
        os.close(pidfd)


def max_connections():
    """What a server may hold here; bench-load needs fewer descriptors."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if limit == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return min(MAX_CONNECTIONS, limit - SPARE_FDS)


def process_tree(root):
    """A process and all that descend from it."""
    children = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            stat = (folder / "stat").read_text(errors="replace")
            parent = int(stat.rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(folder.name))
    tree = {root}
    new = [root]
    while new:
        new = [child for pid in new for child in children.get(pid, [])]
        tree.update(new)
    return tree


def scheduler_is_exact():
    """Whether /proc/PID/schedstat counts here (CONFIG_SCHED_INFO)."""
    try:
        return int(Path("/proc/self/schedstat").read_text().split()[0]) > 0
    except OSError:
        return False


def cpu_ns(pids):
    """CPU time that all threads of the processes have used, and have waited for (0: unknown)."""
    used = waited = 0
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            if scheduler_is_exact():
                fields = (task / "schedstat").read_text().split()
                used += int(fields[0])
                waited += int(fields[1])
            else:
                fields = (task / "stat").read_text().rpartition(")")[2].split()
                ticks = int(fields[11]) + int(fields[12])  # utime + stime
                used += ticks * 10**9 // os.sysconf("SC_CLK_TCK")
    return used, waited


def own_memory_bytes(pids):
    """What the processes have written, shared pages counted once.

    Without pages of files: what a process is charged for those depends on who else runs the same
    libraries at the moment.
    """
    total = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith(("Pss_Anon:", "Pss_Shmem:")):
                total += int(line.split()[1]) * 1024
    return total


class Bench:
    def __init__(self, servers, cpus, seconds):
        self.servers = servers  # name: context manager
        self.server_cpu, self.client_cpu = cpus
        self.seconds = seconds

    @contextlib.contextmanager
    def started(self, name):
        """The server, and the address of it, which is a new one each time."""
        address = f"127.0.0.1:{free_port()}"
        with self.servers[name](address, self.server_cpu) as server:
            yield server, address

    def client(self, *arguments):
        return Process([BENCH_LOAD, *arguments], self.client_cpu)

    def measure(self, name, cell):
        """One run: what the client counted, and the server's CPU time for it."""
        with self.started(name) as (server, address), \
             self.client("-g", "-d", str(self.seconds), "-c", str(cell.connections),
                         *cell.arguments, address) as client:
            client.expect("start")
            pids = process_tree(server.pid)
            used_ns, waited_ns = cpu_ns(pids)
            _, client_waited_ns = cpu_ns({client.pid})
            client.go_on()
            client.expect("end", self.seconds + PATIENCE_S)
            if process_tree(server.pid) != pids:
                raise server.failure("lost or started a process while it was measured")
            used_after_ns, waited_after_ns = cpu_ns(pids)
            _, client_waited_after_ns = cpu_ns({client.pid})
            client.go_on()
            return {"server": name,
                    "server_cpu_ns": used_after_ns - used_ns,
                    "server_waited_ns": waited_after_ns - waited_ns,
                    "client_waited_ns": client_waited_after_ns - client_waited_ns,
                    **client.result()}

    def compare(self, cell, rounds):
        return [{"round": i, **self.measure(name, cell)}
                for i in range(rounds) for name in self.servers]

    def memory_per_connection(self, name, count):
        """Bytes of user space for each connection beyond the first, all of them idle."""
        with self.started(name) as (server, address):
            used = []
            for held in (1, count):
                with self.client("-m", "hold", "-c", str(held), address) as client:
                    client.expect("holding", PATIENCE_S * 3)
                    used.append(own_memory_bytes(process_tree(server.pid)))
                    client.go_on()
                    client.result()
            return (used[1] - used[0]) / (count - 1)


def summary(runs, names):
    """Medians of a cell's runs for both servers, and the ratio of what an echo costs, by round."""
    rate = {}
    cpu_us = {}
    for name in names:
        own = [run for run in runs if run["server"] == name]
        rate[name] = statistics.median(run["operations"] / run["seconds"] for run in own)
        cpu_us[name] = [run["server_cpu_ns"] / run["operations"] / 1000 for run in own]
    base, other = names
    ratios = [b / a for a, b in zip(cpu_us[base], cpu_us[other])]
    return rate, {name: statistics.median(cpu_us[name]) for name in names}, ratios


def disturbed(run):
    """Whether other programs held up the server or the client."""
    waited_ns = max(run["server_waited_ns"], run["client_waited_ns"])
    return waited_ns / 1e9 > DISTURBED_ABOVE * run["seconds"]


def row(title, runs, names):
    rate, cpu_us, ratios = summary(runs, names)
    ratio = statistics.median(ratios)
    n_disturbed = sum(map(disturbed, runs))
    a, b = names
    return (f"{title:<23}{rate[a]:>12,.0f}{rate[b]:>12,.0f}{cpu_us[a]:>12.2f}{cpu_us[b]:>12.2f}"
            f"{ratio:>10.3f}  ({min(ratios):.3f} .. {max(ratios):.3f})"
            + (f"  above {MARK_ABOVE}" if ratio > MARK_ABOVE else "")
            + (f"  disturbed: {n_disturbed} of {len(runs)}" if n_disturbed else ""))


def heading(names):
    a, b = names
    return (
        f"{'':<23}{'echoes per second':>24}{'CPU µs per echo':>24}    {b} / {a}, CPU per echo\n"
        f"{'connections x message':<23}{a:>12}{b:>12}{a:>12}{b:>12}{'median':>10}  (min .. max)")


READING = """
CPU per echo is the server's time alone, all of its processes together; the ratio is taken within
each round, where the two ran one after the other. 1.000: laned costs what the kernel costs. The
rate is that of server and client together: compare it within its row only, and less strictly. What
--noise also shows here (the bare loop beside itself) means nothing. "disturbed" counts the runs in
which other programs held up server or client: repeat it when they rest. Clients end by a reset."""


def first_line(path, default="unknown"):
    try:
        return Path(path).read_text().splitlines()[0]
    except OSError:
        return default


def cpu_model():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def machine():
    return {
        "kernel": platform.release(),
        "cpu": cpu_model(),
        "cpus": os.cpu_count(),
        "congestion_control": first_line("/proc/sys/net/ipv4/tcp_congestion_control"),
        "load_average": " ".join(first_line("/proc/loadavg").split()[:3]),
        "cpu_time": "schedstat, exact" if scheduler_is_exact() else "utime + stime, in ticks",
    }


def core_of(cpu):
    return first_line(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", str(cpu))


def choose_cpus():
    """A CPU for the server, one for the client, if possible on another core; and a warning."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) == 1:
        return (None, None), "one CPU for server and client: the figures are of little use"
    for cpu in allowed[1:]:
        if core_of(cpu) != core_of(allowed[0]):
            return (allowed[0], cpu), None
    return (allowed[0], allowed[1]), "server and client share one core: expect noise"


def parse_arguments():
    names = [cell.name for cell in CELLS] + [MEMORY]

    def cells(text):
        chosen = text.split(",")
        unknown = [name for name in chosen if name not in names]
        if unknown:
            raise argparse.ArgumentTypeError(f"no cell {unknown[0]}; there are {', '.join(names)}")
        return chosen

    parser = argparse.ArgumentParser(
        description="Compares laned with a bare epoll loop. The programs are $LANED, $BENCH_BARE "
        "and $BENCH_LOAD, else those of the build folder ($builddir, else the current one).")
    parser.add_argument("--rounds", type=int, help="of each cell, one run of both servers (5)")
    parser.add_argument("--seconds", type=float, help="of a run, after its warm-up (2)")
    parser.add_argument("--quick", action="store_true", help="2 rounds of 0.5 s, to see it work")
    parser.add_argument("--cells", type=cells, default=names, metavar="CELL,...",
                        help=f"some of {', '.join(names)} (all)")
    parser.add_argument("--noise", action="store_true",
                        help="the bare loop beside itself: how much a ratio strays on this machine")
    parser.add_argument("--json", type=argparse.FileType("w"), metavar="FILE",
                        help="writes all that was measured")
    arguments = parser.parse_args()
    if arguments.rounds is None:
        arguments.rounds = 2 if arguments.quick else 5
    if arguments.seconds is None:
        arguments.seconds = 0.5 if arguments.quick else 2
    if arguments.rounds < 1 or arguments.seconds <= 0:
        parser.error("rounds and seconds are to be more than 0")
    return arguments


def run(arguments):
    facts = machine()
    cpus, warning = choose_cpus()
    other = {"bare again": bare_server} if arguments.noise else {"laned": laned_server}
    bench = Bench({"bare": bare_server, **other}, cpus, arguments.seconds)
    names = list(bench.servers)
    saved = {"machine": facts, "cpus": cpus, "rounds": arguments.rounds,
             "seconds": arguments.seconds, "cells": {}}

    pinned = ("not pinned" if cpus[0] is None
              else f"server on CPU {cpus[0]}, client on CPU {cpus[1]}")
    print(f"{names[1]} beside a bare epoll loop, in turn, {arguments.rounds} times "
          f"{arguments.seconds:g} s each; {pinned}")
    print(f"Linux {facts['kernel']}, {facts['cpu']}, {facts['cpus']} CPUs, congestion control "
          f"{facts['congestion_control']}, load average {facts['load_average']}, "
          f"CPU time from {facts['cpu_time']}")
    if warning:
        print(f"warning: {warning}")
    cells = [cell for cell in CELLS if cell.name in arguments.cells]
    if cells:
        print("\n" + heading(names), flush=True)
    for cell in cells:
        if cell.connections > max_connections():
            print(f"{cell.title:<23} left out: the limit of open files is too low")
            continue
        runs = saved["cells"][cell.name] = bench.compare(cell, arguments.rounds)
        print(row(cell.title, runs, names), flush=True)
    if MEMORY in arguments.cells:
        held = min(HELD_CONNECTIONS, max_connections())
        memory = saved["memory"] = {name: bench.memory_per_connection(name, held)
                                    for name in names}
        print(f"\nuser-space memory per idle connection, {held:,} held: "
              + ", ".join(f"{name} {each:.0f} B" for name, each in memory.items()))
    if cells:
        print(READING)
    if arguments.json:
        json.dump(saved, arguments.json, indent=1)
        arguments.json.write("\n")


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    arguments = parse_arguments()
    try:
        run(arguments)
    except Failure as failure:
        print(f"bench: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bench: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    return 0


if __name__ == "__main__":
    sys.exit(main())
