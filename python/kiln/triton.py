# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of Triton, compiled by Kiln. Triton reads the Python (3.6, no GPU needed); from its IR on everything is Kiln's.

    kiln.triton.export(fn, {"x": "*fp32", "n": "i32"}, {"BLOCK": 128}, targets=["sm_90a", "host"], output="app.kbundle")

    @kiln.triton.jit
    @triton.jit
    def add(x, y, z, n, BLOCK: tl.constexpr): ...
    add[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, z, n, BLOCK=128)
"""
import copy
import functools
import json
import os
import tempfile

import triton
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend
from triton.runtime import Autotuner, Heuristics, JITFunction
from triton.runtime.jit import create_function_from_signature

from ._compiler import compile as _compile
from ._core import Library

_FACTS = ("num_warps", "num_stages", "maxnreg", "enable_fp_fusion", "num_ctas")  # of a launch, beside the IR
READ_FOR = GPUTarget("cuda", 80, 32)  # what Triton's front end is told where the kernel is for the host


def _triton_ir(fn, signature, constexprs, attributes, options, target):
    """Text of the kernel in Triton's IR, and the facts of its launch."""
    backend = make_backend(target)
    options = backend.parse_options(dict(options))
    source = ASTSource(fn, signature=signature, constexprs=constexprs, attrs=attributes)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    module = source.make_ir(target, options, backend.get_codegen_implementation(options), backend.get_module_map(), context)
    facts = {name: getattr(options, name) for name in _FACTS if getattr(options, name, None) is not None}
    return str(backend.make_ttir(module, {}, options, target.arch)), dict(facts, backend=target.backend)


def _build(text, facts, targets, output=None) -> Library:
    with tempfile.TemporaryDirectory(prefix="kiln-") as folder:
        path = os.path.join(folder, "kernel.ttir")
        with open(path, "w") as file:
            file.write(text)
        with open(os.path.join(folder, "kernel.json"), "w") as file:
            json.dump(facts, file)
        return _compile(path, targets=targets, output=output)


def export(fn, signature, constexprs=None, targets=("host",), output=None, divisible=(), read_for=READ_FOR, **options) -> Library:
    """Compiles a @triton.jit function ahead of time. `signature` says each parameter's type as Triton does ("*fp32", "i32"); `constexprs` the others'
    values; `divisible` names those that are promised to be divisible by 16, which a launch checks. `options` are those of a launch (num_warps,
    num_stages). The bundle is opened, and kept at `output`. Its kernel has the function's name and no grid: launch it by kernel[grid](...)."""
    if not isinstance(fn, JITFunction):
        raise TypeError("expected a function of @triton.jit, found %s" % type(fn).__name__)
    constexprs = dict(constexprs or {})
    missing = [name for name in fn.arg_names if name not in signature and name not in constexprs]
    unknown = [name for name in (*signature, *constexprs, *divisible) if name not in fn.arg_names]
    if missing or unknown:
        raise TypeError("%s: %s" % (fn.__name__, "parameter '%s' has neither a type nor a value" % missing[0] if missing else
                                    "there is no parameter '%s'" % unknown[0]))
    whole = {name: "constexpr" if name in constexprs else signature[name] for name in fn.arg_names}
    attributes = {(fn.arg_names.index(name),): [["tt.divisibility", 16]] for name in divisible}
    return _build(*_triton_ir(fn, whole, constexprs, attributes, options, read_for), targets, output)


def _place_of(arguments):
    """(Kiln's device, what Triton's front end is told, the target to compile for), by the first tensor."""
    device = next((value.device for value in arguments if hasattr(value, "data_ptr")), None)
    if device is None or device.type == "cpu":
        return "host", READ_FOR, "host"
    import torch
    index = device.index or 0
    properties = torch.cuda.get_device_properties(index)
    if torch.version.hip:
        arch = properties.gcnArchName.split(":")[0]
        return "hip:%d" % index, GPUTarget("hip", arch, properties.warp_size), arch
    arch = 10 * properties.major + properties.minor
    return "cuda:%d" % index, GPUTarget("cuda", arch, 32), "sm_%d%s" % (arch, "a" if arch >= 90 else "")


class Jit:
    """A @triton.jit function that Kiln compiles at its first call with arguments of a kind. What is told apart is what Triton tells apart: its own
    binder specialises (types, divisibility by 16, ones, constants, options). `launches` counts, `variants` are what was compiled."""

    def __init__(self, fn):
        self.fn, self.launches, self.variants = fn, 0, {}
        self._binders = {}
        functools.update_wrapper(self, fn.fn)

    def __getitem__(self, grid):
        return functools.partial(self.run, grid=grid)

    def __call__(self, *_, **__):
        raise TypeError("%s: a kernel is launched with a grid: %s[grid](...)" % (self.fn.__name__, self.fn.__name__))

    def _variant(self, place, bound, specialization, options, given, binder):
        device, target, code = place
        options, signature, constexprs, attributes = self.fn._pack_args(binder[0], given, bound, specialization, options)
        odd = next((name for name, kind in signature.items() if not isinstance(kind, str) or kind.startswith("tensordesc")), None)
        if odd:
            raise TypeError("%s: argument '%s': expected a tensor or a number, found %s" % (self.fn.__name__, odd, type(bound[odd]).__name__))
        options = {name: value for name, value in vars(options).items() if name in _FACTS}
        text, facts = _triton_ir(self.fn, signature, constexprs, attributes, options, target)
        kernel = _build(text, facts, (code,)).device(device).kernel(self.fn.__name__)
        passed = [name for name, kind in signature.items() if kind != "constexpr"]
        names = [param.name for param in kernel.params]
        if len(names) != len(passed):
            raise TypeError("%s: expected parameters %s, found %s" % (self.fn.__name__, passed, names))
        return kernel, passed

    def run(self, *arguments, grid, warmup=False, stream=None, **named):
        """Triton's way to launch; `warmup` only compiles."""
        place = _place_of((*arguments, *named.values()))
        binder = self._binders.get(place[0])
        if binder is None:
            backend = make_backend(place[1])
            binder = self._binders[place[0]] = backend, create_function_from_signature(self.fn.signature, self.fn.params, backend)
        named.setdefault("debug", False)
        bound, specialization, options = binder[1](*arguments, **named)
        key = (place[0], str(specialization), str(sorted(options.items())))
        variant = self.variants.get(key)
        if variant is None:
            variant = self.variants[key] = self._variant(place, bound, specialization, options, named, binder)
        kernel, passed = variant
        if warmup:
            kernel.preload()
            return kernel
        extents = grid(bound) if callable(grid) else grid
        kernel(*[bound[name] for name in passed], grid=tuple(int(extent) for extent in (extents if hasattr(extents, "__iter__") else (extents,))),
               stream=stream)
        self.launches += 1
        return kernel


def jit(fn):
    """Puts Kiln behind a @triton.jit function, unchanged, also under @triton.heuristics."""
    if isinstance(fn, JITFunction):
        return Jit(fn)
    if isinstance(fn, Heuristics):
        wrapped = copy.copy(fn)
        wrapped.fn = jit(fn.fn)
        return wrapped
    what = "@triton.autotune, which Kiln does not tune yet" if isinstance(fn, Autotuner) else type(fn).__name__
    raise TypeError("expected a function of @triton.jit (Triton %s), found %s" % (triton.__version__, what))
