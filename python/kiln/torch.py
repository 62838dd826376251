# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of bundles as operations of PyTorch.

    import kiln.torch
    ops = kiln.torch.register("app.kbundle", namespace="app")
    ops.saxpy(0.5, x, y, x.numel())        # torch.ops.app.saxpy

An operation has the parameters of its kernel: arrays are tensors, of which those that the kernel writes are mutated, but for those that the source states
the extents of (`@returns`): they are allocated and returned. `@backward` gives it derivatives. It runs on the device of its tensors and on PyTorch's current
stream. Operations have fake functions, so torch.compile and torch.export keep them in one graph.
"""
import ast
import functools
import os
import threading
import types

import torch

from . import Library, _torch_library
from ._core import Differentiable, Direct, Kernel, Operation, recorded_type, take_inference, thread_is_plain
from ._operations import ACCUM, Gradients, Interface, backward_of, is_array, operation_name, program_of, value_of

_SCALARS = {"i1": "bool", "f16": "float", "bf16": "float", "f32": "float", "f64": "float"}  # the other types are integers
_DTYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.float64: "f64", torch.bool: "i1", torch.int8: "i8", torch.uint8: "i8",
           torch.int16: "i16", torch.int32: "i32", torch.int64: "i64", torch.float8_e4m3fn: "e4m3", torch.float8_e5m2: "e5m2"}
_DTYPES.update((getattr(torch, name), scalar) for name, scalar in (("uint16", "i16"), ("uint32", "i32"), ("uint64", "i64")) if hasattr(torch, name))
_registered = {}  # by namespace: PyTorch forgets operations whose library is gone


TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64, "i1": torch.bool, "i8": torch.int8, "i16": torch.int16,
          "i32": torch.int32, "i64": torch.int64, "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
_EXTENTS = {"min": torch.sym_min, "max": torch.sym_max}


class _Interface(Interface):
    def __init__(self, kernel):
        super().__init__(kernel)
        place = {param.name: i for i, param in enumerate(self.taken)}
        # Extents that are parameters as they are, as most, are looked up by their place.
        self._made = [(torch.zeros if param.access == ACCUM else torch.empty, TYPES[param.scalar],
                       [place.get(one.id) if isinstance(one, ast.Name) else None for one in extents], extents) for param, extents in self.returned.values()]
        outputs = {name: i for i, name in enumerate(self.returned)}
        self._order = [(False, place[param.name]) if param.name in place else (True, outputs[param.name]) for param in self.params]

    def allocate(self, arguments):
        """The outputs in order; what the kernel adds to is zero."""
        device = arguments[self.arrays[0]].device
        found, given = [], None
        for make, dtype, places, extents in self._made:
            if None in places:
                given = given or {param.name: value for param, value in zip(self.taken, arguments)}
                shape = [value_of(one, given, _EXTENTS) for one in extents]
            else:
                shape = [arguments[at] for at in places]
            found.append(make(shape, dtype=dtype, device=device))
        return found

    def output_like(self, at, numbers, device):
        """Zeros as output `at` is for such numbers among the arguments."""
        _, dtype, _, extents = self._made[at]
        given = {param.name: value for param, value in zip(self.taken, numbers)}
        return torch.zeros([value_of(one, given, _EXTENTS) for one in extents], dtype=dtype, device=device)

    def call(self, operation):
        """What the dispatcher calls for `operation`: the extension, or where that has no room for so many arguments the function of Python."""
        place = {param.name: i for i, param in enumerate(self.taken)}
        outputs = tuple((_DTYPES[dtype], dtype, make is torch.zeros, tuple(program_of(one, place) for one in extents)) for make, dtype, _, extents in self._made)
        order = tuple(-1 - at if is_output else at for is_output, at in self._order)
        try:
            return Operation(operation.launch, operation.target, torch.empty_strided, len(self.taken), tuple(self.arrays), order, outputs)
        except ValueError:
            return operation.launch

    def in_order(self, arguments, outputs):
        """The kernel's arguments."""
        return [outputs[at] if is_output else arguments[at] for is_output, at in self._order]

    def schema(self):
        """The part of a schema after the name: "(float a, Tensor x, Tensor(a!) y, SymInt n, *, SymInt[]? grid=None) -> ()"."""
        letters, words = iter("abcdefghijklmnopqrstuvwxyz"), []
        for param in self.taken:
            if not is_array(param):
                kind = "SymInt" if param.depth else _SCALARS.get(param.scalar, "SymInt")
            elif param.access >= 2:
                letter = next(letters, None)
                if letter is None:
                    raise ValueError("a kernel that writes more than 26 arrays is no operation of PyTorch's")
                kind = "Tensor(%s!)" % letter
            else:
                kind = "Tensor"
            words.append("%s %s" % (kind, param.name))
        found = ", ".join("Tensor %s" % name for name in self.returned)
        return "(%s, *, SymInt[]? grid=None) -> %s" % (", ".join(words), "Tensor" if len(self.returned) == 1 else "(%s)" % found)


def _answer(outputs):
    """What an operation returns: nothing, a tensor, or several."""
    return None if not outputs else outputs[0] if len(outputs) == 1 else tuple(outputs)


def _device_name(device):
    """What Kiln calls a device of PyTorch."""
    if device.type == "cpu":
        return "host"
    if device.type == "cuda":
        return "%s:%d" % ("hip" if torch.version.hip else "cuda", device.index or 0)
    raise TypeError("expected tensors of the CPU or a GPU, found %s" % device)


# --------------------------------------------------------------------------------------- operations

class _Kernels:
    """The kernels of a library on the devices that they were asked for."""

    def __init__(self, library):
        self.library, self.devices = library, {}

    def on(self, device, name) -> Kernel:
        if device not in self.devices:
            self.devices[device] = self.library.device(_device_name(device))
        return self.devices[device].kernel(name)


class _Operation:
    """The operation of one kernel; `launch` and `fake` are its functions."""

    def __init__(self, kernels, interface):
        self.kernels, self.interface, self.found = kernels, interface, {}
        self.first = interface.arrays[0]
        self.call = interface.call(self)

    def of(self, _):
        return self

    def target(self, *arguments):
        """The kernel on the device of such arguments."""
        if arguments[self.first] is None:  # an undefined tensor of PyTorch's
            raise TypeError("%s: argument '%s': expected a tensor, found None" % (self.interface.name, self.interface.taken[self.first].name))
        device = arguments[self.first].device
        kernel = self.found.get(device)
        if kernel is None:
            kernel = self.found[device] = self.kernels.on(device, self.interface.name)
        return kernel

    def launch(self, *arguments, grid=None):
        kernel = self.target(*arguments)
        if not self.interface.returned:
            if grid is None:
                kernel(*arguments)
            else:
                kernel(*arguments, grid=grid)
            return None
        outputs = self.interface.allocate(arguments)
        kernel(*self.interface.in_order(arguments, outputs), grid=grid)
        return _answer(outputs)

    def fake(self, *arguments, grid=None):
        return _answer(self.interface.allocate(arguments)) if self.interface.returned else None


class _Choice:
    """An operation that stands for all instances of a kernel: the types of the tensors say which."""

    def __init__(self, title, operations):
        self.title, self.operations, self.found = title, operations, {}
        self.interface = operations[0].interface
        self.call = self.interface.call(self)

    def target(self, *arguments):
        return self.of(arguments).call

    def of(self, arguments):
        tensors = self.interface.arrays
        types = tuple(arguments[i].dtype for i in tensors)
        if types not in self.found:
            fitting = [one for one in self.operations if [one.interface.taken[i].scalar for i in tensors] == [_DTYPES.get(dtype) for dtype in types]]
            if len(fitting) != 1:
                given = ", ".join("%s: %s" % (self.interface.taken[i].name, dtype) for i, dtype in zip(tensors, types))
                raise TypeError("%s: expected tensors that one of its kernels takes, found %s, which %s takes; it has %s" %
                                (self.title, given, " and ".join(one.interface.name for one in fitting) or "none",
                                 ", ".join(one.interface.name for one in self.operations)))
            self.found[types] = fitting[0]
        return self.found[types]

    def launch(self, *arguments, grid=None):
        return self.of(arguments).launch(*arguments, grid=grid)

    def fake(self, *arguments, grid=None):
        return self.of(arguments).fake(*arguments, grid=grid) if self.interface.returned else None


# -------------------------------------------------------------------------------------- derivatives

class _Derivative(Gradients):
    """Of an operation by the operation of its backward kernel."""

    def __init__(self, forward, backward, call):
        super().__init__(forward, backward)
        self.call, self.forward = call, forward
        tensors = [(kind, at) for kind, at, _ in self.taken if kind == "output" or kind == "input" and at in forward.arrays]
        self.saved = tuple(at if kind == "input" else -1 - at for kind, at in tensors)
        self.fixed = tuple(-1 - at for at in range(len(forward.returned)) if at not in self.differentiable)

    def setup(self, ctx, inputs, output, keyword_only_inputs=None):
        """Keeps what kiln._core.Differentiable keeps. `keyword_only_inputs` has a grid, which is the forward's alone."""
        outputs = output if isinstance(output, tuple) else (output,)
        ctx.save_for_backward(*[inputs[at] if at >= 0 else outputs[-1 - at] for at in self.saved])
        ctx.kept = (*[None if isinstance(one, torch.Tensor) else one for one in inputs], *[inputs[at].dtype for at in self.wanted])
        ctx.mark_non_differentiable(*[outputs[-1 - at] for at in self.fixed])
        ctx.set_materialize_grads(False)

    def backward(self, ctx, *gradients):
        return self._gradients(ctx, gradients, range(len(self.forward.taken)))

    def backward_of_tensors(self, ctx, *gradients):
        """The same where the tensors alone were recorded."""
        return self._gradients(ctx, gradients, self.forward.arrays)

    def _gradients(self, ctx, gradients, inputs):
        tensors, arguments = iter(ctx.saved_tensors), []
        numbers, types = ctx.kept[:len(self.forward.taken)], dict(zip(self.wanted, ctx.kept[len(self.forward.taken):]))
        device = next((one.device for one in gradients if one is not None), None)
        if device is None:
            return (None,) * len(inputs)
        for kind, at, _ in self.taken:
            if kind == "gradient":
                arguments.append(self.forward.output_like(at, numbers, device) if gradients[at] is None else gradients[at].contiguous())
            else:
                arguments.append(next(tensors) if kind == "output" or numbers[at] is None else numbers[at])
        found = self.call(*arguments)
        found = found if isinstance(found, tuple) else (found,)
        # A gradient has its tensor's type; kernels add up in a wider one.
        return tuple(found[self.wanted[at]].to(types[at]) if at in self.wanted and ctx.needs_input_grad[i] else None for i, at in enumerate(inputs))


@functools.cache
def _recorded_type():
    return recorded_type(type(torch.autograd.Function))


class _Shortcut:
    """In place of the library with which PyTorch's register_autograd registers: where nothing but the device's code is below, the operation's function is
    taken at once, since going through the dispatcher again takes longer than the launch."""

    def __init__(self, target, operation, derivative=None):
        self.target, self.call, self.derivative, self.autograd = target, operation.call, derivative, None

    def impl(self, name, general, key, with_keyset):
        if isinstance(self.call, Operation):
            derivative, transforms = self.derivative, torch._C._are_functorch_transforms_active
            kept = (derivative.saved, derivative.fixed, tuple(derivative.wanted)) if derivative else ((), (), ())
            autograd = Differentiable(self.call, general, transforms, *kept)
            if derivative:
                recorded = _recorded_type()("Recorded", (torch.autograd.Function,),
                                            {"forward": staticmethod(autograd.forward), "backward": staticmethod(derivative.backward_of_tensors)})
                recorded._backward_cls = type("RecordedBackward", (recorded._backward_cls,), {"__slots__": ("kept",)})  # no dictionary a call
                autograd.record(recorded, super(torch.autograd.Function, recorded).apply)  # without what is for transforms alone
            general = self.autograd = autograd
        self.target.impl(name, general, key, with_keyset=with_keyset)


@functools.cache
def _thread_states_are_told():
    """Whether the extension can tell a thread that is as new ones are, or those in inference mode, from one under a mode: it reads what no header of
    PyTorch's promises."""
    answers = []

    def ask():
        answers.append(thread_is_plain())

    def ask_all():
        ask()
        with torch.inference_mode():
            ask()
            take_inference()
            ask()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                ask()
        for mode in (torch.autocast("cpu", dtype=torch.bfloat16), torch.overrides.BaseTorchFunctionMode(), torch.utils._python_dispatch.TorchDispatchMode()):
            with mode:
                ask()
        ask()

    asker = threading.Thread(target=ask_all)
    asker.start()
    asker.join()
    return answers == [True, False, True, False, False, False, False, True]


def _call_directly(packet, call, autograd):
    """Has torch.ops.NAMESPACE.NAME called without PyTorch's dispatcher where nothing is between it and the operation's function: its schema, stack of boxed
    values and look-up take longer than the launch. What the dispatcher alone knows (modes, transforms, tracing, a profiler) goes through it."""
    kind = type(packet)
    direct = Direct(call, autograd, types.MethodType(kind.__call__, packet))
    packet.__class__ = type(kind.__name__, (kind,), {"__call__": direct, "__slots__": (), "__module__": kind.__module__, "__qualname__": kind.__qualname__})


def _define(target, namespace, name, operation):
    target.define(name + operation.interface.schema(), tags=(torch.Tag.pt2_compliant_tag,))
    for key in ("CPU", "CUDA"):
        target.impl(name, operation.call, key)
    torch.library.register_fake("%s::%s" % (namespace, name), operation.fake, lib=target)


def _differentiate(target, namespace, name, operation, backward, backward_name):
    derivative = _Derivative(operation.interface, backward, getattr(getattr(torch.ops, namespace), backward_name))
    shortcut = _Shortcut(target, operation, derivative)
    torch.library.register_autograd("%s::%s" % (namespace, name), derivative.backward, setup_context=derivative.setup, lib=shortcut)
    return shortcut.autograd


def _refuse_to_differentiate(target, namespace, name, operation):
    """An operation that returns tensors and has no derivatives says so; PyTorch would leave its inputs without a gradient."""
    def backward(ctx, *_):
        raise NotImplementedError("%s::%s has no derivatives: its kernel names no kernel of them (@backward), or that is not among those registered" %
                                  (namespace, name))
    torch.library.register_autograd("%s::%s" % (namespace, name), backward, lib=_Shortcut(target, operation))


def _state_derivative(target, namespace, name, operation, backward, backward_name=None):
    """What records derivatives, if anything does."""
    interface = operation.interface
    if backward is not None:
        return _differentiate(target, namespace, name, operation, backward, backward_name or operation_name(backward.name))
    elif interface.returned and not any(param.access >= 2 and is_array(param) for param in interface.taken):
        # PyTorch wants no derivatives of operations that write into what they are given.
        _refuse_to_differentiate(target, namespace, name, operation)
    return None


def _operations(opened, library, namespace, kernels):
    """The operations of all kernels that take arrays, and those that choose among instances, by base name."""
    if isinstance(kernels, str):
        raise TypeError("kernels: expected a list of names, found the text %r" % (kernels,))
    nowhere, bases = library.device("null"), {}
    interfaces = [_Interface(nowhere.kernel(name)) for name in dict.fromkeys(library.kernels if kernels is None else kernels)]
    operations = {interface.name: _Operation(opened, interface) for interface in interfaces if interface.arrays}
    for name, operation in operations.items():
        if "[" in name:
            bases.setdefault(name.partition("[")[0], []).append(operation)
    return operations, {base: _Choice("%s::%s" % (namespace, base), instances) for base, instances in bases.items()
                        if base not in operations and len({one.interface.schema() for one in instances}) == 1}


def library(bundle, namespace, output, kernels=None, compiler=("cc",)):
    """Writes a shared library with the operations that register() makes of a bundle, for programs that have no Python, such as what AOTInductor compiled:
    torch.ops.load_library(output), or dlopen after libtorch. The bundle is in it. It wants a compiler of C and, where it runs, libkiln and PyTorch 2.10."""
    opened = Library(bundle)
    operations, choices = _operations(None, opened, namespace, kernels)
    stated = {operation_name(name): (one.interface.schema(), [name]) for name, one in operations.items()}
    stated.update({base: (one.interface.schema(), [its.interface.name for its in one.operations]) for base, one in choices.items()})
    text = _torch_library.source({name: one.interface for name, one in operations.items()}, stated, namespace, os.path.abspath(bundle),
                                 "hip" if torch.version.hip else "cuda")
    _torch_library.build(text, os.fspath(output), [compiler] if isinstance(compiler, str) else list(compiler),
                         os.path.join(os.path.dirname(torch.__file__), "lib"))


def _forget(namespace):
    """Takes the operations of a namespace from PyTorch, and what it remembers of them."""
    target, _ = _registered.pop(namespace)
    target._destroy()
    if namespace in torch.ops.__dict__:
        delattr(torch.ops, namespace)


def register(*sources, namespace, kernels=None, **options):
    """Registers kernels of bundles as torch.ops.NAMESPACE.*, and returns that. `sources` and `options` are those of kiln.Library, or one open Library;
    `kernels` names those that are wanted (all that take arrays). "saxpy" becomes `saxpy`; an instance "copy[T=f16]" becomes `copy__T_f16`, and `copy`
    takes the instance that the types of the tensors choose, where all have the same parameters. A namespace that was registered before gets the new operations
    in place of the former ones, as in a cell of a notebook that is run again; what torch.compile made of those is to be compiled again."""
    if not isinstance(namespace, str) or not namespace.isidentifier():
        raise ValueError("expected a name as namespace, found %r" % (namespace,))
    library = sources[0] if len(sources) == 1 and isinstance(sources[0], Library) else Library(*sources, **options)
    opened = _Kernels(library)
    operations, choices = _operations(opened, library, namespace, kernels)
    if namespace in _registered:
        _forget(namespace)
    target = torch.library.Library(namespace, "DEF")
    for name, operation in operations.items():
        _define(target, namespace, operation_name(name), operation)
    for base, choice in choices.items():
        _define(target, namespace, base, choice)
    interfaces, made = {one: its.interface for one, its in operations.items()}, []
    for name, operation in operations.items():
        title = operation_name(name)
        made.append((title, operation.call, _state_derivative(target, namespace, title, operation, backward_of(operation.interface, interfaces))))
    for base, choice in choices.items():
        backward = choices.get(choice.interface.backward) or operations.get(choice.interface.backward)
        made.append((base, choice.call, _state_derivative(target, namespace, base, choice, backward and backward.interface, choice.interface.backward)))
    _registered[namespace], found = (target, opened), getattr(torch.ops, namespace)
    if _thread_states_are_told():
        for name, call, autograd in made:
            if isinstance(call, Operation):
                _call_directly(getattr(found, name), call, autograd)
    return found
