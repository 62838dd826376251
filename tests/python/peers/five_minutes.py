#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How long tests of Liger Kernel take, under Triton and with Kiln, caches cold and then warm: five_minutes.py FOLDER CHECKOUT [options]

The tests are those that pass in the first 300 s under Triton, caches cold, in the order of lease.py; FOLDER/chosen.ids names them. Then come four legs, one after another, each alone and in new processes, which take groups of tests of a function from one list (lease.py), with the tuners as they are. The
legs of a mode share its caches, which are empty before the first. A row says the seconds until the last process is ready for tests (imports, collecting), those
of the whole leg, the sum and the most of the tests' own, the outcomes, and how many launches ran whose code. FOLDER gets a folder a leg.

Options: --workers N (24), --each N (seconds a test may take; 300), --choose N (seconds to choose in; 300), --seconds N (stop after; 1000), --legs LEG,.. (cold.run,cold.triton,warm.run,warm.triton)
"""
import argparse
import os
import shutil
import sys
import time

import lease
import results
import run

CACHES = {"TRITON_CACHE_DIR": "triton", "KILN_CACHE_DIR": "kiln", "TORCHINDUCTOR_CACHE_DIR": "inductor"}


class Leg(lease.Pool):
    """All processes start at once, and one that ended before its time is replaced."""

    def __init__(self, queue, folder, arguments):
        super().__init__([queue], folder, arguments)
        self.start_s, self.ready_s, self.waiting = time.monotonic(), 0, arguments.workers

    def start(self):
        queue = self.queues[0]
        if not queue.left or self.failed_starts[queue] >= self.arguments.workers:
            return False
        return self.start_for(queue)

    def next(self, worker):
        if worker.started is None and self.waiting:
            self.waiting, self.ready_s = self.waiting - 1, time.monotonic() - self.start_s
        super().next(worker)


def run_leg(leg, folder, ids, arguments, until):
    """Runs tests; returns the pool that has run them, and their rows."""
    age, mode = leg.split(".")
    scratch, out = os.path.join(folder, "caches." + mode), os.path.join(folder, leg)
    if age == "cold":
        shutil.rmtree(scratch, ignore_errors=True)
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    for name, its in CACHES.items():
        os.environ[name] = os.path.join(scratch, its)
    arguments.scratch = scratch
    pool = Leg(lease.Queue("liger", arguments.checkout, mode, lease.chunks(ids, more=lease.FIRST), out), out, arguments)
    pool.run(until)
    return pool, results.rows("liger", mode, out).values()


def choose(folder, arguments):
    """The tests to measure with: those that end well in so many seconds under Triton."""
    path = os.path.join(folder, "chosen.ids")
    if not os.path.exists(path):
        ids = lease.ids_in(folder, "liger", arguments.checkout)
        _, rows = run_leg("cold.triton", folder, ids, arguments, time.monotonic() + arguments.choose)
        lease.write_ids(path, sorted(row["id"] for row in rows if results.letter(row, "triton") == "p"))
    return run.read_ids(path)


def measure(leg, folder, ids, arguments, until):
    pool, rows = run_leg(leg, folder, ids, arguments, until)
    wall = time.monotonic() - pool.start_s
    outcomes = " ".join("%s %d" % (name, sum(row["outcome"] == name for row in rows)) for name in sorted({row["outcome"] for row in rows}))
    seconds = [row["seconds"] for row in rows]
    print("%-11s %3d of %d ended; ready %5.1f s, wall %6.1f s, tests %7.1f s, longest %5.1f s; %s; launches: %d by Kiln, %d by Triton; %d kernels" % (
        leg, len(rows), len(ids), pool.ready_s, wall, sum(seconds), max(seconds, default=0), outcomes, sum(row["kiln"] for row in rows),
        sum(row["triton"] for row in rows), len({kernel for row in rows for kernel in row["kernels"]})), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("checkout")
    parser.add_argument("--workers", type=int, default=24)
    parser.add_argument("--each", type=float, default=300)
    parser.add_argument("--choose", type=float, default=300)
    parser.add_argument("--seconds", type=float, default=1000)
    parser.add_argument("--legs", default="cold.run,cold.triton,warm.run,warm.triton")
    parser.set_defaults(configs=None, brief=False)
    arguments = parser.parse_args()
    folder = os.path.abspath(arguments.folder)
    os.makedirs(folder, exist_ok=True)
    ids = choose(folder, arguments)
    until = time.monotonic() + arguments.seconds
    for leg in arguments.legs.split(","):
        measure(leg, folder, ids, arguments, until)


if __name__ == "__main__":
    sys.exit(main())
