#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The suites of others, under Triton and with Kiln, over as many leases of a machine as it takes: lease.py FOLDER SUITE=CHECKOUT... [options]

FOLDER gets SUITE.ids, the tests that the checkout has, and SUITE.MODE.jsonl, a row a test, written when it has ended; MODE is triton or run, as run.py has
them. Tests with a row there are not run again, so the same command goes on where the last lease ended; results.py compares. --again FILE runs the ids in FILE instead, whatever is known.
Processes collect a suite once and then run what they are told, so that one that dies or takes too long costs one test. The order is fixed by the names: first
six tests of every function, spread over its parameters, then the others, so that a lease that ends early leaves a sample of all functions.

Options: --seconds N (stop after; 480), --workers N (8), --each N (seconds a test may take; 60), --modes triton,run, --most N (tests of a suite),
--last TEXT,.. (tests with such a name, which take long, come last), --configs N (a tuner with more of them tries N, the same ones in both modes),
--group N (tests of a function that a process takes at a time; 20), --expect N (seconds a test takes, before any has ended; 0.5),
--first SUITE=N,.. (these suites get the processes before the others, in this order, each until the lease is N seconds old or all of it has ended)
"""
import argparse
import collections
import hashlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time

import results
import run

FIRST, MORE = 6, 20  # tests of a function that are run in one go: at first, later
START_SECONDS = 180  # for imports and collecting, on a busy machine
MOST_TRIES = 3  # of a test that finds no memory on a device that others use, too


def chunks(ids, last=(), more=MORE):
    """Tests in the order of their run, in groups of one function; what has one of the texts `last` in its name comes after all the others."""
    functions = collections.defaultdict(list)
    for one in ids:
        functions[one.partition("[")[0]].append(one)
    names = sorted(functions, key=lambda name: ("test_libcache" in name, hashlib.sha256(name.encode()).digest()))
    first, later = [], []
    for name in names:
        its = functions[name]
        drawn = run.some_of_each(its, FIRST)
        first.extend(drawn[i:i + more] for i in range(0, len(drawn), more))
        rest = [one for one in its if one not in set(drawn)]
        later.extend(rest[i:i + more] for i in range(0, len(rest), more))
    return sorted(first + later, key=lambda chunk: any(text in chunk[0] for text in last))


class Queue:
    """What is left of a suite in one mode."""

    def __init__(self, suite, checkout, mode, left, folder, expect=0.5):
        self.suite, self.checkout, self.mode = suite, os.path.abspath(checkout), mode
        self.left = collections.deque(left)
        self.path = os.path.join(folder, "%s.%s.jsonl" % (suite, mode))
        self.seconds, self.ended, self.workers, self.expect = 0, 0, 0, expect
        self.rank, self.until = 0, float("inf")  # lower ranks come first; its processes end at that time
        self.tries = collections.Counter()

    def expected(self):
        """Seconds that what is left takes one process."""
        each = (self.seconds + 10 * self.expect) / (self.ended + 10)
        return each * sum(map(len, self.left))

    def files(self):
        """Those of what is left, so that only they are collected."""
        return sorted({one.partition("::")[0] for chunk in self.left for one in chunk})

    def runs_again(self, row):
        """Puts a test after the others that found no memory."""
        text = row["error"].lower().replace("_", " ")
        self.tries[row["id"]] += 1
        if row["outcome"] != "failed" or "out of memory" not in text or self.tries[row["id"]] >= MOST_TRIES:
            return False
        self.left.append([row["id"]])
        return True

    def write(self, row):
        with open(self.path, "a") as file:
            file.write(json.dumps(row, sort_keys=True) + "\n")
        self.seconds, self.ended = self.seconds + row["seconds"], self.ended + 1


class Worker:
    """A process of pytest that runs what it is told."""

    def __init__(self, queue, number, folder, arguments):
        self.queue, self.chunk, self.running = queue, collections.deque(), None
        self.started = None
        orders, self.orders = os.pipe()
        self.rows, rows = os.pipe()
        name = "%s.%s.%d" % (queue.suite, queue.mode, number)
        wish = argparse.Namespace(mode=queue.mode, shard=(0, 1), out=os.path.join(folder, name), target="", orders=orders, rows=rows,
                                  configs=arguments.configs, brief=arguments.brief)
        environment = run.environment(wish, queue.suite, queue.checkout, None)
        environment["FLAGGEMS_CACHE_DIR"] = os.path.join(arguments.scratch, "flaggems", name)  # its files are for one process
        if queue.suite == "ninetoothed":
            environment["HOME"] = os.path.join(arguments.scratch, "ninetoothed", name)  # these, too
            os.makedirs(environment["HOME"], exist_ok=True)
        for cache in ("TRITON_CACHE_DIR", "KILN_CACHE_DIR"):
            environment.setdefault(cache, os.path.join(arguments.scratch, cache.lower()))
        with open(os.path.join(folder, name + ".log"), "w") as log:
            self.process = subprocess.Popen(run.command(queue.suite, queue.files(), []), cwd=queue.checkout, env=environment, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, pass_fds=(orders, rows), start_new_session=True)
        os.close(orders), os.close(rows)
        self.text, self.until = b"", time.monotonic() + START_SECONDS
        queue.workers += 1

    def tell(self, limit):
        """The next test, of its function or of the next one; False where there is none."""
        if not self.chunk and self.queue.left:
            self.chunk = collections.deque(self.queue.left.popleft())
        if not self.chunk:
            return False
        self.running, self.started = self.chunk.popleft(), time.monotonic()
        self.until = self.started + limit
        try:
            os.write(self.orders, (self.running + "\n").encode())
        except BrokenPipeError:
            pass  # its end is noticed where its rows are read
        return True

    def lines(self):
        """What it has said; None at its end."""
        found = os.read(self.rows, 1 << 20)
        if not found:
            return None
        *lines, self.text = (self.text + found).split(b"\n")
        return [json.loads(line) for line in lines]

    def stop(self, why):
        """Ends it; the test that it was at has that outcome, and the others of its group go back."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        code = self.process.wait()
        os.close(self.orders), os.close(self.rows)
        self.queue.workers -= 1
        if self.running and why:
            self.queue.write({"id": self.running, "outcome": why, "error": "exit %d" % code, "kiln": 0, "triton": 0, "kernels": [],
                              "seconds": round(time.monotonic() - self.started, 3)})
        elif self.running:
            self.chunk.appendleft(self.running)
        if self.chunk:
            self.queue.left.appendleft(list(self.chunk))


class Pool:
    def __init__(self, queues, folder, arguments):
        self.queues, self.folder, self.arguments = queues, folder, arguments
        self.workers, self.selector, self.number = [], selectors.DefaultSelector(), 0
        self.failed_starts = collections.Counter()

    def start(self):
        """One more process, of those that come first for the queue with the most left a process."""
        useful = [queue for queue in self.queues if queue.left and self.failed_starts[queue] < 4 and time.monotonic() < queue.until]
        for rank in sorted({queue.rank for queue in useful}):
            queue = max((one for one in useful if one.rank == rank), key=lambda one: (not one.workers, one.expected() / (one.workers + 1)))
            if not queue.workers or queue.expected() / queue.workers >= 25:  # else it would not have started before they are done
                return self.start_for(queue)
        return False

    def start_for(self, queue):
        self.number += 1
        worker = Worker(queue, self.number, self.folder, self.arguments)
        self.workers.append(worker)
        self.selector.register(worker.rows, selectors.EVENT_READ, worker)
        return True

    def end(self, worker, why):
        self.selector.unregister(worker.rows)
        self.workers.remove(worker)
        if worker.started is None and why:
            self.failed_starts[worker.queue] += 1
        worker.stop(why)

    def hear(self, worker):
        rows = worker.lines()
        if rows is None:
            return self.end(worker, "died")
        for row in rows:
            if "ready" in row:
                self.next(worker)
            elif "id" in row:
                if not worker.queue.runs_again(row):
                    worker.queue.write(row)
                worker.running = None
                if row.get("ends"):
                    return self.end(worker, None)
                self.next(worker)

    def next(self, worker):
        ends = worker.started is not None and not worker.chunk and self.is_last_of_its_process(worker)
        if ends or not worker.tell(self.arguments.each):
            self.end(worker, None)

    @staticmethod
    def is_last_of_its_process(worker):
        """Tests of FlagGems that delete the files of their process come last in it."""
        return worker.queue.suite == "flaggems" and worker.queue.left and "test_libcache" in worker.queue.left[0][0]

    def run(self, until):
        shown = 0
        while time.monotonic() < until:
            while len(self.workers) < self.arguments.workers and self.start():
                pass
            if not self.workers:
                break
            for key, _ in self.selector.select(1):
                self.hear(key.data)
            now = time.monotonic()
            for worker in [one for one in self.workers if now > one.until]:
                self.end(worker, "long")
            for worker in [one for one in self.workers if now > one.queue.until]:
                self.end(worker, None)
            if now > shown + 30:
                shown = now
                print("; ".join("%s.%s %d ended, %d left, %d processes" % (one.suite, one.mode, one.ended, sum(map(len, one.left)), one.workers)
                                for one in self.queues), flush=True)
        for worker in list(self.workers):
            self.end(worker, None)


def ids_in(folder, suite, checkout):
    """The ids of a suite, collected by the first lease."""
    path = os.path.join(folder, suite + ".ids")
    if not os.path.exists(path):
        ids = run.ids_of(suite, os.path.abspath(checkout))
        if not ids:
            sys.exit("no test was collected in " + checkout)
        write_ids(path, ids)
    return run.read_ids(path)


def write_ids(path, ids):
    with open(path + ".new", "w") as file:
        file.write("".join(one + "\n" for one in ids))
    os.rename(path + ".new", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("suites", nargs="+", metavar="SUITE=CHECKOUT")
    parser.add_argument("--seconds", type=float, default=480)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--each", type=float, default=60)
    parser.add_argument("--modes", default="triton,run")
    parser.add_argument("--again")
    parser.add_argument("--most", type=int)
    parser.add_argument("--last", default="", type=lambda text: [one for one in text.split(",") if one])
    parser.add_argument("--scratch", default="/tmp")
    parser.add_argument("--configs", type=int)
    parser.add_argument("--group", type=int, default=MORE)
    parser.add_argument("--expect", type=float, default=0.5)
    parser.add_argument("--first", default={}, type=lambda text: {suite: float(seconds) for suite, seconds in (one.split("=") for one in text.split(","))})
    parser.set_defaults(brief=True)
    arguments = parser.parse_args()
    until = time.monotonic() + arguments.seconds
    os.makedirs(arguments.folder, exist_ok=True)
    again = None
    if arguments.again:
        with open(arguments.again) as file:
            again = {line.rstrip("\n") for line in file}
    queues = []
    for suite, _, checkout in (one.partition("=") for one in arguments.suites):
        ids = ids_in(arguments.folder, suite, checkout)[:arguments.most]
        for mode in arguments.modes.split(","):
            known = results.rows(suite, mode, arguments.folder)
            left = [[one for one in chunk if (one not in known if again is None else one in again)] for chunk in chunks(ids, arguments.last, arguments.group)]
            queues.append(Queue(suite, checkout, mode, [one for one in left if one], arguments.folder, arguments.expect))
            queues[-1].rank = ([*arguments.first, suite]).index(suite)
            queues[-1].until = until - arguments.seconds + arguments.first.get(suite, arguments.seconds)
    Pool(queues, arguments.folder, arguments).run(until)
    for queue in queues:
        print("%s.%s: %d ended in %.0f s, %d left" % (queue.suite, queue.mode, queue.ended, queue.seconds, sum(map(len, queue.left))))
    results.summary(arguments.folder)


if __name__ == "__main__":
    sys.exit(main())
