#!/usr/bin/python3
"""Compares the schema of the configuration with what is written about it, key by key.

man/laned.conf.5 must have each key in its list with type, unit, default, range and reload; and
etc/laned.conf must have each key with its default, switched off, those of a fault as a comment
behind `faults`. Prints TAP. `srcdir` and `builddir`
are the tops of the source and of the build.
"""

import os
import re
import subprocess
import sys

GROUP = "groups.*."
FAULT = GROUP + "faults.*."
PREFIXES = {".Ss Groups": GROUP, ".Ss Faults": FAULT}


def read(path):
    with open(os.path.join(os.environ["srcdir"], path), encoding="utf-8") as file:
        return file.read()


def schema():
    """The rows that schema-print prints, as dicts, by path."""
    names = ("path", "type", "unit", "default", "range", "reload", "help")
    program = os.path.join(os.environ["builddir"], "tests/unit/schema-print")
    lines = subprocess.run([program], check=True, stdout=subprocess.PIPE, text=True).stdout
    rows = [dict(zip(names, line.split("\t"), strict=True)) for line in lines.splitlines()]
    return {row["path"]: row for row in rows}


def described(row):
    """How the manual page begins the description of a key."""
    kind = row["type"] if row["unit"] == "-" else f"{row['type']} ({row['unit']})"
    default = f"default {row['default']}"
    if row["default"] == "-":
        default = "must be written" if row["path"].startswith(GROUP) else None
    return "; ".join(part for part in (kind, default, row["range"], row["reload"]) if part) + "."


def plain(line):
    """A line of mdoc as it is read."""
    match = re.fullmatch(r'\.Qq (""|[^ ]+)( [,;])?', line)
    return '"' + match[1].strip('"') + '"' + (match[2] or "").strip() if match else line


def manual_keys():
    """The keys of the manual page, by path, with what stands before the description in words."""
    keys = {}
    prefix = ""
    lines = iter(read("man/laned.conf.5").splitlines())
    for line in lines:
        if line.startswith((".Ss", ".Sh")):
            prefix = PREFIXES.get(line, "")
        if line == ".Sh SUPERVISION":
            break
        if not line.startswith(".It Ic "):
            continue
        head = []
        for following in lines:
            if following == ".Pp":
                break
            head.append(plain(following))
        keys[prefix + line.removeprefix(".It Ic ")] = " ".join(head)
    return keys


def file_keys():
    """The keys of etc/laned.conf that are switched off, by path, with their values."""
    keys = {}
    braces = []
    for line in read("etc/laned.conf").splitlines():
        if match := re.fullmatch(r"\t\t#\t(\w+) = (.*);", line):
            keys[FAULT + match[1]] = match[2]
        if not re.match(r"#\s*[^ #]", line) or line.startswith("# "):
            continue
        line = line.removeprefix("#").strip()
        if match := re.fullmatch(r"(\w+) = [({]", line):
            braces.append(match[1])
        elif line == "{":
            braces.append("*")
        elif re.fullmatch(r"[})],?;?", line):
            braces.pop()
        elif match := re.fullmatch(r"(\w+) = (.*);", line):
            keys[".".join([*braces, match[1]])] = match[2]
    return keys


class Tap:
    def __init__(self):
        self.number = 0
        self.failed = 0

    def check(self, name, found, expected):
        self.number += 1
        self.failed += found != expected
        print("ok" if found == expected else "not ok", self.number, "-", name)
        if found != expected:
            print(f"#    found: {found}\n# expected: {expected}")

    def end(self):
        print(f"1..{self.number}")
        return 1 if self.failed else 0


def main():
    tap = Tap()
    rows = schema()
    manual = manual_keys()
    file = file_keys()

    tap.check("the manual page has the keys in the order of the schema", [*manual], [*rows])
    for path, row in rows.items():
        tap.check(f"the manual page says of {path} what it is", manual.get(path), described(row))

    in_file = [path for path in rows if path != "groups"]
    tap.check("the installed file has the keys in the order of the schema", [*file], in_file)
    for path in in_file:
        if rows[path]["default"] not in ("-", "none"):
            tap.check(f"the installed file has {path} with its default", file.get(path),
                      rows[path]["default"])
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
