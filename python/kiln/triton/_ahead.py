# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles kernels of Triton before anything is launched: those of given signatures (`export`), or those that a program would launch, which runs on tensors
without memory (`capture`). What is written has the keys that launches look for, so `load` finds it."""
import concurrent.futures
import contextlib
import functools
import itertools
import os
import tempfile
import typing

from triton.compiler import make_backend
from triton.language import str_to_ty
from triton.runtime import Autotuner, Heuristics, JITFunction
from triton.runtime.jit import KernelInterface, MockTensor, create_function_from_signature

from . import _bundles, _compilation, _index, _launcher
from .._core import Library
from .._suggest import did_you_mean
from ._devices import READ_FOR


class Variant(typing.NamedTuple):
    """A kernel that is wanted: its name, the facts of its key, and what gives its IR with the facts of its launch. `is_choice`: others may do in its place, as a
    tuner's configs may for each other."""
    name: str
    keys: dict
    read: object
    is_choice: bool


def _variant(source, options, read_for, is_choice):
    return Variant(source.fn.__name__, _index.facts_of(source, options, read_for), functools.partial(_compilation.triton_ir, source, options, read_for), is_choice)


def _write(variants, targets, output):
    """Compiles them into one bundle, and opens it. A choice that cannot be compiled is noted as such, unless there is no other."""
    targets = (targets,) if isinstance(targets, str) else tuple(targets)
    found, refused, seen, why = {}, {}, set(), None
    with concurrent.futures.ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as pool:
        begun = []
        for one in variants:
            keys = one.keys
            if _index.key_of(keys) in seen:
                continue
            seen.add(_index.key_of(keys))
            try:
                read = one.read()
            except _bundles.REFUSALS as error:
                if not one.is_choice:
                    raise
                refused[_index.key_of(keys)], why = (keys, str(error)), error
                continue
            begun.append((one, read, pool.submit(_compilation.compile_ir, *read, targets) if one.is_choice else None))
        for one, (text, launch), compiling in begun:
            try:
                if compiling:
                    compiling.result()
            except _bundles.REFUSALS as error:
                refused[_index.key_of(one.keys)], why = (one.keys, str(error)), error
                continue
            found.setdefault((one.name, _compilation.identity(text, launch)), (one.name, text, launch, []))[3].append(one.keys)
    if not found:
        raise why
    with tempfile.TemporaryDirectory(prefix="kiln-") as folder:
        path = os.path.join(folder, "all.kbundle") if output is None else os.fspath(output)
        _bundles.write(list(found.values()), targets, path, refused=refused)
        if output is not None:
            return Library(path)
        with open(path, "rb") as file:
            return Library(file.read())


# ------------------------------------------------------------------------------------------ export

_INTEGERS = (-1 << 63, -1 << 31, 1 << 31, 1 << 63, 1 << 64)  # where the type of an integer changes


def _examples(values):
    """Of a range, integers of every kind that it has: 16 in a row have all remainders."""
    values = values[::-1] if values.step < 0 else values
    found = [one for one in (0, 1) if one in values]
    for low, high in zip(_INTEGERS, _INTEGERS[1:]):
        first = max(0, -((values.start - low) // values.step))
        found += [one for one in values[first:first + 18] if one < high]
    return found


def _is_type(kind):
    """Whether Triton reads that as a parameter's type; "tensordesc<fp16[64, 64]>" as well."""
    try:
        return str_to_ty(kind, None) is not None
    except (KeyError, IndexError, TypeError):
        return False


def _kinds(fn, name, given, is_divisible, backend):
    """[(value, (type, promise))] of a parameter whose type is given, as a launch finds them; several of a range."""
    if isinstance(given, range):
        binder = create_function_from_signature(fn.signature, fn.params, backend)
        at, found = fn.arg_names.index(name), {}
        for value in _examples(given):
            _, specialization, _ = binder(**{**dict.fromkeys(fn.arg_names), name: value})
            found.setdefault(specialization[at], value)
        if not found:
            raise TypeError("%s: parameter '%s': %r has no integers of 64 bits" % (fn.__name__, name, given))
        return [(value, kind) for kind, value in found.items()]
    kind, _, promise = given.partition(":") if isinstance(given, str) else (given, "", "")
    if not _is_type(kind) or promise not in ("", "1", "16"):
        raise TypeError("%s: parameter '%s': %r is no type of Triton's, such as '*fp32', '*bf16', 'i32', 'fp32', '*fp32:16'" % (fn.__name__, name, given))
    if promise == "1":
        return [(1, ("constexpr", 1))]
    return [(None, (kind, "D" if promise or is_divisible else None))]


def _instances(fn, constants, options, configs):
    """(the function, its constants, the options, whether it is one of several) for each config of the tuners around a function; heuristics see constants."""
    if isinstance(fn, JITFunction):
        for config in configs or [None]:
            every = config.all_kwargs() if config is not None else {}
            yield (fn, {**constants, **{name: value for name, value in every.items() if name in fn.arg_names}},
                   {**options, **{name: value for name, value in every.items() if name not in fn.arg_names}}, len(configs) > 1)
    elif isinstance(fn, Autotuner):
        yield from _instances(fn.fn, constants, options, configs or fn.configs)
    elif isinstance(fn, Heuristics):
        for one, known, its, is_choice in _instances(fn.fn, constants, options, configs):
            for name, value_of in fn.values.items():
                try:
                    known = {**known, name: value_of({**its, **known})}
                except KeyError as missing:
                    raise TypeError("%s: the heuristic for '%s' reads %s, which has no value: give it among the constants" % (one.__name__, name, missing)) from None
            yield one, known, its, is_choice
    elif isinstance(fn, _launcher.Jit):
        yield from _instances(fn.fn, constants, options, configs)
    else:
        raise TypeError("expected a function of @triton.jit, found %s" % type(fn).__name__)


def _variants_of(fn, signature, constants, options, divisible, read_for):
    """[(source, options)] of one function with one set of constants, for each kind of its ranges."""
    defaults = {param.name: param.default for param in fn.params if param.has_default and param.name not in signature}
    constants = {**defaults, **constants}
    missing = [name for name in fn.arg_names if name not in signature and name not in constants]
    unknown = [name for name in (*signature, *constants, *divisible) if name not in fn.arg_names]
    if missing or unknown:
        raise TypeError("%s: %s" % (fn.__name__, "there is no parameter '%s'%s" % (unknown[0], did_you_mean(unknown[0], fn.arg_names)) if unknown else
                                    "parameter '%s' has neither a type nor a value" % missing[0]))
    backend = make_backend(read_for)
    kinds = [[(constants[name], ("constexpr", constants[name]))] if name in constants else _kinds(fn, name, signature[name], name in divisible, backend)
             for name in fn.arg_names]
    for each in itertools.product(*kinds):
        values, specialization = zip(*each) if each else ((), ())
        yield _source_of(fn, backend, dict(zip(fn.arg_names, values)), list(specialization), options)


def _source_of(fn, backend, bound, specialization, named):
    options, signature, constants, attributes = _launcher.pack(fn, backend, bound, specialization, named, named)
    return _compilation.source_of(fn, signature, constants, attributes), options


def _listed(given):
    return list(given) if isinstance(given, (list, tuple)) else [given]


def export(fn, signature, constexprs=None, targets=("host",), output=None, divisible=(), read_for=READ_FOR, configs=(), **options) -> Library:
    """Compiles a @triton.jit function ahead of time. `signature` says each parameter's type as Triton does ("*fp32", "i32", "tensordesc<fp16[64, 64]>"; with a
    promise "*fp32:16", "i32:1"), or gives the range of an integer, for which all kinds are compiled that a launch tells apart; `constexprs` the others' values,
    where they have no default. Both may be lists of such: all combinations are compiled. `divisible` names those that are promised to be divisible by 16, which
    a launch checks. `configs` are triton.Config; without any, those of the @triton.autotune around the function. `options` are those of a launch (num_warps,
    num_stages). The bundle is opened, and kept at `output`: load() finds its kernels for launches. One kernel has the function's name, several have their
    identity after it; none has a grid: launch it by kernel[grid](...)."""
    signatures, constants, divisible = _listed(signature), _listed(constexprs or {}), set(divisible)
    variants = [_variant(source, parsed, read_for, is_choice)
                for types, values in itertools.product(signatures, constants)
                for one, known, named, is_choice in _instances(fn, values, options, list(configs))
                for source, parsed in _variants_of(one, types, known, named, divisible, read_for)]
    if not variants:
        raise ValueError("expected at least one signature and one set of constants")
    return _write(variants, targets, output)


# ----------------------------------------------------------------------------------------- capture

class _Tensor(MockTensor):
    """What Triton asks of a tensor, of one that has no memory: where it begins in its storage decides its alignment."""

    def __init__(self, tensor):
        super().__init__(tensor.dtype, tensor.shape)
        self._begin, self._size = tensor.storage_offset() * tensor.element_size(), tensor.untyped_storage().nbytes()

    def data_ptr(self):
        return self._begin

    def ptr_range(self):
        return self._size


def _without_memory(value):
    if isinstance(value, tuple):
        parts = map(_without_memory, value)
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return _Tensor(value) if hasattr(value, "untyped_storage") else value


class _Recorder:
    def __init__(self, read_for):
        self.read_for, self.backend, self.variants = read_for, make_backend(read_for), []

    def record(self, fn, arguments, named, is_choice=False):
        """All variants that a launch may come to."""
        if isinstance(fn, Autotuner):
            fn.nargs = dict(zip(fn.arg_names, arguments))
            configs = fn.prune_configs(named) if len(fn.configs) > 1 else fn.configs
            for config in configs:
                if config.pre_hook is not None:  # gives descriptors of the host the tiles of the config
                    config.pre_hook({**fn.nargs, **named, **config.all_kwargs()})
                self.record(fn.fn, arguments, {**named, **config.all_kwargs()}, len(configs) > 1)
            fn.nargs = None
        elif isinstance(fn, Heuristics):
            for name, value_of in fn.values.items():
                named = {**named, name: value_of({**dict(zip(fn.arg_names, arguments)), **named})}
            self.record(fn.fn, arguments, named, is_choice)
        elif isinstance(fn, _launcher.Jit):
            self.record(fn.fn, arguments, named, is_choice)
        else:
            binder = create_function_from_signature(fn.signature, fn.params, self.backend)
            named = {name: _without_memory(value) for name, value in named.items()}
            bound, specialization, options = binder(*map(_without_memory, arguments), **named)
            self.variants.append(_variant(*_source_of(fn, self.backend, bound, specialization, options), self.read_for, is_choice))

    def record_compiled(self, name, keys, found):
        """What torch.compile asks for: each is one of several that it may launch."""
        def read():
            if isinstance(found, Exception):
                raise found
            return found
        self.variants.append(Variant(name, keys, read, True))

    @contextlib.contextmanager
    def instead_of_launches(self):
        def run(fn, *arguments, grid=None, warmup=False, stream=None, **named):
            self.record(fn, arguments, named)

        def launcher(fn, grid):
            return functools.partial(run, fn)
        theirs = [(owner, name, owner.__dict__.get(name)) for owner, name in (
            (KernelInterface, "__getitem__"), (_launcher.Jit, "__getitem__"), (JITFunction, "run"), (Autotuner, "run"), (Heuristics, "run"))]
        for owner, name, _ in theirs:
            setattr(owner, name, launcher if name == "__getitem__" else run)
        try:
            yield
        finally:
            for owner, name, value in theirs:
                setattr(owner, name, value)


def capture(program, *arguments, targets=("host",), output=None, read_for=READ_FOR, gpu=None) -> Library:
    """Runs program(*arguments) on PyTorch's fake tensors, which have no memory and need no GPU, and exports every kernel of @triton.jit that it would launch, with
    all configs of its tuners, and what torch.compile writes in it. Tensors among the arguments become fake; the program may make others, on "cuda" too. Each is
    compiled for `targets`, whatever its device. What torch.compile writes depends on properties of the GPU, such as the number of its multiprocessors: without one, on
    those that `gpu` has, named as torch.cuda.get_device_properties names them, or else on those of a usual GPU of the first target. A program that wants to know
    values of tensors cannot be run so. No other thread may launch meanwhile."""
    from torch import Tensor
    from torch._subclasses import FakeTensorMode
    from torch.utils._pytree import tree_map_only
    from . import _captured_compile, _patch
    targets = (targets,) if isinstance(targets, str) else tuple(targets)
    recorder = _Recorder(read_for)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    arguments = tree_map_only(Tensor, mode.from_tensor, arguments)
    with _patch.enabled(), _captured_compile.recorded(recorder.record_compiled, targets, gpu), mode, recorder.instead_of_launches():
        program(*arguments)
    if not recorder.variants:
        raise ValueError("the program launched no kernel of @triton.jit")
    return _write(recorder.variants, targets, output)
