#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the tests of a build folder and ends with the line of sums.

    tests/run.py BUILD [-j N] [--log FILE] [--list] [PART...]

Takes the programs below BUILD/tests and the scripts tests/python/test_*.py whose names contain one of the PARTs, all of them without one. N
of them run at a time (one a processor), and each is printed when it ends. The last line of a program counts its tests. A program that ends without
that line counts as one failure, and so does one that runs for longer than KILN_TEST_TIMEOUT seconds. What failed is printed where it happens and once
more before the sums, so that the end of a log names it.

With KILN_TEST_FULL=1 the long tests (LONG) run in parts. `--log` adds a line to FILE for everything that has ended; what has passed there already is
not run again, so that the long matrix of one commit may be run in several goes and on several machines."""
import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

FULL = os.environ.get("KILN_TEST_FULL") == "1"
TIMEOUT = float(os.environ.get("KILN_TEST_TIMEOUT") or (40000 if FULL else 3000))
# Debian's interpreter has Debian's NumPy; another may be first in the path.
PYTHON = os.environ.get("PYTHON") or "/usr/bin/python3"
SUMS = re.compile(rb"^(\d+) passed, (\d+) failed, (\d+) skipped\r?$", re.M)

# What takes minutes begins first: the last program to end should be a short one.
FIRST = ["tools/test_matrix", "tools/test_commands", "codegen/test_stages", "tools/test_determinism", "compiler/test_gpu_library", "tools/test_demo", "tools/test_kernels"]

# Of check-full: program, tests (a pattern of Criterion), parts. The tests run once for each part, with KILN_TEST_PART=K/N, and take some of their
# cases (kiln_test_wants_piece, kiln_test_seeds). The other tests of the program run once.
LONG = [
    ("codegen/test_byte_products", "byte_products/*", 8),
    ("codegen/test_compile_order", "compile_order/*", 8),
    ("codegen/test_emulation", "emulation/@(kernels_that_read_again|products|offsets_that_wrap)", 30),
    ("codegen/test_flush_drawn", "flush_drawn/*", 4),
    ("codegen/test_gpu_random", "gpu_random/*", 20),
    ("codegen/test_host_random", "host_random/*agree*", 20),
    ("codegen/test_memory_order", "memory_order/rereads*", 10),
    ("codegen/test_nvptx_bounds", "nvptx_bounds/library*", 20),
    ("codegen/test_offsets", "offsets/*wrap*", 10),
    ("codegen/test_op_matrix", "op_matrix/*", 18),
    ("codegen/test_stages", "stages/*", 100),
    ("compiler/test_gpu_library", "gpu_library/*", 80),
    ("compiler/test_gpu_nests", "gpu_nests/*", 100),
    ("compiler/test_interpreter_random", "random_kernels/*", 10),
    ("ptx/test_ptx_kernels", "ptx_kernels/@(every_config|generated|kernels_that_read_again|products|results_stored_by_the_engine)", 100),
    ("tools/test_matrix", "matrix/@(all_kernels|recorded_texts)*", 65),
]


class Unit:
    """One run of a program: of all tests, of those of a pattern, or of a part K/N of their cases."""

    def __init__(self, program, words, pattern=None, part=None):
        self.program, self.pattern, self.part = program, pattern, part
        self.words = words + ["--filter", pattern] if pattern else words
        self.title = " ".join(word for word in (program, pattern, part) if word)


def units_of_program(name, path):
    rows = [row for row in LONG if FULL and row[0] == name]
    for _, pattern, parts in rows:
        for part in range(parts):
            yield Unit(name, [path], pattern, f"{part}/{parts}")
    yield Unit(name, [path], "!(" + "|".join(pattern for _, pattern, _ in rows) + ")" if rows else None)


def find(build, parts):
    def is_wanted(name):
        return not parts or any(part in name for part in parts)

    units, absent = [], []
    for folder, _, files in os.walk(os.path.join(build, "tests")):
        for file in files:
            program = os.path.join(folder, file)
            name = os.path.relpath(program, os.path.join(build, "tests"))
            if os.access(program, os.X_OK) and os.path.exists(f"tests/{name}.c") and is_wanted(name):
                units += units_of_program(name, os.path.abspath(program))
    for file in os.listdir("tests/python"):
        name = f"python/{file[:-3]}"
        if re.fullmatch(r"test_\w+\.py", file) and is_wanted(name):
            if os.access(PYTHON, os.X_OK) or os.sep not in PYTHON:
                units.append(Unit(name, [PYTHON, f"tests/{name}.py"]))
            else:
                absent.append(name)
    units.sort(key=lambda unit: (FIRST.index(unit.program) if unit.program in FIRST else len(FIRST), unit.part is None, unit.title))
    return units, sorted(absent)


def sums_of(output, status):
    """Tests passed, failed and skipped, by the program's last line of sums."""
    found = SUMS.findall(output)
    # The line in the output of a program that was stopped is of one that it ran.
    passed, failed, skipped = map(int, found[-1]) if found and status is not None else (0, 1, 0)
    return [passed, failed or int(status != 0), skipped]


class Runner:
    def __init__(self, build, log):
        self.environment = dict(os.environ, KILN_BUILD=build, LC_ALL="C")
        self.processors = sorted(os.sched_getaffinity(0))
        self.log = log
        self.lock = threading.Lock()  # of what follows, and of the terminal
        self.sums = {}  # of tests, by program and pattern
        self.failures = []
        self.running = set()

    def add(self, unit, sums):
        """A test of several parts has passed if all have, and is skipped if all are."""
        before = self.sums.get((unit.program, unit.pattern))
        if before:
            failed, skipped = max(before[1], sums[1]), min(before[2], sums[2])
            sums = [sum(sums) - failed - skipped, failed, skipped]
        self.sums[unit.program, unit.pattern] = sums

    def total(self):
        """A run of some tests of a program counts the others as skipped."""
        total = [0, 0, 0]
        for program in {program for program, _ in self.sums}:
            runs = [sums for key, sums in self.sums.items() if key[0] == program]
            passed, failed = sum(run[0] for run in runs), sum(run[1] for run in runs)
            tests = max(sum(run) for run in runs)
            for i, count in enumerate((passed, failed, max(tests - passed - failed, 0))):
                total[i] += count
        return total

    def run(self, unit, processors):
        start = time.monotonic()
        os.sched_setaffinity(0, processors if unit.part else self.processors)  # of this thread and what it starts
        environment = dict(self.environment, KILN_TEST_PART=unit.part) if unit.part else self.environment
        with tempfile.TemporaryFile() as log:
            process = subprocess.Popen(unit.words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True)
            with self.lock:
                self.running.add(process.pid)
            try:
                status = process.wait(TIMEOUT)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                status = None
            log.seek(0)
            output = log.read()
        if status is None:
            output += f"\nstopped after {TIMEOUT:g} s\n".encode()
        with self.lock:
            self.running.discard(process.pid)
            self.tell(unit, sums_of(output, status), time.monotonic() - start, output.decode(errors="replace").splitlines())

    def tell(self, unit, sums, seconds, lines):
        self.add(unit, sums)
        print(f"{unit.title:<40} {sums[0]} passed, {sums[1]} failed, {sums[2]} skipped  ({seconds:.1f} s)")
        shown = [line for line in lines if re.search(r"\[SKIP\]|skipped:", line, re.I)][:20]
        if sums[1]:
            shown = lines[-60:]
            self.failures.append((unit.title, lines[-20:]))
        if os.environ.get("KILN_TEST_VERBOSE"):
            shown = lines
        for line in shown:
            print(f"    {line}")
        sys.stdout.flush()
        if self.log:
            print(json.dumps({"test": unit.title, "sums": sums, "seconds": round(seconds, 1), "end": lines[-20:] if sums[1] else []}), file=self.log, flush=True)

    def stop(self):
        with self.lock:
            for pid in self.running:
                os.killpg(pid, signal.SIGKILL)


def passed_before(path):
    """What FILE says of runs that ended before: title -> sums, of those without a failure."""
    before = {}
    if os.path.exists(path):
        with open(path) as lines:
            for line in lines:
                try:
                    row = json.loads(line)
                    before[row["test"]] = row["sums"]
                except (ValueError, TypeError, KeyError):
                    pass  # a run that was killed wrote half of it: its test is not known to have passed
    return {title: sums for title, sums in before.items() if not sums[1]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", help="the build folder, build/release")
    parser.add_argument("-j", "--jobs", type=int, default=len(os.sched_getaffinity(0)), help="how many run at a time")
    parser.add_argument("--log", help="a file that gets a line for each run; what has passed there is not run again")
    parser.add_argument("--list", action="store_true", help="print what would run")
    parser.add_argument("part", nargs="*", help="a part of the names of what should run")
    options = parser.parse_intermixed_args()
    units, absent = find(options.build, options.part)
    if not units and not absent:
        print(f"tests/run.py: no test of {options.build} {'has such a name' if options.part else 'is there'}", file=sys.stderr)
        return 2
    before = passed_before(options.log) if options.log else {}
    log = open(options.log, "a") if options.log and not options.list else None
    if log and log.tell():
        log.write("\n")  # what was written last may be half a line
    runner = Runner(options.build, log)
    for unit in units:
        if unit.title in before:
            runner.add(unit, before[unit.title])
    units = [unit for unit in units if unit.title not in before]
    if options.list:
        print(*(unit.title for unit in units), sep="\n")
        return 0

    waiting = iter(units)

    def work(processors):
        while True:
            with runner.lock:
                unit = next(waiting, None)
            if unit is None:
                return
            runner.run(unit, processors)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # A part has processors of its own: there are as many parts as keep all of them busy.
    jobs = max(options.jobs, 1)
    threads = [threading.Thread(target=work, args=(runner.processors[i::jobs] or runner.processors,), daemon=True) for i in range(jobs)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except (KeyboardInterrupt, SystemExit):
        runner.stop()
        raise
    for name in absent:
        print(f"{name:<40} skipped: {PYTHON} is not installed")
    if runner.failures:
        print("== what failed")
        for title, lines in sorted(runner.failures):
            print(title, *(f"    {line}" for line in lines), sep="\n")
    passed, failed, skipped = runner.total()
    print(f"{passed} passed, {failed} failed, {skipped + len(absent)} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
