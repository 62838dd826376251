# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a tuner is about to launch, compiled in several processes beside each other: in a first turn through its configs a launch of what is not compiled
yet only has it read and begun; in a second turn a launch waits for what it needs. A process alone takes the configs one after another otherwise, while the
other processors wait."""
import concurrent.futures
import os
import threading

from . import _compilation

MOST = 16  # processes: each takes up to 150 MB
_here = threading.local()


class Ahead:
    """Of one thread, inside of `with`. `is_reading`: it is the first turn; `has_begun`: something was begun since that was made False."""

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
        """`read` gives the text and the facts of its launch."""
        self.has_begun = True
        if key not in self._begun:
            text, facts = read()
            self._begun[key] = text, facts, self._pool.submit(_compilation.compile_ir, text, facts, (target,)).result

    def take(self, key):
        """The text, the facts and a function that gives the library, or None."""
        return self._begun.pop(key, None)


def now():
    return getattr(_here, "ahead", None)
