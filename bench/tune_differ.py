#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Of a file of shapes those for which tables chose different configs, one a line: what `kiln tune --among A --among B` is to measure again.

bench/tune_differ.py SHAPES TABLE TABLE...
"""
import itertools
import re
import shlex
import sys


def choices(path):
    """{(kernel, {integer: bin}): config}"""
    out = {}
    for line in open(path):
        words = dict(w.split("=", 1) for w in shlex.split(line) if "=" in w)
        if "kernel" in words:
            bins = frozenset((k[4:], int(v)) for k, v in words.items() if k.startswith("bin."))
            out[words["kernel"], bins] = words["config"]
    return out


def single(line):
    """A line with {a,b} as the lines that it stands for."""
    parts = re.split(r"(\{[^}]*\})", line)
    for values in itertools.product(*(p[1:-1].split(",") if p.startswith("{") else [p] for p in parts)):
        yield "".join(values)


def bin_of(value):
    if value < 8:
        return value
    step = 1 << (value.bit_length() - 3)
    return value // step * step


def main():
    tables = [choices(p) for p in sys.argv[2:]]
    for line in open(sys.argv[1]):
        if not line.strip() or line.startswith("#"):
            continue
        for text in single(line.rstrip("\n")):
            numbers = {k: int(v) for k, v in re.findall(r" (\w+)=(\d+)(?= |$)", text)}
            chosen = set()
            for table in tables:
                for (kernel, bins), config in table.items():
                    if kernel == text.split()[0] and all(bin_of(numbers.get(k, -1)) == b for k, b in bins):
                        chosen.add(config)
            if len(chosen) > 1:
                print(text)


if __name__ == "__main__":
    main()
