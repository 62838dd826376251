# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A driver for Triton that makes the CPU its device if there is no GPU: what its tuner and programs need of a driver."""
import math
import statistics
import time
import types

from triton.backends import Backend, backends
from triton.backends.driver import DriverBase
from triton.compiler import make_backend
from triton.runtime import driver

from . import _devices
from ._devices import READ_FOR

_NAME = "cpu"  # among Triton's backends: PyTorch looks for that one
_INTERFACE = types.SimpleNamespace(
    Event=None, synchronize=lambda *_: None, current_device=lambda: 0, device_count=lambda: 1, is_available=lambda: True, set_device=lambda _: None,
    get_device_capability=lambda *_: divmod(READ_FOR.arch, 10), current_stream=lambda *_: types.SimpleNamespace(cuda_stream=0))
_PROPERTIES = {"max_shared_mem": 232448, "multiprocessor_count": 1, "max_num_regs": 65536, "warpSize": 32, "sm_clock_rate": 1, "mem_clock_rate": 1, "mem_bus_width": 1}


def _do_bench(call, warmup=25, rep=100, quantiles=None, return_mode="mean", **_):
    """Milliseconds of a call by the clock, as triton.testing.do_bench gives them."""
    times = []
    end = time.perf_counter() + rep / 1e3
    while len(times) < 3 or time.perf_counter() < end and len(times) < 100:
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    if quantiles is not None:
        return [_quantile(sorted(times), q) for q in quantiles]
    return {"all": list, "min": min, "max": max, "median": statistics.median}.get(return_mode, statistics.mean)(times)


def _quantile(times, q):
    """Of sorted times; between two of them in proportion."""
    at = q * (len(times) - 1)
    below = math.floor(at)
    return times[below] + (at - below) * (times[math.ceil(at)] - times[below])


class _HostCompiler:
    """Who asks Triton for the options that it has for the CPU, as PyTorch does, is told those of READ_FOR. Triton compiles nothing for it."""

    def __init__(self, _):
        self.parse_options = make_backend(READ_FOR).parse_options

    @staticmethod
    def supports_target(target):
        return target.backend == _NAME

    def hash(self):
        raise RuntimeError("Triton compiles nothing for the CPU")


class HostDriver(DriverBase):
    """What the CPU is to programs that ask Triton's driver. Kernels are read as for READ_FOR."""

    def __init__(self):
        self.utils = types.SimpleNamespace(get_device_properties=lambda _=0: dict(_PROPERTIES))
        self.launcher_cls = None

    @classmethod
    def is_active(cls):
        return not _devices.has_gpu()

    def map_python_to_cpp_type(self, ty):
        raise NotImplementedError("Kiln needs no types of C++")

    def get_current_target(self):
        return READ_FOR

    def get_current_device(self):
        return 0

    def get_current_stream(self, _=None):
        return 0

    def set_current_device(self, _):
        pass

    def get_device_capability(self, _=0):
        return divmod(READ_FOR.arch, 10)

    def get_active_torch_device(self):
        return _devices.cpu()

    def get_device_interface(self):
        return _INTERFACE

    def get_benchmarker(self):
        return _do_bench

    def get_empty_cache_for_benchmark(self):
        return bytearray(1 << 20)

    def clear_cache(self, cache):
        cache[:] = bytes(len(cache))


def activate():
    """Where there is a GPU, Triton's own driver stays. That is asked when a driver is first wanted: PyTorch imports Triton, and cannot answer so early."""
    backends.setdefault(_NAME, Backend(_HostCompiler, HostDriver))


def deactivate():
    if getattr(backends.get(_NAME), "driver", None) is HostDriver:
        del backends[_NAME]
    for name in ("_default", "_active"):
        if isinstance(getattr(driver, name), HostDriver):
            setattr(driver, name, None)
