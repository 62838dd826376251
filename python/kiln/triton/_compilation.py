# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles a @triton.jit function: to its IR with Triton, then to code with Kiln."""
import hashlib
import json
import os
import tempfile
import threading

from triton._C.libtriton import ir
from triton.compiler import ASTSource, make_backend
from triton.runtime.errors import PTXASError

from .._compiler import build, compile as _compile
from .._core import Library
from .._errors import Error

FACTS = ("num_warps", "num_stages", "maxnreg", "enable_fp_fusion", "num_ctas")  # of a launch, beside the IR


parsing = threading.RLock()  # ast.parse of CPython 3.11 fails where several threads are in it


class NotCompiled(Error, PTXASError):
    """Kiln does not compile a kernel. Triton's tuner takes it for an error of the assembler and passes the config over."""

    def __init__(self, text, number=0):
        Error.__init__(self, text, number)

    __str__ = Error.__str__


def triton_ir(fn, signature, constexprs, attributes, options, target):
    """Text of the kernel in Triton's IR, and the facts of its launch."""
    backend = make_backend(target)
    options = backend.parse_options(dict(options))
    source = ASTSource(fn, signature=signature, constexprs=constexprs, attrs=attributes)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    with parsing:
        module = source.make_ir(target, options, backend.get_codegen_implementation(options), backend.get_module_map(), context)
    facts = {name: getattr(options, name) for name in FACTS if getattr(options, name, None) is not None}
    return str(backend.make_ttir(module, {}, options, target.arch)), dict(facts, backend=target.backend)


def write(folder, name, text, facts):
    """The two files that the compiler reads; the path of the first."""
    path = os.path.join(folder, name + ".ttir")
    with open(path, "w") as file:
        file.write(text)
    with open(os.path.join(folder, name + ".json"), "w") as file:
        json.dump(facts, file, sort_keys=True)
    return path


def compile_ir(text, facts, targets, output=None, arguments=()) -> Library:
    with tempfile.TemporaryDirectory(prefix="kiln-") as folder:
        path = write(folder, "kernel", text, facts)
        try:
            return _compile(path, targets=targets, output=output, arguments=arguments)
        except Error as error:
            raise NotCompiled(str(error), error.number) from None


def identity(text, facts):
    """What tells variants of a function apart: 16 digits that depend on nothing else."""
    return hashlib.sha256(("%s\0%s" % (text, json.dumps(facts, sort_keys=True))).encode()).hexdigest()[:16]


def bundle(variants, targets, output):
    """One bundle of variants: (name of the function, text, facts). Those of functions with one variant keep its name, the others have some of their
    identity behind it: add[0123456789ab]."""
    with tempfile.TemporaryDirectory(prefix="kiln-") as folder:
        for _, text, facts in variants:
            at = os.path.join(folder, identity(text, facts))
            os.makedirs(at, exist_ok=True)
            write(at, "kernel", text, facts)
        build([folder], targets, output, command="import-triton")
    return Library(output)
