# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of Triton, compiled by Kiln. Triton reads the Python (3.6 to 3.9, no GPU needed); from its IR on everything is Kiln's.

    kiln.triton.export(fn, {"x": "*fp32", "n": "i32"}, {"BLOCK": 128}, targets=["sm_90a", "host"], output="app.kbundle")

    @kiln.triton.jit
    @triton.jit
    def add(x, y, z, n, BLOCK: tl.constexpr): ...
    add[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, z, n, BLOCK=128)

    kiln.triton.save("app.kbundle")        # all that was launched

`import kiln.triton.auto`, or KILN_TRITON=1 in the environment, puts Kiln behind every @triton.jit function of an unmodified program.
"""
import atexit
import copy
import os
import sys

from . import _versions  # first: it refuses versions that are not supported
import triton
from triton.runtime import Autotuner, Heuristics, JITFunction

from . import _autotune, _bundles, _compilation, _inductor, _launcher
from ._ahead import capture, export
from .._compiler import warn
from .._core import Library
from .._errors import Error  # noqa: F401
from ._patch import _replaced, disable, enable  # noqa: F401
from ._launcher import Compiled, Jit
from ._monitor import launches, monitor, watch
from ._bundles import load
from ._devices import READ_FOR
from ._compilation import NotCompiled
from ._autotune import use_table

__all__ = ["Compiled", "Jit", "NotCompiled", "READ_FOR", "capture", "compiled", "disable", "enable", "export", "jit", "launches", "load", "monitor",
           "save", "use_table", "watch"]


def jit(fn):
    """Puts Kiln behind a @triton.jit function, unchanged, also under @triton.heuristics and @triton.autotune."""
    if isinstance(fn, Jit):
        return fn
    if isinstance(fn, JITFunction):
        return Jit(fn)
    if isinstance(fn, (Heuristics, Autotuner)):
        wrapped = copy.copy(fn)
        wrapped.fn = jit(fn.fn)
        if isinstance(fn, Autotuner):
            wrapped.cache = {}
            wrapped.run = _autotune.run.__get__(wrapped)
        return wrapped
    raise TypeError("expected a function of @triton.jit (Triton %s), found %s" % (triton.__version__, type(fn).__name__))


def compiled():
    """What was compiled in this process, in order: each has `name`, `identity`, `signature`, `constants`, `facts` of the launch, `launches`, `kernel`."""
    return list(_launcher.variants.values())


def _found():
    """All that has IR, once each: {(name, identity): (name, IR, facts of the launch, [facts of keys])}, and the targets."""
    found, targets = {}, []
    rows = [(one.name, one.text, one.facts, one.keys, one.place.target) for one in compiled()]
    rows += [(one.name, one.kiln_text, one.kiln_facts, one.kiln_keys, one.kiln_target) for one in _inductor.kernels()]
    if "kiln.triton._ninetoothed" in sys.modules:
        rows += sys.modules["kiln.triton._ninetoothed"].kernels()
    for name, text, facts, keys, target in rows:
        targets += [target] if target not in targets else []
        if text is not None:
            found.setdefault((name, _compilation.identity(text, facts)), (name, text, facts, []))[3].append(keys)
    return list(found.values()), targets


def save(output, targets=None, join=False) -> Library:
    """Writes everything that was compiled as one bundle, and opens it. It runs without Triton, and load() finds its kernels for the launches of other processes.
    `targets` are those that were compiled for, unless given. A function of one variant keeps its name; the variants of others have the begin of their identity
    after it: add[0f3b..]. With `join` all have it, and what `output` has already stays: several processes may write one bundle, one after another."""
    found, used = _found()
    if not found and not _bundles.paths():
        raise ValueError("no kernel of Triton was compiled yet")
    targets = used if targets is None else [targets] if isinstance(targets, str) else list(targets)
    return _bundles.save(found, targets, os.fspath(output), join)


def _say_what_was_not_read():
    """At the end of a process that uses kiln.triton: variables that nothing read, as kiln-triton.pth is where the interpreter looks for none."""
    wished = sorted(name for name in ("KILN_TRITON", "KILN_TRITON_REPORT", "KILN_TRITON_BUNDLE", "KILN_TRITON_SAVE") if os.environ.get(name, "0") not in ("", "0"))
    if wished and "kiln._triton_startup" not in sys.modules:
        warn("%s had no effect: the interpreter did not read kiln-triton.pth when it started (of PYTHONPATH it reads none; see Installing in docs/python.md)" % ", ".join(wished))


if "kiln._triton_startup" in sys.modules:  # KILN_TRITON is set
    sys.modules["kiln._triton_startup"].attach(sys.modules[__name__])
else:
    atexit.register(_say_what_was_not_read)
