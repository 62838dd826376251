# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of bundles in programs of JAX, by XLA's foreign function interface.

    import kiln.jax
    y, rstd = kiln.jax.call("norms.kbundle", "rms_norm", x, w, *x.shape, 1e-5)

A call takes what the kernel takes: arrays, which may be traced, and numbers, which are fixed when the program is traced. It returns what the source states
(`@returns`), then a new array for each that the kernel writes of those it was given. `@backward` gives it derivatives. It works under jit, grad and vmap (one
call after another), and in shard_map on each device's part; XLA gives sharded arrays to it as a whole.
"""
import os

import jax
import jax.numpy as jnp
import numpy as np

from . import Library
from ._core import Kernel, _xla_call, _xla_targets
from ._operations import ACCUM, Gradients, Interface, backward_of, check_count, is_array
from ._errors import NoVariant

_DTYPES = {"f32": ("float32",), "f16": ("float16",), "bf16": ("bfloat16",), "f64": ("float64",), "i1": ("bool",), "i8": ("int8", "uint8"), "i16": ("int16", "uint16"),
           "i32": ("int32", "uint32"), "i64": ("int64", "uint64"), "e4m3": ("float8_e4m3fn",), "e5m2": ("float8_e5m2",)}
_EXTENTS = {"min": min, "max": max}
_TARGET = "kiln"


def _register():
    host, gpu = _xla_targets()
    jax.ffi.register_ffi_target(_TARGET, host, platform="cpu")
    for platform in ("CUDA", "ROCM"):
        jax.ffi.register_ffi_target(_TARGET, gpu, platform=platform)


_register()


class Bundle:
    """Open bundles for programs of JAX; they stay open, since nobody knows when the last program is gone."""

    def __init__(self, *sources, **options):
        self._library = Library(*sources, **options)
        nowhere = self._library.device("null")
        self.interfaces = {name: Interface(nowhere.kernel(name)) for name in dict.fromkeys(self._library.kernels)}
        self._kernels, self._calls = {}, {}

    def interface(self, name, arguments):
        """Of the kernel, or of the instance that the types of the arrays choose."""
        if name in self.interfaces:
            return self.interfaces[name]
        instances = [one for title, one in self.interfaces.items() if title.partition("[")[0] == name]
        if not instances:
            self._library.device("null").kernel(name)  # says what there is
        if all(len(one.taken) != len(arguments) for one in instances):
            check_count(name, instances[0].taken, arguments)
        fitting = [one for one in instances if len(one.taken) == len(arguments) and
                   all(_fits(one.taken[i], arguments[i]) for i in one.arrays)]
        if len(fitting) != 1:
            raise TypeError("%s: expected arrays that one of its instances takes, found %s, which %s takes; it has %s" % (
                name, ", ".join(str(one.dtype) for one in arguments if hasattr(one, "dtype")), " and ".join(one.name for one in fitting) or "none",
                ", ".join(one.name for one in instances)))
        return fitting[0]

    def _on(self, platform, name):
        """For each device of a platform, by its number: the kernel, or why there is none."""
        if (platform, name) not in self._kernels:
            self._kernels[platform, name] = tuple(self._on_device(device, is_ours, name) for device, is_ours in _devices(platform))
        return self._kernels[platform, name]

    def _on_device(self, device, is_ours, name):
        try:
            return self._library.device(device).kernel(name) if is_ours else NoVariant("%s: %s is not one of this process's GPUs" % (name, device), 17)
        except NoVariant as error:
            return error

    def calls(self, name, values, grid):
        """What the functions for the host and for GPUs want handed over: 0 where there is no code."""
        key = name, tuple(map(repr, values)), grid
        if key not in self._calls:
            places = [self._on(platform, name) for platform in ("host", "gpu")]
            usable = [any(isinstance(one, Kernel) for one in kernels) for kernels in places]
            if not any(usable):
                raise next(one for kernels in places for one in kernels)
            told = [tuple(one if isinstance(one, Kernel) else str(one) for one in kernels) for kernels in places]
            self._calls[key] = [_xla_call(kernels, tuple(values), grid) if is_usable else 0 for kernels, is_usable in zip(told, usable)]
        return self._calls[key]


def _devices(platform):
    """Names by number, and whether they are this process's."""
    if platform == "host":
        return [("host", True)]
    try:
        devices = jax.local_devices(backend="gpu")
    except RuntimeError:
        return []
    kind = "hip" if "rocm" in devices[0].client.platform_version.lower() else "cuda"
    ours = {device.local_hardware_id for device in devices}
    return [("%s:%d" % (kind, i), i in ours) for i in range(max(ours) + 1)]


_opened = {}  # by path: what of the file tells it from another one, and the bundle
_former = []  # which programs may still call


def _bundle(source):
    """A file that was replaced since, as by a cell of a notebook that builds it again, is opened again; programs that are compiled keep the former."""
    if isinstance(source, Bundle):
        return source
    path = os.path.abspath(source)
    try:
        of = os.stat(path)
        mark = of.st_dev, of.st_ino, of.st_size, of.st_mtime_ns
    except OSError:  # gone: what is open serves on
        mark = _opened[path][0] if path in _opened else None
    if path not in _opened or _opened[path][0] != mark:
        bundle = Bundle(path)
        if path in _opened:
            _former.append(_opened[path][1])
        _opened[path] = mark, bundle
    return _opened[path][1]


def _fits(param, array):
    return str(getattr(array, "dtype", "")) in _DTYPES[param.scalar] and (not param.rank or array.ndim == param.rank)


def _number(value):
    """A scalar as one of Python, but what only its unsigned type can hold, whose bits are meant."""
    number, dtype = value.item(), np.dtype(value.dtype)
    return dtype.type(number) if dtype.kind == "u" and number >> (8 * dtype.itemsize - 1) else number


def _check(interface, arguments):
    """The arguments with arrays of NumPy as those of JAX."""
    check_count(interface.name, interface.taken, arguments)
    checked = []
    for param, value in zip(interface.taken, arguments):
        title = "%s: argument '%s' (%s): " % (interface.name, param.name, param.type)
        if not is_array(param):
            if isinstance(value, jax.core.Tracer):
                raise TypeError(title + "expected a number, found a traced value; numbers are fixed when the program is traced (static_argnums)")
            checked.append(_number(value) if isinstance(value, (np.generic, np.ndarray, jax.Array)) else value)
            continue
        if not isinstance(value, (jax.Array, np.ndarray)):
            raise TypeError(title + "expected an array, found %s" % type(value).__name__)
        if isinstance(value, np.ndarray):
            value = jnp.asarray(value)
        if str(value.dtype) not in _DTYPES[param.scalar]:
            raise TypeError(title + "expected elements of type %s, found %s" % (param.scalar, value.dtype))
        if param.rank and value.ndim != param.rank:
            raise TypeError(title + "expected an array of rank %d, found shape %s" % (param.rank, tuple(value.shape)))
        checked.append(value)
    return checked


def _launch(bundle, interface, arguments, grid):
    """The outputs as a tuple: those that are returned, then those that are written."""
    shapes = interface.shapes(arguments, _EXTENTS)
    results = [jax.ShapeDtypeStruct(shape, _DTYPES[param.scalar][0]) for param, shape in shapes.values()]
    buffers = [arguments[i] for i in interface.arrays]
    of_inputs = {interface.taken[i].name: number for number, i in enumerate(interface.arrays)}
    aliases = {}
    for number, (param, shape) in enumerate(shapes.values()):
        if param.access == ACCUM:
            aliases[len(buffers)] = number
            buffers.append(jnp.zeros(shape, _DTYPES[param.scalar][0]))
    for i in interface.arrays:
        if interface.taken[i].access >= 2:
            aliases[of_inputs[interface.taken[i].name]] = len(results)
            results.append(jax.ShapeDtypeStruct(arguments[i].shape, arguments[i].dtype))
    numbers = dict(of_inputs)
    numbers.update({name: len(buffers) + number for number, name in enumerate(shapes)})
    given = {param.name: value for param, value in zip(interface.taken, arguments)}
    values = [numbers.get(param.name, given.get(param.name)) for param in interface.params]
    host, gpu = bundle.calls(interface.name, values, grid)
    run = jax.ffi.ffi_call(_TARGET, results, vmap_method="sequential", input_output_aliases=aliases)
    return tuple(run(*buffers, host=np.int64(host), gpu=np.int64(gpu)))


def _with(arguments, places, arrays):
    """The arguments with other arrays."""
    arguments = list(arguments)
    for i, array in zip(places, arrays):
        arguments[i] = array
    return arguments


def _differentiable(bundle, interface, arguments, grid):
    """The call as a function of its arrays, with its derivatives, or saying that there are none."""
    places = interface.arrays
    backward = backward_of(interface, bundle.interfaces)
    gradients = backward and Gradients(interface, backward)

    @jax.custom_vjp
    def run(*arrays):
        return _launch(bundle, interface, _with(arguments, places, arrays), grid)

    def forward(*arrays):
        if gradients is None:
            raise NotImplementedError("%s has no derivatives: its kernel names no kernel of them (@backward), or the bundle lacks that" % interface.name)
        outputs = run(*arrays)
        return outputs, (arrays, outputs)

    def back(saved, cotangents):
        arrays, outputs = saved
        inputs = _with(arguments, places, arrays)
        sources = {"input": inputs, "output": outputs, "gradient": cotangents}
        found = _launch(bundle, backward, [sources[kind][at] for kind, at, _ in gradients.taken], None)
        return tuple(found[gradients.wanted[i]].astype(arrays[number].dtype) if i in gradients.wanted else None for number, i in enumerate(places))
    run.defvjp(forward, back)
    return run


def call(source, kernel, *arguments, grid=None):
    """Calls a kernel of a bundle: its path, which is opened once, or a kiln.jax.Bundle. `kernel` may be the name of several instances ("rms_norm"), of which
    the types of the arrays choose one. The grid is the kernel's own unless given. Returns an array, or a tuple of arrays."""
    bundle = _bundle(source)
    interface = bundle.interface(kernel, arguments)
    arguments = _check(interface, arguments)
    grid = grid if grid is None or isinstance(grid, int) else tuple(grid)
    found = _differentiable(bundle, interface, arguments, grid)(*[arguments[i] for i in interface.arrays])
    return found[0] if len(found) == 1 else found
