# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles the configs that a tuner is about to launch in several processes at the same time. In a first turn through the configs, a launch of a config that is not
compiled only starts its compile; in a second turn a launch waits for the result. Without this, one process compiles the configs one after another, while
the other processors wait."""
import concurrent.futures
import os
import threading

from . import _compilation

MOST = 16  # processes: each takes up to 150 MB
_here = threading.local()


class ParallelCompile:
    """For one thread, inside of `with`. `is_reading`: it is the first turn; `has_begun`: a compile was started since this was last set to False."""

    def __init__(self):
        self.is_reading, self.has_begun, self._begun = False, False, {}
        self._pool = concurrent.futures.ThreadPoolExecutor(min(MOST, len(os.sched_getaffinity(0))))

    def __enter__(self):
        self._outer, _here.ahead = now(), self
        return self

    def __exit__(self, *_):
        _here.ahead = self._outer
        self._pool.shutdown(cancel_futures=True)

    def begin(self, key, read, target):
        """`read` returns the text and the facts of its launch."""
        self.has_begun = True
        if key not in self._begun:
            text, facts = read()
            self._begun[key] = text, facts, self._pool.submit(_compilation.compile_ir, text, facts, (target,)).result

    def take(self, key):
        """The text, the facts and a function that returns the library, or None."""
        return self._begun.pop(key, None)


def now():
    return getattr(_here, "ahead", None)
