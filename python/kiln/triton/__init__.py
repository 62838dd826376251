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
import copy
import os
import sys

from . import _versions  # first: it refuses versions that are not supported
import triton
from triton.compiler import make_backend
from triton.language import str_to_ty
from triton.runtime import Autotuner, Heuristics, JITFunction

from . import _autotune, _bundles, _compilation, _inductor, _launcher
from .._core import Library
from .._errors import Error  # noqa: F401
from ._patch import _replaced, disable, enable  # noqa: F401
from ._launcher import Compiled, Jit
from ._monitor import launches, monitor, watch
from ._bundles import load
from ._devices import READ_FOR
from ._compilation import NotCompiled
from ._autotune import use_table

__all__ = ["Compiled", "Jit", "NotCompiled", "READ_FOR", "compiled", "disable", "enable", "export", "jit", "launches", "load", "monitor",
           "save", "use_table", "watch"]


def _is_type(kind):
    """Whether Triton reads that as a parameter's type; "tensordesc<fp16[64, 64]>" as well."""
    try:
        return str_to_ty(kind, None) is not None
    except (KeyError, IndexError, TypeError):
        return False


def export(fn, signature, constexprs=None, targets=("host",), output=None, divisible=(), read_for=READ_FOR, **options) -> Library:
    """Compiles a @triton.jit function ahead of time. `signature` says each parameter's type as Triton does ("*fp32", "i32", "tensordesc<fp16[64, 64]>");
    `constexprs` the others' values, where they have no default; `divisible` names those that are promised to be divisible by 16, which a launch checks.
    `options` are those of a launch (num_warps, num_stages). The bundle is opened, and kept at `output`. Its kernel has the function's name and no grid:
    launch it by kernel[grid](...)."""
    if isinstance(fn, Jit):
        fn = fn.fn
    if not isinstance(fn, JITFunction):
        raise TypeError("expected a function of @triton.jit, found %s" % type(fn).__name__)
    defaults = {param.name: param.default for param in fn.params if param.has_default and param.name not in signature}
    constexprs = {**defaults, **(constexprs or {})}
    missing = [name for name in fn.arg_names if name not in signature and name not in constexprs]
    unknown = [name for name in (*signature, *constexprs, *divisible) if name not in fn.arg_names]
    if missing or unknown:
        raise TypeError("%s: %s" % (fn.__name__, "parameter '%s' has neither a type nor a value" % missing[0] if missing else
                                    "there is no parameter '%s'" % unknown[0]))
    strange = next(((name, kind) for name, kind in signature.items() if not _is_type(kind)), None)
    if strange:
        raise TypeError("%s: parameter '%s': %r is no type of Triton's, such as '*fp32', '*bf16', 'i32', 'fp32'" % (fn.__name__, *strange))
    whole = {name: "constexpr" if name in constexprs else signature[name] for name in fn.arg_names}
    attributes = {(fn.arg_names.index(name),): [["tt.divisibility", 16]] for name in divisible}
    read = _compilation.triton_ir(_compilation.source_of(fn, whole, constexprs, attributes), make_backend(read_for).parse_options(options), read_for)
    built = _compilation.compile_ir(*read, (targets,) if isinstance(targets, str) else targets, output)
    return Library(built.code if output is None else output)


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
    for name, text, facts, keys, target in rows:
        targets += [target] if target not in targets else []
        if text is not None:
            found.setdefault((name, _compilation.identity(text, facts)), (name, text, facts, []))[3].append(keys)
    return list(found.values()), targets


def save(output, targets=None, join=False) -> Library:
    """Writes everything that was compiled as one bundle, and opens it. It runs without Triton, and load() finds its kernels for the launches of other processes.
    `targets` are those that were compiled for, unless given. A function of one variant keeps its name; the variants of others have the begin of their identity
    behind it: add[0f3b..]. With `join` all have it, and what `output` has already stays: several processes may write one bundle, one after another."""
    found, used = _found()
    if not found and not _bundles.paths():
        raise ValueError("no kernel of Triton was compiled yet")
    targets = used if targets is None else [targets] if isinstance(targets, str) else list(targets)
    return _bundles.save(found, targets, os.fspath(output), join)


if "kiln._triton_startup" in sys.modules:  # KILN_TRITON is set
    sys.modules["kiln._triton_startup"].attach(sys.modules[__name__])
