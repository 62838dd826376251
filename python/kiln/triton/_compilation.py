# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles a @triton.jit function: to its IR with Triton, then to code with Kiln."""
import contextlib
import gc
import hashlib
import json
import os
import re
import tempfile
import threading
import time
import typing

from triton._C.libtriton import ir
from triton.compiler import ASTSource, make_backend
from triton.runtime.errors import PTXASError

from . import _monitor
from .._compiler import build
from .._core import Library
from .._errors import Error

FACTS = ("num_warps", "num_stages", "maxnreg", "enable_fp_fusion", "num_ctas")  # of a launch, besides the IR


parsing = threading.RLock()  # ast.parse of CPython 3.11 fails where several threads are in it


class NotCompiled(Error, PTXASError):
    """Kiln does not compile a kernel. Triton's tuner takes it for an error of the assembler and passes the config over."""

    def __init__(self, text, number=0):
        Error.__init__(self, text, number)

    def __str__(self):
        return str(self.args[0])


class _Contexts(threading.local):
    """What Triton's IR is built in. Making one takes an eighth of the time to read a kernel. One has a single thread, and keeps what all its kernels had, so it is not
    used for ever."""
    MOST_KERNELS = 64

    def __init__(self):
        self._contexts = {}

    def of(self, backend):
        context, count = self._contexts.get(type(backend), (None, 0))
        if context is None or count == self.MOST_KERNELS:
            context, count = ir.context(), 0
            ir.load_dialects(context)
            backend.load_dialects(context)
        self._contexts[type(backend)] = context, count + 1
        return context


_contexts = _Contexts()


@contextlib.contextmanager
def _without_collector():
    """A visitor of Python's syntax makes many objects that go by themselves: looking for cycles among them takes a tenth of its time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def triton_ir(source: ASTSource, options, target):
    """Text of a kernel in Triton's IR, and the facts of its launch. `options` are those that the backend of `target` has parsed."""
    backend = make_backend(target)
    context = _contexts.of(backend)
    with parsing, _without_collector():
        module = source.make_ir(target, options, backend.get_codegen_implementation(options), backend.get_module_map(), context)
    facts = {name: getattr(options, name) for name in FACTS if getattr(options, name, None) is not None}
    stages = {}  # each backend calls its functions in its own way
    backend.add_stages(stages, options, source.language)
    return renamed(str(stages["ttir"](module, {})), source.fn.__name__), dict(facts, backend=target.backend)


def write(folder, name, text, facts):
    """The two files that the compiler reads; the path of the first."""
    path = os.path.join(folder, name + ".ttir")
    with open(path, "w") as file:
        file.write(text)
    with open(os.path.join(folder, name + ".json"), "w") as file:
        json.dump(facts, file, sort_keys=True)
    return path


def refusal(error, sources):
    """NotCompiled, with what the compiler said of `sources`, {path: Triton IR}: whose kernels these are and where the Python is, in place of files that are gone."""
    text = "\n".join(line.removeprefix("kiln: error: ") for line in str(error).splitlines() if not re.fullmatch(r"kiln: \d+ of \d+ objects failed; .* was not written", line))
    kernels = []
    for path, its in sources.items():
        name = re.search(r'tt\.func public @"?([^"(]+)', its)
        where = re.search(r'^#loc = loc\("(.*)":(\d+):\d+\)', its, re.M)
        shown = "kernel '%s'%s" % (name[1] if name else "?", " (%s:%s)" % where.groups() if where else "")
        if path in text or len(sources) == 1:
            kernels.append(shown)
        text = text.replace(path, "Triton IR" if len(sources) == 1 else "Triton IR of " + shown)
    return NotCompiled("%s: %s" % (", ".join(kernels), text) if kernels else text, error.number)


class Built(typing.NamedTuple):
    """What compiling gave: the bytes of a bundle, `cache` or `compiled` as the monitor has them, and how long it took."""
    code: bytes
    origin: str
    seconds: float


def compile_ir(text, facts, targets, output=None, arguments=()) -> Built:
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="kiln-") as folder:
        path = write(folder, "kernel", text, facts)
        bundled = os.path.join(folder, "kernel.kbundle") if output is None else os.fspath(output)
        try:
            report = json.loads(build([path], targets, bundled, ("--json", *arguments)))
        except Error as error:
            raise refusal(error, {path: text}) from None
        with open(bundled, "rb") as file:
            code = file.read()
    return Built(code, _monitor.COMPILED if report["compiled"] else _monitor.CACHE, time.perf_counter() - begin)


def source_of(fn, signature, constants, attributes):
    return ASTSource(fn, signature=signature, constexprs=constants, attrs=attributes)


def identity(text, facts):
    """What tells variants of a function apart: 16 digits that depend on nothing else."""
    return hashlib.sha256(("%s\0%s" % (text, json.dumps(facts, sort_keys=True))).encode()).hexdigest()[:16]


def renamed(text, title):
    """The IR of a kernel with another name than Triton gave it, which is its function's or that of @triton.jit(repr=...)."""
    shown = title if title.isidentifier() and title.isascii() else '"%s"' % title
    return re.sub(r'(tt\.func public @)"?[^"(]+"?\(', lambda found: "%s%s(" % (found[1], shown), text, count=1)
