#!/usr/bin/python3
"""`make bench-topologies`: how long clients wait when workers of laned sleep, for each topology.

Four workers, a hundred clients at once with one request each. Either one worker always sleeps two
seconds over a request, or each does with a probability of one third. Every run has a fresh laned,
and its number is the seed of the faults. Nothing is judged: the exit status says whether the
programs ran and every client was answered, and tables in Markdown say the rest.
"""

import argparse
import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from bench import BUILDDIR, LANED, Failure, Process, await_ready, free_port, machine

LANEBENCH = os.environ.get("LANEBENCH", str(BUILDDIR / "lanebench"))
WORKERS = 4
CLIENTS = 100
SLEEP_S = 2
# All clients in one queue whose only worker always sleeps take that long.
PATIENCE_S = CLIENTS * SLEEP_S + 60

ONE, THIRD = "one", "third"


class Variant(NamedTuple):
    topology: str
    who: str  # sleeps, for the table
    faults: str  # which places they are for, as keys of laned.conf(5)


class Experiment(NamedTuple):
    name: str
    title: str
    probability: float
    extra_max: int  # beside 0
    variants: list


SECOND_LANE = 'lanes = [ 1 ]; workers = [ 0 ]; roles = [ "primary" ];'
EXPERIMENTS = [
    Experiment(ONE, f"The second worker always sleeps {SLEEP_S} s", 1.0, 4, [
        Variant("shared-listener", "second worker", "workers = [ 1 ];"),
        Variant("reuseport", "second primary", SECOND_LANE),
        Variant("reuseport+standby", "second primary", SECOND_LANE),
    ]),
    Experiment(THIRD, f"Workers sleep {SLEEP_S} s, with a probability of 1/3", 1 / 3, 32, [
        Variant("shared-listener", "every worker", ""),
        Variant("reuseport", "every worker", ""),
        Variant("reuseport+standby", "every primary", 'roles = [ "primary" ];'),
        Variant("reuseport+standby", "every worker", ""),
    ]),
]


def configuration(address, experiment, variant, extra_max, seed):
    return f"""\
log = {{ target = "stderr"; level = "warning"; }};
supervision = {{ extra_max = {extra_max}; }};
allow_faults = true;
groups = (
  {{ name = "echo"; listen = "{address}"; topology = "{variant.topology}"; workers = {WORKERS};
    echo = {{ tag = true; close_after = 1; }};
    faults = ( {{ kind = "sleep"; on = "message"; probability = {experiment.probability:.6f};
                 duration = "{SLEEP_S}s"; seed = {seed}; {variant.faults} }} ); }}
);
"""


@contextlib.contextmanager
def laned(text):
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="laned-bench.")))
        file = folder / "laned.conf"
        file.write_text(text)
        notify = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        notify.bind(str(folder / "notify"))
        server = stack.enter_context(
            Process([LANED, "-c", str(file)], None, {"NOTIFY_SOCKET": str(folder / "notify")}))
        # Workers that sleep when it is over are not waited for.
        stack.callback(server.popen.send_signal, signal.SIGINT)
        await_ready(server, notify)
        yield server


def burst(address):
    """What lanebench says of one burst."""
    command = [LANEBENCH, "burst", "-jq", "-n", str(CLIENTS), "-t", f"{PATIENCE_S}s", address]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PATIENCE_S + 60)
    except OSError as error:
        raise Failure(f"{LANEBENCH}: {error.strerror}") from error
    except subprocess.TimeoutExpired:
        raise Failure(f"lanebench did not end within {PATIENCE_S + 60} s") from None
    if done.returncode not in (0, 1):
        raise Failure(f"lanebench ended with {done.returncode}; it said:\n{done.stderr.rstrip()}")
    return json.loads(done.stdout)


def measure(experiment, variant, extra_max, seed):
    address = f"127.0.0.1:{free_port()}"
    with laned(configuration(address, experiment, variant, extra_max, seed)):
        began = time.monotonic()
        said = burst(address)
        print(f"{variant.topology}, {variant.who}, extra_max {extra_max}, run {seed}: "
              f"{time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
    return said


def ms(ns):
    return "-" if ns is None else f"{ns / 1e6:.1f}"


def cell(values, text=str):
    """The median, and all of them in the order of the runs."""
    known = [value for value in values if value is not None]
    if len(values) == 1:
        return text(values[0])
    median = statistics.median_low(known) if known else None
    return f"**{text(median)}** ({' '.join(map(text, values))})"


def row(variant, extra_max, runs):
    columns = [
        variant.topology,
        variant.who,
        str(extra_max),
        cell([run["total_ns"] for run in runs], ms),
        cell([run["latency_ns"]["max"] for run in runs], ms),
        cell([run["over_50ms"] for run in runs]),
        cell([run["over_1s"] for run in runs]),
        str(sum(run["failed"] for run in runs)),
    ]
    return f"| {' | '.join(columns)} |"


def run_experiment(experiment, extra_max, n_runs):
    """Prints its table. Returns all that was measured, a list."""
    print(f"\n## {experiment.title}\n")
    print("| topology | who sleeps | extra_max | total, ms | worst client, ms | over 50 ms "
          "| over 1 s | failed |\n|---|---|--:|--:|--:|--:|--:|--:|", flush=True)
    saved = []
    for variant in experiment.variants:
        for extra in [0, extra_max]:
            runs = [measure(experiment, variant, extra, seed) for seed in range(1, n_runs + 1)]
            print(row(variant, extra, runs), flush=True)
            saved.append({"experiment": experiment.name, **variant._asdict(), "extra_max": extra,
                          "runs": runs})
    return saved


def parse_arguments():
    def above_zero(text):
        value = int(text)
        if value < 1:
            raise argparse.ArgumentTypeError("a number above 0")
        return value

    parser = argparse.ArgumentParser(
        description="Lets workers of laned sleep and measures how long clients wait. The programs "
        "are $LANED and $LANEBENCH, else those of the build folder ($builddir, else the current "
        "one).")
    parser.add_argument("--runs", type=above_zero, default=5, help="of each row (5)")
    parser.add_argument("--quick", action="store_true", help="one run, to see it work")
    parser.add_argument("--only", choices=[ONE, THIRD], help="one of the two experiments")
    for experiment in EXPERIMENTS:
        parser.add_argument(f"--extra-{experiment.name}", type=above_zero, metavar="N",
                            default=experiment.extra_max, dest=experiment.name,
                            help=f"extra_max, beside 0 ({experiment.extra_max})")
    parser.add_argument("--json", type=argparse.FileType("w"), metavar="FILE",
                        help="writes all that was measured")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.runs = 1
    return arguments


def run(arguments):
    """Returns how many clients failed."""
    facts = machine()
    print(f"# {CLIENTS} clients at once, {WORKERS} workers, one request each\n")
    print(f"Linux {facts['kernel']}, {facts['cpu']}, {facts['cpus']} CPUs, load average "
          f"{facts['load_average']}. Runs of each row: {arguments.runs}"
          + ("; in bold the median (the lower one of two), then all." if arguments.runs > 1
             else "."))
    saved = []
    for experiment in EXPERIMENTS:
        if arguments.only in (None, experiment.name):
            saved += run_experiment(experiment, getattr(arguments, experiment.name),
                                    arguments.runs)
    if arguments.json:
        json.dump({"machine": facts, "rows": saved}, arguments.json, indent=1)
        arguments.json.write("\n")
    return sum(each["failed"] for part in saved for each in part["runs"])


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    arguments = parse_arguments()
    try:
        failed = run(arguments)
    except Failure as failure:
        print(f"bench-topologies: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bench-topologies: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
