# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of bundles as functions of tvm-ffi, which programs in every language of the process call by name.

    import kiln.tvm_ffi
    kiln.tvm_ffi.register("app.kbundle", namespace="app")
    tvm_ffi.get_global_func("app.saxpy")(0.5, x, y, n)

A function takes what its kernel takes, in order: tensors, of which it writes into those that the kernel writes, and numbers. It runs on the device of its
tensors, on the stream that tvm-ffi has for that.
"""
import tvm_ffi

from . import Library
from ._operations import check_count, is_array, operation_name

_TYPES = {"bool": "i1", "int8": "i8", "uint8": "i8", "int16": "i16", "uint16": "i16", "int32": "i32", "uint32": "i32", "int64": "i64", "uint64": "i64",
          "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}
_KINDS = {"cpu": "host", "cuda": "cuda:%d", "rocm": "hip:%d"}


class _Function:
    """One kernel on the devices that it was asked for on."""

    def __init__(self, library, kernel):
        self.library, self.name, self.params, self.kernels = library, kernel.name, kernel.params, {}
        self.arrays = [i for i, param in enumerate(kernel.params) if is_array(param)]

    def _kernel(self, device):
        if device.type not in _KINDS:
            raise TypeError("%s: expected tensors of the CPU or a GPU, found %s" % (self.name, device))
        name = _KINDS[device.type] % (device.index,) if "%" in _KINDS[device.type] else _KINDS[device.type]
        return self.library.device(name).kernel(self.name)

    def __call__(self, *arguments):
        check_count(self.name, self.params, arguments)
        first = arguments[self.arrays[0]]
        if not isinstance(first, tvm_ffi.Tensor):
            raise TypeError("%s: argument '%s': expected a tensor, found %s" % (self.name, self.params[self.arrays[0]].name, type(first).__name__))
        device = first.device
        key = device.type, device.index
        if key not in self.kernels:
            self.kernels[key] = self._kernel(device)
        stream = None if device.type == "cpu" else tvm_ffi.get_raw_stream(device)
        self.kernels[key](*arguments, stream=stream)


class _Choice:
    """A function that stands for all instances of a kernel: the types of the tensors say which."""

    def __init__(self, title, functions):
        self.title, self.functions = title, {tuple(one.params[i].scalar for i in one.arrays): one for one in functions}
        self.arrays = functions[0].arrays

    def __call__(self, *arguments):
        instances = list(self.functions.values())
        if all(len(one.params) != len(arguments) for one in instances):
            check_count(self.title, instances[0].params, arguments)
        types = tuple(_TYPES.get(str(getattr(arguments[i], "dtype", None))) for i in self.arrays if i < len(arguments))
        if types not in self.functions:
            raise TypeError("%s: expected tensors that one of its kernels takes, found %s; it has %s" % (
                self.title, ", ".join(str(getattr(one, "dtype", type(one).__name__)) for one in arguments), ", ".join(one.name for one in instances)))
        return self.functions[types](*arguments)


_ours = set()  # names that this module registered


def register(*sources, namespace, override=False, **options):
    """Registers the kernels of bundles that take arrays as global functions NAMESPACE.NAME, and gives their names. `sources` and `options` are those of
    kiln.Library, or one open Library. An instance "copy[T=f16]" is `copy__T_f16`; `copy` takes the instance that the types of the tensors choose. What was
    registered here before is replaced, what others registered with `override` alone."""
    library = sources[0] if len(sources) == 1 and isinstance(sources[0], Library) else Library(*sources, **options)
    nowhere, found, bases = library.device("null"), {}, {}
    for name in dict.fromkeys(library.kernels):
        function = _Function(library, nowhere.kernel(name))
        if function.arrays:
            found[operation_name(name)] = function
            if "[" in name:
                bases.setdefault(name.partition("[")[0], []).append(function)
    for base, instances in bases.items():
        if base not in found and len({tuple(one.arrays) for one in instances}) == 1:
            found[base] = _Choice(base, instances)
    names = []
    for name, function in found.items():
        names.append("%s.%s" % (namespace, name))
        tvm_ffi.register_global_func(names[-1], function.__call__, override=override or names[-1] in _ours)
        _ours.add(names[-1])
    return names
