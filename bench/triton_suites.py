#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The same Triton kernels by Kiln and by Triton on a GPU: all operations of Liger Kernel and Triton's tutorials, forward and backward, at drawn sizes.

bench/triton_suites.py PACKAGE FOLDER --liger FOLDER --tutorials FOLDER [--seed COMMIT] [--only WORDS] [--limit-s N] [--cases N] [--rounds N] [--reps N] [--jobs N]
bench/triton_suites.py PACKAGE FOLDER ... --prepare       compiles only, which needs no GPU
bench/triton_suites.py --sum FILE...                      the table of rows.jsonl of several runs

PACKAGE is the folder with Kiln's Python package `kiln`, with the program kiln in ../bin of it or in PATH. --liger is where `pip install --no-deps --target FOLDER
liger_kernel` put Liger Kernel; --tutorials the folder python/tutorials of Triton's repository at the version that is installed (release/3.6.x). FOLDER gets caches, a
bundle, and rows.jsonl, to which a line is added for each case as soon as it is measured; a case whose line is there is not measured again.

What the cases launch is compiled first, by both, in --jobs processes, without a GPU (suite_compile.py), unless FOLDER has it. Then two processes live side by side, one with
Kiln behind @triton.jit (from the bundle; what it lacks is compiled), one without, and take turns (suite_process.py): both make the same inputs, run the case once, which
tunes what is tuned, each by its own tuner, and their results are compared. Then --rounds times each in turn runs it --reps times, L2 flushed before each direction, and CUPTI says how
long each kernel took on the GPU. A kernel that Triton runs in less time than Kiln is measured for as many rounds again. Kernels are matched by their order. Bytes are those
of the tensors that a kernel reads and those that it writes, as its interface says.
"""
import argparse
import collections
import json
import math
import os
import select
import statistics
import subprocess
import sys
import time

BENCH = os.path.dirname(os.path.abspath(__file__))
BOUNDS = {"bf16": 3e-2, "f16": 1e-2, "f32": 2e-3, "e5m2": 0.1}  # relative distance of results
PEAKS = {"bf16": 989e12, "f16": 989e12, "f32": 495e12, "e5m2": 1979e12}  # FLOP/s of an H100's and an H200's tensor cores
NEAR, SHORT_US = 0.85, 5.0


def say(text=""):
    print(text, flush=True)


# ---------------------------------------------------------------------------------------- running

class Worker:
    """A process that runs cases; it is started again where it ended."""

    def __init__(self, who, options):
        self.who, self.options, self.process = who, options, None

    def start(self):
        folder, options = os.path.abspath(self.options.folder), self.options
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("KILN_", "TRITON_", "PYTHONPATH"))}
        places = [BENCH, options.liger]
        environment["TRITON_CACHE_DIR"] = os.path.join(folder, "triton")
        if self.who == "kiln":
            places.insert(0, options.package)
            environment.update(KILN_TRITON="1", KILN_CACHE_DIR=os.path.join(folder, "kiln"), TRITON_CACHE_DIR=os.path.join(folder, "unused"))
            if os.path.exists(os.path.join(folder, "kernels.kbundle")):
                environment.update(KILN_TRITON_BUNDLE=os.path.join(folder, "kernels.kbundle"), KILN_TRITON_MISS="compile")
        environment["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, places))
        wishes = {"who": self.who, "seed": options.seed, "tutorials": options.tutorials and os.path.abspath(options.tutorials), "only": options.only, "most": options.cases,
                  "folder": folder}
        self.errors = open(os.path.join(folder, self.who + ".errors"), "a")
        self.process = subprocess.Popen([sys.executable, "-W", "ignore", "-c", "import suite_process; suite_process.main()", json.dumps(wishes)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.errors, env=environment, text=True, bufsize=1)
        return self.answer(180)

    def answer(self, seconds):
        """The next line; an error where there is none in time."""
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            self.stop()
            return {"error": "no answer in %d s" % seconds}
        line = self.process.stdout.readline()
        if not line:
            self.stop()
            return {"error": "the process ended"}
        return json.loads(line)

    def ask(self, seconds, **wish):
        if self.process is None:
            found = self.start()
            if "error" in found:
                return found
        try:
            print(json.dumps(wish), file=self.process.stdin, flush=True)
        except BrokenPipeError:
            pass
        return self.answer(seconds)

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.errors.close()
            self.process = None


def planned(options):
    """What suite_compile.py wrote, or nothing."""
    path = os.path.join(options.folder, "plan.json")
    if not os.path.exists(path):
        return {"cases": {}, "failed": {}}
    with open(path) as file:
        return json.load(file)


def prepare(options, cases):
    """Compiles for all cases in a process of its own, which has no GPU to wait for, unless that was done."""
    plan = planned(options)
    if {case.title for case in cases} <= {*plan["cases"], *plan["failed"]}:
        return
    places = os.pathsep.join(map(os.path.abspath, (options.package, BENCH, options.liger)))
    environment = dict(os.environ, PYTHONPATH=places)
    script = ("import sys, suite_compile, suite_cases\n"
              "with suite_compile.without_memory():\n    import liger_kernel.ops\n"
              "seed, tutorials, only, most, folder, jobs = sys.argv[1:]\n"
              "suite_compile.prepare(suite_cases.cases(seed, tutorials, only, int(most)), folder, int(jobs), lambda text: print(text, flush=True))\n")
    subprocess.run([sys.executable, "-W", "ignore", "-c", script, options.seed, os.path.abspath(options.tutorials) if options.tutorials else "", options.only, str(options.cases),
                    os.path.abspath(options.folder), str(options.jobs)], env=environment, check=options.is_only_prepared)


def medians(rounds):
    """[(name, us)] of the kernels of one direction: of all runs that launched as most did."""
    runs = [run for one in rounds for run in one]
    if not runs:
        return []
    shape = collections.Counter(tuple(name for name, _ in run) for run in runs).most_common(1)[0][0]
    same = [run for run in runs if tuple(name for name, _ in run) == shape]
    return [(name, statistics.median(run[i][1] for run in same)) for i, name in enumerate(shape)]


def grouped(theirs, ours, plan, flops):
    """Rows of the kernels of one direction; those with one name and the same bytes are one row with their sum, as chunks of a fused loss are."""
    if len(theirs) != len(ours):
        return None
    planned = plan if plan and [one["name"] for one in plan] == [name for name, _ in theirs] else [{"bytes": 0}] * len(theirs)
    rows = collections.OrderedDict()
    for (name, t), (_, k), one in zip(theirs, ours, planned):
        row = rows.setdefault((name, one["bytes"]), {"kernel": name, "count": 0, "triton": 0.0, "kiln": 0.0, "bytes": 0, "flops": flops.get(name, 0)})
        row["count"] += 1
        row["triton"] += t
        row["kiln"] += k
        row["bytes"] += one["bytes"]
    return list(rows.values())


def measure(case, number, workers, options, plan):
    """A line of rows.jsonl."""
    line = {"case": case.title, "dtype": case.dtype, "is_tuned": case.is_tuned, "parts": {}}
    for who in "triton", "kiln":
        begin = time.monotonic()
        found = workers[who].ask(options.each, do="first", case=number)
        line[who + "_first_s"] = time.monotonic() - begin
        if "error" in found:
            line["error"] = "%s: %s" % (who, found["error"])
            return line
    line.update(launches=found["launches"], apart=found["apart"], flops=found["flops"])
    rounds = {who: [] for who in workers}

    def go():
        for _ in range(options.rounds):
            for who in "triton", "kiln":
                found = workers[who].ask(options.each, do="time", reps=options.reps)
                if "error" in found:
                    line["error"] = "%s: %s" % (who, found["error"])
                    return False
                rounds[who].append(found)
        for part in "forward", "backward":
            theirs, ours = (medians([one[part] for one in rounds[who]]) for who in ("triton", "kiln"))
            rows = grouped(theirs, ours, plan.get(case.title, {}).get(part), line["flops"])
            if rows is None:
                line["error"] = "%s: Triton launched %s, Kiln %s" % (part, [name for name, _ in theirs], [name for name, _ in ours])
                return False
            line["parts"][part] = rows
        return True
    if go() and any(row["kiln"] > row["triton"] for rows in line["parts"].values() for row in rows):
        line["is_repeated"] = True
        go()
    for who in workers:
        workers[who].ask(60, do="drop")
    return line


def run(options):
    end = time.monotonic() + options.limit_s
    os.makedirs(options.folder, exist_ok=True)
    sys.path.insert(0, os.path.abspath(options.liger))
    import suite_cases
    cases = suite_cases.cases(options.seed, options.tutorials, options.only, options.cases)
    prepare(options, cases)
    if options.is_only_prepared:
        return 0
    plan = planned(options)["cases"]
    path = os.path.join(options.folder, "rows.jsonl")
    done = {line["case"] for line in read([path])} if os.path.exists(path) else set()
    workers = {who: Worker(who, options) for who in ("triton", "kiln")}
    try:
        hello = {who: worker.start() for who, worker in workers.items()}
        say("%s, %s; copies move %.0f GB/s" % (hello["triton"]["device"], hello["triton"]["versions"], hello["triton"]["copy"] / 1e9))
        for number, case in enumerate(cases):
            if case.title in done:
                continue
            if time.monotonic() > end:
                say("the time of --limit-s is over: %s and what follows were not measured" % case.title)
                break
            line = measure(case, number, workers, options, plan)
            line.update(copy=hello["triton"]["copy"], device=hello["triton"]["device"], versions=hello["triton"]["versions"], seed=options.seed)
            with open(path, "a") as file:
                file.write(json.dumps(line) + "\n")
            say("%s%s" % (case.title, ": " + line["error"] if "error" in line else "".join(
                "  %s %.2f" % (row["kernel"], row["triton"] / row["kiln"]) for rows in line["parts"].values() for row in rows)))
    finally:
        for worker in workers.values():
            worker.stop()
    return summary(read([path]))


# ---------------------------------------------------------------------------------------- the table

def read(paths):
    lines = {}
    for path in paths:
        with open(path) as file:
            for line in map(json.loads, file):
                lines[line["case"]] = line
    return list(lines.values())


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def of_peak(row, line):
    """How much of the copy's bandwidth, or of the tensor cores' peak, Triton's kernel has; None where neither is known."""
    found = [row["bytes"] / row["triton"] * 1e6 / line["copy"]] if row["bytes"] else []
    if row["flops"]:
        found.append(row["flops"] / row["triton"] * 1e6 / PEAKS[line["dtype"]])
    return max(found) if found else None


def summary(lines):
    """Prints the table; 1 where a result is wrong or a case failed."""
    rows, wrong = [], []
    for line in lines:
        if "error" in line:
            wrong.append("%s: %s" % (line["case"], line["error"]))
        far = max(line.get("apart") or [0.0])
        if far > BOUNDS[line["dtype"]]:
            wrong.append("%s: results are %.2g apart" % (line["case"], far))
        if line.get("launches", {}).get("triton") or line.get("launches", {}).get("missing"):
            wrong.append("%s: not all launches ran Kiln's code: %s" % (line["case"], line["launches"]))
        for part, its in line["parts"].items():
            rows += [(line, part, row) for row in its]
    if lines and "device" in lines[0]:
        say("\n%s, %s; copies move %.0f GB/s; seed %s\n" % (lines[0]["device"], lines[0]["versions"], lines[0]["copy"] / 1e9, lines[0]["seed"]))
    say("%-62s %-8s %-44s %9s %9s %6s %6s %8s" % ("case", "part", "kernel", "Triton us", "Kiln us", "ratio", "peak", "launches"))
    for line, part, row in rows:
        peak = of_peak(row, line)
        launches = sum(line.get("launches", {}).get(one, 0) for one in ("bundle", "cache", "compiled"))
        say("%-62s %-8s %-44s %9.1f %9.1f %6.3f %6s %8d" % (line["case"], part, row["kernel"] + (" x%d" % row["count"] if row["count"] > 1 else ""), row["triton"], row["kiln"],
                                                        row["triton"] / row["kiln"], "-" if peak is None else "%.2f" % peak, launches))
    say()
    ratio = lambda one: one[2]["triton"] / one[2]["kiln"]
    is_long = lambda one: min(one[2]["triton"], one[2]["kiln"]) / one[2]["count"] >= SHORT_US
    for title, wanted in (("all", lambda one: True), ("from %g us" % SHORT_US, is_long), ("shorter", lambda one: not is_long(one)), ("liger", lambda one: one[0]["case"].startswith("liger")),
                          ("tutorials", lambda one: one[0]["case"].startswith("tutorial")), ("forward", lambda one: one[1] == "forward"), ("backward", lambda one: one[1] == "backward"),
                          ("Triton below %.2f of a peak" % NEAR, lambda one: is_long(one) and (of_peak(one[2], one[0]) or 1) < NEAR)):
        its = sorted(filter(wanted, rows), key=ratio)
        if its:
            values = list(map(ratio, its))
            say("%-28s %4d kernels: geometric mean %.3f, tenth percentile %.3f, least %.3f; %d below 0.97" % (
                title, len(its), geomean(values), values[len(values) // 10], values[0], sum(one < 0.97 for one in values)))
    say("\nthe ten worst from %g us:" % SHORT_US)
    for line, part, row in sorted(filter(is_long, rows), key=ratio)[:10]:
        say("  %.3f  %s, %s: %s (Triton %.1f us, Kiln %.1f)" % (row["triton"] / row["kiln"], line["case"], part, row["kernel"], row["triton"], row["kiln"]))
    for text in wrong:
        say("WRONG: " + text)
    say("%d cases, %d kernels, %d wrong" % (len(lines), len(rows), len(wrong)))
    return int(bool(wrong))


def main():
    if sys.argv[1:2] == ["--sum"]:
        return summary(read(sys.argv[2:]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package")
    parser.add_argument("folder")
    parser.add_argument("--liger", required=True)
    parser.add_argument("--tutorials")
    parser.add_argument("--seed", default="0", help="the measured commit")
    parser.add_argument("--only", default="", help="words, one of which the title of a case has to have, with commas between")
    parser.add_argument("--limit-s", type=float, default=480)
    parser.add_argument("--each", type=float, default=90, help="seconds for an answer of a process")
    parser.add_argument("--cases", type=int, default=3, help="of each operation")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--prepare", dest="is_only_prepared", action="store_true")
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
