#!/usr/bin/env python3
"""A folder of src/ includes only what stands above it, and some never see each other."""

import os
import pathlib
import re
import sys

ORDER = "base control net config lane topology engine worker master bench".split()

# Pairs that must not meet although the order would let them, whoever includes whom between.
NEVER = {("engine", "topology"), ("master", "engine")} | {
    ("bench", daemon) for daemon in ORDER[3:-1]  # the generator is a client and nothing more
}

INCLUDE = re.compile(r'^#include "(.*)"$', re.MULTILINE)


def includes(src, path, seen=None):
    """All files that a file includes, directly or not."""
    seen = set() if seen is None else seen
    for name in INCLUDE.findall((src / path).read_text()):
        if name not in seen:
            seen.add(name)
            includes(src, name, seen)
    return seen


def findings(src):
    files = sorted(p.relative_to(src) for p in src.glob("*/*.[ch]"))
    assert len(files) > 40, f"only {len(files)} files below {src}"
    for path in files:
        folder = path.parts[0]
        if folder not in ORDER:
            yield f"src/{folder} is not in the order of folders"
            continue
        for name in sorted(includes(src, path)):
            other = name.split("/")[0]
            if ORDER.index(other) > ORDER.index(folder):
                yield f"src/{path} includes {name}, which stands below it"
            if (folder, other) in NEVER:
                yield f"src/{path} sees {name}"


def main():
    src = pathlib.Path(os.environ.get("srcdir", ".")) / "src"
    found = list(findings(src))
    print("1..1")
    for line in found:
        print(f"# {line}")
    print("not ok" if found else "ok", "1 - folders include only what stands above them")
    return 1 if found else 0


sys.exit(main())
