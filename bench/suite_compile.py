# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles what the cases of suite_cases.py launch, by Kiln and by Triton, without a GPU: the cases run on tensors without memory, and every launch is noted with
its arguments instead. Used by bench/triton_suites.py."""
import contextlib
import dis
import functools
import json
import math
import multiprocessing
import os
import sys
import time
import types
import typing
from unittest import mock

import torch
import triton
from torch._subclasses import FakeTensor, FakeTensorMode
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.autograd.graph import _engine_run_backward
from torch.overrides import TorchFunctionMode
from triton.backends.compiler import GPUTarget
from triton.runtime import Autotuner, Heuristics, JITFunction, driver
from triton.runtime.jit import KernelInterface, create_function_from_signature

from kiln.triton import _absent_gpu, _ahead, _compilation, _index, _launcher

TARGET, ARCH = GPUTarget("cuda", 90, 32), "sm_90a"
H100 = _absent_gpu.properties_of(ARCH)


# ----------------------------------------------------------------------------------- without a GPU

class _Device(TorchFunctionMode):
    """Tensors on the CPU that say they are on CUDA's first device, so that autograd runs here."""

    @staticmethod
    def _on_the_cpu(value):
        is_gpu = isinstance(value, str) and value.startswith("cuda") or isinstance(value, torch.device) and value.type == "cuda"
        return torch.device("cpu") if is_gpu else value

    def __torch_function__(self, function, types, arguments=(), named=None):
        if function == torch.Tensor.is_cuda.__get__:
            return True
        if function == torch.Tensor.data_ptr:
            return 1 << 20
        if function in (torch.Tensor.item, torch.Tensor.__int__, torch.Tensor.__bool__):
            try:
                return function(*arguments)
            except DataDependentOutputException:  # how many labels count, how many tiles there are, whether labels are in their range
                return function == torch.Tensor.__bool__ or 1024
        if function is torch.equal:
            return False
        if function is torch.prod and hasattr(arguments[0], "written"):
            return math.prod(arguments[0].written)
        if function is torch.Tensor.masked_select:  # as if all were
            return arguments[0].flatten()
        if function is torch.device:
            return function(*arguments, **(named or {}))
        found = function(*map(self._on_the_cpu, arguments), **{name: self._on_the_cpu(value) for name, value in (named or {}).items()})
        if function is torch.tensor and isinstance(arguments[0], (list, tuple)):
            found.written = arguments[0]
        return found


def _device_of(theirs):
    """Programs that read the property are told of a GPU; PyTorch itself, also within a call of such a program, gets the truth."""
    def device(tensor):
        frame = sys._getframe(1)
        code, at = frame.f_code, frame.f_lasti
        name = code.co_names[code.co_code[at + 1] >> (sys.version_info >= (3, 12))] if dis.opname[code.co_code[at]] == "LOAD_ATTR" else ""
        return torch.device("cuda", 0) if name == "device" and not frame.f_globals["__name__"].startswith("torch.") else theirs.__get__(tensor)
    return property(device)


def _backward(tensors, gradients=None):
    """As PyTorch's own, which leaves what a mode says of functions aside."""
    tensors, gradients = ((one,) if isinstance(one, torch.Tensor) else tuple(one) for one in (tensors, gradients))
    _engine_run_backward(tensors, gradients, False, False, (), allow_unreachable=True, accumulate_grad=True)


def gradients_of(results, inputs, gradients):
    return _engine_run_backward(tuple(results), tuple(gradients), False, False, tuple(inputs), True, accumulate_grad=False)


class _Driver:
    """What programs ask of Triton's driver."""
    utils = types.SimpleNamespace(get_device_properties=lambda _=0: {
        "multiprocessor_count": H100.multi_processor_count, "max_num_regs": 65536, "max_shared_mem": 232448, "warpSize": 32, "max_threads_per_sm": 2048})

    def get_current_target(self):
        return TARGET

    def get_current_device(self):
        return 0

    def get_active_torch_device(self):
        return torch.device("cuda", 0)


@contextlib.contextmanager
def without_memory():
    """Inside, tensors have no memory, and there is an H100 as far as programs ask."""
    with _absent_gpu.pretended(H100), mock.patch.object(driver, "_active", _Driver()), FakeTensorMode(allow_non_fake_inputs=True), _Device(), \
            mock.patch.object(torch.cuda, "get_device_properties", lambda *_: H100), mock.patch.object(FakeTensor, "device", _device_of(FakeTensor.device)), \
            mock.patch.object(torch.autograd, "backward", _backward):
        yield


class _Warm:
    """What a program asks of a kernel that it has compiled but not launched."""
    n_regs, n_spills, metadata = 32, 0, types.SimpleNamespace(shared=16384, num_warps=4)

    def __init__(self, launch):
        self._launch = launch

    def _init_handles(self):
        pass

    def __getitem__(self, grid):
        return self._launch


class Launch:
    """A kernel with its arguments: `tensors` are {parameter: (storage, bytes)}; `variants` the numbers of what it may be, several where a tuner chooses."""

    def __init__(self, name, tensors, variants):
        self.name, self.tensors, self.variants = name, tensors, variants


def _bytes_of(tensor):
    """Of the elements that a tensor has, each counted once."""
    count = 1
    for size, stride in zip(tensor.shape, tensor.stride()):
        count *= size if stride else 1
    return count * tensor.element_size()


class Recorder(_ahead._Recorder):
    """Notes launches. A variant is kept once, with its source and options as Triton's own compiler takes them."""

    def __init__(self):
        super().__init__(TARGET)
        self.by_key, self.sources, self.launches = {}, [], []

    def record(self, fn, arguments, named, is_choice=False):
        if isinstance(fn, Autotuner):
            fn.best_config = fn.configs[0]  # programs ask for it
        if not isinstance(fn, JITFunction):
            return super().record(fn, arguments, named, is_choice)
        binder = create_function_from_signature(fn.signature, fn.params, self.backend)
        bound, specialization, options = binder(*map(_ahead._without_memory, arguments), **{name: _ahead._without_memory(value) for name, value in named.items()})
        source, options = _ahead._source_of(fn, self.backend, bound, specialization, options)
        key = _index.key_of(_index.facts_of(source, options, TARGET))
        if key not in self.by_key:
            self.by_key[key] = len(self.sources)
            self.sources.append((source, options))
        self.seen.append(self.by_key[key])

    @contextlib.contextmanager
    def instead_of_launches(self):
        def launcher(fn, grid):
            return functools.partial(self.run, fn)
        with contextlib.ExitStack() as stack:
            for owner in (KernelInterface, _launcher.Jit):
                stack.enter_context(mock.patch.object(owner, "__getitem__", launcher))
            for owner in (JITFunction, Autotuner, Heuristics):
                stack.enter_context(mock.patch.object(owner, "run", lambda fn, *arguments, **named: self.run(fn, *arguments, **named)))
            yield

    def run(self, fn, *arguments, grid=None, warmup=False, stream=None, **named):
        self.seen, its = [], fn
        while not isinstance(its, JITFunction):
            its = its.fn
        self.record(fn, arguments, named)
        tensors = {}
        for name, value in [*zip(its.arg_names, arguments), *named.items()]:
            value = getattr(value, "base", value)
            if isinstance(value, torch.Tensor):
                tensors[name] = (value.untyped_storage()._cdata, _bytes_of(value))
        launch = Launch(its.__name__, tensors, self.seen)
        if warmup:
            return _Warm(lambda *_: self.launches.append(launch))
        self.launches.append(launch)
        return None


# ---------------------------------------------------------------------------------------- plan

def _tensors(results):
    return [one for one in (results if isinstance(results, (tuple, list)) else [results]) if isinstance(one, torch.Tensor)]


def record(cases):
    """({title: {"forward": launches, "backward": launches}}, {title: why not}, the recorder)."""
    recorder, plan, failed = Recorder(), {}, {}
    with without_memory(), recorder.instead_of_launches():
        for case in cases:
            recorder.launches = forward = []
            try:
                call = case.make()
                results = [one for one in _tensors(call.run()) if one.requires_grad]
                recorder.launches = backward = []
                if call.differentiable() and results:
                    gradients_of(results, call.differentiable(), [torch.empty_like(one) for one in results])
                plan[case.title] = {"forward": forward, "backward": backward}
            except Exception as error:  # of a program on tensors without memory anything may come
                failed[case.title] = "%s: %s" % (type(error).__name__, str(error)[:500])
    return plan, failed, recorder


class Compiled(typing.NamedTuple):
    """What became of a variant: its IR with the facts of its launch, what it took in seconds, and why it was not compiled."""
    text: str
    facts: dict
    kiln_s: float
    triton_s: float
    kiln_error: str
    triton_error: str


_sources = []  # of the processes that are forked


def _compile(number):
    source, options = _sources[number]
    text, facts, errors, seconds = "", {}, ["", ""], [0.0, 0.0]

    def kiln():
        nonlocal text, facts
        text, facts = _compilation.triton_ir(source, options, TARGET)
        _compilation.compile_ir(text, facts, (ARCH,))
    for who, job in enumerate((kiln, lambda: triton.compile(source, target=TARGET, options=vars(options)))):
        begin = time.perf_counter()
        try:
            job()
        except Exception as error:
            errors[who] = "%s: %s" % (type(error).__name__, str(error)[:500])
        seconds[who] = time.perf_counter() - begin
    return Compiled(text, facts, *seconds, *errors)


def compile_all(recorder, jobs, say):
    """[Compiled] of all variants, which are then in the caches of both."""
    _sources[:] = recorder.sources
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        found = []
        for number, one in enumerate(pool.imap(_compile, range(len(_sources)), 4)):
            found.append(one)
            if number % 50 == 49:
                say("%d of %d variants are compiled" % (number + 1, len(_sources)))
    return found


def write_bundle(recorder, compiled, path):
    """A bundle of what Kiln compiled, found by launches by their keys."""
    variants = []
    for (source, options), one in zip(recorder.sources, compiled):
        if not one.kiln_error:
            variants.append(_ahead.Variant(source.fn.__name__, _index.facts_of(source, options, TARGET), lambda one=one: (one.text, one.facts), True))
    return _ahead._write(variants, (ARCH,), path)


READ, WRITTEN, ADDED = 1, 2, 4


def bytes_of(launch, keys, entries, device):
    """Bytes that a launch has to move, once for what it reads and once for what it writes, as far as its tensors tell."""
    known = next((entries[keys[one]][0] for one in launch.variants if keys[one] in entries), None)
    if known is None:
        return 0
    found = {}
    for param in device.kernel(known).params:
        if param.name in launch.tensors:
            storage, size = launch.tensors[param.name]
            access = READ | WRITTEN if param.access == ADDED else param.access
            before = found.get(storage, (0, 0))
            found[storage] = (max(before[0], size), before[1] | access)
    return sum(size * bin(access & 3).count("1") for size, access in found.values())


def prepare(cases, folder, jobs, say):
    """Compiles for all cases; writes FOLDER/kernels.kbundle and FOLDER/plan.json."""
    os.environ.update(TRITON_CACHE_DIR=os.path.join(folder, "triton"), KILN_CACHE_DIR=os.path.join(folder, "kiln"))
    plan, failed, recorder = record(cases)
    say("%d cases, %d variants of kernels, %d cases cannot be run without memory" % (len(plan), len(recorder.sources), len(failed)))
    compiled = compile_all(recorder, jobs, say)
    path = os.path.join(folder, "kernels.kbundle")
    device = write_bundle(recorder, compiled, path).device("null:" + ARCH)
    keys, (entries, _, _) = list(recorder.by_key), _index.read(path)
    rows = {title: {part: [{"name": one.name, "bytes": bytes_of(one, keys, entries, device), "variants": one.variants} for one in launches] for part, launches in its.items()}
            for title, its in plan.items()}
    variants = [{"name": source.fn.__name__, "kiln_s": one.kiln_s, "triton_s": one.triton_s, "kiln_error": one.kiln_error, "triton_error": one.triton_error}
                for (source, _), one in zip(recorder.sources, compiled)]
    with open(os.path.join(folder, "plan.json"), "w") as file:
        json.dump({"cases": rows, "failed": failed, "variants": variants}, file)
    for title, why in failed.items():
        say("%s: not compiled ahead: %s" % (title, why))
    say("%d variants are compiled by neither" % sum(bool(one["kiln_error"] and one["triton_error"]) for one in variants))
    for number, one in enumerate(variants):
        for who, other in ("kiln", "triton"), ("triton", "kiln"):
            if one[who + "_error"] and not one[other + "_error"]:
                say("%d %s: not compiled by %s: %s" % (number, one["name"], who, one[who + "_error"][:200].replace("\n", " ")))
