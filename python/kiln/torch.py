# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of bundles as operations of PyTorch.

    import kiln.torch
    ops = kiln.torch.register("app.kbundle", namespace="app")
    ops.saxpy(0.5, x, y, x.numel())        # torch.ops.app.saxpy

An operation has the parameters of its kernel: arrays are tensors, of which those that the kernel writes are mutated; it returns nothing. It runs on the
device of its tensors and on PyTorch's current stream. Operations have fake functions, so torch.compile and torch.export keep them in one graph.
"""
import re

import torch

from . import Library
from ._core import Kernel

_SCALARS = {"i1": "bool", "f16": "float", "bf16": "float", "f32": "float", "f64": "float"}  # the other types are integers
_DTYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.float64: "f64", torch.bool: "i1", torch.int8: "i8", torch.uint8: "i8",
           torch.int16: "i16", torch.int32: "i32", torch.int64: "i64", torch.float8_e4m3fn: "e4m3", torch.float8_e5m2: "e5m2"}
_DTYPES.update((getattr(torch, name), scalar) for name, scalar in (("uint16", "i16"), ("uint32", "i32"), ("uint64", "i64")) if hasattr(torch, name))
_registered = {}  # by namespace: PyTorch forgets operations whose library is gone


def _is_tensor(param):
    return param.rank > 0 or param.depth == 1


def _schema(params):
    """The part of a schema behind the name: "(float a, Tensor x, Tensor(a!) y, SymInt n, *, SymInt[]? grid=None) -> ()"."""
    letters, words = iter("abcdefghijklmnopqrstuvwxyz"), []
    for param in params:
        if not _is_tensor(param):
            kind = "SymInt" if param.depth else _SCALARS.get(param.scalar, "SymInt")
        elif param.access >= 2:
            letter = next(letters, None)
            if letter is None:
                raise ValueError("a kernel that writes more than 26 arrays is no operation of PyTorch's")
            kind = "Tensor(%s!)" % letter
        else:
            kind = "Tensor"
        words.append("%s %s" % (kind, param.name))
    return "(%s, *, SymInt[]? grid=None) -> ()" % ", ".join(words)


def _device_name(device):
    """What Kiln calls a device of PyTorch."""
    if device.type == "cpu":
        return "host"
    if device.type == "cuda":
        return "%s:%d" % ("hip" if torch.version.hip else "cuda", device.index or 0)
    raise TypeError("expected tensors of the CPU or a GPU, found %s" % device)


class _Kernels:
    """The kernels of a library on the devices that they were asked for."""

    def __init__(self, library):
        self.library, self.devices = library, {}

    def on(self, device, name) -> Kernel:
        if device not in self.devices:
            self.devices[device] = self.library.device(_device_name(device))
        return self.devices[device].kernel(name)


def _operation(kernels, name, params):
    """The function behind the operation of one kernel."""
    first = next(i for i, param in enumerate(params) if _is_tensor(param))
    found = {}

    def launch(*arguments, grid=None):
        device = arguments[first].device
        kernel = found.get(device)
        if kernel is None:
            kernel = found[device] = kernels.on(device, name)
        kernel(*arguments, grid=grid)

    return launch


def _choice(kernels, title, instances):
    """The function behind an operation that stands for all instances of a kernel: the types of the tensors say which."""
    params = next(iter(instances.values()))
    tensors = [i for i, param in enumerate(params) if _is_tensor(param)]
    found = {}

    def choose(arguments):
        types = [_DTYPES.get(arguments[i].dtype) for i in tensors]
        fitting = [name for name, its in instances.items() if [its[i].scalar for i in tensors] == types]
        if len(fitting) != 1:
            given = ", ".join("%s: %s" % (params[i].name, arguments[i].dtype) for i in tensors)
            raise TypeError("%s: expected tensors that one of its kernels takes, found %s, which %s takes; it has %s" %
                            (title, given, " and ".join(fitting) or "none", ", ".join(instances)))
        return kernels.on(arguments[tensors[0]].device, fitting[0])

    def launch(*arguments, grid=None):
        key = (arguments[tensors[0]].device, *[arguments[i].dtype for i in tensors])
        kernel = found.get(key)
        if kernel is None:
            kernel = found[key] = choose(arguments)
        kernel(*arguments, grid=grid)

    return launch


def _fake(*_, **__):
    """What an operation does to tensors without memory: nothing, since it returns nothing."""


def _define(target, namespace, name, params, function):
    target.define(name + _schema(params), tags=(torch.Tag.pt2_compliant_tag,))
    for key in ("CPU", "CUDA"):
        target.impl(name, function, key)
    torch.library.register_fake("%s::%s" % (namespace, name), _fake, lib=target)


def operation_name(kernel):
    """The operation of one instance: "copy__T_bf16" of "copy[T=bf16]"."""
    base, _, constants = kernel.partition("[")
    return base + ("__" + re.sub(r"\W+", "_", constants).strip("_") if constants else "")


def register(*sources, namespace, kernels=None, **options):
    """Registers kernels of bundles as torch.ops.NAMESPACE.*, and returns that. `sources` and `options` are those of kiln.Library, or one open Library;
    `kernels` names those that are wanted (all that take arrays). "saxpy" becomes `saxpy`; an instance "copy[T=f16]" becomes `copy__T_f16`, and `copy`
    takes the instance that the types of the tensors choose, where all have the same parameters."""
    if not namespace.isidentifier():
        raise ValueError("expected a name as namespace, found %r" % (namespace,))
    if namespace in _registered:
        raise ValueError("the namespace '%s' is registered already" % namespace)
    library = sources[0] if len(sources) == 1 and isinstance(sources[0], Library) else Library(*sources, **options)
    names = list(dict.fromkeys(library.kernels if kernels is None else kernels))
    nowhere = library.device("null")
    params = {name: nowhere.kernel(name).params for name in names}
    params = {name: its for name, its in params.items() if any(map(_is_tensor, its))}
    target, opened, bases = torch.library.Library(namespace, "DEF"), _Kernels(library), {}
    for name, its in params.items():
        _define(target, namespace, operation_name(name), its, _operation(opened, name, its))
        if "[" in name:
            bases.setdefault(name.partition("[")[0], {})[name] = its
    for base, instances in bases.items():
        if base not in params and len({_schema(its) for its in instances.values()}) == 1:
            its = next(iter(instances.values()))
            _define(target, namespace, base, its, _choice(opened, "%s::%s" % (namespace, base), instances))
    _registered[namespace] = (target, opened)
    return getattr(torch.ops, namespace)
