# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What traces of tools/house/trace_calls.c say: which functions of ours a run entered, and the way of a reader who follows it."""
import array
import collections
import glob
import os
import re
import subprocess

Function = collections.namedtuple("Function", "path name line")


class Program:
    """A program built for tracing: which function of ours begins at a place of it."""

    def __init__(self, path, root="."):
        self.path, self.root = path, os.path.realpath(root) + os.sep
        lines = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout.split("\n")
        symbols = [line.split() for line in lines if len(line.split()) == 3]
        self.start = next(int(s[0], 16) for s in symbols if s[2] == "__executable_start")
        self.names = {int(s[0], 16) - self.start: s[2] for s in symbols if s[1] in "tTwW"}
        self.known = {}

    def functions(self, places):
        """A dict of the places that are of ours."""
        new = [p for p in places if p and p not in self.known]
        text = subprocess.run(["addr2line", "-e", self.path], input="".join("%#x\n" % (p + self.start) for p in new),
                              capture_output=True, text=True, check=True).stdout.split("\n")
        for place, where in zip(new, text):
            path, _, line = os.path.normpath(re.sub(r" \(.*", "", where)).rpartition(":")
            is_ours = path.startswith(self.root) and line.isdigit()
            self.known[place] = Function(path[len(self.root):], self.names[place], int(line)) if is_ours else None
        return {p: self.known[p] for p in places if p and self.known[p]}


def read(path):
    """The events of a trace: a place is entered, 0 is left."""
    events = array.array("I")
    with open(path, "rb") as file:
        count = int.from_bytes(file.read(8), "little")
        events.frombytes(file.read(4 * count))
    return events


class Run:
    """The traces that one command left in a folder. Each belongs to the program that has a function at every place of it."""

    def __init__(self, folder, programs):
        self.threads = []
        for path in sorted(glob.glob(folder + "/calls.*")):
            events = read(path)
            places = set(events) - {0}
            program = next(p for p in programs if places <= p.names.keys())
            self.threads.append((events, program.functions(places)))

    def functions(self):
        return {f for _, known in self.threads for f in known.values()}

    def parts(self, names):
        """The parts of the traces from the entry of one of these functions to its exit, in order; none within another. None is a function of others, 0 a return."""
        for events, known in self.threads:
            begin = {p for p, f in known.items() if f.name in names}
            depth, start = 0, None
            for i, event in enumerate(events):
                if start is None and event in begin:
                    start, depth = i, 0
                depth += 1 if event else -1
                if start is not None and depth == 0:
                    yield [e and known.get(e) for e in events[start:i + 1]]
                    start = None


def way(parts):
    """The way of a reader who follows these parts, which tools/count-house.py defines: a list of stops, each a file and the functions that are read there."""
    steps, read_before, here = [], set(), []
    for part in parts:
        stack = []
        for function in part:
            if function == 0:
                stack.pop()
                continue
            stack.append(function or stack[-1])  # of others, as xxHash's in a header: the reader stays where he is
            if not function or function in read_before:
                continue
            read_before.add(function)
            same = 0
            while same < min(len(here), len(stack)) and here[same] == stack[same]:
                same += 1
            steps += [(f, False) for f in here[max(same - 1, 0):-1][::-1] + stack[same:-1]] + [(function, True)]
            here = list(stack)
    stops = []
    for function, is_new in steps:
        if not stops or stops[-1][0] != function.path:
            stops.append((function.path, []))
        stops[-1][1].extend([function.name] if is_new else [])
    return stops


def count(stops):
    """(stops, files, returns) of a way."""
    files = {path for path, _ in stops}
    return len(stops), len(files), len(stops) - len(files)
