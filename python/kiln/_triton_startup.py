# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs when the interpreter starts and KILN_TRITON is set (kiln-triton.pth): once the program has imported Triton, Kiln replaces its launches. With
KILN_TRITON=report each process reports at its end on standard error how many launches ran Kiln's and Triton's code, and why Kiln is not attached if it is not."""
import atexit
import os
import sys

from . import _import_hook


def _say(text):
    try:
        if sys.stderr is not None:
            print("kiln: " + text, file=sys.stderr, flush=True)
    except (OSError, ValueError):  # closed
        pass


def _follow_triton(_=None):
    """Imports kiln.triton, which calls `attach` at the end of its import."""
    try:
        import kiln.triton  # noqa: F401
    except Exception as error:
        _say("not attached to Triton: %s" % error)


def attach(enable):
    """Called by kiln.triton at the end of its import."""
    if _state.is_wanted:
        enable()


class _State:
    is_wanted = False  # Kiln is to be attached to Triton
    reported_by = None  # the process that has printed its report
    is_child = any(word.startswith("from multiprocessing.") for word in sys.orig_argv)  # it reports where it launched something


_state = _State()


def _why_detached():
    """Why Kiln is not attached to Triton; None: it is."""
    if "triton" not in sys.modules:
        return "Triton was not imported"
    was_there = "kiln.triton" in sys.modules
    try:
        from kiln.triton import _patch
    except Exception as error:
        return str(error)
    return _patch.why_detached() if was_there else "its import was not seen; another finder of sys.meta_path found it"


def _report():
    if _state.reported_by == os.getpid():
        return
    why, launching = _why_detached(), sys.modules.get("kiln.triton._launcher")
    counts = launching.launches() if launching is not None else {}
    is_any = any(counts.values())
    if _state.is_child and not is_any:
        return
    _state.reported_by = os.getpid()
    if why is None or is_any:
        kernels = sum(1 for one in list(launching.variants.values()) if one.launches)
        _say("%d launches of %d kernels ran Kiln's code, %d Triton's" % (counts["kiln"], kernels, counts["triton"]))
    if why is not None:
        _say("not attached to Triton: %s" % why)


def _in_child():
    """After a fork. multiprocessing ends its children without the functions of `atexit`, but calls those of its own list."""
    _state.is_child, _state.reported_by = True, None
    theirs = sys.modules.get("multiprocessing.util")
    if theirs is not None:
        theirs.register_after_fork(_state, lambda _: theirs.Finalize(None, _report, exitpriority=0))


def start():
    wish = os.environ.get("KILN_TRITON", "")
    if wish in ("", "0"):
        return
    if wish == "report":
        atexit.register(_report)
        os.register_at_fork(after_in_child=_in_child)
    _state.is_wanted = True
    _import_hook.when_executed("triton", _follow_triton)


start()
