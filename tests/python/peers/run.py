#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the suites of others with Kiln behind their kernels: run.py SUITE CHECKOUT MODE [options]

SUITE is liger, flaggems, helion, ninetoothed or tutorials; CHECKOUT a folder with Liger-Kernel, FlagGems, Helion, NineToothed, or Triton's tutorials. MODE:
  ids      prints the ids of the tests, less those of excluded.txt
  both     under Triton, then with Kiln, then compares: OUT.triton and OUT.run
  run      with Kiln: passes where the test does and every launch in it ran Kiln's code
  triton   the same tests under Triton, the baseline
  trace    only reads, without a GPU: the IR of what is launched goes to OUT.ttir
  dry      without a GPU: on the CPU, and what was seen is compiled for --target too
Options: --ids FILE (ids, one a line, in place of those of the checkout), --shard I/N, --each N, --out FILE (one JSON object a line), --target NAME (sm_90a), --seconds N (stop after), and after -- what
goes to pytest. A shard has every N-th file of the list, --each at most N tests of every function, spread over its parameters. The kernels of tests that fail
with Kiln are written to OUT.ttir. lease.py runs both modes in several processes.
  run.py --sum BASELINE... -- OURS...   says how many of what passes in the one passes in the other, and what does not

It wants pytest; KILN_PYTHON names the folder with the package where it is not installed.
"""
import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SUITES = {
    # what pytest gets, and what the environment has; files of cute, cutile and pallas test kernels of other languages than Triton's, and Helion's own runs leave its
    # examples for several GPUs out, too
    "liger": (["test/transformers", "--ignore-glob=*cute*", "--ignore-glob=*cutile*", "-c", os.devnull, "--rootdir=."], {}),
    "flaggems": (["tests", "--mode", "quick"], {"GEMS_VENDOR": "nvidia"}),
    "helion": (["test", "--ignore-glob=*test_cute*", "--ignore-glob=*test_pallas*", "--ignore-glob=*test_examples_dist*", "-c", os.devnull, "--rootdir=."], {}),
    "ninetoothed": (["tests", "-c", os.devnull, "--rootdir=."], {}),
    "tutorials": ([os.path.join(HERE, "test_tutorials.py"), "-c", os.devnull, "--rootdir=" + HERE], {}),
}


def read_ids(path):
    with open(path) as file:
        return [line.rstrip("\n") for line in file if line.strip() and not line.startswith("#")]


def as_on_a_gpu(name):
    """An id of FlagGems, whose device is called cpu without a GPU."""
    return name.replace("-cpu-", "-cuda-")


def excluded(path=os.path.join(HERE, "excluded.txt")):
    """By suite, beginnings of ids that are not run, with the reason of each."""
    found = collections.defaultdict(dict)
    for line in read_ids(path):
        row = re.fullmatch(r"(\w+) (\S+): (\S.*)", line)
        if not row or row[1] not in SUITES:
            sys.exit("%s: expected 'SUITE BEGINNING: reason', found '%s'" % (path, line))
        found[row[1]][row[2]] = row[3]
    return found


def ids_of(suite, checkout, more=()):
    """The ids of the tests that a checkout has, without those that are excluded."""
    wish = argparse.Namespace(mode="ids", shard=(0, 1), out="ids", target="", orders=None, rows=None, configs=None, brief=False)
    done = subprocess.run(command(suite, None, ["--collect-only", *more]), cwd=checkout, env=environment(wish, suite, checkout, None), stdout=subprocess.PIPE, check=False)
    ids = {line for line in done.stdout.decode().splitlines() if "::" in line and not line.startswith("ERROR")}
    return without(excluded()[suite], map(as_on_a_gpu, ids) if suite == "flaggems" else ids)


def without(reasons, ids):
    """The ids that begin with none of the excluded ones, sorted; each of these must be the beginning of one, or it has no use any more."""
    ids = set(ids)
    for beginning, reason in reasons.items():
        these = {one for one in ids if one.startswith(beginning)}
        if not these:
            sys.exit("excluded.txt: no test begins with '%s' (%s)" % (beginning, reason))
        ids -= these
    return sorted(ids)


def of_shard(ids, shard, shards):
    """The ids of a shard and their files: every `shards`-th file of tests, so that few are collected for it; those with few tests come first."""
    counts = collections.Counter(one.partition("::")[0] for one in ids)
    files = sorted(counts, key=lambda name: (counts[name], name))
    mine = set(files[shard::shards])
    return [one for one in ids if one.partition("::")[0] in mine], [one for one in files if one in mine]


def some_of_each(ids, most):
    """At most so many tests of every function, spread evenly over the list."""
    functions = collections.defaultdict(list)
    for one in ids:
        functions[one.partition("[")[0]].append(one)
    found = []
    for its in functions.values():
        count = min(most, len(its))
        found += [its[round(i * (len(its) - 1) / max(1, count - 1))] for i in range(count)]
    return found


def command(suite, files, more):
    words, _ = SUITES[suite]
    if files and suite != "tutorials":
        words = [*files, *words[1:]]
    return [sys.executable, "-m", "pytest", "-p", "peers_plugin", "-p", "no:cacheprovider", "-q", "--tb=no", "-W", "ignore",
            "--continue-on-collection-errors", *words, *more]


def environment(arguments, suite, folder, ids):
    """Of a process of pytest. With `orders` and `rows`, descriptors, it runs what the one tells and writes to the other (lease.py)."""
    wish = {"mode": arguments.mode, "ids": ids, "orders": arguments.orders, "rows": arguments.rows, "shard": arguments.shard, "configs": arguments.configs,
            "brief": arguments.brief, "out": os.path.abspath(arguments.out), "target": arguments.target, "suite": os.path.abspath(folder), "folder": os.path.abspath(arguments.out) + ".ttir"}
    folders = [HERE, os.path.join(folder, "src"), folder, os.environ.get("KILN_PYTHON", ""), os.environ.get("PYTHONPATH", "")]
    found = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", KILN_PEERS=json.dumps(wish), PYTHONPATH=os.pathsep.join(os.path.abspath(one) for one in folders if one))
    found.update(SUITES[suite][1])
    if arguments.mode == "trace":
        found["PYTHONOPTIMIZE"] = "1"
    return found


def rows(paths):
    """The rows of files; tests that were started and have no row ended their process, or were stopped with it."""
    for path in paths:
        with open(path) as file:
            found = [json.loads(line) for line in file]
        ended = {row.get("id") for row in found}
        yield from (row for row in found if "started" not in row)
        for name in dict.fromkeys(row["started"] for row in found if "started" in row and row["started"] not in ended):
            yield {"id": name, "outcome": "error", "error": "no end", "kiln": 0, "triton": 0, "kernels": [], "seconds": 0}


def total(baseline, ours):
    """Compares; 1 if something that passes in the one does not in the other."""
    theirs = {row["id"]: row for row in rows(baseline) if "id" in row}
    mine = {row["id"]: row for row in rows(ours) if "id" in row}
    passing = [name for name, row in theirs.items() if row["outcome"] == "passed" and row["triton"]]
    counted = [name for name in passing if name in mine]
    if len(counted) < len(passing):
        print("%d tests that pass under Triton were not reached under Kiln: %s .." % (len(passing) - len(counted), next(name for name in passing if name not in mine)))
    passed = [name for name in counted if mine[name]["outcome"] == "passed" and mine[name]["kiln"] and not mine[name]["triton"]]
    for name in counted:
        if name not in passed:
            row = mine[name]
            print("%s: %s, %d launches by Kiln, %d by Triton: %s" % (name, row["outcome"], row["kiln"], row["triton"], row["error"].replace("\n", " ")[:300]))
    kernels = {kernel for name in counted for kernel in mine[name]["kernels"]}
    good = {kernel for name in passed for kernel in mine[name]["kernels"]}
    print("%d of %d tests with launches that pass under Triton pass under Kiln (%.1f %%); %d of %d distinct kernels (%.1f %%)" % (
        len(passed), len(counted), 100 * len(passed) / max(1, len(counted)), len(good), len(kernels), 100 * len(good) / max(1, len(kernels))))
    return int(len(passed) < len(passing) or not passing)


def summary(path):
    tests = [row for row in rows([path]) if "id" in row]
    counts = {outcome: sum(row["outcome"] == outcome for row in tests) for outcome in ("passed", "failed", "skipped", "error")}
    launched = [row for row in tests if row["outcome"] == "passed" and row["kiln"] + row["triton"]]
    print("%s; %d passed with launches, %d of them by Kiln alone; launches: %d by Kiln, %d by Triton; %d kernels" % (
        ", ".join("%d %s" % (count, outcome) for outcome, count in counts.items()), len(launched), sum(not row["triton"] for row in launched),
        sum(row["kiln"] for row in tests), sum(row["triton"] for row in tests), len({kernel for row in tests for kernel in row["kernels"]})))
    dry = [row for row in rows([path]) if "target" in row]
    if dry:
        failed = [row for row in dry if row["error"]]
        print("%d of %d kernels compile for %s" % (len(dry) - len(failed), len(dry), dry[0]["target"]))
        for row in failed:
            print("  %s: %s" % (row["kernel"], row["error"].replace("\n", " ")[:300]))


def main():
    if sys.argv[1:2] == ["--sum"]:
        middle = sys.argv.index("--")
        return total(sys.argv[2:middle], sys.argv[middle + 1:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("checkout")
    parser.add_argument("mode", choices=("ids", "both", "run", "triton", "dry", "trace"))
    parser.add_argument("--shard", type=lambda text: tuple(map(int, text.split("/"))), default=(0, 1))
    parser.add_argument("--out", default="peers.jsonl")
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--ids")
    parser.add_argument("--each", type=int)
    parser.set_defaults(orders=None, rows=None, configs=None, brief=False)
    parser.add_argument("--seconds", type=int)
    parser.add_argument("more", nargs="*")
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    arguments = parser.parse_args(words[:cut])
    more, folder = words[cut + 1:], os.path.abspath(arguments.checkout)
    ids = read_ids(arguments.ids) if arguments.ids else ids_of(arguments.suite, folder, more)
    if not ids:
        sys.exit("no test was collected in " + folder)
    if arguments.mode == "ids":
        print("\n".join(ids))
        return 0
    ids, files = of_shard(ids, *arguments.shard)
    if arguments.each:
        ids = some_of_each(ids, arguments.each)
    if arguments.mode != "both":
        return run_mode(arguments, ids, files, more, folder)
    out = arguments.out
    for arguments.mode in "triton", "run":
        arguments.out = "%s.%s" % (out, arguments.mode)
        run_mode(arguments, ids, files, more, folder)
    return total([out + ".triton"], [out + ".run"])


def run_mode(arguments, ids, files, more, folder):
    """Runs the tests in one mode, prints what became of them and returns pytest's exit status."""
    if os.path.exists(arguments.out):
        os.unlink(arguments.out)
    try:
        with tempfile.NamedTemporaryFile("w", suffix=".ids") as list_of_ids:
            list_of_ids.write("".join(one + "\n" for one in ids))
            list_of_ids.flush()
            status = subprocess.run(command(arguments.suite, files, more), cwd=folder, env=environment(arguments, arguments.suite, folder, list_of_ids.name),
                                    timeout=arguments.seconds).returncode
    except subprocess.TimeoutExpired:
        status = 124
        print("stopped after %d s" % arguments.seconds)
    if os.path.exists(arguments.out):
        summary(arguments.out)
    return status


if __name__ == "__main__":
    sys.exit(main())
