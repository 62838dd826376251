#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plants faults into the product's C sources, one at a time, and shows which tests see them.

    tools/plant-faults.py draw --seed=N [--counts=base=10,...]   prints a list of drawn faults, as tests/planted-faults.tsv has it
    tools/plant-faults.py time                                   how long each test program takes, in build/planted/times.tsv
    tools/plant-faults.py run [--most=SECONDS] [NUMBER...]       plants each fault of the list; results in build/planted/results.tsv

Faults are drawn, not chosen: for each folder a kind, then a place where that kind fits, from the seed. One that does not compile, or compiles to the
same object, is no fault, and the next is drawn. KINDS has the kinds.

Run it in a clone of its own that has been built (`make all tests`): it changes sources, builds what the change touches and puts the source back. It
refuses to begin where the tree has changes. A fault is caught when a quick test (LIMIT) of the folders in TESTS fails that passes without the fault;
tests whose names have words of the file's path run first, and the first failure ends the search. MAKE in the environment is the command that builds."""
import argparse
import glob
import os
import random
import re
import shlex
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "house"))
import sources  # noqa: E402

LIST, WORK, BUILD = "tests/planted-faults.tsv", "build/planted", "build/release"
COUNTS = "base=8,cache=11,compiler=30,runtime=11"
LIMIT = 40  # seconds that a quick test takes at most
# Quick tests of a folder: its own, and those that use it most.
COMMANDS = ["tools/test_commands"]
TESTS = {
    "base": ["base/*", "tuner/*", "bundle/*", "targets/*", "cache/*", "runtime/*", "compiler/*"] + COMMANDS,
    "cache": ["cache/*", "bundle/*", "tuner/*", "tools/test_cache_tool", "tools/test_key_matrix", "tools/test_sign", "tools/test_resign"] + COMMANDS,
    "compiler": ["compiler/*", "codegen/*", "ptx/*", "tools/test_report"] + COMMANDS,
    "runtime": ["runtime/*"] + COMMANDS,
}
WITH_PROGRAMS = ("cache/", "runtime/", "tools/", "ptx/", "bundle/")  # these tests start the programs

SWAPS = {"comparison": [(" < ", " <= "), (" <= ", " < "), (" > ", " >= "), (" >= ", " > "), (" == ", " != "), (" != ", " == ")],
         "logic": [(" && ", " || "), (" || ", " && ")],
         "arithmetic": [(" + ", " - "), (" - ", " + "), (" << ", " >> "), (" += ", " -= "), ("++", "--")],
         "answer": [("return true;", "return false;"), ("return false;", "return true;")]}
KINDS = [*SWAPS, "constant", "condition", "statement"]


def mutations(line):
    """(kind, line with a fault) of a line of code without comments; texts in it are blank."""
    for kind, swaps in SWAPS.items():
        for old, new in swaps:
            for m in re.finditer(re.escape(old), line):
                yield kind, m.start(), m.end(), new
    for m in re.finditer(r"(?<![\w.])\d{1,3}(?![\w.])", line):
        yield "constant", m.start(), m.end(), str(int(m[0]) + 1)
    for m in re.finditer(r"\bif \(", line):
        depth, at = 1, m.end()
        while at < len(line) and depth:
            depth += {"(": 1, ")": -1}.get(line[at], 0)
            at += 1
        if not depth:
            yield "condition", m.end(), at, "!(" + line[m.end():at] + ")"
    m = re.fullmatch(r"\s*((?!return\b|goto\b|break\b|continue\b|typedef\b|case\b|else\b|if\b|for\b|while\b)[\w>.*()\[\]&-]+(?: [-+*/|&^<>]*= .*|\(.*\)|\+\+|--);)", line)
    if m:
        yield "statement", m.start(1), m.end(1), ""


def blank(text):
    """Comments and the insides of texts as blanks; every character keeps its place."""
    return re.sub(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'", lambda m: re.sub(r"[^\n]", "_" if m[0][0] in "\"'" else " ", m[0]),
                  text, flags=re.S)


def candidates(folder):
    """{kind: [(path, function, line number, new line)]} of a folder, in order of the tree."""
    found = {kind: [] for kind in KINDS}
    functions = sources.lint().functions
    for path in sorted(glob.glob(folder + "/**/*.c", recursive=True)):
        text = open(path, encoding="utf-8").read()
        lines = text.split("\n")
        for name, first, count, body in functions(blank(text)):
            for number, code in enumerate(body.split("\n"), first):
                if "KILN_ASSERT" in code or (number == first and count > 1):
                    continue
                for kind, start, end, new in mutations(code):
                    whole = lines[number - 1]
                    found[kind].append((path, name, number, whole[:start] + new + whole[end:]))
    return found


def build(*targets):
    """Whether they could be built."""
    return subprocess.run(shlex.split(os.environ.get("MAKE", "make")) + ["-s", *targets], capture_output=True).returncode == 0


class Planted:
    """A source with a fault, until the end of a `with`."""

    def __init__(self, path, number, line):
        self.path, self.number, self.line = path, number, line

    def __enter__(self):
        self.text = open(self.path, encoding="utf-8").read()
        lines = self.text.split("\n")
        lines[self.number - 1] = self.line
        self.write("\n".join(lines))

    def write(self, text):
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(text)

    def __exit__(self, *_):
        self.write(self.text)


def makes_other_code(path, number, line):
    name = "%s/obj/%s.o" % (BUILD, path)
    if not build(name):
        sys.exit("%s does not build without a fault" % path)
    before = open(name, "rb").read()
    with Planted(path, number, line):
        done = build(name)
        other = done and open(name, "rb").read() != before
    if not build(name) or open(name, "rb").read() != before:
        sys.exit("%s is another object after the fault" % path)
    return other


def draw(seed, counts):
    rng = random.Random(seed)
    print("# Faults drawn by `tools/plant-faults.py draw --seed=%d`; docs/checked.md has what caught them." % seed)
    print("number\tfile\tfunction\tkind\twhich\tline\twith the fault")
    total = 0
    for folder, count in counts:
        found, taken = candidates(folder), set()
        while len(taken) < count:
            path, name, number, line = fault = rng.choice(found[kind := rng.choice(KINDS)])
            if fault in taken or not makes_other_code(path, number, line):
                continue
            taken.add(fault)
            total += 1
            lines = open(path, encoding="utf-8").read().split("\n")
            which = 1 + lines[:number - 1].count(lines[number - 1])
            print("%d\t%s\t%s\t%s\t%d\t%s\t%s" % (total, path, name, kind, which, lines[number - 1].strip(), line.strip()), flush=True)


def faults():
    """Rows of the list: (number, path, line number, new line, row)."""
    for row in open(LIST, encoding="utf-8").read().split("\n")[2:]:
        if not row:
            continue
        number, path, name, kind, which, old, new = row.split("\t")
        places = [n for n, line in enumerate(open(path, encoding="utf-8").read().split("\n"), 1) if line.strip() == old]
        if len(places) < int(which):
            sys.exit("%s: fault %s has no place: the line is no longer there; draw another" % (LIST, number))
        yield int(number), path, places[int(which) - 1], new, (name, kind, old)


def run_test(name, limit):
    """(seconds, what failed or None)."""
    start = time.monotonic()
    environment = dict(os.environ, KILN_BUILD=BUILD, LC_ALL="C")
    with open(os.path.join(WORK, "log"), "wb+") as log:
        process = subprocess.Popen(["timeout", "-k", "1", str(limit), "%s/tests/%s" % (BUILD, name)], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                   env=environment, start_new_session=True)
        status = process.wait()
        subprocess.run(["pkill", "-KILL", "-s", str(process.pid)], check=False)  # what a test that was stopped leaves behind
        log.seek(0)
        text = log.read().decode(errors="replace")
    failed = re.findall(r"\[(?:FAIL|CRASH)\] (\w+::\w+)", text)
    if status == 0 and not failed:
        return time.monotonic() - start, None
    if status in (124, 137):
        return time.monotonic() - start, "does not end"
    return time.monotonic() - start, (failed or ["exit %d" % status])[0].replace("::", ".")


def quick_tests(most):
    """{name: seconds} of those that take at most so long."""
    rows = (line.split("\t") for line in open(os.path.join(WORK, "times.tsv"), encoding="utf-8").read().splitlines())
    return {name: float(seconds) for name, seconds, failed in rows if failed == "passed" and float(seconds) <= most}


def take_times():
    done = {line.split("\t")[0] for line in open(os.path.join(WORK, "times.tsv"), encoding="utf-8")} if os.path.exists(os.path.join(WORK, "times.tsv")) else set()
    names = {n[len("tests/"):-2] for tests in TESTS.values() for t in tests for n in glob.glob("tests/%s.c" % t)}
    for name in sorted(names - done):
        seconds, failed = run_test(name, LIMIT)
        with open(os.path.join(WORK, "times.tsv"), "a", encoding="utf-8") as file:
            file.write("%s\t%.1f\t%s\n" % (name, seconds, failed or "passed"))


def tests_of(path, times):
    patterns = TESTS[path.split("/")[0]]
    words = set(re.split(r"[/_.]", path)) - {"c", "compiler"}
    names = {n[len("tests/"):-2]: place for place, t in reversed(list(enumerate(patterns))) for n in glob.glob("tests/%s.c" % t)}
    known = [n for n in names if n in times]
    return sorted(known, key=lambda n: (-len(words & set(re.split(r"[/_]", n))), times[n] + 3 * names[n]))


def plant(number, path, at, line, times):
    """(what caught it, or None; how many programs ran)."""
    with Planted(path, at, line):
        if not build("%s/obj/%s.o" % (BUILD, path)):
            return "does not compile", 0
        names, ran, has_programs = tests_of(path, times), 0, False
        while names:
            some, names = names[:1 + 2 * ran], names[1 + 2 * ran:]  # few at first: most faults are caught by the first
            wanted = ["%s/tests/%s" % (BUILD, name) for name in some]
            if not has_programs and any(name.startswith(WITH_PROGRAMS) for name in some):
                wanted += ["programs", "libraries", "%s/interpreted/libcuda.so.1" % BUILD]
                has_programs = True
            if not build(*wanted):
                sys.exit("fault %d: the tests do not build" % number)
            for name in some:
                ran += 1
                _, failed = run_test(name, 60 + 3 * int(times[name]))
                if failed:
                    return "%s: %s" % (name, failed), ran
    return None, ran


def run(numbers, most):
    results = os.path.join(WORK, "results.tsv")
    done = {int(line.split("\t")[0]) for line in open(results, encoding="utf-8")} if os.path.exists(results) else set()
    if subprocess.run(["git", "diff", "--quiet"]).returncode:
        sys.exit("the tree has changes: plant faults in a clone of its own")
    times = quick_tests(most)
    for number, path, at, line, (name, kind, old) in faults():
        if number in done or (numbers and number not in numbers):
            continue
        start = time.monotonic()
        caught, ran = plant(number, path, at, line, times)
        with open(results, "a", encoding="utf-8") as file:
            file.write("%d\t%s\t%s\t%s\t%d programs\t%.0f s\n" % (number, path, name, caught or "SURVIVED", ran, time.monotonic() - start))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("draw", "time", "run"))
    parser.add_argument("numbers", nargs="*", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--counts", default=COUNTS)
    parser.add_argument("--most", type=float, default=LIMIT, help="run: seconds that a test may have taken")
    options = parser.parse_intermixed_args()  # numbers may follow options
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    os.makedirs(WORK, exist_ok=True)
    if options.what == "draw":
        draw(options.seed, [(f, int(n)) for f, n in (part.split("=") for part in options.counts.split(","))])
    elif options.what == "time":
        take_times()
    else:
        run(options.numbers, options.most)


if __name__ == "__main__":
    main()
