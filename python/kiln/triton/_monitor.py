# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which kernels of Triton a process launched, and who compiled them: a bundle had the code, Kiln's cache had it, Kiln compiled it now, or Triton did. A launch
that found no code under miss="error" is counted as missing. Each row counts by itself, in C where launches run in C, and whatever counts is added up when
somebody asks, so no launch waits for a lock."""
import json
import os
import sys
import threading
import typing

from .._core import Counter

BUNDLE, CACHE, COMPILED, TRITON, MISSING = ORIGINS = ("bundle", "cache", "compiled", "triton", "missing")
_KILNS = (BUNDLE, CACHE, COMPILED)


class Kernel(typing.NamedTuple):
    """A row of a report. `seconds` were spent in having the code; `reason` says why it was not in a bundle, or why Triton compiled it."""
    number: int  # in the process, in order
    name: str
    identity: str
    origin: str
    target: str
    launches: int
    seconds: float
    reason: str


class Row:
    """A kernel of this process. Each that launches it has a counter of its own."""

    def __init__(self, origin, name, identity, target, reason):
        self.origin, self.name, self.identity, self.target, self.reason, self.seconds = origin, name, identity, target, reason, 0.0
        self._counters, self._inherited, self.shared = [], 0, None

    def counter(self):
        self._counters.append(Counter())
        return self._counters[-1]

    def _sum(self):
        return sum(one.value for one in self._counters)

    launches = property(lambda self: self._sum() - self._inherited)

    def forked(self):
        self._inherited = self._sum()


_rows, _by_key, _watching, _adding = [], {}, [], threading.Lock()


def row_of(origin, name, identity="", target="", reason="", seconds=0.0) -> Row:
    """The row of a kernel; those who watch are told of a new one."""
    key = origin, name, identity, target, reason
    with _adding:
        row = _by_key.get(key)
        is_new = row is None
        if is_new:
            row = _by_key[key] = Row(*key)
            _rows.append(row)
        row.seconds += seconds
        number = len(_rows) - 1
    if is_new:
        for callback in list(_watching):
            callback(_row(number, row))
    return row


def _row(number, row, launches=None):
    return Kernel(number, row.name, row.identity, row.origin, row.target, row.launches if launches is None else launches, row.seconds, row.reason)


def watch(callback):
    """Calls callback(kernel) whenever the process has a kernel for the first time, or a launch finds no code: `kernel` is a row as in monitor().kernels. It
    runs in the thread of that launch, before it; what it raises is raised there. Returns a function that ends this."""
    _watching.append(callback)
    return lambda: _watching.remove(callback) if callback in _watching else None


def count(*facts):
    """Counts a launch that has no counter of its own."""
    row = row_of(*facts)
    with _adding:
        one = row.shared = row.shared or row.counter()
    one.add()


def _launches(count):
    return "%d launch%s" % (count, "" if count == 1 else "es")


def _kernels(count):
    return "%d kernel%s" % (count, "" if count == 1 else "s")


class Monitor(typing.NamedTuple):
    """What a process launched: `launches` by origin, and a row for each kernel that is in code or was launched."""
    process: int
    launches: dict
    kernels: list

    @property
    def misses(self):
        """Rows of kernels that no bundle had."""
        return [one for one in self.kernels if one.origin != BUNDLE and one.reason]

    @property
    def by_kiln(self):
        """How many launches ran Kiln's code."""
        return sum(self.launches[origin] for origin in _KILNS)

    def kernel_count(self, *origins):
        return len({(one.name, one.identity, one.target) for one in self.kernels if one.origin in origins and one.launches})

    def json(self) -> str:
        """One line: {"process", "program", "launches", "kernels", "misses"}; misses are the numbers of rows."""
        return json.dumps({"process": self.process, "program": sys.argv[0] if sys.argv else "", "launches": self.launches,
                           "kernels": [one._asdict() for one in self.kernels], "misses": [one.number for one in self.misses]}, sort_keys=True)

    def summary(self) -> list:
        """Lines: the sums, then each kernel of Triton's and each launch without code, with its reason."""
        lines = ["%s of %s ran Kiln's code, %d Triton's" % (_launches(self.by_kiln), _kernels(self.kernel_count(*_KILNS)), self.launches[TRITON])]
        if self.by_kiln:
            found = ", ".join("%s %d" % (words, self.launches[origin]) for origin, words in ((BUNDLE, "from bundles"), (CACHE, "from the cache"), (COMPILED, "compiled now")))
            lines.append("  launches of code %s (%s)" % (found, _kernels(self.kernel_count(COMPILED))))
        for one in self.kernels:
            if one.origin in (TRITON, MISSING) and one.launches:
                lines.append("  %s: %s of %s%s" % ("Triton's" if one.origin == TRITON else "no code", _launches(one.launches), one.name,
                                                   ": " + one.reason if one.reason else ""))
        return lines

    def text(self) -> str:
        """The summary, and a table of all kernels, those with the most launches first."""
        lines = self.summary()
        rows = sorted(self.kernels, key=lambda one: (-one.launches, one.number))
        width = max((len(one.name) for one in rows), default=0)
        lines += ["  %10d  %-8s  %8.3f s  %-8s  %-*s  %s" % (one.launches, one.origin, one.seconds, one.target or "-", width, one.name, one.reason)
                  for one in rows]
        return "\n".join(line.rstrip() for line in lines)

    __str__ = text


def monitor(since=None) -> Monitor:
    """What this process launched until now; with `since`, an earlier answer, what it launched after that. The replay of a graph is no launch."""
    with _adding:
        rows = list(_rows)
    before = {one.number: one.launches for one in since.kernels} if since is not None and since.process == os.getpid() else {}
    kernels = [_row(number, row, row.launches - before.get(number, 0)) for number, row in enumerate(rows)]
    if since is not None:
        kernels = [one for one in kernels if one.launches or one.number not in before]
    sums = dict.fromkeys(ORIGINS, 0)
    for one in kernels:
        sums[one.origin] += one.launches
    return Monitor(os.getpid(), sums, kernels)


def launches():
    """How many launches of this process ran Kiln's code, and how many Triton's: {"kiln": 12, "triton": 0}. The replay of a graph is none."""
    now = monitor()
    return {"kiln": now.by_kiln, "triton": now.launches[TRITON]}


def _in_child():
    global _adding
    _adding = threading.Lock()
    for row in _rows:
        row.forked()


os.register_at_fork(after_in_child=_in_child)
