# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The CPU as a device of Triton's, where there is no GPU: what its tuner and programs ask of a driver."""
import time
import types

import torch
from triton.backends.driver import DriverBase
from triton.runtime import driver

from ._reading import READ_FOR

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
    found = torch.tensor(times)
    if quantiles is not None:
        return [torch.quantile(found, q).item() for q in quantiles]
    return {"all": lambda: times, "min": found.min, "max": found.max, "median": found.median}.get(return_mode, found.mean)()


class HostDriver(DriverBase):
    """What the CPU is to programs that ask Triton's driver. Kernels are read as for READ_FOR."""

    def __init__(self):
        self.utils = types.SimpleNamespace(get_device_properties=lambda _=0: dict(_PROPERTIES))
        self.launcher_cls = None

    @classmethod
    def is_active(cls):
        return not torch.cuda.is_available()

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
        return torch.device("cpu")

    def get_device_interface(self):
        return _INTERFACE

    def get_benchmarker(self):
        return _do_bench

    def get_empty_cache_for_benchmark(self):
        return torch.empty(1 << 20, dtype=torch.int8)

    def clear_cache(self, cache):
        cache.zero_()


def activate():
    """Where there is a GPU, Triton's own driver stays."""
    if HostDriver.is_active() and not isinstance(driver._active, HostDriver):
        driver.set_active(HostDriver())
