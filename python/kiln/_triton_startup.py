# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs when the interpreter starts and one of VARIABLES is set (kiln-triton.pth): once the program has imported Triton, Kiln
replaces its launches. KILN_TRITON=report: each process reports at its end on standard error what it launched, and why Kiln is not attached if it is not.
KILN_TRITON_REPORT=FILE: each appends the same as a line of JSON. KILN_TRITON_BUNDLE=FILE:FILE with KILN_TRITON_MISS and KILN_TRITON_TRUST=FILE:FILE: launches
take their code from bundles. KILN_TRITON_SAVE=FILE: each process adds to a bundle at its end what it compiled, for
the processors of KILN_TRITON_TARGETS=sm_80,sm_90a where that is set. KILN_TRITON=0: none of this."""
import atexit
import os
import sys

from . import _import_hook

VARIABLES = ("KILN_TRITON", "KILN_TRITON_REPORT", "KILN_TRITON_BUNDLE", "KILN_TRITON_SAVE")  # those that attach Kiln; kiln-triton.pth has them too


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
        _state.failure = str(error)
        if os.environ.get("KILN_TRITON_BUNDLE"):  # nothing else may run
            raise
        _say("not attached to Triton: %s" % error)


def attach(module):
    """Called by kiln.triton at the end of its import."""
    if not _state.is_wanted:
        return
    bundles, trust = _listed("KILN_TRITON_BUNDLE"), _listed("KILN_TRITON_TRUST")
    if bundles:
        module.load(*bundles, miss=os.environ.get("KILN_TRITON_MISS") or "error", trust=trust or None)
    else:
        module.enable()


def _file(path):
    """The file that a setting means: relative to the folder at the start, whatever the program has changed to."""
    return os.path.join(_state.folder, path)


def _listed(name):
    return [_file(path) for path in os.environ.get(name, "").split(os.pathsep) if path]


class _State:
    failure = "its import was not seen; another finder of sys.meta_path found it"  # why kiln.triton is not imported where Triton is
    is_wanted = False  # Kiln is to be attached to Triton
    folder = ""  # of the process at its start
    reported_by = None  # the process that has done what is done at the end
    # It reports where it launched something: of multiprocessing, or the process of PyTorch's that starts its workers.
    is_child = any(word.startswith("from multiprocessing.") or word.endswith("compile_worker/__main__.py") for word in sys.orig_argv)


_state = _State()


def _why_detached():
    """Why Kiln is not attached to Triton; None: it is."""
    if "triton" not in sys.modules:
        return "Triton was not imported"
    if "kiln.triton._patch" not in sys.modules:  # which cannot be imported at the end of a process any more
        return _state.failure
    return sys.modules["kiln.triton._patch"].why_detached()


def _at_end():
    if _state.reported_by == os.getpid():
        return
    why, watching = _why_detached(), sys.modules.get("kiln.triton._monitor")
    now = watching.monitor() if watching is not None else None
    is_any = now is not None and any(now.launches.values())
    if _state.is_child and not is_any:
        return
    _state.reported_by = os.getpid()
    if os.environ.get("KILN_TRITON") == "report":
        if why is None or is_any:
            for line in now.summary():
                _say(line)
        if why is not None:
            _say("not attached to Triton: %s" % why)
    if os.environ.get("KILN_TRITON_REPORT"):
        _append(_file(os.environ["KILN_TRITON_REPORT"]), why, now)
    if os.environ.get("KILN_TRITON_SAVE") and is_any:
        _save(_file(os.environ["KILN_TRITON_SAVE"]))


def _append(path, why, now):
    """One write, so lines of several processes do not mix."""
    import json
    found = json.loads(now.json()) if now is not None else {"process": os.getpid(), "program": sys.argv[0] if sys.argv else ""}
    try:
        with open(path, "ab", buffering=0) as file:
            file.write((json.dumps(dict(found, detached=why), sort_keys=True) + "\n").encode())
    except OSError as error:
        _say("%s: %s" % (path, error.strerror))


def _save(path):
    """One process at a time adds to the bundle."""
    import fcntl
    import kiln.triton
    try:
        with open(path + ".lock", "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            kiln.triton.save(path, kiln.triton._bundles.targets_wanted() or None, join=True)
    except (OSError, ValueError, kiln.triton.Error) as error:
        _say("KILN_TRITON_SAVE=%s: nothing was saved: %s" % (path, error))


def _in_child():
    """After a fork. multiprocessing ends its children without the functions of `atexit`, but calls those of its own list."""
    _state.is_child, _state.reported_by = True, None
    theirs = sys.modules.get("multiprocessing.util")
    if theirs is not None:
        theirs.register_after_fork(_state, lambda _: theirs.Finalize(None, _at_end, exitpriority=0))


def start():
    wishes = {name: os.environ[name] for name in VARIABLES if os.environ.get(name)}
    if not wishes or wishes.get("KILN_TRITON") == "0":
        return
    if wishes.get("KILN_TRITON") == "report" or {"KILN_TRITON_REPORT", "KILN_TRITON_SAVE"} & wishes.keys():
        atexit.register(_at_end)
        os.register_at_fork(after_in_child=_in_child)
    _state.is_wanted = True
    try:
        _state.folder = os.getcwd()
    except OSError:  # removed
        pass
    _import_hook.when_executed("triton", _follow_triton)


start()
