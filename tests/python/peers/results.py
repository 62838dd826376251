#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What became of the suites of others: results.py FOLDER

Prints of what lease.py wrote to FOLDER how many tests of each suite had which outcome, how many of those that pass under Triton pass with Kiln, and each failure.
An outcome is a letter: p passed and launched, n passed without a launch, s skipped, f failed, d ended its process, l took longer than the limit, a not there, t
passed but Triton's own code was launched too, . not run.
"""
import collections
import glob
import json
import os
import sys

import run

MODES = {"triton": "triton", "run": "kiln"}
SUITES = ("ninetoothed", "helion", "liger", "flaggems", "tutorials")


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


def summary(folder):
    for suite in SUITES:
        path = os.path.join(folder, suite + ".ids")
        if not os.path.exists(path):
            continue
        ids, its = run.read_ids(path), {mode: rows(suite, mode, folder) for mode in MODES}
        letters = {mode: {one: letter(row, mode) for one, row in its[mode].items()} for mode in MODES}
        for mode, word in MODES.items():
            counts = collections.Counter(letters[mode].get(one, ".") for one in ids)
            print("%s, %d tests, %s: %s" % (suite, len(ids), word, " ".join("%s %d" % one for one in sorted(counts.items()))))
        passing = [one for one in ids if letters["triton"].get(one) == "p"]
        reached = [one for one in passing if one in letters["run"]]
        failing = [one for one in reached if letters["run"][one] != "p"]
        kernels = {kernel for one in reached for kernel in its["run"][one]["kernels"]}
        good = {kernel for one in reached if letters["run"][one] == "p" for kernel in its["run"][one]["kernels"]}
        print("%s: of %d tests with launches that pass under Triton %d ran with Kiln, %d pass (%.2f %%); %d of %d distinct kernels (%.2f %%)" % (
            suite, len(passing), len(reached), len(reached) - len(failing), 100 * (1 - len(failing) / max(1, len(reached))), len(good), len(kernels),
            100 * len(good) / max(1, len(kernels))))
        for one in failing:
            print("  %s %s: %s" % (letters["run"][one], one, its["run"][one]["error"].replace("\n", " ")[:300]))


def main():
    if len(sys.argv) != 2 or not os.path.isdir(sys.argv[1]):
        print(__doc__)
        return 2
    return summary(sys.argv[1])


if __name__ == "__main__":
    sys.exit(main())
