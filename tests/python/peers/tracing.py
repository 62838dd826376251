# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs of suites that only read: Triton's IR of every kernel that a test launches is written to a folder, and nothing is compiled or run. What asks for an
NVIDIA GPU gets the CPU's memory and the answers of an H200. Results are nobody's, so comparisons say yes; run.py has the interpreter leave out asserts."""
import importlib
import importlib.util
import os
import types

import torch
from torch.overrides import TorchFunctionMode

H200 = types.SimpleNamespace(
    name="NVIDIA H200", major=9, minor=0, multi_processor_count=132, total_memory=140 << 30, warp_size=32, max_threads_per_multi_processor=2048,
    shared_memory_per_block=49152, shared_memory_per_block_optin=232448, regs_per_multiprocessor=65536, L2_cache_size=60 << 20, is_integrated=0)


def _is_gpu(value):
    return isinstance(value, str) and value.startswith("cuda") or isinstance(value, torch.device) and value.type == "cuda"


class _OnTheCpu(TorchFunctionMode):
    """Takes every device of CUDA's in calls of PyTorch for the CPU."""

    def __torch_function__(self, function, types, arguments=(), named=None):
        if getattr(function, "__name__", "") == "cuda":
            return arguments[0]
        arguments = [torch.device("cpu") if _is_gpu(value) else value for value in arguments]
        return function(*arguments, **{name: torch.device("cpu") if _is_gpu(value) else value for name, value in (named or {}).items()})


def pretend():
    """There is a GPU, whose memory is the CPU's."""
    from kiln.triton import _host_driver
    from triton.runtime import driver
    driver.set_active(_host_driver.HostDriver())
    nothing, stream = lambda *_, **__: None, types.SimpleNamespace(cuda_stream=0, synchronize=lambda: None)
    for name, value in {
        "is_available": lambda: True, "device_count": lambda: 1, "current_device": lambda: 0, "get_device_properties": lambda *_: H200, "get_device_name": lambda *_: H200.name,
        "get_device_capability": lambda *_: (9, 0), "is_bf16_supported": lambda *_: True, "synchronize": nothing, "empty_cache": nothing, "set_device": nothing,
        "current_stream": lambda *_: stream, "is_current_stream_capturing": lambda: False, "manual_seed_all": nothing, "manual_seed": nothing,
        "reset_peak_memory_stats": nothing, "max_memory_allocated": lambda *_: 0, "memory_allocated": lambda *_: 0, "mem_get_info": lambda *_: (140 << 30, 140 << 30),
    }.items():
        setattr(torch.cuda, name, value)
    _host_driver._PROPERTIES["multiprocessor_count"] = H200.multi_processor_count
    _OnTheCpu().__enter__()


def agree():
    """Comparisons of results that were not computed. Liger Kernel has its own."""
    torch.testing.assert_close = lambda *_, **__: None
    if importlib.util.find_spec("test.utils"):
        importlib.import_module("test.utils").assert_verbose_allclose = lambda *_, **__: None
    for name in ("allclose", "equal"):
        setattr(torch, name, lambda *_, **__: True)


def record(folder):
    """Kernels are read and written to `folder` as NAME-IDENTITY.ttir with the facts of their launch."""
    from kiln.triton import _autotune, _compilation, _launcher, _monitor
    from triton.runtime import Autotuner
    os.makedirs(folder, exist_ok=True)

    def read(self, fn, place, bound, signature, options, constants, _, keys, text, facts):
        self.fn, self.place, self.signature, self.constants, self.text, self.facts, self.keys = fn, place, signature, constants, text, facts, keys
        self.name, self.identity, self.plan, self._options = fn.__name__, _compilation.identity(text, facts), None, options
        self.counter = _monitor.row_of(_monitor.COMPILED, self.name, self.identity, place.target).counter()
        self.names = [name for name, kind in signature.items() if kind != "constexpr"]
        self.hash, self.src, self.asm, self.kernel = self.identity, fn, {"ttir": text}, None
        self.choice = types.SimpleNamespace(registers=64, shared_bytes=16384, spill_bytes=0)
        _compilation.write(folder, "%s-%s" % (self.name, self.identity), text, facts)

    def first_of_all(tuner, configs, arguments, named, _):
        for config in configs:
            _autotune._launch(tuner, config, arguments, named, lambda launch: launch())
        return configs[0]

    def bench(self, *arguments, config, **named):
        _autotune._launch(self, config, arguments, named, lambda launch: launch())
        return [1.0, 1.0, 1.0]
    _compilation.compile_ir = lambda *_, **__: _compilation.Built(b"", _monitor.COMPILED, 0.0)
    _launcher.Compiled.__init__ = read
    _launcher.Compiled.launch = lambda *_: None
    _launcher.Compiled._init_handles = lambda *_: None
    _autotune._measure = first_of_all
    Autotuner._bench = bench
