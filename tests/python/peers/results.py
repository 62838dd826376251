#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What became of the suites of others, kept in results/ from lease to lease.

  results.py add FOLDER    takes what lease.py wrote to FOLDER into results/, where a later outcome replaces an earlier one
  results.py sum           how many of what passes under Triton passes with Kiln, and every failure with its cause

results/SUITE.txt has three lines for each function of ids/SUITE.txt: its name, and a letter for each of its tests in the order of that list, under Triton and
with Kiln: p passed and launched, n passed without a launch, s skipped, f failed, d ended its process, l took longer than the limit, a not there, t passed but
Triton's own code was launched too, . not run. results/SUITE.kernels names the distinct kernels of tests that pass under Triton: those of a test that passes
with Kiln, and behind an exclamation mark those of failing ones only. results/causes.txt gives a cause for tests by the beginning of their ids.
"""
import collections
import glob
import json
import os
import sys

import run

HERE = os.path.join(run.HERE, "results")
MODES = {"triton": "triton", "run": "kiln"}
SUITES = ("liger", "flaggems", "tutorials")


def letter(row, mode):
    launches, strange = (row["triton"], 0) if mode == "triton" else (row["kiln"], row["triton"])
    outcome = row["outcome"]
    if outcome == "passed":
        return "t" if strange else "p" if launches else "n"
    return {"skipped": "s", "failed": "f", "died": "d", "long": "l", "absent": "a"}.get(outcome, "f")


def rows(suite, mode, folder):
    """By id, what lease.py wrote; the last one of each."""
    found = {}
    for path in sorted(glob.glob(os.path.join(folder, "%s.%s*.jsonl" % (suite, mode)))):
        with open(path) as file:
            for row in map(json.loads, file):
                found[row["id"]] = row
    return found


def functions_of(suite):
    found = collections.defaultdict(list)
    for one in run.read_ids(os.path.join(run.HERE, "ids", suite + ".txt")):
        found[one.partition("[")[0]].append(one)
    return found


def kept(suite):
    """By mode and id, the letters of results/."""
    found, path, name = collections.defaultdict(dict), os.path.join(HERE, suite + ".txt"), None
    if not os.path.exists(path):
        return found
    modes, functions = {word: mode for mode, word in MODES.items()}, functions_of(suite)
    with open(path) as file:
        for line in file:
            if line.startswith("  "):
                word, letters = line.split()
                found[modes[word]].update(zip(functions[name], letters, strict=True))
            elif not line.startswith("#"):
                name = line.rstrip("\n")
    return found


def known(suite, mode, folder):
    """The ids that have an outcome."""
    return {one for one, its in kept(suite)[mode].items() if its not in ".l"} | set(rows(suite, mode, folder))


def kept_kernels(suite):
    found = {"good": set(), "bad": set()}
    path = os.path.join(HERE, suite + ".kernels")
    if os.path.exists(path):
        with open(path) as file:
            for line in file:
                name, *identities = line.lstrip("!").split()
                found["bad" if line.startswith("!") else "good"].update((name, one) for one in identities)
    return found


def add(folder):
    os.makedirs(HERE, exist_ok=True)
    for suite in SUITES:
        letters, kernels = kept(suite), kept_kernels(suite)
        for mode in MODES:
            letters[mode].update((one, letter(row, mode)) for one, row in rows(suite, mode, folder).items())
        for one, row in rows(suite, "run", folder).items():
            if letters["triton"].get(one) == "p":
                its = {(name, rest.rstrip("]")[:8]) for name, _, rest in (kernel.partition("[") for kernel in row["kernels"])}
                kernels["good" if letters["run"][one] == "p" else "bad"] |= its
        with open(os.path.join(HERE, suite + ".txt"), "w") as file:
            for name, ids in functions_of(suite).items():
                file.write(name + "\n")
                for mode, word in MODES.items():
                    file.write("  %-6s %s\n" % (word, "".join(letters[mode].get(one, ".") for one in ids)))
        with open(os.path.join(HERE, suite + ".kernels"), "w") as file:
            for mark, its in ("", kernels["good"]), ("!", kernels["bad"] - kernels["good"]):
                names = collections.defaultdict(list)
                for name, identity in sorted(its):
                    names[name].append(identity)
                file.writelines("%s%s %s\n" % (mark, name, " ".join(found)) for name, found in names.items())


def causes():
    path, found = os.path.join(HERE, "causes.txt"), {}
    if os.path.exists(path):
        with open(path) as file:
            for line in file:
                if line.strip() and not line.startswith("#"):
                    name, _, cause = line.rstrip("\n").partition(": ")
                    found[name] = cause
    return found


def summary():
    its_causes = causes()
    for suite in SUITES:
        letters, kernels, ids = kept(suite), kept_kernels(suite), [one for its in functions_of(suite).values() for one in its]
        counts = {mode: collections.Counter(letters[mode].get(one, ".") for one in ids) for mode in MODES}
        passing = [one for one in ids if letters["triton"].get(one) == "p"]
        reached = [one for one in passing if letters["run"].get(one, ".") != "."]
        failing = [one for one in reached if letters["run"][one] != "p"]
        good, bad = len(kernels["good"]), len(kernels["bad"])
        for mode, word in MODES.items():
            print("%s, %d tests, %s: %s" % (suite, len(ids), word, " ".join("%s %d" % one for one in sorted(counts[mode].items()))))
        print("%s: of %d tests with launches that pass under Triton %d ran with Kiln, %d pass (%.2f %%); %d of %d distinct kernels (%.2f %%)" % (
            suite, len(passing), len(reached), len(reached) - len(failing), 100 * (1 - len(failing) / max(1, len(reached))), good, good + bad, 100 * good / max(1, good + bad)))
        for one in failing:
            cause = next((its for name, its in its_causes.items() if one.startswith(name)), "not explained")
            print("  %s %s: %s" % (letters["run"][one], one, cause))


def main():
    if sys.argv[1:2] == ["add"] and len(sys.argv) == 3:
        return add(sys.argv[2])
    if sys.argv[1:] == ["sum"]:
        return summary()
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main())
